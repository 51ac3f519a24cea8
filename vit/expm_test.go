// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"math"
	"math/rand/v2"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// square is a matrix of float64, row by row.
type square struct {
	n int
	a []float64
}

func (x square) times(y square) square {
	z := square{x.n, make([]float64, x.n*x.n)}
	for i := range x.n {
		for k := range x.n {
			for j := range x.n {
				z.a[i*x.n+j] += x.a[i*x.n+k] * y.a[k*x.n+j]
			}
		}
	}
	return z
}

// exp sums 24 terms of the series at x/2^s with elements of x/2^s below 1/(8n) and squares s times: slow, and as exact
// as float64 is.
func (x square) exp() square {
	largest, squarings := 0.0, 0
	for _, v := range x.a {
		largest = max(largest, math.Abs(v))
	}
	for ; largest > 1/float64(8*x.n); squarings++ {
		largest /= 2
	}
	scaled, term, sum := square{x.n, make([]float64, x.n*x.n)}, square{x.n, make([]float64, x.n*x.n)}, square{}
	for i, v := range x.a {
		scaled.a[i] = math.Ldexp(v, -squarings)
	}
	for i := range x.n {
		term.a[i*(x.n+1)] = 1
	}
	sum = square{x.n, append([]float64{}, term.a...)}
	for k := 1; k < 24; k++ {
		term = term.times(scaled)
		for i := range term.a {
			term.a[i] /= float64(k)
			sum.a[i] += term.a[i]
		}
	}
	for range squarings {
		sum = sum.times(sum)
	}
	return sum
}

// norm is the spectral norm of a skew-symmetric matrix, by iterating x² on a vector.
func (x square) norm() float64 {
	v := make([]float64, x.n)
	for i := range v {
		v[i] = math.Cos(float64(i) + 0.3)
	}
	estimate := 0.0
	for range 300 {
		length := 0.0
		for range 2 {
			w := make([]float64, x.n)
			length = 0
			for i := range x.n {
				for j := range x.n {
					w[i] += x.a[i*x.n+j] * v[j]
				}
				length += w[i] * w[i]
			}
			length = math.Sqrt(length)
			for i := range w {
				v[i] = w[i] / length
			}
		}
		estimate = length
	}
	return estimate
}

// skew draws a skew-symmetric matrix with elements up to limit, all of one sign above the diagonal on request: the
// case that attains Pick's inequality.
func skew(r *rand.Rand, n int, limit float64, extreme bool) square {
	x := square{n, make([]float64, n*n)}
	for i := range n {
		for j := i + 1; j < n; j++ {
			v := limit * r.Float64()
			if extreme {
				v = limit
			}
			x.a[i*n+j], x.a[j*n+i] = v, -v
		}
	}
	return x
}

func expOf(t *testing.T, matrices []square, bound float64) []float64 {
	t.Helper()
	n := matrices[0].n
	var flat []float32
	for _, x := range matrices {
		for _, v := range x.a {
			flat = append(flat, float32(v))
		}
	}
	return gomlxtest.Run(t, func(in []*Node) []*Node { return []*Node{expSkew(in[0], bound)} },
		tensors.FromFlatDataAndDimensions(flat, len(matrices), n, n))[0]
}

func TestPicksInequalityBoundsTheNorm(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{2, 3, 8, 16, 64} {
		bound := 1 / math.Tan(math.Pi/float64(2*n))
		if got := skew(r, n, 1, true).norm(); math.Abs(got-bound) > 1e-6*bound {
			t.Errorf("ones above the diagonal, n = %d: norm %g, want %g", n, got, bound)
		}
		if got := skew(r, n, 1, false).norm(); got > bound {
			t.Errorf("n = %d: norm %g is above %g", n, got, bound)
		}
	}
}

