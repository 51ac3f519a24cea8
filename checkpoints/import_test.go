// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"gonum.org/v1/gonum/floats"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/vit"
)

var (
	sets     = map[string]string{formatHF: "hf_vit", formatTimm: "timm_vit", formatJAX: "jax_vit_npz"} // by format
	dinoSets = []string{"dinov2_tiny", "dinov2_reg_tiny", "dinov3_vit_tiny", "dinov3_vit_tiny_swiglu"}
)

// fixtureMeta is what the tests need of the meta.json of a set.
type fixtureMeta struct {
	Config struct {
		ImgSize  [2]int            `json:"img_size"`
		Patch    int               `json:"patch_size"`
		Width    int               `json:"embed_dim"`
		Depth    int               `json:"depth"`
		Heads    int               `json:"num_heads"`
		MLPRatio float64           `json:"mlp_ratio"`
		Classes  int               `json:"num_classes"`
		Epsilon  float64           `json:"layer_norm_eps"`
		Labels   map[string]string `json:"id2label"`
	}
	Scale     float64 `json:"eps_probe_scale"`
	Tolerance struct {
		Abs  float64
		Grad float64 `json:"grad_abs"`
	}
}

func readMeta(t testing.TB, set string) (m fixtureMeta) {
	t.Helper()
	fixtures.JSON(t, set, "meta.json", &m)
	return m
}

// optionsFor returns the options that the files of a set require, at another size if there is one.
func optionsFor(t testing.TB, set string, size ...int) ImportOptions {
	o := ImportOptions{HeadOptional: true}
	if c := readMeta(t, set).Config; set == sets[formatJAX] {
		o.Grid = [2]int{c.ImgSize[0] / c.Patch, c.ImgSize[1] / c.Patch}
	}
	if len(size) > 0 {
		o.ImageRows, o.ImageCols = size[0], size[1]
	}
	return o
}

// setDir is the directory of a set; timm's weights get a config.json as timm would write it.
func setDir(t testing.TB, set string) string {
	t.Helper()
	dir := fixtures.Dir(t, set)
	if _, err := os.Stat(filepath.Join(dir, foreignConfig)); err == nil || set != sets[formatTimm] {
		return dir
	}
	raw := readFile(t, filepath.Join(dir, foreignWeights))
	dir = t.TempDir()
	putFile(t, filepath.Join(dir, foreignWeights), raw)
	c := readMeta(t, set).Config
	putFile(t, filepath.Join(dir, foreignConfig), []byte(timmConfig(vit.Config{ImageRows: c.ImgSize[0],
		ImageCols: c.ImgSize[1], Channels: 3, PatchSize: c.Patch, Width: c.Width, Depth: c.Depth, Heads: c.Heads,
		MLPDim: int(c.MLPRatio * float64(c.Width)), Classes: c.Classes, Pool: "class"})))
	return dir
}

func imported(t testing.TB, path string, o ImportOptions) *Imported {
	t.Helper()
	return gomlxtest.Must(Import(path, o))(t)
}

// trace runs an imported model on the images and returns nodes of its trace.
func trace(t testing.TB, m *Imported, images fixtures.Tensor, of func(*vit.Trace) []*Node) [][]float64 {
	t.Helper()
	store := model.NewStore()
	gomlxtest.NoError(t, m.Load(store.RootScope().In("vit")))
	got := gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) []*Node {
		return of(m.Config.Trace(s.In("vit"), in[0], false))
	}, gomlxtest.Input(images))
	is.Equal(t, "variables of the model and the import", store.Scope("/vit").NumVariables(), len(m.Variables))
	return got
}

func logits(tr *vit.Trace) []*Node { return []*Node{tr.Logits} }

