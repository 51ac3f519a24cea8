// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit_test

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
)

// A whole network, at a small size.
func Example() {
	config, err := vit.Variant("Ti/16") // N, M (for CPUs), Ti, S, B, L, H; any patch size, any rows × cols
	config.Position = "wepe-sphere"     // position.Names() lists them
	logits := func(scope *model.Scope, images *Node) *Node { return config.Logits(scope.In("vit"), images) }
	if err != nil {
		fmt.Println(err)
	}
	config.ImageRows, config.ImageCols, config.Depth = 32, 48, 2
	exec := model.MustNewExec(gomlxtest.Backend(), model.NewStore(), logits)
	images := tensors.FromScalarAndDimensions(float32(0), 5, 32, 48, 3)
	fmt.Println(exec.MustCall(images)[0].Shape())
	// Output: (Float32)[5, 1000]
}
