// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
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
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/report"
)

// with runs the program with flags.
func with(t *testing.T, values map[string]string) {
	t.Helper()
	for name, value := range values {
		gomlxtest.NoError(t, flag.Set(name, value))
	}
	gomlxtest.NoError(t, run(t.Context()))
}

func TestRun_RefusesArgumentsAndWritesOnlyIntoAFolder(t *testing.T) {
	for args, want := range map[string]string{"-seeds 1 oops -plan": "oops", "-write shapes": "-data",
		"-set aspect=squash": "aspect"} {
		gomlxtest.NoError(t, flag.CommandLine.Parse(strings.Fields(args)))
		if err := run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
		gomlxtest.NoError(t, errors.Join(flag.Set("write", ""), flag.Set("set", ""), flag.CommandLine.Parse(nil)))
	}
}

func TestASettingIsChosenTrainedOnceAndTabulated(t *testing.T) {
	t.Setenv("GOMLX_BACKEND", "go:ops_sequential")
	tasks, results := t.TempDir(), t.TempDir()
	with(t, map[string]string{"write": "shapes", "data": tasks})
	for _, list := range []string{"train800", "val200", "train800val200", "test"} { // 16 images of each are enough
		path := filepath.Join(tasks, "dsprites_ori", list+".txt")
		lines := strings.SplitAfter(string(gomlxtest.Must(os.ReadFile(path))(t)), "\n")
		gomlxtest.NoError(t, os.WriteFile(path, []byte(strings.Join(lines[:16], "")), 0o644))
	}
	with(t, map[string]string{"write": "", "from": "../cifar100/demo/vit", "out": results, "tasks": "dsprites_ori",
		"recipe": "demo-shapes", "positions": "learned", "sweep": "learning_rate=0.0001,0.01", "allow-partial": "true",
		"set": "steps=2;warmup_steps=1;batch_size=4;eval_every_steps=2"})
	path := filepath.Join(results, "results.jsonl")
	rows := gomlxtest.Must(report.ReadFiles(path))(t).Results
	if len(rows) != 3 { // two to choose on val200, one final
		t.Fatalf("%d rows, want 3", len(rows))
	}
	for i, want := range []int{16, 16, 0} {
		is.Equal(t, "images", [2]int{rows[i].Validation.Images, rows[i].Test.Images}, [2]int{want, 16 - want})
	}
	table := string(gomlxtest.Must(os.ReadFile(filepath.Join(results, "table.md")))(t))
	if !strings.Contains(table, "| dsprites_ori | 16 |") {
		t.Errorf("the table lacks the task:\n%s", table)
	}
	before := gomlxtest.Must(os.ReadFile(path))(t)
	with(t, map[string]string{"plan": "true"})
	with(t, map[string]string{"plan": "false"}) // nothing is left to do
	is.Equal(t, "the second time", string(gomlxtest.Must(os.ReadFile(path))(t)), string(before))
	with(t, map[string]string{"out": filepath.Join(results, "other"), "shard": "7/8"}) // no run of the three is its own
}

var quiet = slog.New(slog.DiscardHandler)

// rowsOf reads a written list at its images' size, and returns the indices of some images with their labels: none of
// another dataset, and none twice.
func rowsOf(t *testing.T, folder, list string, of *data.InMemory) (rows []int) {
	t.Helper()
	files := gomlxtest.Must(data.Lists(folder, list+".txt", nil))(t)
	set := gomlxtest.Must(files.Load(t.Context(), preprocess.Settings{Resize: preprocess.ResizeExact,
		Size: [2]int{of.Height, of.Width}}, nil))(t)
	originals := map[string]int{} // they are all different
	for row := range of.Len() {
		originals[fmt.Sprint(of.Labels[row])+string(of.Row(row))] = row
	}
	for i, label := range set.Labels {
		row, known := originals[fmt.Sprint(label)+string(set.Row(i))]
		if !known || slices.Contains(rows, row) {
			t.Fatalf("image %d of %s is not the original, is there twice, or has another label", i, list)
		}
		rows = append(rows, row)
	}
	return rows
}

// The ids of the first batch of CIFAR-10's 50,000 training images from TensorFlow Datasets, as Ganegedara, TensorFlow
// in Action (2022), chapter 3, prints it (b'train_16399', …). CIFAR-100 and dSprites have keys of the same kind.
func TestChoose_TheOrderOfTensorFlowDatasets(t *testing.T) {
	rows := gomlxtest.Must(choose(50_000, []int{0, 9}, []int{16, 200}))(t)
	want := []int{16399, 1680, 47917, 17307, 27051, 48736, 26263, 1456, 19135, 31598, 12970, 4223,
		27152, 49635, 4093, 17537}
	is.Equal(t, "rows for training", rows[0], want)
	is.Equal(t, "rows for validation", len(rows[1]), 200)
}

// Other tests check which images and labels CIFAR100 and DSprites read.
func TestWriteTasks_BitForBitInPartsThatDoNotMeet(t *testing.T) {
	cifar := datatest.Tree(t, datatest.CIFAR100(167, 23))
	train, held, err := data.CIFAR100(cifar)
	gomlxtest.NoError(t, err)
	npz := datatest.NPZ(t, datatest.DSprites(170))
	sizes, dir := [3]int{31, 13, 17}, t.TempDir()
	for _, from := range []string{cifar, npz} {
		gomlxtest.NoError(t, writeTasks(t.Context(), dir, from, sizes, quiet))
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
		is.Equal(t, name, read("train800val200.txt"), read("train800.txt")+read("val200.txt"))
		if train == val {
			rowsOf(t, folder, "train800val200", train) // none twice
		}
		if text := read("ORIGIN"); !strings.Contains(text, origin) {
			t.Errorf("%s: origin %q", name, text)
		}
	}
	check("cifar", "VTAB-1k's images of CIFAR-100", train, train, held, 23)
	for _, task := range spriteTasks {
		sets := gomlxtest.Must(dSprites(t.Context(), npz, task.label, sizes))(t)
		check(task.folder, "VTAB-1k's images of dSprites", sets[0], sets[1], sets[2], 17)
	}
}

