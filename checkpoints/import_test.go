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
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"gonum.org/v1/gonum/floats"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
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
	if n := store.Scope("/vit").NumVariables(); n != len(m.Variables) {
		t.Errorf("the model has %d variables, the import %d", n, len(m.Variables))
	}
	return got
}

func logits(tr *vit.Trace) []*Node { return []*Node{tr.Logits} }

func TestImport_OneModelInThreeFormats(t *testing.T) {
	want := readMeta(t, sets[formatTimm]).Config
	timm := imported(t, setDir(t, sets[formatTimm]), optionsFor(t, sets[formatTimm]))
	for _, set := range sets {
		file := gomlxtest.Must(weightsIn(setDir(t, set)))(t)
		raw := readFile(t, file)
		for _, path := range []string{file, filepath.Dir(file)} {
			m := imported(t, path, optionsFor(t, set))
			same(t, path, m, timm)
			if sum := fmt.Sprintf("%x", sha256.Sum256(raw)); m.SHA256 != sum {
				t.Errorf("%s: SHA-256 %s, want %s", path, m.SHA256, sum)
			}
			config := readMeta(t, set).Config
			wanted := gomlxtest.Resolved(vit.Config{
				ImageRows: want.ImgSize[0], ImageCols: want.ImgSize[1], PatchSize: want.Patch, Width: want.Width,
				Depth: want.Depth, Heads: want.Heads, MLPDim: int(want.MLPRatio * float64(want.Width)),
				Classes: want.Classes, Position: "learned", Epsilon: config.Epsilon,
			})
			var labels []string
			for i := range len(config.Labels) {
				labels = append(labels, config.Labels[strconv.Itoa(i)])
			}
			if m.Config != wanted || !slices.Equal(m.Labels, labels) {
				t.Errorf("%s: %+v of %q, want %+v of %q", path, m.Config, m.Labels, wanted, labels)
			}
			o := optionsFor(t, set)
			o.Classes = want.Classes + 3
			if m := imported(t, path, o); m.Config.Classes != o.Classes || !m.Headless() || m.Labels != nil {
				t.Errorf("%s: %d classes, labels %q, report %q", path, m.Config.Classes, m.Labels, m.Report)
			}
		}
	}
}

