// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
)

// In timm either every prefix token has a position or none: the class token's is added to it where only that has one.
func TestThePositionOfTheClassTokenIsAddedOnlyWhereTimmHasNone(t *testing.T) {
	const added = "class token: its position added to it"
	for name, c := range map[string]struct {
		format string
		change func(*vit.Config)
		report []string
	}{
		"plain":                    {formatTimm, func(*vit.Config) {}, nil},
		"registers":                {formatTimm, func(c *vit.Config) { c.Registers = 2 }, []string{added}},
		"one register":             {formatTimm, func(c *vit.Config) { c.Registers = 1 }, []string{added}},
		"positions of patches":     {formatTimm, func(c *vit.Config) { c.Registers, c.PatchPositions = 2, true }, nil},
		"positions of registers":   {formatTimm, func(c *vit.Config) { c.Registers, c.RegisterPositions = 2, true }, nil},
		"no class token":           {formatTimm, func(c *vit.Config) { c.Registers, c.Pool = 2, "mean" }, nil},
		"rotation without a table": {formatTimm, func(c *vit.Config) { c.Registers, c.Position = 2, "rope-dinov3" }, nil},
		"two heads": {formatTimm, func(c *vit.Config) {
			c.Registers, c.RegisterPositions, c.Pool = 1, true, "class+register"
		}, nil},
		"native": {formatNative, func(c *vit.Config) { c.Registers = 2 }, nil},
		"Hugging Face": {formatHF, func(c *vit.Config) {
			c.Registers, c.LayerScale, c.Pool, c.ImageCols, c.MLPDim = 2, 0.1, "class+mean", c.ImageRows, c.Width
		}, nil},
	} {
		config := ownViT("learned")
		c.change(&config)
		store := model.NewStore()
		gomlxtest.Must(store.CreateVariable("/vit/head/weights", tensors.FromScalar(float32(0))))(t)
		e, err := newExport(nil, store.Scope("/vit"), config, ExportOptions{Format: c.format})
		if err != nil || !slices.Equal(e.report, c.report) || e.mergeClass != (c.report != nil) {
			t.Errorf("%s: %v, %+v", name, err, e)
		}
	}
	c := ownViT("wepe")
	c.Registers = 2
	e := gomlxtest.Must(newExport(gomlxtest.Backend(), stirred(t, c, nil).Scope("/vit"), c,
		ExportOptions{Format: formatTimm}))(t)
	if want := []string{"positions: wepe folded into a table of 1+3x5 rows", added}; !slices.Equal(e.report, want) {
		t.Errorf("report %q, want %q", e.report, want)
	}
}

