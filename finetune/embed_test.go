// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
)

// pixelsOf is a picture of a fixture, uint8 [H, W, RGB].
func pixelsOf(x fixtures.Tensor) image.Image {
	img := image.NewNRGBA(image.Rect(0, 0, x.Shape[1], x.Shape[0]))
	for i := range x.Shape[0] * x.Shape[1] {
		p := x.Data[3*i:]
		img.Set(i%x.Shape[1], i/x.Shape[1], color.NRGBA{uint8(p[0]), uint8(p[1]), uint8(p[2]), 255})
	}
	return img
}

// From a picture to vectors, as Hugging Face's processors and models do it; that of DINOv3 resizes numbers, where ours
// resizes bytes: its pixels differ by less than a level of 255 for each of two passes.
func TestFeaturesOfAPictureAreThoseOfTheModelOfItsFiles(t *testing.T) {
	for set, tolerance := range map[string]float64{"dinov2_tiny": 1e-4, "dinov2_reg_tiny": 1e-4, "dinov3_vit_tiny": 0.05,
		"dinov3_vit_tiny_swiglu": 0.05} {
		dir := fixtures.Dir(t, set)
		all := fixtures.Tensors(t, set, "tensors.safetensors")
		imported, err := checkpoints.Import(dir, checkpoints.ImportOptions{Classes: 2})
		if err != nil {
			t.Fatal(err)
		}
		c := imported.Config
		store := model.NewStore()
		if err := imported.Load(store.Scope("/model")); err != nil {
			t.Fatal(err)
		}
		input := all["preprocess.pixel_values_nhwc_out"]
		input.Shape = append([]int{1}, input.Shape...)
		want := gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) []*Node {
			trace := c.Trace(s.Store().Scope("/model"), in[0], false)
			return []*Node{trace.Encoded, trace.Logits}
		}, gomlxtest.Input(input))[0]

		picture := pixelsOf(all["preprocess.image_u8"])
		file := filepath.Join(t.TempDir(), "picture.png")
		f := gomlxtest.Must(os.Create(file))(t)
		if err := png.Encode(f, picture); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		m := gomlxtest.Must(OpenAny(gomlxtest.Backend(), dir))(t)
		got := gomlxtest.Must(m.Embed(file, file, file))(t)
		again := gomlxtest.Must(m.EmbedImages(picture))(t)
		patches := want[c.Prefix()*c.Width:]
		mean := make([]float64, c.Width)
		for i, v := range patches {
			mean[i%c.Width] += v / float64(c.Rows()*c.Cols())
		}
		for _, g := range append(got, again...) {
			gomlxtest.NearAbs(t, set+" class", g.Class, want[:c.Width], tolerance)
			gomlxtest.NearAbs(t, set+" mean", g.Mean, mean, tolerance)
			gomlxtest.NearAbs(t, set+" patches", g.Patches, patches, tolerance)
		}
		if len(got) != 3 || len(again) != 1 {
			t.Errorf("%s: %d and %d features, want 3 and 1", set, len(got), len(again))
		}
		classes := gomlxtest.Must(m.Predict(file, 2))(t)
		if same := gomlxtest.Must(m.PredictImage(picture, 2))(t); !slices.Equal(same, classes) {
			t.Errorf("%s: %v of the picture, %v of its file", set, same, classes)
		}
		m.Finalize()
	}
}

func TestAModelWithoutAClassTokenHasFeaturesOfPatchesAlone(t *testing.T) {
	recipe := tiny()
	recipe.Model.Pool = vit.PoolMean
	trainer := begun(t, Run{Backend: gomlxtest.Backend(), Recipe: recipe, Train: pictures(30, 1)})
	m := trainer.model
	got := gomlxtest.Must(m.EmbedImages(image.NewGray(image.Rect(3, 2, 11, 9))))(t)[0]
	c := m.Recipe.Model
	if got.Class != nil || len(got.Mean) != c.Width || len(got.Patches) != c.Rows()*c.Cols()*c.Width {
		t.Errorf("class %v, %d and %d numbers", got.Class, len(got.Mean), len(got.Patches))
	}
	if _, err := m.Embed("no such file"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("%v", err)
	}
}
