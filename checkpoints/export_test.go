// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints/internal/onnx"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
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
	gomlxtest.NoError(t, m.Load(scope))
	return scope
}

// exported writes an import in a format and returns the directory.
func exported(t testing.TB, m *Imported, o ExportOptions) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new", "model")
	gomlxtest.Must(Export(dir, gomlxtest.Backend(), loaded(t, m), m.Config, o))(t)
	return dir
}

// exportedFrom writes the model below /vit of a store and returns the directory.
func exportedFrom(t testing.TB, store *model.Store, c vit.Config, o ExportOptions) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	gomlxtest.Must(Export(dir, gomlxtest.Backend(), store.Scope("/vit"), c, o))(t)
	return dir
}

// stirred returns a store with a model below /vit, no weight of which has its initial value.
func stirred(t testing.TB, c vit.Config, params map[string]any) *model.Store {
	t.Helper()
	store := model.NewStore()
	store.SetParam("/"+model.ParamInitialSeed, int64(3))
	scope := []string{"/vit", "/vit/position"}[len(params)%2] // of the model, or of the encoding alone
	store.Scope(scope).SetParams(params)
	gomlxtest.Build(t, store, func(s *model.Scope, in []*Node) []*Node {
		return []*Node{c.Logits(s.In("vit"), in[0])}
	}, Noise(c, 1, 1))
	gomlxtest.Must(store.CreateVariable("/adamw/vit/class", tensors.FromScalar(float32(1))))(t)
	return gomlxtest.Stirred(t, store)
}

// ownViT is a model of unequal sizes on a grid of 3×5 whose heads fit every encoding.
func ownViT(position string) vit.Config {
	return gomlxtest.Resolved(vit.Config{ImageRows: 6, ImageCols: 10, Channels: 3, PatchSize: 2, Width: 48, Depth: 2,
		Heads: 3, MLPDim: 29, Classes: 7, Position: position})
}

// configIn decodes the config.json of a directory.
func configIn(t *testing.T, dir string, into any) {
	t.Helper()
	gomlxtest.NoError(t, json.Unmarshal(readFile(t, filepath.Join(dir, foreignConfig)), into))
}

// logitsBelow are the logits of a model below a path of a store.
func logitsBelow(t *testing.T, store *model.Store, path string, c vit.Config, images *tensors.Tensor) []float32 {
	t.Helper()
	return gomlxtest.Must(forward(gomlxtest.Backend(), store, path, c, images))(t)
}

func (m *Imported) logits(t *testing.T, images *tensors.Tensor) []float32 {
	t.Helper()
	return gomlxtest.Must(m.Logits(gomlxtest.Backend(), images))(t)
}

// near checks that logits differ by at most a share of the largest.
func near(t *testing.T, name string, got, want []float32, tolerance float64) {
	t.Helper()
	if d, scale := numeric.Difference(got, want); !(d <= tolerance*scale) || len(want) == 0 {
		t.Errorf("%s: logits differ by %g of %g", name, d, scale)
	}
}

