// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/wepe-go/wepe/finetune/data"
)

// generated are the tasks that can be made up: data.Shapes asks the questions of VTAB's two dSprites tasks.
var generated = map[string]data.Task{"dsprites_loc": data.TaskLocation, "dsprites_ori": data.TaskOrientation}

// generate writes both tasks in the VTAB-1k layout, of generated shapes of size×size pixels: enough to try every
// command on a machine without a network, and no VTAB result. A folder appears when it is whole; one that is there is
// left alone.
func generate(dir string, train, val, testImages, size int) error {
	for name, question := range generated {
		folder := filepath.Join(dir, name)
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is there already: choose another -data to write generated shapes to", folder)
		}
		learn, measure, err := data.Shapes(question, train+val, testImages, size, 0)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		partial, err := os.MkdirTemp(dir, "."+name+"-*")
		if err != nil {
			return err
		}
		defer os.RemoveAll(partial)
		lists := []struct {
			name       string
			set        *data.Set
			first, end int
			pictures   string // whose folder its pictures are in
		}{
			{train800, learn, 0, train, train1000}, {val200, learn, train, train + val, train1000},
			{train1000, learn, 0, train + val, train1000}, {test, measure, 0, testImages, test},
		}
		for _, l := range lists {
			if err := writeList(partial, l.name, l.pictures, l.set, l.first, l.end); err != nil {
				return err
			}
		}
		if err := os.Chmod(partial, 0o755); err != nil {
			return err
		}
		if err := os.Rename(partial, folder); err != nil {
			return err
		}
	}
	return nil
}

// writeList writes rows first to end of a set as pictures and a list of them. Lists may share pictures.
func writeList(folder, name, pictures string, set *data.Set, first, end int) error {
	if err := os.MkdirAll(filepath.Join(folder, "images", pictures), 0o755); err != nil {
		return err
	}
	list, err := os.Create(filepath.Join(folder, name+".txt"))
	if err != nil {
		return err
	}
	lines := bufio.NewWriter(list)
	for i := first; i < end; i++ {
		path := fmt.Sprintf("images/%s/%06d.png", pictures, i)
		fmt.Fprintf(lines, "%s %d\n", path, set.Labels[i])
		if err = writePicture(filepath.Join(folder, path), set, i); err != nil {
			break
		}
	}
	return errors.Join(err, lines.Flush(), list.Close())
}

func writePicture(path string, set *data.Set, i int) error {
	picture, pixels := image.NewNRGBA(image.Rect(0, 0, set.Width, set.Height)), set.Image(i)
	for k := range set.Width * set.Height {
		copy(picture.Pix[4*k:], []uint8{pixels[3*k], pixels[3*k+1], pixels[3*k+2], 255})
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(png.Encode(file, picture), file.Close())
}
