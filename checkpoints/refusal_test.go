// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"cmp"
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
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints/internal/index"
	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/internal/strictjson"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
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
	fields := map[string]json.RawMessage{}
	_ = json.Unmarshal([]byte(`{"model_type":"vit","hidden_act":"gelu","num_attention_heads":7,"layer_norm_eps":1e-12,
		"image_size":[6,10],"patch_size":2,"hidden_size":14,"num_hidden_layers":11,"intermediate_size":5,
		"num_channels":3}`), &fields)
	for i := 0; i < len(changes); i += 2 {
		if fields[changes[i]] = []byte(changes[i+1]); changes[i+1] == "" {
			delete(fields, changes[i])
		}
	}
	raw, _ := json.Marshal(fields)
	return string(raw)
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

// configOf returns the config.json that a model of a format requires; for Hugging Face it is smallViT's.
func configOf(n naming, c vit.Config) string {
	return map[string]string{formatHF: hfConfig(), formatTimm: timmConfig(c)}[n.format]
}

// smallViT has sizes that differ wherever a swap could be missed, and more than ten blocks.
var smallViT = gomlxtest.Resolved(vit.Config{ImageRows: 6, ImageCols: 10, Channels: 3, PatchSize: 2, Width: 14,
	Depth: 11, Heads: 7, MLPDim: 5, Classes: 13, Position: "learned"})

var (
	hf, hfBase, timm, jax = allNamings[0], allNamings[1], allNamings[2], allNamings[3]
	smallGrid             = gridSize{3, 5}
)

func TestImport_MismatchedTensors(t *testing.T) {
	for _, n := range allNamings {
		weights := made(n, smallViT)
		moved := n.name("norm/gain", 0)
		weights["x."+moved] = weights[moved]
		delete(weights, moved)
		last := n.name(outputPath+"biases", 10)
		weights[last] = randomTensor(rand.New(rand.NewPCG(1, 1)), dtypes.Float32, 15)
		m, err := Import(put(t, n, weights, configOf(n, smallViT)), ImportOptions{Hints: Hints{Grid: smallGrid}})
		e := onlyMismatch(t, err)
		is.Equal(t, n.format, *e, MismatchError{e.Path, []string{moved + " [14]"}, []string{"x." + moved + " [14]"},
			[]string{last + " [15], in the model [14]"}})
		is.Equal(t, n.format, m, nil)
	}
}

// kind is the type of an error that a table of refusals expects.
type kind int

const (
	opens      kind = iota // no error
	inFile                 // a formatError
	mismatched             // a MismatchError
	option                 // an OptionError
	asked                  // another error
)

func kindOf(err error) kind {
	switch {
	case err == nil:
		return opens
	case errors.As(err, new(*formatError)):
		return inFile
	case errors.As(err, new(*MismatchError)):
		return mismatched
	case errors.As(err, new(*OptionError)):
		return option
	}
	return asked
}

// refuses checks the kind of an error, and that it is one line that names a file, a tensor or a field.
func refuses(t *testing.T, name string, err error, want kind, names string) {
	t.Helper()
	if got := kindOf(err); got != want || err != nil && (!strings.Contains(err.Error(), names) ||
		strings.Contains(err.Error(), "\n")) {
		t.Errorf("%s: %v (kind %d), want kind %d that names %q", name, err, got, want, names)
	}
}

// outcome is refuses for an error of any kind that names something, or for none if the name is "".
func outcome(t *testing.T, what string, err error, names string) {
	t.Helper()
	want := opens
	if names != "" {
		want = max(inFile, kindOf(err))
	}
	refuses(t, what, err, want, names)
}

