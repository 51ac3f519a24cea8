// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune_test

import (
	"context"
	"fmt"
	"image"
	"log"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/backend"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// A whole training. Without an expected output this is compiled and not run: it takes minutes and CIFAR-100.
//
//nolint:ineffassign,wastedassign // the README shows it without its checks
func ExampleRun() {
	ctx, backend := context.Background(), gomlxtest.Backend()
	recipe, err := finetune.Named("cifar100-small")
	train, test, err := data.CIFAR100("cifar-100-binary")
	run := finetune.Run{Backend: backend, Recipe: recipe, Train: train, Test: test, Dir: "runs/first"}
	trained, row, err := run.Do(ctx) // interrupted? the same call goes on where it stopped
	if err != nil {
		log.Fatal(err)
	}
	defer trained.Finalize()
	fmt.Println(row.Test.Top1)
}

// From the files of a pretrained model to the vectors of images; for files of images it is Embed.
func ExampleModel_EmbedImages() {
	backend, img := gomlxtest.Backend(), image.NewRGBA(image.Rect(0, 0, 37, 29))
	model, err := finetune.Open(backend, "../examples/cifar100/demo/vit")
	if err != nil {
		log.Fatal(err)
	}
	defer model.Finalize()
	features, err := model.EmbedImages(img)
	if err != nil {
		log.Fatal(err)
	}
	f := features[0]
	fmt.Println(len(f.Class), len(f.Mean), f.Rows, f.Cols, len(f.Patches))
	// Output: 96 96 6 6 3456
}

//nolint:ineffassign,wastedassign // the README shows it without its checks
func ExampleModel_Embed() {
	backend, err := backend.Open()
	model, err := finetune.Open(backend, "hf://facebook/dinov2-small") // or a directory, or a file
	features, err := model.Embed("cat.jpg", "dog.png")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(features[0].Class)
}
