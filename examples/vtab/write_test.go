// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

var quiet = slog.New(slog.DiscardHandler)

// rowsOf reads a written list at its images' size, and returns the indices of some images with their labels: none of
// another dataset, and none twice.
func rowsOf(t *testing.T, folder, list string, of *data.InMemory) (rows []int) {
	t.Helper()
	files := gomlxtest.Must(data.Lists(folder, list+".txt", nil))(t)
	set := gomlxtest.Must(files.Load(t.Context(), preprocess.Settings{Resize: preprocess.ResizeExact,
		Size: [2]int{of.Height, of.Width}}, nil))(t)
	for i, label := range set.Labels {
		row := 0
		for ; row < of.Len(); row++ {
			if of.Labels[row] == label && string(of.Row(row)) == string(set.Row(i)) && !slices.Contains(rows, row) {
				break
			}
		}
		if row == of.Len() {
			t.Fatalf("image %d of %s is not the original, is there twice, or has another label", i, list)
		}
		rows = append(rows, row)
	}
	return rows
}

// Other tests check which images and labels CIFAR100 and DSprites read.
func TestWriteTasks_BitForBitInPartsThatDoNotMeet(t *testing.T) {
	cifar := datatest.Tree(t, datatest.CIFAR100(67, 23))
	train, held, err := data.CIFAR100(cifar)
	if err != nil {
		t.Fatal(err)
	}
	npz := datatest.NPZ(t, datatest.DSprites(170))
	sizes, dir := [3]int{31, 13, 17}, t.TempDir()
	for _, from := range []string{cifar, npz} {
		if err := writeTasks(t.Context(), dir, from, sizes, quiet); err != nil {
			t.Fatal(err)
		}
	}
	check := func(name, origin string, train, val, held *data.InMemory, n int) {
		folder := filepath.Join(dir, name)
		learn, tested := rowsOf(t, folder, "train800", train), rowsOf(t, folder, "test", held)
		if len(learn) != 31 || len(tested) != n || !slices.IsSorted(tested) || len(rowsOf(t, folder, "val200", val)) != 13 {
			t.Errorf("%s: training rows %v, test rows %v of %d", name, learn, tested, n)
		}
		read := func(file string) string {
			return string(gomlxtest.Must(os.ReadFile(filepath.Join(folder, file)))(t))
		}
		if read("train800val200"+".txt") != read("train800"+".txt")+read("val200"+".txt") {
			t.Errorf("%s: the list of all is not that of the two", name)
		}
		if train == val {
			rowsOf(t, folder, "train800val200", train) // none twice
		}
		if text := read("ORIGIN"); !strings.Contains(text, origin) {
			t.Errorf("%s: origin %q", name, text)
		}
	}
	check("cifar", "own split of CIFAR-100", train, train, held, 23)
	for _, task := range spriteTasks {
		sets := gomlxtest.Must(dSprites(t.Context(), npz, task.label, sizes))(t)
		check(task.folder, "own split of dSprites", sets[0], sets[1], sets[2], 17)
	}
}

func TestWriteTasks_LeaveNothingIfTheyCannotBeWritten(t *testing.T) {
	original, dir := datatest.Tree(t, datatest.CIFAR100(43, 5)), datatest.Tree(t, map[string][]byte{"blocked": nil})
	if err := writeTasks(t.Context(), dir, original, [3]int{31, 13, 0}, quiet); err == nil {
		t.Error("44 of 43 images were written")
	}
	if err := writeShapes(t.Context(), filepath.Join(dir, "blocked"), [3]int{3, 2, 2}, 24, quiet); err == nil {
		t.Error("wrote below a file")
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := writeShapes(stopped, dir, [3]int{3, 2, 2}, 24, quiet); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "blocked" {
		t.Errorf("left %v, %v", entries, err)
	}
}