// The error law in expm.go: 2^s·10⁻⁷ in the worst element, s squarings, from the float64 exponential of the same
// float32 numbers.
func TestExpSkewIsWithinItsStatedError(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, test := range []struct {
		n     int
		limit float64
	}{{2, 0.3}, {2, 25}, {3, 7}, {8, 0.1}, {8, 12.5}, {8, 25}, {13, 25}, {64, 12.5}, {64, 25}} {
		bound := test.limit / math.Tan(math.Pi/float64(2*test.n))
		allowed := math.Ldexp(1e-7, expSquarings(bound))
		matrices := []square{
			skew(r, test.n, test.limit, false), skew(r, test.n, test.limit/4, false), skew(r, test.n, test.limit, true),
		}
		got := expOf(t, matrices, bound)
		worst := 0.0
		for k, x := range matrices {
			for i := range x.a {
				x.a[i] = float64(float32(x.a[i]))
			}
			for i, want := range x.exp().a {
				worst = max(worst, math.Abs(got[k*len(x.a)+i]-want))
			}
		}
		t.Logf("n = %d, elements to %g, norm to %.1f, %d squarings: error %.2g, stated %.2g", test.n, test.limit, bound,
			expSquarings(bound), worst, allowed)
		if !(worst <= allowed) {
			t.Errorf("n = %d, elements to %g: error %g, stated %g", test.n, test.limit, worst, allowed)
		}
	}
}

func TestExpSkewOfTwoAndThreeChannelsIsARotation(t *testing.T) {
	const angle = 2.5
	got := expOf(t, []square{{2, []float64{0, angle, -angle, 0}}}, angle)
	gomlxtest.Near(t, "two", got, []float64{math.Cos(angle), math.Sin(angle), -math.Sin(angle), math.Cos(angle)}, 1e-6)

	// Rodrigues: exp of the cross product with an axis of length θ turns by θ around it.
	axis := [3]float64{0.6, -1.1, 1.7}
	theta := math.Sqrt(axis[0]*axis[0] + axis[1]*axis[1] + axis[2]*axis[2])
	cross := square{3, []float64{0, -axis[2], axis[1], axis[2], 0, -axis[0], -axis[1], axis[0], 0}}
	twice := cross.times(cross)
	var want []float64
	for i := range 9 {
		unit := 0.0
		if i%4 == 0 {
			unit = 1
		}
		want = append(want, unit+math.Sin(theta)/theta*cross.a[i]+(1-math.Cos(theta))/theta/theta*twice.a[i])
	}
	gomlxtest.Near(t, "three", expOf(t, []square{cross}, 2.2), want, 1e-6)
}

func TestExpSkewOfZeroIsTheIdentityInEveryBit(t *testing.T) {
	for i, v := range expOf(t, []square{{5, make([]float64, 25)}}, 100) {
		want := 0.0
		if i%6 == 0 {
			want = 1
		}
		if v != want {
			t.Fatalf("element %d is %g", i, v)
		}
	}
}

// Gradients of a weighted sum of exp(X), X from the numbers above its diagonal, against central differences of the
// float64 exponential.
func TestGradientOfExpSkewEqualsFiniteDifferences(t *testing.T) {
	const n, step = 5, 1e-5
	r := rand.New(rand.NewPCG(5, 6))
	x := skew(r, n, 3, false)
	weights := make([]float64, n*n)
	for i := range weights {
		weights[i] = r.NormFloat64()
	}
	sum := func(x square) (total float64) {
		for i, v := range x.exp().a {
			total += weights[i] * v
		}
		return total
	}
	got := gomlxtest.Run(t, func(in []*Node) []*Node {
		loss := ReduceAllSum(Mul(expSkew(in[0], 20), in[1]))
		grad := Gradient(loss, in[0])[0] // [n, n]
		return []*Node{Sub(grad, Transpose(grad, 0, 1))}
	}, tensors.FromFlatDataAndDimensions(fixtures.Tensor{Data: x.a}.Float32(), n, n),
		tensors.FromFlatDataAndDimensions(fixtures.Tensor{Data: weights}.Float32(), n, n))[0]
	for i := range n {
		for j := i + 1; j < n; j++ {
			moved := func(by float64) float64 {
				y := square{n, append([]float64{}, x.a...)}
				y.a[i*n+j] += by
				y.a[j*n+i] -= by
				return sum(y)
			}
			want := (moved(step) - moved(-step)) / (2 * step)
			if math.Abs(got[i*n+j]-want) > 2e-4 {
				t.Errorf("by element %d, %d: %g, want %g", i, j, got[i*n+j], want)
			}
		}
	}
}
