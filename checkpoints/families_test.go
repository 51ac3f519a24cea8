// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
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
				if config := readFile(t, filepath.Join(dir, foreignConfig)); format == formatTimm &&
					!bytes.Contains(config, []byte(`"fixed_input_size": true`)) {
					t.Errorf("timm would resize the images of %s", config)
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
	if len(compared) < 8 && !gomlxtest.OnXLA() {
		t.Errorf("only of %q the files are compared", compared)
	}
	for _, f := range families {
		plain := f == &hfViT || f == &hfDINOv2 || f == &jaxViT // in other fixtures
		if !seen[f.class] && !plain {
			t.Errorf("no model of %s %s", f.format, f.class)
		}
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
	for name, x := range all[1] {
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
	if got["model_type"] != want["model_type"] || len(got) < 8 && got["id2label"] == nil {
		t.Errorf("%s: %v", name, got)
	}
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
		said := slices.ContainsFunc(m.Report, func(line string) bool { return strings.Contains(line, "timm uses a spline") })
		if said != (of.name == "beit_base_patch16_224") {
			t.Errorf("%s at another size: the report is %q", of.name, m.Report)
		}
		back := imported(t, exported(t, m, ExportOptions{Format: of.format}), ImportOptions{})
		images := Noise(m.Config, 2, 5)
		want := gomlxtest.Must(m.Logits(gomlxtest.Backend(), images))(t)
		near(t, of.name+" as "+of.format, gomlxtest.Must(back.Logits(gomlxtest.Backend(), images))(t), want, 1e-6)
		if back.Config != m.Config {
			t.Errorf("%s as %s: %+v, want %+v", of.name, of.format, back.Config, m.Config)
		}
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
		if !slices.Contains(m.Report, "left out: "+index) {
			t.Errorf("%s: the report does not name %s: %q", name, index, m.Report)
		}
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
		if renamed < 5*want.Config.Depth {
			t.Fatalf("%s: %d names of %d blocks", class, renamed, want.Config.Depth)
		}
		again := t.TempDir()
		writeWeights(t, filepath.Join(again, foreignWeights), all)
		putFile(t, filepath.Join(again, foreignConfig), readFile(t, filepath.Join(dir, foreignConfig)))
		got := imported(t, again, ImportOptions{HeadOptional: true})
		same(t, class, got, want)
		if got.Config != want.Config {
			t.Errorf("%s: %+v, want %+v", class, got.Config, want.Config)
		}
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
		if (err == nil) != c.opens {
			t.Errorf("%s: %v", c.change("NAME"), err)
		}
		if err == nil {
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
		"final_norm_output": tr.Encoded, "pooler_output": tr.Pooled, "logits": tr.Logits,
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
	other := regexp.MustCompile(`^(rect|images|grad_|preprocess|position_embeddings|rope_)`) // than a stage
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
		if licence := strings.Contains(strings.Join(m.Report, "\n"), "DINOv3 License"); licence != rotaryOnly(m.Config) {
			t.Errorf("%s: the report names DINOv3's licence: %v", set, licence)
		}
		dir := exported(t, m, ExportOptions{Labels: m.Labels})
		sameFiles(t, dir, fixtures.Dir(t, set))
		for _, dir := range []string{dir, exported(t, m, ExportOptions{Format: formatNative})} {
			back := imported(t, dir, ImportOptions{HeadOptional: true})
			if same(t, set, back, m); back.Config != m.Config {
				t.Errorf("%s: %+v, want %+v", set, back.Config, m.Config)
			}
		}
	}
}

// dinoLike are models with the options of DeiT-III, DINOv2 and DINOv3, some trained with an encoding of WePE.
func dinoLike() map[string]vit.Config {
	models := map[string]vit.Config{}
	for name, change := range map[string]func(*vit.Config){
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
	} {
		models[name] = changedBy(ownViT("learned"), change)
	}
	return models
}
