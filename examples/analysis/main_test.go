// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/analysis"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/program/programtest"
)

// TestMain is also the program under test.
func TestMain(m *testing.M) { programtest.Main(m, main) }

var looks = programtest.Program{Name: "analysis",
	Said: regexp.MustCompile(`^(backend:|\S+: \w+$|\S+, \d+: round|(hf|timm|jax): )`)}

// The model of make finetune-demo: a ViT in Hugging Face's form.
func demo(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../cifar100/demo/vit")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func folder(t *testing.T, pictures ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i, name := range pictures {
		img := image.NewNRGBA(image.Rect(0, 0, 31+i, 47))
		for p := range 47 * 31 {
			img.Set(p%31, p/31, color.NRGBA{uint8(p), uint8(p >> 2), uint8(37 * i), 255})
		}
		file, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := png.Encode(file, img); err != nil {
			t.Fatal(err)
		}
		file.Close()
	}
	return dir
}

func TestPicturesWithoutClassesShowTheAttentionOfAModelOfOthers(t *testing.T) {
	out := t.TempDir()
	done := looks.Run(t, "-model", "mine="+demo(t), "-images", folder(t, "a.png"), "-what",
		"entropy,rollout,shuffle,similarity",
		"-out", out)
	if done.Code != 0 {
		t.Fatal(done.Stderr)
	}
	for _, want := range []string{"layer 6", "mine", "it knows 100 classes, the images are of 1",
		"How alike are positions?"} {
		if !strings.Contains(done.Stdout, want) {
			t.Errorf("no %q in\n%s", want, done.Stdout)
		}
	}
	rows, err := analysis.Read(filepath.Join(out, "rows.jsonl"))
	if err != nil || len(rows) < 10 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	if page, err := os.ReadFile(filepath.Join(out, "analysis.html")); err != nil || !strings.Contains(string(page),
		"data:image/png") {
		t.Errorf("no page with pictures: %v", err)
	}
}

func TestMasksOfOnesOwnAreFoundByName(t *testing.T) {
	done := looks.Run(t, "-model", demo(t), "-images", folder(t, "a.png", "b.png"), "-masks", folder(t, "a.png", "b.png"),
		"-what", "masks", "-out", t.TempDir())
	if done.Code != 0 || !strings.Contains(done.Stdout, "IoU at half of the range") {
		t.Errorf("status %d\n%s%s", done.Code, done.Stdout, done.Stderr)
	}
}

