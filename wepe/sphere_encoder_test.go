// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

func TestFeatures_on_the_sphere_are_the_hosts(t *testing.T) {
	type point = struct{ u, v float64 }
	for name, c := range map[string]struct {
		params  kv
		factors []float64 // of z, in the order of the features
		offset  point
		span    point
		omega3  complex128
		scale   float64
		parts   int
	}{
		"whole cell":    {nil, []float64{1}, point{}, point{1, 1}, 2.6i, 1, 6},
		"without ℘′":    {kv{ParamDerivative: false}, []float64{1}, point{}, point{1, 1}, 2.6i, 1, 3},
		"scaled":        {kv{ParamAlphaScale: 2.5}, []float64{1}, point{}, point{1, 1}, 2.6i, 2.5, 6},
		"part of it":    {kv{ParamAlphaU: 0.4, ParamAlphaV: 0.7}, []float64{1}, point{}, point{0.4, 0.7}, 2.6i, 1, 6},
		"wide, centred": {kv{ParamOffsetU: -0.5, ParamOffsetV: 0.2}, []float64{1}, point{-0.5, 0.2}, point{1, 1}, 1.7i, 1, 6},
		"harmonics":     {kv{ParamHarmonics: 3}, []float64{1, 2, 3}, point{}, point{1, 1}, 3.3i, 1, 6},
		"octaves": {kv{ParamScales: 3, ParamScaleRatio: 1.5, ParamHarmonics: 2}, []float64{1, 2, 1.5, 3, 2.25, 4.5}, point{},
			point{1, 1}, 2.6i, 1, 6},
		"oblique": {kv{ParamOmega3Re: 1.2, ParamHarmonics: 2}, []float64{1, 2}, point{}, point{1, 1}, 1.2 + 2.1i, 1, 6},
	} {
		t.Run(name, func(t *testing.T) {
			const rows, cols, omega1 = 3, 5, 2.6
			var e *Encoder
			got := run(t, model.NewStore(), func(s *model.Scope, in []*Node) []*Node {
				e = New(s, rows, cols, 6).OnSphere().
					with(kv{ParamOmega1: omega1, ParamOmega3: imag(c.omega3)}, c.params).Done()
				return []*Node{e.Features(in[0].Graph())}
			}, float32(0))
			var want []float64
			for k := range rows * cols {
				u, v := (float64(k%cols)+0.5)/cols, (float64(k/cols)+0.5)/rows
				z := complex(2*(c.offset.u+c.span.u*u)*omega1, 0) + complex(2*(c.offset.v+c.span.v*v), 0)*c.omega3
				for _, factor := range c.factors {
					all := hostSphere(t, complex(factor, 0)*z, omega1, real(c.omega3), imag(c.omega3), c.scale)
					want = append(want, all[:c.parts]...)
				}
			}
			gomlxtest.Near(t, "features", got[0], want, 1e-5)
			if names := e.FeatureNames(); rows*cols*len(names) != len(got[0]) {
				t.Errorf("%d names %q for %d features", len(names), names, len(got[0])/rows/cols)
			}
			var host []float64
			for _, row := range e.config.hostFeatures() {
				host = append(host, row...)
			}
			gomlxtest.Near(t, "the host's", host, want, 1e-12)
		})
	}
}

// The promise of the addition formula, kept by the features themselves: half of an even grid on is a rotation.
func TestFeatures_on_the_sphere_turn_where_the_grid_is_shifted_by_half_a_cell(t *testing.T) {
	const rows, cols = 4, 6
	got := run(t, model.NewStore(), func(s *model.Scope, in []*Node) []*Node {
		e := New(s, rows, cols, 6).OnSphere().with(kv{ParamDerivative: false, ParamOmega3: 2.1}).Done()
		return []*Node{e.Features(in[0].Graph())}
	}, float32(0))[0]
	lattice, err := weierstrass.NewLattice(weierstrass.OmegaSquare, 2.1)
	if err != nil {
		t.Fatal(err)
	}
	v := lattice.Invariants()
	k, complement := math.Sqrt((v.E2-v.E3)/(v.E1-v.E3)), math.Sqrt((v.E1-v.E2)/(v.E1-v.E3)) // the axes, (14.10)
	for axis, shift := range map[[3]float64][2]int{
		{k, 0, complement}: {0, cols / 2}, {0, 1, 0}: {rows / 2, cols / 2}, {complement, 0, -k}: {rows / 2, 0},
	} {
		for row := range rows {
			for col := range cols {
				from := got[3*(row*cols+col):]
				to := got[3*((row+shift[0])%rows*cols+(col+shift[1])%cols):]
				along := axis[0]*from[0] + axis[1]*from[1] + axis[2]*from[2]
				for i, n := range axis { // a half-turn
					if d := math.Abs(2*along*n - from[i] - to[i]); !(d < 2e-6) {
						t.Errorf("a shift by %v turns patch (%d, %d) about %v but for %.2g", shift, row, col, axis, d)
					}
				}
			}
		}
	}
}

