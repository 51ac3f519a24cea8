// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/checkpoints"
)

// pictureFolder makes class folders: red pictures of several sizes, and blue ones.
func pictureFolder(t *testing.T, each int) string {
	t.Helper()
	dir := t.TempDir()
	for class, c := range map[string]color.Color{"red": color.NRGBA{R: 255, A: 255}, "blue": color.NRGBA{B: 255, A: 255}} {
		if err := os.Mkdir(filepath.Join(dir, class), 0o755); err != nil {
			t.Fatal(err)
		}
		for k := range each {
			img := image.NewNRGBA(image.Rect(0, 0, 17+k, 29))
			for i := range 29 * (17 + k) {
				img.Set(i%(17+k), i/(17+k), c)
			}
			var file bytes.Buffer
			if err := png.Encode(&file, img); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, class, fmt.Sprintf("%d.png", k)), file.Bytes())
		}
	}
	return dir
}

func TestAFolderOfPicturesIsLearned(t *testing.T) {
	dir, runs := pictureFolder(t, 25), t.TempDir()
	args := []string{"-folder", dir, "-recipe", "shapes", "-position", "wepe", "-sizes", "16x24", "-checkpoint", runs, "-set",
		"epochs=8;batch_size=5;warmup_epochs=1;learning_rate=0.01;model.depth=1;model.width=16;augment.mean=[0.5,0.5,0.5]"}
	e := cifar100(t, args...)
	if e.code != 0 || !strings.Contains(e.stderr, "40 training and 10 test images") ||
		!strings.Contains(e.stdout, " 100.00 ") {
		t.Errorf("status %d, printed %s%s", e.code, e.stdout, e.stderr)
	}
	picture := filepath.Join(dir, "blue", "3.png")
	e = cifar100(t, append(args, "-predict", picture, "-top", "1")...)
	if e.code != 0 || !strings.HasSuffix(strings.TrimSpace(e.stdout), "blue") {
		t.Errorf("status %d, printed %s%s", e.code, e.stdout, e.stderr)
	}

	out := filepath.Join(t.TempDir(), "out")
	if e = cifar100(t, append(args, "-export", out)...); e.code != 0 {
		t.Fatalf("export: status %d, %s", e.code, e.stderr)
	}
	model, err := checkpoints.Inspect(out)
	if err != nil || model.Format != checkpoints.FormatHF || model.Config.Position != "learned" || model.Labels[0] != "blue" {
		t.Errorf("exported %v, want a plain model of Hugging Face's form: %v", model, err)
	}
	cifar100(t, append(args, "-export", out)...).complaint(t, "a directory that is there", 1, "out")

	cifar100(t, "-folder", dir, "-recipe", "shapes", "-checkpoint", runs).complaint(t, "no size", 1, "-sizes")
	cifar100(t, "-folder", dir, "-data", dir).complaint(t, "two sources", 2, "-data", "-folder")
	if err := os.Mkdir(filepath.Join(dir, "green"), 0o755); err != nil {
		t.Fatal(err)
	}
	cifar100(t, args...).complaint(t, "an empty class", 1, "green")
}
