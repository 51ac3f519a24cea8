// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/additive"
)

const (
	nameGate = "gate_raw"

	// The gate is closed, λ = 0 exactly, at and below this raw value on every backend; ONNX Runtime's logistic is constant
	// below -18. The true λ would be 4e-44.
	closedGate = -100
)

// hybrid is what Config.Hybrid describes.
type hybrid struct {
	grid
	Encoder    // of the patches
	scope      *model.Scope
	pretrained *model.Variable // [prefix + rows·cols, width]
	gate       *model.Variable // raw, scalar
	closed     bool            // λ is fixed at 0
	start      string          // ParamStart
}

// Hybrid blends an encoding of the patches into pretrained position embeddings by one learned scalar,
//
//	patch rows:  λ·encoding + (1-λ)·pretrained,   λ = σ(raw)
//	prefix rows: pretrained
//
// mathematics.md (9.1). At λ = 0 the rows are the pretrained ones bit for bit, and raw gets no gradient: a gate that
// starts at 0 stays at 0. If the gate is not trained either, the encoding is omitted from the graph.
//
// The embeddings are a float32 variable [prefix + rows·cols, width] with the prefix of WithPrefix; the encoding was
// built without prefix. The gate is scope/gate_raw. Hybrid panics if the embeddings belong to another grid. Its
// Start, called before training, moves the encoding to the embeddings as ParamStart specifies.
func (c *Config) Hybrid(pretrained *model.Variable, encoding Encoder) Encoder {
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
	h := &hybrid{grid: patches, Encoder: encoding, scope: c.scope, pretrained: pretrained, start: c.start}
	h.prefix = c.prefix
	raw := min(max(math.Log(c.gate)-math.Log1p(-c.gate), closedGate), -closedGate) // -Inf at 0, Inf at 1
	h.gate = scalarVariable(c.scope, nameGate, raw, c.learnGate)
	h.closed = c.gate == 0 && !c.learnGate
	return h
}

func (h *hybrid) Name() string { return fmt.Sprintf("Hybrid(%s+%d)", h.Encoder.Name(), h.prefix) }

func (h *hybrid) layout() grid { return h.grid }

// lambda returns λ, a scalar in [0, 1].
func (h *hybrid) lambda(g *Graph) *Node {
	raw := h.gate.NodeValue(g)
	shut := LessOrEqual(raw, Scalar(g, raw.DType(), closedGate))
	return Where(shut, ZerosLike(raw), Sigmoid(raw))
}

// Encode implements Encoder.
func (h *hybrid) Encode(g *Graph) *Node {
	if h.closed {
		return h.pretrained.NodeValue(g)
	}
	pretrained, rows := h.pretrained.NodeValue(g), h.Encoder.Encode(g)
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

// PreEncode implements pos.PreEncoder.
func (h *hybrid) PreEncode(x, positionIndices *Node, seqAxis int) *Node {
	return additive.PreEncode(h.Encode(x.Graph()), x, positionIndices, seqAxis)
}

// Scalars implements Field.
func (h *hybrid) Scalars() (map[string]float64, error) {
	scalars, err := h.Encoder.Scalars()
	if err != nil {
		return nil, err
	}
	raw, err := rawScalars(h.scope, nameGate)
	if err != nil {
		return nil, err
	}
	scalars["lambda"] = 0
	if !h.closed && raw[nameGate] > closedGate {
		scalars["lambda"] = 1 / (1 + math.Exp(-raw[nameGate]))
	}
	return scalars, nil
}
