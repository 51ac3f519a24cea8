// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
)

// command runs the program and returns what it wrote, and its exit status.
func command(t testing.TB, args ...string) (out, complaints string, status int) {
	t.Helper()
	var o, c bytes.Buffer
	status = run(args, &o, &c)
	return o.String(), c.String(), status
}

// works runs a command that has to succeed.
func works(t testing.TB, args ...string) string {
	t.Helper()
	out, complaints, status := command(t, args...)
	if status != 0 || complaints != "" {
		t.Fatalf("%q: status %d, %s", args, status, complaints)
	}
	return out
}

// fails runs a command that has to fail with one line.
func fails(t testing.TB, status int, want string, args ...string) {
	t.Helper()
	_, complaints, got := command(t, args...)
	if got != status || !strings.Contains(complaints, want) || strings.Count(complaints, "\n") != 1 ||
		!strings.HasPrefix(complaints, "wepe-ckpt: ") {
		t.Errorf("%q: status %d, want %d; %q, want %q in it", args, got, status, complaints, want)
	}
}

// trained trains a little model on pictures of 4×6 and returns the directory of the run.
func trained(t testing.TB, position string) string {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	set := &data.Memory{Info: data.Info{Name: "noise", Height: 4, Width: 6, Channels: 3, Classes: strings.Fields("a b c d e")}}
	for range 40 {
		set.Labels = append(set.Labels, int32(r.IntN(5)))
		for range 4 * 6 * 3 {
			set.Pixels = append(set.Pixels, uint8(r.IntN(256)))
		}
	}
	recipe := finetune.Recipe{
		Name:   "tiny",
		Model:  vit.Config{PatchSize: 2, Width: 12, Depth: 2, Heads: 3, MLPDim: 20, Position: position},
		Epochs: 1, BatchSize: 6, LearningRate: 0.01,
		Optimizer: finetune.Optimizer{WeightDecay: 0.05, ClipNorm: 1},
		Augment:   data.Augment{Mean: [3]float64{0.5, 0.4, 0.3}, Std: [3]float64{0.2, 0.3, 0.4}},
	}
	dir := filepath.Join(t.TempDir(), "run")
	run := finetune.Run{Backend: gomlxtest.Backend(), Recipe: recipe, Train: set, Dir: dir}
	if _, _, err := run.Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// namesIn lists a directory.
func namesIn(dir string) (names []string) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func imported(t testing.TB, path string, o checkpoints.ImportOptions) *checkpoints.Imported {
	t.Helper()
	m, err := checkpoints.Import(path, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestATrainedModelGoesRoundThroughEveryFormat(t *testing.T) {
	run, dir := trained(t, "wepe"), t.TempDir()
	at := run
	for _, to := range []string{"unfolded", "hf", "timm", "jax", "hf", "unfolded"} {
		next := filepath.Join(dir, to+"-of-"+filepath.Base(at))
		out := works(t, "convert", "-to", to, at, next)
		if !strings.Contains(out, "SHA-256") {
			t.Errorf("%s: %q", to, out)
		}
		if line := works(t, "verify", run, next); !strings.HasPrefix(line, "logits on 2 random images differ by") {
			t.Errorf("%s: %q", to, line)
		}
		at = next
	}
	m := imported(t, at, checkpoints.ImportOptions{})
	if m.Config.Position != "learned" || !slices.Equal(m.Labels, strings.Fields("a b c d e")) ||
		!slices.Equal(m.Mean, []float64{0.5, 0.4, 0.3}) || !slices.Equal(m.Std, []float64{0.2, 0.3, 0.4}) {
		t.Errorf("%+v, labels %q, mean %v, std %v", m.Config, m.Labels, m.Mean, m.Std)
	}
}

func TestFoldIsTheModelWithATable(t *testing.T) {
	run, dir := trained(t, "wepe"), filepath.Join(t.TempDir(), "folded")
	out := works(t, "fold", "-to", "unfolded", run, dir)
	if !strings.Contains(out, "positions: wepe folded into a table") {
		t.Error(out)
	}
	m := imported(t, dir, checkpoints.ImportOptions{})
	if m.Config.Position != "learned" || m.Variables["position/embedding"] == nil {
		t.Errorf("%+v", m.Config)
	}
	works(t, "verify", run, dir)
	rotary, left := trained(t, "wepe-bias"), filepath.Join(t.TempDir(), "x")
	fails(t, 1, "acts in the attention of every block", "fold", rotary, left)
	fails(t, 1, "acts in the attention of every block", "convert", "-to", "timm", rotary, left)
	if names := namesIn(filepath.Dir(left)); len(names) > 0 {
		t.Errorf("left %q", names)
	}
	works(t, "convert", "-to", "unfolded", rotary, left)
	works(t, "verify", rotary, left)
}

func TestConvertChangesSizeClassesAndTypes(t *testing.T) {
	hf, dir := fixtures.Dir(t, "hf_vit"), t.TempDir()
	was := imported(t, hf, checkpoints.ImportOptions{})
	c := was.Config
	for name, o := range map[string]struct {
		flags      []string
		rows, cols int // of patches
		kind       string
	}{
		"pixels": {[]string{"-image-size", fmt.Sprintf("%dx%d", 3*c.PatchSize, 2*c.PatchSize), "-resample", "bilinear"},
			3, 2, "bilinear"},
		"patches": {[]string{"-grid", "2x3"}, 2, 3, "hf"},
		"square":  {[]string{"-grid", "5", "-resample", "timm"}, 5, 5, "timm"},
	} {
		to := filepath.Join(dir, name)
		works(t, slices.Concat([]string{"convert", "-to", "hf"}, o.flags, []string{hf, to})...)
		want := imported(t, hf, checkpoints.ImportOptions{ImageRows: o.rows * c.PatchSize, ImageCols: o.cols * c.PatchSize,
			Resample: o.kind})
		got := imported(t, to, checkpoints.ImportOptions{})
		if got.Config != want.Config || !slices.Equal(got.Labels, was.Labels) {
			t.Errorf("%s: %+v, want %+v", name, got.Config, want.Config)
		}
		if got, want := got.Variables["position/embedding"], want.Variables["position/embedding"]; !got.Equal(want) {
			t.Errorf("%s: the table differs", name)
		}
		p, err := preprocess.Read(filepath.Join(to, "preprocessor_config.json"))
		size := [2]int{o.rows * c.PatchSize, o.cols * c.PatchSize}
		if err != nil || p.Size != size || p.Fit != preprocess.FitExact {
			t.Errorf("%s: %v, preprocessing %+v, want %v", name, err, p, size)
		}
	}
	half := filepath.Join(dir, "half")
	out := works(t, "convert", "-to", "timm", "-epsilon", "1e-6", "-classes", fmt.Sprint(c.Classes+3), "-dtype",
		"float16", hf, half)
	if !strings.Contains(out, fmt.Sprintf("for %d classes in place of the checkpoint's for %d", c.Classes+3, c.Classes)) ||
		!strings.Contains(out, fmt.Sprintf("epsilon of the norms: 1e-06 in place of %g", c.Epsilon)) {
		t.Error(out)
	}
	m := imported(t, half, checkpoints.ImportOptions{})
	if m.Config.Classes != c.Classes+3 || m.Labels != nil {
		t.Errorf("%+v, labels %q", m.Config, m.Labels)
	}
	if text := works(t, "inspect", half); !strings.Contains(text, " float16\n") || strings.Contains(text, "float32") {
		t.Error(text)
	}
}

func TestInspectIsForPeopleAndPrograms(t *testing.T) {
	hf := fixtures.Dir(t, "hf_vit")
	c := imported(t, hf, checkpoints.ImportOptions{}).Config
	text := works(t, "inspect", hf)
	if !strings.Contains(text, "format     hf") || strings.Contains(text, "classifier.bias") {
		t.Error(text)
	}
	if text := works(t, "inspect", "-tensors", hf); !strings.Contains(text, "classifier.bias float32 [") {
		t.Error(text)
	}
	var info checkpoints.Info
	if err := json.Unmarshal([]byte(works(t, "inspect", "-json", hf)), &info); err != nil || info.Config != c ||
		len(info.Tensors) == 0 {
		t.Errorf("%v, %+v", err, info)
	}
	run := trained(t, "wepe")
	if text := works(t, "inspect", run); !strings.Contains(text, "format     checkpoint") ||
		!strings.Contains(text, "wepe, 1 prefix tokens, a grid of 2x3 for images of 4x6") {
		t.Error(text)
	}
}

// The cache of the hub holds the fixture as a commit of a model that does not exist elsewhere; nothing asks the
// network.
func TestAModelOfTheHubGoesByItsAddress(t *testing.T) {
	hf, cache, commit := fixtures.Dir(t, "hf_vit"), t.TempDir(), strings.Repeat("0123abcdef", 4)
	t.Setenv("HF_HUB_CACHE", cache)
	t.Setenv("HF_HUB_OFFLINE", "1")
	model := filepath.Join(cache, "models--nobody--vit")
	for _, dir := range []string{"refs", "snapshots"} {
		if err := os.MkdirAll(filepath.Join(model, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(model, "refs", "main"), []byte(commit), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(model, "snapshots", commit), os.DirFS(hf)); err != nil {
		t.Fatal(err)
	}
	const address = "hf://nobody/vit"
	if text := works(t, "inspect", address); !strings.Contains(text, "format     hf") {
		t.Error(text)
	}
	to := filepath.Join(t.TempDir(), "small")
	works(t, "convert", "-to", "unfolded", "-grid", "2x3", address, to)
	works(t, "verify", address)
	works(t, "verify", address+"@"+commit, hf)
	if c := imported(t, to, checkpoints.ImportOptions{}).Config; c.Rows() != 2 || c.Cols() != 3 {
		t.Errorf("%+v", c)
	}
	fails(t, 1, "not whole in the cache", "verify", "hf://nobody/other")
}

func TestVerifyFindsDamageAndDifferences(t *testing.T) {
	run, dir := trained(t, "learned"), t.TempDir()
	works(t, "convert", "-to", "jax", run, filepath.Join(dir, "jax"))
	works(t, "convert", "-to", "unfolded", trained(t, "none"), filepath.Join(dir, "other"))
	works(t, "convert", "-to", "hf", "-grid", "3", run, filepath.Join(dir, "larger"))
	if out := works(t, "verify", filepath.Join(dir, "jax")); !strings.Contains(out, "SHA-256") {
		t.Error(out)
	}
	fails(t, 1, "differ by", "verify", run, filepath.Join(dir, "other"))
	works(t, "verify", "-tolerance", "1e9", run, filepath.Join(dir, "other"))
	fails(t, 1, "takes images of 6x6, the other model 4x6", "verify", run, filepath.Join(dir, "larger"))

	npz := filepath.Join(dir, "jax", "model.npz")
	raw, err := os.ReadFile(npz)
	if err != nil {
		t.Fatal(err)
	}
	const name = "head/kernel.npy" // then a header of 128 bytes, then 12·5 numbers
	raw[bytes.Index(raw, []byte(name))+len(name)+128+100] ^= 1
	if err := os.WriteFile(npz, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	fails(t, 1, "checksum", "verify", filepath.Join(dir, "jax"))

	out := works(t, "verify", run)
	if n := strings.Count(out, ": whole\n"); n == 0 || n != strings.Count(out, "\n") {
		t.Error(out)
	}
	found, err := filepath.Glob(filepath.Join(run, "last", "step-*"))
	if err != nil || len(found) != 1 {
		t.Fatal(err, found)
	}
	if one := works(t, "verify", found[0]); !strings.Contains(one, "whole, step 6") { // 36 of 40 images, 6 a step
		t.Error(one)
	}
	if err := os.WriteFile(filepath.Join(found[0], "store.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	fails(t, 1, "are damaged", "verify", run)
	fails(t, 1, "store.json", "verify", found[0])
}

func TestHelpSpeaksOfEveryCommand(t *testing.T) {
	for _, args := range [][]string{nil, {"help"}, {"-h"}} {
		out := works(t, args...)
		for name := range commands {
			if !strings.Contains(out, "wepe-ckpt "+name+" ") {
				t.Errorf("%q is not in the help", name)
			}
		}
	}
	if out := works(t, "convert", "-help"); !strings.Contains(out, "-image-size") || !strings.Contains(out, "-resample") {
		t.Error(out)
	}
}

func TestAnONNXFileIsComparedWithItsModel(t *testing.T) {
	run, dir := trained(t, "wepe-bias"), filepath.Join(t.TempDir(), "onnx")
	_, complaints, status := command(t, "convert", "-to", "onnx", "-batch", "3", run, dir)
	if strings.Contains(complaints, "-tags=onnx") {
		if names := namesIn(filepath.Dir(dir)); status != 1 || len(names) > 0 {
			t.Errorf("status %d, left %q", status, names)
		}
		t.Skip("needs -tags=onnx")
	}
	if status != 0 {
		t.Fatal(complaints)
	}
	file := filepath.Join(dir, "model.onnx")
	works(t, "verify", "-onnx", file, "-images", "3", run)
	fails(t, 1, "differ by", "verify", "-onnx", file, "-images", "3", trained(t, "learned"))
	fails(t, 2, "is verified against the model", "verify", dir)
}
