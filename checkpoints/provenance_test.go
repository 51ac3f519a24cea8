// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/vit"
)

func TestMeanAndStdAreReadFromEitherFile(t *testing.T) {
	bare := timmConfig(smallViT)
	timm := strings.TrimSuffix(bare, "}") + `,"pretrained_cfg":{"mean":[0.1,0.2,0.3],"std":[0.4,0.5,0.6]}}`
	for name, c := range map[string]struct {
		format, config, preprocessor string
		mean, std                    []float64
		refused                      string // what an error names
	}{
		"Hugging Face": {formatHF, hfConfig(), `{"image_mean":[0.1,0.2,0.3],"image_std":[0.4,0.5,0.6]}`,
			[]float64{0.1, 0.2, 0.3}, []float64{0.4, 0.5, 0.6}, ""},
		"not normalized": {formatHF, hfConfig(), `{"do_normalize":false,"image_mean":[1,1,1],"image_std":[2,2,2]}`,
			[]float64{0, 0, 0}, []float64{1, 1, 1}, ""},
		"no preprocessor": {formatHF, hfConfig(), "", nil, nil, ""},
		"timm":            {formatTimm, timm, "", []float64{0.1, 0.2, 0.3}, []float64{0.4, 0.5, 0.6}, ""},
		"timm, unsaid":    {formatTimm, bare, "", nil, nil, ""},
		"Google":          {formatJAX, "", "", []float64{0.5, 0.5, 0.5}, []float64{0.5, 0.5, 0.5}, ""},
		"one channel":     {formatHF, hfConfig(), `{"image_mean":[0.1],"image_std":[1,1,1]}`, nil, nil, "image_mean"},
		"zero std":        {formatHF, hfConfig(), `{"image_mean":[0,0,0],"image_std":[1,0,1]}`, nil, nil, "image_std"},
		"half of it":      {formatHF, hfConfig(), `{"image_mean":[0,0,0]}`, nil, nil, "image_std is missing"},
		"no JSON":         {formatHF, hfConfig(), `{"image_mean":`, nil, nil, foreignPreprocessor},
	} {
		n := map[string]naming{formatHF: hfBase, formatTimm: {&timmViT, ""}, formatJAX: jax}[c.format]
		file := put(t, n, made(n, smallViT), c.config)
		if c.preprocessor != "" {
			putFile(t, filepath.Join(filepath.Dir(file), foreignPreprocessor), []byte(c.preprocessor))
		}
		m, err := Import(file, ImportOptions{Hints: Hints{Grid: gridSize{3, 5}}})
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: want an error with %q, got %v", name, c.refused, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !slices.Equal(m.Mean, c.mean) || !slices.Equal(m.Std, c.std) {
			t.Errorf("%s: mean %v, std %v, want %v and %v", name, m.Mean, m.Std, c.mean, c.std)
		}
	}
}

// transformers 5 reads processor_config.json before preprocessor_config.json; timm's old files have everything in one
// object.
func TestPreprocessingIsReadWhereOtherSoftwareReadsIt(t *testing.T) {
	const processor = `{"size":{"height":6,"width":10},"resample":2,"image_std":[0.4,0.5,0.6],"image_mean":`
	file := put(t, hf, made(hf, smallViT), hfConfig())
	putFile(t, filepath.Join(filepath.Dir(file), foreignPreprocessor), []byte(processor+`[0.7,0.8,0.9]}`))
	putFile(t, filepath.Join(filepath.Dir(file), foreignProcessor),
		[]byte(`{"image_processor":`+processor+`[0.1,0.2,0.3]}}`))
	old := strings.TrimSuffix(timmConfig(smallViT), "}") +
		`,"input_size":[3,6,10],"mean":[0.1,0.2,0.3],"std":[0.4,0.5,0.6]}`
	for name, path := range map[string]string{
		"transformers 5": file, "old timm": put(t, timm, made(timm, smallViT), old),
	} {
		m, err := Import(path, ImportOptions{})
		if err != nil || !slices.Equal(m.Mean, []float64{0.1, 0.2, 0.3}) || !slices.Equal(m.Std, []float64{0.4, 0.5, 0.6}) {
			t.Errorf("%s: %v, mean %v, std %v", name, err, m.Mean, m.Std)
		}
	}
}

func TestPreprocessingIsImportedOrTheReasonReported(t *testing.T) {
	file := put(t, hf, made(hf, smallViT), hfConfig())
	const size = `{"size":{"height":6,"width":10},`
	const numbers = `"image_mean":[0.1,0.2,0.3],"image_std":[0.4,0.5,0.6],"resample":2}`
	for text, want := range map[string]struct {
		taken, known bool
		line         string
	}{
		size + numbers:                           {true, true, "positions: "},
		size + `"do_pad":true,` + numbers:        {false, false, "preprocessing: left out: preprocess: un"},
		`{"size":{"shortest_edge":6},` + numbers: {false, true, "preprocessing: left out: preprocess: wi"},
		size + `"resample":2}`:                   {false, false, "preprocessing: left out: preprocess: it"},
		size + `"resample":2,"image_processor_type":"ViTImageProcessor"}`: {true, true, "positions: "},
	} {
		putFile(t, filepath.Join(filepath.Dir(file), foreignPreprocessor), []byte(text))
		m := imported(t, file, ImportOptions{})
		if (m.Preprocess != nil) != want.taken || (m.PreprocessError == nil) != want.known ||
			want.taken && m.Preprocess.Size != [2]int{6, 10} ||
			!slices.ContainsFunc(m.Report, func(line string) bool { return strings.HasPrefix(line, want.line) }) {
			t.Errorf("%s: %+v, %v, %q", text, m.Preprocess, m.PreprocessError, m.Report)
		}
	}
}

// transformers' image-classification pipeline: a sigmoid of several labels and of a single one, the logits of a
// regression.
func TestScoresAreThoseOfTransformersPipeline(t *testing.T) {
	one := smallViT
	one.Classes = 1
	for _, c := range []struct {
		n       naming
		model   vit.Config
		config  string
		options ImportOptions
		want    string // or what an error names
	}{
		{hf, smallViT, hfConfig(), ImportOptions{}, scoresSoftmax},
		{hf, smallViT, hfConfig("problem_type", "null"), ImportOptions{}, scoresSoftmax},
		{hf, smallViT, hfConfig("problem_type", `"single_label_classification"`), ImportOptions{}, scoresSoftmax},
		{hf, smallViT, hfConfig("problem_type", `"multi_label_classification"`), ImportOptions{}, scoresSigmoid},
		{hf, smallViT, hfConfig("problem_type", `"regression"`), ImportOptions{}, scoresNone},
		{hf, smallViT, hfConfig("problem_type", `"ranking"`), ImportOptions{}, "problem_type"},
		{hf, one, hfConfig(), ImportOptions{}, scoresSigmoid},
		{hf, smallViT, hfConfig("problem_type", `"multi_label_classification"`), ImportOptions{Classes: 3}, scoresSoftmax},
		{timm, one, timmConfig(one), ImportOptions{}, scoresSoftmax},
	} {
		m, err := Import(put(t, c.n, made(c.n, c.model), c.config), c.options)
		switch {
		case err != nil && !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q", c.config, err, c.want)
		case err == nil && m.Scores != c.want:
			t.Errorf("%s: scores by %s, want %s", c.config, m.Scores, c.want)
		}
	}
}
