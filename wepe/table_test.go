// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/checkpoint"
	"gonum.org/v1/gonum/floats"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// hostTableOf returns a table over spans of the paper's lattices.
func hostTableOf(t testing.TB, sphere bool, omega1, omega3p, u, v float64, nodes int) hostTable {
	t.Helper()
	lattice := gomlxtest.Must(weierstrass.New(complex(omega1, 0), complex(0, omega3p)))(t)
	return hostTable{lattice: lattice, sphere: sphere, u: u, v: v, nodes: nodes}
}

// lookedUp returns what the graph looks up, at positions in the rectangle of the table.
func (t hostTable) lookedUp() func(x, y float64) []float64 {
	u, v := t.extents()
	last, values, channels := float64(t.nodes-1), t.values(), t.channels()
	return func(x, y float64) []float64 {
		col, right := nodeBefore(x/u*last, t.nodes)
		row, down := nodeBefore(y/v*last, t.nodes)
		f := make([]float64, channels)
		for i := range f {
			at := func(row, col int) float64 { return values[(row*t.nodes+col)*channels+i] }
			f[i] = (1-down)*((1-right)*at(row, col)+right*at(row, col+1)) +
				down*((1-right)*at(row+1, col)+right*at(row+1, col+1))
		}
		if !t.sphere {
			for i, pole := range realParts(t.principalParts([2]float64{x, x - 1}, [2]float64{y, y - 1})) {
				f[i] += pole
			}
		}
		return f
	}
}

// errorsOf compares a table with the exact functions at points of (0, 1)²: the figures of lut.json by their names.
func errorsOf(table hostTable, alphaScale float64, u, v []float64) map[string]float64 {
	e, abs, lookedUp := map[string]float64{}, make([]float64, len(u)), table.lookedUp()
	add := func(name string, x, count float64) {
		e[name+"_max"], e[name+"_mean"] = max(e[name+"_max"], x), e[name+"_mean"]+x/(count*float64(len(u)))
	}
	for i := range u {
		x, y := table.u*u[i], table.v*v[i]
		got, exact := lookedUp(x-math.Floor(x), y-math.Floor(y)), realParts(table.lattice.Eval(table.at(x, y)))
		for k := range exact {
			add("f", math.Abs(math.Tanh(alphaScale*got[k])-math.Tanh(alphaScale*exact[k])), 4)
		}
		apart := func(k int) float64 { return math.Hypot(got[k]-exact[k], got[k+1]-exact[k+1]) }
		abs[i] = apart(0)
		add("wp_rel", abs[i]/math.Hypot(exact[0], exact[1]), 1)
		add("wpp_rel", apart(2)/math.Hypot(exact[2], exact[3]), 1)
	}
	slices.Sort(abs)
	e["wp_abs_median"] = abs[len(abs)/2]
	return e
}

// The tables of lut.json that exist here: deflated by the origin for spans below half a period and by the four corners
// for a whole one.
func TestTable_ErrorsAreTheReferences(t *testing.T) { fixtures.Each(t, testTableErrors) }