// Options, hyperparameters and encodings that a format has come back with their logits; an encoding that folds becomes
// the table of an ordinary ViT. What a format lacks is refused by name. Numbers come from JSON as float64 and from Go
// as they were written.
func TestExport_ModelsKeepTheirLogits(t *testing.T) {
	gomlxtest.OnGo(t)
	type trip struct {
		config  vit.Config
		params  map[string]any
		formats []string
		lost    string
	}
	trips, kept := map[string]trip{}, map[string]int{}
	for name, c := range dinoLike() {
		trips[name] = trip{config: c, params: args("rope_theta", 50.0), formats: fileFormats, lost: "choose"}
	}
	for _, p := range position.All() {
		if (position.Encoding{p}).Folds() {
			trips["folded "+p.Name] = trip{config: ownViT(p.Name), formats: []string{formatHF, formatTimm, formatJAX}}
		}
	}
	for i, of := range []struct {
		position string
		params   map[string]any
		lost     string
	}{
		{"rope-axial", args("rope_axial_rows", 7.0, "rope_axial_cols", 11.0), ""},
		{"rope-axial", args("rope_axial_rows", 7, "rope_axial_cols", 11, "rope_axial_first", "row"), ""},
		{"rope-axial", args("rope_theta", 50, "rope_axial_offset", 1), ""},
		{"learned+rope-axial", args("rope_theta", 50.0, "rope_axial_offset", 0.5), ""},
		{"rope-axial", args("rope_axial_rows", 7), "rope_axial_rows=7"},
		{"learned+rope-axial", args("rope_axial_cols", 11.0), "rope_axial_cols=11"},
		{"learned+rope-dinov3", args("rope_theta", 50, "rope_dinov3_normalize", "separate"), ""},
		{"learned+rope-dinov3", args("rope_dinov3_normalize", "max"), "rope_dinov3_normalize=max"},
		{"rope-dinov3", args("rope_dinov3_shortest", 1, "rope_dinov3_longest", 4.0), "rope_dinov3_shortest=1"},
		{"learned+rope-mixed", args("rope_theta", 20), ""},
	} {
		trips[fmt.Sprint(i)] = trip{ownViT(of.position), of.params, []string{formatTimm}, of.lost}
	}
	for name, of := range trips {
		for _, format := range of.formats {
			c := of.config
			if format == formatHF && c.LayerScale > 0 && c.Position != "rope-dinov3" { // transformers' Dinov2
				c.Pool, c.ImageCols, c.MLPDim = "class+mean", c.ImageRows, when(c.SwiGLU, c.Width*2)+when(!c.SwiGLU, c.Width)
			}
			store := stirred(t, c, of.params)
			variables := store.NumVariables()
			images := Noise(c, 2, 5)
			want := logitsBelow(t, store, "/vit", c, images)
			dir := filepath.Join(t.TempDir(), "model")
			_, err := Export(dir, gomlxtest.Backend(), store.Scope("/vit"), c, ExportOptions{Format: format})
			if err != nil {
				outcome(t, name+" as "+format, err, of.lost)
				continue
			}
			m := imported(t, dir, ImportOptions{})
			near(t, name+" as "+format, m.logits(t, images), want, 1e-6)
			kept[format]++
			check(t, store.NumVariables() == variables && (m.Config.Position == "learned" || !strings.HasPrefix(name, "folded")),
				"%s as %s: position %s, or the store was changed", name, format, m.Config.Position)
		}
	}
	folds := len(slices.DeleteFunc(position.All(), func(p position.Spec) bool { return !(position.Encoding{p}).Folds() }))
	is.Equal(t, "kept by", kept, map[string]int{formatHF: 6 + folds, formatJAX: 1 + folds, formatTimm: 16 + folds,
		formatNative: 10})
}

// randomViT returns a model of random small sizes, whose weights have as many significant bits.
func randomViT(rng *rand.Rand, bits int) *Imported {
	heads, patch := 1+rng.IntN(4), 1+rng.IntN(4)
	c := gomlxtest.Resolved(vit.Config{ImageRows: patch * (1 + rng.IntN(5)), ImageCols: patch * (1 + rng.IntN(5)),
		PatchSize: patch, Heads: heads, Width: heads * (1 + rng.IntN(5)), MLPDim: 1 + rng.IntN(23), Depth: 1 + rng.IntN(3),
		Classes: 2 + rng.IntN(11), Epsilon: 1e-6, Position: "learned", Pool: []string{"class", "mean"}[rng.IntN(2)]})
	m := &Imported{Config: c, Variables: map[string]*tensors.Tensor{}}
	for _, v := range (naming{&native, ""}).variables(c) {
		flat := make([]float32, shapes.Make(dtypes.Float32, v.dims(c)...).Size())
		for i := range flat {
			flat[i] = float32(rng.IntN(1<<bits)-1<<(bits-1)) / 64
		}
		m.Variables[v.path] = tensors.FromFlatDataAndDimensions(flat, v.dims(c)...)
	}
	return m
}

func TestExport_RandomModelsComeBack(t *testing.T) {
	rng, labels := campaign.Rand(31), strings.Fields("a b c d e f g h i j k l")
	for i := range campaign.Times(10) {
		want := randomViT(rng, []int{24, 11, 8}[i%3])
		m := want
		for _, k := range rng.Perm(len(fileFormats)) { // each from the previous file
			if fileFormats[k] == formatHF && want.Config.Pool == "mean" { // it does not support it
				continue
			}
			o := ExportOptions{Format: fileFormats[k], DType: []string{"float32", "float16", "bfloat16"}[i%3],
				Labels: labels[:m.Config.Classes], Preprocess: &normalized}
			m = imported(t, exported(t, m, o), ImportOptions{})
			is.Equal(t, o.Format, m.Labels, o.Labels)
			is.Equal(t, o.Format, [][]float64{m.Mean, m.Std}, [][]float64{normalized.Mean[:], normalized.Std[:]})
			if same(t, o.Format, m, want); m.Config != want.Config || t.Failed() {
				t.Fatalf("model %d, %+v: %+v, want %+v", i, o, m.Config, want.Config)
			}
		}
	}
}

