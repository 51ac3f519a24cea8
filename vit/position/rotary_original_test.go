// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
)

func TestMixedFrequenciesBeginAsRopeViTs(t *testing.T) { fixtures.Each(t, testMixedFrequencies) }

func testMixedFrequencies(t *testing.T) {
	var meta struct {
		Config struct {
			Width int     `json:"embed_dim"`
			Heads int     `json:"num_heads"`
			Theta float64 `json:"rope_theta"`
		}
		Tolerance map[string]float64
	}
	fixtures.JSON(t, "rope_mixed", "meta.json", &meta)
	want := fixtures.Tensors(t, "rope_mixed", "tensors.safetensors")
	for name, directions := range map[string][]float64{"init.freqs": want["init.angles"].Data,
		"init.freqs_norotate": make([]float64, meta.Config.Heads)} {
		got := mixedFrequencies(directions, meta.Config.Width/meta.Config.Heads, meta.Config.Theta)
		gomlxtest.NearAbs(t, name, got, want[name].Data, meta.Tolerance["angles_abs"])
	}
}

// rope-vit's init_random_2d_freqs draws a direction for each head, rand·2π.
func TestMixedFrequenciesBeginInAllDirections(t *testing.T) {
	c := small("rope-mixed")
	c.Width, c.Heads = 2520, 630
	store := gomlxtest.Seeded(t, 5)
	c.on(store.Scope("/vit"))
	f := gomlxtest.Values(t, store.GetVariable("/vit/position/rope_mixed/block_00/frequencies").MustValue())
	var quarters [4]float64
	for h := range c.Heads { // [2 (x, y), heads, 2]
		quarters[int(2+math.Atan2(f[2*(c.Heads+h)], f[2*h])/(math.Pi/2))%4]++
	}
	mean := float64(c.Heads) / 4 // of a binomial distribution, within four standard deviations
	gomlxtest.NearAbs(t, "directions", quarters[:], []float64{mean, mean, mean, mean}, 4*math.Sqrt(mean*3/4))
}

// The draws differ from torch's: their mean and spread must match the formulas of the set's README.
func TestFoPECoefficientsBeginSpreadAsTheAuthors(t *testing.T) {
	for _, heads := range []int{1, 3} {
		// 14·14 patches, θ = 10000: frequencies 10000^(-i/32) >= 2π/196 are those with i <= 11.
		const n = 12
		c := named{Config{Grid: Grid{Rows: 14, Cols: 14, Prefix: 1}, Width: 64 * heads, Depth: 10, Heads: heads}, "fope"}
		store := gomlxtest.Seeded(t, 3)
		c.on(store.RootScope())
		var drawn []float64
		for v := range store.IterVariables() {
			if !strings.HasSuffix(v.Name(), "_coefficients") {
				continue
			}
			is.Equal(t, v.Path()+" [heads, frequencies, pairs]", v.Shape().Dimensions, []int{heads, n, n})
			for i, x := range gomlxtest.Values(t, v.MustValue()) {
				if i/n%n == i%n {
					x--
				}
				drawn = append(drawn, x)
			}
		}
		gomlxtest.Spreads(t, fmt.Sprint(heads), drawn, 0.3*math.Sqrt(2/float64((n+heads)*n)))
	}
}

// With fewer pairs than frequencies the ones are at every second frequency.
func TestFoPECoefficientsAreSpreadOverAllFrequencies(t *testing.T) {
	gomlxtest.NearAbs(t, "[5 frequencies, 3 pairs]", fopeCoefficients(rand.New(rand.NewPCG(1, 2)), 1, 5, 3, 0),
		[]float64{1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1}, 0)
}

// The first and the last period are those given, of any size, and the others between them geometric.
func TestDINOv3PeriodsAreGeometric(t *testing.T) {
	near := func(rope dinoRope, want ...float64) {
		gomlxtest.NearAbs(t, fmt.Sprint(rope), rope.periods(len(want)), want, 1e-12)
	}
	near(dinoRope{shortest: 3, longest: 7}, 3)
	near(dinoRope{theta: 49}, 1, 7) // the next is θ
	near(dinoRope{theta: 100, shortest: 0.2, longest: 0.05}, 0.2, 0.1, 0.05)
}

func TestEveryGridEqualsDINOv3(t *testing.T) { fixtures.Each(t, testEveryGridEqualsDINOv3) }

