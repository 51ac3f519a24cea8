// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
)

// rectangle is the preprocessing of a run at 8×16 that crops, as Recipe.Preprocessing makes it.
var rectangle = preprocess.Settings{Resize: preprocess.ResizeCover, Size: [2]int{8, 16}, Crop: [2]int{8, 16},
	Resample: preprocess.Bicubic, Mean: [3]float64{0.5, 0.25, 0.125}, Std: [3]float64{0.5, 0.75, 0.3}}

func fitted(s preprocess.Settings, change func(*preprocess.Settings)) preprocess.Settings {
	change(&s)
	return s
}

// Hugging Face's processors crop squares or rectangles of an image whose shorter side was set, so none covers 8×16;
// timm's does, and rounds half pixels to even. A model trained with aspect keep has a grid per image; its files
// describe one size.
func TestExport_PreprocessingWhereTheFormatHasIt(t *testing.T) {
	c := changedBy(ownViT("learned"), func(c *vit.Config) { c.ImageRows, c.ImageCols = 8, 16 })
	store := stirred(t, c, nil)
	exact := fitted(rectangle, func(s *preprocess.Settings) { s.Resize, s.Crop = preprocess.ResizeExact, [2]int{} })
	rounded := fitted(rectangle, func(s *preprocess.Settings) { s.RoundCrop = true })
	keep := fitted(exact, func(s *preprocess.Settings) { s.Resize, s.Patch = preprocess.ResizePatches, 2 })
	for format, want := range map[string]preprocess.Settings{
		formatHF: exact, formatJAX: exact, formatTimm: rounded, formatNative: rectangle,
	} {
		dir := filepath.Join(t.TempDir(), "model")
		report := gomlxtest.Must(Export(dir, nil, store.Scope("/vit"), c, ExportOptions{Format: format,
			Preprocess: &rectangle}))(t)
		m := imported(t, dir, ImportOptions{})
		said := strings.Contains(strings.Join(report, "\n"), "preprocessing: ")
		if m.Preprocess == nil || *m.Preprocess != want || said != (want != rectangle) ||
			!slices.Equal(m.Mean, rectangle.Mean[:]) || !slices.Equal(m.Std, rectangle.Std[:]) || m.Usual != [2]int{8, 16} {
			t.Errorf("%s: opened with %+v, want %+v; %q", format, m.Preprocess, want, report)
		}
		m = imported(t, exportedFrom(t, store, c, ExportOptions{Format: format, Preprocess: &keep}), ImportOptions{})
		if p := m.Preprocess; p == nil || p.Resize != preprocess.ResizeExact || p.Size != exact.Size {
			t.Errorf("%s: opened with %+v, want %+v", format, p, exact)
		}
	}
}