func testTableErrors(t *testing.T) {
	var invariants struct {
		Lattices []struct {
			Lattice         string
			Omega1, Omega3p float64
		}
	}
	fixtures.JSON(t, "weierstrass", "invariants.json", &invariants)
	lattices := make(map[string][2]float64)
	for _, l := range invariants.Lattices {
		lattices[l.Lattice] = [2]float64{l.Omega1, l.Omega3p}
	}
	var file struct {
		AlphaScale float64 `json:"alpha_scale"`
		Rows       []map[string]any
	}
	fixtures.JSON(t, "weierstrass", "lut.json", &file)
	compared, random := 0, rand.New(rand.NewPCG(7, 11))
	for _, row := range file.Rows {
		lattice, deflated, query := row["lattice"].(string), row["table"].(string), row["query"].(string)
		number := func(name string) float64 { return row[name].(float64) }
		alpha := number("alpha")
		// Not the origin alone at α = 1, a raw table, nor one of compressed features.
		if deflated != "deflated_four_corners" && (deflated != "deflated_origin" || alpha > 0.5) {
			continue
		}
		compared++
		table := hostTableOf(t, false, lattices[lattice][0], lattices[lattice][1], alpha, alpha, int(number("R")))
		name := fmt.Sprintf("%s, α %g, R %g, %s, query %s", lattice, alpha, number("R"), deflated, query)
		var side int
		if n, _ := fmt.Sscanf(query, "random_in_%dx", &side); n == 1 {
			var u, v []float64
			for range 2000 { // at least half a patch from the borders
				inside := 1 - 1/float64(side)
				u, v = append(u, 0.5+inside*(random.Float64()-0.5)), append(v, 0.5+inside*(random.Float64()-0.5))
			}
			// The points differ from the reference's, and a few of them next to the pole dominate the mean: the median over 2000
			// points is within five of its deviations, 1/√2000 of the ranks, a quarter of its value.
			median, want := errorsOf(table, file.AlphaScale, u, v)["wp_abs_median"], number("wp_abs_median")
			if ratio := median / want; !(ratio > 0.75 && ratio < 1.33) {
				t.Errorf("%s: median error of ℘ %.3g, the reference's %.3g", name, median, want)
			}
			continue
		}
		side = gomlxtest.Must(strconv.Atoi(query))(t)
		u, v := grid{rows: side, cols: side}.centres()
		got := errorsOf(table, file.AlphaScale, u, v)
		for _, of := range []string{"f", "wp_rel", "wpp_rel"} {
			for _, what := range []string{of + "_max", of + "_mean"} {
				// A patch on a zero of ℘ or ℘′ has a relative error that is noise.
				if want := number(what); of == "f" || number(of+"_max") < 0.1 {
					is.Near(t, name+": error "+what, got[what], want, 1e-3*want+1e-13)
				}
			}
		}
	}
	if compared == 0 {
		t.Fatal("lut.json has no row of a table that exists here")
	}
}

func TestTable_ErrorBoundHolds(t *testing.T) {
	gomlxtest.OnGo(t)
	const square = weierstrass.OmegaSquare
	random := rand.New(rand.NewPCG(3, 7))
	for _, c := range []struct {
		sphere        bool
		omega3p, span float64
		nodes         int
		alphaScale    float64
	}{
		{true, square, 1, 129, 1.7}, {true, 1.4, 1, 129, 1}, {true, 3.1, 1, 129, 0.6}, {true, 20, 1, 65, 1},
		{true, 0.3, 1, 65, 1}, {false, square, 0.4, 64, 0.15}, {false, square, 0.9, 65, 0.6}, {false, 0.9, 0.4, 64, 0.15},
		{false, 3.7, 0.9, 64, 0.15}, {false, 0.3, 0.4, 256, 0.15},
	} {
		table := hostTableOf(t, c.sphere, square, c.omega3p, c.span, c.span, c.nodes)
		bound, worst := table.errorBound(table.values(), c.alphaScale), 0.0
		lookedUp, exact := table.lookedUp(), table.node()
		for i := range 20_000 {
			x, y := c.span*random.Float64(), c.span*random.Float64()
			if i%2 == 0 { // around the half-periods, at distances of every order
				r, angle := math.Pow(10, -6*random.Float64()), 2*math.Pi*random.Float64()
				x = min(max(float64(random.IntN(3))/2+r*math.Cos(angle), 0), c.span)
				y = min(max(float64(random.IntN(3))/2+r*math.Sin(angle), 0), c.span)
			}
			got, want := lookedUp(x, y), exact(x, y)
			if !c.sphere {
				want = realParts(table.lattice.Eval(table.at(x, y)))
				if math.Hypot(math.Mod(x, 1), math.Mod(y, 1)) < 1e-7 { // at a pole itself the guard applies
					continue
				}
			}
			form := map[bool]compression{true: compressSphere, false: compressTanh}[c.sphere]
			got, want = form.host(got, c.alphaScale), form.host(want, c.alphaScale)
			for k := range got {
				worst = max(worst, math.Abs(got[k]-want[k]))
			}
		}
		if !(worst <= bound) && bound < 0.3 || bound > 8*worst && worst < 0.1 {
			t.Errorf("%+v: the bound is %.3g, the largest error found %.3g", c, bound, worst)
		}
	}
}

