// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/datatest"
)

func TestDSpritesTakesDisjointPartsWithVTABsLabels(t *testing.T) {
	const n = 1010
	file := datatest.NPZ(t, datatest.DSprites(n))
	for task, label := range map[string]func(f [6]int) int{
		taskLocation:    func(f [6]int) int { return f[4] / 2 },                 // 32 positions of x by two
		taskOrientation: func(f [6]int) int { return int(float64(f[3]) / 2.5) }, // 40 angles, floor(v/2.5)
	} {
		sizes := [3]int{797, 101, 53}
		sets, err := DSprites(t.Context(), file, task, sizes)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[int]bool{}
		for part, set := range sets {
			if err := set.Check(t.Context(), true); err != nil || set.Len() != sizes[part] || len(set.Classes) != 16 {
				t.Fatalf("part %d: %d images, %v", part, set.Len(), err)
			}
			last := -1
			for i := range set.Len() {
				k := 0
				for bit := range 64 {
					k |= int(set.Row(i)[3*bit]&1) << bit
				}
				if seen[k] || k <= last || k >= n {
					t.Fatalf("part %d, image %d is number %d: twice, or not in order", part, i, k)
				}
				seen[k], last = true, k
				want := make([]uint8, 3*64*64) // black except for the number
				for j := range 3 * 64 {
					want[j] = uint8(255 * (k >> (j / 3) & 1))
				}
				if !bytes.Equal(set.Row(i), want) || int(set.Labels[i]) != label(datatest.SpriteFactors(k)) {
					t.Fatalf("%s, image %d: label %d, row %v", task, k, set.Labels[i], set.Row(i)[:3*64])
				}
			}
		}
	}
}

func TestOrientationClassesAreOfThreeAndTwoAngles(t *testing.T) {
	got := tasks[taskOrientation].classes // 40 angles of 9 degrees
	if got[0] != "0-18 degrees" || got[1] != "27-36 degrees" || got[15] != "342-351 degrees" {
		t.Errorf("%q", got)
	}
}

func TestDSpritesRefusesInOneLine(t *testing.T) {
	with := func(name string, content []byte) map[string][]byte {
		members := datatest.DSprites(100)
		members[name] = content
		return members
	}
	images, factors := datatest.DSprites(100)["imgs.npy"], datatest.DSprites(100)["latents_classes.npy"]
	changed := func(raw []byte, at int, v byte) []byte {
		raw = bytes.Clone(raw)
		raw[(len(raw)+at)%len(raw)] = v
		return raw
	}
	all := make([]byte, 100*64*64)
	good := datatest.NPZ(t, datatest.DSprites(100))
	raw, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	half := datatest.Tree(t, map[string][]byte{"half.npz": raw[:len(raw)/2]})
	type call struct {
		file  string
		task  string
		sizes [3]int
	}
	usual := [3]int{80, 10, 10}
	calls := map[string]call{ // by the error message
		`unknown task "colour"`:                  {good, "colour", usual},
		"81 images requested, but 80 training":   {good, taskLocation, [3]int{81, 0, 0}},
		"11 images requested, but 10 test":       {good, taskLocation, [3]int{8, 1, 11}},
		"-1 images requested, but 10 validation": {good, taskLocation, [3]int{8, -1, 0}},
		filepath.Join(half, "half.npz"):          {filepath.Join(half, "half.npz"), taskLocation, usual},
	}
	for want, members := range map[string]map[string][]byte{
		"no array imgs":                                with("imgs.npy", nil),
		"no array latents_classes":                     with("latents_classes.npy", nil),
		"pickled Python objects":                       with("imgs.npy", datatest.NPY("|O", "100, 64, 64", all)),
		"bytes for type <f8":                           with("imgs.npy", datatest.NPY("<f8", "100, 64, 64", all)),
		"409600 bytes for type |u1, shape [100 64 32]": with("imgs.npy", datatest.NPY("|u1", "100, 64, 32", all)),
		"409601 bytes for type |u1, shape [100 64 64]": with("imgs.npy", append(datatest.NPY("|u1", "100, 64, 64", all), 1)),
		"99 images, but factors of 100":                with("imgs.npy", datatest.NPY("|u1", "99, 64, 64", all[:99*64*64])),
		"|u1, 1 to 10000000 rows of [64 64]":           with("imgs.npy", datatest.NPY("|u1", "100, 32, 128", all)),
		"image 99: a pixel is 3":                       with("imgs.npy", changed(images, -1, 3)),
		"row 99: x is 32":                              with("latents_classes.npy", changed(factors, -16, 32)),
		"row 99: orientation":                          with("latents_classes.npy", changed(factors, -17, 0xff)),
	} {
		calls[want] = call{datatest.NPZ(t, members), taskLocation, usual}
	}
	for want, c := range calls {
		_, err := DSprites(t.Context(), c.file, c.task, c.sizes)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = DSprites(ended, good, taskLocation, usual); !errors.Is(err, context.Canceled) {
		t.Errorf("the context has ended: %v", err)
	}
}

// FuzzDSprites: a file that is read has images of two colours with labels of the task.
func FuzzDSprites(f *testing.F) {
	whole, err := os.ReadFile(datatest.NPZ(f, datatest.DSprites(11)))
	if err != nil {
		f.Fatal(err)
	}
	file := filepath.Join(f.TempDir(), "sprites.npz")
	campaign.Fuzz(f, [][]byte{whole, whole[:len(whole)/2]}, func(t *testing.T, raw []byte) {
		if err := os.WriteFile(file, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		sets, err := DSprites(t.Context(), file, taskLocation, [3]int{5, 1, 1})
		for _, set := range sets {
			if err == nil && (set.Check(t.Context(), true) != nil || len(bytes.Trim(set.Pixels, "\x00\xff")) > 0) {
				t.Errorf("%+v", set.Info)
			}
		}
	})
}
