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

// benchGraph measures the wall time and the CPU time of a graph without inputs. One call includes the executor's
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

// BenchmarkP computes ℘ and ℘′ of 196 patches that move with the lattice, forward and with the gradient of ω3′.
func BenchmarkP(b *testing.B) {
	for _, gradient := range []bool{false, true} {
		b.Run(map[bool]string{false: "forward", true: "gradient"}[gradient], func(b *testing.B) {
			benchGraph(b, func(s *model.Scope, g *Graph) []*Node {
				omega3p := weight.Variable(s, "omega3p", dtypes.Float32, weight.Constant(2.7)).NodeValue(g)
				x, y := make([]float64, 196), make([]float64, 196)
				for i, z := range squareGrid(14, 14).points() {
					x[i], y[i] = real(z), imag(z)/weierstrass.OmegaSquare
				}
				z := ComplexNode{Re: ConstAsDType(g, dtypes.Float32, x), Im: Mul(ConstAsDType(g, dtypes.Float32, y), omega3p)}
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
