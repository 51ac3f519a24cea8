// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/backend"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/finetune/internal/parallel"
	"github.com/wepe-go/wepe/internal/gomlxtest"
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
	meshes  []compute.Mesh
	names   []string // of the parameters
	specs   []*compute.ShardingSpec
	outputs []*compute.ShardingSpec
	given   []shapes.Shape // to the second device, at the last call
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
	shape, flat, err := b.content()
	if err != nil {
		return nil, err
	}
	return b.backend.BufferFromFlatData(device, flat, shape)
}

func (b buffer) content() (shape shapes.Shape, flat any, err error) {
	if shape, err = b.Shape(); err == nil {
		flat, err = b.Data()
	}
	return shape, flat, err
}

type builder struct {
	compute.Builder
	backend *several
	main    *function
	*asked
}

func (b *builder) DistributedAutoSharding(meshes ...compute.Mesh) error {
	b.meshes = meshes
	return nil
}

func (b *builder) Main() compute.Function {
	if b.main == nil {
		b.main = &function{b.Builder.Main(), b.asked}
	}
	return b.main
}

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

func (f *function) Return(outputs []compute.Value, specs []*compute.ShardingSpec) error {
	f.asked.outputs = specs
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
			s, flat, err := b.content()
			if err != nil {
				return nil, err
			}
			if shape = s; d == 1 {
				e.given = append(e.given, s)
			}
			flats = append(flats, reflect.ValueOf(flat))
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
		var err error
		if whole[i], err = e.backend.Backend.BufferFromFlatData(0, all.Interface(), shape); err != nil {
			return nil, err
		}
	}
	results, err := e.Executable.Execute(whole, nil, 0)
	if err != nil {
		return nil, err
	}
	var outputs []compute.Buffer
	for d := range devices {
		for _, r := range results {
			copied, err := buffer{r, e.backend, 0}.CopyToDevice(compute.DeviceNum(d))
			if err != nil {
				return nil, err
			}
			outputs = append(outputs, copied)
		}
	}
	return outputs, nil
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
	equal(t, "training programs, one that collects gradients and one that applies them", steps, 2)
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
		if y.Ok() || !x.Ok() {
			t.Errorf("%v: the plan is kept: %v, the pixels are kept: %v", err, y.Ok(), x.Ok())
		}
		if err == nil && !reflect.DeepEqual(outputs[0].Value(), []float32{10, 16}) {
			t.Errorf("outputs %v", outputs[0])
		}
	}
}

func TestNewDevices_DivideABatch(t *testing.T) {
	for _, c := range []struct {
		name      string
		exist, n  int
		batch     int // in two micro-batches
		kind      string
		want      int
		complains []string
	}{
		{name: "one is one", exist: 1, batch: 2, want: 1},
		{name: "all by default", exist: 5, batch: 20, want: 5, kind: "NVIDIA"},
		{name: "or as many as share a batch", exist: 8, batch: 20, want: 5, kind: "NVIDIA"},
		{name: "some", exist: 5, n: 3, batch: 6, want: 3, kind: "NVIDIA"},
		{name: "a processor is one", exist: 4, batch: 8, want: 1, kind: "TFRT_CPU_0"},
		{name: "or what is asked for", exist: 4, n: 4, batch: 8, want: 4, kind: "TFRT_CPU_0"},
		{name: "indivisible", exist: 3, n: 2, batch: 6, complains: []string{"2 devices", "batch_size"}},
		{name: "more than exist", exist: 3, n: 4, batch: 8, complains: []string{"4 devices"}},
		{name: "none", exist: 3, n: -1, batch: 6, complains: []string{"-1 devices"}},
	} {
		d, err := parallel.NewDevices(&several{Backend: gomlxtest.Backend(), n: c.exist, kind: c.kind}, c.n, c.batch/2)
		refused(t, c.name, err, c.complains...)
		if c.complains == nil && (err != nil || d.Count() != c.want) {
			t.Errorf("%s: %d devices, %v, want %d", c.name, d.Count(), err, c.want)
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
	for _, n := range []int{1, 4} {
		run := tinyRun(t, "batch_size=12;eval_batch_size=12;epochs=2;optimizer.name=sgd;optimizer.weight_decay=0", 36)
		run.Backend = gomlxtest.Must(backend.Open(backend.Config(config), backend.Devices(n),
			backend.Log(io.Discard)))(t)
		if got := run.Backend.NumDevices(); got < n && strings.HasPrefix(config, "xla:cpu") {
			t.Fatalf("%d devices, want %d", got, n)
		} else if got < n {
			t.Skipf("%s has %d devices", config, got)
		}
		run.Devices = n
		m, _ := done(t, run)
		got := m.weights(t, "")
		if m.Finalize(); n == 1 {
			want = got
		}
		for name := range want {
			gomlxtest.NearAbs(t, fmt.Sprintf("%s on %d devices", name, n), got[name], want[name], 1e-6)
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
		equal(t, fmt.Sprintf("%s at %d on %+v", c.variant, c.side, c.backend), m.EvalBatch(), c.want)
	}
}
