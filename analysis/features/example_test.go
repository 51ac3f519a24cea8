// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package features_test

import (
	"context"
	"fmt"
	"image"
	"log"
	"os"
	"path/filepath"

	"github.com/wepe-go/wepe/analysis/features"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// The features of a folder of images, as features.npy.
func ExampleJob() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	img := datatest.PNG(image.NewGray(image.Rect(0, 0, 37, 29)))
	if err := os.WriteFile(filepath.Join(dir, "cat.png"), img, 0o644); err != nil {
		log.Fatal(err)
	}
	m, err := finetune.Open(gomlxtest.Backend(), "../../examples/cifar100/demo/vit")
	if err != nil {
		log.Fatal(err)
	}
	defer m.Finalize()
	list, err := features.Folder(dir)
	if err != nil {
		log.Fatal(err)
	}
	job := features.Job{Model: m, List: list, Dir: filepath.Join(dir, "out")}
	if _, err := job.Run(context.Background()); err != nil { // the same call resumes an interrupted one
		log.Fatal(err)
	}
	table, err := features.Read(job.Dir)
	fmt.Println(len(table.Images), table.Width, err)
	// Output: 1 96 <nil>
}
