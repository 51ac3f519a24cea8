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
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// alike returns a batch of equal tokens [batch, tokens, heads, headDim] with unequal channels.
func alike(c named, batch, tokens int) *tensors.Tensor {
	flat := make([]float32, batch*tokens*c.Width)
	for i := range flat {
		flat[i] = float32(math.Sin(float64(5*(i%c.Width)+2))) + 0.3
	}
	return tensors.FromFlatDataAndDimensions(flat, batch, tokens, c.Heads, c.headDim())
}

// turned returns equal tokens [tokens, width] rotated by block 1 of a model, as queries and as keys.
func turned(t *testing.T, store *model.Store, c named) (q, k []float64) {
	t.Helper()
	got := gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) []*Node {
		q, k := acting[Rotator](c, s.In("vit")).Block(1).EncodeQK(in[0], MulScalar(in[0], 0.5), nil, 1)
		return []*Node{q, k}
	}, alike(c, 1, c.Tokens()))
	return got[0], got[1]
}

func TestRope1DEqualsRoFormersFormula(t *testing.T) {
	c := turning("rope1d")
	d := c.headDim()
	x := gomlxtest.Values(t, alike(c, 1, 1)) // [heads, headDim], of every token
	q, k := turned(t, gomlxtest.Seeded(t, 5), c)
	var want []float64
	for token := range c.Tokens() {
		for at := 0; at < c.Width; at += 2 {
			m, i := float64(max(0, token-c.Prefix)), float64(at%d/2)
			turn := complex(x[at], x[at+1]) * cmplx.Exp(complex(0, m*math.Pow(10000, -2*i/float64(d)))) // §3.2.2
			want = append(want, real(turn), imag(turn))
		}
	}
	gomlxtest.Near(t, "queries", q, want, 1e-6)
	for i := range want {
		want[i] *= 0.5 // turned returns keys of half the length
	}
	gomlxtest.Near(t, "keys", k, want, 1e-6)
}

func TestTokensAlongAnotherAxisAreRefused(t *testing.T) {
	c := turning("rope1d")
	gomlxtest.RunModel(t, gomlxtest.Seeded(t, 5), func(s *model.Scope, in []*Node) []*Node {
		block, flat := acting[Rotator](c, s.In("vit")).Block(1), Reshape(in[0], 1, c.Tokens(), c.Width)
		for _, of := range []struct {
			x     *Node
			axis  int
			valid bool
		}{{in[0], 1, true}, {in[0], -3, true}, {in[0], 2, false}, {flat, 1, false}} {
			if err := exceptions.TryCatch[error](func() { block.EncodeQK(of.x, of.x, nil, of.axis) }); of.valid != (err == nil) {
				t.Errorf("%s along axis %d: %v", of.x.Shape(), of.axis, err)
			}
		}
		return in
	}, alike(c, 1, c.Tokens()))
}

// θ is the published one.
func TestDefaultsAreThoseOfTheAuthors(t *testing.T) {
	gomlxtest.OnGo(t)
	for _, of := range []struct {
		position, param string
		standard, other any
	}{
		{"rope1d", ParamRopeTheta, 10000.0, 20000.0}, {"rope-axial", ParamRopeTheta, 100.0, 200.0},
		{"rope-mixed", ParamRopeTheta, 10.0, 20.0}, {"rope-dinov3", ParamRopeTheta, 100.0, 200.0},
		{"as2drope", ParamRopeTheta, 10000.0, 20000.0}, {"fope", ParamRopeTheta, 10000.0, 20000.0},
	} {
		c := turning(of.position)
		with := func(params map[string]any) []float64 {
			store := gomlxtest.Seeded(t, 5)
			store.SetParam("/"+fopeLength, 100) // long enough for more than one frequency
			store.SetParams(params)
			q, _ := turned(t, store, c)
			return q
		}
		if !slices.Equal(with(nil), with(map[string]any{of.param: of.standard})) {
			t.Errorf("%s: %s = %v is not the default", of.position, of.param, of.standard)
		}
		if slices.Equal(with(nil), with(map[string]any{of.param: of.other})) {
			t.Errorf("%s: %s is not read", of.position, of.param)
		}
	}
}

