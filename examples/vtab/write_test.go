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
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/finetune/data"
)

// cifar writes CIFAR-100's binary version with noise for pictures, and returns the records of each file.
func cifar(t *testing.T, dir string, train, test int) (records map[string][][]byte) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	records = map[string][][]byte{}
	for name, n := range map[string]int{"train.bin": train, "test.bin": test} {
		for k := range n {
			record := []byte{byte(k % 20), byte(k % 100)}
			for range 3 * 32 * 32 {
				record = append(record, byte(r.Uint32()))
			}
			records[name] = append(records[name], record)
		}
		create(t, filepath.Join(dir, name), bytes.Join(records[name], nil))
	}
	var names []byte
	for k := range 100 {
		names = fmt.Appendf(names, "kind_%d\n", k)
	}
	create(t, filepath.Join(dir, "fine_label_names.txt"), names)
	return records
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
	create(t, file, archive.Bytes())
}

func create(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o644); err != nil {
		t.Fatal(err)
	}
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
	original, dir := t.TempDir(), filepath.Join(t.TempDir(), "vtab")
	records := cifar(t, original, 67, 23)
	if err := write(t.Context(), dir, original, [3]int{31, 13, 0}); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "cifar")
	// rows returns which records of a file a list has.
	rows := func(list, file string) (rows []int) {
		set := loaded(t, folder, list, 32)
		for i, label := range set.Labels {
			row := slices.IndexFunc(records[file], func(record []byte) bool {
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
	original, dir := t.TempDir(), t.TempDir()
	cifar(t, original, 43, 5)
	if err := write(t.Context(), dir, original, [3]int{31, 13, 0}); err == nil {
		t.Error("44 of 43 pictures were written")
	}
	blocked := filepath.Join(dir, "blocked")
	create(t, blocked, nil)
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
