// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dhvt

import (
	"math"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func TestWindowsConvolveEverySecondCellOfANonSquareMap(t *testing.T) {
	const rows, cols, batch, in, out = 6, 10, 2, 3, 5
	x, w := noise(rows*cols, batch, in), noise(9, in, out)
	got := run(t, model.NewStore(), func(_ *model.Scope, inputs []*Node) []*Node {
		return []*Node{Einsum("knbi,kio->nbo", grid{rows, cols}.windows(inputs[0]), inputs[1])}
	}, x, w)[0]
	xs, ws := gomlxtest.Values(t, x), gomlxtest.Values(t, w)
	var want []float64
	for row := 0; row < rows; row += 2 {
		for col := 0; col < cols; col += 2 {
			for b := range batch {
				for o := range out {
					var sum float64
					for k := range 9 {
						r, c := row+k/3-1, col+k%3-1
						if r < 0 || r >= rows || c < 0 || c >= cols {
							continue
						}
						for i := range in {
							sum += xs[((r*cols+c)*batch+b)*in+i] * ws[(k*in+i)*out+o]
						}
					}
					want = append(want, sum)
				}
			}
		}
	}
	gomlxtest.Near(t, "3×3 convolution of stride 2", got, want, 1e-6)
}

func TestDepthwiseConvolvesEachChannelOfANonSquareMap(t *testing.T) {
	c := small("none") // 5×3 patches
	const rows, cols, batch, channels = 5, 3, 2, 7
	x := noise(rows*cols, batch, channels)
	store := seeded(t, 3)
	build := func(s *model.Scope, in []*Node) []*Node {
		y := c.depthwise(s.In("dhvt"), in[0]) // running statistics of a new model: mean 0, variance 1
		return []*Node{MulScalar(y, math.Sqrt(1+batchNormEpsilon))}
	}
	got := run(t, store, build, x)[0]
	xs := gomlxtest.Values(t, x)
	ws := gomlxtest.Values(t, store.GetVariable("/dhvt/weights").MustValue()) // [3, 3, channels]
	bs := gomlxtest.Values(t, store.GetVariable("/dhvt/biases").MustValue())
	var want []float64
	for row := range rows {
		for col := range cols {
			for b := range batch {
				for ch := range channels {
					sum := bs[ch]
					for k := range 9 {
						if r, q := row+k/3-1, col+k%3-1; r >= 0 && r < rows && q >= 0 && q < cols {
							sum += xs[((r*cols+q)*batch+b)*channels+ch] * ws[k*channels+ch]
						}
					}
					want = append(want, sum)
				}
			}
		}
	}
	gomlxtest.Near(t, "depthwise 3×3 convolution", got, want, 1e-6)
}

func TestATransposedImageSeenThroughTransposedKernelsHasTheSameLogits(t *testing.T) {
	c := small("none")
	store := seeded(t, 9)
	want := logits(t, c, store, false)
	for v := range store.IterVariables() {
		d := v.Shape().Dimensions // of convolutions: [3, 3, …]
		if len(d) < 3 {
			continue
		}
		v.MustValue().MustMutableFlatData(func(flat any) {
			w := flat.([]float32)
			size := len(w) / 9
			for i := range 3 {
				for j := range i {
					for k := range size {
						a, b := (3*i+j)*size+k, (3*j+i)*size+k
						w[a], w[b] = w[b], w[a]
					}
				}
			}
		})
	}
	turned := c
	turned.ImageRows, turned.ImageCols = c.ImageCols, c.ImageRows
	got := run(t, store, func(s *model.Scope, in []*Node) []*Node {
		return []*Node{turned.Logits(s.In("dhvt"), TransposeAllAxes(in[0], 0, 2, 1, 3))}
	}, images(c, 3))[0]
	gomlxtest.Near(t, "logits", got, want, 1e-5)
	upright := run(t, store, func(s *model.Scope, in []*Node) []*Node {
		return []*Node{c.Logits(s.In("dhvt"), in[0])}
	}, images(c, 3))[0]
	var moved float64
	for i := range want {
		moved = max(moved, math.Abs(upright[i]-want[i]))
	}
	if moved < 1e-3 {
		t.Errorf("the transposed kernels move the logits of the upright images by %g: this test would not see much", moved)
	}
}