// A model whose encoding uses its training grid gets it as a hyperparameter on another grid.
func TestNative_KeepsItsTrainingGrid(t *testing.T) {
	c := ownViT("as2drope")
	dir := exportedFrom(t, stirred(t, c, nil), c, ExportOptions{Format: formatNative})
	is.Equal(t, "its own grid", len(imported(t, dir, ImportOptions{}).Params), 0)
	m := imported(t, dir, ImportOptions{ImageRows: 8, ImageCols: 12})
	is.Equal(t, "another grid", m.Params, args("as2drope_base_rows", 3))
	m = imported(t, exportedFrom(t, stirred(t, c, args("as2drope_base_rows", 0)), c, ExportOptions{Format: formatNative}),
		ImportOptions{ImageRows: 8, ImageCols: 12})
	is.Equal(t, "its own grid, named 0, on another one", m.Params, args("as2drope_base_rows", 3))
	is.Equal(t, "rows", m.Config.ImageRows, 8)
}

func TestExport_FaultAtAnyOperationLeavesNothing(t *testing.T) {
	c := ownViT("learned")
	scope := stirred(t, c, nil).Scope("/vit")
	for _, format := range []string{formatHF, formatJAX} {
		for _, mode := range []faultMode{failNoSpace, failIO, shortWrite} {
			for failAt := 1; ; failAt++ {
				parent := t.TempDir()
				dir := filepath.Join(parent, "model")
				files := newFaultyFiles(failAt, mode)
				_, err := Export(dir, nil, scope, c, ExportOptions{Format: format, Preprocess: &normalized, files: files})
				if files.count < failAt {
					if err != nil || failAt < 20 { // mkdir, four for each of four files, syncs around the rename
						t.Fatalf("without a fault: %v after %d operations", err, files.count)
					}
					break
				}
				left, _ := os.ReadDir(parent)
				renamed := strings.Contains(files.trace[failAt-1], "syncdir "+filepath.Base(parent))
				check(t, err != nil && (renamed || len(left) == 0),
					"%s, %v at %s: %v, left %v", format, mode, files.trace[failAt-1], err, left)
			}
		}
	}
}

// timm and this library have the preprocessing in config.json, timm and Google no entry for the scores.
func TestExport_FilesOfEachFormat(t *testing.T) {
	c := ownViT("wepe")
	store := stirred(t, c, nil)
	for format, want := range map[string]string{
		formatHF:     "README.md config.json model.safetensors preprocessor_config.json",
		formatTimm:   "README.md config.json model.safetensors",
		formatJAX:    "README.md config.json model.npz preprocessor_config.json",
		formatNative: "README.md config.json model.safetensors",
		formatONNX:   "README.md config.json model.onnx preprocessor_config.json",
	} {
		dir := exportedFrom(t, store, c, ExportOptions{Format: format, Preprocess: &normalized, Activation: sigmoid})
		names := strings.Join(gomlxtest.Must(fs.Glob(os.DirFS(dir), "*"))(t), " ")
		entry := bytes.Contains(readFile(t, filepath.Join(dir, foreignConfig)), []byte("problem_type")) // of the scores
		folded := bytes.Contains(readFile(t, filepath.Join(dir, "README.md")), []byte("wepe, folded into the table"))
		is.Equal(t, format, names, want)
		is.Equal(t, format+": entry, folded", [2]bool{entry, folded},
			[2]bool{format != formatTimm && format != formatJAX, format != formatNative})
	}
}

