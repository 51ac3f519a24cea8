// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/internal/strictjson"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

func TestFamilies_EqualTheirSoftware(t *testing.T) { fixtures.Each(t, testFamiliesEqualTheirSoftware) }

// The fixture has float16 weights, so that both sides compute with equal numbers.
func testFamiliesEqualTheirSoftware(t *testing.T) {
	const set, tolerance = "families", 1e-5 // float32 of two blocks, in another order of sums
	dir := fixtures.Dir(t, set)
	models := gomlxtest.Must(os.ReadDir(dir))(t)
	seen, compared := map[string]bool{}, []string(nil) // classes; models whose files are compared
	for _, entry := range models {
		t.Run(entry.Name(), func(t *testing.T) {
			source := filepath.Join(dir, entry.Name())
			m := imported(t, source, ImportOptions{HeadOptional: true})
			want := fixtures.Tensors(t, set, entry.Name()+"/expected.safetensors")
			run := func(m *Imported) [][]float64 {
				return trace(t, withHead(m), want["images"], func(tr *vit.Trace) []*Node { return []*Node{tr.Pooled, tr.Logits} })
			}
			got := run(m)
			pooled, headless := want["pooled"]
			if headless {
				gomlxtest.Near(t, "pooled", got[0], pooled.Data, tolerance)
			} else {
				gomlxtest.Near(t, "logits", got[1], want["logits"].Data, tolerance)
			}
			formats := []string{m.Format, formatNative}
			if gomlxtest.OnXLA() {
				formats = nil // files do not depend on the engine
			}
			// Exported in its own format, and in ours, it has the same numbers.
			for _, format := range formats {
				dir := exported(t, m, ExportOptions{Format: format, Headless: headless, DType: "float16"})
				if format == formatTimm { // which would resize the images otherwise
					is.Said(t, format, string(readFile(t, filepath.Join(dir, foreignConfig))), `"fixed_input_size": true`)
				}
				back := imported(t, dir, ImportOptions{HeadOptional: true})
				if format == formatHF && classOf(t, dir) == classOf(t, source) {
					sameFiles(t, dir, source)
					compared = append(compared, entry.Name())
				}
				gomlxtest.Near(t, "exported as "+format, run(back)[0], got[0], 1e-6)
			}
			seen[classOf(t, source)] = true
		})
	}
	check(t, len(compared) >= 8 || gomlxtest.OnXLA(), "only of %q the files are compared", compared)
	for _, f := range families {
		plain := f == &hfViT || f == &hfDINOv2 || f == &jaxViT // in other fixtures
		check(t, seen[f.class] || plain, "no model of %s %s", f.format, f.class)
	}
}

// idle are tensors that a class has and does not compute with, or the two biases of which it uses the mean.
var idle = regexp.MustCompile(`post_layernorm|(cls|distillation)_classifier.bias`)

// sameFiles compares a model's files with those of its software, except the mask token, which is 0: transformers warns
// of a tensor that a file lacks and then draws it anew.
func sameFiles(t *testing.T, got, want string) {
	t.Helper()
	var all [2]map[string]*tensors.Tensor
	var configs [2]map[string]any
	for i, dir := range []string{got, want} {
		all[i] = gomlxtest.Must(readAll(readFile(t, filepath.Join(dir, foreignWeights))))(t)
		configIn(t, dir, &configs[i])
		delete(configs[i], "mlp_ratio") // several give the same hidden units
	}
	sameFields(t, want, configs[0], configs[1])
	// The towers of CLIP and SigLIP get the names of transformers before 5.6, which later ones read too.
	tower := func(of map[string]*tensors.Tensor) bool {
		return of["vision_model.embeddings.patch_embedding.weight"] != nil
	}
	nested := tower(all[0]) && !tower(all[1])
	for name, x := range maps.Clone(all[1]) {
		if nested {
			delete(all[1], name)
			name = "vision_model." + name
			all[1][name] = x
		}
		if strings.HasSuffix(name, "mask_token") {
			all[1][name] = tensors.FromShape(x.Shape())
		} else if ours := all[0][name]; ours != nil && idle.MatchString(name) {
			all[1][name] = ours
		}
	}
	same(t, want, &Imported{Variables: all[0]}, &Imported{Variables: all[1]})
}

// sameFields compares what a config.json has of another one, which has more entries.
func sameFields(t *testing.T, name string, got, want map[string]any) {
	t.Helper()
	check(t, got["model_type"] == want["model_type"] && (len(got) >= 8 || got["id2label"] != nil), "%s: %v", name, got)
	for key, value := range got {
		is, ok := want[key]
		tower, _ := is.(map[string]any)
		if of, _ := value.(map[string]any); of["model_type"] != nil && tower != nil {
			sameFields(t, name+" "+key, of, tower)
		} else if ok && !reflect.DeepEqual(is, value) {
			t.Errorf("%s: %s is %v, was %v", name, key, value, is)
		}
	}
}

// withHead adds a zero head to an import without one, so that it can be run and exported.
func withHead(m *Imported) *Imported {
	c := m.Config
	for path, dims := range map[string][]int{headPath + "weights": {c.PooledWidth(), c.Classes},
		headPath + "biases": {c.Classes}} {
		if m.Variables[path] == nil {
			m.Variables[path] = tensors.FromShape(shapes.Make(dtypes.Float32, dims...))
		}
	}
	return m
}

// classOf returns the class in a config.json, for timm from the architecture.
func classOf(t *testing.T, dir string) string {
	t.Helper()
	var config struct {
		Architecture  string   `json:"architecture"`
		Architectures []string `json:"architectures"`
	}
	configIn(t, dir, &config)
	if config.Architecture != "" {
		return architectures().Architectures[config.Architecture].Class
	}
	return config.Architectures[0]
}

