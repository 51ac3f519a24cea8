// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data_test

import (
	"context"
	"fmt"
	"image"
	"image/color"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/dataset"
	"github.com/gomlx/gomlx/ml/train"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// own is a source of images that a program has in memory, of any size.
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

// A dataset of GoMLX as the source.
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
	for batch, err := range data.Batches(m, 5, data.Augment{FlipProb: 0.5}, 3).Iter() {
		sum := graph.MustExecOnce(gomlxtest.Backend(), func(labels *graph.Node) *graph.Node {
			return graph.ReduceAllSum(labels)
		}, batch.Labels[0])
		fmt.Println(batch.Inputs[0].Shape(), "odd:", sum.Value(), err)
		break // Batches never ends
	}
	// Output: (Uint8)[5, 4, 6, 3] odd: 3 <nil>
}
