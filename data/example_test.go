// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data_test

import (
	"fmt"

	"github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// One augmented batch: inputs are the dataset's bytes and the batch's plan, outputs are images and soft labels.
func Example() {
	train, _, err := data.Shapes(data.TaskWhere, 100, 20, 32, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	augment := data.Augment{Size: [2]int{48, 48}, Pad: 2, MixupAlpha: 0.2}
	exec, err := graph.NewExec(gomlxtest.Backend(), func(in []*graph.Node) []*graph.Node {
		pixels, plan := in[0], in[1:]
		return []*graph.Node{augment.Images(pixels, plan), data.SoftLabels(plan, len(train.Classes), 0.1)}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	pixels := train.Tensor() // to the device once
	const seed, size = 42, 25
	for epoch := range 2 {
		order := data.Order(seed, epoch, train.Len(), 1)
		for batch := range train.Len() / size {
			plan := augment.Plan(train, seed, epoch, batch, order[batch*size:][:size])
			inputs := []any{pixels}
			for _, t := range plan.Tensors() {
				inputs = append(inputs, t)
			}
			outputs, err := exec.Call(inputs...)
			if err != nil {
				fmt.Println(err)
				return
			}
			if epoch == 1 && batch == 3 {
				fmt.Println(outputs[0].Shape(), outputs[1].Shape())
			}
		}
	}
	// Output: (Float32)[25, 48, 48, 3] (Float32)[25, 4]
}
