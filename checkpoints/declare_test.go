// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
)

// rectangle is the preprocessing of a run at 8×16 that crops, as Recipe.Preprocessing makes it.
var rectangle = preprocess.Settings{Fit: preprocess.FitCover, Size: [2]int{8, 16}, Crop: [2]int{8, 16},
	Resample: preprocess.Bicubic, Mean: [3]float64{0.5, 0.25, 0.125}, Std: [3]float64{0.5, 0.75, 0.3}}

// Hugging Face's processors crop squares or rectangles of an image whose shorter side was set, so none covers 8×16;
// timm's does, and rounds half pixels to even.
func TestTheCropOfARectangleIsExportedWhereTheFormatHasIt(t *testing.T) {
	c := ownViT("learned")
	c.ImageRows, c.ImageCols = 8, 16
	store := stirred(t, c, nil)
	exact, rounded := rectangle, rectangle
	exact.Fit, exact.Crop, rounded.RoundCrop = preprocess.FitExact, [2]int{}, true
	for format, want := range map[string]preprocess.Settings{
		formatHF: exact, formatJAX: exact, formatTimm: rounded, formatUnfolded: rectangle,
	} {
		declared, line := Declarable(format, rectangle, 8, 16)
		if squeezed := want == exact; squeezed != (line == `preprocessing: fit "exact" to 8×16 in place of "cover", `+
			`so that predictions of the export differ: Hugging Face has no fit "cover", only "exact" and "shortest"`) {
			t.Errorf("%s: %q", format, line)
		}
		dir := exportedFrom(t, store, c, ExportOptions{Format: format, Preprocess: &declared})
		m := imported(t, dir, ImportOptions{})
		if m.Preprocess == nil || *m.Preprocess != want {
			t.Errorf("%s: opened with %+v, want %+v", format, m.Preprocess, want)
		}
		if !slices.Equal(m.Mean, rectangle.Mean[:]) || !slices.Equal(m.Std, rectangle.Std[:]) || m.Pixels != [2]int{8, 16} {
			t.Errorf("%s: mean %v, std %v, pixels %v", format, m.Mean, m.Std, m.Pixels)
		}
	}
}

func TestTheNativePreprocessingIsReadStrictly(t *testing.T) {
	c := ownViT("learned")
	whole := rectangle
	whole.Size, whole.Crop = [2]int{6, 10}, [2]int{6, 10}
	dir := exportedFrom(t, stirred(t, c, nil), c, ExportOptions{Format: formatUnfolded, Preprocess: &whole})
	file := filepath.Join(dir, foreignConfig)
	config := string(readFile(t, file))
	for from, to := range map[string]string{`"fit": "cover"`: `"fit": "patches"`, `"resample": "bicubic"`: `"kernel": "x"`,
		`"preprocess": {`: `"preprocess": {"patch": "2",`} {
		putFile(t, file, []byte(strings.Replace(config, from, to, 1)))
		if _, err := Import(dir, ImportOptions{}); err == nil || !strings.Contains(err.Error(), "preprocess: ") {
			t.Errorf("%s: %v", to, err)
		}
	}
}

// A model trained with aspect keep has a grid per image; its files describe one size, in every format.
func TestAModelThatKeepsTheAspectIsExportedAtOneSize(t *testing.T) {
	c := ownViT("learned")
	c.ImageRows, c.ImageCols = 16, 16
	store := stirred(t, c, nil)
	keep, exact := rectangle, rectangle
	keep.Fit, keep.Size, keep.Crop, keep.Patch = preprocess.FitPatches, [2]int{16, 16}, [2]int{}, 2
	exact.Fit, exact.Size, exact.Crop = preprocess.FitExact, [2]int{16, 16}, [2]int{}
	for _, format := range fileFormats {
		declared, line := Declarable(format, keep, 16, 16)
		if declared != exact || !strings.Contains(line, `fit "exact" to 16×16 in place of "patches"`) {
			t.Errorf("%s: %+v, %q", format, declared, line)
		}
		dir := exportedFrom(t, store, c, ExportOptions{Format: format, Preprocess: &declared})
		if m := imported(t, dir, ImportOptions{}); m.Preprocess == nil || m.Preprocess.Fit != preprocess.FitExact ||
			m.Preprocess.Size != [2]int{16, 16} || !slices.Equal(m.Mean, keep.Mean[:]) {
			t.Errorf("%s: opened with %+v", format, m.Preprocess)
		}
		_, err := Export(filepath.Join(t.TempDir(), "model"), nil, store.Scope("/vit"), c,
			ExportOptions{Format: format, Preprocess: &keep})
		if err == nil || !strings.Contains(err.Error(), "gives each image its own grid") {
			t.Errorf("%s, undeclared: %v", format, err)
		}
	}
}