func TestImport_OneModelInThreeFormats(t *testing.T) {
	want := readMeta(t, sets[formatTimm]).Config
	timm := imported(t, setDir(t, sets[formatTimm]), optionsFor(t, sets[formatTimm]))
	for format, set := range sets {
		file := gomlxtest.Must(weightsIn(setDir(t, set)))(t)
		raw, config, labels := readFile(t, file), readMeta(t, set).Config, []string(nil)
		for i := range len(config.Labels) {
			labels = append(labels, config.Labels[strconv.Itoa(i)])
		}
		c := gomlxtest.Resolved(vit.Config{ImageRows: want.ImgSize[0], ImageCols: want.ImgSize[1], PatchSize: want.Patch,
			Width: want.Width, Depth: want.Depth, Heads: want.Heads, MLPDim: int(want.MLPRatio * float64(want.Width)),
			Classes: want.Classes, Position: "learned", Epsilon: config.Epsilon})
		for _, path := range []string{file, filepath.Dir(file)} {
			m := imported(t, path, optionsFor(t, set))
			same(t, path, m, timm)
			is.Equal(t, path, m.SHA256, fmt.Sprintf("%x", sha256.Sum256(raw)))
			is.Equal(t, path, m.Config, c)
			is.Equal(t, path, m.Labels, labels)
			o := optionsFor(t, set)
			o.Classes = want.Classes + 3
			m = imported(t, path, o)
			check(t, m.Config.Classes == o.Classes && m.Headless() && m.Labels == nil, "%s: %+v, %q", path, m.Config, m.Labels)
		}
		info, numbers := inspected(t, filepath.Dir(file)), map[string]int{"float32": c.Parameters()}
		if format == formatJAX { // whose files lack the grid
			is.Said(t, "Inspect", info.Refused, "grid of its")
			c.ImageRows, c.ImageCols, c.Epsilon, c.Init, c.DType = 0, 0, 0, "", "" // not resolved
		}
		check(t, info.Format == format && info.Config == c && maps.Equal(info.numbers, numbers) &&
			slices.Equal(info.Labels, labels) && (info.Refused != "") == (format == formatJAX),
			"%s: %+v, numbers %v, want %+v, %v", set, info, info.numbers, c, numbers)
	}
}

// check fails the test with a message unless something holds.
func check(t testing.TB, holds bool, format string, of ...any) {
	t.Helper()
	if !holds {
		t.Errorf(format, of...)
	}
}

// told requires whether the lines of a report, each between newlines, have a text.
func told(t *testing.T, what string, report []string, text string, want bool) {
	t.Helper()
	if lines := "\n" + strings.Join(report, "\n") + "\n"; strings.Contains(lines, text) != want {
		t.Errorf("%s: the report has %q: %v, want %v: %s", what, text, !want, want, lines)
	}
}

// same compares two imports bit for bit.
func same(t testing.TB, name string, got, want *Imported) {
	t.Helper()
	check(t, len(got.Variables) == len(want.Variables) && len(want.Variables) != 0,
		"%s: %d variables, want %d", name, len(got.Variables), len(want.Variables))
	for path, w := range want.Variables {
		g := got.Variables[path]
		check(t, g != nil && g.Shape().Equal(w.Shape()) && bytes.Equal(bytesOf(t, g), bytesOf(t, w)),
			"%s: variable %q differs", name, path)
	}
}

// The logits of each software, and of the fixtures' probe: embeddings so small that the ε of the norms dominates them.
func TestImport_EqualsItsSoftware(t *testing.T) { fixtures.Each(t, testImportEqualsItsSoftware) }

func testImportEqualsItsSoftware(t *testing.T) {
	for format, set := range sets {
		m, want := imported(t, setDir(t, set), optionsFor(t, set)), fixtures.Tensors(t, set, "tensors.safetensors")
		name := map[string]string{formatJAX: "logits_exact_gelu"}[format]
		got := trace(t, m, want["images_nhwc"], logits)
		gomlxtest.NearAbs(t, set, got[0], want[cmp.Or(name, "logits")].Data, readMeta(t, set).Tolerance.Abs)
		if format == formatJAX {
			continue
		}
		for _, path := range []string{classPath, positionPath, patchPath + "weights", patchPath + "biases"} {
			tensors.MustMutableFlatData(m.Variables[path], func(flat []float32) {
				for i := range flat {
					flat[i] *= float32(readMeta(t, set).Scale)
				}
			})
		}
		got = trace(t, m, want["images_nhwc"], logits)
		gomlxtest.NearAbs(t, set+" probe", got[0], want["eps_probe.logits"].Data, 5e-5)
	}
}

func writeWeights(t testing.TB, file string, weights map[string]*tensors.Tensor) {
	t.Helper()
	putFile(t, file, gomlxtest.Must(written(weights))(t))
}

func readFile(t testing.TB, file string) []byte {
	t.Helper()
	return gomlxtest.Must(os.ReadFile(file))(t)
}

func putFile(t testing.TB, file string, raw []byte) {
	t.Helper()
	// ext4 flushes a truncated and rewritten file, which takes milliseconds, but not a new one.
	gomlxtest.NoError(t, errors.Join(os.RemoveAll(file), os.WriteFile(file, raw, 0o644)))
}

