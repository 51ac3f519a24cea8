// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/png"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/wepe-go/wepe/data"
)

// vtabSizes are the numbers of images of dSprites' tasks for training, validation and test.
var vtabSizes = [3]int{800, 200, 73_728} // a tenth of dSprites

// writeTasks writes tasks into dir in the VTAB-1k layout and logs each: from generated shapes, to try every command
// offline, or from a dataset's own files, dSprites' npz or the binary version of CIFAR-100. The images of the latter
// are the lossless originals, and which 1,000 of them are for training is our choice: VTAB's follows the order of
// TensorFlow Datasets, and its copies hold jpegs. CIFAR-100 has a test set of its own size.
func writeTasks(ctx context.Context, dir, from string, sizes [3]int, logger *slog.Logger) error {
	if from == "shapes" {
		return writeShapes(ctx, dir, [3]int{sizes[0], sizes[1], sizes[0] + sizes[1]}, 64, logger)
	}
	if strings.HasSuffix(from, ".npz") {
		const origin = "own split of dSprites' npz, lossless"
		return writeSprites(ctx, dir, origin, logger, func(t spriteTask) ([3]data.Dataset, error) {
			sets, err := dSprites(ctx, from, t.label, sizes)
			return [3]data.Dataset{sets[0], sets[1], sets[2]}, err
		})
	}
	train, held, err := data.CIFAR100(from)
	if err != nil {
		return err
	}
	_, some, err := data.RandomSplit(train, sizes[0]+sizes[1], 0)
	if err != nil {
		return err
	}
	learn, val, err := data.RandomSplit(some, sizes[1], 0)
	if err != nil {
		return err
	}
	const origin = "own split of CIFAR-100's binary version, lossless"
	return writeTask(ctx, dir, "cifar", origin, [3]data.Dataset{learn, val, held}, logger)
}

// writeShapes writes the two dSprites tasks with generated shapes of side×side pixels.
func writeShapes(ctx context.Context, dir string, sizes [3]int, side int, logger *slog.Logger) error {
	const origin = "generated shapes, no VTAB data"
	return writeSprites(ctx, dir, origin, logger, func(t spriteTask) (s [3]data.Dataset, err error) {
		both, held, err := data.Shapes(t.task, sizes[0]+sizes[1], sizes[2], side, 0)
		if err != nil {
			return s, err
		}
		learn, val, err := data.RandomSplit(both, sizes[1], 0)
		return [3]data.Dataset{learn, val, held}, err
	})
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

// writeSprites writes the two dSprites tasks.
func writeSprites(ctx context.Context, dir, origin string, logger *slog.Logger,
	read func(spriteTask) ([3]data.Dataset, error)) error {
	for _, t := range spriteTasks {
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

// writeTask writes datasets for training, validation and test as one task. Its folder appears when it is complete; an
// existing folder is not changed.
func writeTask(ctx context.Context, dir, name, origin string, sets [3]data.Dataset, logger *slog.Logger) (err error) {
	folder := filepath.Join(dir, name)
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
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