func testEveryGridEqualsDINOv3(t *testing.T) {
	var meta struct {
		Config struct {
			HeadDim   int     `json:"head_dim"`
			Heads     int     `json:"num_heads"`
			Prefix    int     `json:"prefix_tokens"`
			Base      float64 `json:"base"`
			Shortest  float64 `json:"min_period"`
			Longest   float64 `json:"max_period"`
			Normalize string  `json:"normalize_coords"`
		}
		Grids      [][2]int `json:"grids_h_w"`
		NormGrid   [2]int   `json:"normalisation_grid"`
		AugmentsOf [2]int   `json:"aug_grid"`
		Tolerance  map[string]float64
	}
	fixtures.JSON(t, "rope_dinov3", "meta.json", &meta)
	want := fixtures.Tensors(t, "rope_dinov3", "tensors.safetensors")
	m := meta.Config
	ofWave, ofTurned := meta.Tolerance["cos_sin_abs"], meta.Tolerance["rot_abs"]
	of := func(grid [2]int) named {
		g := Grid{Rows: grid[0], Cols: grid[1], Prefix: m.Prefix}
		return named{Config{Grid: g, Width: m.Heads * m.HeadDim, Heads: m.Heads}, "rope-dinov3"}
	}
	near := func(name string, got []float64, tol float64) {
		t.Helper()
		gomlxtest.NearAbs(t, name, got, want[name].Data, tol)
	}
	// waves compares the cosines and sines of patches.
	waves := func(prefix string, c named, cosSin [][]float64) {
		for i, name := range []string{"cos_out", "sin_out"} {
			near(prefix+name, cosSin[i][c.Prefix*len(cosSin[i])/c.Tokens():], ofWave)
		}
	}
	// turned returns cosines, sines, and q and k [batch, heads, tokens, headDim] rotated by an encoding.
	turned := func(rotary Encoder, q, k *Node) []*Node {
		rows := rotationOf(rotary).rows(q.Graph(), 0)
		q, k = rotary.(Rotator).Block(0).EncodeQK(Transpose(q, 1, 2), Transpose(k, 1, 2), nil, 1)
		return append(rows, Transpose(q, 1, 2), Transpose(k, 1, 2))
	}
	plain := dinoRope{theta: m.Base, normalize: m.Normalize}
	gomlxtest.NearAbs(t, "periods", plain.periods(m.HeadDim/4), want["periods"].Data, ofWave)
	ranged := dinoRope{shortest: m.Shortest, longest: m.Longest, normalize: m.Normalize}
	gomlxtest.NearAbs(t, "minmax.periods", ranged.periods(m.HeadDim/4), want["minmax.periods"].Data, ofWave*m.Longest)
	for _, grid := range meta.Grids {
		c, p := of(grid), fmt.Sprintf("grid%dx%d.", grid[0], grid[1])
		var places []float64
		for k := range c.Rows * c.Cols {
			y, x := plain.position(c.Config, k)
			places = append(places, y, x)
		}
		near(p+"coords", places, meta.Tolerance["coords_abs"])
		store := stored(map[string]any{ParamRopeTheta: m.Base, ParamDINORopeNormalize: m.Normalize})
		_, withGradient := want[p+"grad_in.q"]
		in := []any{gomlxtest.Input(want[p+"q"]), gomlxtest.Input(want[p+"k"])}
		if withGradient {
			in = append(in, gomlxtest.Input(want[p+"grad_in.q"]), gomlxtest.Input(want[p+"grad_in.k"]))
		}
		got := gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) []*Node {
			nodes := turned(acting[Rotator](c, s), in[0], in[1])
			if withGradient {
				loss := ReduceAllSum(Add(Mul(nodes[2], in[2]), Mul(nodes[3], in[3])))
				nodes = append(nodes, Gradient(loss, in[0], in[1])...)
			}
			return nodes
		}, in...)
		waves(p, c, got)
		near(p+"q_rot", got[2], ofTurned)
		near(p+"k_rot", got[3], ofTurned)
		if withGradient {
			near(p+"grad_out.q", got[4], meta.Tolerance["grad_abs"])
			near(p+"grad_out.k", got[5], meta.Tolerance["grad_abs"])
		}
	}

	c, p := of(meta.NormGrid), fmt.Sprintf("grid%dx%d.", meta.NormGrid[0], meta.NormGrid[1])
	for form, r := range map[string]dinoRope{
		"max.": {theta: m.Base, normalize: "max"}, "min.": {theta: m.Base, normalize: "min"}, "minmax.": ranged,
	} {
		rotary := newRotation("", c.Config, true, r.pairs(c.Config, r.periods(m.HeadDim/4)))
		got := gomlxtest.RunModel(t, model.NewStore(), func(_ *model.Scope, in []*Node) []*Node {
			return turned(rotary, in[0], in[0])
		}, gomlxtest.Input(want[p+"q"]))
		if _, ok := want[p+form+"cos_out"]; ok {
			waves(p+form, c, got)
		}
		if _, ok := want[p+form+"q_rot"]; ok {
			near(p+form+"q_rot", got[2], ofTurned)
		}
	}

	c = of(meta.AugmentsOf)
	for _, form := range []string{"shift", "jitter", "rescale", "all"} {
		draw := func(g *Graph, name string) *Node {
			if x, ok := want["aug."+form+"."+name]; ok {
				return Const(g, gomlxtest.Input(x))
			}
			return nil
		}
		got := gomlxtest.RunModel(t, model.NewStore(), func(_ *model.Scope, in []*Node) []*Node {
			rotary := newRotation("", c.Config, true, func(g *Graph, _ int) (cos, sin *Node) {
				return plain.moved(g, c.Config, draw(g, "shift"), draw(g, "jitter"), draw(g, "rescale"))
			})
			return turned(rotary, in[0], in[0])
		}, gomlxtest.Input(want["aug.q"]))
		near("aug."+form+".q_rot", got[2], ofTurned)
		if form == "all" {
			waves("aug.all.", c, got)
		}
	}
}