// rewrite replaces the content of a file by the result of change.
func rewrite(t testing.TB, path string, change func([]byte) []byte) {
	t.Helper()
	putFile(t, path, change(readFile(t, path)))
}

func TestImport_OtherSizes(t *testing.T) { fixtures.Each(t, testImportOtherSizes) }

// The original's offset of 0.1 differs from Hugging Face's resampling of the same table.
func testImportOtherSizes(t *testing.T) {
	type resized struct{ set, kind, images, table, logits string }
	const images, other, rect = "images_nonsquare_nhwc", "nonsquare.", "rect.images_nhwc"
	cases := []resized{
		{sets[formatTimm], "", images, other + "pos_embed_bicubic_aa", other + "logits_bicubic_aa"},
		{sets[formatTimm], resampleHF, images, other + "pos_embed_bicubic", other + "logits_bicubic"},
		{sets[formatTimm], resampleBilinear, images, other + "pos_embed_bilinear", other + "logits_bilinear"},
		{sets[formatHF], "", images, other + "pos_embed_bicubic", other + "logits"},
		{sets[formatJAX], resampleBilinear, images, other + "pos_embed_bilinear", other + "logits_exact_gelu"},
		{dinoSets[0], "", rect, "rect.position_embeddings_out", "rect.logits"},
		{dinoSets[0], resampleDINOv2, rect, "rect.position_embeddings_offset_out", ""},
		{dinoSets[1], "", rect, "rect.position_embeddings_out", "rect.logits"},
	}
	listed := len(cases)
	for key := range fixtures.Tensors(t, sets[formatJAX], "tensors.safetensors") {
		if strings.HasPrefix(key, "google_zoom.pos_embed_") {
			cases = append(cases, resized{sets[formatJAX], "", "", key, ""})
		}
	}
	check(t, len(cases) != listed, "the fixture has no case of Google's")
	for _, c := range cases {
		name, want := fmt.Sprint(c), fixtures.Tensors(t, c.set, "tensors.safetensors")
		from, size := imported(t, setDir(t, c.set), optionsFor(t, c.set)).Config, []int{0, 0}
		if c.images != "" {
			size = want[c.images].Shape[1:3]
		} else if n, _ := fmt.Sscanf(c.table, "google_zoom.pos_embed_%dx%d", &size[0], &size[1]); n == 2 {
			size[0], size[1] = size[0]*from.PatchSize, size[1]*from.PatchSize
		}
		o := optionsFor(t, c.set, size...)
		o.Resample = c.kind
		m := imported(t, setDir(t, c.set), o)
		table := tensors.MustCopyFlatData[float32](m.Variables[positionPath])
		gomlxtest.NearAbs(t, name+" table", table, want[c.table].Data, 1e-5)
		if c.logits != "" {
			gomlxtest.NearAbs(t, name+" logits", trace(t, m, want[c.images], logits)[0], want[c.logits].Data, 5e-5)
		}
		line := fmt.Sprintf("positions: %d×%d -> %d×%d (%s)", from.Rows(), from.Cols(), m.Config.Rows(), m.Config.Cols(),
			cmp.Or(c.kind, map[string]string{dinoSets[1]: resampleTimm}[c.set], m.Format))
		told(t, name, m.Report, "\n"+line+"\n", true)
	}
}

// onlyMismatch returns the error as a *MismatchError.
func onlyMismatch(t testing.TB, err error) *MismatchError {
	t.Helper()
	var mismatch *MismatchError
	if !errors.As(err, &mismatch) {
		t.Fatalf("%v, want a MismatchError", err)
	}
	return mismatch
}

func inspected(t testing.TB, path string) *Info {
	t.Helper()
	return gomlxtest.Must(Inspect(path, ImportOptions{}))(t)
}

