// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/numeric"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

var (
	fileFormats = []string{formatHF, formatTimm, formatJAX, formatNative} // the formats that Import reads
	normalized  = preprocess.Settings{Mean: [3]float64{0.5, 0.25, 0.125}, Std: [3]float64{0.5, 0.75, 0.3}}
)

// loaded returns the scope of a new store with the import in it.
func loaded(t testing.TB, m *Imported) *model.Scope {
	t.Helper()
	scope := model.NewStore().Scope("/some/model")
	if err := m.Load(scope); err != nil {
		t.Fatal(err)
	}
	return scope
}

// exported writes an import in a format and returns the directory.
func exported(t testing.TB, m *Imported, o ExportOptions) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new", "model")
	if _, err := Export(dir, gomlxtest.Backend(), loaded(t, m), m.Config, o); err != nil {
		t.Fatal(err)
	}
	return dir
}

// exportedFrom writes the model below /vit of a store and returns the directory.
func exportedFrom(t testing.TB, store *model.Store, c vit.Config, o ExportOptions) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	if _, err := Export(dir, gomlxtest.Backend(), store.Scope("/vit"), c, o); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTheConfigOfAnExportIsThatOfTheFixture(t *testing.T) {
	fixtures.Each(t, testTheConfigOfAnExportIsThatOfTheFixture)
}

func testTheConfigOfAnExportIsThatOfTheFixture(t *testing.T) {
	m := imported(t, fixtures.Dir(t, sets[formatHF]), ImportOptions{})
	p, err := preprocess.Parse(readFile(t, filepath.Join(fixtures.Dir(t, sets[formatHF]), foreignPreprocessor)))
	if err != nil {
		t.Fatal(err)
	}
	dir := exported(t, m, ExportOptions{Labels: m.Labels, Preprocess: &p})
	for _, file := range []string{foreignConfig, foreignPreprocessor} {
		var want, got map[string]any
		fixtures.JSON(t, sets[formatHF], file, &want)
		raw := readFile(t, filepath.Join(dir, file))
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		// These entries do not describe the model: the software that wrote it, training settings, a pooler that a classifier
		// lacks. Version 5 renames torch_dtype to dtype and reads both.
		for _, key := range []string{"transformers_version", "encoder_stride", "initializer_range", "pooler_act",
			"pooler_output_size", "dtype", "torch_dtype"} {
			delete(want, key)
		}
		for key, w := range want {
			if !reflect.DeepEqual(got[key], w) {
				t.Errorf("%s: %s is %v, want %v", file, key, got[key], w)
			}
		}
	}
	raw, err := os.ReadFile(filepath.Join(dir, foreignWeights))
	if err != nil || !bytes.Contains(raw[:100], []byte(`"__metadata__":{"format":"pt"}`)) {
		t.Errorf("%v: transformers wants the metadata format pt", err)
	}
}

