// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/detect/scenes"
	"github.com/wepe-go/wepe/internal/program/programtest"
)

// TestMain is also the program under test.
func TestMain(m *testing.M) { programtest.Main(m, main) }

var trains = programtest.Program{Name: "coco", Said: regexp.MustCompile(`^(backend:|interrupt: saving|\S+ seed \d)`)}

// tiny makes the detector small enough to train in a test, on pictures of 32×48 pixels.
const tiny = "steps=2;warmup_steps=1;batch_size=2;detector.backbone.image_rows=32;detector.backbone.image_cols=48;" +
	"detector.backbone.patch_size=8;detector.backbone.width=16;detector.backbone.depth=2;" +
	"detector.backbone.global=[1];detector.backbone.heads=2;" +
	"detector.channels=8;detector.roi.dense=[16];detector.roi.convs=[8];detector.roi.masks=[8];detector.roi.top=3;" +
	"detector.roi.score=0.01"

func TestATrainedDetectorIsTestedAtOtherSizesAndFindsThingsInFiles(t *testing.T) {
	dir := t.TempDir()
	args := []string{"-checkpoint", dir, "-set", tiny, "-train", "5", "-test", "2", "-position", "rope-axial", "-sizes",
		"32x48,56x40"}
	ended := trains.Run(t, args...)
	if ended.Code != 0 {
		t.Fatalf("status %d: %s", ended.Code, ended.Stderr)
	}
	for _, want := range []string{"rope-axial", "32x48", "56x40", "box AP50"} {
		if !strings.Contains(ended.Stdout, want) {
			t.Errorf("the table lacks %q:\n%s", want, ended.Stdout)
		}
	}
	files := programtest.Tree(t, filepath.Join(dir, "scenes", "rope-axial-seed0"))
	if !strings.Contains(files["report.html"], "course of the training") {
		t.Error("the page shows no curves")
	}
	for _, want := range []string{"rows.jsonl", "report.html", "results-32x48.json", "results-56x40.json"} {
		if files[want] == "" {
			t.Errorf("there is no %s", want)
		}
	}

	g := scenes.Generated{Count: 1, Height: 61, Width: 37, Seed: 9}
	scene, err := g.At(0)
	if err != nil {
		t.Fatal(err)
	}
	var picture bytes.Buffer
	if err := png.Encode(&picture, scene.Picture.RGBA()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.png")
	programtest.Write(t, path, picture.Bytes())
	ended = trains.Run(t, "-checkpoint", dir, "-position", "rope-axial", "-predict", path, "-score", "0")
	if ended.Code != 0 || !strings.Contains(ended.Stdout, "box ") {
		t.Errorf("status %d: %s%s", ended.Code, ended.Stdout, ended.Stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, "scenes", "rope-axial-seed0", "found", "a.png")); err != nil {
		t.Error(err)
	}
	trains.Run(t, "-checkpoint", dir, "-predict", path).Complaint(t, "coco", 1, "no checkpoint in")
	trains.Run(t, "-checkpoint", dir, "-position", "rope-axial", "-predict", path+"x").Complaint(t, "coco", 1, "a.pngx")
}

func TestADirectoryAsCOCOHasItIsTrainedOnAndMeasured(t *testing.T) {
	data, dir := filepath.Join(t.TempDir(), "shapes"), t.TempDir()
	ended := trains.Run(t, "-write", data, "-set", tiny, "-train", "5", "-test", "3")
	if ended.Code != 0 {
		t.Fatalf("status %d: %s", ended.Code, ended.Stderr)
	}
	ended = trains.Run(t, "-data", data, "-checkpoint", dir, "-set", tiny, "-sizes", "32x48,48x32")
	if ended.Code != 0 {
		t.Fatalf("status %d: %s", ended.Code, ended.Stderr)
	}
	instances := filepath.Join(data, "annotations", "instances_val2017.json")
	truth, err := coco.Read(instances)
	if err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(dir, "scenes", "wepe-seed0")
	for _, size := range []string{"32x48", "48x32"} {
		path := filepath.Join(run, "results-"+size+".json")
		if raw, err := os.ReadFile(path); err == nil && string(bytes.TrimSpace(raw)) == "[]" {
			continue // nothing was found, which cocoapi refuses
		}
		if _, err := truth.ReadResults(path); err != nil {
			t.Error(err)
		}
	}
	if rows := programtest.Tree(t, run)["rows.jsonl"]; !strings.Contains(rows, `"dataset":"instances_train2017`) {
		t.Errorf("rows are %s", rows)
	}

	for file, want := range map[string]string{
		"val2017/000000000002.png":             "1 of 3 images",
		"annotations/instances_train2017.json": "instances_train2017.json",
	} {
		path := filepath.Join(data, filepath.FromSlash(file))
		if err := os.Rename(path, path+".away"); err != nil {
			t.Fatal(err)
		}
		trains.Run(t, "-data", data, "-checkpoint", t.TempDir(), "-set", tiny).Complaint(t, "coco", 1, want)
		if err := os.Rename(path+".away", path); err != nil {
			t.Fatal(err)
		}
	}
}