func TestInspect_Checkpoint(t *testing.T) {
	c := ownViT("wepe")
	run, store, _ := trainedOn(t, c, nil)
	dir, own := filepath.Join(run, BestDir), map[string]int{}
	for v := range store.IterVariables() {
		if _, ok := below(v, "/vit"); ok { // without the moments of AdamW
			own[strings.ToLower(v.DType().String())] += v.Shape().Size()
		}
	}
	damaged := beside(t, dir, newStore(t, 3), 43, nil)
	putFile(t, filepath.Join(damaged, storeName), []byte("{}"))
	info := inspected(t, dir)
	check(t, len(info.Notes) == 1 && len(info.Tensors) == store.NumVariables(),
		"%q, %d tensors", info.Notes, len(info.Tensors))
	told(t, "Inspect", info.Notes, damaged, true)
	told(t, "Import", imported(t, dir, ImportOptions{}).Report, damaged, true)
	is.Equal(t, dir, *info, Info{Path: filepath.Join(dir, "step-00000005"), Format: formatCheckpoint, Step: 5, Config: c,
		Params: args("wepe_alpha_u", 0.25), Labels: strings.Fields("a b c d e f g"), numbers: own,
		Tensors: info.Tensors, Notes: info.Notes, PreprocessError: info.PreprocessError})
	for v := range store.IterVariables() {
		at := slices.IndexFunc(info.Tensors, func(t tensorInfo) bool { return t.Name == v.Path() })
		check(t, at >= 0 && slices.Equal(info.Tensors[at].Shape, append([]int{}, v.Shape().Dimensions...)),
			"%s is not among the tensors with its shape", v.Path())
	}
	refuses(t, "a damaged checkpoint", is.ErrorOf(Inspect(damaged, ImportOptions{})), inFile, "")
	info = inspected(t, save(t, Saver{Dir: t.TempDir()}, newStore(t, 4), 44, 3))
	check(t, info.Refused != "", "no model: %+v", info)
}

// ONNX files are recognized by their first byte; names of a file cannot command the terminal.
func TestInspect_ExportsAndUnknownFiles(t *testing.T) {
	c := ownViT("wepe")
	dir := exportedFrom(t, stirred(t, c, map[string]any{"wepe_alpha_u": 0.25}), c, ExportOptions{Format: formatNative,
		DType: "float16"})
	info := inspected(t, dir)
	check(t, info.Format == formatNative && info.Config == c && info.Params["wepe_alpha_u"] == 0.25, "%+v", info)
	check(t, info.numbers["float16"] > 0 && info.numbers["float32"] > 0, "the encoding's types: %v", info.numbers)
	putFile(t, filepath.Join(dir, "model.onnx"), []byte{8, 9}) // IR version 9
	info = inspected(t, filepath.Join(dir, "model.onnx"))
	check(t, info.Format == formatONNX && len(info.Tensors) == 0, "%+v", info)
	is.Equal(t, "weights before a graph", inspected(t, dir).Format, formatNative)
	alone := filepath.Join(t.TempDir(), "model.onnx")
	putFile(t, alone, []byte{8, 9})
	for _, path := range []string{alone, filepath.Dir(alone)} {
		outcome(t, "a graph alone", is.ErrorOf(Import(path, ImportOptions{})), alone)
	}
	for name, raw := range map[string][]byte{"empty.onnx": nil, "other.onnx": []byte("9")} {
		putFile(t, filepath.Join(dir, name), raw)
		refuses(t, name, is.ErrorOf(Inspect(filepath.Join(dir, name), ImportOptions{})), inFile, name)
	}
	file := filepath.Join(t.TempDir(), "x.safetensors")
	writeWeights(t, file, map[string]*tensors.Tensor{
		"b\x1b[31m": tensors.FromValue([]int64{1, 2}), "a": tensors.FromValue(true),
	})
	info = inspected(t, file)
	check(t, info.Format == "" && info.Config == (vit.Config{}) && info.Refused != "" && len(info.Tensors) == 2 &&
		info.Tensors[1].DType == "int64" && info.Tensors[0].Name == "a", "%+v", info)
	check(t, !strings.Contains(info.String(), "\x1b"), "a name commands the terminal")
}

// kindsOfTorch are our kinds, by the names of torch's results.
var kindsOfTorch = map[string]string{
	"bicubic_aa": resampleTimm, "bicubic": resampleHF, "bilinear": resampleBilinear,
}

func TestResample_EqualsTorch(t *testing.T) { fixtures.Each(t, testResampleEqualsTorch) }

func testResampleEqualsTorch(t *testing.T) {
	all := fixtures.Tensors(t, "timm_vit", "tensors.safetensors")
	name := regexp.MustCompile(`^resample\.(\d+x\d+)_to_\d+x\d+\.(\w+)$`)
	seen := map[string]int{}
	for key, want := range all {
		parts := name.FindStringSubmatch(key)
		if parts == nil || kindsOfTorch[parts[2]] == "" {
			continue
		}
		kind, in := kindsOfTorch[parts[2]], all["resample.input_"+parts[1]]
		seen[kind]++
		from, to := gridSize{in.Shape[0], in.Shape[1]}, gridSize{want.Shape[0], want.Shape[1]}
		got, report, err := Resample(in.Float32(), in.Shape[2], 0, from, to, kind)
		gomlxtest.NoError(t, err)
		is.Equal(t, key, report, fmt.Sprintf("%d×%d -> %d×%d (%s)", from[0], from[1], to[0], to[1], kind))
		gomlxtest.NearAbs(t, key, got, want.Data, 1e-5)
	}
	for _, kind := range kindsOfTorch {
		check(t, seen[kind] >= 2, "the fixture holds %d cases of %s", seen[kind], kind)
	}
}