// In training the coordinates are multiplied by log-uniform factors between 1/x and x, and shifted uniformly in ±x:
// DINOv3's RopePositionEmbedding. Periods are so long that no angle wraps.
func TestDINOv3DrawsLogUniformFactorsAndUniformShifts(t *testing.T) {
	const n = 600
	c := turning("rope-dinov3")
	still := [2]float64{1/float64(c.Rows) - 1, 1/float64(c.Cols) - 1} // of the first patch; the last has the opposite
	// draws returns, for each axis, what is drawn in units of its greatest value, given the first and the last patch.
	draws := func(params map[string]any, drawn func(first, last, still float64) float64) (axes [2][]float64) {
		store := gomlxtest.Seeded(t, 3)
		store.SetParams(map[string]any{ParamDINORopeShortest: 100.0, ParamDINORopeLongest: 100.0})
		store.SetParams(params)
		exec := gomlxtest.Must(model.NewExec(gomlxtest.Backend(), store, func(s *model.Scope, in *Node) *Node {
			s.Store().SetTraining(in.Graph(), true)
			rotary := rotationOf(acting[Rotator](c, s.In("vit")))
			_, sin := rotary.pairs(in.Graph(), 0)
			_, other := rotary.pairs(in.Graph(), 1)
			return Add(sin, MulScalar(Sub(other, sin), 1e3)) // equal in all blocks, otherwise the spread grows
		}))(t)
		defer exec.Finalize()
		half := c.headDim() / 4
		for range n {
			sin := gomlxtest.Values(t, exec.MustCall(float32(0))[0]) // [tokens, 1, headDim/2]
			at := func(token, pair int) float64 { return math.Asin(sin[token*2*half+pair]) * 100 / (2 * math.Pi) }
			for axis := range axes {
				axes[axis] = append(axes[axis], drawn(at(c.Prefix, axis*half), at(c.Tokens()-1, axis*half), still[axis]))
			}
		}
		return axes
	}
	factor := func(most float64) func(first, last, still float64) float64 {
		return func(first, _, still float64) float64 { return math.Log(first/still) / math.Log(most) }
	}
	moments := func(x, y []float64) (mean, product, most float64) {
		for i := range x {
			mean, product, most = mean+x[i]/n, product+x[i]*y[i]/n, max(most, math.Abs(x[i]))
		}
		return mean, product, most
	}
	for name, axes := range map[string][2][]float64{
		"rescale": draws(map[string]any{ParamDINORopeRescale: 4.0}, factor(4)),
		"default": draws(nil, factor(2)), // a rescale, as DINOv3's
		"jitter":  draws(map[string]any{ParamDINORopeRescale: 0.0, ParamDINORopeJitter: 3.0}, factor(3)),
		"shift": draws(map[string]any{ParamDINORopeRescale: 0.0, ParamDINORopeShift: 0.5}, func(first, last,
			still float64) float64 {
			if !(math.Abs(last+still-(first-still)) <= 1e-3) {
				t.Fatalf("the first patch is shifted by %g, the last by %g", first-still, last+still)
			}
			return (first - still) / 0.5
		}),
	} {
		for _, x := range axes { // uniform in ±1: mean 0 ± 4·√(1/3n), mean square 1/3 ± 4·√(4/45n)
			mean, square, most := moments(x, x)
			if !(math.Abs(mean) <= 4*math.Sqrt(1/3.0/n)) || !(math.Abs(square-1/3.0) <= 4*math.Sqrt(4/45.0/n)) ||
				most > 1+1e-3 || most < 0.98 {
				t.Errorf("%s: mean %.3f, mean square %.3f, greatest %.4f, want 0, .333 and 1", name, mean, square, most)
			}
		}
		if _, product, _ := moments(axes[0], axes[1]); name == "rescale" || name == "default" {
			gomlxtest.NearAbs(t, name+" of the columns", axes[1], axes[0], 1e-3)
		} else if 3*math.Abs(product) > 4/math.Sqrt(n) {
			t.Errorf("%s: rows and columns are correlated: %.2f", name, 3*product)
		}
	}
}

