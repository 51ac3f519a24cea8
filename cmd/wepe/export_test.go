// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

const corner = "testdata/corner.png"

// demo returns a copy of the pretrained demo model in which texts of a file are replaced.
func demo(t *testing.T, file string, replace ...string) string {
	t.Helper()
	dir := copied(t, "../../examples/cifar100/demo/vit")
	path := filepath.Join(dir, file)
	text := gomlxtest.Must(os.ReadFile(path))(t)
	changed := []byte(strings.NewReplacer(replace...).Replace(string(text)))
	if bytes.Equal(text, changed) {
		t.Fatalf("%s contains none of %q", path, replace)
	}
	if err := os.WriteFile(path, changed, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// predicted returns the answers of a model for one image.
func predicted(t *testing.T, dir string) prediction {
	t.Helper()
	return asJSON[struct{ Predictions []prediction }](t, "predict", dir, corner, "--backend", "go").Predictions[0]
}

// exportsAlike exports a model in formats whose predictions must be the model's, and returns what the last one printed.
func exportsAlike(t *testing.T, dir string, formats ...string) (printed string) {
	t.Helper()
	want := predicted(t, dir)
	for _, format := range formats {
		to := filepath.Join(t.TempDir(), format)
		printed = succeeds(t, "export", dir, to, "--to", format, "--backend", "go")
		got := predicted(t, to)
		for i, class := range want.Classes {
			near(t, format+": "+class.Name, got.Classes[i].Probability, class.Probability, 1e-5)
			if got.Classes[i].Name != class.Name {
				t.Errorf("%s: answer %d is %s, want %s", format, i, got.Classes[i].Name, class.Name)
			}
		}
	}
	return printed
}

func TestAnExportOfAMultiLabelModelPredictsAsTheModel(t *testing.T) {
	dir := demo(t, "config.json", `"model_type": "vit"`,
		`"model_type": "vit", "problem_type": "multi_label_classification"`)
	plain := predicted(t, "../../examples/cifar100/demo/vit")
	if reflect.DeepEqual(predicted(t, dir), plain) {
		t.Error("problem_type does not matter")
	}
	exportsAlike(t, dir, "hf", "native")
	printed := succeeds(t, "export", dir, filepath.Join(t.TempDir(), "timm"), "--to", "timm", "--backend", "go")
	if !strings.Contains(printed, "scores: the sigmoid of each logit (multi-label): not in the files") {
		t.Errorf("the export to timm prints\n%s", printed)
	}
}

// The files resize to another size than the weights have positions for, as those of DINOv2.
func TestAnExportHasTheSizeAtWhichItsModelPredicts(t *testing.T) {
	dir := demo(t, "preprocessor_config.json", `"height": 24`, `"height": 48`, `"width": 24`, `"width": 48`)
	if reflect.DeepEqual(predicted(t, dir), predicted(t, "../../examples/cifar100/demo/vit")) {
		t.Error("the size does not matter")
	}
	printed := exportsAlike(t, dir, "hf", "native", "timm")
	for _, want := range []string{"images: 48×48, to which the files resize them; the weights have positions for 24×24: " +
		"--size 24x24 keeps those\n", "6x6 -> 12x12"} {
		if !strings.Contains(printed, want) {
			t.Errorf("the export does not print %q:\n%s", want, printed)
		}
	}
	small := filepath.Join(t.TempDir(), "small")
	succeeds(t, "export", dir, small, "--to", "hf", "--size", "24x24", "--backend", "go")
	if _, code, err := invoke(t, "verify", dir, small, "--backend", "go"); code != 1 ||
		!strings.Contains(err.Error(), "takes 24×24 images, the other model 48×48: use --size 48x48") {
		t.Errorf("verify of two sizes: exit code %d, %v", code, err)
	}
	succeeds(t, "verify", dir, small, "--size", "24x24", "--backend", "go")
}

// trained trains a model of pixels normalized by mean and std on images of another aspect ratio.
func trained(t *testing.T, args ...string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "run")
	succeeds(t, append([]string{"train", "--data", images(t, "colours", 11, 24, 32), "--out", dir, "--backend", "go",
		"--position", "wepe-sphere", "--set",
		"model.width=12;model.depth=1;model.heads=1;batch_size=6;model.patch_size=4;epochs=0;warmup_epochs=0;" +
			"steps=4;eval_steps=2;augment.mean=[0.5,0.25,0.125];augment.std=[0.5,0.75,0.3]"}, args...)...)
	return dir
}

func TestARunThatCropsToARectangleIsExported(t *testing.T) {
	dir := trained(t, "--size", "8x16")
	exportsAlike(t, dir, "native", "timm")
	printed := succeeds(t, "export", dir, filepath.Join(t.TempDir(), "hf"), "--to", "hf", "--backend", "go")
	if !strings.Contains(printed, `preprocessing: fit "exact" to 8×16 in place of "cover"`) {
		t.Errorf("the export to hf prints\n%s", printed)
	}
}

func TestARunThatKeepsTheAspectIsExported(t *testing.T) {
	dir := trained(t, "--size", "16x16", "--aspect", "keep")
	for _, format := range []string{"hf", "timm", "native"} {
		to := filepath.Join(t.TempDir(), format)
		printed := succeeds(t, "export", dir, to, "--to", format, "--backend", "go")
		if !strings.Contains(printed, `preprocessing: fit "exact" to 16×16 in place of "patches"`) {
			t.Errorf("the export to %s prints\n%s", format, printed)
		}
		if p := predicted(t, to); len(p.Classes) != 3 {
			t.Errorf("%s predicts %v", format, p)
		}
	}
}

// predict resizes to the model's size what the files leave at several, and normalizes by their mean and std.
func TestAnExportOfAModelThatLeavesTheSizeOpenKeepsMeanAndStd(t *testing.T) {
	dir := demo(t, "preprocessor_config.json", `"height": 24,`, "", `"width": 24`, `"shortest_edge": 24`)
	printed := exportsAlike(t, dir, "hf", "native", "timm")
	if !strings.Contains(printed, `preprocessing: fit "exact" to 24×24 in its place`) {
		t.Errorf("the export prints\n%s", printed)
	}
}