// same compares two imports bit for bit.
func same(t testing.TB, name string, got, want *Imported) {
	t.Helper()
	if len(got.Variables) != len(want.Variables) || len(want.Variables) == 0 {
		t.Errorf("%s: %d variables, want %d", name, len(got.Variables), len(want.Variables))
	}
	for path, w := range want.Variables {
		g := got.Variables[path]
		if g == nil || !g.Shape().Equal(w.Shape()) || !bytes.Equal(bytesOf(t, g), bytesOf(t, w)) {
			t.Errorf("%s: variable %q differs", name, path)
		}
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
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	gomlxtest.NoError(t, os.WriteFile(file, raw, 0o644))
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
	if len(cases) == listed {
		t.Error("the fixture has no case of Google's")
	}
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
		if !slices.Contains(m.Report, line) {
			t.Errorf("%s: report %q lacks %q", name, m.Report, line)
		}
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

func TestInspect_Fixtures(t *testing.T) { fixtures.Each(t, testInspectFixtures) }

func testInspectFixtures(t *testing.T) {
	for format, set := range sets {
		c := imported(t, setDir(t, set), optionsFor(t, set)).Config
		info := inspected(t, setDir(t, set))
		ok := info.Config == c && info.Refused == "" && (format != formatHF || len(info.Labels) == c.Classes)
		if format == formatJAX { // whose files lack the grid
			sizes := []int{info.Config.Width, info.Config.Depth, info.Config.Heads, info.Config.Classes, info.Config.ImageRows}
			ok = slices.Equal(sizes, []int{c.Width, c.Depth, c.Heads, c.Classes, 0}) &&
				strings.Contains(info.Refused, "grid of its")
		}
		if !ok || info.Format != format || !maps.Equal(info.numbers, map[string]int{"float32": c.Parameters()}) {
			t.Errorf("%s: %+v, numbers %v, want %+v", format, info, info.numbers, c)
		}
	}
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
	if info.Path != filepath.Join(dir, "step-00000005") || info.Format != formatCheckpoint || info.Step != 5 ||
		info.Config != c ||
		!reflect.DeepEqual(info.Params, map[string]any{"wepe_alpha_u": 0.25}) || strings.Join(info.Labels, "") != "abcdefg" ||
		len(info.Notes) != 1 || !strings.Contains(info.Notes[0], damaged) || len(info.Tensors) != store.NumVariables() {
		t.Errorf("%+v", info)
	}
	if got := info.numbers; !maps.Equal(got, own) {
		t.Errorf("numbers %v, the model has %v", got, own)
	}
	if m := imported(t, dir, ImportOptions{}); !slices.ContainsFunc(m.Report, func(line string) bool {
		return strings.Contains(line, damaged)
	}) {
		t.Errorf("the import reports %q", m.Report)
	}
	for v := range store.IterVariables() {
		at := slices.IndexFunc(info.Tensors, func(t tensorInfo) bool { return t.Name == v.Path() })
		if at < 0 || !slices.Equal(info.Tensors[at].Shape, append([]int{}, v.Shape().Dimensions...)) {
			t.Errorf("%s is not among the tensors with its shape", v.Path())
		}
	}
	if _, err := Inspect(damaged, ImportOptions{}); err == nil {
		t.Error("a damaged checkpoint was inspected")
	}
	if info = inspected(t, save(t, Saver{Dir: t.TempDir()}, newStore(t, 4), 44, 3)); info.Refused == "" {
		t.Errorf("no model: %+v", info)
	}
}

// ONNX files are recognized by their first byte; names of a file cannot command the terminal.
func TestInspect_ExportsAndUnknownFiles(t *testing.T) {
	c := ownViT("wepe")
	dir := exportedFrom(t, stirred(t, c, map[string]any{"wepe_alpha_u": 0.25}), c, ExportOptions{Format: formatNative,
		DType: "float16"})
	info := inspected(t, dir)
	if n := info.numbers; info.Format != formatNative || info.Config != c || info.Params["wepe_alpha_u"] != 0.25 ||
		n["float16"] == 0 || n["float32"] == 0 { // the encoding's types are kept
		t.Errorf("%+v, %v", info, info.numbers)
	}
	putFile(t, filepath.Join(dir, "model.onnx"), []byte{8, 9}) // IR version 9
	for _, path := range []string{dir, filepath.Join(dir, "model.onnx")} {
		if info := inspected(t, path); info.Format != formatONNX || len(info.Tensors) != 0 {
			t.Errorf("%+v", info)
		}
	}
	alone := filepath.Join(t.TempDir(), "model.onnx")
	putFile(t, alone, []byte{8, 9})
	for _, path := range []string{alone, filepath.Dir(alone)} {
		if _, err := Import(path, ImportOptions{}); err == nil || !strings.Contains(err.Error(), alone) {
			t.Errorf("a graph alone: %v", err)
		}
	}
	for name, raw := range map[string][]byte{"empty.onnx": nil, "other.onnx": []byte("9")} {
		putFile(t, filepath.Join(dir, name), raw)
		_, err := Inspect(filepath.Join(dir, name), ImportOptions{})
		refuses(t, name, err, inFile, name)
	}
	file := filepath.Join(t.TempDir(), "x.safetensors")
	writeWeights(t, file, map[string]*tensors.Tensor{
		"b\x1b[31m": tensors.FromValue([]int64{1, 2}), "a": tensors.FromValue(true),
	})
	info = inspected(t, file)
	if info.Format != "" || info.Config != (vit.Config{}) || info.Refused == "" || len(info.Tensors) != 2 ||
		info.Tensors[1].DType != "int64" || info.Tensors[0].Name != "a" {
		t.Errorf("%+v", info)
	}
	if text := info.String(); strings.Contains(text, "\x1b") {
		t.Errorf("a name commands the terminal: %q", text)
	}
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
		if want := fmt.Sprintf("%d×%d -> %d×%d (%s)", from[0], from[1], to[0], to[1], kind); report != want {
			t.Errorf("report %q, want %q", report, want)
		}
		gomlxtest.NearAbs(t, key, got, want.Data, 1e-5)
	}
	for _, kind := range kindsOfTorch {
		if seen[kind] < 2 {
			t.Errorf("the fixture holds %d cases of %s", seen[kind], kind)
		}
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
	equal := func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }
	for kind := range resamplers {
		for _, prefix := range []int{0, 1, 2} {
			in := make([]float32, (prefix+patches)*width)
			for i := range in {
				in[i] = float32(i * i)
			}
			in[0], in[1] = float32(math.NaN()), float32(math.Copysign(0, -1))
			for to, same := range map[gridSize]int{{2, 8}: len(in), {4, 4}: prefix * width} {
				got, _, err := Resample(in, width, prefix, gridSize{2, 8}, to, kind)
				if err != nil || len(got) != len(in) || &got[0] == &in[0] || !slices.EqualFunc(got[:same], in[:same], equal) ||
					same < len(in) && slices.EqualFunc(got[same:], in[same:], equal) {
					t.Errorf("%s, prefix %d to %v: %v, %v", kind, prefix, to, got, err)
				}
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
		if _, _, err := Resample(make([]float32, c.numbers), c.width, c.prefix, from, c.to, c.kind); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A graph would draw missing variables at random.
func TestLogits_NeedEveryVariableAndImagesOfTheModel(t *testing.T) {
	c := ownViT("learned")
	store, b := stirred(t, c, nil), gomlxtest.Backend()
	larger := c
	larger.ImageRows = 8
	_, ok := forward(b, store, "/vit", c, Noise(c, 2, 5))
	if _, err := forward(b, store, "/vit", c, Noise(larger, 2, 5)); err == nil || ok != nil {
		t.Errorf("images of another size: %v, its own: %v", err, ok)
	}
	gomlxtest.NoError(t, store.DeleteVariable("/vit/norm/gain"))
	if _, err := forward(b, store, "/vit", c, Noise(c, 2, 5)); err == nil {
		t.Error("a model that lacks a variable has logits")
	}
	_, err := (&Imported{Config: c, Variables: map[string]*tensors.Tensor{}}).Logits(b, Noise(c, 2, 5))
	if err == nil || !strings.Contains(err.Error(), positionPath) {
		t.Errorf("an import without its table: %v", err)
	}
}
