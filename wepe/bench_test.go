// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// squareTable is the key of the default encoder's table.
var squareTable = TableKey{Mode: Paper, Omega1: weierstrass.OmegaSquare, Omega3p: weierstrass.OmegaSquare,
	SpanU: DefaultSpan, SpanV: DefaultSpan, Resolution: DefaultTableResolution, Kind: Deflated}

// sink keeps results alive.
var sink complex128

// BenchmarkHost is ℘ and ℘′ of the 196 patches of a ViT/16 at 224, in float64 on one core.
func BenchmarkHost(b *testing.B) {
	lattice, table := weierstrass.Square(), mustTable(b, squareTable)
	at := func(f func(z complex128) (p, pPrime complex128)) func(u, v float64) (p, pPrime complex128) {
		return func(u, v float64) (p, pPrime complex128) {
			return f(complex(DefaultSpan*u*2*lattice.Omega1(), DefaultSpan*v*2*lattice.Omega3p()))
		}
	}
	for _, form := range []struct {
		name string
		p    func(u, v float64) (p, pPrime complex128)
	}{
		{"exact", at(lattice.Eval)},
		{"sum", at(func(z complex128) (p, pPrime complex128) { return lattice.DirectSum(z, DefaultLatticeSum().Cut) })},
		{"table", table.P},
	} {
		b.Run(form.name, func(b *testing.B) {
			patches := grid{rows: 14, cols: 14}
			for b.Loop() {
				for k := range patches.positions() {
					p, pPrime := form.p(patches.centre(k))
					sink += p + pPrime
				}
			}
		})
	}
}

// BenchmarkNewTable evaluates the 65,536 nodes of the default table.
func BenchmarkNewTable(b *testing.B) {
	for b.Loop() {
		mustTable(b, squareTable)
	}
}

// benchGraph times a graph without inputs. One call includes the executor's overhead; the results stay on the device as
// in a training step.
func benchGraph(b *testing.B, build func(s *model.Scope, g *Graph) []*Node) {
	b.Helper()
	exec, err := model.NewExec(gomlxtest.Backend(), model.NewStore(), build)
	if err != nil {
		b.Fatal(err)
	}
	defer exec.Finalize()
	for b.Loop() {
		outputs, err := exec.Call()
		if err != nil {
			b.Fatal(err)
		}
		for _, output := range outputs {
			output.MustFinalizeAll()
		}
	}
}

// BenchmarkElliptic is ℘ and ℘′ on the 14×14 grid of a ViT/16 at 224, float32, as the encoder evaluates them once per
// step: coordinates, values and, for "gradient", the derivative of their sum of squares by ω3′, which a table does not
// have.
func BenchmarkElliptic(b *testing.B) {
	for _, form := range []struct {
		name     string
		config   func(*Config) *Config
		gradient bool
	}{
		{"exact/forward", func(c *Config) *Config { return c.with(kv{ParamEvaluation: EvaluateExact}) }, false},
		{"exact/gradient", func(c *Config) *Config { return c.with(kv{ParamEvaluation: EvaluateExact}) }, true},
		{"sum/forward", func(c *Config) *Config { return c.with(kv{ParamEvaluation: EvaluateSum}) }, false},
		{"sum/gradient", func(c *Config) *Config { return c.with(kv{ParamEvaluation: EvaluateSum}) }, true},
		{"scales-4/forward", func(c *Config) *Config { return c.with(ofScales(4, DefaultScaleRatio)) }, false},
		{"scales-4/gradient", func(c *Config) *Config { return c.with(ofScales(4, DefaultScaleRatio)) }, true},
		{"oblique/forward", func(c *Config) *Config { return c.with(ofOblique(1, true)) }, false},
		{"oblique/gradient", func(c *Config) *Config { return c.with(ofOblique(1, true)) }, true},
		{"table/forward", func(c *Config) *Config {
			return c.with(ofTable(Deflated, DefaultTableResolution))
		}, false},
	} {
		b.Run(form.name, func(b *testing.B) {
			benchGraph(b, func(s *model.Scope, g *Graph) []*Node {
				e := form.config(New(s, 14, 14, 192)).Done()
				p, pPrime := e.Values(g)
				size := ReduceAllSum(Add(p.norm2(), pPrime.norm2()))
				if form.gradient {
					return Gradient(size, e.omega3.NodeValue(g))
				}
				return []*Node{size}
			})
		})
	}
}

// BenchmarkEncode is what each form adds to a ViT-Ti/16 at 224 in every step, whatever the batch: its table [197, 192],
// or for the bias [3, 197, 197], forward and with the gradients of all its parameters.
func BenchmarkEncode(b *testing.B) {
	surrogate := func(name string, prefix int) func(s *model.Scope) Encoding {
		return func(s *model.Scope) Encoding {
			form, err := NamedSurrogate(name)
			if err != nil {
				b.Fatal(err)
			}
			return NewSurrogate(s, 14, 14, 192).WithPrefix(prefix).WithSurrogate(form).Done()
		}
	}
	scratch := func(config func(*Config) *Config) func(s *model.Scope) Encoding {
		return func(s *model.Scope) Encoding { return config(New(s, 14, 14, 192).WithPrefix(1)).Done() }
	}
	for _, form := range []struct {
		name  string
		build func(s *model.Scope) Encoding
	}{
		{"exact", scratch(func(c *Config) *Config { return c.with(kv{ParamEvaluation: EvaluateExact}) })},
		{"exact-mlp", scratch(func(c *Config) *Config {
			return c.
				with(kv{ParamEvaluation: EvaluateExact, ParamProjection: MLP})
		})},
		{"sum", scratch(func(c *Config) *Config { return c.with(kv{ParamEvaluation: EvaluateSum}) })},
		{"table", scratch(func(c *Config) *Config {
			return c.with(ofTable(Deflated, DefaultTableResolution))
		})},
		{"release", scratch(func(c *Config) *Config { return c.with(kv{ParamMode: Release}) })},
		{"surrogate-paper", surrogate("paper", 1)},
		{"surrogate-svhn", surrogate("svhn", 1)},
		{"hybrid", func(s *model.Scope) Encoding {
			table, err := s.CreateVariable("pretrained", tensors.FromScalarAndDimensions(float32(0.1), 197, 192))
			if err != nil {
				b.Fatal(err)
			}
			return NewHybrid(s, table, surrogate("svhn", 0)(s)).Done()
		}},
		{"learned", nil},
		{"bias", nil},
	} {
		for _, gradient := range []bool{false, true} {
			name := form.name + "/forward"
			if gradient {
				name = form.name + "/gradient"
			}
			b.Run(name, func(b *testing.B) {
				benchGraph(b, func(s *model.Scope, g *Graph) []*Node {
					var table *Node
					switch form.name {
					case "bias":
						table = New(s, 14, 14, 192).WithPrefix(1).Bias(3).AttentionBias(g)
					case "learned":
						table = weight.Variable(s, "learned", dtypes.Float32, weight.Normal(0.02), 197, 192).NodeValue(g)
					default:
						table = form.build(s).Encode(g)
					}
					loss := ReduceAllSum(Square(table))
					if gradient {
						return s.BuildTrainableVariablesGradientsGraph(loss)
					}
					return []*Node{loss}
				})
			})
		}
	}
}
