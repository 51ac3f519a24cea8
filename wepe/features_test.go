// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// hostGrid is a patch grid seen by one lattice, or by several that are each ratio times smaller than the last,
// mathematics.md (6.1), (6.2), (11.6) and (11.7).
type hostGrid struct {
	rows, cols   int
	spanU, spanV float64
	omega1       float64
	omega3       complex128
	scales       int
	ratio        float64
}

// squareGrid is what an encoder sees by default.
func squareGrid(rows, cols int) hostGrid {
	return hostGrid{rows, cols, DefaultSpan, DefaultSpan, weierstrass.OmegaSquare, weierstrass.OmegaSquare * 1i, 1, 1}
}

// settings ask an encoder for the same.
func (h hostGrid) settings() []kv {
	return []kv{ofHalfPeriods(h.omega1, imag(h.omega3)), ofSpan(h.spanU, h.spanV), ofOblique(real(h.omega3), false),
		ofScales(h.scales, h.ratio)}
}

func (h hostGrid) points() (z []complex128) {
	for row := range h.rows {
		for col := range h.cols {
			u, v := (float64(col)+0.5)/float64(h.cols), (float64(row)+0.5)/float64(h.rows)
			z = append(z, complex(2*h.spanU*u*h.omega1, 0)+complex(2*h.spanV*v, 0)*h.omega3)
		}
	}
	return z
}

// features are tanh(alphaScale·f), (6.3), by the host's float64 functions.
func (h hostGrid) features(t *testing.T, alphaScale float64) (out []float64) {
	t.Helper()
	lattice := hostOblique(t, h.omega1, real(h.omega3), imag(h.omega3))
	for _, z := range h.points() {
		for range h.scales {
			p, pPrime := lattice.Eval(z)
			for _, f := range []float64{real(p), imag(p), real(pPrime), imag(pPrime)} {
				out = append(out, math.Tanh(alphaScale*f))
			}
			z *= complex(h.ratio, 0)
		}
	}
	return out
}

func TestFeatures_and_coordinates_are_the_hosts_on_every_lattice_grid_and_span(t *testing.T) {
	const square = weierstrass.OmegaSquare
	table := []kv{ofTable(Deflated, 512)}
	type testCase struct {
		host     hostGrid
		tol      float64
		settings []kv // besides or, for invariants, in place of the host's
	}
	cases := []testCase{
		{squareGrid(3, 5), 5e-6, nil},
		{hostGrid{7, 2, 0.4, 0.3, square, 1.085i, 1, 1}, 5e-6, nil},
		{hostGrid{2, 11, 0.3, 0.4, 1.3, 4.7i, 1, 1}, 5e-6, nil},
		{hostGrid{5, 3, 0.9, 0.8, 2.6, 0.7i, 1, 1}, 5e-6, nil}, // spans of more than half a period, over other poles
		{hostGrid{3, 5, 0.4, 0.4, 2.6, 1.3 + 2.25i, 1, 2}, 2e-5, nil},
		{hostGrid{5, 2, 0.9, 0.9, 1.7, -0.4 + 0.8i, 1, 2}, 2e-5, nil},
		{hostGrid{3, 5, 0.4, 0.4, 2.6, 1.9i, 3, 2}, 2e-5, nil},
		{hostGrid{2, 7, 0.3, 0.3, 2.6, 2.6i, 2, 1.7}, 2e-5, nil},
		{hostGrid{3, 2, 0.4, 0.4, 2.6, 0.9 + 2.2i, 3, 1.6}, 2e-5, nil},
		{squareGrid(3, 5), 1e-6, []kv{ofTable(Deflated, 256)}},
		{hostGrid{7, 2, 0.4, 0.3, square, 1.085i, 1, 1}, 2e-5, table},
		{hostGrid{5, 7, 0.4, 0.4, square, 0.755i, 1, 1}, 2e-5, table},
		{hostGrid{2, 11, 0.3, 0.9, 1.3, 4.7i, 1, 1}, 2e-5, table},
		{hostGrid{5, 7, 1.2, 1.9, 2.6, 2.7i, 1, 1}, 2e-5, table}, // of more than a period
	}
	// The cells of the paper's ablation: its invariants g2 = 0.8, g3 = 0.2 have a rhombic lattice. At equal area
	// half-periods are √(area/own area) as long, z with them, so that features change but for the ratio of the periods.
	for _, c := range []struct{ g2, g3, area float64 }{
		{1, 0, 0}, {1, 0.1, 0}, {1, 0.1, 1}, {0.8, 0.2, 0}, {0.8, 0.2, 1}, {0, 1, 0.5},
	} {
		omega1, omega3, err := weierstrass.HalfPeriods(c.g2, c.g3)
		if err != nil {
			t.Fatal(err)
		}
		scale := 1.0
		if c.area != 0 {
			scale = math.Sqrt(c.area * square * square / (omega1 * imag(omega3)))
		}
		host := squareGrid(3, 5)
		host.omega1, host.omega3 = scale*omega1, complex(scale, 0)*omega3
		cases = append(cases, testCase{host, 1e-5, []kv{{ParamG2: c.g2, ParamG3: c.g3, ParamArea: c.area}}})
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%v %v", c.host, c.settings), func(t *testing.T) {
			got := run(t, model.NewStore(), onlyIn(func(s *model.Scope, g *Graph) []*Node {
				config := New(s, c.host.rows, c.host.cols, 8).with(c.settings...)
				if config.g2 == 0 && config.g3 == 0 {
					config.with(c.host.settings()...)
				}
				e := config.Done()
				z := e.Coordinates(g)
				return []*Node{e.Features(g), z.Re, z.Im}
			}), float32(0))
			gomlxtest.Near(t, "features", got[0], c.host.features(t, DefaultAlphaScale), c.tol)
			for i, z := range c.host.points() {
				gomlxtest.Near(t, "z", []float64{got[1][i], got[2][i]}, []float64{real(z), imag(z)}, 1e-6)
			}
		})
	}
}

