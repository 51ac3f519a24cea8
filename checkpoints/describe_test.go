// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/strictjson"
	"github.com/wepe-go/wepe/vit"
)

// timm.create_model ignores arguments that are None; a file's own arguments come before the architecture's, then those
// of pretrained_cfg, which older files have at their top level, then the class's.
func TestTheArgumentsOfATimmModelHaveTheirOrder(t *testing.T) {
	const name = "vit_base_patch16_gap_224" // of 16 heads, without a class token, of global_pool avg
	for _, c := range []struct {
		config string
		want   map[string]any
	}{
		{`{}`, map[string]any{"num_heads": 16.0, "depth": 12.0, "in_chans": 3.0}},
		{`{"model_args":{"num_heads":8}}`, map[string]any{"num_heads": 8.0}},
		{`{"model_args":{"num_heads":null}}`, map[string]any{"num_heads": 16.0}},
		{`{"model_args":{"act_layer":"SiLU"}}`, map[string]any{"act_layer": "silu"}},
		{`{"input_size":[1,30,40]}`, map[string]any{"in_chans": 1.0}},
		{`{"input_size":[5,30,40],"model_args":{"in_chans":2}}`, map[string]any{"in_chans": 2.0}},
		{`{"input_size":[5,30,40],"pretrained_cfg":{"input_size":[7,30,40]}}`, map[string]any{"in_chans": 7.0}},
		{`{"input_size":[5,30,40],"pretrained_cfg":{}}`, map[string]any{"in_chans": 3.0}},
	} {
		config := gomlxtest.Must(strictjson.ParseObject([]byte(c.config)))(t)
		got := gomlxtest.Must(timmArgs(name, config))(t)
		for key, want := range c.want {
			if got[key] != want {
				t.Errorf("%s: %s is %v, want %v", c.config, key, got[key], want)
			}
		}
	}
	for text, want := range map[string]string{
		`{"model_args":3}`:                            "model_args is 3, want an object",
		`{"model_args":{"depth":1e400}}`:              "depth is 1e400, want JSON",
		`{"pretrained_cfg":3}`:                        "pretrained_cfg is 3, want an object",
		`{"input_size":[0,3,5]}`:                      "input_size is [0,3,5], want 3 numbers from 1 to 16384",
		`{"input_size":[3,16384,16385]}`:              "input_size is [3,16384,16385], want 3 numbers from 1 to 16384",
		`{"input_size":[3,5]}`:                        "input_size is [3,5], want 3 numbers from 1 to 16384",
		`{"input_size":[3,5,7],"fixed_input_size":1}`: "fixed_input_size is 1, want true or false",
	} {
		config := gomlxtest.Must(strictjson.ParseObject([]byte(text)))(t)
		if _, err := timmArgs(name, config); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// What is read from the arguments of an architecture is written, so that reading it again gives the same model.
func TestEveryArchitectureOfTimmComesBackFromItsArguments(t *testing.T) {
	read := 0
	for _, name := range ArchitectureNames() {
		f := gomlxtest.Must(timmFamily(name))(t)
		m, err := f.read(gomlxtest.Must(timmArgs(name, nil))(t), true)
		if err != nil {
			continue // an option that the network lacks
		}
		read++
		back, err := f.read(gomlxtest.Must(asJSON(m.write()))(t), true)
		if err != nil || back.config != m.config || !maps.Equal(back.params, m.params) {
			t.Errorf("%s is read again as %+v, %v, was %+v", name, back, err, m)
		}
	}
	if read != 251-16 {
		t.Errorf("%d architectures were read", read)
	}
}

// A model is written as the architecture from which the fewest arguments differ, the first of these by name.
func TestAModelIsWrittenAsTheNearestArchitecture(t *testing.T) {
	for name, want := range map[string]string{
		"vit_tiny_patch16_224":  "deit_tiny_patch16_224 map[fc_norm:false img_size:224]", // of equal arguments
		"vit_base_patch16_384":  "deit_base_patch16_224 map[fc_norm:false img_size:384]",
		"aimv2_1b_patch14_448":  "aimv2_1b_patch14_224 map[img_size:448]",
		"beit_base_patch16_384": "beit_base_patch16_384 map[use_fc_norm:true]",
	} {
		f := gomlxtest.Must(timmFamily(name))(t)
		m := gomlxtest.Must(f.read(gomlxtest.Must(timmArgs(name, nil))(t), true))(t)
		as, args, err := architectureFor(f.class, m.write())
		if got := fmt.Sprint(as, " ", args); err != nil || got != want {
			t.Errorf("%s is written as %s, %v, want %s", name, got, err, want)
		}
	}
}

// changed is weights with other tensors, absent for a nil shape.
func changed(weights map[string]*tensors.Tensor, name string, dims ...int) map[string]*tensors.Tensor {
	weights = maps.Clone(weights)
	if weights[name] = nil; dims == nil {
		delete(weights, name)
	} else {
		weights[name] = randomTensor(rand.New(rand.NewPCG(1, 1)), dtypes.Float32, dims...)
	}
	return weights
}

func TestAFileThatCannotBeAModelSaysWhyInOneLine(t *testing.T) {
	one := smallViT
	one.Depth = 1
	hfWeights, timmWeights, jaxWeights := made(hf, one), made(timm, one), made(jax, one)
	config := hfConfig("num_hidden_layers", "1")
	const jaxPatch = "embedding/kernel"
	begin := func(weights map[string]*tensors.Tensor) string {
		return fmt.Sprintf("%d tensors begin with %q", len(weights), slices.Sorted(maps.Keys(weights))[:5])
	}
	noProjection := changed(hfWeights, "vit.embeddings.patch_embeddings.projection.weight")
	jaxRefused := "x/model.npz has no projection of square patches with the name of Google's JAX release, " +
		"embedding/kernel: " +
		"its " + begin(jaxWeights)
	for _, c := range []struct {
		n       naming
		weights map[string]*tensors.Tensor
		config  string
		options ImportOptions
		want    string // the error, with x for the directory
	}{
		{hf, hfWeights, hfConfig("model_type", `"bert"`), ImportOptions{},
			`x/config.json: model_type is "bert", want "vit" for ` +
				"these tensors: one of beit, clip, clip_vision_model, deit, dinov2, dinov2_with_registers, dinov3_vit, ijepa, " +
				"siglip, siglip_vision_model, vit, vit-jax, vit_mae, vit_msn, or an architecture of timm"},
		{hf, hfWeights, hfConfig("problem_type", "3"), ImportOptions{}, "x/config.json: problem_type is 3, want a string"},
		{hf, hfWeights, hfConfig("problem_type", `"x"`), ImportOptions{},
			`x/config.json: problem_type is "x", want regression, ` +
				"single_label_classification or multi_label_classification"},
		{hf, hfWeights, hfConfig("hidden_act", `"x"`), ImportOptions{}, `x/config.json: hidden_act is "x", want "gelu" or ` +
			`"gelu_python" or "gelu_pytorch_tanh" or "gelu_new" or "quick_gelu"`},
		{hf, hfWeights, hfConfig("hidden_size", "1e400"), ImportOptions{}, "x/config.json: hidden_size is 1e400, want JSON"},
		{hf, hfWeights, hfConfig("num_hidden_layers", "1", "id2label", labels(12, "13")), ImportOptions{},
			"x/config.json: id2label: class 12 has no name"},
		{hf, hfWeights, "", ImportOptions{}, "x/model.safetensors has no config.json beside its weights: put it there or, " +
			"for weights of timm, use --architecture NAME (ImportOptions.Architecture); the " + begin(hfWeights)},
		{hf, noProjection, config, ImportOptions{},
			"x/model.safetensors has no patch projection with the name of hf ViTForImageClassification: its " +
				begin(noProjection)},
		{hf, changed(hfWeights, "classifier.bias", 13, 1), config, ImportOptions{},
			"x/model.safetensors: has no head: --classes N (ImportOptions.Classes) makes a new one"},
		{timm, timmWeights, strings.Replace(timmConfig(one), `"depth":1`, `"depth":"x"`, 1), ImportOptions{},
			`x/config.json: model_args: depth is "x", want an integer from 1`},
		{timm, timmWeights, `{"architecture":"resnet"}`, ImportOptions{},
			`x/config.json: timm 1.0.31: unknown architecture "resnet": none of 251 names`},
		{timm, timmWeights, timmConfig(one), ImportOptions{Hints: Hints{Architecture: "test_vit"}},
			"x/model.safetensors is of architecture vit_base_patch16_224, not test_vit"},
		{timm, timmWeights, timmConfig(one), ImportOptions{ImageRows: 7, ImageCols: 10},
			"importing x/model.safetensors: vit: an " +
				"image of 7×10 pixels does not divide into patches of 2×2: choose a patch size that divides both sides, or resize"},
		{jax, changed(jaxWeights, jaxPatch, 2, 3, 3, 14), "", ImportOptions{Hints: Hints{Grid: smallGrid}}, jaxRefused},
		{jax, changed(jaxWeights, jaxPatch, 2, 2, 0, 14), "", ImportOptions{Hints: Hints{Grid: smallGrid}}, jaxRefused},
		{jax, changed(jaxWeights, jaxPatch, 2, 2, 3, 0), "", ImportOptions{Hints: Hints{Grid: smallGrid}}, jaxRefused},
		{jax, changed(jaxWeights, jaxPatch, 0, 0, 3, 14), "", ImportOptions{Hints: Hints{Grid: smallGrid}}, jaxRefused},
		{jax, changed(jaxWeights, jaxPatch, 2, 2, 3), "", ImportOptions{Hints: Hints{Grid: smallGrid}}, jaxRefused},
		{jax, changed(jaxWeights, "Transformer/encoderblock_0/MultiHeadDotProductAttention_1/query/kernel", 14, 4, 2), "",
			ImportOptions{Hints: Hints{Grid: smallGrid}}, "x/model.npz: vit: width 14 does not divide into 4 heads"},
		{jax, changed(changed(jaxWeights, "head/kernel"), "head/bias"), "", ImportOptions{Hints: Hints{Grid: smallGrid}},
			"x/model.npz: has no head: --classes N (ImportOptions.Classes) makes a new one"},
		{jax, changed(changed(jaxWeights, "head/kernel"), "head/bias"), "", ImportOptions{Classes: 3,
			Hints: Hints{Grid: smallGrid}}, ""},
		// of another file
		{jax, jaxWeights, `{"model_type":"vit","image_size":99}`, ImportOptions{Hints: Hints{Grid: smallGrid}}, ""},
		{jax, jaxWeights, `{"model_type":"vit-jax","image_size":[6,10]}`, ImportOptions{}, ""},
		{jax, jaxWeights, `{"model_type":"vit-jax","image_size":[6,10]}`, ImportOptions{Hints: Hints{Grid: gridSize{5, 3}}},
			"x/model.npz has a grid of 3x5, not 5x3"},
	} {
		file := put(t, c.n, c.weights, c.config)
		_, err := Import(file, c.options)
		got := ""
		if err != nil {
			got = strings.ReplaceAll(err.Error(), filepath.Dir(file), "x")
		}
		if want := "checkpoints: " + c.want; got != want && got+c.want != "" {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// Weights of timm without a config.json: the architecture says all but the grid.
func TestTheGridOfWeightsWithoutAConfigIsThatOfTheOptions(t *testing.T) {
	c := gomlxtest.Resolved(vit.Config{ImageRows: 48, ImageCols: 80, PatchSize: 16, Width: 64, Depth: 6, Heads: 2, MLPDim: 192, Classes: 3,
		Position: "learned"}) // timm's test_vit
	file := put(t, timm, made(timm, c), "")
	m := imported(t, file, ImportOptions{Hints: Hints{Architecture: "test_vit", Grid: gridSize{3, 5}}})
	if m.Config != c {
		t.Errorf("%+v, want %+v", m.Config, c)
	}
	if _, err := Import(file, ImportOptions{Hints: Hints{Architecture: "test_vit", Grid: gridSize{5, 4}}}); err == nil {
		t.Error("16 positions are a grid of 5×4 and a class token")
	}
}

func TestTheFieldsOfATowerAreAnObject(t *testing.T) {
	config := gomlxtest.Must(strictjson.ParseObject([]byte(`{"vision_config":3}`)))(t)
	if _, err := hfCLIP.fieldsIn(config); err == nil || err.Error() != "vision_config is 3, want an object" {
		t.Error(err)
	}
	// CLIPConfig of transformers 5.23: the patches are of 32 pixels, its default, not of 16.
	config = gomlxtest.Must(strictjson.ParseObject([]byte(`{"vision_config":{"hidden_size":8,"patch_size":16},
		"vision_config_dict":{"hidden_size":24}}`)))(t)
	if fields, err := hfCLIP.fieldsIn(config); err != nil || len(fields) != 1 || fields["hidden_size"] != 24. {
		t.Errorf("vision_config_dict: %v, %v", fields, err)
	}
}

// The head of a class of two heads, and the tensors of a class without a head.
func TestTheClassesOfAFileAreTheBiasesOfItsHead(t *testing.T) {
	w := &weights{tensors: map[string]storedTensor{"classifier.bias": {dims: []int{5}}, "bias": {dims: []int{7}},
		"head.bias": {dims: []int{3}}, "head_dist.bias": {dims: []int{11}}}}
	for f, want := range map[*family]int{&hfViT: 5, &hfMAE: 0, &timmDistilled: 3, &hfDeiTTeacher: 0, &jaxViT: 0,
		&timmViT: 3} {
		if got := w.classes(f); got != want {
			t.Errorf("%s: %d classes, want %d", f.class, got, want)
		}
	}
}

func TestManyNamesAreListedByTheFirstFive(t *testing.T) {
	names := strings.Fields("a b c d e f g")
	for n, want := range map[int]string{1: "a", 5: "a, b, c, d, e", 6: "a, b, c, d, e, … (6 tensors)"} {
		if got := listed(names[:n]); got != want {
			t.Errorf("%d names: %q, want %q", n, got, want)
		}
		missing := &MismatchError{Path: "x", Missing: names[:n]}
		want, _, more := strings.Cut(want, ", … (")
		if more {
			want += ", …"
		}
		if want = fmt.Sprintf("checkpoints: x is of another model; %d that it lacks: %s", n, want); missing.Error() != want {
			t.Errorf("%q, want %q", missing.Error(), want)
		}
	}
	hostile := &MismatchError{Path: "x", Mismatched: []string{"a\x1b[31m [3], in the model [5]"},
		Unexpected: []string{"b\n [7]"}}
	if want := `checkpoints: x is of another model; 1 of other shape: a\x1b[31m [3], in the model [5]; 1 that the model ` +
		`lacks: b\n [7]`; hostile.Error() != want {
		t.Errorf("%q, want %q", hostile.Error(), want)
	}
}

// Softmax of a model of ours with one class: only transformers' pipeline has a rule for it.
func TestTheScoresOfAFileAreThoseOfItsFormat(t *testing.T) {
	for _, c := range []struct{ format, config, want, refused string }{
		{formatHF, `{}`, scoresSigmoid, ""}, {formatNative, `{}`, scoresSoftmax, ""}, {formatTimm, `{}`, scoresSoftmax, ""},
		{formatJAX, `{}`, scoresSoftmax, ""}, {formatTimm, `{"problem_type":"regression"}`, scoresSoftmax, ""},
		{formatNative, `{"problem_type":"regression"}`, scoresNone, ""},
		{formatNative, `{"problem_type":"multi_label_classification"}`, scoresSigmoid, ""},
		{formatNative, `{"problem_type":"x"}`, "", `problem_type is "x", want regression`},
		{formatNative, `{"problem_type":3}`, scoresSoftmax, "problem_type is 3, want a string"},
	} {
		d := described{format: c.format, foreign: &foreign{config: vit.Config{Classes: 1}}}
		if err := json.Unmarshal([]byte(c.config), &d.json); err != nil {
			t.Fatal(err)
		}
		got, err := d.scores()
		if got != c.want || (err == nil) != (c.refused == "") || err != nil && !strings.HasPrefix(err.Error(), c.refused) {
			t.Errorf("%s %s: %q, %v, want %q, %q", c.format, c.config, got, err, c.want, c.refused)
		}
	}
}

// Three channels make an image; a model of another number has no preprocessing here, but may have its normalization.
func TestTheNormalizationOfAModelHasItsChannels(t *testing.T) {
	one := smallViT
	one.Channels, one.Depth = 1, 1
	for _, c := range []struct {
		n                    naming
		config, preprocessor string
		mean, std            []float64
	}{
		{hf, hfConfig("num_channels", "1", "num_hidden_layers", "1"), `{"image_mean":[0.25],"image_std":[0.75]}`,
			[]float64{0.25}, []float64{0.75}},
		{jax, "", "", []float64{0.5}, []float64{0.5}},
		{jax, `{"model_type":"vit-jax","image_size":[6,10]}`, "", nil, nil}, // an export, whose files say it
		{jax, `{"model_type":"vit-jax","image_size":[6,10]}`, `{"image_mean":[0.25],"image_std":[0.75]}`,
			[]float64{0.25}, []float64{0.75}},
	} {
		file := put(t, c.n, made(c.n, one), c.config)
		if c.preprocessor != "" {
			putFile(t, filepath.Join(filepath.Dir(file), foreignPreprocessor), []byte(c.preprocessor))
		}
		m := imported(t, file, ImportOptions{Hints: Hints{Grid: smallGrid}})
		if !slices.Equal(m.Mean, c.mean) || !slices.Equal(m.Std, c.std) || m.Preprocess != nil || m.PreprocessError != nil {
			t.Errorf("%s %s: mean %v, std %v, %+v", c.n.format, c.config, m.Mean, m.Std, m.Preprocess)
		}
	}
}

// A head is kept if it has the classes that are asked for and reads what this network computes.
func TestAHeadIsKeptReplacedOrMissing(t *testing.T) {
	for _, c := range []struct {
		has, asked       int
		optional, behind bool // behind: the file has a layer before its head that this network lacks
		omit             bool
		headless         bool // the error
	}{
		{1, 0, false, false, false, false}, {1, 1, false, false, false, false}, {5, 0, true, false, false, false},
		{5, 5, true, false, false, false}, {1, 3, false, false, true, false}, {5, 1, false, false, true, false},
		{0, 3, false, false, true, false}, {0, 0, true, false, true, false}, {0, 0, false, false, false, true},
		{1, 0, false, true, false, true}, {1, 1, false, true, true, false}, {5, 0, true, true, true, false},
	} {
		w := &weights{path: "x", tensors: map[string]storedTensor{"pre_logits.other": {}}}
		if c.behind {
			w.tensors["pre_logits/kernel"] = storedTensor{}
		}
		config := smallViT
		config.Classes = c.has
		m := &Imported{Config: config}
		omit, err := m.chooseHead(w, described{foreign: jax.foreign(config)}, ImportOptions{Classes: c.asked,
			HeadOptional: c.optional})
		var headless *HeadError
		classes := c.has
		if c.omit {
			classes = max(c.asked, 1)
			if c.asked == 0 && c.has > 0 {
				classes = c.has
			}
		}
		if omit != c.omit || errors.As(err, &headless) != c.headless || m.Config.Classes != classes {
			t.Errorf("%+v: %v, %v, %d classes", c, omit, err, m.Config.Classes)
		}
	}
}

// What no head reads is left out of a model, named in the order of the names.
func TestTensorsThatAreLeftOutAreListedInOrder(t *testing.T) {
	one := smallViT
	one.Depth = 1
	weights := made(hfBase, one)
	for _, name := range []string{"c", "a", "e", "b", "d"} {
		weights = changed(weights, "pooler."+name, 3)
	}
	m := imported(t, put(t, hfBase, weights, hfConfig("num_hidden_layers", "1")), ImportOptions{})
	if want := "left out: pooler.a, pooler.b, pooler.c, pooler.d, pooler.e"; !slices.Contains(m.Report, want) {
		t.Errorf("report %q lacks %q", m.Report, want)
	}
	if want := "positions: 3x5 -> 3x5 (copy)"; !slices.Contains(m.Report, want) {
		t.Errorf("report %q lacks %q", m.Report, want)
	}
	c := ownViT("rope-axial")
	m = imported(t, exportedFrom(t, stirred(t, c, nil), c, ExportOptions{Format: formatNative}),
		ImportOptions{ImageRows: 8, ImageCols: 6})
	if want := "positions: rope-axial, 3x5 -> 4x3"; !slices.Contains(m.Report, want) {
		t.Errorf("report %q lacks %q", m.Report, want)
	}
}