// Nearer to the pole than the radius r, 2⁻²⁴·2/π of the shorter half-period, 1/z is z̄/r².
func TestTable_PoleIsGuarded(t *testing.T) {
	for _, half := range [][2]float64{{1.3, 1.7}, {1.7, 1.3}} {
		table := hostTableOf(t, false, half[0], half[1], 0.4, 0.4, 5)
		r := 1.3 * 2 / math.Pi * 0x1p-24
		p, pPrime := table.principalParts([2]float64{r / 2 / (2 * half[0]), 1}, [2]float64{0, 1})
		gomlxtest.NearAbs(t, fmt.Sprint(half), []float64{real(p) * r * r, imag(p), real(pPrime) * r * r * r, imag(pPrime)},
			[]float64{0.25, 0, -0.25, 0}, 1e-12)
	}
}

// The tables of the authors' wef_pe_lut.py differ from ours: nodes contain compressed features, axes are (u, v), ω3′ is
// not stored, and queries are half a node off: node i is at u = i/(R-1) but is read at u = (i+½)/R. The same gather
// reads both kinds.
func TestBilinear_ReadsReleasedTables(t *testing.T) { fixtures.Each(t, testReleasedQueries) }

func testReleasedQueries(t *testing.T) {
	tensors := fixtures.Tensors(t, "official_lut", "tensors.safetensors")
	compared := 0
	for name, want := range tensors { // of two modes, as in "pretraining.r32.query.14x14"
		var resolution, rows, cols int
		mode, query, _ := strings.Cut(name, ".")
		n, _ := fmt.Sscanf(query, "r%d.query.%dx%d", &resolution, &rows, &cols)
		table, stored := tensors[fmt.Sprintf("%s.r%d.lut", mode, resolution)] // [R, R, 4], u slowest
		if n != 3 || !stored {
			continue
		}
		x, y := grid{rows: cols, cols: rows}.centres() // first axis the column, as in the release
		for i := range x {
			x[i], y[i] = x[i]*float64(resolution)-0.5, y[i]*float64(resolution)-0.5
		}
		got := gomlxtest.Run(t, func(in []*Node) []*Node { return []*Node{bilinear(in[0], x, y)} }, gomlxtest.Input(table))
		gomlxtest.NearAbs(t, name, got[0], want.Data, 2e-5)
		compared++
	}
	if compared == 0 {
		t.Fatal("no query of a table that is stored")
	}
}

// In mode release the table is of the square lattice, over z stretched by ω3′; exact values are ℘'s.
func TestTable_InModeRelease(t *testing.T) {
	var e *encoder
	features := func(evaluation kv) []float64 {
		return run(t, model.NewStore(), onlyIn(func(s *model.Scope, g *Graph) []*Node {
			e = New(s, 5, 7, 2).with(kv{ParamMode: release}, evaluation).encoder()
			return []*Node{e.Features(g)}
		}), float32(0))[0]
	}
	exact := features(kv{byEvaluation: evaluateExact})
	gomlxtest.Near(t, "table", features(byTable), exact, 1e-6)
	gomlxtest.Near(t, "host", exact, slices.Concat(e.config.hostFeatures()...), 1e-6)
}

func TestTable_OfOtherParametersIsConfigError(t *testing.T) {
	raw, nodes := "/wepe/omega3_raw", "/wepe/table/values"
	for what, c := range map[string]struct {
		settings kv
		path     string
		value    *tensors.Tensor
	}{
		"span": {ofSpan(0.4, 0.3), "", nil}, "ω1": {kv{byOmega1: 2.6}, "", nil},
		"ω3′":   {nil, raw, tensors.FromScalar(float32(softplusInverse(weierstrass.OmegaSquare) + 1e-4))},
		"shape": {nil, nodes, tensors.FromScalarAndDimensions(float32(0), 32, 33, 4)},
	} {
		store := model.NewStore()
		gomlxtest.Must(built(store, byTable))(t)
		gomlxtest.Must(built(store, byTable))(t) // the same
		if c.value != nil {
			gomlxtest.NoError(t, store.GetVariable(c.path).SetValue(c.value))
		}
		refused(t, "another "+what, is.ErrorOf(built(store, byTable, c.settings)), "")
	}
}

