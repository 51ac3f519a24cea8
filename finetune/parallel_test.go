// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/janpfeifer/must"

	"github.com/wepe-go/wepe/backend"
	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/finetune/internal/parallel"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/vit"
)

// several is a backend of n devices that records its calls. It implements AutoSharding: it runs the program on the
// whole inputs, concatenated from their shards, on the go backend.
type several struct {
	compute.Backend
	n        int
	kind     string
	programs []*asked
}

// asked is a request of a program.
type asked struct {
	meshes []compute.Mesh
	names  []string // of the parameters
	specs  []*compute.ShardingSpec
	given  []shapes.Shape // to the second device, at the last call
}

func (b *several) NumDevices() int                            { return b.n }
func (b *several) DeviceDescription(compute.DeviceNum) string { return b.kind }
func (b *several) HasSharedBuffers() bool                     { return false }
func (b *several) Builder(name string) compute.Builder {
	program := &asked{}
	b.programs = append(b.programs, program)
	return &builder{Builder: b.Backend.Builder(name), backend: b, asked: program}
}

func (b *several) BufferFromFlatData(device compute.DeviceNum, flat any, shape shapes.Shape) (compute.Buffer, error) {
	inner, err := b.Backend.BufferFromFlatData(0, flat, shape)
	return buffer{inner, b, device}, err
}

// buffer is a buffer of one of several devices.
type buffer struct {
	compute.Buffer
	backend *several
	device  compute.DeviceNum
}

func (b buffer) Backend() compute.Backend              { return b.backend }
func (b buffer) DeviceNum() (compute.DeviceNum, error) { return b.device, nil }
func (b buffer) CopyToDevice(device compute.DeviceNum) (compute.Buffer, error) {
	return b.backend.BufferFromFlatData(device, must.M1(b.Data()), must.M1(b.Shape()))
}

type builder struct {
	compute.Builder
	backend *several
	*asked
}

func (b *builder) DistributedAutoSharding(meshes ...compute.Mesh) error {
	b.meshes = meshes
	return nil
}

func (b *builder) Main() compute.Function { return &function{b.Builder.Main(), b.asked} }

func (b *builder) Compile() (compute.Executable, error) {
	inner, err := b.Builder.Compile()
	return &executable{inner, b.backend, b.asked}, err
}

type function struct {
	compute.Function
	*asked
}

func (f *function) Parameter(name string, shape shapes.Shape, spec *compute.ShardingSpec) (compute.Value, error) {
	f.names, f.specs = append(f.names, name), append(f.specs, spec)
	return f.Function.Parameter(name, shape, nil)
}

func (f *function) Return(outputs []compute.Value, _ []*compute.ShardingSpec) error {
	return f.Function.Return(outputs, nil)
}

type executable struct {
	compute.Executable
	backend *several
	*asked
}

// Execute concatenates inputs, checks that copies are equal, and returns outputs on every device.
func (e *executable) Execute(inputs []compute.Buffer, _ []bool, _ compute.DeviceNum) ([]compute.Buffer, error) {
	devices := 1
	if e.meshes != nil {
		devices = e.meshes[0].AxesSizes[0]
	}
	params := len(e.names)
	if len(inputs) != devices*params {
		return nil, fmt.Errorf("%d inputs for %d parameters on %d devices", len(inputs), params, devices)
	}
	whole := make([]compute.Buffer, params)
	e.given = nil
	for i := range params {
		var shape shapes.Shape
		var flats []reflect.Value
		for d := range devices {
			b := inputs[d*params+i].(buffer)
			if b.device != compute.DeviceNum(d) {
				return nil, fmt.Errorf("%s of device %d is on device %d", e.names[i], d, b.device)
			}
			if shape = must.M1(b.Shape()); d == 1 {
				e.given = append(e.given, shape)
			}
			flats = append(flats, reflect.ValueOf(must.M1(b.Data())))
		}
		all := flats[0]
		if divides(e.specs[i]) {
			shape = shape.Clone()
			shape.Dimensions[0] *= devices
			all = reflect.AppendSlice(reflect.MakeSlice(all.Type(), 0, shape.Size()), flats[0])
		}
		for d, flat := range flats[1:] {
			if divides(e.specs[i]) {
				all = reflect.AppendSlice(all, flat)
			} else if !reflect.DeepEqual(flat.Interface(), all.Interface()) {
				return nil, fmt.Errorf("%s of device %d is not that of device 0", e.names[i], d+1)
			}
		}
		whole[i] = must.M1(e.backend.Backend.BufferFromFlatData(0, all.Interface(), shape))
	}
	results, err := e.Executable.Execute(whole, nil, 0)
	var outputs []compute.Buffer
	for d := range devices {
		for _, r := range results {
			outputs = append(outputs, must.M1(buffer{r, e.backend, 0}.CopyToDevice(compute.DeviceNum(d))))
		}
	}
	return outputs, err
}