func TestImport_Refusals(t *testing.T) {
	one, square := smallViT, smallViT
	one.Depth, square.Depth, square.ImageCols = 1, 1, square.ImageRows
	hfOf := func(changes ...string) string {
		return hfConfig(append([]string{"num_hidden_layers", "1"}, changes...)...)
	}
	theirs := func(from, to string) string { return strings.Replace(timmConfig(one), from, to, 1) }
	none, four, assumed := ImportOptions{}, ImportOptions{Classes: 4}, ImportOptions{Hints: Hints{AssumeSquare: true}}
	hints := func(grid gridSize) ImportOptions { return ImportOptions{Hints: Hints{Grid: grid}} }
	called := func(architecture string) ImportOptions {
		return ImportOptions{Hints: Hints{Architecture: architecture}}
	}
	without := func(n naming) map[string]*tensors.Tensor {
		return changed(changed(made(n, one), n.name(headPath+"weights", 0)), n.name(headPath+"biases", 0))
	}
	twoTokens := one
	twoTokens.Pool, twoTokens.Registers, twoTokens.RegisterPositions = "class+register", 1, true
	distilled, headless := naming{&timmDistilled, ""}, made(naming{&timmDistilled, ""}, twoTokens)
	maps.DeleteFunc(headless, func(name string, _ *tensors.Tensor) bool { return strings.HasPrefix(name, "head") })
	ofHF, ofTimm, ofJAX := made(hf, one), made(timm, one), made(jax, one)
	integers := maps.Clone(ofHF) // numbers that the model computes with are floats
	integers["classifier.bias"] = tensors.FromValue(make([]int32, 13))
	const patch, google = "embedding/kernel", `{"model_type":"vit-jax","image_size":[6,10]}`
	type refusal struct {
		n       naming
		weights map[string]*tensors.Tensor
		config  string
		options ImportOptions
		want    kind
		names   string
	}
	cases := []refusal{
		{hf, ofHF, hfOf(), none, opens, ""}, {hf, ofHF, "", none, option, "config.json"},
		{hf, ofHF, " ", none, inFile, "JSON"}, {hf, ofHF, "[]", none, inFile, "JSON object"},
		{hf, ofHF, hfOf() + strings.Repeat(" ", maxSmall), none, inFile, "16777216"},
		{hf, changed(ofHF, "vit.embeddings.patch_embeddings.projection.weight"), hfOf(), none, asked,
			"ViTForImageClassification"},
		{hf, changed(ofHF, "classifier.bias", 13, 1), hfOf(), none, mismatched, "classifier.bias [13 1]"},
		{hf, changed(ofHF, "classifier.bias"), hfOf(), none, mismatched, "classifier.bias [13]"},
		{hf, integers, hfOf(), none, inFile, "Int32"}, {hf, changed(ofHF, "classifier.bias"), hfOf(), four, opens, ""},
		{hf, changed(ofHF, "classifier.weight"), hfOf(), none, option, "Classes"},
		{hf, changed(ofHF, "classifier.weight"), hfOf(), four, opens, ""},
		{hf, ofHF, hfOf(), hints(gridSize{5, 3}), asked, "5×3"},
		{hf, ofHF, hfOf("new\noption", "1"), none, inFile, `new\noption`}, {hf, without(hf), hfOf(), none, option, "Classes"},
		{hf, without(hf), hfOf(), four, opens, ""},
		{hf, changed(ofHF, "vit.pooler.dense.weight", 14), hfOf(), none, opens, ""},

		{timm, ofTimm, timmConfig(one), none, opens, ""}, {timm, ofTimm, timmConfig(one), hints(smallGrid), opens, ""},
		{timm, ofTimm, timmConfig(one), hints(gridSize{5, 3}), asked, "5×3"},
		{timm, ofTimm, "", hints(smallGrid), option, "Architecture"},
		{timm, ofTimm, timmConfig(one), called("test_vit"), asked, "test_vit"},
		{timm, ofTimm, "", called("test_vit"), mismatched, "[64]"},
		{timm, ofTimm, "", called("test_vit.r160_in1k"), mismatched, "[64]"},
		{timm, ofTimm, timmConfig(one), called("vit_base_patch16_224.augreg"), opens, ""},
		{timm, ofTimm, `{"architecture":"resnet"}`, none, inFile, "resnet"},
		{timm, ofTimm, `{"architecture":"vit_base_patch16_224"}`, none, mismatched, "[768]"},
		{timm, ofTimm, theirs(`"depth":1`, `"depth":"x"`), none, inFile, "depth"},
		{timm, ofTimm, theirs(`pool":"token`, `pool":"max`), none, inFile, "global_pool"},
		{timm, ofTimm, theirs(`"model_args":{`, `"model_args":{"qk_norms":1,`), none, inFile, "qk_norms"},
		{timm, changed(ofTimm, "pre_logits.fc.weight", 14), timmConfig(one), none, option, "pre_logits.fc"},
		{timm, ofTimm, timmConfig(one), ImportOptions{ImageRows: 7, ImageCols: 10}, asked, "7×10"},
		{timm, ofTimm, timmConfig(one), ImportOptions{ImageRows: 7}, asked, "7×10"},
		{timm, ofTimm, timmConfig(one), ImportOptions{ImageRows: 1 << 40, ImageCols: 2}, asked, "image_rows"},
		{timm, ofTimm, timmConfig(one), ImportOptions{Resample: "x"}, asked, `"x"`},
		{distilled, headless, theirs("vit_base", "deit_base_distilled"), none, option, "Classes"},
		{distilled, headless, theirs("vit_base", "deit_base_distilled"), four, opens, ""},

		{jax, ofJAX, "", hints(smallGrid), opens, ""}, {jax, ofJAX, "", none, option, "Grid"},
		{jax, ofJAX, "", hints(gridSize{4, 4}), inFile, "4×4"}, {jax, ofJAX, "", hints(gridSize{-3, -5}), inFile, "-3×-5"},
		{jax, ofJAX, "", assumed, option, "no square"}, {jax, made(jax, square), "", assumed, opens, ""},
		{jax, made(jax, square), "", none, option, "Grid"}, {jax, ofJAX, google, called("test_vit"), asked, "test_vit"},
		{jax, changed(ofJAX, "head/bias"), google, none, mismatched, "head/bias [13]"}, {jax, ofJAX, google, none, opens, ""},
		{jax, ofJAX, google, hints(gridSize{5, 3}), asked, "5×3"},
		{jax, ofJAX, `{"model_type":"vit","image_size":99}`, hints(smallGrid), opens, ""}, // of another file
		{jax, ofJAX, `{"model_type":"vit-jax","image_size":"x"}`, hints(smallGrid), inFile, "image_size"},
		{jax, ofJAX, `{"model_type":"vit-jax"}`, hints(smallGrid), inFile, "image_size"},
		{jax, changed(ofJAX, patch, 2, 3, 3, 14), "", hints(smallGrid), asked, patch},
		{jax, changed(ofJAX, patch, 0, 0, 3, 14), "", hints(smallGrid), asked, patch},
		{jax, changed(ofJAX, patch, 2, 2, 3), "", hints(smallGrid), asked, patch},
		{jax, changed(ofJAX, "Transformer/encoderblock_0/MultiHeadDotProductAttention_1/query/kernel", 14, 4, 2), "",
			hints(smallGrid), inFile, "4 heads"},
		{jax, changed(ofJAX, "pre_logits/kernel", 14), "", hints(smallGrid), option, "pre_logits/kernel"},
		{jax, changed(ofJAX, "pre_logits/kernel", 14), "", ImportOptions{Classes: 13, Hints: Hints{Grid: smallGrid}}, opens,
			""},
		{jax, without(jax), "", hints(smallGrid), option, "Classes"},
	}
	for _, c := range []struct {
		key, value string
		want       kind
		names      string
	}{
		{"x", `{"a":1,"a":2}`, inFile, `"a"`}, {"new_option", "true", inFile, "new_option"},
		{"model_type", `"bert"`, inFile, "model_type"}, {"model_type", "", inFile, "model_type"},
		{"problem_type", "3", inFile, "problem_type"}, {"problem_type", `"x"`, inFile, "problem_type"},
		{"hidden_act", `"relu"`, inFile, "hidden_act"}, {"hidden_size", "1e400", inFile, "hidden_size"},
		{"hidden_size", "15", inFile, "width 15"}, {"hidden_size", "28", mismatched, "[28 3 2 2]"},
		{"num_attention_heads", "", inFile, "12 heads"}, // transformers' default
		{"num_attention_heads", "4", inFile, "4 heads"}, {"layer_norm_eps", "1e-400", inFile, "layer_norm_eps"},
		{"image_size", "", mismatched, "[1 12545 14]"}, {"image_size", "[10,10]", mismatched, "[1 26 14]"},
		{"image_size", "1", inFile, "image_rows"}, {"num_hidden_layers", "2", mismatched, "layer.1."},
		{"intermediate_size", "6", mismatched, "[6 14]"}, {"num_channels", "1", mismatched, "[14 1 2 2]"},
		{"id2label", `{"0":"a"}`, inFile, "id2label"}, {"id2label", "[1]", inFile, "id2label"},
		{"id2label", labels(13, "13"), inFile, "id2label"},
	} {
		cases = append(cases, refusal{hf, ofHF, hfOf(c.key, c.value), none, c.want, c.names})
	}
	for i, c := range cases {
		file := put(t, c.n, c.weights, c.config)
		m, err := Import(file, c.options)
		refuses(t, fmt.Sprintf("%d, %s %.80s, %+v", i, c.n.format, c.config, c.options), err, c.want, c.names)
		check(t, err != nil || m.Config.Heads == 7 && m.Config.Classes == cmp.Or(c.options.Classes, 13), "%d: %+v", i, m)
		info, failed := Inspect(file, c.options)
		check(t, c.want != inFile || failed != nil || info.Refused != "", "%d: Inspect does not refuse it", i)
		format := (*formatError)(nil)
		check(t, !errors.As(err, &format) || filepath.Dir(format.File) == filepath.Dir(file), "%d: %v names another", i, err)
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

func TestImport_HostileShapesBuildNothing(t *testing.T) {
	patch := timm.name(patchPath+"weights", 0)
	for _, dims := range [][]int{{0, 3, 0, 0}, {14, 3, 2, 1}, {14, 0, 2, 2}, {14, 3, 0, 0}} {
		_, err := Import(put(t, timm, changed(made(timm, smallViT), patch, dims...), timmConfig(smallViT)), ImportOptions{})
		refuses(t, fmt.Sprint(dims), err, mismatched, patch)
	}
	// 2^40 wide without a byte of data; a thousand blocks in a config.json, whose names alone would take 40 MB.
	c := ownViT("wepe")
	deep, wide := exportedFrom(t, stirred(t, c, nil), c, ExportOptions{Format: formatNative}), t.TempDir()
	rewrite(t, filepath.Join(deep, foreignConfig), func(raw []byte) []byte {
		return bytes.Replace(raw, []byte(`"depth": 2`), []byte(`"depth": 1000`), 1)
	})
	putFile(t, filepath.Join(wide, foreignWeights),
		rawFile(`{"`+patch+`":{"dtype":"F32","shape":[1099511627776,0,16,16],"data_offsets":[0,0]}}`, nil))
	putFile(t, filepath.Join(wide, foreignConfig),
		[]byte(strings.Replace(timmConfig(smallViT), `embed_dim":14`, `embed_dim":1099511627776`, 1)))
	for dir, names := range map[string]string{wide: "embed_dim", deep: "depth 1000"} {
		used, err := campaign.Malformed(t, func() error { _, err := Import(dir, ImportOptions{}); return err })
		refuses(t, names, err, inFile, names)
		check(t, used <= 2<<20, "%s: %d bytes allocated", names, used)
	}
}

func TestImport_IndexAndShardsAgree(t *testing.T) {
	weights := made(hf, smallViT)
	names, whole := slices.Sorted(maps.Keys(weights)), put(t, hf, weights, hfConfig())
	dir := filepath.Dir(whole)
	want := imported(t, whole, ImportOptions{})
	gomlxtest.NoError(t, os.Remove(whole))
	for file, shard := range map[string]map[string]*tensors.Tensor{"a": changed(weights, names[0]),
		"b": {names[0]: weights[names[0]]}, "c": {"extra": weights[names[0]]}, "d": {names[3]: weights[names[3]]}} {
		writeWeights(t, filepath.Join(dir, file+".safetensors"), shard)
	}
	index := func(name, file string) string { // of all tensors in a and b, and one elsewhere, or nowhere
		m := map[string]string{}
		for _, name := range names {
			m[name] = "a.safetensors"
		}
		m[names[0]] = "b.safetensors"
		if m[name] = file; file == "nowhere" {
			delete(m, name)
		}
		raw, _ := json.Marshal(map[string]any{"metadata": map[string]int{"total_size": 1}, "weight_map": m})
		return string(raw)
	}
	for text, kind := range map[string]kind{
		index(names[0], "b.safetensors"): opens, index(names[0], "a.safetensors"): inFile,
		index(names[3], "d.safetensors"): inFile, index("y", "c.safetensors"): inFile,
		index("y", "a.safetensors"): inFile, index(names[3], "nowhere"): inFile, index("y", "e.safetensors"): asked,
		index("y", "../a.safetensors"): inFile, index("y", "/a.safetensors"): inFile, index("y", `..\a.safetensors`): inFile,
		index("y", "config.json"): inFile, index("y", ""): inFile, `{"weight_map":{"a":1}}`: inFile, `{}`: inFile,
		`{"weight_map":{}}`: inFile, `{"weight_map":{"a":"a.safetensors","a":"b.safetensors"}}`: inFile, `[]`: inFile,
	} {
		putFile(t, filepath.Join(dir, foreignIndex), []byte(text))
		for _, path := range []string{dir, filepath.Join(dir, foreignIndex)} {
			m, err := Import(path, ImportOptions{})
			if refuses(t, text[max(0, len(text)-80):], err, kind, "safetensors"); err == nil {
				same(t, path, m, want)
			}
		}
	}
}

func TestImport_DamageInUnusedTensors(t *testing.T) {
	weights := made(jax, smallViT)
	file := put(t, jax, weights, "")
	rewrite(t, file, func(raw []byte) []byte {
		raw[bytes.Index(raw, bytesOf(t, weights["head/kernel"]))] ^= 1
		return raw
	})
	_, err := Import(file, ImportOptions{Classes: 5, Hints: Hints{Grid: smallGrid}})
	refuses(t, "a flipped bit", err, inFile, "head/kernel")
}

// A mutated checkpoint gives a one-line error quickly, or a model whose variables all have their shapes; memory is
// bounded by three times the file and 16 MiB. Half of the mutations change weights, half the JSON beside them.
func TestImport_MutatedFiles(t *testing.T) {
	gomlxtest.OnGo(t)
	small, giant, three := changedBy(smallViT, func(c *vit.Config) { c.Depth = 2 }), dinoLike()["dinov2 giant"],
		dinoLike()["dinov3"]
	giant.Pool, giant.ImageCols, giant.MLPDim = "class+mean", giant.ImageRows, 2*giant.Width // transformers' Dinov2
	dirs := []string{filepath.Dir(put(t, hfBase, made(hfBase, small), hfConfig("num_hidden_layers", "2")))}
	add := func(c vit.Config, params map[string]any, o ExportOptions) {
		dirs = append(dirs, exportedFrom(t, stirred(t, c, params), c, o))
	}
	add(ownViT("wepe"), args("wepe_alpha_u", 0.3), ExportOptions{Format: formatNative})
	for _, format := range fileFormats {
		add(small, nil, ExportOptions{Format: format, Preprocess: &normalized})
	}
	add(giant, nil, ExportOptions{})
	add(three, nil, ExportOptions{Headless: true})
	add(three, nil, ExportOptions{Format: formatTimm})
	files := map[string][]byte{}
	var weights, texts []string
	for _, dir := range dirs {
		for _, file := range gomlxtest.Must(filepath.Glob(filepath.Join(dir, "*")))(t) {
			switch filepath.Ext(file) {
			case ".json":
				texts = append(texts, file)
			case ".safetensors", ".npz":
				weights = append(weights, file)
			default:
				continue
			}
			files[file] = readFile(t, file)
		}
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
		name := fmt.Sprintf("mutation %d of %s", i, target)
		check(t, used <= uint64(3*(len(raw)+size)+16<<20), "%s: %d bytes allocated for %d", name, used, len(raw)+size)
		check(t, took <= 20*time.Second, "%s: %v", name, took)
		if err != nil {
			is.Refused(t, name, err)
			is.Equal(t, name, strings.HasPrefix(err.Error(), "checkpoints: "), true)
		} else {
			accepted++
			for _, v := range (naming{&native, ""}).variables(m.Config) {
				x := m.Variables[v.path]
				check(t, x != nil && slices.Equal(x.Shape().Dimensions, v.dims(m.Config)), "%s: %s is %v", name, v.path, x)
			}
		}
		info, failed := Inspect(filepath.Dir(target), ImportOptions{})
		check(t, failed == nil || !strings.Contains(failed.Error(), "\n"), "%s: %v", name, failed)
		refused := failed != nil || info.Refused != ""
		check(t, err != nil || (m.PreprocessError != nil) == (info.PreprocessError != ""),
			"%s: Inspect says of preprocessing %v, Import %v", name, info, m)
		headless := failed == nil && info.Config.Classes == 0
		// A zip has its checksums behind the numbers, which Inspect does not read.
		check(t, refused == (err != nil) || headless || filepath.Ext(target) == ".npz",
			"%s: Inspect refuses it: %t, Import says %v", name, refused, err)
		putFile(t, target, files[target])
	}
	t.Logf("%d tries", tried)
	// Flipped bits of numbers in safetensors, which has no checksum, and changes to ignored text are accepted.
	check(t, accepted != 0 && accepted <= tried/2, "%d of %d mutations were accepted", accepted, tried)
}

// changed is weights with another tensor, or without it for no dimensions.
func changed(weights map[string]*tensors.Tensor, name string, dims ...int) map[string]*tensors.Tensor {
	weights = maps.Clone(weights)
	if delete(weights, name); dims != nil {
		weights[name] = randomTensor(rand.New(rand.NewPCG(1, 1)), dtypes.Float32, dims...)
	}
	return weights
}

func TestImport_LeaksNothing(t *testing.T) {
	dir, store := t.TempDir(), newStore(t, 1)
	save(t, Saver{Dir: dir}, store, 1, nil)
	damaged := beside(t, dir, store, 2, nil)
	rewrite(t, filepath.Join(damaged, variablesName), func(raw []byte) []byte { raw[len(raw)-1] ^= 1; return raw })
	var files []string
	for _, n := range []naming{hf, timm, jax} {
		config := configOf(n, smallViT)
		file, cut := put(t, n, made(n, smallViT), config), put(t, n, made(n, smallViT), config)
		rewrite(t, cut, func(raw []byte) []byte { return raw[:len(raw)-7] })
		files = append(files, file, cut)
	}
	campaign.Leaks(t, 20, func(int) {
		unlock := gomlxtest.Must(Lock(dir))(t)
		c, skipped := newest(t, dir)
		gomlxtest.NoError(t, c.Load(model.NewStore(), nil))
		is.Equal(t, "skipped", len(skipped), 1)
		refused := 0
		for _, file := range files {
			_, err := Import(file, ImportOptions{Hints: Hints{Grid: smallGrid}})
			_, also := Inspect(file, ImportOptions{})
			if err != nil && also != nil {
				refused++
			}
		}
		is.Equal(t, "refused files, those that are cut", refused, 3)
		gomlxtest.NoError(t, unlock())
	})
}

// FuzzJSON: each JSON reader either returns a one-line error, or values in range that are read back unchanged after
// writing.
func FuzzJSON(f *testing.F) {
	manifest := gomlxtest.Must(manifest{Format: formatName, Version: formatVersion, Step: 7, Meta: []byte(`{"a":"<&>"}`),
		Files: []fileRecord{{variablesName, 1, "00"}, {storeName, 2, "ff"}}}.seal())(f)
	const model = `{"image_rows":6,"image_cols":10,"patch_size":2,"width":14,"depth":2,"num_heads":7,"classes":13}`
	seeds := []string{
		string(manifest), string(manifest[:len(manifest)/2]), `{"manifest":null,"sha256":""}`,
		`{"manifest":{},"sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}`,

		`{"params":[{"path":"/a/b","type":"float64","value":"NaN"},{"path":"/c","type":"[]int","value":[1,2]}],
			"frozen":["/x"]}`,
		`{"params":[{"path":"/a","type":"int8","value":300}]}`,
		`{"params":[{"path":"/a","type":"func()","value":1}],"frozen":{}}`,
		`{"params":[{"path":"/a","type":"[]float32","value":["Inf",1e39]}]}`,

		hfConfig(), hfConfig("id2label", labels(12, "12")),
		hfConfig("image_size", "[3,6,10]", "num_attention_heads", "1e3"),
		`{"pretrained_cfg":{"input_size":[3,224,224]},"model_args":{"num_heads":3,"img_size":32}}`,
		`{"a":{"b":[{"c":null}]},"a":1}`, strings.Repeat(`{"a":[`, 40),

		`{"model_type":"wepe","model":` + model + `,"params":[
			{"path":"wepe_alpha_u","type":"float64","value":0.3},{"path":"wepe_mode","type":"string","value":"paper"}],
			"id2label":{"0":"a"}}`,
		`{"model_type":"wepe","model":{"width":1e30}}`, `{"model_type":"wepe","model":{"unknown":1}}`,
		`{"model_type":"wepe","model":` + strings.Replace(model, "14", "99999999", 1) + `}`,
		`{"model_type":"wepe","model":` + model + `,"params":[{"path":"/seed","type":"[]int","value":[1]}]}`,

		`{"metadata":{"total_size":8},"weight_map":{"w":"model-00001-of-00002.safetensors"}}`,
		`{"weight_map":{"w":"../x.safetensors"}}`, `{"weight_map":{"w":"x/y.safetensors","v":"C:x.safetensors"}}`,
		`{"weight_map":{"w":"a\u0000.safetensors"}}`,
	}
	campaign.Fuzz(f, seeds, func(t *testing.T, text string) {
		raw := []byte(text)
		fuzzManifest(t, raw)
		fuzzStore(t, raw)
		fuzzIndex(t, raw)
		if config, err := strictjson.ParseObject(raw); err == nil {
			fuzzConfig(t, config)
			fuzzNative(t, config)
		}
	})
}

// accepted reports whether err is nil; an error must be one line and, for a file, a formatError.
func accepted(t *testing.T, err error, ofFile bool) bool {
	t.Helper()
	var format *formatError
	check(t, err == nil || !strings.Contains(err.Error(), "\n") && (!ofFile || errors.As(err, &format)),
		"%T: %v", err, err)
	return err == nil
}

func fuzzManifest(t *testing.T, raw []byte) {
	m, err := unseal("MANIFEST.json", raw)
	if !accepted(t, err, true) {
		return
	}
	again := gomlxtest.Must(m.seal())(t)
	back, err := unseal("MANIFEST.json", again)
	var meta bytes.Buffer // as encoding/json writes it
	json.HTMLEscape(&meta, m.Meta)
	check(t, err == nil && back.Step == m.Step && bytes.Equal(back.Meta, meta.Bytes()) && len(back.Files) == len(m.Files),
		"%+v became %+v, %v", m, back, err)
}

func fuzzStore(t *testing.T, raw []byte) {
	params, _, err := decodeStore("store.json", raw)
	accepted(t, err, true)
	for path, value := range params {
		p, err := newParam(path, value)
		if err != nil {
			continue // a string that is not UTF-8
		}
		is.Equal(t, path, fmt.Sprint(gomlxtest.Must(decodeParam(p))(t)), fmt.Sprint(value))
	}
}

// Every file that an index names is beside it.
func fuzzIndex(t *testing.T, raw []byte) {
	shards, err := index.Parse(raw)
	accepted(t, err, false)
	for _, name := range shards {
		check(t, filepath.Dir(filepath.Join("d", name)) == "d" && strings.HasSuffix(name, ".safetensors"), "file %q", name)
	}
}

func fuzzConfig(t *testing.T, config strictjson.Object) {
	fields, err := values(config)
	if !accepted(t, err, false) {
		return
	}
	for _, f := range families {
		m, err := f.read(fields, true)
		check(t, !accepted(t, err, false) || sound(m.config), "%s is read as %+v", f.class, m)
	}
	for key, value := range fields {
		size, err := imageSize(value)
		check(t, err != nil || min(size[0], size[1]) >= 1 && max(size[0], size[1]) <= maxPixels,
			"%s: %s is read as %s", key, config[key], size)
	}
	names, _ := labelsIn(config, 13)
	check(t, len(names) == 0 || len(names) == 13, "%d labels", len(names))
}

func sound(c vit.Config) bool {
	_, err := c.Resolve()
	return err == nil
}

// An accepted config describes a model that could be built.
func fuzzNative(t *testing.T, config strictjson.Object) {
	found, err := describeNative(config)
	check(t, !accepted(t, err, false) || sound(found.config) && found.config == gomlxtest.Resolved(found.config),
		"%+v", found.config)
	for name := range found.params {
		check(t, slices.Contains(position.Params(), name), "hyperparameter %q", name)
	}
}
