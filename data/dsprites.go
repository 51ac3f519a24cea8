// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/numpy"
)

// dSprites: Matthey, Higgins, Hassabis and Lerchner (2017), one file of NumPy arrays
// (dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz). Its 737,280 images are 3 GB once unpacked, so the arrays are
// streamed and only the images asked for are kept.
const (
	spriteSide    = 64
	spriteBytes   = spriteSide * spriteSide
	spriteFactors = 6 // colour, shape, scale, orientation, x, y
	maxSprites    = 10_000_000
)

// DSprites reads images for a task from the data set's own npz file: sizes[0] for training, sizes[1] for validation,
// sizes[2] for testing; of size 0 the set is nil. As in VTAB the parts are 80, 10 and 10 % of all images, which are
// shuffled before, here as a function of the seed, and the first of a part are taken: {800, 200, 73728} is VTAB-1k's
// amount. Which images these are is our own choice, since VTAB's depends on the order in which TensorFlow Datasets
// happened to write them; and VTAB-1k folders hold jpegs, these are the lossless originals, black and white as RGB.
//
// Errors name the file; nothing but the arrays imgs and latents_classes is read, never the pickle beside them.
func DSprites(ctx context.Context, file string, task Task, sizes [3]int, seed int64,
	p preprocess.Settings) (sets [3]*Memory, err error) {
	if _, known := tasks[task]; !known {
		return sets, fmt.Errorf("data: unknown task %q: take %s or %s", task, TaskLocation, TaskOrientation)
	}
	f, err := os.Open(file)
	if err != nil {
		return sets, fmt.Errorf("data: dSprites: %w", err)
	}
	defer f.Close()
	if err := readSprites(ctx, f, task, sizes, seed, p, &sets); err != nil {
		return [3]*Memory{}, fmt.Errorf("data: dSprites: %s: %w", file, err)
	}
	return sets, nil
}

// readSprites fills the sets with the chosen rows of both arrays, in the file's order.
func readSprites(ctx context.Context, f *os.File, task Task, sizes [3]int, seed int64, p preprocess.Settings,
	sets *[3]*Memory) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	members, err := numpy.List(f, info.Size())
	if err != nil {
		return err
	}
	factors, n, err := openArray(members, "latents_classes", "<i8", []int{spriteFactors})
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
		return fmt.Errorf("%d images, but factors of %d", count, n)
	}
	of, err := choose(n, sizes, seed)
	if err != nil {
		return err
	}
	for part, name := range []string{"train", "val", "test"} {
		if sizes[part] == 0 {
			continue
		}
		sets[part], err = newMemory("dsprites-"+string(task)+"-"+name, sizes[part], tasks[task].classes, p)
		if err != nil {
			return err
		}
	}
	inFactors, inImages := bufio.NewReaderSize(factors, 1<<16), bufio.NewReaderSize(images, 1<<16)
	reader := spriteReader{task: task, settings: p, sets: sets}
	for row := range n {
		if row%4096 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := reader.read(inFactors, inImages, row, int(of[row])-1); err != nil {
			return err
		}
	}
	for _, a := range []io.Reader{inFactors, inImages} { // the end of a member is where its checksum is compared
		switch _, err := io.ReadFull(a, reader.values[:1]); {
		case err == nil:
			return errors.New("an array is longer than its header says")
		case !errors.Is(err, io.EOF):
			return err
		}
	}
	return nil
}

// spriteReader puts images into their sets.
type spriteReader struct {
	task     Task
	settings preprocess.Settings
	sets     *[3]*Memory
	filled   [3]int
	values   [8 * spriteFactors]byte
	pixels   [spriteBytes]byte
}

// read reads the next row of both arrays and puts its image into a set, or into none where part is below 0.
func (r *spriteReader) read(factors, images io.Reader, row, part int) error {
	if _, err := io.ReadFull(factors, r.values[:]); err != nil {
		return fmt.Errorf("latents_classes, row %d: %w", row, asDamage(err))
	}
	if _, err := io.ReadFull(images, r.pixels[:]); err != nil {
		return fmt.Errorf("imgs, image %d: %w", row, asDamage(err))
	}
	if part < 0 {
		return nil
	}
	s, err := spriteOf(r.values[:])
	if err != nil {
		return fmt.Errorf("latents_classes, row %d: %w", row, err)
	}
	img := &Image{Height: spriteSide, Width: spriteSide, Pixels: make([]uint8, 0, 3*spriteBytes)}
	for _, v := range r.pixels {
		if v > 1 {
			return fmt.Errorf("imgs, image %d: a pixel is %d, want 0 or 1", row, v)
		}
		img.Pixels = append(img.Pixels, -v, -v, -v) // 0 or 255
	}
	if img, err = img.Preprocess(r.settings); err != nil {
		return err
	}
	r.sets[part].put(r.filled[part], img)
	r.sets[part].Labels[r.filled[part]] = int32(tasks[r.task].label(s))
	r.filled[part]++
	return nil
}

// choose returns for each row which part it goes to, counted from 1, or 0.
func choose(n int, sizes [3]int, seed int64) (of []uint8, err error) {
	bounds := [4]int{0, n * 8 / 10, n * 9 / 10, n}
	of = make([]uint8, n)
	order := draw(streamSplit, seed, 0, 0).Perm(n)
	for part, name := range []string{"training", "validation", "test"} {
		rows := order[bounds[part]:bounds[part+1]]
		if sizes[part] < 0 || sizes[part] > len(rows) {
			return nil, fmt.Errorf("asked for %d of %d %s images", sizes[part], len(rows), name)
		}
		for _, row := range rows[:sizes[part]] {
			of[row] = uint8(part + 1)
		}
	}
	return of, nil
}

// spriteOf reads the factors of one image.
func spriteOf(values []byte) (s sprite, err error) {
	for k, f := range []struct {
		name string
		to   *int
		n    int
	}{
		{"shape", &s.shape, spriteShapes}, {"scale", &s.scale, spriteScales},
		{"orientation", &s.orientation, spriteOrientations}, {"x", &s.column, spritePlaces}, {"y", &s.row, spritePlaces},
	} {
		v := int64(binary.LittleEndian.Uint64(values[8*(k+1):])) // the colour, always 0, comes first
		if v < 0 || v >= int64(f.n) {
			return s, fmt.Errorf("%s is %d, want 0 to %d", f.name, v, f.n-1)
		}
		*f.to = int(v)
	}
	return s, nil
}

// openArray opens an array of the given type and of shape [n, rest...].
func openArray(members []*numpy.Member, name, dtype string, rest []int) (a *numpy.Array, n int, err error) {
	index := slices.IndexFunc(members, func(m *numpy.Member) bool { return m.Name == name })
	if index < 0 {
		return nil, 0, fmt.Errorf("no array %s: this is not the dSprites file", name)
	}
	if a, err = members[index].Open(); err != nil {
		return nil, 0, asDamage(err)
	}
	if a.Type != dtype || len(a.Shape) != 1+len(rest) || !slices.Equal(a.Shape[1:], rest) || a.Shape[0] < 1 ||
		a.Shape[0] > maxSprites {
		a.Close()
		return nil, 0, fmt.Errorf("%s: type %s, shape %v, want %s, 1 to %d rows of %v", name, a.Type, a.Shape, dtype,
			maxSprites, rest)
	}
	return a, a.Shape[0], nil
}