// Long cells need more nodes than a table has.
func TestTable_ThatWouldErrIsConfigError(t *testing.T) {
	for _, c := range []struct {
		omega3 float64
		form   compression
		ok     bool
	}{
		{1.085, compressTanh, true}, {0.3, compressTanh, true}, {0.02, compressTanh, false}, {1000, compressSphere, false},
		{2.8, compressSphere, true}, {20, compressSphere, false}, {0.1, compressSphere, false},
	} {
		_, err := built(model.NewStore(), byTable, kv{ParamOmega3: c.omega3, byCompression: c.form})
		if c.ok != (err == nil) || err != nil && !errors.As(err, new(ConfigError)) {
			t.Errorf("ω3′ = %g, %s: %v", c.omega3, c.form, err)
		}
	}
}

func TestEncoder_WarnsOfTableError(t *testing.T) {
	store, flatter := model.NewStore(), kv{ParamOmega3: 1.085}
	is.Equal(t, "a table as it was built", gomlxtest.Must(built(store, byTable, flatter))(t).Warning(), "")
	louder := tensors.FromScalar(float32(softplusInverse(4 * defaultAlphaScale)))
	gomlxtest.NoError(t, store.GetVariable("/wepe/alpha_scale_raw").SetValue(louder))
	if gomlxtest.Must(built(store, byTable, flatter))(t).Warning() == "" {
		t.Error("no warning for an α_scale four times as large")
	}
}

// Also one of an earlier version, of other sides and with its key.
func TestTable_OpensFromCheckpoint(t *testing.T) {
	dir := t.TempDir()
	features := func(store *model.Store, rows, cols int) []float64 {
		return run(t, store, onlyIn(func(s *model.Scope, g *Graph) []*Node {
			return []*Node{New(s, rows, cols, 2).with(byTable).encoder().Features(g)}
		}), float32(0))[0]
	}
	written := model.NewStore()
	handler := gomlxtest.Must(checkpoint.Build(written).Dir(dir).Done())(t)
	old := hostTableOf(t, false, weierstrass.OmegaSquare, weierstrass.OmegaSquare, defaultSpan, defaultSpan, 17)
	values := old.values()
	values[(17*5+5)*4] += 7 // proves that nodes are read
	for path, value := range map[string]*tensors.Tensor{"/wepe/table/values": filled(values, 17, 17, 4),
		"/wepe/table/key": tensors.FromValue(make([]float64, 7))} {
		gomlxtest.Must(written.CreateVariable(path, value))(t)
	}
	before := features(written, 11, 13)
	gomlxtest.NoError(t, handler.Save())
	read := model.NewStore()
	gomlxtest.Must(checkpoint.Load(read).Dir(dir).Done())(t)
	gomlxtest.Near(t, "read again", features(read, 11, 13), before, 0)
	gomlxtest.Near(t, "another grid", features(read, 3, 2), squareGrid(3, 2).features(t), 1e-3)
	if worst := floats.Distance(before, squareGrid(11, 13).features(t), math.Inf(1)); worst < 0.05 {
		t.Errorf("features differ by %g from those without the changed node", worst)
	}
	for _, path := range []string{"omega3_raw", "table/values"} {
		if v := read.GetVariable("/wepe/" + path); v == nil || v.Trainable {
			t.Errorf("%q from a checkpoint: %v, want one that does not train", path, v)
		}
	}
	is.Equal(t, "the table's key", read.GetVariable("/wepe/table/key"), nil)
}

// Whole periods are those of ℘ only in mode paper, and a truncated sum has none.
func TestLattice_ReducesPeriodsOfExactValues(t *testing.T) {
	for _, c := range []struct {
		mode       mode
		evaluation evaluation
		want       []float64
	}{
		{paper, evaluateExact, []float64{-0.25, 0.25, 0.375}}, {paper, evaluateSum, []float64{0.75, -1.75, 0.375}},
		{release, evaluateSum, []float64{0.75, -1.75, 0.375}},
	} {
		e := gomlxtest.Must(built(model.NewStore(), kv{ParamMode: c.mode, byEvaluation: c.evaluation}))(t)
		gomlxtest.NearAbs(t, fmt.Sprint(c.mode, c.evaluation), e.reduced([]float64{0.75, -1.75, 0.375}), c.want, 0)
	}
}