func TestResample_WeightsSumToOne(t *testing.T) {
	for kind, axis := range resamplers {
		for n := 1; n < 12; n++ {
			for m := 1; m < 30; m++ {
				for i, taps := range axis(n, m) {
					sum, last := floats.Sum(taps.Weights), taps.First+len(taps.Weights)
					if taps.First < 0 || last > n || !(math.Abs(sum-1) <= 1e-12) {
						t.Fatalf("%s %d -> %d: the weights of place %d, at %d to %d, sum to %g", kind, n, m, i, taps.First, last, sum)
					}
				}
			}
		}
	}
}

// The class token is unchanged; an equal grid is a copy, but a grid with as many patches in other rows is not.
func TestResample_CopiesAnEqualGridAndPrefixRows(t *testing.T) {
	const width, patches = 7, 16
	bits := func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }
	for kind := range resamplers {
		for _, prefix := range []int{0, 1, 2} {
			in := make([]float32, (prefix+patches)*width)
			for i := range in {
				in[i] = float32(i * i)
			}
			in[0], in[1] = float32(math.NaN()), float32(math.Copysign(0, -1))
			for to, same := range map[gridSize]int{{2, 8}: len(in), {4, 4}: prefix * width} {
				got, _, err := Resample(in, width, prefix, gridSize{2, 8}, to, kind)
				check(t, err == nil && len(got) == len(in) && &got[0] != &in[0] && slices.EqualFunc(got[:same], in[:same], bits) &&
					(same == len(in) || !slices.EqualFunc(got[same:], in[same:], bits)),
					"%s, prefix %d to %v: %v, %v", kind, prefix, to, got, err)
			}
		}
	}
}

func TestResample_Bounds(t *testing.T) {
	from := gridSize{2, 3}
	for _, c := range []struct {
		numbers, width, prefix int
		to                     gridSize
		kind                   string
		ok                     bool
	}{
		{6, 1, 0, from, resampleHF, true}, {6, 1, 0, gridSize{1 << 14, 1}, resampleTimm, true},
		{6, 1, 0, gridSize{1, 1 << 14}, resampleTimm, true}, {6, 1, 0, gridSize{1 << 10, 1 << 10}, resampleTimm, true},
		{6, 1, 0, from, "nearest", false}, {6, 1, 0, gridSize{0, 3}, resampleHF, false},
		{6, 0, 0, from, resampleHF, false}, {5, 1, -1, from, resampleHF, false}, {7, 1, 0, from, resampleHF, false},
		{6, 1, 1, from, resampleHF, false}, {6, 1, 0, gridSize{1 << 10, 1<<10 + 1}, resampleHF, false},
		{6, 1, 0, gridSize{1<<14 + 1, 1}, resampleHF, false}, {6, 1, 0, gridSize{1, 1<<14 + 1}, resampleHF, false},
	} {
		_, _, err := Resample(make([]float32, c.numbers), c.width, c.prefix, from, c.to, c.kind)
		is.Equal(t, fmt.Sprint(c, err), err == nil, c.ok)
	}
}

// A graph would draw missing variables at random.
func TestLogits_NeedEveryVariableAndImagesOfTheModel(t *testing.T) {
	c := ownViT("learned")
	store, b := stirred(t, c, nil), gomlxtest.Backend()
	larger := c
	larger.ImageRows = 8
	gomlxtest.NoError(t, is.ErrorOf(forward(b, store, "/vit", c, Noise(c, 2, 5))))
	check(t, is.ErrorOf(forward(b, store, "/vit", c, Noise(larger, 2, 5))) != nil, "images of another size")
	gomlxtest.NoError(t, store.DeleteVariable("/vit/norm/gain"))
	check(t, is.ErrorOf(forward(b, store, "/vit", c, Noise(c, 2, 5))) != nil, "a model that lacks a variable")
	empty := &Imported{Config: c, Variables: map[string]*tensors.Tensor{}}
	outcome(t, "an import without its table", is.ErrorOf(empty.Logits(b, Noise(c, 2, 5))), positionPath)
}

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
		if c.names != "" {
			outcome(t, fmt.Sprint(i), m.PreprocessError, c.names)
		}
		is.Equal(t, i, [][]float64{m.Mean, m.Std}, [][]float64{c.mean, c.std})
		check(t, c.model.Channels != 1 || m.Preprocess == nil && m.PreprocessError == nil,
			"%d: %+v, %v", i, m.Preprocess, m.PreprocessError)
	}
}

