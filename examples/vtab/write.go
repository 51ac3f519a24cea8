// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"fmt"
	"image/png"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/disk"
	"github.com/wepe-go/wepe/internal/numpy"
)

// vtabSizes are the numbers of images of dSprites' tasks for training, validation and test.
var vtabSizes = [3]int{800, 200, 73_728} // a tenth of dSprites

// writeTasks writes tasks into dir in the VTAB-1k layout and logs each: from generated shapes, to try every command
// offline, or from a dataset's own files, dSprites' npz or the binary version of CIFAR-100. The images of the latter
// are VTAB's, but the lossless originals, where its copies hold jpegs. CIFAR-100 has a test set of its own size.
func writeTasks(ctx context.Context, dir, from string, sizes [3]int, logger *slog.Logger) error {
	origin, tasks := "VTAB-1k's images of CIFAR-100's binary version, lossless", []spriteTask{{folder: "cifar"}}
	read := func(spriteTask) (sets [3]data.Dataset, err error) {
		train, held, err := data.CIFAR100(from)
		if err != nil {
			return sets, err
		}
		rows, err := choose(train.Len(), []int{0, 9}, sizes[:2])
		if err != nil {
			return sets, err
		}
		return [3]data.Dataset{data.Subset(train, rows[0]), data.Subset(train, rows[1]), held}, nil
	}
	switch {
	case from == "shapes":
		origin, tasks = "generated shapes, no VTAB data", spriteTasks
		read = func(t spriteTask) (sets [3]data.Dataset, err error) {
			both, held, err := data.Shapes(t.task, sizes[0]+sizes[1], sizes[0]+sizes[1], spriteSide, 0)
			if err != nil {
				return sets, err
			}
			learn, val, err := data.RandomSplit(both, sizes[1], 0)
			return [3]data.Dataset{learn, val, held}, err
		}
	case strings.HasSuffix(from, ".npz"):
		origin, tasks = "VTAB-1k's images of dSprites' npz, lossless", spriteTasks
		read = func(t spriteTask) ([3]data.Dataset, error) {
			sets, err := dSprites(ctx, from, t.label, sizes)
			return [3]data.Dataset{sets[0], sets[1], sets[2]}, err
		}
	}
	for _, t := range tasks {
		sets, err := read(t)
		if err == nil {
			err = writeTask(ctx, dir, t.folder, origin, sets, logger)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// spriteTask is a task of dSprites: its folder, its name in package data, and its class of an image.
type spriteTask struct {
	folder, task string
	label        func(orientation, x int) int
}

var spriteTasks = []spriteTask{
	{"dsprites_loc", "location", func(_, x int) int { return x / 2 }},                            // 32 positions
	{"dsprites_ori", "orientation", func(orientation, _ int) int { return orientation * 2 / 5 }}, // floor(k/2.5) of 40
}

// writeTask writes datasets for training, validation and test as one task. Its folder appears when it is complete; an
// existing folder is not changed, and refused unless it is of the same origin, as after an interruption.
func writeTask(ctx context.Context, dir, name, origin string, sets [3]data.Dataset, logger *slog.Logger) (err error) {
	folder := filepath.Join(dir, name)
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		if was, err := os.ReadFile(filepath.Join(folder, "ORIGIN")); err == nil && string(was) == origin+"\n" {
			logger.Info("task is already there", "directory", folder, "origin", origin)
			return nil
		}
		return fmt.Errorf("%s already exists: choose another -data, or remove it", folder)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	partial, err := os.MkdirTemp(dir, "."+name+"-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(partial) // no longer exists after the rename
	var lines [3]string
	for i, part := range []string{"train800", "val200", "test"} {
		if lines[i], err = writeImages(ctx, partial, part, sets[i]); err != nil {
			return err
		}
	}
	for file, content := range map[string]string{
		"ORIGIN": origin + "\n", "train800.txt": lines[0], "val200.txt": lines[1],
		"train800val200.txt": lines[0] + lines[1], // refers to the same images
		"test.txt":           lines[2],
	} {
		if err := os.WriteFile(filepath.Join(partial, file), []byte(content), 0o644); err != nil {
			return err
		}
	}
	if err := os.Chmod(partial, 0o755); err != nil { // MkdirTemp excludes other users
		return err
	}
	if err := os.Rename(partial, folder); err != nil {
		return err
	}
	logger.Info("task written", "directory", folder, "origin", origin)
	return nil
}

// writeImages writes a dataset as png files and returns the lines of its list.
func writeImages(ctx context.Context, folder, part string, set data.Dataset) (list string, err error) {
	if err := os.MkdirAll(filepath.Join(folder, "images", part), 0o755); err != nil {
		return "", err
	}
	var lines strings.Builder
	for i, label := range set.Describe().Labels {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		path := fmt.Sprintf("images/%s/%06d.png", part, i)
		fmt.Fprintf(&lines, "%s %d\n", path, label)
		img, err := set.Image(ctx, i)
		if err != nil {
			return "", err
		}
		var file bytes.Buffer
		if err := png.Encode(&file, img.RGBA()); err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(folder, path), file.Bytes(), 0o644); err != nil {
			return "", err
		}
	}
	return lines.String(), nil
}

// dSprites: Matthey, Higgins, Hassabis and Lerchner (2017), one file of NumPy arrays
// (dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz). Its 737,280 images take 3 GB uncompressed, so the arrays are
// streamed and only the requested images are kept.
const (
	spriteSide  = 64
	spriteBytes = spriteSide * spriteSide
	maxSprites  = 10_000_000
)

// spriteFactors are the factors of an image and their numbers of values.
var spriteFactors = []struct {
	name string
	n    int64
}{{"colour", 1}, {"shape", 3}, {"scale", 6}, {"orientation", 40}, {"x", 32}, {"y", 32}}

// dSprites reads images from the dataset's own npz file: sizes[0] for training, sizes[1] for validation, sizes[2] for
// testing. The images are black and white as RGB.
//
// Errors name the file. Only the arrays imgs and latents_classes are read, never the pickle beside them.
func dSprites(ctx context.Context, file string, label func(orientation, x int) int, sizes [3]int) (
	sets [3]*data.InMemory, err error) {
	f, err := disk.Open(file)
	if err != nil {
		return sets, fmt.Errorf("dSprites: %w", err)
	}
	defer f.Close()
	if err := readSprites(ctx, f, label, sizes, &sets); err != nil {
		return [3]*data.InMemory{}, fmt.Errorf("dSprites: %s: %w", file, err)
	}
	return sets, nil
}

// readSprites fills the datasets with the chosen rows of both arrays, in the file's order.
func readSprites(ctx context.Context, f *os.File, label func(orientation, x int) int, sizes [3]int,
	sets *[3]*data.InMemory) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	members, err := numpy.List(f, info.Size())
	if err != nil {
		return err
	}
	factors, n, err := openArray(members, "latents_classes", "<i8", []int{len(spriteFactors)})
	if err != nil {
		return err
	}
	defer factors.Close()
	images, count, err := openArray(members, "imgs", "|u1", []int{spriteSide, spriteSide})
	if err != nil {
		return err
	}
	defer images.Close()
	if count != n {
		return fmt.Errorf("the file has %d images, but factors of %d", count, n)
	}
	rows, err := choose(n, []int{0, 8, 9}, sizes[:])
	if err != nil {
		return err
	}
	of := make([]uint8, n) // the split of each row, counted from 1
	for part, chosen := range rows {
		for _, row := range chosen {
			of[row] = uint8(part + 1)
		}
	}
	for part, name := range []string{"train", "val", "test"} {
		sets[part] = &data.InMemory{Info: data.Info{Name: "dsprites-" + name, Classes: make([]string, 16), Height: spriteSide,
			Width: spriteSide, Channels: 3}}
	}
	readers := []io.Reader{bufio.NewReaderSize(factors, 1<<16), bufio.NewReaderSize(images, 1<<16)}
	values, pixels := make([]int64, len(spriteFactors)), make([]byte, spriteBytes)
	for row := range n {
		if row%4096 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := readSprite(readers[0], readers[1], row, values, pixels); err != nil {
			return err
		}
		if of[row] > 0 {
			set := sets[of[row]-1]
			for _, v := range pixels { // 0 or 255
				set.Pixels = append(set.Pixels, -v, -v, -v)
			}
			set.Labels = append(set.Labels, int32(label(int(values[3]), int(values[4]))))
		}
	}
	for _, a := range readers { // the checksum is compared at the end of a member
		if _, err := io.Copy(io.Discard, a); err != nil {
			return err
		}
	}
	return nil
}

// readSprite reads the factors and pixels of one image, and refuses those that the dataset does not have.
func readSprite(factors, images io.Reader, row int, values []int64, pixels []byte) error {
	if err := binary.Read(factors, binary.LittleEndian, values); err != nil {
		return fmt.Errorf("latents_classes, row %d: %w", row, err)
	}
	if _, err := io.ReadFull(images, pixels); err != nil {
		return fmt.Errorf("imgs, image %d: %w", row, err)
	}
	if v := slices.Max(pixels); v > 1 {
		return fmt.Errorf("imgs, image %d: a pixel is %d, want 0 or 1", row, v)
	}
	for k, f := range spriteFactors {
		if v := values[k]; v < 0 || v >= f.n {
			return fmt.Errorf("latents_classes, row %d: %s is %d, want 0 to %d", row, f.name, v, f.n-1)
		}
	}
	return nil
}

// choose returns the rows of VTAB-1k among the n examples of a split "train": for each part the first that come after
// so many tenths of them (task_adaptation/data/cifar.py, dsprites.py). They are in the order of TensorFlow Datasets, by
// the MD5 of the split's name and their number (core/hashing.py).
func choose(n int, tenths, sizes []int) (rows [][]int, err error) {
	keys, order := make([][md5.Size]byte, n), make([]int, n)
	for i := range n {
		keys[i], order[i] = md5.Sum(fmt.Append([]byte("train"), i)), i
	}
	slices.SortFunc(order, func(a, b int) int { return bytes.Compare(keys[a][:], keys[b][:]) })
	ends := append(slices.Clone(tenths[1:]), 10)
	for part, size := range sizes {
		from, to := n*tenths[part]/10, n*ends[part]/10
		if size < 0 || size > to-from {
			return nil, fmt.Errorf("%d images requested, but %d %s images exist", size, to-from,
				[]string{"training", "validation", "test"}[part])
		}
		rows = append(rows, order[from:from+size])
	}
	return rows, nil
}

// openArray opens an array of the given type and of shape [n, rest...].
func openArray(members []*numpy.Member, name, dtype string, rest []int) (a *numpy.Array, n int, err error) {
	index := slices.IndexFunc(members, func(m *numpy.Member) bool { return m.Name == name })
	if index < 0 {
		return nil, 0, fmt.Errorf("no array %s: this is not the dSprites file", name)
	}
	if a, err = members[index].Open(); err != nil {
		return nil, 0, err
	}
	if a.Type != dtype || len(a.Shape) != 1+len(rest) || !slices.Equal(a.Shape[1:], rest) || a.Shape[0] < 1 ||
		a.Shape[0] > maxSprites {
		a.Close()
		return nil, 0, fmt.Errorf("%s: type %s, shape %v, want %s, 1 to %d rows of %v", name, a.Type, a.Shape, dtype,
			maxSprites, rest)
	}
	return a, a.Shape[0], nil
}
