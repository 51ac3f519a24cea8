// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints_test

import (
	"fmt"
	"os"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
)

// A training saves its state, and resumes from the newest intact checkpoint.
func ExampleSaver_Save() {
	dir, err := os.MkdirTemp("", "run")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	store := model.NewStore()
	store.RootScope().VariableWithValue("weights", tensors.FromValue([]float32{2, 3}))
	if _, err := (checkpoints.Saver{Dir: dir}).Save(store, 120, nil); err != nil {
		panic(err)
	}
	last, skipped, err := checkpoints.Latest(dir)
	if err != nil {
		panic(err)
	}
	resumed := model.NewStore()
	err = last.Load(resumed, nil)
	fmt.Println(last.Step, len(skipped), resumed.GetVariable("/weights").MustValue(), err)
	// Output: 120 0 [2]float32{2, 3} <nil>
}