func TestImport_PreprocessingOrTheReason(t *testing.T) {
	file := put(t, hf, made(hf, smallViT), hfConfig())
	const size = `{"size":{"height":6,"width":10},`
	const numbers = `"image_mean":[0.1,0.2,0.3],"image_std":[0.4,0.5,0.6],"resample":2}`
	for text, taken := range map[string]bool{
		size + numbers: true, size + `"do_pad":true,` + numbers: false, `{"size":{"shortest_edge":6},` + numbers: false,
		size + `"resample":2}`: true, size + `"resample":2,"image_processor_type":"ViTImageProcessor"}`: true, // vit's
		size + `"image_processor_type":"LevitImageProcessor",` + numbers: false,
	} {
		putFile(t, filepath.Join(filepath.Dir(file), foreignPreprocessor), []byte(text))
		m := imported(t, file, ImportOptions{})
		gomlxtest.Must(m.Resize(6, 10, ""))(t)
		said := strings.Count(strings.Join(m.Report, "\n"), "preprocessing: ")
		check(t, (m.Preprocess != nil) == taken && (m.PreprocessError == nil) == taken && said == when(!taken, 1) &&
			(!taken || m.Preprocess.Size == [2]int{6, 10}) && (inspected(t, file).PreprocessError == "") == taken,
			"%s: %+v, %v, %q", text, m.Preprocess, m.PreprocessError, m.Report)
	}
}

// transformers' image-classification pipeline: a sigmoid of several labels and of a single one, the logits of a
// regression, also of its wrapper of timm's models. Our own format has the same entry; timm and Google have none, so
// that their exports must say what is lost, and of timm's a single number is as it is.
func TestScores_AreThoseOfTransformersPipeline(t *testing.T) {
	one := changedBy(smallViT, func(c *vit.Config) { c.Classes = 1 })
	of := func(problem string) string { return hfConfig("problem_type", problem) }
	wrapped := func(c vit.Config) string {
		return strings.Replace(timmConfig(c), `{`, `{"model_type":"timm_wrapper","problem_type":null,`, 1)
	}
	for _, c := range []struct {
		n       naming
		model   vit.Config
		config  string
		classes int
		want    string
	}{
		{hf, smallViT, hfConfig(), 0, softmax}, {hf, smallViT, of("null"), 0, softmax},
		{hf, smallViT, of(`"single_label_classification"`), 0, softmax}, {hf, one, hfConfig(), 0, sigmoid},
		{hf, smallViT, of(`"multi_label_classification"`), 0, sigmoid}, {timm, one, timmConfig(one), 0, noActivation},
		{timm, one, wrapped(one), 0, sigmoid},
		{hf, smallViT, of(`"multi_label_classification"`), 3, softmax}, {hf, smallViT, of(`"regression"`), 0, noActivation},
		// A ViT that was an MAE, as transformers saves it.
		{hf, smallViT, hfConfig("mask_ratio", "0.75", "decoder_hidden_size", "512", "any", "null"), 0, softmax},
	} {
		m := imported(t, put(t, c.n, made(c.n, c.model), c.config), ImportOptions{Classes: c.classes})
		is.Equal(t, c.config, m.Activation, c.want)
		if m.Config.Epsilon = 1e-6; m.Headless() || c.model.Classes == 1 { // epsilon as timm's and Google's
			continue
		}
		for _, format := range fileFormats {
			dir := filepath.Join(t.TempDir(), format)
			report := gomlxtest.Must(Export(dir, nil, loaded(t, m), m.Config, ExportOptions{Format: format,
				Activation: m.Activation}))(t)
			lost := format == formatTimm || format == formatJAX
			told(t, c.config+" as "+format, report, "scores: ", lost && c.want != softmax)
			again := imported(t, dir, ImportOptions{}).Activation
			check(t, again == c.want || lost, "%s as %s: opened with %s", c.config, format, again)
		}
	}
}

