// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"gonum.org/v1/gonum/floats"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// hostGrid is a patch grid on one lattice, or on several similar lattices of different sizes, mathematics.md (6.1),
// (6.2), (11.6) and (11.7), and on the sphere (14.22).
type hostGrid struct {
	rows, cols       int
	span, offset     [2]float64 // of u and v
	omega1           float64
	omega3           complex128
	factors          []float64 // of z
	sphere           bool
	alphaScale       float64
	scales           int // that give the factors, with the harmonics
	harmonics, parts int
}

// squareGrid is an encoder's default.
func squareGrid(rows, cols int) hostGrid {
	const omega = weierstrass.OmegaSquare
	return hostGrid{rows: rows, cols: cols, span: [2]float64{defaultSpan, defaultSpan}, omega1: omega, omega3: omega * 1i,
		factors: []float64{1}, alphaScale: defaultAlphaScale, scales: 1, harmonics: 1, parts: 4}
}

// seen is squareGrid with another lattice and other spans.
func seen(rows, cols int, spanU, spanV, omega1 float64, omega3 complex128) hostGrid {
	h := squareGrid(rows, cols)
	h.span, h.omega1, h.omega3 = [2]float64{spanU, spanV}, omega1, omega3
	return h
}

// views adds several lattices and harmonics.
func (h hostGrid) views(scales, harmonics int, factors ...float64) hostGrid {
	h.scales, h.harmonics, h.factors = scales, harmonics, factors
	return h
}

// onSphere uses the features on the sphere, or the first of them without ℘′.
func (h hostGrid) onSphere(alphaScale float64, parts int) hostGrid {
	h.sphere, h.alphaScale, h.parts = true, alphaScale, parts
	return h
}

// settings returns the encoder's settings for h.
func (h hostGrid) settings() kv {
	compression := map[bool]compression{false: compressTanh, true: compressSphere}[h.sphere]
	return kv{byOmega1: h.omega1, ParamOmega3: imag(h.omega3), ParamOmega3Re: real(h.omega3), ParamAlphaU: h.span[0],
		ParamAlphaV: h.span[1], ParamOffsetU: h.offset[0], ParamOffsetV: h.offset[1], byCompression: compression,
		ParamAlphaScale: h.alphaScale, ParamScales: h.scales, ParamHarmonics: h.harmonics,
		ParamDerivative: h.parts != 3}
}

func (h hostGrid) points() (z []complex128) {
	for row := range h.rows {
		for col := range h.cols {
			u, v := (float64(col)+0.5)/float64(h.cols), (float64(row)+0.5)/float64(h.rows)
			z = append(z, complex(2*(h.offset[0]+h.span[0]*u)*h.omega1, 0)+complex(2*(h.offset[1]+h.span[1]*v), 0)*h.omega3)
		}
	}
	return z
}

// at returns the features at one point, (6.3) or (14.22), by the host's float64 functions.
func (h hostGrid) at(t *testing.T, z complex128) []float64 {
	t.Helper()
	lattice := gomlxtest.Must(weierstrass.New(complex(h.omega1, 0), h.omega3))(t)
	if h.sphere {
		point, prime := lattice.Sphere().At(z)
		point, prime = weierstrass.Dilated(point, h.alphaScale), weierstrass.Dilated(prime, h.alphaScale)
		return append(point[:], prime[:]...)[:h.parts]
	}
	p, pPrime := lattice.Eval(z)
	f := []float64{real(p), imag(p), real(pPrime), imag(pPrime)}
	for i, x := range f {
		f[i] = math.Tanh(h.alphaScale * x)
	}
	return f
}

func (h hostGrid) features(t *testing.T) (out []float64) {
	t.Helper()
	for _, z := range h.points() {
		for _, factor := range h.factors {
			out = append(out, h.at(t, complex(factor, 0)*z)...)
		}
	}
	return out
}