func TestGradients_of_omega3_are_finite_differences_of_a_moving_lattice(t *testing.T) {
	dtype, precision := dtypes.Float64, 1e-8
	if !float64Runs(t) {
		dtype, precision = dtypes.Float32, 1e-4
	}
	for _, c := range []struct {
		omega3 complex128
		learn  bool // Re ω3 too
	}{
		// either side of the tie of axes
		{weierstrass.OmegaSquare * 1i, false}, {0.9i, false}, {1.085i, false}, {3.7i, false},
		{2.1i, true}, {0.8 + 2.1i, true}, {-1.1 + 2.1i, true}, // the first learned away from a rectangle
	} {
		host, tol := squareGrid(5, 3), precision
		host.omega3 = c.omega3
		if c.learn {
			host.scales, host.ratio, tol = 2, 1.5, 10*precision
		}
		cosines := make([]float64, host.rows*host.cols*4*host.scales)
		for i := range cosines {
			cosines[i] = math.Cos(float64(i))
		}
		got := run(t, model.NewStore(), onlyIn(func(s *model.Scope, g *Graph) []*Node {
			config := New(s, host.rows, host.cols, 2).with(host.settings()...).with(kv{ParamLearnOblique: c.learn})
			config.dtype = dtype
			e := config.Done()
			loss := ReduceAllSum(Mul(Reshape(ConstAsDType(g, dtype, cosines), host.rows*host.cols, -1), e.Features(g)))
			values := []*Node{e.omega3.NodeValue(g)}
			if c.learn {
				values = append(values, e.omega3Re.NodeValue(g))
			}
			return Gradient(loss, values...)
		}), float32(0))
		slope := func(direction complex128) float64 {
			at := func(steps float64) (loss float64) {
				moved := host
				moved.omega3 += complex(steps*1e-3, 0) * direction
				for i, f := range moved.features(t, DefaultAlphaScale) {
					loss += cosines[i] * f
				}
				return loss
			}
			return (8*(at(1)-at(-1)) - (at(2) - at(-2))) / (12 * 1e-3) // central, of fourth order
		}
		// dω3′/draw = 1/(1+e^-raw) = 1 - e^-ω3′, mathematics.md (6.4).
		want := []float64{slope(1i) * (1 - math.Exp(-imag(c.omega3))), slope(1)}
		for i := range got {
			if !(math.Abs(got[i][0]-want[i]) <= tol*(1+math.Abs(want[i]))) {
				t.Errorf("ω3 = %g: gradient %d is %g, want %g", c.omega3, i, got[i][0], want[i])
			}
		}
	}
}
