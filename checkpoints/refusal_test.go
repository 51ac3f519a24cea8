// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
)

// naming is a family with the prefix of its names.
type naming struct {
	*family
	base string
}

func (n naming) foreign(c vit.Config) *foreign {
	return &foreign{family: n.family, base: n.base, config: c, entries: map[string]any{}, head: true}
}

func (n naming) variables(c vit.Config) []named { return n.foreign(c).variables() }

// name returns the family's name of one of our paths in a block of smallViT.
func (n naming) name(path string, block int) string {
	m := n.foreign(smallViT)
	return m.nameOf(m.names(), path, block)
}

// made returns random weights of a model in a format.
func made(n naming, c vit.Config) map[string]*tensors.Tensor {
	rng := rand.New(rand.NewPCG(5, 6))
	out := map[string]*tensors.Tensor{}
	for _, v := range n.variables(c) {
		if out[v.foreign] == nil {
			out[v.foreign] = randomTensor(rng, dtypes.Float32, v.foreignShape(n.format, c)...)
		}
	}
	return out
}

// put writes a checkpoint of the format to a new directory and returns the file.
func put(t testing.TB, n naming, weights map[string]*tensors.Tensor, config string) string {
	t.Helper()
	dir := t.TempDir()
	if config != "" {
		putFile(t, filepath.Join(dir, foreignConfig), []byte(config))
	}
	if n.format == formatJAX {
		var members []zipMember
		for name, x := range weights {
			shape := strings.ReplaceAll(strings.Trim(fmt.Sprint(x.Shape().Dimensions), "[]"), " ", ",")
			members = append(members, zipMember{name: name + ".npy", content: npy("<f4", "("+shape+",)", bytesOf(t, x))})
		}
		file := filepath.Join(dir, "model.npz")
		putFile(t, file, zipOf(t, members...))
		return file
	}
	file := filepath.Join(dir, foreignWeights)
	writeWeights(t, file, weights)
	return file
}

// hfConfig is a config.json for smallViT; changes are "key", "value" pairs of raw JSON, an empty value removes the key.
func hfConfig(changes ...string) string {
	fields := map[string]json.RawMessage{
		"model_type": []byte(`"vit"`), "hidden_act": []byte(`"gelu"`), "num_attention_heads": []byte("7"),
		"layer_norm_eps": []byte("1e-12"), "image_size": []byte("[6,10]"), "patch_size": []byte("2"),
		"hidden_size": []byte("14"), "num_hidden_layers": []byte("11"), "intermediate_size": []byte("5"),
		"num_channels": []byte("3"),
	}
	for i := 0; i < len(changes); i += 2 {
		fields[changes[i]] = []byte(changes[i+1])
		if changes[i+1] == "" {
			delete(fields, changes[i])
		}
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		out = append(out, fmt.Sprintf("%q:%s", key, fields[key]))
	}
	return "{" + strings.Join(out, ",") + "}"
}

var allNamings = []naming{{&hfViT, "vit."}, {&hfViT, ""}, {&timmViT, ""}, {&jaxViT, ""}}

// timmConfig is the config.json of a plain model, as timm writes it.
func timmConfig(c vit.Config) string {
	return fmt.Sprintf(`{"architecture":"vit_base_patch16_224","num_classes":%d,"model_args":{"img_size":[%d,%d],
		"patch_size":%d,"in_chans":%d,"embed_dim":%d,"depth":%d,"num_heads":%d,"mlp_ratio":%.17g,"class_token":%v,
		"global_pool":%q,"fc_norm":false}}`, c.Classes, c.ImageRows, c.ImageCols, c.PatchSize, c.Channels, c.Width, c.Depth,
		c.Heads, (float64(c.MLPDim)+0.5)/float64(c.Width), c.Pool == "class",
		map[string]string{"class": "token", "mean": "avg"}[c.Pool])
}

// configOf returns the config.json that a model of a format requires.
func configOf(n naming, c vit.Config) string {
	if n.format == formatTimm {
		return timmConfig(c)
	}
	return ""
}