// At another size a model keeps the grid of its tables in our own format; other software takes the grid from the size
// of the image, and gets tables of that size.
func TestExport_ModelsOfAnotherSize(t *testing.T) {
	gomlxtest.OnGo(t)
	dir := fixtures.Dir(t, "families")
	for _, of := range []struct{ name, format string }{
		{"beit_base_patch16_224", formatNative}, {"beit_base_patch16_224", formatTimm},
		{"eva02_base_patch14_224", formatNative},
		{"vit_small_patch16_rope_mixed_ape_224", formatNative}, {"deit_tiny_distilled_patch16_224", formatNative},
	} {
		m := imported(t, filepath.Join(dir, of.name), ImportOptions{ImageRows: 20, ImageCols: 16})
		told(t, of.name, m.Report, "timm uses a spline", of.name == "beit_base_patch16_224")
		back := imported(t, exported(t, m, ExportOptions{Format: of.format}), ImportOptions{})
		images := Noise(m.Config, 2, 5)
		near(t, of.name+" as "+of.format, back.logits(t, images), m.logits(t, images), 1e-6)
		is.Equal(t, of.name+" as "+of.format, back.Config, m.Config)
	}
}

// Older BEiT files contain the indices of their tables; transformers' variant fp16 has another file name.
func TestImport_OlderAndHalvedFiles(t *testing.T) {
	for _, name := range []string{"BeitForImageClassification", "beit_base_patch16_224"} {
		dir := filepath.Join(fixtures.Dir(t, "families"), name)
		want := imported(t, dir, ImportOptions{})
		all := gomlxtest.Must(readAll(readFile(t, filepath.Join(dir, foreignWeights))))(t)
		names := slices.Sorted(maps.Keys(all))
		table := slices.IndexFunc(names, func(s string) bool { return strings.HasSuffix(s, "bias_table") })
		index := strings.Replace(names[table], "bias_table", "index", 1)
		all[index] = tensors.FromValue([][]int64{{3, 1}, {2, 0}})
		gomlxtest.NoError(t, os.Remove(filepath.Join(dir, foreignWeights)))
		writeWeights(t, filepath.Join(dir, foreignHalf), all)
		m := imported(t, dir, ImportOptions{})
		same(t, name, m, want)
		told(t, name, m.Report, "\nleft out: "+index+"\n", true)
	}
}

// transformers 5 writes the names of version 4 and reads those that it has in memory too, which
// tools/peers/references/spellings.py lists.
func TestImport_TransformersNamesInMemory(t *testing.T) {
	var spelled map[string]map[string]string
	gomlxtest.NoError(t, json.Unmarshal(readFile(t, "testdata/transformers_names.json"), &spelled))
	swiglu := ownViT("learned")
	swiglu.ImageRows, swiglu.Pool, swiglu.SwiGLU, swiglu.LayerScale, swiglu.MLPDim = 10, "class+mean", true, 1, 32
	dirs := map[string]string{
		"ViTForImageClassification": fixtures.Dir(t, "hf_vit"), "Dinov2ForImageClassification": fixtures.Dir(t,
			"dinov2_tiny"),
		"Dinov2ForImageClassificationswiglu": exportedFrom(t, stirred(t, swiglu, nil), swiglu, ExportOptions{}),
	}
	block := regexp.MustCompile(`\.\d+\.`)
	for class, names := range spelled {
		dir := dirs[class]
		if dir == "" {
			dir = filepath.Join(fixtures.Dir(t, "families"), class)
		}
		all := gomlxtest.Must(readAll(readFile(t, filepath.Join(dir, foreignWeights))))(t)
		want, renamed := imported(t, dir, ImportOptions{HeadOptional: true}), 0
		for name, x := range maps.Clone(all) {
			current, ok := names[block.ReplaceAllString(name, ".0.")]
			if !ok {
				continue
			}
			delete(all, name)
			for i, half := range halvesOf(t, x, len(strings.Fields(current))) {
				all[strings.ReplaceAll(strings.Fields(current)[i], ".0.", block.FindString(name))] = half
			}
			renamed++
		}
		check(t, renamed >= 5*want.Config.Depth, "%s: %d names of %d blocks", class, renamed, want.Config.Depth)
		again := t.TempDir()
		writeWeights(t, filepath.Join(again, foreignWeights), all)
		putFile(t, filepath.Join(again, foreignConfig), readFile(t, filepath.Join(dir, foreignConfig)))
		got := imported(t, again, ImportOptions{HeadOptional: true})
		same(t, class, got, want)
		is.Equal(t, class, got.Config, want.Config)
	}
}

// halvesOf splits a tensor along its first axis.
func halvesOf(t *testing.T, x *tensors.Tensor, n int) (parts []*tensors.Tensor) {
	t.Helper()
	if n == 1 {
		return []*tensors.Tensor{x}
	}
	flat, dims := tensors.MustCopyFlatData[float32](x), slices.Clone(x.Shape().Dimensions)
	dims[0] /= n
	for part := range slices.Chunk(flat, len(flat)/n) {
		parts = append(parts, tensors.FromFlatDataAndDimensions(part, dims...))
	}
	return parts
}

// timm's clean_state_dict drops two prefixes, one of them twice; create_model of timm 1.0.31 refuses all others, and
// transformers drops none. transformers 5.23 writes ViT-MSN without the base in front of its blocks.
func TestImport_WrappedNames(t *testing.T) {
	one := changedBy(smallViT, func(c *vit.Config) { c.Depth = 1 })
	configs := map[string]string{formatTimm: timmConfig(one), formatHF: hfConfig("num_hidden_layers", "1")}
	for _, c := range []struct {
		n      naming
		change func(name string) string
		opens  bool
	}{
		{timm, prefix("module."), true}, {timm, prefix("_orig_mod."), true}, {timm, prefix("_orig_mod.module."), true},
		{timm, prefix("module._orig_mod."), true}, {timm, prefix("_orig_mod.module._orig_mod."), true},
		{timm, prefix("module.module."), false}, {timm, prefix("model."), false}, {hf, prefix("module."), false},
		{hf, func(name string) string { return strings.Replace(name, hf.base+"encoder.", "encoder.", 1) }, true},
	} {
		weights, renamed := made(c.n, one), map[string]*tensors.Tensor{}
		want := imported(t, put(t, c.n, weights, configs[c.n.format]), ImportOptions{})
		for name, x := range weights {
			renamed[c.change(name)] = x
		}
		m, err := Import(put(t, c.n, renamed, configs[c.n.format]), ImportOptions{})
		if is.Equal(t, c.change("NAME"), err == nil, c.opens); err == nil {
			same(t, c.change("NAME"), m, want)
		}
		if renamed["cls_token"] = weights["cls_token"]; c.n.format == formatTimm { // with and without the prefix
			_, err = Import(put(t, timm, renamed, configs[formatTimm]), ImportOptions{})
			refuses(t, "a name twice", err, map[bool]kind{true: inFile, false: kindOf(err)}[c.opens], "cls_token")
		}
	}
}

