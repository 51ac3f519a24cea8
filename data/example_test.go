// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"testing/fstest"

	"github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// One augmented batch: inputs are the dataset's bytes and the batch's plan, outputs are images and soft labels.
func Example() {
	train, _, err := data.Shapes("where", 100, 20, 32, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	augment := data.Augment{Size: [2]int{48, 48}, Pad: 2, MixupAlpha: 0.2}
	exec, err := graph.NewExec(gomlxtest.Backend(), func(in []*graph.Node) []*graph.Node {
		pixels, plan := in[0], in[1:]
		return []*graph.Node{augment.Images(pixels, plan), data.SoftLabels(plan, len(train.Classes), 0.1)}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	pixels := train.Tensor() // to the device once
	const seed, size = 42, 25
	for epoch := range 2 {
		order := data.Order(seed, epoch, train.Len(), 1)
		for batch := range train.Len() / size {
			plan := augment.Plan(train, seed, epoch, batch, order[batch*size:][:size])
			inputs := []any{pixels}
			for _, t := range plan.Tensors() {
				inputs = append(inputs, t)
			}
			outputs, err := exec.Call(inputs...)
			if err != nil {
				fmt.Println(err)
				return
			}
			if epoch == 1 && batch == 3 {
				fmt.Println(outputs[0].Shape(), outputs[1].Shape())
			}
		}
	}
	// Output: (Float32)[25, 48, 48, 3] (Float32)[25, 4]
}

func ExampleCIFAR100() {
	train, test, err := data.CIFAR100("../examples/cifar100/demo") // ten classes of the dataset
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(train.Len(), test.Len(), len(train.Classes), train.Height, train.Width)
	// Output: 400 200 10 32 32
}

func ExampleFolder() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	img := &fstest.MapFile{Data: datatest.PNG(image.NewGray(image.Rect(0, 0, 7, 5)))}
	files := fstest.MapFS{"train/cat/1.png": img, "train/dog/2.png": img, "train/dog/3.png": img, "val/dog/4.png": img}
	if err := os.CopyFS(dir, files); err != nil {
		log.Fatal(err)
	}
	pets, err := data.Folder(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	set, err := pets.Train.Load(context.Background(), preprocess.Settings{Fit: preprocess.FitExact, Size: [2]int{11, 13}}, nil)
	fmt.Println(set.Classes, set.Labels, pets.Validation.Labels, set.Height, set.Width, err)
	// Output: [cat dog] [0 1 1] [1] 11 13 <nil>
}

func ExampleTar() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	img := string(datatest.PNG(image.NewGray(image.Rect(0, 0, 7, 5))))
	tar := datatest.Tar([2]string{"0.png", img}, [2]string{"0.cls", "2"}, [2]string{"1.png", img}, [2]string{"1.cls", "0"})
	err = os.WriteFile(filepath.Join(dir, "train-0000.tar"), tar, 0o644)
	shards, finding := data.Shards(dir, ".tar")
	if err := errors.Join(err, finding); err != nil {
		log.Fatal(err)
	}
	files, err := data.Tar(dir, shards.Train, []string{"cat", "dog", "eel"})
	fmt.Println(files.Len(), files.Labels, err)
	// Output: 2 [2 0] <nil>
}

// The batches of one epoch, read ahead by workers.
func ExampleLoader() {
	train, _, err := data.Shapes("where", 100, 20, 32, 1)
	if err != nil {
		log.Fatal(err)
	}
	const seed, epoch = 42, 0
	order := slices.Chunk(data.Order(seed, epoch, train.Len(), 1), 40) // indices of each batch
	loader := data.NewLoader(train, data.Augment{}, seed, 40, func(yield func(int, []int) bool) {
		order(func(indices []int) bool { return yield(epoch, indices) })
	})
	defer loader.Close()
	for {
		batch, err := loader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(batch.Tensor().Shape())
	}
	// Output:
	// (Uint8)[40, 32, 32, 3]
	// (Uint8)[40, 32, 32, 3]
	// (Uint8)[20, 32, 32, 3]
}

// A list of VTAB-1k: a path and a label in each line.
func ExampleLists() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	img := &fstest.MapFile{Data: datatest.PNG(image.NewGray(image.Rect(0, 0, 7, 5)))}
	files := fstest.MapFS{"images/1.png": img, "images/2.png": img,
		"train800.txt": &fstest.MapFile{Data: []byte("images/2.png 1\nimages/1.png 0\n")}}
	if err := os.CopyFS(dir, files); err != nil {
		log.Fatal(err)
	}
	train, err := data.Lists(dir, "train800.txt", []string{"cat", "dog"})
	fmt.Println(train.Len(), train.Labels, train.Where(0), err)
	// Output: 2 [1 0] images/2.png <nil>
}

// A file in the format of dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz, with 100 images.
func ExampleDSprites() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "dsprites.npz")
	if err := writeZip(file, datatest.DSprites(100)); err != nil {
		log.Fatal(err)
	}
	sets, err := data.DSprites(context.Background(), file, "location", [3]int{50, 7, 9})
	if err != nil {
		log.Fatal(err)
	}
	for _, set := range sets { // training, validation, test
		fmt.Println(set.Name, set.Len(), len(set.Classes), set.Height, set.Width)
	}
	// Output:
	// dsprites-location-train 50 16 64 64
	// dsprites-location-val 7 16 64 64
	// dsprites-location-test 9 16 64 64
}

func writeZip(path string, members map[string][]byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	archive := zip.NewWriter(f)
	for name, content := range members {
		w, err := archive.Create(name)
		if err != nil {
			return err
		}
		if _, err := w.Write(content); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), f.Close())
}

// An image file becomes the input of a model: the shorter side is resized to 24 pixels, then the centre is cropped.
func ExampleDecode() {
	img, err := data.Decode(bytes.NewReader(datatest.PNG(image.NewGray(image.Rect(0, 0, 70, 50)))), 0)
	if err != nil {
		log.Fatal(err)
	}
	input, err := img.Preprocess(preprocess.Settings{Fit: preprocess.FitShortest, Size: [2]int{24, 24},
		Crop: [2]int{20, 20}})
	fmt.Println(img.Height, img.Width, input.Height, input.Width, err)
	// Output: 50 70 20 20 <nil>
}

// Generated images, whose class is the quarter of the image with the shape.
func ExampleShapes() {
	train, test, err := data.Shapes("where", 100, 20, 32, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(train.Len(), test.Len(), len(train.Classes), train.Height, train.Width)
	// Output: 100 20 4 32 32
}

// A fifth of the images, of which ten are the validation split.
func ExampleRandomSplit() {
	images, _, err := data.Shapes("where", 200, 1, 32, 1)
	if err != nil {
		log.Fatal(err)
	}
	fifth, err := data.Fraction(images, 0.2, 7)
	if err != nil {
		log.Fatal(err)
	}
	train, validation, err := data.RandomSplit(fifth, 10, 7)
	fmt.Println(train.Len(), validation.Len(), err)
	// Output: 30 10 <nil>
}