// smallViT has sizes that differ wherever a swap could be missed, and more than ten blocks.
var smallViT = gomlxtest.Resolved(vit.Config{ImageRows: 6, ImageCols: 10, Channels: 3, PatchSize: 2, Width: 14, Depth: 11, Heads: 7,
	MLPDim: 5, Classes: 13, Position: "learned"})

var (
	hf, hfBase, timm, jax = allNamings[0], allNamings[1], allNamings[2], allNamings[3]
	smallGrid             = gridSize{3, 5}
)

func TestTensorsThatDoNotFitTheModelAreListed(t *testing.T) {
	for _, n := range allNamings {
		weights := made(n, smallViT)
		moved := n.name("norm/gain", 0)
		weights["x."+moved] = weights[moved]
		delete(weights, moved)
		last := n.name(outputPath+"biases", 10)
		weights[last] = randomTensor(rand.New(rand.NewPCG(1, 1)), dtypes.Float32, 15)
		config, options := hfConfig(), ImportOptions{}
		if n.format != formatHF {
			config = configOf(n, smallViT)
		}
		if n.format == formatJAX {
			options.Grid = smallGrid
		}
		m, err := Import(put(t, n, weights, config), options)
		e := onlyMismatch(t, err)
		if m != nil || !slices.Equal(e.Missing, []string{moved + " [14]"}) ||
			!slices.Equal(e.Unexpected, []string{"x." + moved + " [14]"}) ||
			!slices.Equal(e.Mismatched, []string{last + " [15], in the model [14]"}) {
			t.Errorf("%s: %+v", n.format, e)
		}
	}
}