func prefix(with string) func(string) string { return func(name string) string { return with + name } }

// dinoStages are the stages in the fixtures, without the prefixes of their names.
func dinoStages(c vit.Config, s *model.Scope, tr *vit.Trace) map[string]*Node {
	b := tr.Blocks[0]
	flat := func(x *Node) *Node { return Reshape(x, b.Norm1.Shape().Dimensions...) }
	nodes := map[string]*Node{
		"embeddings_output": tr.Tokens, "layer_0.norm1_output": b.Norm1, "layer_0.q_output": flat(b.Query),
		"layer_0.k_output": flat(b.Key), "layer_0.v_output": flat(b.Value), "layer_0.attention_weights_out": b.Weights,
		"layer_0.attention_output": b.Attention, "layer_0.norm2_output": b.Norm2, "layer_0.mlp_output": b.MLP,
		"final_norm_output": tr.Encoded, "logits": tr.Logits,
		"pooler_output": Squeeze(Slice(tr.Encoded, AxisRange(), AxisElem(0)), 1),
	}
	factor := s.Store().GetVariable("/vit/block_00/scale1").NodeValue(b.Attention.Graph())
	nodes["layer_0.layer_scale1_output"] = Mul(b.Attention, Reshape(factor, 1, 1, -1))
	if rotary, ok := position.As[position.Rotator](tr.Encoder); ok {
		q, k := rotary.Block(0).EncodeQK(b.Query, b.Key, nil, 1)
		nodes["layer_0.q_rot"], nodes["layer_0.k_rot"] = TransposeAllAxes(q, 0, 2, 1, 3), TransposeAllAxes(k, 0, 2, 1, 3)
	}
	if c.SwiGLU {
		nodes["layer_0.mlp_gate_output"], nodes["layer_0.mlp_up_output"] = b.Gate, b.Hidden
		nodes["layer_0.mlp_weights_in_output"] = Concatenate([]*Node{b.Gate, b.Hidden}, -1)
	}
	for i, b := range tr.Blocks {
		nodes[fmt.Sprintf("layer_%d_output", i)] = b.Output
		// Backbones apply the final norm to every stage.
		features := weight.LayerNorm(s.Store().Scope("/vit/norm"), b.Output, c.Epsilon)
		first, n := Const(features.Graph(), [][]int32{{int32(c.Prefix())}}), []int{c.Rows() * c.Cols()}
		nodes[fmt.Sprintf("feature_map_stage%d_nhwc_out", i+1)] = GatherSlices(features, []int{1}, first, n, true)
	}
	return nodes
}

func TestDINO_EveryStage(t *testing.T) { fixtures.Each(t, testDINOEveryStage) }

func testDINOEveryStage(t *testing.T) {
	other := regexp.MustCompile(`^(rect|images|masked|grad_|preprocess|position_embeddings|rope_)`) // than a stage
	for _, set := range dinoSets {
		want := fixtures.Tensors(t, set, "tensors.safetensors")
		for _, prefix := range []string{"", "rect."} {
			images, names := want[prefix+"images_nhwc"], []string(nil)
			for name := range want {
				if stage, ok := strings.CutPrefix(name, prefix); ok && !other.MatchString(stage) {
					names = append(names, stage)
				}
			}
			m, store := imported(t, fixtures.Dir(t, set), optionsFor(t, set, images.Shape[1:3]...)), model.NewStore()
			gomlxtest.NoError(t, m.Load(store.RootScope().In("vit")))
			got := gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) (nodes []*Node) {
				tr := m.Config.Trace(s.In("vit"), in[0], true)
				of := dinoStages(m.Config, s, tr)
				for _, name := range names {
					nodes = append(nodes, of[name])
				}
				return append(nodes, tr.Logits)
			}, gomlxtest.Input(images))
			for i, name := range names {
				gomlxtest.NearAbs(t, set+" "+prefix+name, got[i], want[prefix+name].Data, readMeta(t, set).Tolerance.Abs)
			}
		}
	}
}

// gradientPaths are our variables whose gradients the fixtures have, by the end of their names.
var gradientPaths = map[string]string{
	"embeddings.cls_token": classPath, "embeddings.register_tokens": registersPath,
	"embeddings.position_embeddings": positionPath, "embeddings.patch_embeddings.bias": patchPath + "biases",
	"layer.0.attention.attention.query.weight": "block_00/attention/query/weights",
	"layer.0.attention.q_proj.weight":          "block_00/attention/query/weights",
	"layer.0.layer_scale1.lambda1":             "block_00/scale1", "layer.0.layer_scale2.lambda1": "block_00/scale2",
	"layer.0.mlp.fc1.bias": "block_00/mlp/hidden/biases", "layer.0.mlp.up_proj.bias": "block_00/mlp/hidden/biases",
	"layer.0.mlp.weights_in.bias": "block_00/mlp/gate/biases", // likewise for the hidden layer after it
}

func TestDINO_Gradients(t *testing.T) { fixtures.Each(t, testDINOGradients) }

