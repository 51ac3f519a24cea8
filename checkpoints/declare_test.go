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
		formatHF: exact, formatJAX: exact, formatTimm: rounded, formatNative: rectangle,
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

// Hugging Face rounds half a pixel of a crop down, timm to even; timm resizes bytes, and fills borders with the mean.
// An export says so where images differ, and only there.
func TestAnExportNamesWhatItsFormatRoundsOtherwise(t *testing.T) {
	const (
		crop = "preprocessing: in the other software a crop at half a pixel is rounded otherwise: it can start one " +
			"pixel before or after (in 11 of 91 photographs, probabilities moved by up to .022; the format native keeps it)"
		eight  = "preprocessing: in the other software pixels are rounded to 8 bits after the resize"
		border = "preprocessing: in the other software borders have the colour [128 64 32] in place of [1 2 3]"
	)
	with := func(change func(s *preprocess.Settings)) preprocess.Settings {
		s := rectangle
		s.Fit, s.Size, s.Crop = preprocess.FitShortest, [2]int{19, 19}, [2]int{16, 16}
		change(&s)
		return s
	}
	none := func(*preprocess.Settings) {}
	even := func(s *preprocess.Settings) { s.RoundCrop = true }
	exact := func(size int) func(*preprocess.Settings) {
		return func(s *preprocess.Settings) {
			s.RoundCrop, s.Fit, s.Size = true, preprocess.FitExact, [2]int{size, size}
		}
	}
	float := func(s *preprocess.Settings) {
		s.Float, s.Fit, s.Size, s.Crop = true, preprocess.FitExact, s.Crop, [2]int{}
	}
	fill := func(s *preprocess.Settings) {
		s.RoundCrop, s.Fit, s.Fill = true, preprocess.FitContain, [3]uint8{1, 2, 3}
	}
	mean := func(s *preprocess.Settings) {
		s.RoundCrop, s.Fit, s.Fill = true, preprocess.FitContain, [3]uint8{128, 64, 32}
	}
	for _, test := range []struct {
		format, line string
		change       func(*preprocess.Settings)
	}{
		{formatHF, crop, even}, {formatHF, "", none}, {formatTimm, crop, none}, {formatTimm, "", even},
		{formatJAX, crop, even}, {formatONNX, crop, even}, {formatNative, "", even},
		{formatHF, crop, exact(19)}, {formatHF, "", exact(17)}, {formatHF, "", exact(18)}, // 1.5 → 1 or 2; .5 → 0; 1
		{formatTimm, eight, float}, {formatHF, "", float}, {formatTimm, border, fill}, {formatTimm, "", mean},
	} {
		s := with(test.change)
		declared, line := Declarable(test.format, s, 16, 16)
		if line != test.line || declared != s {
			t.Errorf("%s, %+v: %q, want %q; declared %+v", test.format, s, line, test.line, declared)
		}
	}
}

func TestTheNativePreprocessingIsReadStrictly(t *testing.T) {
	c := ownViT("learned")
	whole := rectangle
	whole.Size, whole.Crop = [2]int{6, 10}, [2]int{6, 10}
	dir := exportedFrom(t, stirred(t, c, nil), c, ExportOptions{Format: formatNative, Preprocess: &whole})
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

// As json.dumps of Python, which transformers uses, writes them.
func TestLabelsAreWrittenWithoutEscapes(t *testing.T) {
	c := ownViT("learned")
	labels := make([]string, c.Classes)
	for i := range labels {
		labels[i] = strings.Repeat("<", i) + "cats & dogs"
	}
	dir := exportedFrom(t, stirred(t, c, nil), c, ExportOptions{Format: formatHF, Labels: labels})
	if text := string(readFile(t, filepath.Join(dir, foreignConfig))); !strings.Contains(text, `"<cats & dogs"`) {
		t.Errorf("the labels are\n%s", text)
	}
}