func TestEncoding_and_bias_on_the_sphere_are_finite_with_finite_gradients(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 31))
	between := func(lo, hi float64) float64 { return lo * math.Pow(hi/lo, r.Float64()) }
	for i := range 40 {
		rows, cols := int(between(1, 40.99)), int(between(1, 40.99))
		params := kv{
			ParamOmega1: between(MinOmega3, MaxOmega3), ParamOmega3: between(MinOmega3, MaxOmega3),
			ParamAlphaU: between(0.01, 2), ParamAlphaV: between(0.01, 2), ParamAlphaScale: between(1e-6, 1e6),
			ParamOffsetU: 2*r.Float64() - 1, ParamOffsetV: 2*r.Float64() - 1, ParamHarmonics: 1 + r.IntN(3),
		}
		switch i % 4 {
		case 0: // patches of 3×3 and 6×9 grids on poles, and a lattice that training may reach
			rows, cols = 3+i%8/4*3, 3+i%8/4*6
			params = kv{ParamAlphaU: 1.2, ParamAlphaV: 1.2, ParamOmega3: between(0.7, 8)}
		case 1: // on half-periods and poles
			params[ParamOffsetU], params[ParamOffsetV], params[ParamAlphaU], params[ParamAlphaV] = -0.5, 0.5, 1.0, 1.0
			rows, cols = 1+r.IntN(9), 1+r.IntN(9)
		case 2:
			params[ParamOmega3Re], params[ParamLearnOblique] = 5*r.NormFloat64(), true
		}
		dtype := []dtypes.DType{dtypes.Float32, dtypes.BFloat16}[i%2]
		got := run(t, model.NewStore(), func(s *model.Scope, in []*Node) []*Node {
			g := in[0].Graph()
			c := New(s, rows, cols, 2).OnSphere().WithPrefix(1).with(params)
			e := c.Done()
			x := ConvertDType(BroadcastToDims(in[0], 1, rows*cols+1, 2), dtype)
			out := ConvertDType(e.PreEncode(x, nil, 1), dtypes.Float32)
			nodes := []*Node{e.Features(g), out}
			loss := ReduceAllSum(Mul(out, ramp(g, out.Shape().Dimensions...)))
			if rows*cols < 100 {
				bias := c.Bias(2).AttentionBias(g)
				nodes = append(nodes, bias)
				loss = Add(loss, ReduceAllSum(Mul(bias, ramp(g, bias.Shape().Dimensions...))))
			}
			return append(nodes, s.BuildTrainableVariablesGradientsGraph(loss)...)
		}, float32(1))
		for k, values := range got {
			if !finite(values) {
				t.Errorf("%d×%d, %v, tokens %s: output %d is not finite", rows, cols, params, dtype, k)
			}
		}
		for k := 0; k < len(got[0]); k += 3 {
			if norm := math.Hypot(math.Hypot(got[0][k], got[0][k+1]), got[0][k+2]); !(math.Abs(norm-1) < 2e-6) {
				t.Errorf("%d×%d, %v: |S| = %g", rows, cols, params, norm)
			}
		}
	}
}

func TestGradients_of_an_encoding_on_the_sphere_are_finite_differences_of_the_host(t *testing.T) {
	const rows, cols, harmonics = 3, 5, 2
	dtype, tol := dtypes.Float64, 1e-6
	if !float64Runs(t) {
		dtype, tol = dtypes.Float32, 1e-3
	}
	cosines := make([]float64, rows*cols*6*harmonics)
	for i := range cosines {
		cosines[i] = math.Cos(float64(i))
	}
	for _, start := range []struct{ re, im, scale float64 }{{0, 2.9, 1}, {0, 1.8, 0.6}, {0.8, 2.1, 1.7}} {
		got := run(t, model.NewStore(), func(s *model.Scope, in []*Node) []*Node {
			c := New(s, rows, cols, 2).OnSphere().with(kv{ParamOmega1: 2.6, ParamOmega3: start.im, ParamOmega3Re: start.re,
				ParamHarmonics: harmonics, ParamAlphaScale: start.scale})
			c.dtype = dtype
			e, g := c.Done(), in[0].Graph()
			loss := ReduceAllSum(Mul(Reshape(ConstAsDType(g, dtype, cosines), rows*cols, 6*harmonics), e.Features(g)))
			return Gradient(loss, e.omega3.NodeValue(g), e.alphaScale.NodeValue(g))
		}, float32(0))
		at := func(im, scale float64) (loss float64) {
			for k := range rows * cols {
				u, v := (float64(k%cols)+0.5)/cols, (float64(k/cols)+0.5)/rows
				z := complex(2*u*2.6, 0) + complex(2*v, 0)*complex(start.re, im)
				for n := range harmonics {
					for i, f := range hostSphere(t, complex(float64(n+1), 0)*z, 2.6, start.re, im, scale) {
						loss += cosines[(k*harmonics+n)*6+i] * f
					}
				}
			}
			return loss
		}
		const step = 1e-5
		byRaw := func(y float64) float64 { return 1 - math.Exp(-y) } // of softplus
		want := []float64{
			(at(start.im+step, start.scale) - at(start.im-step, start.scale)) / (2 * step) * byRaw(start.im),
			(at(start.im, start.scale+step) - at(start.im, start.scale-step)) / (2 * step) * byRaw(start.scale),
		}
		for i, w := range want {
			if d := math.Abs(got[i][0] - w); !(d <= tol*(1+math.Abs(w))) {
				t.Errorf("%+v: gradient %d is %g, want %g", start, i, got[i][0], w)
			}
		}
	}
}