func testDINOGradients(t *testing.T) {
	part := regexp.MustCompile(`(embeddings|layer)\..*`)
	for _, set := range dinoSets {
		want := fixtures.Tensors(t, set, "tensors.safetensors")
		images := want["images_nhwc"]
		m, store := imported(t, fixtures.Dir(t, set), optionsFor(t, set, images.Shape[1:3]...)), model.NewStore()
		gomlxtest.NoError(t, m.Load(store.RootScope().In("vit")))
		var names, paths []string
		for name := range want {
			if end, ok := strings.CutPrefix(name, "grad_out."); ok {
				path := gradientPaths[part.FindString(end)]
				if names, paths = append(names, name), append(paths, path); path == "" {
					t.Fatalf("%s: no variable for %s", set, name)
				}
			}
		}
		got := gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) []*Node {
			tr := m.Config.Trace(s.In("vit"), in[0], false)
			out := tr.Logits
			if rotaryOnly(m.Config) {
				out = tr.Encoded
			}
			var of []*Node
			for _, path := range append(paths, "block_00/mlp/hidden/biases") {
				of = append(of, store.GetVariable("/vit/"+path).NodeValue(in[0].Graph()))
			}
			return Gradient(ReduceAllSum(Mul(out, in[1])), of...)
		}, gomlxtest.Input(images), gomlxtest.Input(want["grad_in.final"]))
		for i, name := range names {
			gradient := got[i]
			if strings.HasSuffix(name, "weights_in.bias") {
				gradient = append(slices.Clone(gradient), got[len(names)]...)
			}
			if x := want[name]; strings.HasSuffix(name, ".weight") { // [out, in]
				gradient = gomlxtest.Reversed(gradient, x.Shape[1], 1, x.Shape[0])
			}
			gomlxtest.NearAbs(t, set+" "+name, gradient, want[name].Data, readMeta(t, set).Tolerance.Grad)
		}
	}
}

func rotaryOnly(c vit.Config) bool { return c.Position == "rope-dinov3" }

// The exported files equal the fixtures' own.
func TestDINO_FilesComeBack(t *testing.T) { fixtures.Each(t, testDINOFilesComeBack) }

func testDINOFilesComeBack(t *testing.T) {
	for _, set := range dinoSets {
		m := imported(t, fixtures.Dir(t, set), ImportOptions{HeadOptional: true})
		told(t, set, m.Report, "DINOv3 License", rotaryOnly(m.Config))
		dir := exported(t, m, ExportOptions{Labels: m.Labels})
		sameFiles(t, dir, fixtures.Dir(t, set))
		for _, dir := range []string{dir, exported(t, m, ExportOptions{Format: formatNative})} {
			back := imported(t, dir, ImportOptions{HeadOptional: true})
			same(t, set, back, m)
			is.Equal(t, set, back.Config, m.Config)
		}
	}
}

// dinoLike are models with the options of DeiT-III, DINOv2 and DINOv3, some trained with an encoding of WePE.
func dinoLike() map[string]vit.Config {
	return variants(ownViT("learned"), map[string]func(*vit.Config){
		"deit3":           func(c *vit.Config) { c.LayerScale, c.PatchPositions = 1e-6, true },
		"dinov2":          func(c *vit.Config) { c.LayerScale = 1e-5 },
		"dinov2 reg":      func(c *vit.Config) { c.LayerScale, c.Registers = 1e-5, 4 },
		"one register":    func(c *vit.Config) { c.Registers = 1 },
		"dinov2 giant":    func(c *vit.Config) { c.LayerScale, c.Registers, c.SwiGLU, c.MLPDim = 1, 3, true, 32 },
		"wepe, registers": func(c *vit.Config) { c.LayerScale, c.Registers, c.Position = 0.1, 2, "wepe" },
		"no prefix": func(c *vit.Config) { // whose options have no meaning
			c.Pool, c.PoolPrefix, c.RegisterPositions = "mean", true, true
		},
		"no qkv bias": func(c *vit.Config) { c.QKVBias = "none" },
		"dinov3": func(c *vit.Config) {
			c.Position, c.QKVBias, c.LayerScale, c.Registers, c.Epsilon = "rope-dinov3", "qv", 1e-5, 4, 1e-5
		},
		"dinov3 plus": func(c *vit.Config) {
			c.Position, c.QKVBias, c.LayerScale, c.Registers, c.Epsilon = "rope-dinov3", "none", 1e-5, 1, 1e-5
			c.SwiGLU = true
		},
	})
}

// args are fields of a config.json, in pairs of key and value.
func args(pairs ...any) map[string]any {
	out := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i].(string)] = pairs[i+1]
	}
	return out
}

// object parses the fields of a config.json.
func object(t *testing.T, text string) strictjson.Object {
	t.Helper()
	return gomlxtest.Must(strictjson.ParseObject([]byte(text)))(t)
}

// testdata/transformers_defaults.json is transformers 5.23.0's CONFIG_MAPPING[type]().to_dict() for each type, without
// entries that no family here has; architectures.json has the arguments of timm's classes. A config.json may omit any.
func TestFields_DefaultsAreTheSoftwares(t *testing.T) {
	var transformers map[string]map[string]any
	var timm struct{ Classes map[string]map[string]any }
	for file, into := range map[string]any{"testdata/transformers_defaults.json": &transformers,
		"architectures.json": &timm} {
		gomlxtest.NoError(t, json.Unmarshal(gomlxtest.Must(os.ReadFile(file))(t), into))
	}
	seen := map[string]int{}
	for _, f := range families {
		defaults := timm.Classes[f.class]
		if f.format == formatHF {
			defaults = transformers[f.types[0]+map[bool]string{true: "_vision_model"}[f.inner != ""]]
		}
		for _, field := range f.fields {
			want, known := defaults[field.key]
			check(t, f.format != formatTimm || field.get == nil || known, // Python refuses it
				"%s has no argument %q", f.class, field.key)
			if !known || field.byDefault == nil || f.format == formatTimm && want == nil { // null: a default of its own
				continue
			}
			seen[f.format]++
			got, wanted := gomlxtest.Must(json.Marshal(field.byDefault))(t), gomlxtest.Must(json.Marshal(want))(t)
			is.Equal(t, f.class+": "+field.key, string(got), string(wanted))
		}
	}
	check(t, seen[formatHF] >= 120 && seen[formatTimm] >= 60, "compared %v", seen)
	got := gomlxtest.Must(hfViT.read(args("hidden_act", nil, "hidden_size", nil, "image_size", nil), true))(t)
	is.Equal(t, "null is transformers' ViTConfig", got.config, gomlxtest.Resolved(vit.Config{ImageRows: 224,
		ImageCols: 224,
		PatchSize: 16, Channels: 3, Width: 768, Depth: 12, Heads: 12, MLPDim: 3072, Classes: 1, Epsilon: 1e-12,
		Position: "learned"}))
}

