// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/janpfeifer/must"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func ExampleInspect() {
	info := must.M1(checkpoints.Inspect("../examples/cifar100/demo/vit", checkpoints.ImportOptions{}))
	fmt.Println(info.Format, info.Config.Width, info.Config.Depth, len(info.Labels), "classes")
	// Output: hf 96 6 100 classes
}

// A Hugging Face model, at twice its image size, for timm.
func ExampleExport() {
	larger := checkpoints.ImportOptions{ImageRows: 48, ImageCols: 48}
	m := must.M1(checkpoints.Import("../examples/cifar100/demo/vit", larger))
	scope := model.NewStore().Scope("/vit")
	must.M(m.Load(scope))
	dir := must.M1(os.MkdirTemp("", ""))
	defer os.RemoveAll(dir)
	must.M1(checkpoints.Export(dir, gomlxtest.Backend(), scope, m.Config, checkpoints.ExportOptions{Format: "timm"}))
	info := must.M1(checkpoints.Inspect(dir, checkpoints.ImportOptions{}))
	fmt.Println(info.Format, info.Config.ImageRows, info.Config.ImageCols)
	// Output: timm 48 48
}

// The position table of a model for 24×24 pixels is resampled for larger images.
func ExampleImport() {
	larger := checkpoints.ImportOptions{ImageRows: 36, ImageCols: 48}
	m := must.M1(checkpoints.Import("../examples/cifar100/demo/vit", larger))
	images := tensors.FromScalarAndDimensions(float32(0), 2, 36, 48, 3) // normalized with m.Mean and m.Std
	logits := must.M1(m.Logits(gomlxtest.Backend(), images))
	fmt.Println(len(logits), m.Labels[1])
	// Output: 200 aquarium_fish
}

// A table of a class token and 2×3 patches, of width 1.
func ExampleResample() {
	rows, report, err := checkpoints.Resample([]float32{7, 1, 1, 1, 1, 1, 1}, 1, 1, [2]int{2, 3}, [2]int{3, 5}, "hf")
	fmt.Println(rows[0], len(rows), report, err)
	// Output: 7 16 2×3 -> 3×5 (hf) <nil>
}

// A training run saves its state, and resumes from the newest intact checkpoint.
func ExampleFind() {
	run := must.M1(os.MkdirTemp("", "run"))
	defer os.RemoveAll(run)
	store := model.NewStore()
	store.RootScope().VariableWithValue("weights", tensors.FromValue([]float32{2, 3}))
	saver := checkpoints.Saver{Dir: filepath.Join(run, checkpoints.LastDir)}
	must.M1(saver.Save(store, 120, nil))
	last, skipped := must.M2(checkpoints.Find(run, checkpoints.Resume))
	resumed := model.NewStore()
	must.M(last.Load(resumed, nil))
	fmt.Println(last.Kind, last.Step, len(skipped), resumed.GetVariable("/weights").MustValue())
	// Output: last 120 0 [2]float32{2, 3}
}
