// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weight

import (
	"github.com/gomlx/compute/gobackend"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// abstract is set in stores whose variables have shapes and, except for scalars, no values.
const abstract = "abstract_variables"

// Count returns the number of trainable parameters that a model creates. The model is built and never run, and its
// variables take no memory.
func Count(build func(scope *model.Scope, g *Graph)) (n int) {
	backend, err := gobackend.New("")
	if err != nil {
		panic(err)
	}
	defer backend.Finalize()
	store := model.NewStore()
	store.SetParam("/"+abstract, true)
	build(store.RootScope(), NewGraph(backend, "count"))
	for v := range store.IterVariables() {
		if v.Trainable {
			n += v.Shape().Size()
		}
	}
	return n
}
