// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/finetune/data"
	"github.com/wepe-go/wepe/internal/program/programtest"
)

// records are those of a file of CIFAR-100's binary version: two labels, then planes of 32×32 pixels.
func records(t *testing.T, file string) [][]byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(slices.Chunk(content, 2+3*32*32))
}

// dsprites writes an npz like dSprites' own of n pictures, where bit k of a picture's first row of pixels is bit k of
// its number, and x and the orientation are functions of the number, too.
func dsprites(t *testing.T, file string, n int) {
	t.Helper()
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	array := func(name, kind, shape string, content []byte) {
		w, err := z.Create(name + ".npy")
		if err != nil {
			t.Fatal(err)
		}
		header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", kind, shape)
		header += string(bytes.Repeat([]byte(" "), 117-len(header))) + "\n" // 128 bytes with what is before it
		if _, err := io.WriteString(w, "\x93NUMPY\x01\x00\x76\x00"+header+string(content)); err != nil {
			t.Fatal(err)
		}
	}
	pixels, factors := make([]byte, n*64*64), []byte(nil)
	for k := range n {
		for bit := range 16 {
			pixels[k*64*64+bit] = byte(k >> bit & 1)
		}
		for _, v := range []int{0, 0, 0, k % 40, k % 32, 0} {
			factors = binary.LittleEndian.AppendUint64(factors, uint64(v))
		}
	}
	array("imgs", "|u1", fmt.Sprintf("(%d, 64, 64)", n), pixels)
	array("latents_classes", "<i8", fmt.Sprintf("(%d, 6)", n), factors)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	programtest.Write(t, file, archive.Bytes())
}

// loaded reads a list that was written, at the size its pictures have.
func loaded(t *testing.T, folder, list string, size int) *data.Set {
	t.Helper()
	files, err := data.Lists(folder, list+".txt", nil)
	if err != nil {
		t.Fatal(err)
	}
	set, err := files.Load(t.Context(), preprocess.Settings{Fit: preprocess.FitExact, Size: [2]int{size, size}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestCIFAR100IsWrittenBitForBitInPartsThatDoNotMeet(t *testing.T) {
	original, dir := programtest.CIFAR100(t, 67, 23), filepath.Join(t.TempDir(), "vtab")
	if err := write(t.Context(), dir, original, [3]int{31, 13, 0}); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "cifar")
	// rows returns which records of a file a list has.
	rows := func(list, file string) (rows []int) {
		set, originals := loaded(t, folder, list, 32), records(t, filepath.Join(original, file))
		for i, label := range set.Labels {
			row := slices.IndexFunc(originals, func(record []byte) bool {
				for k := range 32 * 32 { // planes against interleaved pixels
					for c := range 3 {
						if record[2+1024*c+k] != set.Image(i)[3*k+c] {
							return false
						}
					}
				}
				return int32(record[1]) == label
			})
			if row < 0 {
				t.Fatalf("picture %d of %s is none of %s, or has another label", i, list, file)
			}
			rows = append(rows, row)
		}
		return rows
	}
	learn, val, both := rows(train800, "train.bin"), rows(val200, "train.bin"), rows(train1000, "train.bin")
	if len(learn) != 31 || len(val) != 13 || !slices.Equal(both, slices.Concat(learn, val)) {
		t.Errorf("lists of rows %v, %v and %v", learn, val, both)
	}
	slices.Sort(both)
	if len(slices.Compact(both)) != 31+13 {
		t.Errorf("pictures are there twice: %v", both)
	}
	if held := rows(test, "test.bin"); len(held) != 23 || !slices.IsSorted(held) {
		t.Errorf("test rows %v, want all 23", held)
	}
	origin, err := os.ReadFile(filepath.Join(folder, originFile))
	if err != nil || !bytes.Contains(origin, []byte("own split")) {
		t.Errorf("origin %q, %v", origin, err)
	}
}

func TestDSpritesIsWrittenForBothQuestions(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "dsprites.npz")
	dsprites(t, file, 170)
	if err := write(t.Context(), dir, file, [3]int{31, 13, 17}); err != nil {
		t.Fatal(err)
	}
	for name, label := range map[string]func(k int) int{
		"dsprites_loc": func(k int) int { return k % 32 / 2 },
		"dsprites_ori": func(k int) int { return k % 40 * 2 / 5 },
	} {
		seen := map[int]string{}
		for list, n := range map[string]int{train800: 31, val200: 13, test: 17} {
			set := loaded(t, filepath.Join(dir, name), list, 64)
			for i, got := range set.Labels {
				k := 0
				for bit := range 16 {
					k |= int(set.Image(i)[3*bit]&1) << bit
				}
				if int(got) != label(k) || seen[k] != "" {
					t.Errorf("%s: picture %d of %s has label %d, want %d, seen in %q", name, k, list, got, label(k), seen[k])
				}
				seen[k] = list
			}
			if set.Len() != n {
				t.Errorf("%s: %d pictures in %s, want %d", name, set.Len(), list, n)
			}
		}
	}
}

func TestATaskThatCannotBeWrittenLeavesNothing(t *testing.T) {
	original, dir := programtest.CIFAR100(t, 43, 5), t.TempDir()
	if err := write(t.Context(), dir, original, [3]int{31, 13, 0}); err == nil {
		t.Error("44 of 43 pictures were written")
	}
	blocked := filepath.Join(dir, "blocked")
	programtest.Write(t, blocked, nil)
	if err := write(t.Context(), blocked, shapesOrigin, [3]int{3, 2, 2}); err == nil {
		t.Error("wrote below a file")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left %v, %v", entries, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "cifar")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
