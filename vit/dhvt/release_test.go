// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dhvt

import (
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/nn"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
)

const releaseSet = "official_dhvt_wepe"

type releaseMeta struct {
	Config struct {
		Image    int     `json:"img_size"`
		Patch    int     `json:"patch_size"`
		Classes  int     `json:"num_classes"`
		Width    int     `json:"embed_dim"`
		Depth    int     `json:"depth"`
		Heads    int     `json:"num_heads"`
		MLPRatio float64 `json:"mlp_ratio"`
		G3       float64 `json:"wef_g3"`
	}
	TermsUnit  [][2]float64                             `json:"terms_kept_omega1_1"`
	TermsOmega [][2]float64                             `json:"terms_kept_omega1_2p622"`
	FullSize   map[string]struct{ Total, Position int } `json:"full_size_parameters"`
}

// releasedPositions is the position encoding of the release's DHVT: a sum over the listed terms of a lattice, then an
// MLP. It is no part of the library, whose encoding is another function; it shows that the rest of the model is theirs.
type releasedPositions struct {
	meta       releaseMeta
	rows, cols int
	weights    map[string]*Node // by the name in the release

	z, p, pPrime, features *Node // [patches, 2] twice three, [patches, 4]
	vectors                *Node // [1+patches, width]
}

// pair is a complex tensor.
type pair struct{ re, im *Node }

func (a pair) sub(b pair) pair { return pair{Sub(a.re, b.re), Sub(a.im, b.im)} }
func (a pair) mul(b pair) pair {
	return pair{Sub(Mul(a.re, b.re), Mul(a.im, b.im)), Add(Mul(a.re, b.im), Mul(a.im, b.re))}
}
func (a pair) inverse() pair {
	n := Add(Square(a.re), Square(a.im))
	return pair{Div(a.re, n), Neg(Div(a.im, n))}
}
func (a pair) clip(bound float64) pair {
	return pair{ClipScalar(a.re, -bound, bound), ClipScalar(a.im, -bound, bound)}
}
func (a pair) stack() *Node { return Stack([]*Node{a.re, a.im}, -1) }

func (r *releasedPositions) build(g *Graph) {
	omega1, terms := 2.62205755429212, r.meta.TermsOmega
	if r.meta.Config.G3 != 0 {
		omega1, terms = 1, r.meta.TermsUnit
	}
	n := r.rows * r.cols
	x, y := make([]float32, n), make([]float32, n)
	for i := range n {
		x[i] = float32((float64(i%r.cols) + 0.5) / float64(r.cols) * 2 * omega1 * 0.4)
		y[i] = float32((float64(i/r.cols) + 0.5) / float64(r.rows) * 2 * 0.4)
	}
	// softplus(x) = log(1 + exp(x)); the clamps of ω3′ and α_scale are far from the fixture's values.
	scalar := func(name string) *Node { return Reshape(r.weights[name]) }
	omega3 := Log1P(Exp(scalar("alpha_learn")))
	z := pair{Const(g, x), Mul(Const(g, y), omega3)} // [patches]
	inv := z.inverse()
	p := inv.mul(inv)
	pPrime := p.mul(inv)
	p0, pPrime0 := p, pair{MulScalar(pPrime.re, -2), MulScalar(pPrime.im, -2)}
	for _, mn := range terms {
		w := complex(2*mn[0]*omega1, 2*mn[1]*omega1)
		inv := z.sub(pair{Scalar(g, z.re.DType(), real(w)), Scalar(g, z.re.DType(), imag(w))}).inverse()
		square := inv.mul(inv)
		cube := square.mul(inv)
		term := pair{AddScalar(square.re, -real(1/(w*w))), AddScalar(square.im, -imag(1/(w*w)))}.clip(1e3)
		termPrime := pair{MulScalar(cube.re, -2), MulScalar(cube.im, -2)}.clip(1e3)
		p0 = pair{Add(p0.re, term.re), Add(p0.im, term.im)}
		pPrime0 = pair{Add(pPrime0.re, termPrime.re), Add(pPrime0.im, termPrime.im)}
	}
	p, pPrime = p0.clip(5e3), pPrime0.clip(5e3)
	r.z, r.p, r.pPrime = z.stack(), p.stack(), pPrime.stack()
	values := Stack([]*Node{p.re, p.im, pPrime.re, pPrime.im}, -1) // [patches, 4]
	r.features = Tanh(Mul(Exp(scalar("log_alpha_scale")), values))

	weight := func(name string) *Node { return r.weights["projection."+name] }
	linear := func(layer string, x *Node) *Node {
		return Add(MatMul(x, Transpose(weight(layer+".weight"), 0, 1)), InsertAxes(weight(layer+".bias"), 0))
	}
	norm := func(layer string, x *Node) *Node {
		return nn.LayerNorm(x, []int{-1}, 1e-5, weight(layer+".weight"), weight(layer+".bias"), nil)
	}
	h := norm("1", linear("0", r.features))
	if weight("4.weight") != nil {
		h = norm("5", linear("4", activation.Gelu(h)))
	}
	class := r.weights["cls_pos_embedding"] // [1, 1, width]
	rows := Concatenate([]*Node{Reshape(class, 1, class.Shape().Dim(-1)), h}, 0)
	r.vectors = Mul(rows, scalar("pos_scale"))
}

func TestEveryStageAndGradientEqualsTheReleasedDHVT(t *testing.T) {
	fixtures.Each(t, testEveryStageAndGradientEqualsTheReleasedDHVT)
}