// timm writes label_names as a list, or as an object if the numbers of the classes have gaps; old files have labels.
// Names of another number of classes belong to another head.
func TestLabels_OfTheHead(t *testing.T) {
	list := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat(`"x",`, n), ",") + "]" }
	byID := func(n int) string { return labels(n-1, fmt.Sprint(n-1)) }
	for fields, want := range map[string]int{ // -1: refused
		`"label_names":` + list(13): 13, `"label_names":null`: 0, `"label_names":` + byID(12): 13, `"label_names":[]`: 0,
		`"label_names":` + list(12): -1, `"labels":` + list(13): 13, `"labels":` + list(12): 0, ``: 0,
		`"pretrained_cfg":{"label_names":` + list(13) + `}`: 13, `"pretrained_cfg":{"label_names":` + list(12) + `}`: 0,
		`"pretrained_cfg":{"label_names":` + byID(12) + `}`: 13, `"pretrained_cfg":{"label_names":` + byID(14) + `}`: 0,
		`"id2label":` + byID(13): 13, `"id2label":` + byID(12): -1, `"id2label":` + byID(14): -1,
		`"id2label":{"0":60,"1":41,"2":2,"3":3,"4":4,"5":5,"6":6,"7":7,"8":8,"9":9,"10":1,"11":0,"12":12}`: 13,
		`"id2label":` + labels(12, "13"): 0, `"id2label":{"1":"a","2":"b","3":"c"}`: -1,
	} {
		got, err := labelsIn(object(t, "{"+fields+"}"), 13)
		check(t, (err == nil) == (want >= 0) && (err != nil || len(got) == want),
			"%.40s: %d labels, %v, want %d", fields, len(got), err, want)
	}
	// The names that torchvision 0.29's weights have for these classes; timm's for models of 1000 classes.
	names := slices.Clone(knownLabels(formatTimm, 1000))
	for class, want := range map[int]string{0: "tench", 134: "crane bird", 285: "Egyptian cat", 517: "crane",
		967: "espresso", 999: "toilet tissue"} {
		check(t, len(names) == 1000 && names[class] == want, "%d is %q, want %q", class, names[class], want)
	}
	slices.Sort(names)
	is.Equal(t, "names, and those of other classes", []int{len(slices.Compact(names)),
		len(knownLabels(formatTimm, 21843)), len(knownLabels(formatHF, 1000))}, []int{1000, 0, 0})
}

// timm's towers of CLIP have the projection into the space of texts as their head, and exact GELU also where OpenAI's
// weights were trained with quick GELU, which another architecture has (timm/models/vision_transformer.py).
func TestImport_TowersOfCLIP(t *testing.T) {
	c := changedBy(smallViT, func(c *vit.Config) { c.Classes, c.PreNorm = 512, true })
	file := func(tag string, more string) string {
		config := strings.Replace(timmConfig(c), "_224", "_clip_224", 1)
		return put(t, timm, made(timm, c), fmt.Sprintf(`%s,"pretrained_cfg":{"tag":%q}%s}`, strings.TrimSuffix(config, "}"),
			tag, more))
	}
	quick := ImportOptions{Hints: Hints{Architecture: "vit_base_patch16_clip_quickgelu_224"}}
	for tag, want := range map[string]string{"openai": noActivation, "laion2b": noActivation, "openai_ft_in1k": softmax} {
		path := file(tag, "")
		m := imported(t, path, ImportOptions{})
		is.Equal(t, tag, []string{m.Activation, m.Config.Activation}, []string{want, ""})
		told(t, tag, m.Report, "head: ", want == noActivation)
		told(t, tag, m.Report, "activation: ", tag == "openai")
		is.Equal(t, tag, imported(t, path, quick).Config.Activation, "quick_gelu")
	}
	names := strings.TrimSuffix(strings.Repeat(`"x",`, 512), ",")
	is.Equal(t, "named", imported(t, file("openai", `,"label_names":[`+names+`]`), ImportOptions{}).Activation, softmax)
}

// Weights of timm without a config.json have the sizes of the architecture, and their grid from the options.
func TestImport_GridOfTheOptions(t *testing.T) {
	c := gomlxtest.Resolved(vit.Config{ImageRows: 48, ImageCols: 80, PatchSize: 16, Width: 64, Depth: 6, Heads: 2,
		MLPDim: 192, Classes: 3, Position: "learned"}) // timm's test_vit
	hints := Hints{Architecture: "test_vit", Grid: gridSize{3, 5}}
	is.Equal(t, "test_vit", imported(t, put(t, timm, made(timm, c), ""), ImportOptions{Hints: hints}).Config, c)
}