func TestBias_on_the_sphere_is_the_hosts_at_every_offset_the_patch_itself_too(t *testing.T) {
	const rows, cols, heads = 3, 4, 2
	store := model.NewStore()
	got := run(t, store, func(s *model.Scope, in []*Node) []*Node {
		b := New(s, rows, cols, 6).OnSphere().with(kv{ParamOmega3: 2.2}).Bias(heads)
		g := in[0].Graph()
		// Times one: a variable that is itself an output comes back wrong from the onnx backend.
		return []*Node{b.Offsets(g), MulScalar(b.weights.NodeValue(g), 1)}
	}, float32(0))
	var want []float64
	for row := 1 - rows; row < rows; row++ {
		for col := 1 - cols; col < cols; col++ {
			z := complex(2*weierstrass.OmegaSquare*float64(col)/cols, 2*2.2*float64(row)/rows)
			features := hostSphere(t, z, weierstrass.OmegaSquare, 0, 2.2, 1)
			for h := range heads {
				sum := 0.0
				for i, f := range features {
					sum += f * got[1][i*heads+h]
				}
				want = append(want, sum)
			}
		}
	}
	gomlxtest.Near(t, "bias of the offsets", got[0], want, 1e-6)
	if v := store.GetVariable("/wepe_bias_sphere/own"); v != nil {
		t.Errorf("there is a variable %s", v.Path())
	}
}

func TestAModel_opens_as_the_compression_it_was_saved_as_and_no_other(t *testing.T) {
	build := func(store *model.Store, c Compression, bias bool) error {
		return exceptions.TryCatch[error](func() {
			config := New(store.RootScope(), 3, 5, 8).with(kv{ParamCompression: c})
			if bias {
				config.Bias(2)
			} else {
				config.Done()
			}
		})
	}
	for _, bias := range []bool{false, true} {
		for _, saved := range []Compression{CompressTanh, CompressSphere} {
			store := model.NewStore()
			if err := build(store, saved, bias); err != nil {
				t.Fatal(err)
			}
			for _, opened := range []Compression{CompressTanh, CompressSphere} {
				err := build(store, opened, bias)
				if opened == saved && err != nil {
					t.Errorf("%s, bias %t: %v", saved, bias, err)
				}
				if opened != saved && (err == nil || !strings.Contains(err.Error(), ParamCompression)) {
					t.Errorf("%s opened as %s, bias %t: got %v, want a refusal that names %s", saved, opened, bias, err,
						ParamCompression)
				}
			}
		}
	}
}

func TestBad_settings_of_the_sphere_are_refused_by_name(t *testing.T) {
	table := kv{ParamEvaluation: EvaluateTable}
	for _, c := range []struct {
		want   string
		params []kv
	}{
		{ParamCompression, []kv{{ParamCompression: "ball"}}},
		{ParamHarmonics, []kv{{ParamHarmonics: 9}}},
		{ParamHarmonics, []kv{{ParamHarmonics: 0}}},
		{ParamOffsetU, []kv{{ParamOffsetU: math.NaN()}}},
		{ParamOffsetV, []kv{{ParamOffsetV: 1.5}}},
		{ParamHarmonics + " with a table", []kv{{ParamHarmonics: 2}, table}},
		{ParamOffsetV + " with a table", []kv{{ParamOffsetV: 0.1}, table}},
		{`"sphere" in mode "release"`, []kv{{ParamCompression: "sphere", ParamMode: Release}}},
		{`"sphere" in mode "paper" with evaluation "sum"`, []kv{{ParamCompression: "sphere", ParamEvaluation: EvaluateSum}}},
		{ParamTable, []kv{{ParamCompression: "sphere", ParamTable: Raw}, table}},
	} {
		err := exceptions.TryCatch[error](func() { New(model.NewStore().RootScope(), 3, 5, 8).with(c.params...).Done() })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want a refusal that names %s", c.params, err, c.want)
		}
	}
}