// stirred returns a store with a model below /vit whose weights are all random.
func stirred(t testing.TB, c vit.Config, params map[string]any) *model.Store {
	t.Helper()
	store := model.NewStore()
	store.SetParam("/"+model.ParamInitialSeed, int64(3))
	store.Scope("/vit").SetParams(params)
	gomlxtest.Build(t, store, func(s *model.Scope, in []*Node) []*Node {
		return []*Node{c.Logits(s.In("vit"), in[0])}
	}, Noise(c, 1, 1))
	table := strings.HasSuffix(c.Position, "-lut")
	rng := rand.New(rand.NewPCG(11, 13))
	for v := range store.IterVariables() {
		// A look-up table belongs to the lattice for which it was computed.
		if path, ok := below(v, "/vit"); !ok || table && strings.HasPrefix(path, positionsPath) {
			continue
		}
		flat := tensors.MustCopyFlatData[float32](v.MustValue())
		for i := range flat {
			flat[i] += float32(0.2 * rng.NormFloat64())
		}
		if err := v.SetValue(tensors.FromFlatDataAndDimensions(flat, v.Shape().Dimensions...)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.CreateVariable("/adamw/vit/class", tensors.FromScalar(float32(1))); err != nil {
		t.Fatal(err)
	}
	return store
}

// ownViT is a model of unequal sizes on a grid of 3×5 whose heads fit every encoding.
func ownViT(position string) vit.Config {
	return gomlxtest.Resolved(vit.Config{ImageRows: 6, ImageCols: 10, Channels: 3, PatchSize: 2, Width: 48, Depth: 2, Heads: 3, MLPDim: 29,
		Classes: 7, Position: position})
}

func TestTheCardDescribesTheModelAndItsPixels(t *testing.T) {
	c := ownViT("learned")
	store := stirred(t, c, nil)
	plain := preprocess.Settings{Mean: [3]float64{0.1, 0.2, 0.3}, Std: [3]float64{0.5, 0.6, 0.7}}
	fit := plain
	fit.Fit, fit.Size, fit.Resample = preprocess.FitExact, [2]int{6, 10}, preprocess.Bicubic
	const scaled = "scaled to 0…1, minus [0.1 0.2 0.3], divided by [0.5 0.6 0.7]"
	for pixels, p := range map[string]*preprocess.Settings{"not recorded": nil, scaled: &plain,
		`resized to 6×10 (exact, bicubic), ` + scaled: &fit} {
		dir := exportedFrom(t, store, c, ExportOptions{Format: formatNative, Preprocess: p})
		card := string(readFile(t, filepath.Join(dir, "README.md")))
		if want := `| images | 6×10 pixels, 3 channels |
| patches | 2×2 pixels, a grid of 3x5 |
| width, depth, heads, MLP | 48, 2, 3, 29 |
| position encoding | learned |
| pooling | class |
| weights | model.safetensors, float32 |
| pixels | ` + pixels + " |\n"; !strings.Contains(card, want) {
			t.Errorf("card\n%swant\n%s", card, want)
		}
	}
}

func TestTheCardHasTheCodeThatOpensTheModel(t *testing.T) {
	python := func(code string) string { return "```python\n" + code + "\n```\n" }
	for _, c := range []struct {
		format string
		family *family
		want   string
	}{
		{formatHF, &hfViT, python("from transformers import ViTForImageClassification\n\n" +
			"model = ViTForImageClassification.from_pretrained(\".\")\n" +
			"logits = model(images).logits  # images [n, 3, 6, 10]")},
		{formatHF, &hfSigLIPVision, python("from transformers import SiglipVisionModel\n\n" +
			"model = SiglipVisionModel.from_pretrained(\".\")\n" +
			"features = model(images).pooler_output  # images [n, 3, 6, 10]")},
		{formatTimm, nil, python("import timm\n\nmodel = timm.create_model(\"local-dir:.\", pretrained=True).eval()\n" +
			"logits = model(images)  # images [n, 3, 6, 10]")},
		{formatJAX, nil, "Names and layouts follow google-research/vision_transformer.\n\n" +
			python("import numpy\n\nweights = numpy.load(\"model.npz\")")},
		{formatONNX, nil, python("import onnxruntime\n\nmodel = onnxruntime.InferenceSession(\"model.onnx\")\n" +
			"[logits] = model.run([\"logits\"], {\"pixel_values\": images})  # images float32 [n, 3, 6, 10]")},
		{formatNative, nil, "```go\nmodel, err := checkpoints.Import(\".\", checkpoints.ImportOptions{})\n" +
			"err = model.Load(scope)\nlogits := model.Config.Logits(scope, images)\n```\n"},
	} {
		e := &export{ExportOptions: ExportOptions{Format: c.format}, config: ownViT("learned"),
			as: &foreign{family: c.family, head: c.family != &hfSigLIPVision}, head: c.family != &hfSigLIPVision}
		if got := e.usage(); got != c.want {
			t.Errorf("%s:\n%swant\n%s", c.format, got, c.want)
		}
	}
}

// An imported model may be exported again, with the same look-up table: the files are the same.
func TestANativeModelKeepsItsHyperparametersAndItsFiles(t *testing.T) {
	for position, params := range map[string]map[string]any{
		"wepe-lut":   {"wepe_alpha_u": 0.3},
		"rope-axial": {"rope_theta": 50.0},
	} {
		c := ownViT(position)
		store := stirred(t, c, params)
		store.SetParam("/learning_rate", 0.1) // a training setting, not exported
		first := exportedFrom(t, store, c, ExportOptions{Format: formatNative})
		m := imported(t, first, ImportOptions{})
		if !reflect.DeepEqual(m.Params, params) {
			t.Errorf("%v, want %v", m.Params, params)
		}
		table := m.Variables["position/wepe/table/values"]
		if position == "wepe-lut" && table == nil {
			t.Error("no look-up table")
		}
		second := exported(t, m, ExportOptions{Format: formatNative})
		for _, name := range []string{foreignWeights, foreignConfig, "README.md"} {
			a, errA := os.ReadFile(filepath.Join(first, name))
			b, errB := os.ReadFile(filepath.Join(second, name))
			if errA != nil || errB != nil || string(a) != string(b) {
				t.Errorf("%s: %s differs: %v %v", position, name, errA, errB)
			}
		}
	}
}

func TestFoldedModelsAreOrdinaryViTs(t *testing.T) {
	gomlxtest.OnGo(t)
	for _, p := range position.All() {
		if !p.Folds() {
			continue
		}
		c := ownViT(p.Name)
		store := stirred(t, c, nil)
		images := Noise(c, 2, 5)
		want, err := forward(gomlxtest.Backend(), store, "/vit", c, images)
		if err != nil {
			t.Fatal(err)
		}
		for _, format := range []string{formatHF, formatTimm, formatJAX} {
			dir := filepath.Join(t.TempDir(), "model")
			report, err := Export(dir, gomlxtest.Backend(), store.Scope("/vit"), c, ExportOptions{Format: format})
			if err != nil {
				t.Fatal(err)
			}
			folded := fmt.Sprintf("positions: %s folded into a table of 1+3x5 rows", p.Name)
			if slices.Contains(report, folded) != (p.Name != "learned") {
				t.Errorf("%s as %s: report %q", p.Name, format, report)
			}
			m := imported(t, dir, ImportOptions{})
			got, err := m.Logits(gomlxtest.Backend(), images)
			if d, scale := numeric.Difference(got, want); err != nil || m.Config.Position != "learned" || d > 1e-6*scale {
				t.Errorf("%s as %s: position %s, %v, logits differ by %g of %g", p.Name, format, m.Config.Position, err, d, scale)
			}
		}
		if v := store.GetVariable("/adamw/vit/class"); v == nil || store.NumVariables() < 10 {
			t.Errorf("%s: the export changed the store", p.Name)
		}
	}
}

func TestANumberBeyondTheTypeOnDiskIsRefusedByItsTensor(t *testing.T) {
	m := calm(imported(t, put(t, timm, made(timm, smallViT), timmConfig(smallViT)), ImportOptions{}))
	m.Variables["norm/offset"] = tensors.FromValue([]float32{65520, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	dir := filepath.Join(t.TempDir(), "model")
	_, err := Export(dir, nil, loaded(t, m), m.Config, ExportOptions{DType: "float16"})
	if err == nil || !strings.Contains(err.Error(), `"vit.layernorm.bias": 65520 overflows float16`) || fileExists(dir) {
		t.Errorf("%v", err)
	}
}

func TestOptionsThatAFormatDoesNotSupportAreRefused(t *testing.T) {
	good := smallViT
	good.Depth = 2
	with := func(change func(*vit.Config)) vit.Config {
		c := good
		change(&c)
		return c
	}
	for name, c := range map[string]struct {
		config  vit.Config
		options ExportOptions
		want    string
	}{
		"unknown format": {good, ExportOptions{Format: "pickle"}, `unknown format "pickle"`},
		"unknown type":   {good, ExportOptions{DType: "int8"}, `type "int8"`},
		"labels":         {good, ExportOptions{Labels: []string{"a"}}, "1 labels for 13 classes"},
		"epsilon": {with(func(c *vit.Config) { c.Epsilon = 1e-12 }), ExportOptions{Format: formatTimm},
			"epsilon 1e-6"},
		"epsilon of jax": {with(func(c *vit.Config) { c.Epsilon = 1e-5 }), ExportOptions{Format: formatJAX},
			"epsilon 1e-6"},
		"two vectors": {with(func(c *vit.Config) { c.Pool = "class+mean" }), ExportOptions{Format: formatJAX},
			"no pool=class+mean"},
		"no bias of the MLP": {with(func(c *vit.Config) { c.NoMLPBias = true }), ExportOptions{Format: formatTimm},
			"no no_mlp_bias=true"},
		"heads of the pool": {with(func(c *vit.Config) { c.Pool, c.PoolHeads = "map", 2 }), ExportOptions{},
			"pool_heads=2"},
		"patch norm": {with(func(c *vit.Config) { c.PatchNorm = true }), ExportOptions{}, "patch_norm=true"},
		"head of the class token alone": {with(func(c *vit.Config) {
			c.ImageCols, c.LayerScale, c.MLPDim = c.ImageRows, 0.1, 2*c.Width
		}), ExportOptions{}, "Dinov2ForImageClassification classifies by the class token and the mean"},
		"another model":   {with(func(c *vit.Config) { c.Depth = 3 }), ExportOptions{}, "16 that it lacks: block_02"},
		"other sizes":     {with(func(c *vit.Config) { c.MLPDim = 6 }), ExportOptions{}, "of other shape"},
		"no such config":  {with(func(c *vit.Config) { c.Heads = 3 }), ExportOptions{}, "3 heads"},
		"a missing block": {with(func(c *vit.Config) { c.Depth = 1 }), ExportOptions{}, "16 that the model lacks"},
		"onnx of 16 bits": {good, ExportOptions{Format: formatONNX, DType: "float16"}, "for onnx float32"},
		"another image": {good, ExportOptions{Preprocess: &preprocess.Settings{Fit: preprocess.FitExact,
			Size: [2]int{10, 6}}},
			"3 channels of 10x6, the model takes 3 of 6x10"},
		"any image": {good, ExportOptions{Preprocess: &preprocess.Settings{Fit: preprocess.FitShortest, Size: [2]int{6, 6}}},
			"images differ in size"},
		"no filter": {good, ExportOptions{Preprocess: &preprocess.Settings{Resample: "x"}}, `resample "x"`},
		"no word": {good, ExportOptions{Preprocess: &preprocess.Settings{Fit: preprocess.FitContain, Size: [2]int{6, 10},
			Crop: [2]int{6, 10}}}, "Hugging Face has no fit"},
		"two factors": {good, ExportOptions{Format: formatTimm, Preprocess: &preprocess.Settings{Fit: preprocess.FitExact,
			Size: [2]int{7, 20}, Crop: [2]int{6, 10}}}, "timm has no crop"},
	} {
		m := imported(t, put(t, timm, made(timm, good), timmConfig(good)), ImportOptions{})
		scope := loaded(t, m)
		parent := t.TempDir()
		_, err := Export(filepath.Join(parent, "model"), nil, scope, c.config, c.options)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if left, _ := os.ReadDir(parent); len(left) > 0 {
			t.Errorf("%s: left %v", name, left)
		}
	}
}

func TestAnEpsilonOutOfRangeIsRefused(t *testing.T) {
	for epsilon, ok := range map[float64]bool{0: true, 1e-9: true, 0.99: true, 1: false, -1e-6: false, math.NaN(): false} {
		err := ExportOptions{Epsilon: epsilon}.Validate()
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "want 0 < epsilon < 1") {
			t.Errorf("%g: %v", epsilon, err)
		}
	}
}

func TestATimmConfigGivesTimmTheHiddenUnits(t *testing.T) {
	for width := 1; width < 100; width++ {
		for hidden := 1; hidden < 100; hidden++ {
			if got := int(float64(width) * float64(ratioOf(width, hidden))); got != hidden { // timm's own expression
				t.Fatalf("width %d, %d hidden units: timm computes %d", width, hidden, got)
			}
		}
	}
}

// A model whose encoding uses its training grid gets it as a hyperparameter on another grid.
func TestANativeModelKeepsItsTrainingGridOnAnotherGrid(t *testing.T) {
	c := ownViT("as2drope")
	dir := exportedFrom(t, stirred(t, c, nil), c, ExportOptions{Format: formatNative})
	if m := imported(t, dir, ImportOptions{}); len(m.Params) != 0 {
		t.Errorf("%v", m.Params)
	}
	m := imported(t, dir, ImportOptions{ImageRows: 8, ImageCols: 12})
	if !reflect.DeepEqual(m.Params, map[string]any{"as2drope_base_rows": 3}) || m.Config.ImageRows != 8 {
		t.Errorf("%v, %+v", m.Params, m.Config)
	}
}

// transformers numbers the classes of a model without names; timm's and our files are without names then.
func TestNamesOfClassesAreWrittenIfThereAreAny(t *testing.T) {
	for _, format := range fileFormats {
		c := smallViT
		c.Depth, c.Classes = 1, 1
		for want, labels := range map[string][]string{"cat": {"cat"}, "": nil} {
			m := calm(imported(t, put(t, timm, made(timm, c), timmConfig(c)), ImportOptions{}))
			dir := exported(t, m, ExportOptions{Format: format, Labels: labels})
			if labels == nil && (format == formatHF || format == formatJAX) {
				want = "LABEL_0"
			}
			m = imported(t, dir, ImportOptions{})
			config := string(readFile(t, filepath.Join(dir, foreignConfig)))
			if strings.Join(m.Labels, ",") != want || want == "" && strings.Contains(config, "label") {
				t.Errorf("%s of %q: labels %q in %s", format, labels, m.Labels, config)
			}
		}
	}
}

// transformers' DINOv3ViTModel has no head, so its file names no classes.
func TestExport_HeadThatNoClassHas(t *testing.T) {
	c := dinoLike()["dinov3"]
	dir := filepath.Join(t.TempDir(), "model")
	scope, without := stirred(t, c, nil).Scope("/vit"), new(HeadError)
	if _, err := Export(dir, nil, scope, c, ExportOptions{}); !errors.As(err, &without) {
		t.Errorf("a trained head was dropped: %v", err)
	}
	if _, err := Export(dir, nil, scope, c, ExportOptions{Headless: true}); err != nil {
		t.Error(err)
	}
	if config := string(readFile(t, filepath.Join(dir, foreignConfig))); strings.Contains(config, "label") {
		t.Errorf("classes in %s", config)
	}
}

// The graph itself needs the build tag onnx.
func TestAnONNXDirectoryHasAGraphItsConfigAndACard(t *testing.T) {
	c := ownViT("wepe")
	e, err := newExport(gomlxtest.Backend(), stirred(t, c, nil).Scope("/vit"), c, ExportOptions{Format: formatONNX})
	if err != nil {
		t.Fatal(err)
	}
	files, err := e.contents()
	var names []string
	for _, f := range files {
		names = append(names, f.name)
	}
	if err != nil || !slices.Equal(names, []string{"model.onnx", foreignConfig, "README.md"}) || files[0].check == nil {
		t.Errorf("%v, files %q", err, names)
	}
}

func TestADirectoryThatIsNotEmptyIsNotChanged(t *testing.T) {
	m := imported(t, put(t, timm, made(timm, smallViT), timmConfig(smallViT)), ImportOptions{})
	scope := loaded(t, m)
	dir := t.TempDir()
	export := func(path string) error {
		_, err := Export(path, nil, scope, m.Config, ExportOptions{})
		return err
	}
	left := fmt.Sprintf("empty.tmp-%d", os.Getpid()) // by a killed process of the same ID, as in a container
	for _, name := range []string{"empty", left} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := export(filepath.Join(dir, "empty")); err != nil {
		t.Error(err)
	}
	putFile(t, filepath.Join(dir, "file"), []byte("mine"))
	for _, path := range []string{filepath.Join(dir, "empty"), filepath.Join(dir, "file"), dir} {
		if err := export(path); err == nil || !strings.Contains(err.Error(), "choose another one or remove it") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if raw, _ := os.ReadFile(filepath.Join(dir, "file")); string(raw) != "mine" {
		t.Error("a file was overwritten")
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 3 {
		t.Errorf("%v", entries)
	}
}

func TestAFaultAtAnyOperationOfAnExportLeavesNothing(t *testing.T) {
	c := smallViT
	c.Depth = 1
	m := imported(t, put(t, timm, made(timm, c), timmConfig(c)), ImportOptions{})
	scope := loaded(t, m)
	for _, format := range []string{formatHF, formatJAX} {
		for _, mode := range []faultMode{failNoSpace, failIO, shortWrite} {
			for failAt := 1; ; failAt++ {
				parent := t.TempDir()
				dir := filepath.Join(parent, "model")
				files := newFaultyFiles(failAt, mode)
				_, err := Export(dir, nil, scope, m.Config, ExportOptions{Format: format, Preprocess: &normalized,
					files: files})
				if files.count < failAt {
					if err != nil || failAt < 20 { // mkdir, four for each of four files, syncs around the rename
						t.Fatalf("without a fault: %v after %d operations", err, files.count)
					}
					break
				}
				left, _ := os.ReadDir(parent)
				renamed := strings.Contains(files.trace[failAt-1], "syncdir "+filepath.Base(parent))
				switch {
				case err == nil:
					t.Errorf("%s, %v at %s: no error", format, mode, files.trace[failAt-1])
				case !renamed && len(left) > 0:
					t.Errorf("%s, %v at %s: left %v", format, mode, files.trace[failAt-1], left)
				}
			}
		}
	}
}

func TestAnONNXFileHasTheLogitsOfItsModel(t *testing.T) {
	if _, err := runONNX("", nil); errors.Is(err, errNoONNX) {
		t.Skip("needs -tags=onnx")
	}
	for _, p := range position.All() {
		c := ownViT(p.Name)
		store := stirred(t, c, nil)
		dir := filepath.Join(t.TempDir(), "model")
		report, err := Export(dir, gomlxtest.Backend(), store.Scope("/vit"), c, ExportOptions{Format: formatONNX})
		if err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		config := string(readFile(t, filepath.Join(dir, foreignConfig)))
		for _, want := range []string{`"hidden_size": 48`, `"patch_size": 2`, fmt.Sprintf(`"position_encoding": %q`,
			p.Name)} {
			if !strings.Contains(config, want) {
				t.Errorf("%s: config.json lacks %s: %s", p.Name, want, config)
			}
		}
		for _, batch := range []int{1, 2, 5} {
			images := Noise(c, batch, 77)
			want, err := forward(gomlxtest.Backend(), store, "/vit", c, images)
			if err != nil {
				t.Fatal(err)
			}
			sparse := c
			sparse.Channels = 0 // the default
			got, err := ONNXLogits(filepath.Join(dir, "model.onnx"), sparse, images)
			if d, scale := numeric.Difference(got, want); err != nil || d > 1e-5*scale {
				t.Errorf("%s, batch %d: %v, logits differ by %g of %g; %q", p.Name, batch, err, d, scale, report)
			}
		}
	}
}

func TestAnONNXFileOfAScopeWithoutAVariableIsRefused(t *testing.T) {
	if _, err := runONNX("", nil); errors.Is(err, errNoONNX) {
		t.Skip("needs -tags=onnx")
	}
	c := ownViT("learned")
	store := stirred(t, c, nil)
	if err := store.DeleteVariable("/vit/head/biases"); err != nil {
		t.Fatal(err)
	}
	_, err := Export(filepath.Join(t.TempDir(), "model"), gomlxtest.Backend(), store.Scope("/vit"), c,
		ExportOptions{Format: formatONNX})
	if err == nil || !strings.Contains(err.Error(), "scope /vit lacks 1 of the model's variables") {
		t.Error(err)
	}
}

// The weights change between writing and checking, so the file is not kept.
func TestAnONNXFileOfAnotherModelIsNotKept(t *testing.T) {
	if _, err := runONNX("", nil); errors.Is(err, errNoONNX) {
		t.Skip("needs -tags=onnx")
	}
	c := ownViT("learned")
	store := stirred(t, c, nil)
	e, err := newExport(gomlxtest.Backend(), store.Scope("/vit"), c, ExportOptions{Format: formatONNX})
	if err != nil {
		t.Fatal(err)
	}
	add := func(x float32) { // to all logits of the model, not of the file
		bias := store.GetVariable("/vit/head/biases")
		flat := tensors.MustCopyFlatData[float32](bias.MustValue())
		for i := range flat {
			flat[i] += x
		}
		if err := bias.SetValue(tensors.FromFlatDataAndDimensions(flat, len(flat))); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "model.onnx")
	if _, err := writeFile(osFiles{}, file, e.writeONNX); err != nil {
		t.Fatal(err)
	}
	if err := e.checkONNX(file); err != nil {
		t.Error(err)
	}
	add(0.01)
	if err := e.checkONNX(file); err == nil || !strings.Contains(err.Error(), "differ by 0.01") {
		t.Error(err)
	}
	// Logits differ by at most 1e-4, or 1e-4 of the largest.
	for _, path := range []string{"/vit/head/weights", "/vit/head/biases"} {
		v := store.GetVariable(path)
		if err := v.SetValue(tensors.FromShape(v.Shape())); err != nil {
			t.Fatal(err)
		}
	}
	for _, logit := range []float32{0.5, 50} {
		tolerance := 1e-4 * max(1, logit)
		add(logit)
		file := filepath.Join(t.TempDir(), "model.onnx")
		if _, err := writeFile(osFiles{}, file, e.writeONNX); err != nil {
			t.Fatal(err)
		}
		add(0.8 * tolerance)
		if err := e.checkONNX(file); err != nil ||
			!strings.Contains(e.report[len(e.report)-1], fmt.Sprintf("by %.1g", 0.8*tolerance)) {
			t.Errorf("logits of %g: %v, %q", logit, err, e.report)
		}
		add(0.4 * tolerance)
		if err := e.checkONNX(file); err == nil {
			t.Errorf("logits of %g may differ by %g", logit, 1.2*tolerance)
		}
	}
}

func TestDifferencesOfUnequalLengthsOrNaNAreInfinite(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		got, want []float32
		d         float64
	}{
		{[]float32{1, -5}, []float32{1.5, -4}, 1}, {[]float32{1}, []float32{1, 2}, math.Inf(1)},
		{[]float32{nan}, []float32{1}, math.Inf(1)}, {[]float32{1}, []float32{nan}, math.Inf(1)}, {nil, nil, 0},
	} {
		if d, _ := numeric.Difference(c.got, c.want); d != c.d {
			t.Errorf("%v, %v: %g, want %g", c.got, c.want, d, c.d)
		}
	}
}
