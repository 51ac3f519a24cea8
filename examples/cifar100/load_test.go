// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/internal/datatest"
)

// pictureFolder makes class folders: red pictures of several sizes, and blue ones.
func pictureFolder(t *testing.T, each int) string {
	t.Helper()
	files := map[string][]byte{}
	for class, c := range map[string]color.Color{"red": color.NRGBA{R: 255, A: 255}, "blue": color.NRGBA{B: 255, A: 255}} {
		for k := range each {
			img := image.NewNRGBA(image.Rect(0, 0, 17+k, 29))
			draw.Draw(img, img.Rect, image.NewUniform(c), image.Point{}, draw.Src)
			files[fmt.Sprintf("%s/%d.png", class, k)] = datatest.PNG(img)
		}
	}
	return datatest.Tree(t, files)
}

func TestAFolderOfPicturesIsLearned(t *testing.T) {
	dir, runs := pictureFolder(t, 25), t.TempDir()
	args := []string{"-folder", dir, "-recipe", "shapes", "-position", "wepe", "-sizes", "16x24", "-checkpoint", runs,
		"-set", "epochs=8;batch_size=5;warmup_epochs=1;learning_rate=0.01;model.depth=1;model.width=16;" +
			"augment.mean=[0.5,0.5,0.5]"}
	e := cifar100.Run(t, args...)
	if e.Code != 0 || !strings.Contains(e.Stderr, "40 training and 10 test images") ||
		!strings.Contains(e.Stdout, " 100.00 ") {
		t.Errorf("status %d, printed %s%s", e.Code, e.Stdout, e.Stderr)
	}
	picture := filepath.Join(dir, "blue", "3.png")
	e = cifar100.Run(t, append(args, "-predict", picture, "-top", "1")...)
	if e.Code != 0 || !strings.HasSuffix(strings.TrimSpace(e.Stdout), "blue") {
		t.Errorf("status %d, printed %s%s", e.Code, e.Stdout, e.Stderr)
	}

	out := filepath.Join(t.TempDir(), "out")
	if e = cifar100.Run(t, append(args, "-export", out)...); e.Code != 0 {
		t.Fatalf("export: status %d, %s", e.Code, e.Stderr)
	}
	model, err := checkpoints.Inspect(out)
	if err != nil || model.Format != checkpoints.FormatHF || model.Config.Position != "learned" ||
		model.Labels[0] != "blue" {
		t.Errorf("exported %v, want a plain model of Hugging Face's form: %v", model, err)
	}
	cifar100.Run(t, append(args, "-export", out)...).Complaint(t, "a directory that is there", 1, "out")

	cifar100.Run(t, "-folder", dir, "-recipe", "shapes", "-checkpoint", runs).Complaint(t, "no size", 1, "-sizes")
	lone := t.TempDir()
	if err := os.CopyFS(filepath.Join(lone, "train"), os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	cifar100.Run(t, "-folder", lone, "-sizes", "16x16", "-checkpoint", runs).Complaint(t, "train without val", 1, lone,
		"one class alone, train")
	cifar100.Run(t, "-folder", dir, "-data", dir).Complaint(t, "two sources", 2, "-data", "-folder")
	if err := os.Mkdir(filepath.Join(dir, "green"), 0o755); err != nil {
		t.Fatal(err)
	}
	cifar100.Run(t, args...).Complaint(t, "an empty class", 1, "green")
}