// divides reports whether a specification splits the first axis, and nothing else.
func divides(spec *compute.ShardingSpec) bool {
	return spec != nil && len(spec.Axes) == 1 && slices.Equal(spec.Axes[0], []string{"data"})
}

// With all random and stateful features, one and three devices compute the same program and numbers: executable
// refuses copies that differ. Each of three devices gets its own image of the plan of a micro-batch.
func TestDevices_TrainTheWeightsOfOne(t *testing.T) {
	gomlxtest.OnGo(t) // of which several devices are made
	run := saved(t, everything(), 31)
	run.Test, run.Recipe.EvalBatchSize = dataset(11, 2), 6
	want := finished(t, run)
	three := &several{Backend: gomlxtest.Backend(), n: 3, kind: "accelerator"}
	run.Backend, run.Dir = three, t.TempDir()
	stopped(t, run, 5) // continued on one more device
	steps := 0
	for _, program := range three.programs {
		if !slices.Contains(program.names, fmt.Sprint("arg", 1+data.PlanLen)) {
			continue // only training programs have scalars
		}
		steps++
		for i, name := range program.names {
			var plan int
			_, err := fmt.Sscanf(name, "arg%d", &plan)
			divided := err == nil && plan >= 1 && plan <= data.PlanLen && plan != 1+data.PlanMix
			if divides(program.specs[i]) != divided || divided && program.given[i].Dimensions[0] != 1 {
				t.Errorf("%s is divided: %v, into %s", name, divides(program.specs[i]), program.given[i])
			}
		}
	}
	is.Equal(t, "training programs, one that collects gradients and one that applies them", steps, 2)
	run.Backend, run.Devices = &several{Backend: gomlxtest.Backend(), n: 4, kind: "accelerator"}, 3
	endsAs(t, "three devices", run, want)

	run.Dir = t.TempDir() // two processes of three devices each
	gomlxtest.NoError(t, errors.Join(together(2, func(g engine.Group) error {
		run := run
		run.Backend, run.Group = &several{Backend: gomlxtest.Backend(), n: 3, kind: "accelerator"}, g
		return run.fails(t)
	})...))
	endsAs(t, "two processes with three devices each", run, want)
}

func TestDevices_CallFreesItsInputsButNotThePixels(t *testing.T) {
	gomlxtest.OnGo(t)
	program := gomlxtest.Must(model.NewExec(gomlxtest.Backend(), model.NewStore(),
		func(_ *model.Scope, x, y *graph.Node) *graph.Node { return graph.Add(x, y) }))(t)
	defer program.Finalize()
	for _, y := range []*tensors.Tensor{tensors.FromValue([]float32{3, 5}), tensors.FromValue([]int64{1})} {
		x := tensors.FromValue([]float32{7, 11})
		outputs, err := parallel.Devices{}.Call(program, []*tensors.Tensor{x}, y)
		is.Equal(t, fmt.Sprint(err, ": the plan is kept, the pixels are"), [2]bool{y.Ok(), x.Ok()}, [2]bool{false, true})
		if err == nil && !reflect.DeepEqual(outputs[0].Value(), []float32{10, 16}) {
			t.Errorf("outputs %v", outputs[0])
		}
	}
}

