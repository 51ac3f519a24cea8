// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// BenchmarkElliptic is ℘ and ℘′ on the 14×14 grid of a ViT/16 at 224, float32, as the encoder evaluates them once per
// step: coordinates, values and, for "gradient", the derivative of their sum of squares by ω3′. One call includes the
// executor's overhead; the result stays on the device as in a training step.
func BenchmarkElliptic(b *testing.B) {
	for _, way := range []struct {
		name   string
		config func(*Config) *Config
	}{
		{"exact", func(c *Config) *Config { return c.UseExact() }},
		{"sum", func(c *Config) *Config { return c.UseSum(DefaultLatticeSum()) }},
	} {
		for _, gradient := range []bool{false, true} {
			name := way.name + "/forward"
			if gradient {
				name = way.name + "/gradient"
			}
			b.Run(name, func(b *testing.B) {
				exec, err := model.NewExec(gomlxtest.Backend(), model.NewStore(), func(s *model.Scope, g *Graph) *Node {
					e := way.config(New(s, 14, 14, 192)).Done()
					p, pPrime := e.Values(g)
					size := ReduceAllSum(Add(p.norm2(), pPrime.norm2()))
					if gradient {
						return Gradient(size, e.omega3.NodeValue(g))[0]
					}
					return size
				})
				if err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					outputs, err := exec.Call()
					if err != nil {
						b.Fatal(err)
					}
					outputs[0].MustFinalizeAll()
				}
			})
		}
	}
}

// BenchmarkEncode is the whole table of a ViT-Ti/16 at 224, [197, 192], forward and with the gradients of all its
// parameters.
func BenchmarkEncode(b *testing.B) {
	for _, gradient := range []bool{false, true} {
		name := "forward"
		if gradient {
			name = "gradient"
		}
		b.Run(name, func(b *testing.B) {
			exec, err := model.NewExec(gomlxtest.Backend(), model.NewStore(), func(s *model.Scope, g *Graph) []*Node {
				loss := ReduceAllSum(Square(New(s, 14, 14, 192).WithPrefix(1).Done().Encode(g)))
				if gradient {
					return s.BuildTrainableVariablesGradientsGraph(loss)
				}
				return []*Node{loss}
			})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				outputs, err := exec.Call()
				if err != nil {
					b.Fatal(err)
				}
				for _, output := range outputs {
					output.MustFinalizeAll()
				}
			}
		})
	}
}