func TestEveryVariantEqualsFoPE(t *testing.T) { fixtures.Each(t, testEveryVariantEqualsFoPE) }

func testEveryVariantEqualsFoPE(t *testing.T) {
	var meta struct {
		Heads     int
		HeadDim   int `json:"head_dim"`
		Variants  map[string]map[string]any
		Lengths   []int
		Tolerance map[string]float64
	}
	fixtures.JSON(t, "fope", "meta.json", &meta)
	want := fixtures.Tensors(t, "fope", "tensors.safetensors")
	compared := 0
	for name, v := range meta.Variants {
		if v["fourier_init"] != "eye_xavier_norm" || v["fourier_norm"] == true || v["fourier_dim"] != 0.0 ||
			v["fourier_ignore_zero"] != true || v["fourier_separate_basis"] != true || v["fourier_separate_head"] != true {
			continue // not in this library
		}
		number := func(name string) int { return int(v[name].(float64)) }
		theta, maxLength, in, out := v["rope_theta"].(float64), number("max_sequence_length"), number("input_dim"),
			number("output_dim")
		for _, length := range meta.Lengths {
			compared++
			p := fmt.Sprintf("%s.T%d.", name, length)
			c := named{Config{Grid: Grid{Rows: 1, Cols: length}, Width: meta.Heads * meta.HeadDim, Heads: meta.Heads}, "fope"}
			f := gomlxtest.LoadTorch(t, "fope", "tensors.safetensors", "/vit/")
			f.Store.SetParams(map[string]any{ParamRopeTheta: theta, fopeLength: maxLength})
			used, mixed := fopeFrequencies(c.Config, theta, maxLength)
			is.Equal(t, name+": frequencies, and pairs", [2]int{len(used), mixed}, [2]int{in, out})
			gomlxtest.NearAbs(t, name+".inv_freq", used, want[name+".inv_freq"].Data, meta.Tolerance["abs"])
			for _, wave := range []string{"cos", "sin"} {
				f.Set("position/fope/block_00/"+wave+"_coefficients", want[name+"."+wave+"_coef"].Data, meta.Heads, in, out)
			}
			known := f.Store.NumVariables()
			q, k := want[fmt.Sprintf("T%d.q", length)], want[fmt.Sprintf("T%d.k", length)] // [batch, head, position, channel]
			got := gomlxtest.RunModel(t, f.Store, func(s *model.Scope, in []*Node) []*Node {
				rotary := acting[Rotator](c, s.In("vit"))
				q, k := rotary.Block(0).EncodeQK(Transpose(in[0], 1, 2), Transpose(in[1], 1, 2), nil, 1)
				cos, sin := rotationOf(rotary).pairs(in[0].Graph(), 0)
				return []*Node{Transpose(q, 1, 2), Transpose(k, 1, 2), Transpose(cos, 0, 1), Transpose(sin, 0, 1)}
			}, gomlxtest.Input(q), gomlxtest.Input(k))
			is.Equal(t, name+": variables", f.Store.NumVariables(), known)
			for i, tensor := range []string{"q_rot", "k_rot", "cos", "sin"} {
				if x, ok := want[p+tensor]; ok { // cos and sin exist for some lengths
					gomlxtest.NearAbs(t, p+tensor, got[i], x.Data, meta.Tolerance["abs"])
				}
			}
		}
	}
	if compared == 0 {
		t.Error("no variant is one of this library")
	}
}