func TestNewDevices_DivideABatch(t *testing.T) {
	for name, c := range map[string]struct {
		exist, n  int
		batch     int // in two micro-batches
		kind      string
		want      int
		complains []string
	}{
		"one is one": {1, 0, 2, "", 1, nil}, "all by default": {5, 0, 20, "NVIDIA", 5, nil},
		"or as many as share a batch": {8, 0, 20, "NVIDIA", 5, nil}, "some": {5, 3, 6, "NVIDIA", 3, nil},
		"a processor is one": {4, 0, 8, "TFRT_CPU_0", 1, nil}, "or what is asked for": {4, 4, 8, "TFRT_CPU_0", 4, nil},
		"indivisible":     {3, 2, 6, "", 0, []string{"2 devices", "batch_size"}},
		"more than exist": {3, 4, 8, "", 0, []string{"4 devices"}}, "none": {3, -1, 6, "", 0, []string{"-1 devices"}},
	} {
		d, err := parallel.NewDevices(&several{Backend: gomlxtest.Backend(), n: c.exist, kind: c.kind}, c.n, c.batch/2)
		if c.complains != nil {
			is.Refused(t, name, err, c.complains...)
		} else {
			gomlxtest.NoError(t, err)
			is.Equal(t, name, d.Count(), c.want)
		}
	}
}

// On XLA one, two and four devices train the same weights, up to the order in which gradients are summed. With SGD the
// difference is proportional: steps·rate·6e-8 of gradients of about 1. (Adam divides a gradient by its size, so it
// turns the rounding noise of a zero gradient, as of key biases, into full steps.)
func TestDevices_OfXLATrainTheWeightsOfOne(t *testing.T) {
	config := os.Getenv(compute.ConfigEnvVar)
	if !strings.HasPrefix(config, "xla") {
		t.Skip("only XLA has several devices: GOMLX_BACKEND=xla:cpu")
	}
	var want map[string][]float64
	for _, n := range []int{1, 4} { // or as many as there are
		run := tinyRun(t, "batch_size=12;eval_batch_size=12;epochs=2;optimizer.name=sgd;optimizer.weight_decay=0", 36)
		run.Backend = gomlxtest.Must(backend.Open(backend.Config(config), backend.Devices(n),
			backend.Log(io.Discard)))(t)
		got := run.Backend.NumDevices()
		if got < n && strings.HasPrefix(config, "xla:cpu") {
			t.Fatalf("%d devices, want %d", got, n)
		} else if want != nil && got == 1 {
			t.Skipf("%s has one device", config)
		}
		run.Devices = min(n, got)
		m, _ := done(t, run)
		weights := m.weights(t, "")
		if m.Finalize(); n == 1 {
			want = weights
		}
		for name := range want {
			gomlxtest.NearAbs(t, fmt.Sprintf("%s on %d devices", name, run.Devices), weights[name], want[name], 1e-6)
		}
	}
}

// named is a backend with a name and a device.
type named struct {
	compute.Backend
	name, device string
}

func (b named) Name() string                               { return b.name }
func (b named) DeviceDescription(compute.DeviceNum) string { return b.device }

