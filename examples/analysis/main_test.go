// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/finetune/figures"
	"github.com/wepe-go/wepe/internal/program/programtest"
)

// TestMain is also the program under test.
func TestMain(m *testing.M) { programtest.Main(m, main) }

var looks = programtest.Program{Name: "analysis", Said: regexp.MustCompile(`^(backend:|\S+: \w+$|\S+, \d+: round)`)}

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

func TestAWrongCommandIsOneLineAndStatus2(t *testing.T) {
	for args, wants := range map[string][]string{
		"-what nosuch":          {"-what", `"nosuch"`, "positions (similarity"},
		"-what ,":               {"-what names no figure"},
		"-model ,":              {"-model is given, but empty"},
		"-n 0":                  {"-n is 0"},
		"-masks x":              {"-masks needs -images"},
		"-what cost -sizes big": {"-sizes", `"big"`},
		"-what cost -rounds 0":  {"-rounds"},
	} {
		looks.Run(t, strings.Fields(args)...).Complaint(t, args, 2, wants...)
	}
}

func TestWhatCannotBeLookedAtIsOneLine(t *testing.T) {
	empty := t.TempDir()
	for _, c := range []struct {
		args  []string
		wants []string
	}{
		{[]string{"-model", filepath.Join(empty, "nothing")}, []string{"nothing"}},
		{[]string{"-model", demo(t), "-images", empty}, []string{"no pictures in", empty}},
		{[]string{"-model", demo(t), "-images", filepath.Join(empty, "none")}, []string{"none"}},
	} {
		looks.Run(t, append(c.args, "-what", "entropy")...).Complaint(t, strings.Join(c.args, " "), 1, c.wants...)
	}
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
	rows, err := figures.Read(filepath.Join(out, "rows.jsonl"))
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