func TestFeatures_EqualTheHosts(t *testing.T) {
	const square = weierstrass.OmegaSquare
	type testCase struct {
		host     hostGrid
		tol      float64
		settings kv // additional settings or, for invariants, replacements of the host's
	}
	cases := []testCase{
		{squareGrid(3, 5), 5e-6, nil},
		{seen(7, 2, 0.4, 0.3, square, 1.085i), 5e-6, nil},
		{seen(2, 11, 0.3, 0.4, 1.3, 4.7i), 5e-6, nil},
		{seen(5, 3, 0.9, 0.8, 2.6, 0.7i), 5e-6, nil}, // spans of more than half a period, over other poles
		{seen(3, 5, 0.4, 0.4, 2.6, 1.3+2.25i), 2e-5, nil},
		{seen(5, 2, 0.9, 0.9, 1.7, -0.4+0.8i), 2e-5, nil},
		{seen(3, 5, 0.4, 0.4, 2.6, 1.9i).views(3, 1, 1, 2, 4), 2e-5, nil},
		{seen(2, 7, 0.3, 0.3, 2.6, 2.6i).views(2, 1, 1, 2), 2e-5, nil},
		{seen(3, 2, 0.4, 0.4, 2.6, 0.9+2.2i).views(3, 1, 1, 2, 4), 2e-5, nil},

		{squareGrid(14, 14), 1e-6, byTable},
		{seen(5, 3, 0.4, 0.4, 2.6, 1.7i), 3e-4, kv{byEvaluation: evaluateSum}},
		{seen(7, 2, 0.4, 0.3, square, 1.085i), 2e-5, byTable},
		{seen(2, 11, 0.3, 0.9, 1.3, 2.7i), 2e-5, byTable},
		{seen(5, 7, 1.2, 1.9, 2.6, 2.7i), 2e-5, byTable}, // of more than a period
		{seen(5, 7, 1, 1, 2.6, 2.6i).onSphere(1, 6), 1.2e-3, byTable},
		{seen(5, 7, 1, 1, 2.6, 2.6i).onSphere(1, 3), 1.2e-3, byTable},
		{seen(5, 7, 0.4, 1, 2.6, 2.8i).views(2, 2, 1, 2, 2, 4).onSphere(1.1, 6), 1.2e-3, byTable},

		{seen(3, 5, 1, 1, 2.6, 2.6i).onSphere(1, 6), 1e-5, nil},
		{seen(3, 5, 1, 1, 2.6, 2.6i).onSphere(1, 3), 1e-5, nil},
		{seen(3, 5, 1, 1, 2.6, 2.6i).onSphere(2.5, 6), 1e-5, nil},
		{seen(3, 5, 0.4, 0.7, 2.6, 2.6i).onSphere(1, 6), 1e-5, nil},
		{seen(3, 5, 1, 1, 2.6, 3.3i).views(1, 3, 1, 2, 3).onSphere(1, 6), 1e-5, nil},
		{seen(3, 5, 1, 1, 2.6, 2.6i).views(3, 2, 1, 2, 2, 4, 4, 8).onSphere(1, 6), 1e-5, nil},
		{seen(3, 5, 1, 1, 2.6, 1.2+2.1i).views(1, 2, 1, 2).onSphere(1, 6), 1e-5, nil},
	}
	shifted := seen(3, 5, 1, 1, 2.6, 1.7i).onSphere(1, 6)
	shifted.offset = [2]float64{-0.5, 0.2}
	shiftedTable := seen(5, 7, 1, 1, 2.6, 2.6i).onSphere(1, 6)
	shiftedTable.offset = [2]float64{-0.5, 0.3}
	cases = append(cases, testCase{shifted, 1e-5, nil}, testCase{shiftedTable, 1.2e-3, byTable})
	// The cells of the paper's ablation: its invariants g2 = 0.8, g3 = 0.2 have a rhombic lattice. At equal area
	// half-periods are scaled by √(area/own area), and z with them, so that features change except for the ratio of the
	// periods.
	for _, c := range []struct{ g2, g3, area float64 }{
		{1, 0, 0}, {1, 0.1, 0}, {1, 0.1, 1}, {0.8, 0.2, 0}, {0.8, 0.2, 1}, {0, 1, 0.5},
	} {
		omega1, omega3, err := weierstrass.HalfPeriods(c.g2, c.g3)
		gomlxtest.NoError(t, err)
		scale := 1.0
		if c.area != 0 {
			scale = math.Sqrt(c.area * square * square / (omega1 * imag(omega3)))
		}
		host := squareGrid(3, 5)
		host.omega1, host.omega3 = scale*omega1, complex(scale, 0)*omega3
		cases = append(cases, testCase{host, 1e-5, kv{ParamG2: c.g2, ParamG3: c.g3, ParamArea: c.area}})
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%v %v", c.host, c.settings), func(t *testing.T) {
			var e *encoder
			got := run(t, model.NewStore(), onlyIn(func(s *model.Scope, g *Graph) []*Node {
				config := New(s, c.host.rows, c.host.cols, 8)
				if _, ok := c.settings[ParamG2]; !ok {
					config.with(c.host.settings())
				}
				e = config.with(c.settings).encoder()
				x, y := e.config.patches(e.config.grid)
				z := e.points(e.scalars(g, len(x)).omega3, x, y)
				return []*Node{e.Features(g), z.Re, z.Im}
			}), float32(0))
			want := c.host.features(t)
			gomlxtest.Near(t, "features", got[0], want, c.tol)
			for i, z := range c.host.points() {
				gomlxtest.Near(t, "z", []float64{got[1][i], got[2][i]}, []float64{real(z), imag(z)}, 1e-6)
			}
			gomlxtest.Near(t, "the host's own", slices.Concat(e.config.hostFeatures()...), want, 1e-12)
			if names := e.FeatureNames(); c.host.rows*c.host.cols*len(names) != len(want) ||
				strings.Contains(names[0], "′") || strings.Contains(names[len(names)-1], "′") != e.config.derivative {
				t.Errorf("names %q for %d features", names, len(want))
			}
		})
	}
}

