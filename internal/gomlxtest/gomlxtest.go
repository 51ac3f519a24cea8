// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package gomlxtest contains what tests of graphs share: their backend, and comparisons.
//
// GoMLX's own test helpers try to install XLA and end the process when offline; this package downloads nothing.
package gomlxtest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gomlx/compute"
	_ "github.com/gomlx/compute/gobackend" // registers "go"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/janpfeifer/must"
	"gonum.org/v1/gonum/floats"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/plugin"
)

const pureGo = "go:ops_sequential"

// Backend returns the backend of the tests: the one in GOMLX_BACKEND if it is set, otherwise pure Go.
var Backend = sync.OnceValue(func() compute.Backend { return open(cmp.Or(os.Getenv(compute.ConfigEnvVar), pureGo)) })

// PureGo returns the pure-Go backend, for what a test only prepares: it compiles nothing.
var PureGo = sync.OnceValue(func() compute.Backend { return open(pureGo) })

// open is backend.Open, which tests of lower packages cannot import: without downloads, XLA without its wrong fusions.
func open(name string) compute.Backend {
	options, isXLA := strings.CutPrefix(name+":", "xla:")
	if name == "go" {
		name = pureGo
	}
	if !isXLA {
		return must.M1(compute.NewWithConfig(name))
	}
	p, options, devices := must.M3(plugin.Named(plugin.All(), strings.TrimSuffix(options, ":")))
	b, _ := must.M2(plugin.Open(p, options, max(1, devices)))
	return b
}

// OnGo skips a test of files, messages, pages or resuming on other backends, where it would only take longer.
func OnGo(t testing.TB) {
	if name := Backend().Name(); name != PureGo().Name() {
		t.Skipf("does not depend on the backend: it runs on pure Go, not on %s", name)
	}
}

// OnXLA reports whether tests run on XLA, which takes about a second to compile each new graph of a model.
func OnXLA() bool { return Backend().Name() == "xla" }

// Encodings returns the names to test: all, or on XLA, where compiling the programs of one test takes seconds, one of
// each kind. The other assertions do not depend on the backend, and pure Go tests them.
func Encodings(names []string) []string {
	if !OnXLA() {
		return names
	}
	few := []string{"none", "wepe", "wepe-sphere", "wepe-qkv", "hybrid", "rope-mixed", "learned+rope-mixed+alibi2d"}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(few, name) })
}

// InTurn returns the values to test in the i-th case: all, or on XLA one, cycling through them.
func InTurn[T any](i int, of ...T) []T {
	if !OnXLA() {
		return of
	}
	return of[i%len(of):][:1]
}

// Build builds a graph with variables without compiling it, to create the variables in the store.
func Build(t testing.TB, store *model.Store, build func(*model.Scope, []*graph.Node) []*graph.Node,
	inputs ...*tensors.Tensor) {
	t.Helper()
	g := graph.NewGraph(Backend(), "build")
	defer g.Finalize()
	var nodes []*graph.Node
	for i, input := range inputs {
		nodes = append(nodes, graph.Parameter(g, fmt.Sprint("input", i), input.Shape()))
	}
	build(store.RootScope(), nodes)
	NoError(t, store.InitializeVariables(Backend(), nil))
}

// Run builds and runs one graph on the test backend and returns its outputs widened to float64.
// Each input is a Go value or tensor that GoMLX accepts.
func Run(t testing.TB, build func(inputs []*graph.Node) []*graph.Node, inputs ...any) [][]float64 {
	t.Helper()
	return RunModel(t, model.NewStore(), func(_ *model.Scope, in []*graph.Node) []*graph.Node { return build(in) },
		inputs...)
}

// RunModel is Run for a graph with variables in the store.
func RunModel(t testing.TB, store *model.Store, build func(*model.Scope, []*graph.Node) []*graph.Node,
	inputs ...any) [][]float64 {
	t.Helper()
	exec := Must(model.NewExec(Backend(), store, build))(t)
	var values [][]float64
	for _, output := range Must(exec.Call(inputs...))(t) {
		values = append(values, Values(t, output))
	}
	exec.Finalize() // not deferred: after a panic of build it would wait for the compilation for ever
	return values
}

// Values returns the elements of a float tensor, row-major, widened to float64.
func Values(t testing.TB, x *tensors.Tensor) []float64 {
	t.Helper()
	var out []float64
	NoError(t, x.ConstFlatData(func(flat any) {
		switch data := flat.(type) {
		case []float32:
			out = fixtures.Float64s(data)
		case []float64:
			out = fixtures.Float64s(data)
		case []int64:
			out = fixtures.Float64s(data)
		case []int32:
			out = fixtures.Float64s(data)
		default:
			t.Fatalf("gomlxtest.Values: %T is not read here", flat)
		}
	}))
	return out
}