// The fixtures hold the same weights in three people's files, and say how far their own logits differ: 7e-7.
func TestTheSameWeightsOfThreeLookTheSame(t *testing.T) {
	var meta struct {
		Config struct {
			Heads int `json:"num_heads"`
		}
	}
	fixtures.JSON(t, "timm_vit", "meta.json", &meta)
	alone := filepath.Join(fixtures.Dir(t, "timm_vit"), "model.safetensors")
	weights, err := os.ReadFile(alone)
	if err != nil {
		t.Fatal(err)
	}
	timm := t.TempDir() // beside the normalisation that the others have
	for name, content := range map[string][]byte{"model.safetensors": weights,
		"config.json": []byte(`{"pretrained_cfg": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}}`)} {
		if err := os.WriteFile(filepath.Join(timm, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	models := "hf=" + fixtures.Dir(t, "hf_vit") + ",timm=" + timm + ",jax=" +
		filepath.Join(fixtures.Dir(t, "jax_vit_npz"), "model.npz")
	dir, out := folder(t, "a.png", "b.png", "c.png", "d.png", "e.png", "f.png", "g.png", "h.png"), t.TempDir()
	args := []string{"-images", dir, "-what", "similarity,decay,entropy,range,rollout,likeness", "-out", out}
	looks.Run(t, append(args, "-model", alone)...).Complaint(t, "neither grid nor heads", 1, "does not say")
	args = append(args, "-assume-square", "-heads", strconv.Itoa(meta.Config.Heads), "-model")
	if done := looks.Run(t, append(args, alone)...); done.Code != 0 ||
		!strings.Contains(done.Stderr, "does not say how they were normalised") {
		t.Errorf("a file without normalisation: %s", done.Stderr)
	}
	done := looks.Run(t, append(args, models+",gone="+filepath.Join(dir, "nothing"))...)
	done.Complaint(t, "one model of four is not there", 1, "nothing")
	rows, err := analysis.Read(filepath.Join(out, "rows.jsonl"))
	if err != nil {
		t.Fatal(err, done.Stderr)
	}
	type key struct{ figure, measure, at string }
	first, compared := map[key]float64{}, 0
	for _, r := range rows {
		k, v := key{r.Figure, r.Measure, r.At}, float64(r.Value)
		if r.Model == "hf" {
			first[k] = v
			continue
		}
		if want, ok := first[k]; !ok || math.Abs(v-want) > 1e-4*(1+math.Abs(want)) {
			t.Errorf("%s: %v is %g, of hf %g", r.Model, k, v, want)
		}
		compared++
	}
	if compared != 2*len(first) || len(first) < 30 {
		t.Errorf("%d numbers compared with %d", compared, len(first))
	}
}

// A rectangle at rows 4…13 and columns 10…29 of 20×40 pixels, drawn by hand.
func TestMasksOfCOCOFollowTheirPictures(t *testing.T) {
	path := filepath.Join(t.TempDir(), "instances.json")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"images": [{"id": 7, "file_name": "a.png", "height": 20, "width": 40},
		{"id": 3, "file_name": "b.png", "height": 20, "width": 40}], "categories": [{"id": 1, "name": "thing"}],
		"annotations": [{"id": 1, "image_id": 7, "category_id": 1, "iscrowd": 0, "area": 200, "bbox": [10, 4, 20, 10],
		"segmentation": [[10, 4, 30, 4, 30, 14, 10, 14]]}]}`)
	files, err := data.NewFiles("pictures", t.TempDir(), []string{"b.png", "sub/a.png"}, make([]int32, 2), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		settings                 preprocess.Settings
		cols, top, left, bot, rt int // columns of the result, and where the object is in it
	}{
		{preprocess.Settings{Fit: preprocess.FitExact, Size: [2]int{20, 40}}, 40, 4, 10, 14, 30},
		{preprocess.Settings{Fit: preprocess.FitExact, Size: [2]int{10, 40}}, 40, 2, 10, 7, 30},
		{preprocess.Settings{Fit: preprocess.FitCover, Size: [2]int{20, 20}, Crop: [2]int{20, 16}}, 16, 4, 0, 14, 16},
	} {
		mask, err := annotated(path, files, c.settings)
		if err != nil {
			t.Fatal(err)
		}
		if got := mask(0); got != nil {
			t.Errorf("%v: a picture without objects has a mask of %d pixels", c.settings, len(got))
		}
		for p, object := range mask(1) {
			y, x := p/c.cols, p%c.cols
			if want := y >= c.top && y < c.bot && x >= c.left && x < c.rt; object != want {
				t.Fatalf("%v: row %d, column %d is %v", c.settings, y, x, object)
			}
		}
	}

	pictures := folder(t, "a.png", "b.png", "c.png")
	args := []string{"-model", demo(t), "-images", pictures, "-what", "masks", "-out", t.TempDir(), "-masks", path}
	looks.Run(t, args...).Complaint(t, "a picture that the file does not know", 1, "says nothing of the picture c.png")
	if done := looks.Run(t, append(args, "-n", "2")...); done.Code != 0 || !strings.Contains(done.Stdout,
		"IoU at half of the range") {
		t.Errorf("status %d\n%s%s", done.Code, done.Stdout, done.Stderr)
	}
	write(`{"images": [`)
	looks.Run(t, args...).Complaint(t, "a broken file", 1, "instances.json")
}

// ViT-B/16 with 1000 classes has 86,567,656 parameters and 35.1 GFLOPs at 224 (torchvision's table, 17.56 G
// multiply-adds); with 100 classes it has 900·769 fewer. WePE's own count is the release's, 8·width+3.
func TestParametersAndFLOPsAreCountedWithoutAModel(t *testing.T) {
	out := t.TempDir()
	done := looks.Run(t, "-what", "cost", "-variant", "B/16", "-sizes", "224", "-rounds", "0", "-encodings",
		"learned,wepe", "-out", out)
	if done.Code != 0 {
		t.Fatal(done.Stderr)
	}
	rows, err := analysis.Read(filepath.Join(out, "cost.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	const learned = 86_567_656 - 900*769
	want := []float64{learned, 35.1, learned - 197*768 + 8*768 + 3, 35.1}
	if len(rows) != len(want) {
		t.Fatalf("%d numbers, want %d", len(rows), len(want))
	}
	for i, r := range rows {
		if got := float64(r.Value); math.Abs(got-want[i]) > 2e-3*want[i]*float64(i%2) {
			t.Errorf("%s, %s: %g, want %g", r.Model, r.Measure, got, want[i])
		}
	}
}

// Without -images: shapes are white on black, and the class is the quarter that the centre is in.
func TestMasksOfGeneratedShapesLieWhereTheirClassesSay(t *testing.T) {
	set, mask, err := options{count: 40}.load(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, label := range set.Labels {
		var rows, cols, n float64
		for p, object := range mask(i) {
			if object {
				rows, cols, n = rows+float64(p/set.Width), cols+float64(p%set.Width), n+1
			}
		}
		if n < 4 || n > 0.3*float64(set.Width*set.Height) {
			t.Fatalf("image %d: a shape of %g pixels", i, n)
		}
		below, right := rows/n-float64(set.Height-1)/2, cols/n-float64(set.Width-1)/2
		if math.Abs(below) > 2 && (below > 0) != (label >= 2) || math.Abs(right) > 2 && (right > 0) != (label%2 == 1) {
			t.Errorf("image %d of class %d: the shape is %g rows below and %g columns right of the middle", i, label, below,
				right)
		}
	}
}
