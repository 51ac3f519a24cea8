// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// hostBias is the bias of one head by the host's functions at every pair of patches, written out from mathematics.md
// (10.1) and (10.2): weights [4, heads], biases and own [heads].
func hostBias(t *testing.T, rows, cols, prefix, heads int, spanU, spanV, omega1, omega3p, alphaScale float64,
	weights, biases, own []float64) []float64 {
	t.Helper()
	lattice, err := weierstrass.NewLattice(omega1, omega3p)
	if err != nil {
		t.Fatal(err)
	}
	at := func(patch int) complex128 {
		return complex(2*omega1*spanU*(float64(patch%cols)+0.5)/float64(cols),
			2*omega3p*spanV*(float64(patch/cols)+0.5)/float64(rows))
	}
	var out []float64
	for h := range heads {
		for query := -prefix; query < rows*cols; query++ {
			for key := -prefix; key < rows*cols; key++ {
				value := 0.0
				switch {
				case query < 0 || key < 0:
				case query == key:
					value = own[h]
				default:
					p, pp := lattice.Eval(at(key) - at(query))
					value = biases[h]
					for i, f := range []float64{real(p), imag(p), real(pp), imag(pp)} {
						value += math.Tanh(alphaScale*f) * weights[i*heads+h]
					}
				}
				out = append(out, value)
			}
		}
	}
	return out
}

// biasOf builds a bias whose variables are all different from one another and from zero.
func biasOf(s *model.Scope, c *Config, heads int) *RelativeBias {
	biases, own := make([]float64, heads), make([]float64, heads)
	for h := range heads {
		biases[h], own[h] = 0.3-0.2*float64(h), -0.7+0.4*float64(h)
	}
	listVariable(s.At(scopeBias), "biases", c.dtype, biases, true)
	listVariable(s.At(scopeBias), "own", c.dtype, own, true)
	return c.Bias(heads)
}

func TestAttentionBias_is_the_hosts_at_every_pair_of_an_unequal_grid(t *testing.T) {
	const heads = 3
	for _, c := range []struct {
		rows, cols, prefix           int
		spanU, spanV, omega1, omega3 float64
	}{
		{3, 5, 2, 0.4, 0.4, weierstrass.OmegaSquare, weierstrass.OmegaSquare},
		{5, 2, 1, 0.4, 0.3, weierstrass.OmegaSquare, 1.085},
		{2, 7, 0, 0.9, 0.4, 1.3, 4.7}, // offsets of more than half a period
		{1, 1, 1, 0.4, 0.4, 2, 2},     // nothing but the pole
	} {
		store := model.NewStore()
		var b *RelativeBias
		got := run(t, store, func(s *model.Scope, in []*Node) []*Node {
			b = biasOf(s, New(s, c.rows, c.cols, 1).WithPrefix(c.prefix).
				with(ofHalfPeriods(c.omega1, c.omega3), ofSpan(c.spanU, c.spanV)), heads)
			bias := b.AttentionBias(in[0].Graph())
			if tokens := c.prefix + c.rows*c.cols; bias.DType() != dtypes.Float32 || bias.Rank() != 3 ||
				bias.Shape().Dim(0) != heads || bias.Shape().Dim(1) != tokens || bias.Shape().Dim(2) != tokens {
				t.Errorf("%+v: bias %s, want float32 [heads, tokens, tokens]", c, bias.Shape())
			}
			return []*Node{bias}
		}, float32(0))
		values := func(v *model.Variable) []float64 { return gomlxtest.Values(t, v.MustValue()) }
		want := hostBias(t, c.rows, c.cols, c.prefix, heads, c.spanU, c.spanV, c.omega1, c.omega3, DefaultAlphaScale,
			values(b.weights), values(b.biases), values(b.own))
		gomlxtest.Near(t, fmt.Sprintf("%+v", c), got[0], want, 3e-6)
	}
}

func TestAttentionBias_gradients_are_finite_differences_of_the_host(t *testing.T) {
	dtype, tol := dtypes.Float64, 1e-7
	if !float64Runs(t) {
		dtype, tol = dtypes.Float32, 2e-4
	}
	const heads, rows, cols, prefix, omega1, omega3, alpha = 2, 3, 2, 1, weierstrass.OmegaSquare, 1.9, 0.15
	const tokens = rows*cols + prefix
	cosines := make([]float64, heads*tokens*tokens)
	for i := range cosines {
		cosines[i] = math.Cos(float64(i))
	}
	var b *RelativeBias
	got := run(t, model.NewStore(), func(s *model.Scope, in []*Node) []*Node {
		c := New(s, rows, cols, 1).WithPrefix(prefix).with(ofHalfPeriods(omega1, omega3))
		c.dtype = dtype
		b = biasOf(s, c, heads)
		g := in[0].Graph()
		weight := Reshape(ConstAsDType(g, dtype, cosines), heads, tokens, tokens)
		loss := ReduceAllSum(Mul(weight, b.AttentionBias(g)))
		return Gradient(loss, b.omega3.NodeValue(g), b.alphaScale.NodeValue(g), b.weights.NodeValue(g),
			b.biases.NodeValue(g), b.own.NodeValue(g))
	}, float32(0))
	values := func(v *model.Variable) []float64 { return gomlxtest.Values(t, v.MustValue()) }
	parameters := append([]float64{softplusInverse(omega3), softplusInverse(alpha)}, values(b.weights)...)
	parameters = append(append(parameters, values(b.biases)...), values(b.own)...)
	softplus := func(x float64) float64 { return math.Log1p(math.Exp(x)) }
	loss := func(p []float64) (sum float64) {
		own := len(p) - heads
		for i, v := range hostBias(t, rows, cols, prefix, heads, DefaultSpan, DefaultSpan, omega1, softplus(p[0]),
			softplus(p[1]), p[2:own-heads], p[own-heads:own], p[own:]) {
			sum += cosines[i] * v
		}
		return sum
	}
	var flat []float64
	for _, gradient := range got {
		flat = append(flat, gradient...)
	}
	if len(flat) != len(parameters) {
		t.Fatalf("%d gradients for %d parameters", len(flat), len(parameters))
	}
	const step = 1e-5
	for i := range parameters {
		up, down := append([]float64(nil), parameters...), append([]float64(nil), parameters...)
		up[i] += step
		down[i] -= step
		want := (loss(up) - loss(down)) / (2 * step)
		if !(math.Abs(flat[i]-want) <= tol*(1+math.Abs(want))) {
			t.Errorf("parameter %d: gradient %g, want %g", i, flat[i], want)
		}
	}
}

func TestA_bias_without_heads_or_with_bad_settings_is_refused_by_name(t *testing.T) {
	for name, build := range map[string]func(c *Config){
		"0 heads":   func(c *Config) { c.Bias(0) },
		ParamAlphaU: func(c *Config) { c.with(ofSpan(-1, 1)).Bias(2) },
		"grid 0×5":  func(c *Config) { c.rows = 0; c.Bias(2) },
	} {
		err := exceptions.TryCatch[error](func() { build(New(model.NewStore().RootScope(), 3, 5, 1)) })
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want a refusal that names it", name, err)
		}
	}
}
