// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// squareTable is the key of the default encoder's table.
var squareTable = tableKey{Mode: paper, Omega1: weierstrass.OmegaSquare, Omega3p: weierstrass.OmegaSquare,
	SpanU: defaultSpan, SpanV: defaultSpan, Resolution: defaultTableResolution, Kind: deflatedTable}

// sink keeps results alive.
var sink complex128

// BenchmarkHost is ℘ and ℘′ of the 196 patches of a ViT/16 at 224, in float64 on one core.
func BenchmarkHost(b *testing.B) {
	lattice, z := weierstrass.Square(), squareGrid(14, 14).points()
	for b.Loop() {
		for _, z := range z {
			p, pPrime := lattice.Eval(z)
			sink += p + pPrime
		}
	}
}

// BenchmarkTable evaluates the 65,536 nodes of the default table.
func BenchmarkTable(b *testing.B) {
	for b.Loop() {
		if _, err := squareTable.values(); err != nil {
			b.Fatal(err)
		}
	}
}

// benchGraph times a graph without inputs, on the clock and by processor time. One call includes the executor's
// overhead; the results stay on the device as in a training step.
func benchGraph(b *testing.B, build func(s *model.Scope, g *Graph) []*Node) {
	b.Helper()
	exec, err := model.NewExec(gomlxtest.Backend(), model.NewStore(), build)
	if err != nil {
		b.Fatal(err)
	}
	defer exec.Finalize()
	call := func() {
		outputs, err := exec.Call()
		if err != nil {
			b.Fatal(err)
		}
		for _, output := range outputs {
			output.MustFinalizeAll()
		}
	}
	call() // compiles
	began := gomlxtest.ProcessorTime(b)
	for b.Loop() {
		call()
	}
	b.ReportMetric(float64(gomlxtest.ProcessorTime(b)-began)/float64(b.N), "cpu-ns/op")
}

// BenchmarkP is ℘ and ℘′ of 196 patches that move with the lattice, forward and with the gradient of ω3′.
func BenchmarkP(b *testing.B) {
	for _, gradient := range []bool{false, true} {
		b.Run(map[bool]string{false: "forward", true: "gradient"}[gradient], func(b *testing.B) {
			benchGraph(b, func(s *model.Scope, g *Graph) []*Node {
				omega3p := weight.Variable(s, "omega3p", dtypes.Float32, weight.Constant(2.7)).NodeValue(g)
				x, y := make([]float64, 196), make([]float64, 196)
				for i, z := range squareGrid(14, 14).points() {
					x[i], y[i] = real(z), imag(z)/weierstrass.OmegaSquare
				}
				z := ComplexNode{ConstAsDType(g, dtypes.Float32, x), Mul(ConstAsDType(g, dtypes.Float32, y), omega3p)}
				p, pPrime := P(z, Scalar(g, dtypes.Float32, weierstrass.OmegaSquare), omega3p)
				features := Tanh(MulScalar(Stack([]*Node{p.Re, p.Im, pPrime.Re, pPrime.Im}, -1), 0.1)) // [196, 4]
				loss := ReduceAllSum(features)
				if gradient {
					return s.BuildTrainableVariablesGradientsGraph(loss)
				}
				return []*Node{loss}
			})
		})
	}
}

// BenchmarkEncode is what each form adds to a ViT-Ti/16 at 224 in every step, whatever the batch: its table [197, 192],
// or for the bias [3, 197, 197], forward and with the gradients of all its parameters.
func BenchmarkEncode(b *testing.B) {
	surrogate := func(name string) func(s *model.Scope, g *Graph) *Node {
		return func(s *model.Scope, g *Graph) *Node {
			return NewSurrogate(s, 14, 14, 192).with(kv{paramSurrogate: name}).Done().Encode(g)
		}
	}
	scratch := func(settings kv) func(s *model.Scope, g *Graph) *Node {
		return func(s *model.Scope, g *Graph) *Node {
			return New(s, 14, 14, 192).WithPrefix(1).with(settings).Done().Encode(g)
		}
	}
	for _, form := range []struct {
		name  string
		build func(s *model.Scope, g *Graph) *Node
	}{
		{"exact", scratch(kv{paramEvaluation: evaluateExact})},
		{"exact-mlp", scratch(kv{paramEvaluation: evaluateExact, paramProjection: mlp})},
		{"sum", scratch(kv{paramEvaluation: evaluateSum})},
		{"table", scratch(ofTable(deflatedTable, defaultTableResolution))},
		{"release", scratch(kv{paramMode: release})},
		{"surrogate-paper", surrogate(surrogatePaper)},
		{"surrogate-svhn", surrogate(surrogateSVHN)},
		{"hybrid", func(s *model.Scope, g *Graph) *Node {
			table := weight.Variable(s, "pretrained", dtypes.Float32, weight.Constant(0.1), 197, 192)
			field := NewSurrogate(s, 14, 14, 192).with(kv{paramSurrogate: surrogateSVHN}).Done()
			return NewHybrid(s, table, field).Done().Encode(g)
		}},
		{"learned", func(s *model.Scope, g *Graph) *Node {
			return weight.Variable(s, "learned", dtypes.Float32, weight.Normal(0.02), 197, 192).NodeValue(g)
		}},
		{"bias", func(s *model.Scope, g *Graph) *Node {
			return New(s, 14, 14, 192).WithPrefix(1).Bias(3).AttentionBias(g)
		}},
	} {
		for _, gradient := range []bool{false, true} {
			name := form.name + "/forward"
			if gradient {
				name = form.name + "/gradient"
			}
			b.Run(name, func(b *testing.B) {
				benchGraph(b, func(s *model.Scope, g *Graph) []*Node {
					loss := ReduceAllSum(Square(form.build(s, g)))
					if gradient {
						return s.BuildTrainableVariablesGradientsGraph(loss)
					}
					return []*Node{loss}
				})
			})
		}
	}
}