func TestWriteTasks_LeaveNothingIfTheyCannotBeWritten(t *testing.T) {
	original, dir := datatest.Tree(t, datatest.CIFAR100(43, 5)), datatest.Tree(t, map[string][]byte{"blocked": nil})
	if err := writeTasks(t.Context(), dir, original, [3]int{31, 13, 0}, quiet); err == nil {
		t.Error("44 of 43 images were written")
	}
	if err := writeTasks(t.Context(), filepath.Join(dir, "blocked"), "shapes", [3]int{3, 2}, quiet); err == nil {
		t.Error("wrote below a file")
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := writeTasks(stopped, dir, "shapes", [3]int{3, 2}, quiet); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "blocked" {
		t.Errorf("left %v, %v", entries, err)
	}
}

// A second time goes on after an interruption, and never changes a folder of another origin.
func TestWriteTasks_ASecondTime(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "dsprites_loc", "ORIGIN"), filepath.Join(dir, "dsprites_ori")
	write := func() error { return writeTasks(t.Context(), dir, "shapes", [3]int{3, 2}, quiet) }
	gomlxtest.NoError(t, errors.Join(write(), os.RemoveAll(second), write()))
	_, err := os.Stat(filepath.Join(second, "test.txt"))
	gomlxtest.NoError(t, errors.Join(err, os.WriteFile(first, nil, 0o644)))
	if err := write(); err == nil {
		t.Error("wrote over a task of another origin")
	}
}

func TestDSprites_TakesDisjointPartsWithVTABsLabels(t *testing.T) {
	const n = 1010
	file := datatest.NPZ(t, datatest.DSprites(n))
	for k, label := range []func(f [6]int) int{
		func(f [6]int) int { return f[4] / 2 },                 // 32 positions of x by two
		func(f [6]int) int { return int(float64(f[3]) / 2.5) }, // 40 angles, floor(v/2.5)
	} {
		task, sizes := spriteTasks[k], [3]int{797, 101, 53}
		sets := gomlxtest.Must(dSprites(t.Context(), file, task.label, sizes))(t)
		seen := map[int]bool{}
		for part, set := range sets {
			if err := data.Check(t.Context(), set, true); err != nil || set.Len() != sizes[part] || len(set.Classes) != 16 {
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
					t.Fatalf("%s, image %d: label %d, row %v", task.task, k, set.Labels[i], set.Row(i)[:3*64])
				}
			}
		}
	}
}

// Each is refused with the file, and the array or its row if one is wrong.
func TestDSprites_Refuses(t *testing.T) {
	images, factors := datatest.DSprites(100)["imgs.npy"], datatest.DSprites(100)["latents_classes.npy"]
	with := func(name string, content []byte) string {
		members := datatest.DSprites(100)
		members[name] = content
		return datatest.NPZ(t, members)
	}
	changed := func(raw []byte, at int, v byte) []byte {
		raw = bytes.Clone(raw)
		raw[len(raw)+at] = v
		return raw
	}
	all, usual := make([]byte, 100*64*64), [3]int{80, 10, 10}
	good := datatest.NPZ(t, datatest.DSprites(100))
	raw := gomlxtest.Must(os.ReadFile(good))(t)
	half := filepath.Join(datatest.Tree(t, map[string][]byte{"half.npz": raw[:len(raw)/2]}), "half.npz")
	for name, c := range map[string]struct {
		file  string
		sizes [3]int
		want  string
	}{
		"training":    {good, [3]int{81, 0, 0}, "81 images"},
		"test":        {good, [3]int{8, 1, 11}, "11 images"},
		"below 0":     {good, [3]int{8, -1, 0}, "-1 images"},
		"truncated":   {half, usual, half},
		"no images":   {with("imgs.npy", nil), usual, "imgs"},
		"no factors":  {with("latents_classes.npy", nil), usual, "latents_classes"},
		"a pickle":    {with("imgs.npy", datatest.NPY("|O", all, 100, 64, 64)), usual, "imgs"},
		"signed":      {with("imgs.npy", datatest.NPY("|i1", all, 100, 64, 64)), usual, "imgs"},
		"too long":    {with("imgs.npy", append(datatest.NPY("|u1", all, 100, 64, 64), 1)), usual, "imgs"},
		"sides":       {with("imgs.npy", datatest.NPY("|u1", all, 100, 32, 128)), usual, "imgs"},
		"99 images":   {with("imgs.npy", datatest.NPY("|u1", all[:99*64*64], 99, 64, 64)), usual, "99 images"},
		"grey":        {with("imgs.npy", changed(images, -1, 3)), usual, "image 99"},
		"x":           {with("latents_classes.npy", changed(factors, -16, 32)), usual, "row 99: x is 32"},
		"orientation": {with("latents_classes.npy", changed(factors, -17, 0xff)), usual, "row 99: orientation"},
	} {
		_, err := dSprites(t.Context(), c.file, spriteTasks[0].label, c.sizes)
		if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), c.file) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := dSprites(ended, good, spriteTasks[0].label, usual); !errors.Is(err, context.Canceled) {
		t.Errorf("the context has ended: %v", err)
	}
}