// The chain from the raw scalars to the features; package elliptic compares the gradients of its functions in float64.
func TestFeatures_GradientsOfTheRawScalars(t *testing.T) {
	const square, step = weierstrass.OmegaSquare, 1e-3
	for _, host := range []hostGrid{
		squareGrid(5, 3), seen(5, 3, 0.4, 0.4, square, 3.7i),
		seen(5, 3, 0.4, 0.4, square, -1.1+2.1i).views(2, 1, 1, 2),
		seen(3, 5, 1, 1, 2.6, 1.8i).views(1, 2, 1, 2).onSphere(0.6, 6),
		seen(3, 5, 1, 1, 2.6, 0.8+2.1i).views(1, 2, 1, 2).onSphere(1.7, 6),
	} {
		cosines := make([]float64, host.rows*host.cols*host.parts*len(host.factors))
		for i := range cosines {
			cosines[i] = math.Cos(float64(i))
		}
		got := run(t, model.NewStore(), onlyIn(func(s *model.Scope, g *Graph) []*Node {
			e := New(s, host.rows, host.cols, 2).with(host.settings()).encoder()
			weights := Reshape(ConstAsDType(g, dtypes.Float32, cosines), host.rows*host.cols, -1)
			return Gradient(ReduceAllSum(Mul(weights, e.Features(g))), e.omega3.NodeValue(g), e.alphaScale.NodeValue(g))
		}), float32(0))
		for i, raw := range []struct {
			value float64
			move  func(h *hostGrid, by float64)
		}{
			{imag(host.omega3), func(h *hostGrid, by float64) { h.omega3 += complex(0, by) }},
			{host.alphaScale, func(h *hostGrid, by float64) { h.alphaScale += by }},
		} {
			at := func(steps float64) float64 {
				moved := host
				raw.move(&moved, steps*step)
				return floats.Dot(cosines, moved.features(t))
			}
			want := (8*(at(1)-at(-1)) - (at(2) - at(-2))) / (12 * step) // central, of fourth order
			want *= 1 - math.Exp(-raw.value)                            // dy/draw, mathematics.md (6.4)
			is.Near(t, fmt.Sprintf("%+v: gradient %d", host, i), got[i][0], want, 1e-4*(1+math.Abs(want)))
		}
	}
}

// hostBias is the bias of every head by the host's functions at every pair of patches, written out from mathematics.md
// (10.1) and (10.2): weights [features, heads], biases and own [heads].
func (h hostGrid) bias(t *testing.T, prefix int, weights, biases, own []float64) []float64 {
	t.Helper()
	z := h.points()
	var out []float64
	for head := range biases {
		for query := -prefix; query < len(z); query++ {
			for key := -prefix; key < len(z); key++ {
				value := 0.0 // of a prefix token
				if query == key && key >= 0 {
					value = own[head]
				} else if query >= 0 && key >= 0 {
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

// biasOf builds a bias of three heads whose variables are all different from one another and from zero.
func biasOf(s *model.Scope, c *Config) *relativeBias {
	listVariable(s.At(scopeBias), "biases", []float64{0.3, 0.1, -0.1}, true)
	listVariable(s.At(scopeBias), "own", []float64{-0.7, -0.3, 0.1}, true)
	return c.Bias(3).(*relativeBias)
}

func TestAttentionBias_EqualsTheHosts(t *testing.T) {
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
			s.Store().SetTraining(in[0].Graph(), true) // differences of patches do not depend on a shift
			b = biasOf(s, New(s, h.rows, h.cols, 1).WithPrefix(c.prefix).with(h.settings(), kv{ParamShift: 0.3}))
			bias, tokens := b.AttentionBias(in[0].Graph()), c.prefix+h.rows*h.cols
			gomlxtest.NoError(t, bias.Shape().Check(dtypes.Float32, 3, tokens, tokens))
			return []*Node{bias}
		}, float32(0))
		values := func(v *model.Variable) []float64 { return gomlxtest.Values(t, v.MustValue()) }
		want := h.bias(t, c.prefix, values(b.weights), values(b.biases), values(b.own))
		gomlxtest.Near(t, fmt.Sprintf("%+v", h), got[0], want, 3e-6)
	}
}
