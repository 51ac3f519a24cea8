// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"log"
	"os"
	"slices"
	"testing/fstest"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/dataset"
	"github.com/gomlx/gomlx/ml/train"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func ExampleCIFAR100() {
	train, test, err := data.CIFAR100("../examples/cifar100/demo") // ten classes of the dataset
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(train.Len(), test.Len(), len(train.Classes), train.Height, train.Width)
	// Output: 400 200 10 32 32
}

// tree writes files into a new directory, which the caller removes.
func tree(files fstest.MapFS) (dir string) {
	dir, err := os.MkdirTemp("", "")
	if err == nil {
		err = os.CopyFS(dir, files)
	}
	if err != nil {
		log.Fatal(err)
	}
	return dir
}

var grey = &fstest.MapFile{Data: datatest.PNG(image.NewGray(image.Rect(0, 0, 7, 5)))}

func ExampleFolder() {
	dir := tree(fstest.MapFS{"train/cat/1.png": grey, "train/dog/2.png": grey, "train/dog/3.png": grey,
		"val/dog/4.png": grey})
	defer os.RemoveAll(dir)
	pets, err := data.Folder(dir)
	if err != nil {
		log.Fatal(err)
	}
	to := preprocess.Settings{Resize: preprocess.ResizeExact, Size: [2]int{11, 13}}
	set, err := pets.Train.Load(context.Background(), to, nil)
	fmt.Println(set.Classes, set.Labels, pets.Validation.Labels, set.Height, set.Width, err)
	// Output: [cat dog] [0 1 1] [1] 11 13 <nil>
}

// A tar shard in WebDataset format.
func ExampleFind() {
	tar := datatest.Tar([2]string{"0.png", string(grey.Data)}, [2]string{"0.cls", "2"},
		[2]string{"1.png", string(grey.Data)}, [2]string{"1.cls", "0"})
	dir := tree(fstest.MapFS{"train-0000.tar": &fstest.MapFile{Data: tar}})
	defer os.RemoveAll(dir)
	parts, format, err := data.Find(dir)
	fmt.Println(format, parts.Train.Labels, err)
	// Output: 1 tar shards [2 0] <nil>
}

// The batches of one epoch, read ahead by workers.
func ExampleRead() {
	train, _, err := data.Shapes("where", 100, 20, 32, 1)
	if err != nil {
		log.Fatal(err)
	}
	const seed, epoch = 42, 0
	order := slices.Chunk(data.Order(seed, epoch, train.Len(), 1), 40) // indices of each batch
	batches := func(yield func(int, []int) bool) {
		order(func(indices []int) bool { return yield(epoch, indices) })
	}
	for batch, err := range data.Read(train, data.Augment{}, seed, 40, batches) {
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
	dir := tree(fstest.MapFS{"images/1.png": grey, "images/2.png": grey,
		"train800.txt": &fstest.MapFile{Data: []byte("images/2.png 1\nimages/1.png 0\n")}})
	defer os.RemoveAll(dir)
	train, err := data.Lists(dir, "train800.txt", []string{"cat", "dog"})
	fmt.Println(train.Len(), train.Labels, train.Where(0), err)
	// Output: 2 [1 0] images/2.png <nil>
}

// An image file becomes the input of a model: the shorter side is resized to 24 pixels, then the centre is cropped.
func ExampleDecode() {
	img, err := data.Decode(bytes.NewReader(datatest.PNG(image.NewGray(image.Rect(0, 0, 70, 50)))))
	if err != nil {
		log.Fatal(err)
	}
	input, err := img.Preprocess(preprocess.Settings{Resize: preprocess.ResizeShortest, Size: [2]int{24, 24},
		Crop: [2]int{20, 20}})
	fmt.Println(img.Height, img.Width, input.Height, input.Width, err)
	// Output: 50 70 20 20 <nil>
}

// A fifth of the images, of which ten are the validation split.
func ExampleRandomSplit() {
	images, _, err := data.Shapes("where", 200, 1, 32, 1) // the class is the quarter of the image with the shape
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

// own is a dataset of images that a program has in memory, of any size.
type own struct {
	data.Info
	images []image.Image
}

// Image implements data.Dataset.
func (o *own) Image(_ context.Context, row int) (*data.Image, error) {
	return data.FromImage(o.images[row]), nil
}

// Images of one's own: a type that embeds Info needs one method.
func ExampleDataset() {
	o := &own{Info: data.Info{Name: "mine", Classes: []string{"dark", "light"}, Height: 4, Width: 6, Channels: 3}}
	for k, grey := range []uint8{10, 240, 30} {
		img := image.NewGray(image.Rect(0, 0, 12, 8))
		for i := range img.Pix {
			img.Pix[i] = grey
		}
		img.SetGray(0, 0, color.Gray{Y: 255})
		o.images, o.Labels = append(o.images, img), append(o.Labels, int32(k%2))
	}
	for batch, err := range data.InOrder(o, 2, data.Augment{}).Iter() {
		fmt.Println(batch.Inputs[0].Shape(), batch.Labels[0].Value(), err)
	}
	// Output:
	// (Uint8)[2, 4, 6, 3] [[0] [1]] <nil>
	// (Uint8)[1, 4, 6, 3] [[0]] <nil>
}

// of reads a dataset of GoMLX, images [batch, height, width, 3] and labels [batch], to augment it or to fine-tune on it.
func of(ds train.Dataset, classes ...string) (*data.InMemory, error) {
	m := &data.InMemory{Info: data.Info{Name: ds.Name(), Classes: classes}}
	for batch, err := range ds.Iter() {
		if err != nil {
			return nil, err
		}
		shape := batch.Inputs[0].Shape()
		m.Height, m.Width, m.Channels = shape.Dim(1), shape.Dim(2), shape.Dim(3)
		m.Pixels = append(m.Pixels, tensors.MustCopyFlatData[uint8](batch.Inputs[0])...)
		m.Labels = append(m.Labels, tensors.MustCopyFlatData[int32](batch.Labels[0])...)
		if err := batch.Finalize(); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// A dataset of GoMLX as one of this package.
func ExampleInMemory() {
	images := tensors.FromScalarAndDimensions(uint8(7), 5, 4, 6, 3)
	ds, err := dataset.InMemoryFromData(gomlxtest.Backend(), "gomlx", []any{images}, []any{[]int32{0, 1, 0, 1, 1}})
	if err != nil {
		panic(err)
	}
	m, err := of(ds.BatchSize(2, false), "even", "odd")
	if err != nil {
		panic(err)
	}
	for batch, err := range data.Batches(m, 5, data.Augment{HFlip: 0.5}, 3).Iter() {
		sum := graph.MustExecOnce(gomlxtest.Backend(), func(labels *graph.Node) *graph.Node {
			return graph.ReduceAllSum(labels)
		}, batch.Labels[0])
		fmt.Println(batch.Inputs[0].Shape(), "odd:", sum.Value(), err)
		break // Batches never ends
	}
	// Output: (Uint8)[5, 4, 6, 3] odd: 3 <nil>
}