func TestEvalBatch_FitsTheCachesOfAProcessor(t *testing.T) {
	onProcessor := named{name: "onnxruntime", device: "CPU (ONNX Runtime Default Device)"}
	for _, c := range []struct {
		variant    string
		side, want int
		backend    compute.Backend
	}{
		{"Ti/16", 224, 8, onProcessor}, {"S/16", 224, 4, onProcessor}, {"L/16", 384, 1, onProcessor},
		{"Ti/16", 32, 100, onProcessor}, // 5·768·100 numbers are few
		{"S/16", 224, 100, named{name: "onnxruntime", device: "CUDA GPU (ONNX Runtime Default Device)"}},
		{"S/16", 224, 100, named{name: "xla", device: "NVIDIA H200"}}, {"S/16", 224, 100, named{name: "Go Backend"}},
	} {
		config := gomlxtest.Must(vit.Variant(c.variant))(t)
		config.ImageRows, config.ImageCols = c.side, c.side
		r, _ := Recipe{Model: config, EvalBatchSize: 100}.Resolve()
		m := &Model{Recipe: r, backend: c.backend}
		is.Equal(t, fmt.Sprintf("%s at %d on %+v", c.variant, c.side, c.backend), m.EvalBatch(), c.want)
	}
}

// table connects members of a group in one process.
type table struct {
	sync.Mutex
	n, count int // of the members, and of those that have given something in this round
	*round
}

// round is one exchange.
type round struct {
	given []any // by rank
	done  chan struct{}
}

func (t *table) begin() { t.count, t.round = 0, &round{make([]any, t.n), make(chan struct{})} }

type member struct {
	rank int
	*table
}

func (m member) Rank() int { return m.rank }
func (m member) Size() int { return m.n }

// exchange returns what all members give, by rank.
func (m member) exchange(given any) []any {
	m.Lock()
	now := m.round
	now.given[m.rank] = given
	if m.count++; m.count == m.n {
		m.begin()
		close(now.done)
	}
	m.Unlock()
	<-now.done
	return now.given
}

func (m member) Gather(message []byte) (all [][]byte, err error) {
	for _, other := range m.exchange(bytes.Clone(message)) {
		all = append(all, other.([]byte))
	}
	return all, nil
}

// SumFloat32 adds in the order of ranks.
func (m member) SumFloat32(values []float32) error {
	for rank, other := range m.exchange(slices.Clone(values)) {
		if other := other.([]float32); len(other) != len(values) {
			panic(fmt.Sprintf("members give %d and %d values", len(values), len(other)))
		} else if rank == 0 {
			copy(values, other)
		} else {
			for i, v := range other {
				values[i] += v
			}
		}
	}
	return nil
}

// together runs n processes concurrently, and returns their errors by rank.
func together(n int, do func(engine.Group) error) []error {
	t := &table{n: n}
	t.begin()
	errs := make([]error, n)
	var wait sync.WaitGroup
	for rank := range n {
		wait.Go(func() { errs[rank] = do(member{rank, t}) })
	}
	wait.Wait()
	return errs
}

// Three epochs with all random and stateful features: the processes of a group write the same checkpoint and rows as
// one process with the same micro-batches, bit for bit.
func TestGroup_TrainsTheWeightsOfOneProcessWithAsManyParts(t *testing.T) {
	gomlxtest.OnGo(t)
	for _, n := range gomlxtest.InTurn(0, 2, 3) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			run := saved(t, everything(), 31)
			run.Test, run.Recipe.GradAccumSteps = dataset(11, 2), n
			want := finished(t, run)
			run.Dir = t.TempDir()
			run.Recipe.GradAccumSteps = 0 // the default, one per process
			errs := together(n, func(g engine.Group) error {
				run := run
				run.Group = g
				m, _, err := run.Do(t.Context())
				if err != nil {
					return err
				}
				defer m.Finalize()
				if g.Rank() == 0 { // after the run a model is on its own
					_, err = m.Evaluate(run.Train)
				}
				return err
			})
			gomlxtest.NoError(t, errors.Join(errs...))
			run.Recipe.GradAccumSteps = n
			endsAs(t, "one process that finds from the group's files that the run is finished", run, want)
		})
	}
}

// late returns from each exchange when the other process waits in the next one, or has ended.
type late struct {
	member
	ended <-chan struct{} // the other
}

func (l late) SumFloat32(values []float32) error {
	err := l.member.SumFloat32(values)
	for waiting := false; !waiting; {
		select {
		case <-l.ended:
			return err
		case <-time.After(time.Millisecond):
			l.Lock()
			waiting = l.count > 0
			l.Unlock()
		}
	}
	return err
}