// Values at the ends of their ranges, and what the network here or the software does not have.
func TestFields_Refusals(t *testing.T) {
	const (
		packed = `"mlp_layer":"` + packedGLU + `"`
		silu   = `"act_layer":"silu",`
		rotary = `"use_rot_pos_emb":true,`
		v3     = rotary + `"rope_type":"dinov3",`
		pooled = `"global_pool":"map",`
	)
	for _, c := range []struct {
		family *family
		names  string // in the error, empty for none
		args   string // separated by bars
	}{
		{&hfViT, "", `"hidden_size":12|"layer_norm_eps":1|"layer_norm_eps":1e-30|"patch_size":[8,8]`},
		{&hfViT, "", `"image_size":[16384,16]|"image_size":[4,32,48]`}, {&hfViT, "hidden_size is 0", `"hidden_size":0`},
		{&hfViT, "hidden_size", `"hidden_size":16777217|"hidden_size":1.5|"hidden_size":"7"`},
		{&hfViT, "layer_norm_eps", `"layer_norm_eps":1.01|"layer_norm_eps":0`},
		{&hfViT, "patch_size", `"patch_size":[3,5]|"patch_size":[8,8,8]|"patch_size":0|"patch_size":[[16],[16]]`},
		{&hfViT, "image_size", `"image_size":[16,16385]|"image_size":[0,32]|"image_size":[3]|"image_size":[]`},
		{&hfViT, "qkv_bias", `"qkv_bias":1`}, {&hfViT, "hidden_act", `"hidden_act":"relu"`},
		{&hfViT, "intermediate_size", `"intermediate_size":0`}, {&hfCLIP, "attention_bias", `"attention_bias":false`},
		{&hfDINOv2, "layerscale_value", `"layerscale_value":null|"layerscale_value":0`},
		{&hfDINOv2, "mlp_ratio", `"mlp_ratio":"x"`}, {&hfDINOv3, "num_register_tokens", `"num_register_tokens":-1`},
		// Of facebook/dinov2-with-registers-base and ijepa_vitg16_22k: transformers reads none of them.
		{&hfDINOv2Registers, "", `"interpolate_antialias":true,"interpolate_offset":0.0`},
		{&hfIJepa, "", `"mlp_ratio":4.363636363636363`},
		{&hfDINOv3, "query_bias", `"query_bias":[]`}, {&hfDINOv3, "rope_theta", `"rope_theta":"x"`},
		{&hfDINOv3, "", `"use_gated_mlp":true,"hidden_act":"silu"|"query_bias":true,"key_bias":true,"value_bias":true`},
		{&hfDINOv3, "hidden_act", `"use_gated_mlp":true,"hidden_act":"gelu"`},
		{&hfDINOv3, "value_bias", `"query_bias":true,"key_bias":false,"value_bias":false`},
		{&hfDINOv3, "key_bias", `"query_bias":false,"key_bias":true,"value_bias":false`},

		{&timmBeit, "mlp_ratio", `"mlp_ratio":"x"`}, {&timmDistilled, "mlp_layer", `"mlp_layer":"x"`},
		{&timmDistilled, "reg_tokens", `"reg_tokens":1`}, {&timmViT, "class_token", `"class_token":false`},
		{&timmViT, "", `"init_values":0|"init_values":null|` + silu + packed},
		{&timmViT, "", `"mlp_ratio":0.001953125`}, // one hidden unit
		{&timmViT, "", silu + `"mlp_layer":"` + splitGLU + `"|"embed_norm_layer":"LayerNorm(eps=1e-06)"`},
		{&timmViT, "qk_norm", `"qk_norm":"yes"`}, {&timmViT, "block_fn", `"block_fn":"x"`},
		{&timmViT, "init_values", `"init_values":"x"`}, {&timmViT, "norm_layer", `"norm_layer":"x"`},
		{&timmViT, "mlp_ratio", `"mlp_ratio":"x"`}, {&timmViT, "MLP", `"mlp_ratio":0.001`},
		{&timmViT, "act_layer", `"act_layer":"relu"|` + packed + "|" + pooled + silu + packed},
		{&timmViT, "mlp_layer", `"mlp_layer":"x"`}, {&timmViT, "embed_norm_layer",
			`"embed_norm_layer":"LayerNorm(eps=1e-05)"`},

		{&timmEva, "mlp_ratio", `"mlp_ratio":"x"`}, {&timmEva, "swiglu_align_to", `"swiglu_align_to":-1`},
		{&timmEva, "num_reg_tokens", `"num_reg_tokens":-1`}, {&timmEva, "attn_type", `"attn_type":"x"`},
		{&timmEva, "patch_size", `"patch_size":[8]`},
		{&timmEva, "use_fc_norm", `"use_fc_norm":true,"use_post_transformer_norm":true`},
		{&timmEva, "", `"attn_pool_num_heads":0|"global_pool":"map"`}, // not read by another pooling
		{&timmEva, "attn_pool_num_heads", pooled + `"attn_pool_num_heads":0`},
		{&timmEva, "attn_pool_mlp_ratio", pooled + `"attn_pool_mlp_ratio":"x"|` + pooled + `"attn_pool_mlp_ratio":0.001`},
		{&timmEva, "", `"use_rot_pos_emb":true|"rope_type":"x"|"rope_rotate_half":true`}, // without rotation
		{&timmEva, "", rotary + `"rope_type":"mixed","rope_grid_indexing":"xy"|` + v3 + `"rope_rotate_half":true`},
		{&timmEva, "rope_type", rotary + `"rope_type":"x"`}, {&timmEva, "rope_temperature", rotary +
			`"rope_temperature":"x"`},
		{&timmEva, "rope_grid_indexing", rotary + `"rope_grid_indexing":"x"|` + rotary + `"rope_type":"mixed"|` + v3 +
			`"rope_rotate_half":true,"rope_grid_indexing":"xy"`},
		{&timmEva, "rope_grid_offset", rotary + `"rope_grid_offset":"x"|` + v3 +
			`"rope_rotate_half":true,"rope_grid_offset":0.5`},
		{&timmEva, "ref_feat_shape", rotary + `"ref_feat_shape":"x"`},
		{&timmEva, "rope_rotate_half", rotary + `"rope_rotate_half":true|` + v3 + `"rope_rotate_half":false`},
	} {
		for text := range strings.SplitSeq(c.args, "|") {
			_, err := c.family.read(gomlxtest.Must(values(object(t, "{"+text+"}")))(t), true)
			outcome(t, c.family.class+" {"+text+"}", err, c.names)
		}
	}
	for _, head := range []bool{true, false} { // a classifier pools by the mean
		is.Equal(t, "SigLIP with a classifier", is.ErrorOf(hfSigLIP.read(args("vision_use_head", false), head)) == nil, head)
	}
	for class, has := range map[*family]bool{&timmEva: true, &timmViT: false, &timmBeit: false} { // timm 1.0: is not None
		m := gomlxtest.Must(class.read(args("init_values", 0.0), true))(t)
		is.Equal(t, class.class+" has factors", m.config.LayerScale > 0, has)
	}
	is.Equal(t, "channels first", gomlxtest.Must(imageSize([]any{4.0, 3.0, 5.0}))(t), gridSize{3, 5})
}

