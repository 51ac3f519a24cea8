// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func ExampleInspect() {
	info, err := checkpoints.Inspect("../examples/cifar100/demo/vit", checkpoints.ImportOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Format, info.Config.Width, info.Config.Depth, len(info.Labels), "classes")
	// Output: hf 96 6 100 classes
}

// A Hugging Face model, at twice its image size, for timm.
func ExampleExport() {
	m, err := checkpoints.Import("../examples/cifar100/demo/vit", checkpoints.ImportOptions{ImageRows: 48, ImageCols: 48})
	if err != nil {
		log.Fatal(err)
	}
	scope := model.NewStore().Scope("/vit")
	if err := m.Load(scope); err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	options := checkpoints.ExportOptions{Format: "timm"}
	if _, err := checkpoints.Export(dir, gomlxtest.Backend(), scope, m.Config, options); err != nil {
		log.Fatal(err)
	}
	info, err := checkpoints.Inspect(dir, checkpoints.ImportOptions{})
	fmt.Println(info.Format, info.Config.ImageRows, info.Config.ImageCols, err)
	// Output: timm 48 48 <nil>
}

// The position table of a model for 24×24 pixels is resampled for larger images.
func ExampleImport() {
	m, err := checkpoints.Import("../examples/cifar100/demo/vit", checkpoints.ImportOptions{ImageRows: 36, ImageCols: 48})
	if err != nil {
		log.Fatal(err)
	}
	images := tensors.FromScalarAndDimensions(float32(0), 2, 36, 48, 3) // normalized with m.Mean and m.Std
	logits, err := m.Logits(gomlxtest.Backend(), images)
	fmt.Println(len(logits), m.Labels[1], err)
	// Output: 200 aquarium_fish <nil>
}

// A table of a class token and 2×3 patches, of width 1.
func ExampleResample() {
	rows, report, err := checkpoints.Resample([]float32{7, 1, 1, 1, 1, 1, 1}, 1, 1, [2]int{2, 3}, [2]int{3, 5}, "hf")
	fmt.Println(rows[0], len(rows), report, err)
	// Output: 7 16 2×3 -> 3×5 (hf) <nil>
}

// A training run saves its state, and resumes from the newest intact checkpoint.
func ExampleFind() {
	run, err := os.MkdirTemp("", "run")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(run)
	store := model.NewStore()
	store.RootScope().VariableWithValue("weights", tensors.FromValue([]float32{2, 3}))
	saver := checkpoints.Saver{Dir: filepath.Join(run, checkpoints.LastDir)}
	if _, err := saver.Save(store, 120, nil); err != nil {
		log.Fatal(err)
	}
	last, skipped, err := checkpoints.Find(run, checkpoints.Resume)
	if err != nil {
		log.Fatal(err)
	}
	resumed := model.NewStore()
	err = last.Load(resumed, nil)
	fmt.Println(last.Kind, last.Step, len(skipped), resumed.GetVariable("/weights").MustValue(), err)
	// Output: last 120 0 [2]float32{2, 3} <nil>
}