func TestMissingOptionsOfFilesAreNamed(t *testing.T) {
	full, config := ImportOptions{Hints: Hints{Grid: smallGrid}}, timmConfig(smallViT)
	squareViT := smallViT
	squareViT.ImageCols = squareViT.ImageRows
	noHead := func(n naming) map[string]*tensors.Tensor {
		weights := made(n, smallViT)
		delete(weights, n.name(headPath+"weights", 0))
		delete(weights, n.name(headPath+"biases", 0))
		return weights
	}
	with := func(weights map[string]*tensors.Tensor, names ...string) map[string]*tensors.Tensor {
		for _, name := range names {
			weights[name] = randomTensor(rand.New(rand.NewPCG(1, 1)), dtypes.Float32, 14)
		}
		return weights
	}
	distilled := naming{&timmDistilled, ""}
	twoTokens := smallViT
	twoTokens.Depth = 1
	distilledConfig := strings.Replace(timmConfig(twoTokens), "vit_base", "deit_base_distilled", 1)
	twoTokens.Pool, twoTokens.Registers, twoTokens.RegisterPositions = "class+register", 1, true
	noHeads := made(distilled, twoTokens)
	maps.DeleteFunc(noHeads, func(name string, _ *tensors.Tensor) bool { return strings.HasPrefix(name, "head") })
	for name, c := range map[string]struct {
		format  naming
		weights map[string]*tensors.Tensor
		config  string
		options ImportOptions
		want    string // in the error, empty for no error
	}{
		"timm, no heads": {distilled, noHeads, distilledConfig, ImportOptions{}, "has no head"},
		"timm, new head": {distilled, noHeads, distilledConfig, ImportOptions{Classes: 4}, ""},
		"timm":           {timm, made(timm, smallViT), config, ImportOptions{}, ""},
		"timm, its grid": {timm, made(timm, smallViT), config, full, ""},
		"timm, other grid": {timm, made(timm, smallViT), config, ImportOptions{Hints: Hints{Grid: gridSize{5, 3}}},
			"not 5x3"},
		"timm, unsaid": {timm, made(timm, smallViT), "", full, "use --architecture NAME"},
		"timm, other": {timm, made(timm, smallViT), config, ImportOptions{Hints: Hints{Architecture: "test_vit"}},
			"not test_vit"},
		"timm, unknown": {timm, made(timm, smallViT), `{"architecture":"vit_base_patch16_225"}`, full,
			"vit_base_patch16_225"},
		"timm, not of it": {timm, made(timm, smallViT), `{"architecture":"vit_base_patch16_224"}`, ImportOptions{},
			"[768]"},
		"timm, by its name": {timm, made(timm, smallViT), "", ImportOptions{Hints: Hints{Architecture: "test_vit"}}, "[64]"},
		"timm, pooled": {timm, made(timm, smallViT), strings.Replace(config, `pool":"token`, `pool":"max`, 1), full,
			"global_pool"},
		"timm, other heads": {timm, made(timm, smallViT), strings.Replace(config, `heads":7`, `heads":4`, 1), full,
			"4 heads"},
		"jax, no grid": {jax, made(jax, smallViT), "", ImportOptions{}, "1+15 positions"},
		"jax, not square": {jax, made(jax, smallViT), "", ImportOptions{Hints: Hints{AssumeSquare: true}},
			"1+15 positions"},
		"jax, square":           {jax, made(jax, squareViT), "", ImportOptions{Hints: Hints{AssumeSquare: true}}, ""},
		"jax, square, not said": {jax, made(jax, squareViT), "", ImportOptions{}, "--assume-square"},
		"jax, wrong grid": {jax, made(jax, smallViT), "", ImportOptions{Hints: Hints{Grid: gridSize{4, 4}}},
			"not the 1+4x4"},
		"jax, prefix missing": {jax, made(jax, smallViT), "", ImportOptions{Hints: Hints{Grid: gridSize{4, 4}}},
			"16 positions"},
		"jax, size of no image": {jax, made(jax, smallViT), `{"model_type":"vit-jax","image_size":"x"}`, full,
			`config.json: image_size is "x", want pixels`},
		"jax, no size":   {jax, made(jax, smallViT), `{"model_type":"vit-jax"}`, full, "config.json: image_size"},
		"no config.json": {hf, made(hf, smallViT), "", full, "config.json"},
		"no classifier":  {hf, noHead(hf), hfConfig(), full, "--classes N"},
		"new classifier": {hf, noHead(hf), hfConfig(), ImportOptions{Classes: 4}, ""},
		"pooler": {hfBase, with(noHead(hfBase), "pooler.dense.weight", "pooler.dense.bias"), hfConfig(),
			ImportOptions{Classes: 4}, ""},
		"pooler and classifier": {hf, with(made(hf, smallViT), "vit.pooler.dense.weight"), hfConfig(), full, ""},
		"pre_logits": {jax, with(made(jax, smallViT), "pre_logits/kernel", "pre_logits/bias"), "", full,
			"behind pre_logits/kernel"},
		"pre_logits, new head": {jax, with(made(jax, smallViT), "pre_logits/kernel"), "",
			ImportOptions{Classes: 13, Hints: Hints{Grid: smallGrid}}, ""},
		"timm's pre_logits": {timm, with(made(timm, smallViT), "pre_logits.fc.weight"), config, full, "behind pre_logits.fc"},
		"odd image":         {timm, made(timm, smallViT), config, withImage(full, 7, 10), "does not divide"},
		"half an image":     {timm, made(timm, smallViT), config, withImage(full, 6, 0), "image_cols is 0"},
		"huge image":        {timm, made(timm, smallViT), config, withImage(full, 1<<40, 2), "image_rows"},
		"unknown kind":      {timm, made(timm, smallViT), config, ImportOptions{Resample: "x"}, `"x"`},
	} {
		m, err := Import(put(t, c.format, c.weights, c.config), c.options)
		if c.want == "" && err == nil {
			classes := 13
			if c.options.Classes != 0 {
				classes = c.options.Classes
			}
			if m.Config.Heads != 7 || m.Config.Classes != classes {
				t.Errorf("%s: %+v", name, m.Config)
			}
		} else if c.want == "" || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestAGridHasToCoverTheTableOfAJAXFile(t *testing.T) {
	for _, c := range []struct {
		rows   int // of the table: one for the class token
		stated gridSize
		asked  gridSize
		want   string // in the error
	}{
		{16, gridSize{}, gridSize{3, 5}, ""}, {16, gridSize{3, 5}, gridSize{}, ""}, {16, gridSize{3, 5}, gridSize{3, 5}, ""},
		{16, gridSize{3, 5}, gridSize{5, 3}, "has a grid of 3x5, not 5x3"},
		{16, gridSize{}, gridSize{}, "1+15 positions"}, {0, gridSize{}, gridSize{}, "1+-1 positions"},
		{17, gridSize{}, gridSize{3, 5}, "17 positions, not the 1+3x5"},
		{16, gridSize{}, gridSize{-3, -5}, "16 positions, not the 1+-3x-5"},
		{1, gridSize{}, gridSize{0, 5}, "1 positions, not the 1+0x5"},
		{1, gridSize{}, gridSize{5, 0}, "1 positions, not the 1+5x0"},
		{1 + 16384, gridSize{}, gridSize{16384, 1}, ""}, {1 + 16384, gridSize{}, gridSize{1, 16384}, ""},
		{1 + 16385, gridSize{}, gridSize{16385, 1}, "not the 1+16385x1"},
		{1 + 16385, gridSize{}, gridSize{1, 16385}, "not the 1+1x16385"},
	} {
		d := described{foreign: jax.foreign(smallViT)}
		err := (&weights{path: "x"}).gridOfTable(&d, c.rows, c.stated, ImportOptions{Hints: Hints{Grid: c.asked,
			AssumeSquare: true}})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func withImage(o ImportOptions, rows, cols int) ImportOptions {
	o.ImageRows, o.ImageCols = rows, cols
	return o
}

func TestModelsWithoutClassTokenPoolTheMean(t *testing.T) {
	c := smallViT
	c.Pool = "mean"
	for _, n := range []naming{timm, jax} {
		m := imported(t, put(t, n, made(n, c), configOf(n, c)), ImportOptions{Hints: Hints{Grid: smallGrid}})
		if m.Config != c || m.Variables[classPath] != nil || m.Variables[positionPath].Shape().Dimensions[0] != 15 {
			t.Errorf("%s: %+v, positions %s", n.format, m.Config, m.Variables[positionPath].Shape())
		}
	}
}

func TestAConfigOutOfRangeIsRefusedWithItsField(t *testing.T) {
	file := put(t, hf, made(hf, smallViT), "")
	for _, c := range [][2]string{
		{hfConfig("model_type", `"bert"`), "model_type"}, {hfConfig("model_type", ""), "model_type"},
		{hfConfig("hidden_act", `"relu"`), "hidden_act"}, {hfConfig("hidden_act", "7"), "hidden_act"},
		{hfConfig("num_attention_heads", ""), "12 heads"}, // transformers' default
		{hfConfig("num_attention_heads", "0"), "num_attention_heads"}, {hfConfig("num_attention_heads", "4"), "4 heads"},
		{hfConfig("layer_norm_eps", "0"), "layer_norm_eps"}, {hfConfig("layer_norm_eps", "1e-400"), "layer_norm_eps"},
		{hfConfig("image_size", ""), "[1 12545 14]"}, {hfConfig("image_size", "[6,16386]"), "image_size"},
		{hfConfig("image_size", "[6]"), "image_size"}, {hfConfig("image_size", "[6,10.5]"), "image_size"},
		{hfConfig("image_size", "6"), "[1 10 14]"}, {hfConfig("image_size", "[10,10]"), "[1 26 14]"},
		{hfConfig("image_size", "1"), "image_rows"},
		{hfConfig("hidden_size", "15"), "width 15"}, {hfConfig("hidden_size", "28"), "[28 3 2 2]"},
		{hfConfig("num_hidden_layers", "12"), "layer.11."}, {hfConfig("intermediate_size", "6"), "[6 14]"},
		{hfConfig("intermediate_size", "0"), "intermediate_size"}, {hfConfig("num_channels", "1"), "[14 1 2 2]"},
		{hfConfig("num_channels", "0"), "num_channels"}, {hfConfig("patch_size", "[2,1]"), "patch_size"},
		{hfConfig("new_option", "true"), "new_option"},
		{hfConfig("id2label", `{"0":"a"}`), "id2label"}, {hfConfig("id2label", "[1]"), "id2label"},
		{hfConfig("id2label", labels(12, "a")), "id2label"}, {hfConfig("id2label", labels(12, "00")), "id2label"},
		{hfConfig("id2label", labels(13, "13")), "names of the 13 classes"},
		{hfConfig("x", `{"a":1,"a":2}`), "appears twice"}, {"[]", "JSON object"}, {"", "JSON"},
		{hfConfig() + strings.Repeat(" ", maxSmall), "at most"},
	} {
		if c[0] == "" {
			c[0] = " "
		}
		putFile(t, filepath.Join(filepath.Dir(file), foreignConfig), []byte(c[0]))
		_, err := Import(file, ImportOptions{})
		var format *formatError
		var mismatch *MismatchError
		if !errors.As(err, &format) && !errors.As(err, &mismatch) || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%.80s: %v, want a formatError or a MismatchError with %q", c[0], err, c[1])
		}
		if format != nil && filepath.Base(format.File) != foreignConfig {
			t.Errorf("%.80s: the error names %s", c[0], format.File)
		}
	}
}

// labels names n classes and one with another key.
func labels(n int, other string) string {
	out := map[string]string{other: "other"}
	for i := range n {
		out[fmt.Sprint(i)] = "x"
	}
	raw, _ := json.Marshal(out)
	return string(raw)
}

func TestHostileShapesAreRefusedBeforeAnythingIsBuilt(t *testing.T) {
	patch, config := timm.name(patchPath+"weights", 0), timmConfig(smallViT)
	for _, dims := range [][]int{{0, 3, 0, 0}, {14, 3, 2, 1}, {14, 0, 2, 2}, {14, 3, 0, 0}} {
		weights := made(timm, smallViT)
		weights[patch] = tensors.FromShape(shapes.Make(dtypes.Float32, dims...))
		_, err := Import(put(t, timm, weights, config), ImportOptions{})
		var mismatch *MismatchError
		if !errors.As(err, &mismatch) || len(mismatch.Mismatched) != 1 || !strings.HasPrefix(mismatch.Mismatched[0], patch) {
			t.Errorf("%v: %v", dims, err)
		}
	}
	// 2^40 wide without a byte of data.
	empty := rawFile(`{"`+patch+`":{"dtype":"F32","shape":[1099511627776,0,16,16],"data_offsets":[0,0]}}`, nil)
	file := filepath.Join(t.TempDir(), "x.safetensors")
	putFile(t, file, empty)
	putFile(t, filepath.Join(filepath.Dir(file), foreignConfig),
		[]byte(strings.Replace(config, `embed_dim":14`, `embed_dim":1099511627776`, 1)))
	if _, err := Import(file, ImportOptions{}); err == nil || !strings.Contains(err.Error(), "embed_dim") {
		t.Errorf("a model of width 2^40: %v", err)
	}
	// A thousand blocks in a config.json, but weights of one: their names alone would take 40 MB.
	c := ownViT("wepe")
	dir := exportedFrom(t, stirred(t, c, nil), c, ExportOptions{Format: formatNative})
	rewrite(t, filepath.Join(dir, foreignConfig), func(raw []byte) []byte {
		return bytes.Replace(raw, fmt.Appendf(nil, `"depth": %d`, c.Depth), []byte(`"depth": 1000`), 1)
	})
	used, err := campaign.Malformed(t, func() error {
		_, err := Import(dir, ImportOptions{})
		return err
	})
	var format *formatError
	if !errors.As(err, &format) || !strings.Contains(err.Error(), "depth 1000") || used > 2<<20 {
		t.Errorf("%v, %d bytes allocated", err, used)
	}
}

func TestAnIndexHasToAgreeWithItsShards(t *testing.T) {
	weights := made(hf, smallViT)
	names := slices.Sorted(maps.Keys(weights))
	dir := filepath.Dir(put(t, hf, weights, hfConfig()))
	if err := os.Rename(filepath.Join(dir, foreignWeights), filepath.Join(dir, "a.safetensors")); err != nil {
		t.Fatal(err)
	}
	for file, name := range map[string]string{"b": names[0], "c": "extra"} {
		one := map[string]*tensors.Tensor{name: weights[names[0]]}
		writeWeights(t, filepath.Join(dir, file+".safetensors"), one)
	}
	index := func(change func(map[string]string)) string {
		m := map[string]string{}
		for _, name := range names {
			m[name] = "a.safetensors"
		}
		change(m)
		raw, _ := json.Marshal(map[string]any{"weight_map": m})
		return string(raw)
	}
	for _, c := range [][2]string{
		{index(func(map[string]string) {}), ""},
		{index(func(m map[string]string) { m[names[0]] = "b.safetensors" }), "also in another file"},
		{index(func(m map[string]string) { m["y"] = "c.safetensors" }), "not where the index says"},
		{index(func(m map[string]string) { m["y"] = "a.safetensors" }), "not in a.safetensors"},
		{index(func(m map[string]string) { delete(m, names[3]) }), "not where the index says"},
		{index(func(m map[string]string) { m["y"] = "d.safetensors" }), "no such file"},
		{index(func(m map[string]string) { m["y"] = "../a.safetensors" }), "beside the index"},
		{index(func(m map[string]string) { m["y"] = "/a.safetensors" }), "beside the index"},
		{index(func(m map[string]string) { m["y"] = `..\a.safetensors` }), "beside the index"},
		{index(func(m map[string]string) { m["y"] = "config.json" }), "beside the index"},
		{index(func(m map[string]string) { m["y"] = "" }), "beside the index"},
		{`{"weight_map":{"a":1}}`, "weight_map"}, {`{"weight_map":{}}`, "weight_map"}, {`{}`, "weight_map"},
		{`{"weight_map":{"a":"a.safetensors","a":"b.safetensors"}}`, "appears twice"}, {`[]`, "JSON object"},
	} {
		putFile(t, filepath.Join(dir, foreignIndex), []byte(c[0]))
		_, err := Import(dir, ImportOptions{})
		if (c[1] == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), c[1])) {
			t.Errorf("%.80s: %v, want %q", c[0], err, c[1])
		}
	}
}

func TestADirectoryWithoutWeightsIsAnErrorThatListsTheFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := Import(dir, ImportOptions{}); err == nil || !strings.Contains(err.Error(), foreignIndex) {
		t.Error(err)
	}
	if _, err := Import(filepath.Join(dir, "absent"), ImportOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	putFile(t, filepath.Join(dir, "other.npz"), zipOf(t, zipMember{name: "w.npy", content: npy("<f4", "()", floats(1))}))
	if _, err := Import(dir, ImportOptions{}); err == nil || !strings.Contains(err.Error(), `["w"]`) {
		t.Error(err)
	}
}

func TestDamageInUnusedTensorsIsFoundToo(t *testing.T) {
	weights := made(jax, smallViT)
	file := put(t, jax, weights, "")
	raw := readFile(t, file)
	raw[bytes.Index(raw, bytesOf(t, weights["head/kernel"]))] ^= 1
	putFile(t, file, raw)
	_, err := Import(file, ImportOptions{Classes: 5, Hints: Hints{Grid: smallGrid}})
	var format *formatError
	if !errors.As(err, &format) || format.Tensor != "head/kernel" || !strings.Contains(format.Reason, "checksum") {
		t.Errorf("%v", err)
	}
}

func TestAnImportIsLoadedOnce(t *testing.T) {
	m := imported(t, put(t, timm, made(timm, smallViT), timmConfig(smallViT)), ImportOptions{})
	scope := model.NewStore().RootScope().In("vit")
	if err := m.Load(scope); err != nil {
		t.Fatal(err)
	}
	if n := scope.NumVariables(); n != len(m.Variables) {
		t.Errorf("%d variables, want %d", n, len(m.Variables))
	}
	if err := m.Load(scope); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("loaded twice: %v", err)
	}
}

