// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// hostBias is the bias of every head by the host's functions at every pair of patches, written out from mathematics.md
// (10.1) and (10.2): weights [features, heads], biases and own [heads], own nil on the sphere.
func (h hostGrid) bias(t *testing.T, prefix int, weights, biases, own []float64) []float64 {
	t.Helper()
	z := h.points()
	var out []float64
	for head := range biases {
		for query := -prefix; query < len(z); query++ {
			for key := -prefix; key < len(z); key++ {
				value := 0.0
				switch {
				case query < 0 || key < 0:
				case query == key && own != nil:
					value = own[head]
				default:
					value = biases[head]
					for i, f := range h.at(t, z[key]-z[query]) {
						value += f * weights[i*len(biases)+head]
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
	scope := s.At("%s", c.formScope(scopeBias))
	listVariable(scope, "biases", c.dtype, biases, true)
	if c.compression == compressTanh {
		listVariable(scope, "own", c.dtype, own, true)
	}
	return c.Bias(heads)
}

func TestAttentionBias_is_the_hosts_at_every_pair_of_an_unequal_grid(t *testing.T) {
	const heads = 3
	for _, c := range []struct {
		prefix int
		host   hostGrid
	}{
		{2, squareGrid(3, 5)},
		{1, seen(5, 2, 0.4, 0.3, weierstrass.OmegaSquare, 1.085i)},
		{0, seen(2, 7, 0.9, 0.4, 1.3, 4.7i)}, // offsets of more than half a period
		{1, seen(1, 1, 0.4, 0.4, 2, 2i)},     // nothing but the pole
		{1, seen(3, 4, 1, 1, weierstrass.OmegaSquare, 2.2i).onSphere(1, 6)},
	} {
		h := c.host
		var b *RelativeBias
		got := run(t, model.NewStore(), func(s *model.Scope, in []*Node) []*Node {
			b = biasOf(s, New(s, h.rows, h.cols, 1).WithPrefix(c.prefix).with(h.settings()), heads)
			bias := b.AttentionBias(in[0].Graph())
			if tokens := c.prefix + h.rows*h.cols; bias.DType() != dtypes.Float32 ||
				!slices.Equal(bias.Shape().Dimensions, []int{heads, tokens, tokens}) {
				t.Errorf("%+v: bias %s, want float32 [heads, tokens, tokens]", h, bias.Shape())
			}
			return []*Node{bias}
		}, float32(0))
		values := func(v *model.Variable) []float64 { return gomlxtest.Values(t, v.MustValue()) }
		var own []float64
		if !h.sphere {
			own = values(b.own)
		} else if b.own != nil {
			t.Errorf("on the sphere there is a variable %s", b.own.Path())
		}
		want := h.bias(t, c.prefix, values(b.weights), values(b.biases), own)
		gomlxtest.Near(t, fmt.Sprintf("%+v", h), got[0], want, 3e-6)
	}
}

func TestAttentionBias_gradients_are_finite_differences_of_the_host(t *testing.T) {
	dtype, tol := dtypes.Float64, 1e-7
	if !float64Runs(t) {
		dtype, tol = dtypes.Float32, 2e-4
	}
	const heads, rows, cols, prefix, omega3 = 2, 3, 2, 1, 1.9
	host := seen(rows, cols, defaultSpan, defaultSpan, weierstrass.OmegaSquare, omega3*1i)
	const tokens = rows*cols + prefix
	cosines := make([]float64, heads*tokens*tokens)
	for i := range cosines {
		cosines[i] = math.Cos(float64(i))
	}
	var b *RelativeBias
	got := run(t, model.NewStore(), func(s *model.Scope, in []*Node) []*Node {
		c := New(s, rows, cols, 1).WithPrefix(prefix).with(host.settings())
		c.dtype = dtype
		b = biasOf(s, c, heads)
		g := in[0].Graph()
		weight := Reshape(ConstAsDType(g, dtype, cosines), heads, tokens, tokens)
		loss := ReduceAllSum(Mul(weight, b.AttentionBias(g)))
		return Gradient(loss, b.omega3.NodeValue(g), b.alphaScale.NodeValue(g), b.weights.NodeValue(g),
			b.biases.NodeValue(g), b.own.NodeValue(g))
	}, float32(0))
	values := func(v *model.Variable) []float64 { return gomlxtest.Values(t, v.MustValue()) }
	parameters := append([]float64{softplusInverse(omega3), softplusInverse(defaultAlphaScale)}, values(b.weights)...)
	parameters = append(append(parameters, values(b.biases)...), values(b.own)...)
	softplus := func(x float64) float64 { return math.Log1p(math.Exp(x)) }
	loss := func(p []float64) (sum float64) {
		own := len(p) - heads
		moved := host
		moved.omega3, moved.alphaScale = complex(0, softplus(p[0])), softplus(p[1])
		for i, v := range moved.bias(t, prefix, p[2:own-heads], p[own-heads:own], p[own:]) {
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
