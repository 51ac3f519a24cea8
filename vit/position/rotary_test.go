// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"fmt"
	"math"
	"math/cmplx"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
)

// noise are queries of a model.
func noise(c named) *tensors.Tensor { return gomlxtest.Noise(1, c.Tokens(), c.Heads, c.headDim()) }

// turned returns the noise [tokens, width] rotated by block 1 of a model, and half of it, as keys.
func turned(t *testing.T, store *model.Store, c named) (q, k []float64) {
	t.Helper()
	got := gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) []*Node {
		q, k := acting[Rotator](c, s.In("vit")).Block(1).EncodeQK(in[0], MulScalar(in[0], 0.5), nil, 1)
		return []*Node{q, k}
	}, noise(c))
	return got[0], got[1]
}

func TestRope1DEqualsRoFormersFormula(t *testing.T) {
	c := turning("rope1d")
	q, k := turned(t, gomlxtest.Seeded(t, 5), c)
	x, d := gomlxtest.Values(t, noise(c)), c.headDim()
	var want, half []float64
	for at := 0; at < len(x); at += 2 {
		m, i := float64(max(0, at/c.Width-c.Prefix)), float64(at%d/2)
		turn := complex(x[at], x[at+1]) * cmplx.Exp(complex(0, m*math.Pow(10000, -2*i/float64(d)))) // §3.2.2
		want, half = append(want, real(turn), imag(turn)), append(half, real(turn)/2, imag(turn)/2)
	}
	gomlxtest.Near(t, "queries", q, want, 1e-6)
	gomlxtest.Near(t, "keys", k, half, 1e-6)
}

func TestTokensAlongAnotherAxisAreRefused(t *testing.T) {
	c := turning("rope1d")
	gomlxtest.RunModel(t, gomlxtest.Seeded(t, 5), func(s *model.Scope, in []*Node) []*Node {
		block, flat := acting[Rotator](c, s.In("vit")).Block(1), Reshape(in[0], 1, c.Tokens(), c.Width)
		block.EncodeQK(in[0], in[0], nil, 1)
		block.EncodeQK(in[0], in[0], nil, -3)
		refuses(t, "axis 2", func() { block.EncodeQK(in[0], in[0], nil, 2) })
		refuses(t, "no heads", func() { block.EncodeQK(flat, flat, nil, 1) })
		return in
	}, noise(c))
}

// θ is the published one.
func TestRopeTheta_DefaultsToTheAuthors(t *testing.T) {
	gomlxtest.OnGo(t)
	for position, theta := range map[string]float64{"rope1d": 10000, "rope-axial": 100, "rope-mixed": 10,
		"rope-dinov3": 100, "as2drope": 10000, "fope": 10000} {
		with := func(params map[string]any) []float64 {
			store := gomlxtest.Seeded(t, 5)
			store.SetParam("/"+fopeLength, 100) // long enough for more than one frequency
			store.SetParams(params)
			q, _ := turned(t, store, turning(position))
			return q
		}
		of := func(theta float64) []float64 { return with(map[string]any{ParamRopeTheta: theta}) }
		gomlxtest.NearAbs(t, position+" by default", with(nil), of(theta), 0)
		is.Equal(t, position+" ignores θ", slices.Equal(with(nil), of(2*theta)), false)
	}
}

// The angle of pair j of patch (row, col) is (col + offset)·C/cols·100^(-j/n) in the first half, and the same of the
// row in the second; "row" exchanges the halves, and R = C = 0 does not scale.
func TestAxialAnglesHaveTheirOrderOffsetAndScale(t *testing.T) {
	c := turning("rope-axial")
	n := c.headDim() / 4
	for _, test := range []struct {
		first      string
		offset     float64
		rows, cols int
	}{{"col", 0, 0, 0}, {"row", 0, 0, 0}, {"col", 0.5, 0, 0}, {"row", 0.5, 7, 11}, {"col", -0.25, 0, 2}} {
		store := stored(map[string]any{ParamRopeAxialFirst: test.first, ParamRopeAxialOffset: test.offset,
			ParamRopeAxialRows: test.rows, ParamRopeAxialCols: test.cols})
		got := gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) []*Node {
			cos, sin := rotationOf(acting[Rotator](c, s)).pairs(in[0].Graph(), 0)
			return []*Node{cos, sin}
		}, float32(0))
		var cos, sin []float64
		for k := range c.Tokens() {
			patch := k - c.Prefix
			down, across := float64(patch/c.Cols)+test.offset, float64(patch%c.Cols)+test.offset
			if test.rows > 0 {
				down *= float64(test.rows) / float64(c.Rows)
			}
			if test.cols > 0 {
				across *= float64(test.cols) / float64(c.Cols)
			}
			for j := range 2 * n {
				at := across
				if (j < n) == (test.first == "row") {
					at = down
				}
				angle := at * math.Pow(100, -float64(j%n)/float64(n))
				if patch < 0 {
					angle = 0
				}
				cos, sin = append(cos, math.Cos(angle)), append(sin, math.Sin(angle))
			}
		}
		gomlxtest.NearAbs(t, fmt.Sprintf("%+v: cosines", test), got[0], cos, 1e-6)
		gomlxtest.NearAbs(t, fmt.Sprintf("%+v: sines", test), got[1], sin, 1e-6)
	}
}
