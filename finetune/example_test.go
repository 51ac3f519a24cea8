// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune_test

import (
	"context"
	"fmt"
	"image"
	"os"
	"strconv"

	"github.com/janpfeifer/must"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// Two training steps on generated shapes. A recipe's epochs would take minutes.
func ExampleRun_Do() {
	train, test := must.M2(data.Shapes("where", 60, 20, 32, 1))
	recipe := must.M1(finetune.RecipeByName("shapes"))
	recipe.Epochs, recipe.WarmupEpochs, recipe.Steps, recipe.EvalEverySteps = 0, 0, 2, 2
	recipe.Model.Position = "wepe-sphere"
	dir := must.M1(os.MkdirTemp("", ""))
	defer os.RemoveAll(dir)
	run := finetune.Run{Backend: gomlxtest.Backend(), Recipe: recipe, Train: train, Test: test, Dir: dir}
	m, row := must.M2(run.Do(context.Background())) // the same call resumes an interrupted run
	defer m.Finalize()
	fmt.Println(row.Encoding, row.Steps, "steps,", row.Test.Images, "test images")
	// Output: wepe-sphere 2 steps, 20 test images
}

// The pretrained model of this repository; hf://owner/name opens one of the Hugging Face hub.
func ExampleOpen() {
	m := must.M1(finetune.Open(gomlxtest.Backend(), "../examples/cifar100/demo/vit"))
	defer m.Finalize()
	fmt.Println(m.Recipe.Model.Position, len(m.Classes), "classes")
	// Output: learned 100 classes
}

// Features of decoded images; Embed reads files.
func ExampleModel_EmbedEach() {
	m := must.M1(finetune.Open(gomlxtest.Backend(), "../examples/cifar100/demo/vit"))
	defer m.Finalize()
	read := func(int) (*data.Image, error) { return data.FromImage(image.NewRGBA(image.Rect(0, 0, 37, 29))), nil }
	must.M(m.EmbedEach(1, strconv.Itoa, read, func(_ int, f finetune.Features, unread error) error {
		fmt.Println("class token", len(f.Class), "mean", len(f.Mean), "patches", f.Rows, f.Cols, len(f.Patches))
		return unread
	}))
	// Output: class token 96 mean 96 patches 6 6 3456
}

func ExampleModel_Predict() {
	m := must.M1(finetune.Open(gomlxtest.Backend(), "../examples/cifar100/demo/vit"))
	defer m.Finalize()
	classes := must.M1(m.Predict([]string{"../data/testdata/pillow/444.jpg"}, 3))
	fmt.Println(len(classes[0]), "classes,", classes[0][0].Probability >= classes[0][1].Probability)
	// Output: 3 classes, true
}

func ExampleModel_Export() {
	m := must.M1(finetune.OpenOptions{Size: [2]int{32, 48}}.Open(gomlxtest.Backend(), "../examples/cifar100/demo/vit"))
	defer m.Finalize()
	dir := must.M1(os.MkdirTemp("", ""))
	defer os.RemoveAll(dir)
	must.M1(m.Export(dir, checkpoints.ExportOptions{Format: "timm"}))
	info := must.M1(checkpoints.Inspect(dir, checkpoints.ImportOptions{}))
	fmt.Println(info.Format, info.Config.ImageRows, info.Config.ImageCols)
	// Output: timm 32 48
}

// The default recipe for a model of width 96 and 400 images: the learning rate is 0.192/96, a batch at most a
// twentieth.
func ExampleFineTuning() {
	info := must.M1(checkpoints.Inspect("../examples/cifar100/demo/vit", checkpoints.ImportOptions{}))
	recipe := finetune.FineTuning(info.Config, 400)
	recipe.Model.Position = "hybrid" // blend the position table with WePE; "" keeps it
	fmt.Println(recipe.Epochs, recipe.BatchSize, recipe.LearningRate, recipe.Optimizer.LayerDecay)
	// Output: 10 16 0.002 0.75
}

// A recipe by name, with a changed setting: 15 epochs of CIFAR-100.
func ExampleRecipeByName() {
	recipe := must.M1(finetune.RecipeByName("cifar100-15"))
	recipe = must.M1(recipe.Set("batch_size=128"))
	fmt.Println(recipe.Epochs, recipe.BatchSize)
	// Output: 15 128
}
