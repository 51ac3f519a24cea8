// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dhvt_test

import (
	"fmt"
	"log"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/dhvt"
)

func ExampleFromViT() {
	config, err := dhvt.FromViT(vit.Config{ImageRows: 8, ImageCols: 12, PatchSize: 4, Width: 24, Depth: 1, Heads: 3,
		Classes: 5, Position: "wepe"})
	if err != nil {
		log.Fatal(err)
	}
	exec := model.MustNewExec(gomlxtest.Backend(), model.NewStore(), config.Logits)
	fmt.Println(exec.MustCall(tensors.FromScalarAndDimensions(float32(0), 2, 8, 12, 3))[0].Shape())
	// Output: (Float32)[2, 5]
}