// timm 1.0.31 maps older names (register_model_deprecations), and resamples FlexiViT and RADIO in other ways
// (_create_vision_transformer).
func TestImport_NamesOfTimm(t *testing.T) {
	for name, kind := range map[string]string{"vit_base_patch16_224_in21k": resampleTimm,
		"flexivit_base": resampleBilinear, "vit_base_patch16_radio_v3": resampleJAX} {
		all, current, err := new(weights).candidates(object(t, fmt.Sprintf(`{"architecture":%q}`, name)), ImportOptions{})
		gomlxtest.NoError(t, err)
		is.Equal(t, name, timmResample(current, all[0]), kind)
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
		told(t, format, report, "preprocessing: ", want != rectangle)
		is.Equal(t, format, m.Preprocess, &want)
		is.Equal(t, format, [][]float64{m.Mean, m.Std}, [][]float64{rectangle.Mean[:], rectangle.Std[:]})
		is.Equal(t, format, m.Usual, [2]int{8, 16})
		m = imported(t, exportedFrom(t, store, c, ExportOptions{Format: format, Preprocess: &keep}), ImportOptions{})
		p := m.Preprocess
		check(t, p != nil && p.Resize == preprocess.ResizeExact && p.Size == exact.Size, "%s: opened with %+v", format, p)
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
		is.Equal(t, i, declared, test.s)
		check(t, (line == "") == (test.names == "") && strings.Contains(line, test.names),
			"%d, %s: %q, want %q", i, test.format, line, test.names)
	}
	// Images of a shortest side without a crop differ in size, in any format; timm has no crop alone.
	short := preprocess.Settings{Resize: preprocess.ResizeShortest, Size: [2]int{7, 7}, Resample: preprocess.Bicubic}
	for _, format := range append([]string{formatONNX}, fileFormats...) {
		declared, line := declarable(format, short, 6, 10)
		is.Equal(t, format, declared, preprocess.Settings{Resize: preprocess.ResizeExact, Size: [2]int{6, 10},
			Resample: preprocess.Bicubic})
		check(t, line != "", "%s says nothing", format)
	}
	s, line := declarable(formatTimm, preprocess.Settings{Crop: [2]int{6, 10}}, 6, 10)
	check(t, s.Resize == preprocess.ResizeExact && line != "", "a crop alone in timm: %+v, %q", s, line)
}

// The size of a model's images is its own where the files do not resize them; as in transformers and timm, a patch
// embedding sees whole patches of the images: the first of their pixels.
func TestImport_UsualSize(t *testing.T) {
	file := put(t, hf, made(hf, smallViT), hfConfig())
	of := func(height, width string) string {
		return `{"size":{"height":` + height + `,"width":` + width +
			`},"image_mean":[0,0,0],"image_std":[1,1,1],"resample":2}`
	}
	for text, want := range map[string][2]int{"": {6, 10}, of("8", "4"): {8, 4}, of("9", "5"): {8, 4},
		of("8", "5"): {8, 4}, of("1", "4"): {6, 10}, of("6", "8"): {6, 8}, of("8", "10"): {8, 10}} {
		path := filepath.Join(filepath.Dir(file), foreignPreprocessor)
		gomlxtest.NoError(t, os.RemoveAll(path))
		if text != "" {
			putFile(t, path, []byte(text))
		}
		m := imported(t, file, ImportOptions{UsualSize: true})
		is.Equal(t, text, [2]int{m.Config.ImageRows, m.Config.ImageCols}, want)
		own := imported(t, file, ImportOptions{})
		is.Equal(t, text+" without the option", [2]int{own.Config.ImageRows, own.Config.ImageCols}, [2]int{6, 10})
		if text == of("9", "5") { // patches of 2
			p, q := m.Preprocess, own.Preprocess
			is.Equal(t, text, [][2]int{p.Size, p.Trim, m.Usual, q.Size, q.Trim}, [][2]int{{9, 5}, {8, 4}, {8, 4}, {6, 10}, {}})
		}
	}
	trimmed := preprocess.Settings{Resize: preprocess.ResizeExact, Size: [2]int{9, 5}, Trim: [2]int{8, 4}}
	s, line := declarable(formatTimm, trimmed, 8, 4)
	check(t, s.Size == [2]int{8, 4} && s.Trim == [2]int{} && line != "", "timm declares %+v, %q", s, line)
}