// What a file says is what the software computes: an option that is lost is an error, one without effect is not.
func TestExport_OptionsWithoutEffectAreNotMissed(t *testing.T) {
	const vitClass, timmClass = "ViTForImageClassification", "VisionTransformer"
	v3 := func(c *vit.Config) { c.Position, c.LayerScale, c.Epsilon = "rope-dinov3", 0.1, 1e-5 }
	for i, c := range []struct {
		format string
		change func(*vit.Config)
		params map[string]any
		want   string // the class, or what the error names
	}{
		{formatHF, func(*vit.Config) {}, nil, vitClass},
		{formatHF, func(c *vit.Config) { c.DropPath, c.Init, c.DType, c.Recompute = 0.1, "jax", "bfloat16", true }, nil,
			vitClass},
		{formatHF, func(c *vit.Config) { c.RegisterPositions = true }, nil, vitClass},
		{formatHF, func(c *vit.Config) { c.PoolPrefix, c.ClassToken = true, true }, nil, vitClass},
		{formatHF, func(c *vit.Config) { c.PoolHeads, c.PoolMLPDim = 2, 5 }, nil, vitClass},
		{formatTimm, func(c *vit.Config) { c.Pool, c.ClassToken, c.PoolPrefix = "mean", true, true }, nil, timmClass},
		{formatJAX, func(c *vit.Config) { c.Pool, c.PoolPrefix = "mean", true }, nil, "vision_transformer"},
		{formatTimm, func(c *vit.Config) { c.Position, c.PatchPositions = "none", true }, nil, timmClass},
		{formatHF, v3, map[string]any{"rope_theta": 50.0}, "DINOv3ViTModel"},
		{formatHF, v3, map[string]any{"rope_dinov3_normalize": "separate", "rope_theta": 100.0, "other": 3},
			"DINOv3ViTModel"},

		{formatHF, v3, map[string]any{"rope_dinov3_normalize": "max"}, "rope_dinov3_normalize=max"},
		{formatHF, func(c *vit.Config) { c.PatchPositions = true }, nil, "patch_positions=true"},
		{formatHF, func(c *vit.Config) { c.PatchNorm = true }, nil, "patch_norm=true"},
		{formatHF, func(c *vit.Config) { c.NoProjBias = true }, nil, "no_proj_bias=true"},
		{formatHF, func(c *vit.Config) { c.Pool, c.PoolHeads = "map", 2 }, nil, "pool_num_heads=2"},
		{formatTimm, func(c *vit.Config) { c.NoMLPBias = true }, nil, "no_mlp_bias=true"},
		{formatJAX, func(c *vit.Config) { c.Pool, c.ClassToken = "mean", true }, nil, "class_token=true"},
		{formatJAX, func(c *vit.Config) { c.Pool = "class+mean" }, nil, "pool=class+mean"},
		{formatJAX, func(c *vit.Config) { c.QKNorm, c.RMSNorm = true, true }, nil, "qk_norm=true, rms_norm=true"},
		{formatHF, func(c *vit.Config) {
			c.Pool, c.ClassToken, c.FinalNorm, c.Activation = "mean", true, "none", "quick_gelu"
		}, nil, "CLIPForImageClassification have no model without pre_norm"},
		{formatHF, func(c *vit.Config) { c.Pool, c.LayerScale, c.MLPDim = "class+mean", 0.1, c.Width }, nil, "3×5"},
		{formatHF, func(c *vit.Config) {
			c.Pool, c.LayerScale, c.ImageCols = "class+mean", 0.1, c.ImageRows
		}, nil, "mlp_ratio"}, // 29 of width 48
		{formatHF, func(c *vit.Config) { c.Epsilon = 2 }, nil, "layer_norm_eps"},
	} {
		config, params := changedBy(ownViT("learned"), c.change), map[string]any{}
		maps.Copy(params, c.params)
		m, _, err := forExport(c.format, config, config.Position == "learned", params)
		check(t, (err != nil || m.family.class == c.want) && (err == nil || strings.Contains(err.Error(), c.want)),
			"%d: %v, %v, want %s", i, m, err, c.want)
	}
}