// The only evaluation is after the last step: a process that does not wait for the first finds no best weights.
func TestGroup_AllProcessesEndWithTheWeightsOfTheFirst(t *testing.T) {
	gomlxtest.OnGo(t)
	run := tinyRun(t, "grad_accum_steps=2;epochs=0;warmup_epochs=0;steps=3;eval_every_steps=3", 31)
	run.Dir, run.Validation = t.TempDir(), dataset(13, 3)
	ended := make(chan struct{})
	errs := together(2, func(g engine.Group) error {
		run := run
		if run.Group = g; g.Rank() == 0 {
			run.Group = late{g.(member), ended}
		} else {
			defer close(ended)
		}
		m, _, err := run.Do(t.Context())
		if err != nil {
			return err
		}
		defer m.Finalize()
		is.Equal(t, fmt.Sprintf("process %d ends with the weights", g.Rank()), m.Source.Weights.Name, checkpoints.BestDir)
		return nil
	})
	gomlxtest.NoError(t, errors.Join(errs...))
}

func TestGroup_ASignalToOneEndsAllAndOneResumes(t *testing.T) {
	gomlxtest.OnGo(t)
	run := saved(t, everything(), 31)
	run.Recipe.GradAccumSteps = 3
	want := finished(t, run)
	run.Dir = t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	errs := together(3, func(g engine.Group) error {
		run, ctx := run, ctx
		if run.Group = g; g.Rank() != 0 {
			ctx = t.Context() // only the first gets the signal
		}
		run.Progress = func(p engine.Progress) { // of the first process
			if p.Step == 7 {
				cancel()
			}
		}
		_, _, err := run.Do(ctx)
		return err
	})
	for rank, err := range errs {
		if !errors.Is(err, engine.ErrInterrupted) || err.Error() != "interrupted at step 7 of 12" {
			t.Errorf("process %d: %v", rank, err)
		}
	}
	is.Equal(t, "saved at step", latest(t, run.Dir, checkpoints.LastDir).Step, 7)
	endsAs(t, "one process that goes on with a group's run", run, want)
}

func TestGroup_RefusesWhatItCannotShare(t *testing.T) {
	gomlxtest.OnGo(t)
	begun := tinyRun(t, "grad_accum_steps=2", 31)
	begun.Dir = t.TempDir()
	stopped(t, begun, 5)
	dhvt := tiny()
	dhvt.Architecture = DHVT
	for _, c := range []struct {
		name   string
		n      int
		change func(run *Run, rank int)
		words  []string
	}{
		{"parts", 2, func(run *Run, _ int) { run.Recipe.GradAccumSteps = 3 },
			[]string{"2 processes", "3 micro-batches", "multiple of 2"}},
		{"batch", 5, func(*Run, int) {}, []string{"grad_accum_steps is 5", "divisor of batch_size"}},
		{"batch normalization", 2, func(run *Run, _ int) { run.Recipe = dhvt }, []string{"running statistics"}},
		{"seeds", 3, func(run *Run, rank int) { run.Seed = int64(rank / 2) }, []string{"process 2 has another run"}},
		{"images", 3, func(run *Run, rank int) { run.Train = dataset(31, uint64(min(rank, 1))) },
			[]string{"process 1 has another run"}},
		{"directories", 2, func(run *Run, rank int) {
			if run.Recipe.GradAccumSteps, run.Dir = 2, begun.Dir; rank == 1 {
				run.Dir = t.TempDir()
			}
		}, []string{"process 1 begins at step 0, process 0 at step 5"}},
	} {
		for rank, err := range together(c.n, func(g engine.Group) error {
			run := tinyRun(t, "", 31)
			c.change(&run, g.Rank())
			run.Group = g
			return run.fails(t)
		}) {
			is.Refused(t, fmt.Sprintf("%s, process %d", c.name, rank), err, c.words...)
		}
	}
}