// transformers reads rope_theta: 100 as an integer and refuses it.
func TestFraction_HasAPointOrAnExponent(t *testing.T) {
	for x, want := range map[fraction]string{100: "100.0", 0: "0.0", 0.5: "0.5", 1e-12: "1e-12", 1e30: "1e+30"} {
		is.Equal(t, want, string(gomlxtest.Must(json.Marshal(x))(t)), want)
	}
}

// timm truncates width·ratio. Dinov2SwiGLUFFN: int(hidden·2/3), then (hidden + 7) // 8 * 8 (modeling_dinov2.py of
// transformers). timm's SwiGLU of Eva rounds up (layers/mlp.py).
func TestHiddenUnits_AreTheSoftwares(t *testing.T) {
	for width := 1; width < 100; width++ {
		for units := 1; units < 100; units++ {
			is.Equal(t, width, int(float64(width)*float64(ratioOf(width, units))), units)
		}
	}
	for ratio := range 30 {
		for _, width := range []int{8, 13, 48} {
			want := int(math.Ceil(math.Floor(float64(width*ratio)*2/3)/8)) * 8
			is.Equal(t, [2]int{width, ratio}, dinov2Hidden(vit.Config{Width: width, SwiGLU: true}, float64(ratio)), want)
		}
	}
	m := gomlxtest.Must(timmEva.read(args("embed_dim", 24.0, "num_heads", 2.0, "swiglu_mlp", true, "swiglu_align_to", 8.0,
		"mlp_ratio", 3.1), true))(t)
	is.Equal(t, "hidden units", [2]int{m.config.MLPDim, hidden(3, 1e300)}, [2]int{80, 1 << 30}) // 24·3.1 is 74
	// DINOv2 giant: 8192 units in fc1, for the gate and 4096 hidden units (GluMlp halves mlp_ratio·embed_dim).
	giant := gomlxtest.Resolved(vit.Config{ImageRows: 518, ImageCols: 518, PatchSize: 14, Width: 1536, Depth: 40,
		Heads: 24, MLPDim: 4096, Classes: 1000, SwiGLU: true, LayerScale: 1e-5, Position: "learned"})
	_, out, err := forExport(formatTimm, giant, true, nil)
	gomlxtest.NoError(t, err)
	is.Equal(t, "DINOv2 giant", out["mlp_layer"], any(packedGLU))
	is.Equal(t, "DINOv2 giant", int(1536*float64(out["mlp_ratio"].(fraction))), 8192)
}

