// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
)

// One value per channel, of the files that each software reads: transformers 5 reads processor_config.json before
// preprocessor_config.json, timm pretrained_cfg and in old files the config itself. Three channels make an image; a
// model of another number has no preprocessing here, but may have its normalization.
func TestImport_MeanAndStd(t *testing.T) {
	one := changedBy(smallViT, func(c *vit.Config) { c.Depth = 1 })
	gray := changedBy(one, func(c *vit.Config) { c.Channels = 1 })
	of := func(more string) string { return hfConfig("num_hidden_layers", "1", "num_channels", more) }
	theirs := func(more string) string { return strings.TrimSuffix(timmConfig(one), "}") + "," + more + "}" }
	const numbers = `"mean":[0.1,0.2,0.3],"std":[0.4,0.5,0.6]`
	const images = `{"image_mean":[0.1,0.2,0.3],"image_std":[0.4,0.5,0.6]}`
	const google = `{"model_type":"vit-jax","image_size":[6,10]}`
	mean, std, half := []float64{0.1, 0.2, 0.3}, []float64{0.4, 0.5, 0.6}, []float64{0.5, 0.5, 0.5}
	for i, c := range []struct {
		n                               naming
		model                           vit.Config
		config, preprocessor, processor string
		mean, std                       []float64
		names                           string // in the reason why images are not preprocessed
	}{
		{hfBase, one, of("3"), images, "", mean, std, ""}, {hfBase, one, of("3"), "", "", nil, nil, ""},
		{hfBase, one, of("3"), `{"image_mean":[0.7,0.8,0.9],"image_std":[1,1,1]}`, `{"image_processor":` + images + `}`, mean,
			std, ""},
		{hfBase, one, of("3"), `{"do_normalize":false,"image_mean":[1,1,1],"image_std":[2,2,2]}`, "", []float64{0, 0, 0},
			[]float64{1, 1, 1}, ""},
		{hfBase, gray, of("1"), `{"image_mean":[0.25],"image_std":[0.75]}`, "", []float64{0.25}, []float64{0.75}, ""},
		{hfBase, one, of("3"), `{"image_mean":[0.1],"image_std":[1,1,1]}`, "", nil, nil, "image_mean"},
		{hfBase, one, of("3"), `{"image_mean":[0,0,0],"image_std":[1,0,1]}`, "", nil, nil, "image_std"},
		{hfBase, one, of("3"), `{"image_mean":`, "", nil, nil, foreignPreprocessor},
		{timm, one, theirs(`"pretrained_cfg":{` + numbers + `}`), "", "", mean, std, ""},
		{timm, one, theirs(`"input_size":[3,6,10],` + numbers), "", "", mean, std, ""},
		{timm, one, timmConfig(one), "", "", nil, nil, ""},
		{jax, one, "", "", "", half, half, ""}, {jax, gray, "", "", "", half[:1], half[:1], ""},
		{jax, gray, google, "", "", nil, nil, ""}, // an export, whose files say it
		{jax, gray, google, `{"image_mean":[0.25],"image_std":[0.75]}`, "", []float64{0.25}, []float64{0.75}, ""},
		{jax, gray, google, `{"image_mean":[0.25],"image_std":[0]}`, "", nil, nil, ""},
	} {
		file := put(t, c.n, made(c.n, c.model), c.config)
		for name, text := range map[string]string{foreignPreprocessor: c.preprocessor, foreignProcessor: c.processor} {
			if text != "" {
				putFile(t, filepath.Join(filepath.Dir(file), name), []byte(text))
			}
		}
		m := imported(t, file, ImportOptions{Hints: Hints{Grid: smallGrid}})
		if err := m.PreprocessError; c.names != "" && (err == nil || !strings.Contains(err.Error(), c.names)) {
			t.Errorf("%d: %v, want an error that names %q", i, err, c.names)
		}
		if !slices.Equal(m.Mean, c.mean) || !slices.Equal(m.Std, c.std) ||
			c.model.Channels == 1 && (m.Preprocess != nil || m.PreprocessError != nil) {
			t.Errorf("%d: mean %v, std %v, want %v and %v; %+v", i, m.Mean, m.Std, c.mean, c.std, m.Preprocess)
		}
	}
}

