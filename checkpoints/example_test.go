// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func ExampleInspect() {
	info, err := checkpoints.Inspect("../examples/cifar100/demo/vit")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Format, info.Config.Width, info.Config.Depth, len(info.Labels), "classes")
	// Output: hf 96 6 100 classes
}

// A Hugging Face model, at twice its image size, for timm.
func ExampleExport() {
	imported, err := checkpoints.Import("../examples/cifar100/demo/vit",
		checkpoints.ImportOptions{ImageRows: 48, ImageCols: 48})
	if err != nil {
		log.Fatal(err)
	}
	store := model.NewStore()
	if err := imported.Load(store.Scope("/vit")); err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "timm")
	_, err = checkpoints.Export(out, gomlxtest.Backend(), store.Scope("/vit"), imported.Config,
		checkpoints.ExportOptions{Format: "timm"})
	if err != nil {
		log.Fatal(err)
	}
	info, err := checkpoints.Inspect(out)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Format, info.Config.ImageRows, info.Config.ImageCols)
	// Output: timm 48 48
}