// What is read from fields is written again: the biases of DINOv3 (three switches, here one word), theta, the last norm
// of timm (vision_transformer.py: use_fc_norm = global_pool == 'avg' if fc_norm is None; eva.py: likewise, and
// use_post_transformer_norm is its opposite), norms, activations and augmentations. Of Eva's rotation only what differs
// from this library's default is a hyperparameter; timm's own default theta, 10000, is not this library's. Without an
// entry timm's models have no augmentation of positions; ours have DINOv3's.
func TestFields_AreReadAndWritten(t *testing.T) {
	norm := func(m *foreign) string { return m.config.FinalNorm }
	bias := func(m *foreign) string { return m.config.QKVBias }
	eps := func(m *foreign) string { return fmt.Sprint(m.config.Epsilon, m.config.RMSNorm) }
	rotation := func(m *foreign) string { return fmt.Sprint(m.config.Position, " ", m.params) }
	const (
		rotary = `"use_rot_pos_emb":true,"use_abs_pos_emb":false`
		axial  = rotary + `,"rope_temperature":100`
		mixed  = rotary + `,"rope_type":"mixed","rope_grid_indexing":"xy","rope_temperature":`
		v3     = axial + `,"rope_type":"dinov3","rope_rotate_half":true,"rope_rescale_coords":`
	)
	for _, c := range []struct {
		family  *family
		args    string
		of      func(*foreign) string
		want    string
		written string // where it differs from args
	}{
		{&hfDINOv3, `"query_bias":true,"key_bias":true,"value_bias":true`, bias, "", ""},
		{&hfDINOv3, `"query_bias":true,"key_bias":false,"value_bias":true`, bias, "qv", ""},
		{&hfDINOv3, `"query_bias":false,"key_bias":false,"value_bias":false`, bias, "none", ""},
		{&hfDINOv3, `"use_gated_mlp":true,"hidden_act":"silu"`,
			func(m *foreign) string { return fmt.Sprint(m.config.SwiGLU) }, "true", ""},
		{&timmViT, `"global_pool":"token","fc_norm":null`, norm, "", `"fc_norm":false`},
		{&timmViT, `"global_pool":"avg","fc_norm":null`, norm, "pooled", `"fc_norm":true`},
		{&timmViT, `"global_pool":"token","fc_norm":true`, norm, "pooled", ""},
		{&timmViT, `"global_pool":"avg","fc_norm":false`, norm, "", ""}, {&timmViT, `"final_norm":false`, norm, "none", ""},
		{&timmEva, `"global_pool":"avg"`, norm, "pooled", `"use_fc_norm":true,"use_post_transformer_norm":false`},
		{&timmEva, `"global_pool":"token"`, norm, "", `"use_fc_norm":false,"use_post_transformer_norm":true`},
		{&timmEva, `"global_pool":"avg","use_fc_norm":false`, norm, "", `"use_post_transformer_norm":true`},
		{&timmEva, `"global_pool":"token","use_fc_norm":true`, norm, "pooled", ""},
		{&timmEva, `"global_pool":"token","use_post_transformer_norm":false`, norm, "none", ""},
		{&timmEva, `"global_pool":"avg","use_fc_norm":false,"use_post_transformer_norm":false`, norm, "none", ""},
		{&timmViT, `"norm_layer":"LayerNorm"`, eps, "1e-06 false", `"norm_layer":"LayerNorm(eps=1e-06)"`},
		{&timmViT, `"norm_layer":"LayerNorm(eps=1e-05)"`, eps, "1e-05 false", ""},
		{&timmViT, `"norm_layer":"rmsnorm"`, eps, "1e-06 true", `"norm_layer":"RmsNorm(eps=1e-06)"`},
		{&timmViT, `"norm_layer":"RmsNorm(eps=1e-05)"`, eps, "1e-05 true", ""},

		{&timmEva, `"use_abs_pos_emb":false`, rotation, "none map[]", ""}, {&timmEva, ``, rotation, "learned map[]", ""},
		{&timmEva, axial, rotation, "rope-axial map[rope_axial_first:row]", ""},
		{&timmEva, `"use_rot_pos_emb":true,"use_abs_pos_emb":true,"rope_temperature":100`, rotation,
			"learned+rope-axial map[rope_axial_first:row]", ""},
		{&timmEva, axial + `,"rope_grid_indexing":"xy"`, rotation, "rope-axial map[]", ""},
		{&timmEva, rotary + `,"rope_temperature":10000`, rotation,
			"rope-axial map[rope_axial_first:row rope_theta:10000]", ""},
		{&timmEva, axial + `,"rope_grid_offset":0.5`, rotation,
			"rope-axial map[rope_axial_first:row rope_axial_offset:0.5]", ""},
		{&timmEva, axial + `,"ref_feat_shape":[3,5]`, rotation,
			"rope-axial map[rope_axial_cols:5 rope_axial_first:row rope_axial_rows:3]", ""},
		{&timmEva, mixed + `10`, rotation, "rope-mixed map[]", ""},
		{&timmEva, mixed + `100`, rotation, "rope-mixed map[rope_theta:100]", ""},
		{&timmEva, v3 + `2`, rotation, "rope-dinov3 map[]", ""},
		{&timmEva, v3 + `1`, rotation, "rope-dinov3 map[rope_dinov3_rescale:1]", ""},
		{&timmEva, v3 + `null`, rotation, "rope-dinov3 map[rope_dinov3_rescale:0]", ""},
	} {
		fields := gomlxtest.Must(values(object(t, "{"+c.args+"}")))(t)
		m := gomlxtest.Must(c.family.read(fields, true))(t)
		is.Equal(t, c.args, c.of(m), c.want)
		maps.Copy(fields, gomlxtest.Must(values(object(t, "{"+c.written+"}")))(t))
		out := m.write()
		for key, value := range fields { // comes back as it was
			is.Equal(t, c.args+": "+key, strings.TrimSuffix(short(out[key]), ".0"), strings.TrimSuffix(short(value), ".0"))
		}
	}
	// Null is no augmentation of the positions, which is not the default of transformers' DINOv3ViTConfig.
	for key, values := range map[string]map[any]any{"rope_theta": {nil: nil, 100.0: nil, 50.0: 50.0},
		"pos_embed_rescale": {nil: 0.0, 2.0: nil, 1.5: 1.5}, "pos_embed_shift": {nil: nil, 1.5: 1.5}} {
		param := map[string]string{"rope_theta": key, "pos_embed_rescale": "rope_dinov3_rescale",
			"pos_embed_shift": "rope_dinov3_shift"}[key]
		for value, want := range values {
			m := gomlxtest.Must(hfDINOv3.read(args(key, value), false))(t)
			is.Equal(t, fmt.Sprint(key, value), m.params[param], want)
			check(t, value == nil || fmt.Sprint(m.write()[key]) == fmt.Sprint(value), "%s %v is written as it was", key, value)
		}
	}
	plain := changedBy(ownViT("learned"), func(c *vit.Config) { c.QKVBias = "qv" }) // which VisionTransformer lacks
	m, out, err := forExport(formatTimm, plain, true, nil)
	gomlxtest.NoError(t, err)
	is.Equal(t, "rotation of a model without one", fmt.Sprint(m.family.class, out["rope_type"], out["rope_temperature"]),
		fmt.Sprint(timmEva.class, "cat", 10000)) // timm's defaults
}

// CLIP's file has a configuration for each tower, or that of the image tower alone. CLIPConfig of transformers 5.23
// reads vision_config_dict in place of vision_config.
func TestFieldsIn_ImageTower(t *testing.T) {
	for text, want := range map[string]map[string]any{
		`{"hidden_size":7}`: args("hidden_size", 7.0), `{"hidden_size":5,"vision_config":{"hidden_size":7}}`: args(
			"hidden_size", 7.0),
		`{"vision_config":{"hidden_size":8,"patch_size":16},"vision_config_dict":{"hidden_size":24}}`: args(
			"hidden_size", 24.0),
		`{"vision_config":3}`: nil,
	} {
		got, err := hfCLIP.fieldsIn(object(t, text))
		check(t, (err == nil) == (want != nil) && maps.Equal(got, want), "%s: %v, %v, want %v", text, got, err, want)
	}
}

