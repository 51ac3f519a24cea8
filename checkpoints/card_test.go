// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
)

// Where two settings of preprocessing differ, and only there, an export says so: each side of an image on its own.
func TestACropAtHalfAPixelOfOneSideIsNamed(t *testing.T) {
	for size, named := range map[[2]int]bool{{19, 18}: true, {18, 19}: true, {18, 18}: false, {17, 18}: false} {
		s := preprocess.Settings{Fit: preprocess.FitExact, Size: size, Crop: [2]int{16, 16}, RoundCrop: true,
			Resample: preprocess.Bicubic}
		if _, line := Declarable(formatHF, s, 16, 16); strings.Contains(line, "a crop at half a pixel") != named {
			t.Errorf("%v: %q", size, line)
		}
	}
	// Images of a shortest side without a crop differ in size, in any format.
	s := preprocess.Settings{Fit: preprocess.FitShortest, Size: [2]int{7, 7}, Resample: preprocess.Bicubic}
	for _, format := range append([]string{formatONNX}, fileFormats...) {
		declared, line := Declarable(format, s, 6, 10)
		if want := `preprocessing: fit "exact" to 6×10 in place of "shortest", so that predictions of the export differ: ` +
			`without a crop or fit "exact" images differ in size`; line != want || declared.Fit != preprocess.FitExact ||
			declared.Size != [2]int{6, 10} || declared.Resample != preprocess.Bicubic {
			t.Errorf("%s: %+v, %q", format, declared, line)
		}
	}
	cut := preprocess.Settings{Crop: [2]int{6, 10}}
	if declared, line := Declarable(formatTimm, cut, 6, 10); declared.Fit != preprocess.FitExact ||
		!strings.Contains(line, "no crop without a resize") {
		t.Errorf("a crop alone in timm: %+v, %q", declared, line)
	}
	none := preprocess.Settings{Mean: [3]float64{0.5, 0.5, 0.5}}
	if declared, line := Declarable(formatHF, none, 6, 10); declared != none || line != "" {
		t.Errorf("images of the model's size: %+v, %q", declared, line)
	}
}

// The size of a run's images is its own where the files do not resize them.
func TestAModelIsUsedAtTheSizeOfItsFiles(t *testing.T) {
	config, size := hfConfig(), `{"size":{"height":8,"width":4},"image_mean":[0,0,0],"image_std":[1,1,1],"resample":2}`
	file := put(t, hf, made(hf, smallViT), config)
	for text, want := range map[string][2]int{"": {6, 10}, size: {8, 4},
		strings.Replace(size, `"height":8`, `"height":9`, 1): {8, 4},
		// whole patches of 2, if there are any
		strings.Replace(size, `"width":4`, `"width":5`, 1):                                                 {8, 4},
		strings.Replace(size, `"height":8`, `"height":1`, 1):                                               {6, 10},
		strings.Replace(strings.Replace(size, `"height":8`, `"height":6`, 1), `"width":4`, `"width":8`, 1): {6, 8},
		strings.Replace(size, `"width":4`, `"width":10`, 1):                                                {8, 10}} {
		path := filepath.Join(filepath.Dir(file), foreignPreprocessor)
		if text != "" {
			putFile(t, path, []byte(text))
		} else if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		m := imported(t, file, ImportOptions{UsualSize: true})
		said := strings.Contains(strings.Join(m.Report, "\n"), "to which the files resize them")
		if got := [2]int{m.Config.ImageRows, m.Config.ImageCols}; got != want || said != (want != [2]int{6, 10}) {
			t.Errorf("%s: %v, want %v, report %q", text, got, want, m.Report)
		}
		if m = imported(t, file, ImportOptions{}); m.Config.ImageRows != 6 || m.Config.ImageCols != 10 {
			t.Errorf("%s: without the option %d×%d", text, m.Config.ImageRows, m.Config.ImageCols)
		}
	}
}

// As in transformers and timm, a patch embedding sees whole patches of the images: the first of their pixels.
func TestImagesAreTrimmedToWholePatches(t *testing.T) {
	file := put(t, hf, made(hf, smallViT), hfConfig())
	putFile(t, filepath.Join(filepath.Dir(file), foreignPreprocessor),
		[]byte(`{"size":{"height":9,"width":5},"image_mean":[0,0,0],"image_std":[1,1,1],"resample":2}`))
	m := imported(t, file, ImportOptions{UsualSize: true})
	if p := m.Preprocess; p.Size != [2]int{9, 5} || p.Trim != [2]int{8, 4} || m.Pixels != p.Trim {
		t.Errorf("patches of 2: %+v, pixels %v", p, m.Pixels)
	}
	if p := imported(t, file, ImportOptions{}).Preprocess; p.Size != [2]int{6, 10} || p.Trim != [2]int{} {
		t.Errorf("at another size: %+v", p)
	}
	if p, line := Declarable(formatTimm, *m.Preprocess, 8, 4); p.Size != [2]int{8, 4} || p.Trim != [2]int{} ||
		!strings.Contains(line, "cannot trim") {
		t.Errorf("timm declares %+v, %q", p, line)
	}
}

// A recipe states mean and standard deviation of its images, one of them, or neither.
func TestTheNormalizationOfATrainingIsThatOfItsRecipe(t *testing.T) {
	given := [3]float64{0.5, 0.25, 0.125}
	for _, c := range []struct {
		mean, std         [3]float64
		wantMean, wantStd []float64
	}{
		{wantMean: nil, wantStd: nil}, {mean: given, wantMean: given[:], wantStd: []float64{1, 1, 1}},
		{std: given, wantMean: []float64{0, 0, 0}, wantStd: given[:]}, {given, given, given[:], given[:]},
	} {
		for channels := 1; channels <= 4; channels++ {
			config := ownViT("learned")
			config.Channels = channels
			d := described{foreign: &foreign{config: config}, format: formatCheckpoint}
			d.run.Recipe.Augment.Mean, d.run.Recipe.Augment.Std = c.mean, c.std
			m := &Imported{Config: config}
			if d.run.Preprocess = rectangle; channels%2 == 0 { // older checkpoints have none
				d.run.Preprocess = preprocess.Settings{}
			}
			if err := m.pixels(&weights{}, d); err != nil {
				t.Fatal(err)
			}
			if s := rectangle; channels == 3 {
				if s.Mean, s.Std = c.mean, c.std; m.settings == nil || *m.settings != s {
					t.Errorf("%+v: settings %+v, want %+v", c, m.settings, s)
				}
			}
			n := min(len(c.wantMean), channels, 3)
			if !slices.Equal(m.Mean, c.wantMean[:n]) || !slices.Equal(m.Std, c.wantStd[:n]) ||
				(m.settings != nil) != (channels == 3) {
				t.Errorf("%+v of %d channels: mean %v, std %v, %+v", c, channels, m.Mean, m.Std, m.settings)
			}
		}
	}
}