func TestExport_RefusalsLeaveNothing(t *testing.T) {
	gomlxtest.OnGo(t)
	c := ownViT("learned")
	good := stirred(t, c, nil)
	lacks := func(path string) *model.Store {
		store := stirred(t, c, nil)
		gomlxtest.NoError(t, store.DeleteVariable("/vit/"+path))
		return store
	}
	noValue, large, strange := lacks("norm/offset"), lacks("norm/offset"), stirred(t, c, nil)
	noValue.VariableWithShape("/vit/norm/offset", shapes.Make(dtypes.Float32, 48), nil)
	large.Scope("/vit/norm").VariableWithValue("offset", tensors.FromValue(slices.Repeat([]float32{65520}, 48)))
	strange.Scope("/vit").SetParam("wepe_alpha_u", complex(1, 2))
	long := slices.Repeat([]string{"a"}, 7)
	long[3] = strings.Repeat("b", maxSmall)
	with := func(change func(*vit.Config)) vit.Config { return changedBy(c, change) }
	fits := func(fit preprocess.Resize, rows, cols int) *preprocess.Settings {
		return &preprocess.Settings{Resize: fit, Size: [2]int{rows, cols}}
	}
	for i, test := range []struct {
		store   *model.Store
		config  vit.Config
		options ExportOptions
		want    kind
		names   string
	}{
		{good, c, ExportOptions{Format: "x"}, asked, `format "x"`}, {good, c, ExportOptions{DType: "x"}, asked, `type "x"`},
		{good, c, ExportOptions{Format: formatONNX, DType: "float16"}, asked, "float32"},
		{good, c, ExportOptions{Activation: "x"}, asked, `activation "x"`},
		{good, c, ExportOptions{Epsilon: 1}, asked, "epsilon"}, {good, c, ExportOptions{Epsilon: -1e-6}, asked, "epsilon"},
		{good, c, ExportOptions{Epsilon: math.NaN()}, asked, "epsilon"},
		{good, c, ExportOptions{Labels: []string{"a"}}, asked, "labels"},
		{good, c, ExportOptions{Labels: long}, asked, "labels"},
		{good, with(func(c *vit.Config) { c.Heads = 5 }), ExportOptions{}, asked, "5 heads"},
		{good, with(func(c *vit.Config) { c.Depth = 3 }), ExportOptions{}, mismatched, "block_02"},
		{good, with(func(c *vit.Config) { c.Depth = 1 }), ExportOptions{}, mismatched, "block_01"},
		{good, with(func(c *vit.Config) { c.MLPDim = 6 }), ExportOptions{}, mismatched, "mlp"},
		{noValue, c, ExportOptions{}, mismatched, "norm/offset"}, {lacks("class"), c, ExportOptions{}, mismatched, "class"},
		{lacks("class"), with(func(c *vit.Config) { c.Registers = 2 }), ExportOptions{Format: formatTimm}, mismatched,
			"class"},
		{lacks(positionPath), with(func(c *vit.Config) { c.Registers = 2 }), ExportOptions{Format: formatTimm}, mismatched,
			positionPath},
		{large, c, ExportOptions{DType: "float16"}, asked, "vit.layernorm.bias"},
		{large, c, ExportOptions{DType: "float16", Format: formatJAX}, asked, "Transformer/encoder_norm/bias"},
		{strange, c, ExportOptions{Format: formatNative}, asked, "wepe_alpha_u"},
		{good, with(func(c *vit.Config) { c.Epsilon = 1e-12 }), ExportOptions{Format: formatTimm}, option,
			"epsilon 1e-06 or 1e-05,"},
		{good, with(func(c *vit.Config) { c.Epsilon = 1e-5 }), ExportOptions{Format: formatJAX}, option, "epsilon 1e-06,"},
		{good, with(func(c *vit.Config) { c.ImageCols, c.LayerScale, c.MLPDim = c.ImageRows, 0.1, 2*c.Width }),
			ExportOptions{}, asked, "layer_scale"},
		{good, with(v3), ExportOptions{}, option, "DINOv3ViTModel"}, // a trained head would be dropped
		{good, c, ExportOptions{Format: formatONNX, Headless: true}, option, "logits"},
		{good, c, ExportOptions{Preprocess: fits(preprocess.ResizeExact, 6, 12)}, asked, "6×12"},
		{good, c, ExportOptions{Preprocess: fits(preprocess.ResizeExact, 8, 10)}, asked, "8×10"},
		{good, c, ExportOptions{Preprocess: &preprocess.Settings{Crop: [2]int{4, 10}}}, asked, "4×10"},
		{good, c, ExportOptions{Preprocess: &preprocess.Settings{Resample: "x"}}, asked, `resample "x"`},
		{good, with(func(c *vit.Config) { c.Channels = 1 }), ExportOptions{Preprocess: &normalized}, asked, "3 channels"},
	} {
		parent := t.TempDir()
		dir := filepath.Join(parent, "model")
		_, err := Export(dir, nil, test.store.Scope("/vit"), test.config, test.options)
		refuses(t, fmt.Sprintf("%d, %+v", i, test.options), err, test.want, test.names)
		left, _ := os.ReadDir(parent)
		check(t, len(left) == 0 && strings.Contains(fmt.Sprint(err), dir), "%d: %v, left %v", i, err, left)
	}
}

func v3(c *vit.Config) { *c = dinoLike()["dinov3"] }

// The norms of a file may have another epsilon than the model; timm's config states sizes, classes and classifiers.
func TestExport_EpsilonAndTimmsConfig(t *testing.T) {
	c := changedBy(ownViT("learned"), func(c *vit.Config) { c.Epsilon = 1e-12 })
	scope := stirred(t, c, nil).Scope("/vit")
	for epsilon, want := range map[float64]float64{1e-6: 1e-6, 1e-12: 1e-12, 0: 1e-12} {
		dir := filepath.Join(t.TempDir(), "model")
		report := gomlxtest.Must(Export(dir, nil, scope, c, ExportOptions{Epsilon: epsilon}))(t)
		told(t, dir, report, "\nepsilon", want != c.Epsilon)
		is.Equal(t, epsilon, imported(t, dir, ImportOptions{}).Config.Epsilon, want)
	}
	dir := filepath.Join(t.TempDir(), "model")
	gomlxtest.Must(Export(dir, nil, scope, c, ExportOptions{Format: formatTimm, Epsilon: 1e-6}))(t)
	var got map[string]any
	configIn(t, dir, &got)
	args, _ := got["model_args"].(map[string]any)
	p, _ := got["pretrained_cfg"].(map[string]any)
	is.Equal(t, "timm's config", fmt.Sprintln(args["img_size"], p["input_size"], p["fixed_input_size"], p["num_classes"],
		p["classifier"], got["num_classes"], got["num_features"], got["global_pool"]),
		"[6 10] [3 6 10] true 7 head 7 48 token\n")
}