// Near fails the test unless got and want have equal length and max |got-want| <= tol * max |want|: the measure of the
// fixtures' READMEs.
func Near(t testing.TB, name string, got, want []float64, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d values, want %d", name, len(got), len(want))
		return
	}
	var worst, scale float64
	at := 0
	for i := range want {
		scale = max(scale, math.Abs(want[i]))
		if diff := math.Abs(got[i] - want[i]); !(diff <= worst) && !math.IsNaN(worst) { // the first NaN is the worst
			worst, at = diff, i
		}
	}
	if !(worst <= tol*scale) {
		t.Errorf("%s: at %d got %g, want %g: error %.3g of max %.3g, allowed %.3g", name, at, got[at], want[at],
			worst, scale, tol*scale)
	}
}

// NearAbs fails the test unless got and want have equal length and each element differs by at most tol.
func NearAbs[T float32 | float64](t testing.TB, name string, got []T, want []float64, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d values, want %d", name, len(got), len(want))
		return
	}
	for i := range got {
		if !(math.Abs(float64(got[i])-want[i]) <= tol) {
			t.Errorf("%s: at %d got %g, want %g", name, i, got[i], want[i])
			return
		}
	}
}

// Spreads checks the root mean square of random numbers within four standard deviations of its estimate from as many
// normal ones; uniform ones vary less.
func Spreads(t testing.TB, name string, values []float64, want float64) {
	t.Helper()
	var sum float64
	for _, v := range values {
		sum += v * v
	}
	got := math.Sqrt(sum / float64(len(values)))
	if !(math.Abs(got-want) <= 4*want/math.Sqrt(2*float64(len(values)))) {
		t.Errorf("%s spreads %g over %d numbers, want %g", name, got, len(values), want)
	}
}

// Uniform fails the test unless numbers are spread like a uniform distribution in ±bound.
func Uniform(t testing.TB, name string, values []float64, bound float64) {
	t.Helper()
	Spreads(t, name, values, bound/math.Sqrt(3))
	if most := floats.Norm(values, math.Inf(1)); !(most <= bound*(1+1e-6)) {
		t.Errorf("%s has %g, want at most %g", name, most, bound)
	}
}

// Seeded returns an empty store whose weights and dropout are drawn from a seed.
func Seeded(t testing.TB, seed int64) *model.Store {
	t.Helper()
	store := model.NewStore()
	store.SetParam("/"+model.ParamInitialSeed, seed)
	NoError(t, store.SetRNGStateFromSeed(seed))
	return store
}

// Stirred moves every trainable variable of a store away from its initial value, so that zeros and ones hide nothing.
func Stirred(t testing.TB, store *model.Store) *model.Store {
	t.Helper()
	at := 0.0
	for v := range store.IterVariables() {
		if v.Trainable {
			v.MustValue().MustMutableFlatData(func(flat any) {
				for i := range flat.([]float32) {
					at++
					flat.([]float32)[i] += float32(0.1 * math.Sin(at))
				}
			})
		}
	}
	return store
}

// Noise returns a tensor of numbers in ±1, the same in every call.
func Noise(dims ...int) *tensors.Tensor {
	size := 1
	for _, d := range dims {
		size *= d
	}
	flat := make([]float32, size)
	for i := range flat {
		flat[i] = float32(i*7919%1009)/504.5 - 1
	}
	return tensors.FromFlatDataAndDimensions(flat, dims...)
}

// Must ends the test if a call failed, and otherwise returns its value: Must(os.Getwd())(t).
func Must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		NoError(t, err)
		return value
	}
}

// NoError ends the test if there is an error.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Resolved returns a configuration with its defaults, whether it is valid or not.
func Resolved[T interface{ Resolve() (T, error) }](c T) T {
	c, _ = c.Resolve()
	return c
}

// Logger writes log records, one per line: the message, then its attributes as key=value.
func Logger(w io.Writer) *slog.Logger { return slog.New(lines{slog.DiscardHandler, w}) }

type lines struct {
	slog.Handler
	w io.Writer
}

func (l lines) Enabled(context.Context, slog.Level) bool { return true }

func (l lines) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	_, err := fmt.Fprintln(l.w, text)
	return err
}
