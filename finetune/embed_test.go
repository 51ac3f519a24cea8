// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"image"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// pixelsOf is an image of a fixture, uint8 [H, W, RGB].
func pixelsOf(x fixtures.Tensor) image.Image {
	img := image.NewNRGBA(image.Rect(0, 0, x.Shape[1], x.Shape[0]))
	for i := range x.Shape[0] * x.Shape[1] {
		p := x.Data[3*i:]
		img.Set(i%x.Shape[1], i/x.Shape[1], color.NRGBA{uint8(p[0]), uint8(p[1]), uint8(p[2]), 255})
	}
	return img
}

// From an image to vectors, as in Hugging Face's processors and models; DINOv3's resizes floating-point numbers, the
// others bytes.
func TestEmbed_IsTheModelOfItsFiles(t *testing.T) { fixtures.Each(t, testEmbedIsTheModelOfItsFiles) }

func testEmbedIsTheModelOfItsFiles(t *testing.T) {
	const tolerance = 1e-4
	for _, set := range gomlxtest.InTurn(1, "dinov2_tiny", "dinov2_reg_tiny", "dinov3_vit_tiny",
		"dinov3_vit_tiny_swiglu") {
		dir := fixtures.Dir(t, set)
		all := fixtures.Tensors(t, set, "tensors.safetensors")
		imported := gomlxtest.Must(checkpoints.Import(dir, checkpoints.ImportOptions{Classes: 2}))(t)
		c := imported.Config
		store := model.NewStore()
		gomlxtest.NoError(t, imported.Load(store.Scope("/model")))
		input := all["preprocess.pixel_values_nhwc_out"]
		input.Shape = append([]int{1}, input.Shape...)
		want := gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) []*Node {
			trace := c.Trace(s.Store().Scope("/model"), in[0], false)
			return []*Node{trace.Encoded, trace.Logits}
		}, gomlxtest.Input(input))[0]

		img := pixelsOf(all["preprocess.image_u8"])
		file := pngFile(t, img)
		m := gomlxtest.Must(Open(gomlxtest.Backend(), dir))(t)
		got := gomlxtest.Must(m.Embed(file, file, file))(t)
		again := gomlxtest.Must(m.embedImages(img))(t)
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
		equal(t, set, [2]int{len(got), len(again)}, [2]int{3, 1})
		m.Finalize()
	}
}

// written writes an image file of a given size, with its own colour.
func written(t *testing.T, dir, name string, height, width int) (file string) {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range img.Pix {
		img.Pix[i] = uint8(i*height + width)
	}
	file = filepath.Join(dir, name)
	gomlxtest.NoError(t, os.WriteFile(file, datatest.PNG(img), 0o600))
	return file
}

// GoMLX caches 32 programs and refuses another, see SetMaxCache of graph.Exec.
func TestEmbed_AnyNumberAndSize(t *testing.T) {
	gomlxtest.OnGo(t)
	m := begun(t, tinyRun(t, "eval_batch_size=64", 30)).model
	img := image.NewGray(image.Rect(0, 0, 5, 3))
	want := gomlxtest.Must(m.embedImages(img))(t)[0].Class
	for n := 2; n <= 37; n++ {
		got := gomlxtest.Must(m.embedImages(slices.Repeat([]image.Image{img}, n)...))(t)
		equal(t, "features", len(got), n)
		nearLogits(t, "the last", [][]float32{got[n-1].Class}, [][]float32{want})
	}
	m.Preprocess = preprocess.Settings{Resize: preprocess.ResizeShortest, Size: [2]int{4, 4}} // without crop
	drawn := image.NewGray(image.Rect(0, 0, 9, 5))
	for i := range drawn.Pix {
		drawn.Pix[i] = uint8(53 * i)
	}
	for _, kernel := range []preprocess.Resample{preprocess.Bicubic, preprocess.Nearest} {
		m.Preprocess.Resample = kernel // to 4×7, then to the model's 4×6
		want := data.FromImage(drawn).Resize(4, 7, kernel).Resize(4, 6, kernel)
		equal(t, string(kernel), gomlxtest.Must(m.PreprocessImage(data.FromImage(drawn)))(t).Pixels, want.Pixels)
	}
	for _, empty := range []*data.Image{{Height: 1}, {Width: 1}} {
		refused(t, "an image without pixels", errorOf(m.PreprocessImage(empty)), "the image has no pixels")
	}
	for n := range 37 {
		gomlxtest.Must(m.embedImages(image.NewGray(image.Rect(0, 0, 5+n, 5))))(t)
	}
	m.Recipe.Model.Channels = 1
	refused(t, "a model of one channel", errorOf(m.PreprocessImage(data.FromImage(drawn))), "the model takes 1 channels")
}

func TestFingerprint_CoversAllThatFeaturesDependOn(t *testing.T) {
	gomlxtest.OnGo(t)
	run := saved(t, tiny(), 30)
	done(t, run)
	of := func(change func(*Model)) string {
		m := gomlxtest.Must(Open(run.Backend, run.Dir))(t)
		defer m.Finalize()
		change(m)
		return gomlxtest.Must(m.Fingerprint())(t)
	}
	none := func(*Model) {}
	own := of(none)
	set := func(head bool) func(*Model) { // a bit of a weight
		return func(m *Model) {
			for v := range m.variables() {
				if strings.HasPrefix(below(v.Path()), headPath) != head {
					continue
				}
				gomlxtest.NoError(t, v.MustValue().MutableBytes(func(raw []byte) { raw[2] ^= 1 }))
				return
			}
		}
	}
	used := func(m *Model) { gomlxtest.Must(m.embedImages(image.NewGray(image.Rect(0, 0, 5, 3))))(t) }
	for name, c := range map[string]struct {
		change func(*Model)
		same   bool
	}{
		"the same again": {none, true}, "after use": {used, true}, "another head": {set(true), true},
		"another weight": {set(false), false},
		"another resize": {func(m *Model) { m.Preprocess.Size[0]++ }, false},
		"another aspect": {func(m *Model) { m.Recipe.Aspect = AspectKeep }, false},
		"another mean":   {func(m *Model) { m.Recipe.Augment.Mean[1]++ }, false},
		"another size":   {func(m *Model) { m.Recipe.Model.ImageRows++ }, false},
	} {
		equal(t, name+": the same as before", of(c.change) == own, c.same)
	}
}