// The graph has the table of an encoding that folds, and an encoding of the attention itself.
func TestAnONNXGraphHasTheFoldedTable(t *testing.T) {
	for position, want := range map[string]string{"wepe": "learned", "learned": "learned", "rope-axial": "rope-axial"} {
		c := ownViT(position)
		e := gomlxtest.Must(newExport(gomlxtest.Backend(), stirred(t, c, nil).Scope("/vit"), c,
			ExportOptions{Format: formatONNX, Labels: strings.Fields("a b c d e f g"), Scores: scoresNone}))(t)
		var report []string
		if position == "wepe" {
			report = []string{"positions: wepe folded into a table of 1+3x5 rows"}
		}
		if e.config.Position != want || !slices.Equal(e.report, report) {
			t.Errorf("%s: %s, report %q", position, e.config.Position, e.report)
		}
		file := gomlxtest.Must(e.configJSON())(t)
		var raw strings.Builder
		if err := file.write(&raw); err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(raw.String()), &got); err != nil {
			t.Fatal(err)
		}
		ids, labels := map[string]any{}, map[string]any{}
		for i, label := range e.Labels {
			ids[label], labels[fmt.Sprint(i)] = float64(i), label
		}
		if want := map[string]any{"architectures": []any{"ViTForImageClassification"}, "hidden_size": 48.0,
			"id2label":   labels,
			"image_size": []any{6.0, 10.0}, "label2id": ids, "model_type": "vit", "num_channels": 3.0, "patch_size": 2.0,
			"position_encoding": position, "problem_type": "regression"}; !reflect.DeepEqual(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

// transformers' own files, written again, have the values of their config.json.
func TestTheConfigOfEveryClassOfTransformersIsWrittenAsItWas(t *testing.T) {
	dir := fixtures.Dir(t, "families")
	for _, f := range []*family{&hfBEiT, &hfCLIP, &hfCLIPVision, &hfDINOv3, &hfDeiT, &hfDeiTTeacher, &hfIJepa,
		&hfSigLIPVision} { // other models are written as the first class that has their options
		from := filepath.Join(dir, f.class)
		m := imported(t, from, ImportOptions{HeadOptional: true})
		var got, want map[string]any
		for file, into := range map[string]*map[string]any{from: &want,
			exported(t, m, ExportOptions{Format: m.Format}): &got} {
			if err := json.Unmarshal(readFile(t, filepath.Join(file, foreignConfig)), into); err != nil {
				t.Fatal(err)
			}
		}
		if tower, ok := want[f.inner].(map[string]any); ok {
			written, _ := got[f.inner].(map[string]any)
			sameFields(t, f.class+" "+f.inner, written, tower)
			delete(got, f.inner)
		}
		sameFields(t, f.class, got, want)
	}
}

// sameFields compares what a config.json has of another one, which has more entries.
func sameFields(t *testing.T, name string, got, want map[string]any) {
	t.Helper()
	if got["model_type"] != want["model_type"] || len(got) < 8 && got["id2label"] == nil {
		t.Errorf("%s: %v", name, got)
	}
	for key, value := range got {
		if is, ok := want[key]; ok && !reflect.DeepEqual(is, value) {
			t.Errorf("%s: %s is %v, was %v", name, key, value, is)
		}
	}
}

// timm and this library have the preprocessing in config.json.
func TestAnExportHasTheFilesOfItsFormat(t *testing.T) {
	c := ownViT("learned")
	store := stirred(t, c, nil)
	for format, want := range map[string][2]string{
		formatHF: {"model.safetensors config.json README.md",
			"model.safetensors config.json preprocessor_config.json README.md"},
		formatTimm:   {"model.safetensors config.json README.md", "model.safetensors config.json README.md"},
		formatJAX:    {"model.npz config.json README.md", "model.npz config.json preprocessor_config.json README.md"},
		formatNative: {"model.safetensors config.json README.md", "model.safetensors config.json README.md"},
	} {
		for i, p := range []*preprocess.Settings{nil, &normalized} {
			e := gomlxtest.Must(newExport(nil, store.Scope("/vit"), c, ExportOptions{Format: format, Preprocess: p,
				Scores: scoresSigmoid}))(t)
			var names []string
			for _, f := range gomlxtest.Must(e.contents())(t) {
				names = append(names, f.name)
				var text strings.Builder
				if err := f.write(&text); err != nil {
					t.Fatal(err)
				}
				problem := format == formatHF || format == formatNative // Google's and timm's files have no such entry
				if f.name == foreignConfig && strings.Contains(text.String(), "problem_type") != problem {
					t.Errorf("%s: %s", format, text.String())
				}
			}
			if got := strings.Join(names, " "); got != want[i] {
				t.Errorf("%s, %v: files %s, want %s", format, p, got, want[i])
			}
		}
	}
}

func TestATimmConfigStatesTheSizeAndTheClasses(t *testing.T) {
	c := ownViT("learned")
	dir := exportedFrom(t, stirred(t, c, nil), c, ExportOptions{Format: formatTimm, Epsilon: 1e-6})
	var got map[string]any
	if err := json.Unmarshal(readFile(t, filepath.Join(dir, foreignConfig)), &got); err != nil {
		t.Fatal(err)
	}
	args, _ := got["model_args"].(map[string]any)
	trained, _ := got["pretrained_cfg"].(map[string]any)
	size := []any{6.0, 10.0}
	if !reflect.DeepEqual(args["img_size"], size) || !reflect.DeepEqual(trained["input_size"], append([]any{3.0},
		size...)) ||
		got["num_classes"] != 7.0 || trained["num_classes"] != 7.0 || got["num_features"] != 48.0 ||
		got["global_pool"] != "token" || trained["fixed_input_size"] != true {
		t.Errorf("%v", got)
	}
}

func TestTheEpsilonOfAnExportMayBeAnother(t *testing.T) {
	c := ownViT("learned")
	c.Epsilon = 1e-12
	store := stirred(t, c, nil)
	for epsilon, want := range map[float64]string{1e-6: "epsilon of the norms: 1e-06 in place of 1e-12", 1e-12: "",
		0: ""} {
		dir := filepath.Join(t.TempDir(), "model")
		report, err := Export(dir, nil, store.Scope("/vit"), c, ExportOptions{Epsilon: epsilon})
		if err != nil || slices.ContainsFunc(report, func(line string) bool { return strings.HasPrefix(line, "epsilon") }) !=
			(want != "") || want != "" && report[0] != want {
			t.Errorf("%g: %v, %q", epsilon, err, report)
		}
		if epsilon == 0 {
			epsilon = 1e-12
		}
		if got := imported(t, dir, ImportOptions{}).Config.Epsilon; got != epsilon {
			t.Errorf("epsilon %g, want %g", got, epsilon)
		}
	}
}

// What a file says is what the software computes: an option that is lost is an error, one without effect is not.
func TestOnlyOptionsWithAnEffectAreMissedInAFormat(t *testing.T) {
	for name, c := range map[string]struct {
		format string
		change func(*vit.Config)
		params map[string]any
		want   string // the class, or the error
	}{
		"plain": {formatHF, func(*vit.Config) {}, nil, "ViTForImageClassification"},
		"training": {formatHF, func(c *vit.Config) {
			c.DropPath, c.Init, c.DType, c.Recompute = 0.1, "jax", "bfloat16", true
		}, nil, "ViTForImageClassification"},
		"no registers to place": {formatHF, func(c *vit.Config) { c.RegisterPositions = true }, nil,
			"ViTForImageClassification"},
		"pooling of the class": {formatHF, func(c *vit.Config) { c.PoolPrefix, c.ClassToken = true, true }, nil,
			"ViTForImageClassification"},
		"no map pooling": {formatHF, func(c *vit.Config) { c.PoolHeads, c.PoolMLPDim = 2, 5 }, nil,
			"ViTForImageClassification"},
		"mean of the prefix": {formatTimm, func(c *vit.Config) {
			c.Pool, c.ClassToken, c.PoolPrefix = "mean", true, true
		}, nil, "VisionTransformer"},
		"no prefix to pool": {formatJAX, func(c *vit.Config) { c.Pool, c.PoolPrefix = "mean", true }, nil,
			"vision_transformer"},
		"no table to place": {formatTimm, func(c *vit.Config) { c.Position, c.PatchPositions = "none", true }, nil,
			"VisionTransformer"},
		"table of the patches": {formatHF, func(c *vit.Config) { c.PatchPositions = true }, nil,
			"models of hf ViTForImageClassification have no patch_positions=true: choose onnx or native"},
		"a class token that is not pooled": {formatJAX, func(c *vit.Config) { c.Pool, c.ClassToken = "mean", true }, nil,
			"models of jax vision_transformer have no class_token=true: choose onnx or native"},
		"two options": {formatJAX, func(c *vit.Config) { c.QKNorm, c.RMSNorm = true, true }, nil,
			"models of jax vision_transformer have no qk_norm=true, rms_norm=true: choose onnx or native"},
		"what the class has besides": {formatHF, func(c *vit.Config) {
			c.Pool, c.ClassToken, c.FinalNorm, c.Activation = "mean", true, "none", "quick_gelu"
		}, nil, "models of hf CLIPForImageClassification have no model without pre_norm: choose onnx or native"},
		"a class that does not run it": {formatHF, func(c *vit.Config) {
			c.Pool, c.LayerScale, c.MLPDim = "class+mean", 0.1, c.Width
		}, nil, "transformers cannot run Dinov2 on a grid of 3x5 that is not square: choose timm, onnx or native"},
		"a value out of range": {formatHF, func(c *vit.Config) { c.Epsilon = 2 }, nil,
			"hf ViTForImageClassification: layer_norm_eps is 2, want more than 0 and at most 1"},
		"hyperparameter": {formatHF, func(c *vit.Config) {
			c.Position, c.LayerScale, c.Epsilon = "rope-dinov3", 0.1, 1e-5
		}, map[string]any{"rope_theta": 50.0}, "DINOv3ViTModel"},
		"its default": {formatHF, func(c *vit.Config) {
			c.Position, c.LayerScale, c.Epsilon = "rope-dinov3", 0.1, 1e-5
		}, map[string]any{"rope_dinov3_normalize": "separate", "rope_theta": 100.0, "other": 3}, "DINOv3ViTModel"},
		"another": {formatHF, func(c *vit.Config) {
			c.Position, c.LayerScale, c.Epsilon = "rope-dinov3", 0.1, 1e-5
		}, map[string]any{"rope_dinov3_normalize": "max"},
			"models of hf DINOv3ViTModel have no rope_dinov3_normalize=max: choose onnx or native"},
	} {
		config := ownViT("learned")
		c.change(&config)
		params := maps.Clone(c.params)
		if params == nil {
			params = map[string]any{}
		}
		m, _, err := forExport(c.format, config, config.Position == "learned", params)
		got := fmt.Sprint(err)
		if err == nil {
			got = m.family.class
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestAnExportThatFailsNamesItsDirectoryAndItsFile(t *testing.T) {
	gomlxtest.OnGo(t)
	c := ownViT("learned")
	good := stirred(t, c, nil)
	lacks := func(path string) *model.Store {
		store := stirred(t, c, nil)
		if err := store.DeleteVariable("/vit/" + path); err != nil {
			t.Fatal(err)
		}
		return store
	}
	noValue := lacks("norm/offset")
	noValue.VariableWithShape("/vit/norm/offset", shapes.Make(dtypes.Float32, 48), nil)
	large := lacks("norm/offset")
	large.Scope("/vit/norm").VariableWithValue("offset", tensors.FromValue(slices.Repeat([]float32{1e6}, 48)))
	strange := stirred(t, c, nil)
	strange.Scope("/vit").SetParam("wepe_alpha_u", complex(1, 2))
	registers := c
	registers.Registers = 2
	long := slices.Repeat([]string{"a"}, 7)
	long[3] = strings.Repeat("b", maxSmall)
	channel := c
	channel.Channels = 1
	for _, test := range []struct {
		store   *model.Store
		config  vit.Config
		options ExportOptions
		want    string
	}{
		{good, c, ExportOptions{Format: "x"}, `unknown format "x": want one of hf, timm, jax, native, onnx`},
		{good, c, ExportOptions{Labels: []string{"a"}}, "1 labels for 7 classes"},
		{good, c, ExportOptions{DType: "x"}, `type "x" on disk: want float32, float16 or bfloat16; for onnx float32`},
		{good, c, ExportOptions{Scores: "x"}, `scores "x": want softmax, sigmoid or none`},
		{large, c, ExportOptions{DType: "float16"}, `model.safetensors: tensor "vit.layernorm.bias": 1e+06 overflows ` +
			`float16, ` +
			"whose greatest number is 65504: choose bfloat16 or float32"},
		{large, c, ExportOptions{DType: "float16", Format: formatJAX},
			`model.npz: tensor "Transformer/encoder_norm/bias": 1e+06 overflows float16, ` +
				"whose greatest number is 65504: choose bfloat16 or float32"},
		{noValue, c, ExportOptions{}, "checkpoints: scope /vit is of another model; 1 of other shape: norm/offset " +
			"(Float32)[48] without a value, in the model (Float32)[48]"},
		{good, c, ExportOptions{Labels: long}, "config.json has "},
		{strange, c, ExportOptions{Format: formatNative},
			`checkpoints: hyperparameter "wepe_alpha_u": type complex128 cannot be saved`},
		{lacks("class"), c, ExportOptions{}, "checkpoints: scope /vit is of another model; 1 that it lacks: class " +
			"(Float32)[1, 48]"},
		{lacks("class"), registers, ExportOptions{Format: formatTimm},
			"checkpoints: scope /vit is of another model; 2 that it lacks: class (Float32)[1, 48], registers (Float32)[2, 48]"},
		{lacks(positionPath), registers, ExportOptions{Format: formatTimm}, "checkpoints: scope /vit is of another model; " +
			"2 that it lacks: position/embedding (Float32)[16, 48], registers (Float32)[2, 48]"},
		{good, c, ExportOptions{Preprocess: &preprocess.Settings{Fit: preprocess.FitExact, Size: [2]int{6, 12}}},
			"preprocessing gives 3 channels of 6x12, the model takes 3 of 6x10"},
		{good, c, ExportOptions{Preprocess: &preprocess.Settings{Fit: preprocess.FitExact, Size: [2]int{8, 10}}},
			"preprocessing gives 3 channels of 8x10, the model takes 3 of 6x10"},
		{good, c, ExportOptions{Preprocess: &preprocess.Settings{Crop: [2]int{4, 10}}},
			"preprocessing gives 3 channels of 4x10, the model takes 3 of 6x10"},
		{good, channel, ExportOptions{Preprocess: &normalized},
			"preprocessing gives 3 channels of 6x10, the model takes 1 of 6x10"},
	} {
		dir := filepath.Join(t.TempDir(), "model")
		_, err := Export(dir, nil, test.store.Scope("/vit"), test.config, test.options)
		if want := "checkpoints: exporting to " + dir + ": " + test.want; err == nil || !strings.HasPrefix(err.Error(),
			want) ||
			test.want != "config.json has " && err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "file"), nil)
	for path, want := range map[string]string{dir: "the directory contains file: choose another one or remove it",
		filepath.Join(dir, "file"): "a file has this name: choose another one or remove it"} {
		_, err := Export(path, nil, good.Scope("/vit"), c, ExportOptions{})
		if want = "checkpoints: exporting to " + path + ": " + want; err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	_, err := Export(filepath.Join(dir, "file", "new"), nil, good.Scope("/vit"), c, ExportOptions{})
	if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "file")) {
		t.Errorf("below a file: %v", err)
	}
}

// The labels of a config.json are read back, so that their length is bounded by what is read.
func TestTheLongestJSONIsWritten(t *testing.T) {
	for n, want := range map[int]string{maxSmall - 3: "", maxSmall - 2: "x.json has 16777217 bytes, more than 16777216: " +
		"shorten " +
		"the labels"} { // two quotation marks and the end of the line
		_, err := jsonFile("x.json", strings.Repeat("a", n))
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%d letters: %v, want %q", n, err, want)
		}
	}
}

// New directories and files have the usual permissions, as this process makes them elsewhere.
func TestWrittenFilesHaveTheUsualPermissions(t *testing.T) {
	dir := t.TempDir()
	usual, file := filepath.Join(dir, "usual"), filepath.Join(dir, "file")
	if err := os.Mkdir(usual, 0o755); err != nil {
		t.Fatal(err)
	}
	putFile(t, file, nil)
	unlock := gomlxtest.Must(Lock(filepath.Join(dir, "locked")))(t)
	defer func() {
		if err := unlock(); err != nil {
			t.Error(err)
		}
	}()
	path := save(t, Saver{Dir: filepath.Join(dir, "run")}, newStore(t, 1), 3, nil)
	mode := func(path string) os.FileMode { return gomlxtest.Must(os.Stat(path))(t).Mode() }
	for _, made := range []string{filepath.Dir(path), path, filepath.Join(dir, "locked")} {
		if mode(made) != mode(usual) {
			t.Errorf("%s has the mode %v, want %v", made, mode(made), mode(usual))
		}
	}
	for _, name := range []string{variablesName, storeName, manifestName} {
		if got := mode(filepath.Join(path, name)); got != mode(file) {
			t.Errorf("%s has the mode %v, want %v", name, got, mode(file))
		}
	}
}
