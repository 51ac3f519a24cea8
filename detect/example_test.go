// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect_test

import (
	"fmt"
	"image"
	"log"

	"github.com/gomlx/compute"
	_ "github.com/gomlx/compute/gobackend"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/detect"
	"github.com/wepe-go/wepe/vit"
)

// A detector of three classes with random weights, which detects nothing with confidence.
func Example() {
	backend, err := compute.NewWithConfig("go:ops_sequential")
	if err != nil {
		log.Fatal(err)
	}
	config := detect.Config{
		Backbone: detect.Backbone{Config: vit.Config{ImageRows: 32, ImageCols: 32, PatchSize: 8, Width: 16, Depth: 2,
			Heads: 2, Classes: 3, Position: "wepe"}, Window: 2, Global: []int{1}},
		Channels: 8,
		RPN:      detect.RPN{After: detect.Counts{Train: 20, Test: 10}},
		ROI:      detect.ROI{Size: 3, Convs: []int{8}, Dense: []int{16}, MaskSize: 4, Masks: []int{8}, Score: 0.9},
	}
	d, err := detect.New(backend, model.NewStore().Scope("/detector"), config)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Finalize()
	found, err := d.Detect(image.NewRGBA(image.Rect(0, 0, 50, 40)))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(found), "image,", len(found[0]), "detections")
	// Output: 1 image, 0 detections
}

// The paper's detector on ViT-B: images of 1024×1024 pixels, windows of 14×14 patches, global attention in four blocks.
func ExampleViTDet() {
	config, err := detect.ViTDet("B/16", 80, false)
	if err != nil {
		log.Fatal(err)
	}
	b := config.WithDefaults().Backbone
	fmt.Println(b.ImageRows, b.ImageCols, b.Width, b.Depth, b.Window, b.Global)
	// Output: 1024 1024 768 12 14 [2 5 8 11]
}

// A plain ViT-B/16 as a backbone for images of 640×640 pixels.
func ExampleFromViT() {
	config, err := vit.Variant("B/16")
	if err != nil {
		log.Fatal(err)
	}
	config.Position = "learned"
	b := detect.FromViT(config, 640, 640)
	fmt.Println(b.ImageRows, b.ImageCols, b.Width, b.Position)
	// Output: 640 640 768 grid2d
}
