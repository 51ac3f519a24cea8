// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dhvt

import (
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
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
	}
	FullSize map[string]struct{ Total, Position int } `json:"full_size_parameters"`
}

// The encoding of the release's DHVT differs from this library's: its vectors come from the fixture, and gradients of
// its last layers from the gradient of the vectors.
func TestEveryStageAndGradientEqualsTheReleasedDHVT(t *testing.T) {
	fixtures.Each(t, testEveryStageAndGradientEqualsTheReleasedDHVT)
}

func testEveryStageAndGradientEqualsTheReleasedDHVT(t *testing.T) {
	var meta releaseMeta
	fixtures.JSON(t, releaseSet, "meta.json", &meta)
	m := meta.Config
	c := gomlxtest.Resolved(Config{Config: vit.Config{
		ImageRows: m.Image, ImageCols: m.Image, PatchSize: m.Patch, Width: m.Width, Depth: m.Depth, Heads: m.Heads,
		MLPDim: int(m.MLPRatio * float64(m.Width)), Classes: m.Classes, Epsilon: 1e-5,
	}})
	f := load(t, releaseSet, "model.safetensors")
	f.model(c)
	const positionPrefix = "pos_encoding."
	f.AllUsed("", positionPrefix)
	want := load(t, releaseSet, "tensors.safetensors")

	vectors := want.Get("pos_encoding") // [1, 1+N, width]
	// The other tensors are of the encoding, or of the separate module g30.
	near := func(name string, got, want []float64) { gomlxtest.Near(t, name, got, want, 1e-4) } // README: tokens, logits
	gradient := compare(t, f, c, want, near, gomlxtest.Input(vectors), gomlxtest.Input(want.Get("upstream")), "images_",
		"g30.", "pos", "grad.", "upstream")
	// vectors = pos_scale·[class; gain·normalized + offset]; the norm is layer 5 of the MLP or 1 of the linear form.
	norm := positionPrefix + "projection.5."
	if _, ok := f.Tensors[norm+"bias"]; !ok {
		norm = positionPrefix + "projection.1."
	}
	scale, gain, offset := f.Get(positionPrefix + "pos_scale").Data[0], f.Get(norm+"weight").Data, f.Get(norm+"bias").Data
	grads := map[string][]float64{positionPrefix + "cls_pos_embedding": make([]float64, c.Width),
		norm + "bias": make([]float64, c.Width), norm + "weight": make([]float64, c.Width),
		positionPrefix + "pos_scale": make([]float64, 1)}
	for i, by := range gradient {
		k := i % c.Width
		grads[positionPrefix+"pos_scale"][0] += by * vectors.Data[i] / scale
		if i < c.Width {
			grads[positionPrefix+"cls_pos_embedding"][k] = by * scale
			continue
		}
		grads[norm+"bias"][k] += by * scale
		grads[norm+"weight"][k] += by * (vectors.Data[i] - scale*offset[k]) / gain[k]
	}
	for name, values := range grads {
		gomlxtest.Near(t, "gradient of "+name, values, want.Get("grad."+name).Data, 1e-3)
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
		c := gomlxtest.Resolved(Config{Config: vit.Config{
			ImageRows: 224, ImageCols: 224, PatchSize: 16, Width: released.width, Depth: 12, Heads: released.heads,
			Classes: 100,
		}})
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
			adder, _ := position.As[position.Adder](c.Encoder(s.In("dhvt")))
			return []*Node{adder.Encode(in[0].Graph())}
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