func TestImport_PreprocessingOrTheReason(t *testing.T) {
	file := put(t, hf, made(hf, smallViT), hfConfig())
	const size = `{"size":{"height":6,"width":10},`
	const numbers = `"image_mean":[0.1,0.2,0.3],"image_std":[0.4,0.5,0.6],"resample":2}`
	for text, taken := range map[string]bool{
		size + numbers: true, size + `"do_pad":true,` + numbers: false, `{"size":{"shortest_edge":6},` + numbers: false,
		size + `"resample":2}`: false, size + `"resample":2,"image_processor_type":"ViTImageProcessor"}`: true,
		size + `"image_processor_type":"LevitImageProcessor",` + numbers: false,
	} {
		putFile(t, filepath.Join(filepath.Dir(file), foreignPreprocessor), []byte(text))
		m := imported(t, file, ImportOptions{})
		gomlxtest.Must(m.Resize(6, 10, ""))(t)
		said := strings.Count(strings.Join(m.Report, "\n"), "preprocessing: ")
		if (m.Preprocess != nil) != taken || (m.PreprocessError == nil) != taken || said != when(!taken, 1) ||
			taken && m.Preprocess.Size != [2]int{6, 10} || (inspected(t, file).PreprocessError == "") != taken {
			t.Errorf("%s: %+v, %v, %q", text, m.Preprocess, m.PreprocessError, m.Report)
		}
	}
}

// transformers' image-classification pipeline: a sigmoid of several labels and of a single one, the logits of a
// regression. Our own format has the same entry; timm and Google have none, so that their exports must say what is
// lost.
func TestScores_AreThoseOfTransformersPipeline(t *testing.T) {
	one := changedBy(smallViT, func(c *vit.Config) { c.Classes = 1 })
	of := func(problem string) string { return hfConfig("problem_type", problem) }
	for _, c := range []struct {
		n       naming
		model   vit.Config
		config  string
		options ImportOptions
		want    string
	}{
		{hf, smallViT, hfConfig(), ImportOptions{}, softmax}, {hf, smallViT, of("null"), ImportOptions{},
			softmax},
		{hf, smallViT, of(`"single_label_classification"`), ImportOptions{}, softmax},
		{hf, smallViT, of(`"multi_label_classification"`), ImportOptions{}, sigmoid},
		{hf, smallViT, of(`"regression"`), ImportOptions{}, noActivation}, {hf, one, hfConfig(), ImportOptions{},
			sigmoid},
		{hf, smallViT, of(`"multi_label_classification"`), ImportOptions{Classes: 3}, softmax},
		{timm, one, timmConfig(one), ImportOptions{}, softmax},
	} {
		m := imported(t, put(t, c.n, made(c.n, c.model), c.config), c.options)
		if m.Activation != c.want {
			t.Errorf("%s: scores by %s, want %s", c.config, m.Activation, c.want)
		}
		if m.Config.Epsilon = 1e-6; m.Headless() || c.model.Classes == 1 { // epsilon as timm's and Google's
			continue
		}
		for _, format := range fileFormats {
			dir := filepath.Join(t.TempDir(), format)
			report := gomlxtest.Must(Export(dir, nil, loaded(t, m), m.Config, ExportOptions{Format: format,
				Activation: m.Activation}))(t)
			lost := format == formatTimm || format == formatJAX
			if said := strings.Contains(strings.Join(report, "\n"), "scores: "); said != (lost && c.want != softmax) {
				t.Errorf("%s as %s: report %q", c.config, format, report)
			}
			if again := imported(t, dir, ImportOptions{}); again.Activation != c.want && !lost {
				t.Errorf("%s as %s: opened with %s", c.config, format, again.Activation)
			}
		}
	}
}

// timm writes label_names as a list, or as an object if the numbers of the classes have gaps; old files have labels.
// Names of another number of classes belong to another head.
func TestLabels_OfTheHead(t *testing.T) {
	list := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat(`"x",`, n), ",") + "]" }
	byID := func(n int) string { return labels(n-1, fmt.Sprint(n-1)) }
	for fields, want := range map[string]int{ // -1: refused
		`"label_names":` + list(13): 13, `"label_names":null`: 0, `"label_names":` + byID(12): 0, `"label_names":[]`: 0,
		`"label_names":` + list(12): -1, `"labels":` + list(13): 13, `"labels":` + list(12): 0, ``: 0,
		`"pretrained_cfg":{"label_names":` + list(13) + `}`: 13, `"pretrained_cfg":{"label_names":` + list(12) + `}`: 0,
		`"id2label":` + byID(13): 13, `"id2label":` + byID(12): -1, `"id2label":` + byID(14): -1,
	} {
		got, err := labelsIn(object(t, "{"+fields+"}"), 13)
		if (err == nil) != (want >= 0) || err == nil && len(got) != want {
			t.Errorf("%.40s: %d labels, %v, want %d", fields, len(got), err, want)
		}
	}
	// The names that torchvision 0.29's weights have for these classes; timm's for models of 1000 classes.
	names := slices.Clone(knownLabels(formatTimm, 1000))
	for class, want := range map[int]string{0: "tench", 134: "crane bird", 285: "Egyptian cat", 517: "crane",
		967: "espresso", 999: "toilet tissue"} {
		if len(names) != 1000 || names[class] != want {
			t.Errorf("%d is %q, want %q", class, names[class], want)
		}
	}
	if slices.Sort(names); len(slices.Compact(names)) != 1000 || knownLabels(formatTimm, 21843) != nil ||
		knownLabels(formatHF, 1000) != nil {
		t.Error("names of other classes, or a name twice")
	}
}

