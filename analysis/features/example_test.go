// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package features_test

import (
	"context"
	"fmt"
	"image"
	"os"
	"path/filepath"

	"github.com/janpfeifer/must"

	"github.com/wepe-go/wepe/analysis/features"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// The features of a folder of images, as features.npy.
func ExampleJob() {
	dir := must.M1(os.MkdirTemp("", ""))
	defer os.RemoveAll(dir)
	img := datatest.PNG(image.NewGray(image.Rect(0, 0, 37, 29)))
	must.M(os.WriteFile(filepath.Join(dir, "cat.png"), img, 0o644))
	m := must.M1(finetune.Open(gomlxtest.Backend(), "../../examples/cifar100/demo/vit"))
	defer m.Finalize()
	job := features.Job{Model: m, List: must.M1(features.Folder(dir)), Dir: filepath.Join(dir, "out")}
	must.M1(job.Run(context.Background())) // the same call resumes an interrupted one
	table := must.M1(features.Read(job.Dir))
	fmt.Println(len(table.Images), table.Width)
	// Output: 1 96
}
