// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"reflect"

	"github.com/gomlx/compute/distributed"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// UpdateInPlace lets XLA write the new values of the variables that a program changes over the old ones (buffer
// donation). Call it last in the function given to [model.NewExec], which donates the buffers of these variables but
// does not assign them to outputs; without the assignment XLA keeps old and new values at the same time. On other
// backends and in programs for several devices it does nothing.
//
// go-xla v0.4.5 has the attribute in its package stablehlo, but a graph cannot set it, so the node of the parameter is
// read by reflection. If go-xla changes, nothing is donated and a test fails; results stay the same.
func UpdateInPlace(store *model.Store, g *Graph) {
	if g.Backend().Name() != "xla" || g.DistributedStrategy() != distributed.None {
		return
	}
	parameters := map[string]*Node{}
	for _, node := range g.Nodes() {
		if node.Type() == NodeTypeParameter {
			parameters[node.GetParameterName()] = node
		}
	}
	output := int32(0) // model.Exec returns changed variables first, in this order
	for v := range store.IterVariables() {
		if !v.ChangedInGraph(g) {
			continue
		}
		if node := parameters[v.Path()]; node != nil && node.Shape().Equal(v.NodeValue(g).Shape()) {
			alias(node, output)
		}
		output++
	}
}

// alias sets the attribute of a program's parameter that names the output that may reuse its memory.
func alias(parameter *Node, output int32) {
	const attribute = "tf.aliasing_output"
	backendNode := reflect.ValueOf(InternalBackendOutputs(parameter)[0])
	if backendNode.Kind() != reflect.Pointer || backendNode.Elem().Kind() != reflect.Struct {
		return
	}
	value := backendNode.Elem().FieldByName("value") // a *stablehlo.Value
	if !value.IsValid() || value.Kind() != reflect.Pointer || value.Elem().Kind() != reflect.Struct {
		return
	}
	field := reflect.NewAt(value.Type().Elem(), value.UnsafePointer()).Elem().FieldByName("Attributes")
	if attributes, ok := field.Addr().Interface().(*map[string]any); ok {
		if *attributes == nil {
			*attributes = map[string]any{}
		}
		(*attributes)[attribute] = output
	}
}
