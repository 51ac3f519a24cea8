// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
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
func biasOf(s *model.Scope, c *Config, heads int) *relativeBias {
	biases, own := make([]float64, heads), make([]float64, heads)
	for h := range heads {
		biases[h], own[h] = 0.3-0.2*float64(h), -0.7+0.4*float64(h)
	}
	listVariable(s.At(scopeBias), "biases", biases, true)
	listVariable(s.At(scopeBias), "own", own, true)
	return c.Bias(heads).(*relativeBias)
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
	} {
		h := c.host
		var b *relativeBias
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
		want := h.bias(t, c.prefix, values(b.weights), values(b.biases), values(b.own))
		gomlxtest.Near(t, fmt.Sprintf("%+v", h), got[0], want, 3e-6)
	}
}
