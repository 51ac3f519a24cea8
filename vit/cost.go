// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
)

// Cost is what an encoding adds to a model: trainable numbers, and operations of one forward pass. A multiply-add of a
// matrix product is one operation, and so is each element that any other arithmetic computes; moving data is none.
type Cost struct {
	Parameters int
	PerStep    int // whatever the batch
	PerImage   int // for each of its images
}

// Cost counts what the encoding of a model adds to it, with the hyperparameters of the scope: by building the graph of
// the encoding alone, for one image and for two, and adding up its nodes. (Config.FLOPs is the rest of the model, at
// two operations a multiply-add.) Nothing is computed and no variable is created.
func (c Config) Cost(backend compute.Backend, scope *model.Scope) (cost Cost, err error) {
	c = c.WithDefaults()
	if err := c.Validate(); err != nil {
		return cost, err
	}
	store, err := part(scope.Store(), func(string) bool { return false })
	if err != nil {
		return cost, err
	}
	var operations [2]int
	err = exceptions.TryCatch[error](func() {
		for i := range operations {
			g := NewGraph(backend, fmt.Sprintf("cost of %d", i+1))
			defer g.Finalize()
			operations[i] = arithmetic(c.encodings(g, store.Scope(scope.Scope()), i+1))
		}
	})
	if err != nil {
		return cost, fmt.Errorf("vit: cost of position %q: %w", c.Position, err)
	}
	for v := range store.IterVariables() {
		if v.Trainable {
			cost.Parameters += v.Shape().Size()
		}
	}
	cost.PerImage = operations[1] - operations[0]
	cost.PerStep = operations[0] - cost.PerImage
	return cost, nil
}

// encodings builds what Trace and its blocks do with the encoders of the model, and no more.
func (c Config) encodings(g *Graph, scope *model.Scope, images int) (outputs []*Node) {
	input := func(name string, dims ...int) *Node {
		return Parameter(g, name, shapes.Make(c.dtype(), append([]int{images}, dims...)...))
	}
	if encoder := c.Encoder(scope); encoder != nil {
		outputs = append(outputs, encoder.PreEncode(input("tokens", c.Tokens(), c.Width), nil, 1))
	}
	if encoder := c.RelativeEncoder(scope); encoder != nil {
		bias, scores := encoder.AttentionBias(g), input("scores", c.Heads, c.Tokens(), c.Tokens())
		for range c.Depth {
			outputs = append(outputs, Add(scores, InsertAxes(bias, 0)))
		}
	}
	if encoder := c.RotaryEncoder(scope); encoder != nil {
		q := input("queries", c.Tokens(), c.Heads, c.headDim())
		for i := range c.Depth {
			turned, other := encoder.Block(i).EncodeQK(q, q, nil, 1)
			outputs = append(outputs, turned, other)
		}
	}
	return outputs
}

// arithmetic counts the operations of all nodes that the outputs need.
func arithmetic(outputs []*Node) (operations int) {
	counted := map[NodeId]bool{}
	var count func(*Node)
	count = func(node *Node) {
		if counted[node.Id()] {
			return
		}
		counted[node.Id()] = true
		operations += nodeOperations(node)
		for _, input := range node.Inputs() {
			count(input)
		}
	}
	for _, node := range outputs {
		count(node)
	}
	return operations
}

// nodeOperations counts one node. A fused operation that is no matrix product counts once for each of its elements.
func nodeOperations(node *Node) int {
	switch node.Type() {
	case NodeTypeParameter, NodeTypeConstant, NodeTypeIota, NodeTypeIdentity, NodeTypeConvertDType, NodeTypeReshape,
		NodeTypeTranspose, NodeTypeBroadcastInDim, NodeTypeConcatenate, NodeTypeGather, NodeTypeSplitNode:
		return 0
	case NodeTypeReduceSum, NodeTypeReduceMax, NodeTypeReduceMin:
		return node.Inputs()[0].Shape().Size()
	case NodeTypeFusedDense: // x·w + b
		return node.Shape().Size() * (node.Inputs()[0].Shape().Dim(-1) + 1)
	case NodeTypeDotGeneral:
		return node.Shape().Size() * contracted(node)
	}
	return node.Shape().Size()
}

var contractedAxes = regexp.MustCompile(`lhsContractingAxes=\[([\d ]*)\]`)

// contracted is the number of terms of each sum of a matrix product. GoMLX keeps the axes to itself, but prints them.
func contracted(product *Node) int {
	axes := contractedAxes.FindStringSubmatch(product.String())
	if axes == nil {
		exceptions.Panicf("vit: no contracted axes in %q", product)
	}
	terms := 1
	for _, word := range strings.Fields(axes[1]) {
		axis, err := strconv.Atoi(word)
		if err != nil {
			panic(err)
		}
		terms *= product.Inputs()[0].Shape().Dim(axis)
	}
	return terms
}