// transformers numbers the classes of a model without names; timm's and our files are without names then. Names have no
// escapes, as json.dumps of Python writes them.
func TestExport_NamesOfClasses(t *testing.T) {
	c := changedBy(ownViT("learned"), func(c *vit.Config) { c.Classes = 1 })
	store := stirred(t, c, nil)
	for _, format := range fileFormats {
		for want, labels := range map[string][]string{"<cat & dog": {"<cat & dog"}, "": nil} {
			dir := exportedFrom(t, store, c, ExportOptions{Format: format, Labels: labels})
			if labels == nil && (format == formatHF || format == formatJAX) {
				want = "LABEL_0"
			}
			config := string(readFile(t, filepath.Join(dir, foreignConfig)))
			is.Equal(t, format, strings.Join(imported(t, dir, ImportOptions{}).Labels, ","), want)
			check(t, strings.Contains(config, want) && (want != "" || !strings.Contains(config, "label")),
				"%s of %q: %s", format, labels, config)
		}
	}
}

// An export goes into a new directory or an empty one, also through a link, and sweeps what killed ones left of it.
func TestExport_OnlyNewAndEmptyDirectoriesChange(t *testing.T) {
	c, dir := ownViT("learned"), t.TempDir()
	scope := stirred(t, c, nil).Scope("/vit")
	export := func(name string, o ExportOptions) error {
		_, err := Export(filepath.Join(dir, name), nil, scope, c, o)
		return err
	}
	for _, name := range strings.Fields("empty empty.tmp-00000000000000000017 empty.tmp-17 other.tmp-17 linked") {
		gomlxtest.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	gomlxtest.NoError(t, errors.Join(os.Symlink("linked", filepath.Join(dir, "link")),
		os.Symlink("none", filepath.Join(dir, "dangling")), os.Chmod(filepath.Join(dir, "empty"), 0o700)))
	putFile(t, filepath.Join(dir, "file"), []byte("mine"))
	putFile(t, filepath.Join(dir, "empty.tmp-5"), []byte("mine"))
	full := newFaultyFiles(3, failNoSpace)
	refuses(t, "a full disk", export("empty", ExportOptions{files: full}), asked, "")
	check(t, fileExists(filepath.Join(dir, "empty")), "the directory is gone")
	gomlxtest.NoError(t, errors.Join(export("empty", ExportOptions{}), export("link", ExportOptions{})))
	is.Equal(t, "its mode", gomlxtest.Must(os.Stat(filepath.Join(dir, "empty")))(t).Mode().Perm(), 0o700)
	for _, name := range []string{"empty", "file", "", "file/new", "dangling"} {
		refuses(t, name, export(name, ExportOptions{}), asked, dir)
	}
	t.Chdir(t.TempDir())
	refuses(t, "the current directory", is.ErrorOf(Export(".", nil, scope, c, ExportOptions{})), asked,
		"current directory")
	is.Equal(t, "left", strings.Join(gomlxtest.Must(fs.Glob(os.DirFS(dir), "*"))(t), " "),
		"dangling empty empty.tmp-17 empty.tmp-5 file link linked other.tmp-17")
	check(t, fileExists(filepath.Join(dir, "linked", foreignConfig)), "through the link")
	is.Equal(t, "the file", string(readFile(t, filepath.Join(dir, "file"))), "mine")
}

// New directories and files have the usual permissions, as this process makes them elsewhere.
func TestSave_UsualPermissions(t *testing.T) {
	dir := t.TempDir()
	usual, file := filepath.Join(dir, "usual"), filepath.Join(dir, "file")
	gomlxtest.NoError(t, os.Mkdir(usual, 0o755))
	putFile(t, file, nil)
	path := save(t, Saver{Dir: filepath.Join(dir, "run")}, newStore(t, 1), 3, nil)
	mode := func(path string) os.FileMode { return gomlxtest.Must(os.Stat(path))(t).Mode() }
	for made, like := range map[string]string{filepath.Dir(path): usual, path: usual,
		filepath.Join(path, variablesName): file, filepath.Join(path, storeName): file,
		filepath.Join(path, manifestName): file} {
		is.Equal(t, made, mode(made), mode(like))
	}
}

// onnxRuns skips a test in a program without ONNX.
func onnxRuns(t *testing.T) {
	t.Helper()
	if _, err := onnx.Open(""); errors.Is(err, onnx.ErrNone) {
		t.Skip("needs -tags=onnx")
	}
}

// Files are written by every program, and run where ONNX Runtime is; tools/peers runs such files in Python.
func TestONNX_LogitsOfEveryEncodingAndPart(t *testing.T) {
	models := variants(ownViT("learned"), map[string]func(c *vit.Config){
		"map":        func(c *vit.Config) { c.Pool = "map" },
		"class+mean": func(c *vit.Config) { c.Pool = "class+mean" },
		"RMSNorm":    func(c *vit.Config) { c.RMSNorm = true },
		"SwiGLU":     func(c *vit.Config) { c.SwiGLU = true },
		"tanh":       func(c *vit.Config) { c.Activation = "gelu_tanh" },
		"quick":      func(c *vit.Config) { c.Activation = "quick_gelu" },
		"norms":      func(c *vit.Config) { c.QKNorm, c.ContextNorm, c.MLPNorm, c.PreNorm = true, true, true, true },
		"scale":      func(c *vit.Config) { c.LayerScale, c.Registers, c.QKVBias = 0.5, 3, "qv" },
	})
	for _, p := range position.All() {
		models[p.Name] = ownViT(p.Name)
	}
	for name, c := range models {
		c = gomlxtest.Resolved(c)
		store := stirred(t, c, nil)
		m, err := Import(exportedFrom(t, store, c, ExportOptions{Format: formatONNX}), ImportOptions{ONNX: true})
		if errors.Is(err, onnx.ErrNone) { // it is written all the same
			continue
		}
		gomlxtest.NoError(t, err)
		defer m.ONNX.Finalize()
		for _, batch := range []int{1, 2, 5} {
			images := Noise(c, batch, 77)
			got := gomlxtest.Must(m.ONNX.Logits(images))(t)
			near(t, fmt.Sprint(name, batch), got, logitsBelow(t, store, "/vit", c, images), 1e-5)
		}
	}
	onnxRuns(t)
}

// Logits of the file and the model differ by at most 1e-4, or 1e-4 of the largest; otherwise the file is not kept.
func TestONNX_FileOfAnotherModelIsNotKept(t *testing.T) {
	onnxRuns(t)
	c := ownViT("learned")
	store := stirred(t, c, nil)
	e := gomlxtest.Must(newExport(gomlxtest.Backend(), store.Scope("/vit"), c, ExportOptions{Format: formatONNX}))(t)
	set := func(x float32) { // all logits of the model, not of the file
		for path, value := range map[string]*tensors.Tensor{
			"/vit/head/weights": tensors.FromShape(shapes.Make(dtypes.Float32, c.Width, c.Classes)),
			"/vit/head/biases":  tensors.FromValue(slices.Repeat([]float32{x}, c.Classes))} {
			gomlxtest.NoError(t, store.GetVariable(path).SetValue(value))
		}
	}
	for _, logit := range []float32{0.5, 50} {
		tolerance := 1e-4 * max(1, logit)
		set(logit)
		file := filepath.Join(t.TempDir(), "model.onnx")
		gomlxtest.Must(writeFile(osFiles{}, file, e.writeONNX))(t)
		for factor, ok := range map[float32]bool{0: true, 0.8: true, 1.2: false} {
			set(logit + factor*tolerance)
			err := e.checkONNX(file)
			is.Equal(t, fmt.Sprintf("logits of %g that differ by %g: %v", logit, factor*tolerance, err), err == nil, ok)
		}
	}
	gomlxtest.NoError(t, store.DeleteVariable("/vit/head/biases"))
	_, err := writeFile(osFiles{}, filepath.Join(t.TempDir(), "x"), e.writeONNX)
	check(t, err != nil, "a model that lacks a variable was written")
}

// ONNX Runtime refuses a mutated file, or computes logits: numbers may change, because the format has no checksum.
func TestONNX_MutatedFiles(t *testing.T) {
	rng := campaign.Rand(33)
	m := randomViT(rng, 8)
	onnxRuns(t)
	file := filepath.Join(exported(t, m, ExportOptions{Format: formatONNX}), "model.onnx")
	whole, images, ran, refused := readFile(t, file), Noise(m.Config, 1, 1), 0, 0
	for i := range campaign.Times(50) {
		putFile(t, file, campaign.Mutate(rng, whole, whole))
		start := time.Now()
		var logits []float32
		mutated, err := OpenONNX(file, m.Config)
		if err == nil {
			logits, err = mutated.Logits(images)
			mutated.Finalize()
		}
		check(t, time.Since(start) <= 20*time.Second, "mutation %d took %v", i, time.Since(start))
		if err != nil {
			refused++
		} else if len(logits) > 0 {
			ran++
		}
	}
	check(t, ran != 0 && refused != 0, "%d mutated files ran, %d were refused", ran, refused)
}

// variants are a model with each of several changes.
func variants(of vit.Config, changes map[string]func(*vit.Config)) map[string]vit.Config {
	models := map[string]vit.Config{}
	for name, change := range changes {
		models[name] = changedBy(of, change)
	}
	return models
}

func changedBy[T any](x T, change func(*T)) T {
	change(&x)
	return x
}

// A model without a classifier is written in every format with weights alone, as the class that transformers has for
// it, and comes back without one. Grids are refused that classes of transformers 5.24 do not run, or whose positions
// they misplace, also in their own files: CLIPVisionModel and SiglipVisionModel raise TypeError for a list as
// image_size; BeitRelativePositionBias reads the table of 12×8 patches as of 8×12; interpolate_pos_encoding of Beit and
// DINOv2 takes every table for a square's.
func TestExport_Headless(t *testing.T) {
	square := changedBy(ownViT("learned"), func(c *vit.Config) { c.ImageCols = c.ImageRows })
	models := variants(square, map[string]func(*vit.Config){
		"ViTModel":                 func(*vit.Config) {},
		"Dinov2Model":              func(c *vit.Config) { c.LayerScale, c.MLPDim = 0.5, 96 },
		"Dinov2WithRegistersModel": func(c *vit.Config) { c.LayerScale, c.MLPDim, c.Registers = 0.5, 96, 3 },
		"DINOv3ViTModel": func(c *vit.Config) {
			c.LayerScale, c.Position, c.QKVBias, c.Epsilon, c.ImageCols = 0.5, "rope-dinov3", "qv", 1e-5, 14
		},
		"CLIPVisionModel":   func(c *vit.Config) { c.PreNorm, c.Epsilon = true, 1e-5 },
		"SiglipVisionModel": func(c *vit.Config) { c.Pool, c.Activation = "map", "gelu_tanh" },
		"BeitModel": func(c *vit.Config) {
			c.Pool, c.ClassToken, c.FinalNorm, c.QKVBias, c.LayerScale = "mean", true, "pooled", "qv", 0.1
			c.Position = "learned+relative-table"
		},
	})
	beit := models["BeitModel"]
	for _, beit.Position = range []string{"relative-table", "learned", "wepe"} {
		models["BeitModel, "+beit.Position] = beit
	}
	for name, c := range models {
		class, _, _ := strings.Cut(name, ",")
		scope := stirred(t, c, nil).Scope("/vit")
		for _, format := range []string{formatHF, formatTimm, formatNative} {
			dir := filepath.Join(t.TempDir(), "model")
			o := ExportOptions{Format: format, Headless: true, Labels: make([]string, c.Classes)}
			if _, err := Export(dir, gomlxtest.Backend(), scope, c, o); err != nil {
				check(t, format == formatTimm, "%s as %s: %v", name, format, err)
				continue
			}
			refuses(t, name+" as "+format, is.ErrorOf(Import(dir, ImportOptions{})), option, "")
			m := imported(t, dir, ImportOptions{HeadOptional: true})
			check(t, m.Headless() && len(m.Variables) != 0 && m.Config.Pool == c.Pool, "%s as %s: %+v", name, format, m.Config)
			if format != formatHF {
				continue
			}
			var config struct{ Architectures []string }
			configIn(t, dir, &config)
			is.Equal(t, name, config.Architectures, []string{class})
			if class == "ViTModel" || class == "DINOv3ViTModel" {
				continue
			}
			rewrite(t, filepath.Join(dir, foreignConfig), func(raw []byte) []byte {
				return bytes.Replace(raw, []byte(`"image_size": 6`), []byte(`"image_size": [2, 18]`), 1) // as many patches
			})
			refuses(t, name, is.ErrorOf(Import(dir, ImportOptions{HeadOptional: true})), inFile, "image_size")
			wide := changedBy(c, func(c *vit.Config) { c.ImageCols = 10 })
			_, err := Export(dir+"x", gomlxtest.Backend(), stirred(t, wide, nil).Scope("/vit"), wide, o)
			check(t, err != nil, "%s of another grid is written", name)
		}
	}
	beit.ImageCols, beit.Position = 10, "none" // which has nothing to misplace
	gomlxtest.NoError(t, hfBEiT.onGrid(beit))
}
