// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/finetune/data"
	"github.com/wepe-go/wepe/internal/program"
)

// originFile is a file in a task's folder that says, in one line, where its pictures come from if that is not a copy of
// VTAB-1k. Rows and tables repeat it.
const originFile = "ORIGIN"

// shapesOrigin is the origin of generated shapes, and the value of -write that asks for them.
const shapesOrigin = "shapes"

// write writes tasks into dir in the VTAB-1k layout: of generated shapes, to try every command on a machine without a
// network, or from a data set's own files, dSprites' npz or the binary version of CIFAR-100. The pictures of the latter
// are the lossless originals, and which 1,000 of them are for training is our choice: VTAB's follows the order of
// TensorFlow Datasets, and its copies hold jpegs. sizes are those of training, validation and test; CIFAR-100 has a
// test set of its own.
func write(ctx context.Context, dir, from string, sizes [3]int) error {
	switch {
	case from == shapesOrigin:
		return writeShapes(dir, sizes, 64)
	case strings.HasSuffix(from, ".npz"):
		asTheyAre := preprocess.Settings{Fit: preprocess.FitExact, Size: [2]int{64, 64}}
		return writeSprites(dir, "own split of dSprites' npz, lossless", func(q data.Task) ([3]*data.Set, error) {
			return data.DSprites(ctx, from, q, sizes, 0, asTheyAre)
		})
	}
	train, held, err := data.CIFAR100(from)
	if err != nil {
		return err
	}
	_, some, err := train.Split(sizes[0]+sizes[1], 0)
	if err != nil {
		return err
	}
	learn, val, err := some.Split(sizes[1], 0)
	if err != nil {
		return err
	}
	return writeTask(dir, "cifar", "own split of CIFAR-100's binary version, lossless", [3]*data.Set{learn, val, held})
}

// writeShapes writes the two dSprites tasks with shapes of size×size pixels that are generated.
func writeShapes(dir string, sizes [3]int, size int) error {
	return writeSprites(dir, "generated shapes, no VTAB data", func(q data.Task) (sets [3]*data.Set, err error) {
		both, held, err := data.Shapes(q, sizes[0]+sizes[1], sizes[2], size, 0)
		if err != nil {
			return sets, err
		}
		learn, val, err := both.Split(sizes[1], 0)
		return [3]*data.Set{learn, val, held}, err
	})
}

// writeSprites writes the two dSprites tasks, each with its own question about the pictures.
func writeSprites(dir, origin string, read func(data.Task) ([3]*data.Set, error)) error {
	for name, question := range map[string]data.Task{
		"dsprites_loc": data.TaskLocation, "dsprites_ori": data.TaskOrientation,
	} {
		sets, err := read(question)
		if err != nil {
			return err
		}
		if err := writeTask(dir, name, origin, sets); err != nil {
			return err
		}
	}
	return nil
}

// writeTask writes sets for training, validation and test as one task. Its folder appears when it is whole, and one
// that is there is left alone.
func writeTask(dir, name, origin string, sets [3]*data.Set) (err error) {
	folder := filepath.Join(dir, name)
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is there already: choose another -data, or remove it", folder)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	partial, err := os.MkdirTemp(dir, "."+name+"-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(partial) // nothing is left of that name after the rename
	var lines [3]string
	for i, part := range []string{train800, val200, test} {
		if lines[i], err = writePictures(partial, part, sets[i]); err != nil {
			return err
		}
	}
	for file, content := range map[string]string{
		originFile: origin + "\n", train800 + ".txt": lines[0], val200 + ".txt": lines[1],
		train1000 + ".txt": lines[0] + lines[1], // the pictures need not be there twice
		test + ".txt":      lines[2],
	} {
		if err := os.WriteFile(filepath.Join(partial, file), []byte(content), 0o644); err != nil {
			return err
		}
	}
	if err := os.Chmod(partial, 0o755); err != nil { // MkdirTemp keeps others out
		return err
	}
	program.Line(fmt.Sprintf("wrote %s: %s", folder, origin))
	return os.Rename(partial, folder)
}

// writePictures writes a set as png files and returns the lines of its list.
func writePictures(folder, part string, set *data.Set) (list string, err error) {
	if err := os.MkdirAll(filepath.Join(folder, "images", part), 0o755); err != nil {
		return "", err
	}
	var lines strings.Builder
	for i, label := range set.Labels {
		path := fmt.Sprintf("images/%s/%06d.png", part, i)
		fmt.Fprintf(&lines, "%s %d\n", path, label)
		var file bytes.Buffer
		if err := png.Encode(&file, set.Picture(i)); err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(folder, path), file.Bytes(), 0o644); err != nil {
			return "", err
		}
	}
	return lines.String(), nil
}