func testEveryStageAndGradientEqualsTheReleasedDHVT(t *testing.T) {
	var meta releaseMeta
	fixtures.JSON(t, releaseSet, "meta.json", &meta)
	m := meta.Config
	c := Config{Config: vit.Config{
		ImageRows: m.Image, ImageCols: m.Image, PatchSize: m.Patch, Width: m.Width, Depth: m.Depth, Heads: m.Heads,
		MLPDim: int(m.MLPRatio * float64(m.Width)), Classes: m.Classes, Epsilon: 1e-5,
	}}.WithDefaults()
	f := load(t, releaseSet, "model.safetensors")
	f.model(c)
	const positionPrefix = "pos_encoding."
	for name, x := range f.Tensors {
		if short, ok := strings.CutPrefix(name, positionPrefix); ok && !strings.HasPrefix(short, "wef.") {
			f.Set("release/"+short, f.Get(name).Data, x.Shape...)
		}
	}
	f.AllUsed("", positionPrefix+"wef.") // constants of the lattice
	want := load(t, releaseSet, "tensors.safetensors")

	var names, grads []string
	got := run(t, f.Store, func(s *model.Scope, in []*Node) []*Node {
		g := in[0].Graph()
		positions := releasedPositions{meta: meta, rows: c.Rows(), cols: c.Cols(), weights: map[string]*Node{}}
		for v := range s.Store().IterVariables() {
			if short, ok := strings.CutPrefix(v.Path(), "/dhvt/release/"); ok {
				positions.weights[short] = v.NodeValue(g)
			}
		}
		positions.build(g)
		logits, nodes := c.staged(s.In("dhvt"), in[0], positions.vectors)
		nodes["pos.z"], nodes["pos.wp"], nodes["pos.wpp"] = positions.z, positions.p, positions.pPrime
		nodes["pos.features"], nodes["pos_encoding"] = positions.features, positions.vectors
		var outputs, weights []*Node
		for name := range want.Tensors {
			if short, ok := strings.CutPrefix(name, "grad."+positionPrefix); ok {
				grads, weights = append(grads, name), append(weights, positions.weights[short])
				continue
			}
			if strings.HasPrefix(name, "images_") || strings.HasPrefix(name, "g30.") || name == "upstream" {
				continue // the module of g30 stands alone: no part of this model
			}
			node, ok := nodes[name]
			if !ok {
				t.Errorf("stage %q of the fixture is not compared", name)
				continue
			}
			names, outputs = append(names, name), append(outputs, node)
		}
		return append(outputs, Gradient(ReduceAllSum(Mul(logits, in[1])), weights...)...)
	}, gomlxtest.Input(want.Get("images_nhwc")), gomlxtest.Input(want.Get("upstream")))
	for i, name := range names {
		tol := 1e-4 // README: tokens and logits
		if strings.HasPrefix(name, "pos.") {
			tol = 1e-5
		}
		gomlxtest.Near(t, name, got[i], want.Get(name).Data, tol)
	}
	for i, name := range grads {
		gomlxtest.Near(t, name, got[len(names)+i], want.Get(name).Data, 1e-3)
	}
	if len(names) < 10 || len(grads) < 8 {
		t.Errorf("%d stages and %d gradients compared, want all of the fixture's", len(names), len(grads))
	}
}

// releasedModel is the full-size model of a row of the release's parameter counts, README of the fixture.
var releasedModels = map[string]struct {
	width, heads int
	projection   string
}{
	"main_script":        {224, 4, "mlp"},
	"class_defaults":     {192, 3, "linear"},
	"class_defaults_mlp": {192, 3, "mlp"},
}

func TestFullSizeParameterCountsEqualTheReleasedOnes(t *testing.T) {
	fixtures.Each(t, testFullSizeParameterCountsEqualTheReleasedOnes)
}

func testFullSizeParameterCountsEqualTheReleasedOnes(t *testing.T) {
	var meta releaseMeta
	fixtures.JSON(t, releaseSet, "meta.json", &meta)
	for name, want := range meta.FullSize {
		released, ok := releasedModels[name]
		if !ok {
			t.Errorf("the fixture counts an unknown model %q", name)
			continue
		}
		c := Config{Config: vit.Config{
			ImageRows: 224, ImageCols: 224, PatchSize: 16, Width: released.width, Depth: 12, Heads: released.heads,
			Classes: 100,
		}}.WithDefaults()
		if got := c.Parameters(); got != want.Total-want.Position {
			t.Errorf("%s: %d parameters without positions, want %d", name, got, want.Total-want.Position)
		}
		c.Position = "wepe"
		if got := c.Parameters(); released.projection == "linear" && got != want.Total {
			t.Errorf("%s: %d parameters, want %d", name, got, want.Total)
		}
		store := model.NewStore()
		store.SetParam("/wepe_projection", released.projection)
		run(t, store, func(s *model.Scope, in []*Node) []*Node {
			return []*Node{c.Encoders(s.In("dhvt")).Additive.Encode(in[0].Graph())}
		}, float32(0))
		if got := trainable(store); got != want.Position {
			t.Errorf("%s: %d parameters of the position encoding, want %d", name, got, want.Position)
		}
	}
}

// trainable counts the trainable numbers of a model in a store.
func trainable(store *model.Store) (n int) {
	for v := range store.IterVariables() {
		if v.Trainable && strings.HasPrefix(v.Path(), "/dhvt/") {
			n += v.Shape().Size()
		}
	}
	return n
}
