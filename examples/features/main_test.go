// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/numpy"
	"github.com/wepe-go/wepe/internal/program/programtest"
)

// TestMain is also the program under test.
func TestMain(m *testing.M) { programtest.Main(m, main) }

// Nothing is at the hub's address, and nothing in its cache.
var embeds = programtest.Program{Name: "features",
	Env:  []string{"HF_ENDPOINT=http://127.0.0.1:9", "HF_HOME=/nonexistent"},
	Said: regexp.MustCompile(`^(backend:|interrupt: saving|skipped |\S+  \d+ of)`)}

// The model of make finetune-demo: a ViT in Hugging Face's form.
func demo(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../cifar100/demo/vit")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// folder has so many pictures in each of two classes.
func folder(t *testing.T, each int) string {
	t.Helper()
	files := map[string][]byte{}
	for i := range 2 * each {
		img := image.NewNRGBA(image.Rect(0, 0, 31, 29))
		for p := range 31 * 29 {
			img.Set(p%31, p/31, color.NRGBA{uint8(p), uint8(200 * (i % 2)), uint8(37 * i), 255})
		}
		files[fmt.Sprintf("%c/%03d.png", 'a'+i%2, i)] = datatest.PNG(img)
	}
	return datatest.Tree(t, files)
}

func TestEverythingThatIsDoneWithTheFeaturesOfAFolder(t *testing.T) {
	out, images := t.TempDir(), folder(t, 7)
	programtest.Write(t, filepath.Join(images, "b", "damaged.png"), []byte("damaged"))
	args := []string{"-model", demo(t), "-images", images, "-do", "knn,probe,nearest,colours", "-shown", "5", "-k", "3",
		"-out", out}
	for range 2 { // the second time nothing is computed again
		done := embeds.Run(t, args...)
		if done.Code != 0 {
			t.Fatal(done.Stderr)
		}
		for _, want := range []string{"14 pictures of ", "width 96", "knn, k 3, temperature 0.07: top-1 100.00 %",
			"linear probe: top-1 100.00 %", "2 classes", filepath.Join(out, "nearest.html"), filepath.Join(out, "colours.png")} {
			if !strings.Contains(done.Stdout, want) {
				t.Errorf("no %q in\n%s", want, done.Stdout)
			}
		}
		if !strings.Contains(done.Stderr, "damaged.png") {
			t.Errorf("the damaged picture is not named: %s", done.Stderr)
		}
	}
	left := programtest.Tree(t, out)
	values := left["features.npy"]
	if len(values) != numpy.HeaderSize+4*14*96 || !strings.Contains(values, "'shape': (14, 96)") {
		t.Errorf("%d bytes of numbers", len(values))
	}
	if len(left["colours.png"]) == 0 || !strings.Contains(left["nearest.html"], "cosine ") {
		t.Errorf("a picture of %d bytes, a page of %d", len(left["colours.png"]), len(left["nearest.html"]))
	}
}

func TestAnInterruptedCommandGoesOn(t *testing.T) {
	out, images := t.TempDir(), folder(t, 60)
	args := []string{"-model", demo(t), "-images", images, "-out", out}
	embeds.Interrupted(t, syscall.SIGINT, args...).Complaint(t, "SIGINT", 130, "interrupt")
	before := strings.Count(programtest.Tree(t, out)["pictures.jsonl"], "\n")
	if done := embeds.Run(t, args...); done.Code != 0 || before < 32 || before == 120 ||
		!strings.Contains(done.Stderr, fmt.Sprintf("%d of 120 images\n", before)) {
		t.Errorf("after %d of 120: status %d, %s", before, done.Code, done.Stderr)
	}
}

func TestKilledCommandsEndWithTheBytesOfAnUnbrokenOne(t *testing.T) {
	if backend := os.Getenv(compute.ConfigEnvVar); backend != "" && !strings.HasPrefix(backend, "go") {
		t.Skipf("backend %s does not promise the same bits twice", backend)
	}
	images := folder(t, 60)
	args := func(out string) []string { return []string{"-model", demo(t), "-images", images, "-out", out} }
	whole, out := t.TempDir(), t.TempDir()
	begin := time.Now()
	if e := embeds.Run(t, args(whole)...); e.Code != 0 {
		t.Fatal(e.Stderr)
	}
	unbroken := time.Since(begin)
	r, kills, resumes := rand.New(rand.NewPCG(23, 0)), 0, 0
	written := func() int {
		rows, _ := os.ReadFile(filepath.Join(out, "pictures.jsonl")) // none yet
		return bytes.Count(rows, []byte("\n"))
	}
	for kills < 7 {
		command := embeds.Command(t, args(out)...)
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- command.Wait() }()
		kill := time.After(time.Duration(r.Int64N(int64(unbroken) * 2 / 3)))
		for before := written(); kills%2 == 1 && written() == before && len(done) == 0; { // this one had something to lose
			time.Sleep(time.Millisecond)
		}
		var err error
		select {
		case <-kill:
			_ = command.Process.Kill()
			err = <-done
		case err = <-done:
		}
		if err == nil {
			break // it came to its end
		}
		kills++
		if rows := written(); rows > 0 && rows < 120 {
			resumes++
		}
	}
	if e := embeds.Run(t, args(out)...); e.Code != 0 {
		t.Fatal(e.Stderr)
	}
	t.Logf("unbroken in %v; %d kills, %d of them between the first and the last picture", unbroken, kills, resumes)
	if resumes == 0 {
		t.Error("no kill left anything to go on from: this test showed nothing")
	}
	want, got := programtest.Tree(t, whole), programtest.Tree(t, out)
	if len(want) != 3 || len(got) != len(want) {
		t.Errorf("%d and %d files", len(want), len(got))
	}
	for name, content := range want {
		if got[name] != content {
			t.Errorf("%s differs from that of the unbroken command", name)
		}
	}
	if first := binary.LittleEndian.Uint32([]byte(want["features.npy"][numpy.HeaderSize:])); first == 0 {
		t.Error("the features are zero")
	}
}