func TestTheClassTokenTurnsInAS2DRoPEAlone(t *testing.T) {
	gomlxtest.OnGo(t)
	for _, position := range []string{"rope1d", "rope-axial", "rope-mixed", "rope-dinov3", "fope", "liere", "as2drope"} {
		c := turning(position)
		still := gomlxtest.Values(t, alike(c, 1, 1))
		q, _ := turned(t, gomlxtest.Seeded(t, 5), c)
		if same := slices.Equal(q[:c.Width], still); same != (position != "as2drope") {
			t.Errorf("%s: the class token stays as it is: %v", position, same)
		}
		if slices.Equal(q[2*c.Width:3*c.Width], still) {
			t.Errorf("%s: patch 1 stays as it is", position)
		}
		registered := c
		registered.Prefix, registered.Registers, registered.Unplaced = 3, 2, 2 // which have no position, and move none
		if with, _ := turned(t, gomlxtest.Seeded(t, 5), registered); !slices.Equal(with,
			slices.Concat(q[:c.Width], still, still, q[c.Width:])) {
			t.Errorf("%s: registers turn, or change how others do", position)
		}
	}
}

// A learned function of position applies to a grid of 10×6 after training on 5×3 patches, by the rule of each original.
func TestPositionsOnAnotherGridRotateAsOnTheTrainingGrid(t *testing.T) {
	gomlxtest.OnGo(t)
	for position, trained := range map[string]func(row, col int) (int, bool){ // index of the patch with the same rotation
		"rope1d":     func(row, col int) (int, bool) { return row*6 + col, row*6+col < 15 }, // numbers continued
		"fope":       func(row, col int) (int, bool) { return row*6 + col, row*6+col < 15 },
		"rope-axial": func(row, col int) (int, bool) { return row*3 + col, row < 5 && col < 3 }, // cropped or extended
		"rope-mixed": func(row, col int) (int, bool) { return row*3 + col, row < 5 && col < 3 },
		"as2drope":   func(row, col int) (int, bool) { return row/2*3 + col/2, row%2 == 0 && col%2 == 0 }, // scaled
	} {
		c := turning(position)
		want, _ := turned(t, gomlxtest.Seeded(t, 5), c)
		store := gomlxtest.Seeded(t, 5)
		store.SetParams(c.trainedGrid())
		c.Rows, c.Cols = 2*c.Rows, 2*c.Cols
		got, _ := turned(t, store, c)
		compared := 0
		for row := range c.Rows {
			for col := range c.Cols {
				if k, ok := trained(row, col); ok {
					at, from := (c.Prefix+row*c.Cols+col)*c.Width, (c.Prefix+k)*c.Width
					gomlxtest.Near(t, position, got[at:at+c.Width], want[from:from+c.Width], 1e-6)
					compared++
				}
			}
		}
		if compared != 15 {
			t.Errorf("%s: %d places compared, want 15", position, compared)
		}
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
		store := model.NewStore()
		store.SetParams(map[string]any{ParamRopeAxialFirst: test.first, ParamRopeAxialOffset: test.offset,
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
			halves := []float64{across, down}
			if test.first == "row" {
				halves = []float64{down, across}
			}
			for _, at := range halves {
				for j := range n {
					angle := at * math.Pow(100, -float64(j)/float64(n))
					if patch < 0 {
						angle = 0
					}
					cos, sin = append(cos, math.Cos(angle)), append(sin, math.Sin(angle))
				}
			}
		}
		gomlxtest.NearAbs(t, fmt.Sprintf("%+v: cosines", test), got[0], cos, 1e-6)
		gomlxtest.NearAbs(t, fmt.Sprintf("%+v: sines", test), got[1], sin, 1e-6)
	}
}