// A mutated checkpoint gives a one-line error quickly, or a model whose variables all have their shapes; memory is
// bounded by three times the file and 16 MiB. Half of the mutations change weights, half the JSON beside them.
func TestMutatedCheckpointsAreRefusedOrWhole(t *testing.T) {
	gomlxtest.OnGo(t)
	c := smallViT
	c.Depth = 2
	m := imported(t, put(t, timm, made(timm, c), timmConfig(c)), ImportOptions{})
	whole := ownViT("wepe")
	dirs := []string{
		filepath.Dir(put(t, hfBase, made(hfBase, c), hfConfig("num_hidden_layers", "2"))),
		exportedFrom(t, stirred(t, whole, map[string]any{"wepe_alpha_u": 0.3}), whole, ExportOptions{Format: formatNative}),
	}
	for _, format := range fileFormats {
		dirs = append(dirs, exported(t, m, ExportOptions{Format: format, Preprocess: &normalized}))
	}
	giant, three := dinoLike()["dinov2 giant"], dinoLike()["dinov3"]
	giant.Pool, giant.ImageCols, giant.MLPDim = "class+mean", giant.ImageRows, 2*giant.Width // transformers' Dinov2
	for _, options := range []struct {
		config vit.Config
		format string
	}{{giant, formatHF}, {three, formatHF}, {three, formatTimm}} {
		dirs = append(dirs, exportedFrom(t, stirred(t, options.config, nil), options.config,
			ExportOptions{Format: options.format, Headless: options.config == three && options.format == formatHF}))
	}
	files := map[string][]byte{}
	var weights, texts []string
	for _, dir := range dirs {
		for _, name := range []string{foreignWeights, "model.npz", foreignConfig, foreignPreprocessor} {
			file := filepath.Join(dir, name)
			raw, err := os.ReadFile(file)
			if err != nil {
				continue
			}
			files[file] = raw
			if filepath.Ext(name) == ".json" {
				texts = append(texts, file)
			} else {
				weights = append(weights, file)
			}
		}
	}
	if len(weights) != len(dirs) || len(texts) != 11 { // 9 config.json, 2 preprocessors
		t.Fatalf("%d files of weights, %d of text", len(weights), len(texts))
	}
	rng := campaign.Rand(9)
	tried, accepted := 0, 0
	for i := range campaign.Times(2000) {
		tried++
		among := [][]string{weights, texts}[i%2]
		target := among[rng.IntN(len(among))]
		raw := campaign.Mutate(rng, files[target], files[among[rng.IntN(len(among))]])
		putFile(t, target, raw)
		size := 0
		for file, raw := range files {
			if filepath.Dir(file) == filepath.Dir(target) && file != target {
				size += len(raw)
			}
		}
		var m *Imported
		var err error
		used, took := campaign.Cost(func() { m, err = Import(filepath.Dir(target), ImportOptions{}) })
		if used > uint64(3*(len(raw)+size)+16<<20) {
			t.Errorf("mutation %d of %s: %d bytes allocated for %d", i, target, used, len(raw)+size)
		}
		if took > 20*time.Second {
			t.Errorf("mutation %d of %s: %v", i, target, took)
		}
		switch {
		case err != nil && (!strings.HasPrefix(err.Error(), "checkpoints: ") || strings.Contains(err.Error(), "\n")):
			t.Errorf("mutation %d of %s: %v", i, target, err)
		case err == nil:
			accepted++
			for _, v := range (naming{&native, ""}).variables(m.Config) {
				if x := m.Variables[v.path]; x == nil || !slices.Equal(x.Shape().Dimensions, v.dims(m.Config)) {
					t.Errorf("mutation %d of %s: %s is %v", i, target, v.path, x)
				}
			}
		}
		if _, err := Inspect(filepath.Dir(target), ImportOptions{}); err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("mutation %d of %s: %v", i, target, err)
		}
		putFile(t, target, files[target])
	}
	// Flipped bits of numbers in safetensors, which has no checksum, and changes to ignored text are accepted.
	if accepted == 0 || accepted > tried/2 {
		t.Errorf("%d of %d mutations were accepted", accepted, tried)
	}
}
