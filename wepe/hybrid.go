// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers/attention/pos"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/additive"
)

// Encoding is an additive encoding of the patches: an Encoder, a Hybrid or the encoder of Config.Surrogate.
type Encoding interface {
	pos.Encoder
	pos.PreEncoder

	// Encode returns the vectors that PreEncode adds, float32 [prefix + rows·cols, width].
	Encode(g *Graph) *Node

	// Features returns the inputs of the projection, [rows·cols, features], and FeatureNames the name of each column.
	Features(g *Graph) *Node
	FeatureNames() []string

	// Scalars returns the values for training logs.
	Scalars() (map[string]float64, error)

	layout() grid
}

var _ Encoding = (*Hybrid)(nil)

const (
	nameGate = "gate_raw"

	// The gate is closed, λ = 0 exactly, at and below this raw value on every backend; ONNX Runtime's logistic is constant
	// below -18. The true λ would be 4e-44.
	closedGate = -100
)

// Hybrid blends an encoding of the patches into pretrained position embeddings by one learned scalar,
//
//	patch rows:  λ·encoding + (1-λ)·pretrained,   λ = σ(raw)
//	prefix rows: pretrained
//
// mathematics.md (9.1). At λ = 0 the rows are the pretrained ones bit for bit, and raw gets no gradient: a gate that
// starts at 0 stays at 0. If the gate is not trained either, the encoding is omitted from the graph.
type Hybrid struct {
	grid
	Encoding   // of the patches
	scope      *model.Scope
	pretrained *model.Variable // [prefix + rows·cols, width]
	gate       *model.Variable // raw, scalar
	closed     bool            // λ is fixed at 0
	start      string          // of the encoding, see Start
}

// Hybrid creates the gate, scope/gate_raw, between a model's pretrained position embeddings, a float32 variable [prefix
// + rows·cols, width] with the prefix of WithPrefix, and an encoding of the patches that was built without prefix. It
// panics if the embeddings belong to another grid.
func (c *Config) Hybrid(pretrained *model.Variable, encoding Encoding) *Hybrid {
	c.check()
	if _, ok := encoding.(*surrogateEncoder); !ok && c.start == startFitted {
		refuse(ParamStart, "%s = %q is for a surrogate: the last layer of %s is not free to follow a table", ParamStart,
			c.start, encoding.Name())
	}
	patches := encoding.layout()
	if patches.prefix != 0 {
		refuse("", "the gate takes an encoding without prefix, %s has %d prefix rows", encoding.Name(),
			patches.prefix)
	}
	shape := pretrained.Shape()
	if !shape.Equal(shapes.Make(dtypes.Float32, c.prefix+patches.positions(), patches.width)) {
		refuse("", "pretrained rows %q are %s, want float32 [%d + %d, %d] for %s: WithPrefix sets the prefix",
			pretrained.Path(), shape, c.prefix, patches.positions(), patches.width, encoding.Name())
	}
	h := &Hybrid{grid: patches, Encoding: encoding, scope: c.scope, pretrained: pretrained, start: c.start}
	h.prefix = c.prefix
	raw := min(max(math.Log(c.gate)-math.Log1p(-c.gate), closedGate), -closedGate) // -Inf at 0, Inf at 1
	h.gate = scalarVariable(c.scope, nameGate, raw, c.learnGate)
	h.closed = c.gate == 0 && !c.learnGate
	return h
}

// Name implements pos.Encoder.
func (h *Hybrid) Name() string { return fmt.Sprintf("Hybrid(%s+%d)", h.Encoding.Name(), h.prefix) }

func (h *Hybrid) layout() grid { return h.grid }

// Warning returns the warning of the blended encoding, if it has one.
func (h *Hybrid) Warning() string {
	if e, ok := h.Encoding.(*Encoder); ok {
		return e.Warning()
	}
	return ""
}

// lambda returns λ, a scalar in [0, 1].
func (h *Hybrid) lambda(g *Graph) *Node {
	raw := h.gate.NodeValue(g)
	shut := LessOrEqual(raw, Scalar(g, raw.DType(), closedGate))
	return Where(shut, ZerosLike(raw), Sigmoid(raw))
}

// Encode returns the vectors that PreEncode adds, float32 [prefix + rows·cols, width].
func (h *Hybrid) Encode(g *Graph) *Node {
	if h.closed {
		return h.pretrained.NodeValue(g)
	}
	pretrained, rows := h.pretrained.NodeValue(g), h.Encoding.Encode(g)
	open := make([]float32, h.positions()) // 1 at the patches, where the gate acts
	for i := h.prefix; i < len(open); i++ {
		open[i] = 1
	}
	if h.prefix > 0 {
		rows = Concatenate([]*Node{Zeros(g, shapes.Make(rows.DType(), h.prefix, h.width)), rows}, 0)
	}
	// A mask in place of a Slice, whose gradient ONNX lacks. In this form, not P + λ(W - P), both ends are exact.
	gate := Mul(InsertAxes(Const(g, open), -1), h.lambda(g)) // [prefix + rows·cols, 1]
	return Add(Mul(gate, rows), Mul(OneMinus(gate), pretrained))
}

// PreEncode implements pos.PreEncoder: it returns x plus the encoding, as Encoder.PreEncode does.
func (h *Hybrid) PreEncode(x, positionIndices *Node, seqAxis int) *Node {
	return additive.PreEncode(h.Encode(x.Graph()), x, positionIndices, seqAxis)
}

// Scalars returns the scalars of the blended encoding, and λ as "lambda".
func (h *Hybrid) Scalars() (map[string]float64, error) {
	scalars, err := h.Encoding.Scalars()
	if err != nil {
		return nil, err
	}
	raw, err := rawScalars(h.scope, nameGate)
	if err != nil {
		return nil, err
	}
	scalars["lambda"] = 0
	if raw[nameGate] > closedGate {
		scalars["lambda"] = 1 / (1 + math.Exp(-raw[nameGate]))
	}
	return scalars, nil
}