// Hugging Face rounds half a pixel of a crop down, timm to even; timm resizes bytes, and fills borders with the mean.
// An export says so where images differ, and only there: each side of an image on its own.
func TestDeclarable_NamesWhatTheFormatRoundsOtherwise(t *testing.T) {
	crops := fitted(rectangle, func(s *preprocess.Settings) {
		s.Resize, s.Size, s.Crop = preprocess.ResizeShortest, [2]int{19, 19}, [2]int{16, 16}
	})
	even := fitted(crops, func(s *preprocess.Settings) { s.RoundCrop = true })
	exact := func(rows, cols int) preprocess.Settings {
		return fitted(even, func(s *preprocess.Settings) { s.Resize, s.Size = preprocess.ResizeExact, [2]int{rows, cols} })
	}
	float := fitted(exact(16, 16), func(s *preprocess.Settings) { s.Float, s.Crop, s.RoundCrop = true, [2]int{}, false })
	border := func(fill [3]uint8) preprocess.Settings {
		return fitted(even, func(s *preprocess.Settings) { s.Resize, s.Fill = preprocess.ResizeContain, fill })
	}
	for i, test := range []struct {
		format, names string
		s             preprocess.Settings
	}{
		{formatHF, "crop", even}, {formatHF, "", crops}, {formatTimm, "crop", crops}, {formatTimm, "", even},
		{formatJAX, "crop", even}, {formatONNX, "crop", even}, {formatNative, "", even},
		{formatHF, "crop", exact(19, 19)}, {formatHF, "", exact(17, 17)}, {formatHF, "", exact(18, 18)}, // 1.5, .5, 1
		{formatHF, "crop", exact(19, 18)}, {formatHF, "crop", exact(18, 19)}, {formatHF, "", exact(17, 18)},
		{formatTimm, "8 bits", float}, {formatHF, "", float}, {formatTimm, "[1 2 3]", border([3]uint8{1, 2, 3})},
		{formatTimm, "", border([3]uint8{128, 64, 32})}, {formatHF, "", preprocess.Settings{Mean: rectangle.Mean}},
	} {
		declared, line := declarable(test.format, test.s, 16, 16)
		if (line == "") != (test.names == "") || !strings.Contains(line, test.names) || declared != test.s {
			t.Errorf("%d, %s: %q, want %q; declared %+v", i, test.format, line, test.names, declared)
		}
	}
	// Images of a shortest side without a crop differ in size, in any format; timm has no crop alone.
	short := preprocess.Settings{Resize: preprocess.ResizeShortest, Size: [2]int{7, 7}, Resample: preprocess.Bicubic}
	for _, format := range append([]string{formatONNX}, fileFormats...) {
		declared, line := declarable(format, short, 6, 10)
		if want := (preprocess.Settings{Resize: preprocess.ResizeExact, Size: [2]int{6, 10},
			Resample: preprocess.Bicubic}); line ==
			"" || declared != want {
			t.Errorf("%s: %+v, %q", format, declared, line)
		}
	}
	if s, line := declarable(formatTimm, preprocess.Settings{Crop: [2]int{6, 10}}, 6, 10); s.Resize !=
		preprocess.ResizeExact ||
		line == "" {
		t.Errorf("a crop alone in timm: %+v, %q", s, line)
	}
}

// The size of a model's images is its own where the files do not resize them; as in transformers and timm, a patch
// embedding sees whole patches of the images: the first of their pixels.
func TestImport_UsualSize(t *testing.T) {
	file := put(t, hf, made(hf, smallViT), hfConfig())
	of := func(height, width string) string {
		return `{"size":{"height":` + height + `,"width":` + width +
			`},"image_mean":[0,0,0],"image_std":[1,1,1],"resample":2}`
	}
	for text, want := range map[string][2]int{"": {6, 10}, of("8", "4"): {8, 4}, of("9", "5"): {8, 4}, of("8", "5"): {8,
		4},
		of("1", "4"): {6, 10}, of("6", "8"): {6, 8}, of("8", "10"): {8, 10}} {
		path := filepath.Join(filepath.Dir(file), foreignPreprocessor)
		gomlxtest.NoError(t, os.RemoveAll(path))
		if text != "" {
			putFile(t, path, []byte(text))
		}
		m := imported(t, file, ImportOptions{UsualSize: true})
		if got := [2]int{m.Config.ImageRows, m.Config.ImageCols}; got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
		if p := m.Preprocess; text == of("9", "5") && (p.Size != [2]int{9, 5} || p.Trim != [2]int{8, 4} ||
			m.Usual != p.Trim) {
			t.Errorf("patches of 2: %+v, pixels %v", p, m.Usual)
		}
		if m = imported(t, file, ImportOptions{}); m.Config.ImageRows != 6 || m.Config.ImageCols != 10 ||
			text == of("9", "5") && (m.Preprocess.Size != [2]int{6, 10} || m.Preprocess.Trim != [2]int{}) {
			t.Errorf("%s: without the option %+v, %+v", text, m.Config, m.Preprocess)
		}
	}
	trimmed := preprocess.Settings{Resize: preprocess.ResizeExact, Size: [2]int{9, 5}, Trim: [2]int{8, 4}}
	if s, line := declarable(formatTimm, trimmed, 8, 4); s.Size != [2]int{8, 4} || s.Trim != [2]int{} || line == "" {
		t.Errorf("timm declares %+v, %q", s, line)
	}
}