// Weights of timm without a config.json have the sizes of the architecture, and their grid from the options.
func TestImport_GridOfTheOptions(t *testing.T) {
	c := gomlxtest.Resolved(vit.Config{ImageRows: 48, ImageCols: 80, PatchSize: 16, Width: 64, Depth: 6, Heads: 2,
		MLPDim: 192, Classes: 3,
		Position: "learned"}) // timm's test_vit
	m := imported(t, put(t, timm, made(timm, c), ""), ImportOptions{Hints: Hints{Architecture: "test_vit",
		Grid: gridSize{3, 5}}})
	if m.Config != c {
		t.Errorf("%+v, want %+v", m.Config, c)
	}
}

// rectangle is the preprocessing of a run at 8×16 that crops, as Recipe.Preprocessing makes it.
var rectangle = preprocess.Settings{Resize: preprocess.ResizeCover, Size: [2]int{8, 16}, Crop: [2]int{8, 16},
	Resample: preprocess.Bicubic, Mean: [3]float64{0.5, 0.25, 0.125}, Std: [3]float64{0.5, 0.75, 0.3}}

// Hugging Face's processors crop squares or rectangles of an image whose shorter side was set, so none covers 8×16;
// timm's does, and rounds half pixels to even. A model trained with aspect keep has a grid per image; its files
// describe one size.
func TestExport_PreprocessingWhereTheFormatHasIt(t *testing.T) {
	c := changedBy(ownViT("learned"), func(c *vit.Config) { c.ImageRows, c.ImageCols = 8, 16 })
	store := stirred(t, c, nil)
	exact := changedBy(rectangle, func(s *preprocess.Settings) { s.Resize, s.Crop = preprocess.ResizeExact, [2]int{} })
	rounded := changedBy(rectangle, func(s *preprocess.Settings) { s.RoundCrop = true })
	keep := changedBy(exact, func(s *preprocess.Settings) { s.Resize, s.Patch = preprocess.ResizePatches, 2 })
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
	crops := changedBy(rectangle, func(s *preprocess.Settings) {
		s.Resize, s.Size, s.Crop = preprocess.ResizeShortest, [2]int{19, 19}, [2]int{16, 16}
	})
	even := changedBy(crops, func(s *preprocess.Settings) { s.RoundCrop = true })
	exact := func(rows, cols int) preprocess.Settings {
		return changedBy(even, func(s *preprocess.Settings) { s.Resize, s.Size = preprocess.ResizeExact, [2]int{rows, cols} })
	}
	float := changedBy(exact(16, 16), func(s *preprocess.Settings) {
		s.Float, s.Crop, s.RoundCrop = true, [2]int{}, false
	})
	square := changedBy(even, func(s *preprocess.Settings) { s.Resize = preprocess.ResizeCover })
	border := func(fill [3]uint8) preprocess.Settings {
		return changedBy(even, func(s *preprocess.Settings) { s.Resize, s.Fill = preprocess.ResizeContain, fill })
	}
	grey := changedBy(crops, func(s *preprocess.Settings) { s.Grey16 = preprocess.GreyScale })
	for i, test := range []struct {
		format, names string
		s             preprocess.Settings
	}{
		{formatHF, "16-bit grey", grey}, {formatNative, "", grey},
		{formatHF, "crop", even}, {formatHF, "", crops}, {formatTimm, "crop", crops}, {formatTimm, "", even},
		{formatJAX, "crop", even}, {formatONNX, "crop", even}, {formatNative, "", even},
		{formatHF, "crop", exact(19, 19)}, {formatHF, "", exact(17, 17)}, {formatHF, "", exact(18, 18)}, // 1.5, .5, 1
		{formatTimm, "rounded down", square}, {formatNative, "", square},
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
			Resample: preprocess.Bicubic}); line == "" || declared != want {
			t.Errorf("%s: %+v, %q", format, declared, line)
		}
	}
	if s, line := declarable(formatTimm, preprocess.Settings{Crop: [2]int{6, 10}}, 6, 10); s.Resize !=
		preprocess.ResizeExact || line == "" {
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
		4}, of("1", "4"): {6, 10}, of("6", "8"): {6, 8}, of("8", "10"): {8, 10}} {
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