// A file's own arguments, also None, come before the architecture's (create_model in timm/models/_factory.py), then
// those of pretrained_cfg (_update_default_model_kwargs in timm/models/_builder.py: the channels, the pooling and,
// with fixed_input_size or without a position table, the size), which older files have at their top level, then the
// class's.
func TestTimmArgs_HaveTheirOrder(t *testing.T) {
	const gap, mixed = "vit_base_patch16_gap_224", "vit_small_patch16_rope_mixed_224" // gap: of 16 heads, avg
	size, usual := []any{30.0, 40.0}, []any{224.0, 224.0}
	for _, c := range []struct {
		name, config string
		want         map[string]any // nil: refused
	}{
		{gap, `{}`, args("num_heads", 16.0, "depth", 12.0, "in_chans", 3.0, "global_pool", "avg", "img_size", usual)},
		{gap, `{"model_args":{"num_heads":8}}`, args("num_heads", 8.0)},
		{"vit_base_patch32_clip_quickgelu_224", `{"model_args":{"act_layer":null,"qkv_bias":null,"use_naflex":null}}`,
			args("act_layer", "gelu", "qkv_bias", false)},
		{gap, `{"model_args":{"act_layer":"SiLU"}}`, args("act_layer", "silu")},
		{gap, `{"input_size":[1,30,40]}`, args("in_chans", 1.0, "img_size", usual)},
		{gap, `{"input_size":[5,30,40],"model_args":{"in_chans":2}}`, args("in_chans", 2.0)},
		{gap, `{"input_size":[5,30,40],"pretrained_cfg":{"input_size":[7,30,40]}}`, args("in_chans", 7.0)},
		{gap, `{"input_size":[5,30,40],"pretrained_cfg":{}}`, args("in_chans", 3.0)},
		{"vit_base_patch16_224", `{"pretrained_cfg":{"global_pool":"avg"}}`, args("global_pool", "avg")},
		{"vit_base_patch16_224", `{"global_pool":"avg","model_args":{"global_pool":"map"}}`, args("global_pool", "map")},
		{gap, `{"input_size":[4,30,40],"fixed_input_size":true}`, args("in_chans", 4.0, "img_size", size)},
		{gap, `{"pretrained_cfg":{"input_size":[4,30,40],"fixed_input_size":true}}`, args("img_size", size)},
		{gap, `{"input_size":[4,30,40],"fixed_input_size":true,"model_args":{"img_size":8}}`, args("img_size", 8.0)},
		{gap, `{"input_size":[4,30,40],"fixed_input_size":true,"model_args":{"dynamic_img_size":true}}`,
			args("img_size", usual)},
		{mixed, `{"input_size":[4,30,40]}`, args("img_size", size)},
		{gap, `{"model_args":3}`, nil}, {gap, `{"model_args":{"depth":1e400}}`, nil}, {gap, `{"pretrained_cfg":3}`, nil},
		{gap, `{"input_size":[0,3,5]}`, nil}, {gap, `{"input_size":[3,16384,16385]}`, nil},
		{gap, `{"input_size":[3,5]}`, nil}, {gap, `{"input_size":[3,5,7],"fixed_input_size":1}`, nil},
	} {
		got, err := timmArgs(c.name, object(t, c.config))
		is.Equal(t, fmt.Sprint(c.name, c.config, err), err == nil, c.want != nil)
		for key, want := range c.want {
			is.Equal(t, c.name+" "+c.config+": "+key, got[key], want)
		}
	}
}

// Every architecture of timm is read and comes back from the arguments that are written, except those with an option
// that the network lacks; defaults of an architecture are not in its file.
func TestArchitectures_ComeBackFromTheirArguments(t *testing.T) {
	want := map[string]func(*vit.Config) bool{
		"vit_base_patch16_gap_224":    func(c *vit.Config) bool { return c.Heads == 16 && c.Pool == "mean" },
		"vit_base_patch32_siglip_256": func(c *vit.Config) bool { return c.Activation == "gelu_tanh" },
		"vit_base_patch16_clip_224":   func(c *vit.Config) bool { return c.PreNorm && c.Epsilon == 1e-5 },
		"eva_large_patch14_196":       func(c *vit.Config) bool { return c.ClassToken && c.FinalNorm == "pooled" },
		"vit_giant_patch14_dinov2":    func(c *vit.Config) bool { return c.SwiGLU && c.MLPDim == 4096 && c.Heads == 24 },
		"beitv2_base_patch16_224":     func(c *vit.Config) bool { return c.Position == "relative-table" },
	}
	read := 0
	for _, name := range ArchitectureNames() {
		f := gomlxtest.Must(timmFamily(name))(t)
		m, err := f.read(gomlxtest.Must(timmArgs(name, nil))(t), true)
		if err != nil {
			check(t, want[name] == nil && strings.Contains(err.Error(), " is "), "%s: %v", name, err) // names the option
			continue
		}
		read++
		back, err := f.read(gomlxtest.Must(asJSON(m.write()))(t), true)
		check(t, err == nil && back.config == m.config && maps.Equal(back.params, m.params),
			"%s is read again as %+v, %v, was %+v", name, back, err, m)
		ok := want[name]
		check(t, ok == nil || ok(&m.config), "%s is %+v", name, m.config)
	}
	is.Equal(t, "architectures, read and all", [2]int{read, len(ArchitectureNames())}, [2]int{251 - 16, 251})
	// A model is written as the architecture from which the fewest arguments differ, the first of these by name.
	for name, want := range map[string]string{
		"vit_tiny_patch16_224":  "deit_tiny_patch16_224 map[fc_norm:false img_size:224]", // of equal arguments
		"aimv2_1b_patch14_448":  "aimv2_1b_patch14_224 map[img_size:448]",
		"beit_base_patch16_384": "beit_base_patch16_384 map[use_fc_norm:true]",
	} {
		f := gomlxtest.Must(timmFamily(name))(t)
		m := gomlxtest.Must(f.read(gomlxtest.Must(timmArgs(name, nil))(t), true))(t)
		as, args, err := architectureFor(f.class, m.write())
		gomlxtest.NoError(t, err)
		is.Equal(t, name, fmt.Sprint(as, " ", args), want)
	}
	_, _, err := architectureFor("Conv", nil)
	check(t, err != nil && !slices.Contains(ArchitectureNames(), "Conv"), "another class is written")
}
