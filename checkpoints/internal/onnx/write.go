// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package onnx writes the graph of a model as an ONNX file, and runs such a file in a program with ONNX Runtime.
package onnx

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/gomlx/compute"
	pb "github.com/gomlx/compute-onnx/support/protos"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"
)

// ErrNone is the error of a program that cannot run ONNX files.
var ErrNone = errors.New("running an ONNX file needs ONNX Runtime (make onnxruntime), and a program for it on " +
	"linux/amd64 (GOEXPERIMENT=simd go install -tags=onnx ./cmd/wepe)")

// A graph is recorded while GoMLX builds it for the pure-Go backend, twice, for two numbers of images: what differs
// depends on the batch size. What does not depend on the images is computed here, and becomes a constant of the file.
// So a file has only the operations of a network on images, not those of position encodings.

// Write writes a graph of one input, whose first axis is the batch, for any batch size. Names are as in Hugging
// Face's own exports, so that transformers.js and others can run it.
func Write(store *model.Store, build func(*model.Scope, *Node) *Node, input shapes.Shape, w io.Writer) error {
	var of [2]*recording
	sizes := [2]int{13, 17}
	backend, err := gobackend.New("ops_sequential") // the parallel scheduler can deadlock
	if err != nil {
		return err
	}
	for i := range of {
		r := &recorder{Backend: backend}
		exec, err := model.NewExec(r, store.WithVariableAsConst(true), build)
		if err != nil {
			return err
		}
		defer exec.Finalize()
		shape := input.Clone()
		shape.Dimensions[0] = sizes[i]
		if _, err := exec.Compile(shape); err != nil {
			return err
		}
		of[i] = r.last
	}
	graph := &onnxGraph{recording: of[0], other: of[1], sizes: sizes, graph: &pb.GraphProto{Name: "main"},
		names: map[value]string{}, loose: map[value]bool{}}
	if err := graph.build(backend); err != nil {
		return err
	}
	file := &pb.ModelProto{IrVersion: 9, ProducerName: "wepe", Graph: graph.graph,
		OpsetImport: []*pb.OperatorSetIdProto{{Version: 20}}}
	if size := proto.Size(file); size > math.MaxInt32 {
		return errors.Errorf("the model takes %d bytes, an ONNX file has at most 2 GiB", size)
	}
	raw, err := proto.Marshal(file)
	if err != nil {
		return err
	}
	_, err = w.Write(raw)
	return err
}

// recorder is a backend that records the operations of its last graph, and computes nothing.
type recorder struct {
	compute.Backend
	last *recording
}

// Builder implements compute.Backend.
func (r *recorder) Builder(name string) compute.Builder {
	b := r.Backend.Builder(name)
	r.last = &recording{Function: b.Main(), builder: b, at: map[value]int{}, shapes: map[value]shapes.Shape{},
		known: map[value][]byte{}}
	return recordedBuilder{b, r.last}
}

type recordedBuilder struct {
	compute.Builder
	main *recording
}

func (b recordedBuilder) Main() compute.Function { return b.main }

func (b recordedBuilder) Compile() (compute.Executable, error) { return notRun{}, nil }

// notRun stands for the executable of a recorded graph.
type notRun struct{ compute.Executable }

func (notRun) Finalize() {}

// step is an operation: its name in ONNX, values, and integers (axes, dimensions, starts …).
type step struct {
	op       string
	in       []value
	out      value
	integers [][]int
	epsilon  float64
}

// recording is the main function of a graph, with its steps in order.
type recording struct {
	compute.Function
	builder compute.Builder
	steps   []step
	at      map[value]int // the first step that made a value: the backend has one for equal operations
	shapes  map[value]shapes.Shape
	known   map[value][]byte // constants
	result  value
}

func (r *recording) note(out value, err error, s step) (value, error) {
	if err != nil {
		return nil, err
	}
	s.out = out
	for _, v := range slices.Concat(s.in, []value{out}) {
		if r.shapes[v], err = r.Shape(v); err != nil {
			return nil, err
		}
	}
	if _, known := r.at[out]; !known {
		r.at[out] = len(r.steps)
	}
	r.steps = append(r.steps, s)
	return out, nil
}

type (
	value  = compute.Value
	unary  = func(x value) (value, error)
	binary = func(a, b value) (value, error)
	reduce = func(x value, axes ...int) (value, error)
)

func (r *recording) unary(op string, do unary, x value) (value, error) {
	out, err := do(x)
	return r.note(out, err, step{op: op, in: []value{x}})
}

func (r *recording) binary(op string, do binary, a, b value) (value, error) {
	out, err := do(a, b)
	return r.note(out, err, step{op: op, in: []value{a, b}})
}

func (r *recording) reduce(op string, do reduce, x value, axes []int) (value, error) {
	out, err := do(x, axes...)
	return r.note(out, err, step{op: op, in: []value{x}, integers: [][]int{axes}})
}

// The operations of compute.StandardOps on images. Another one makes a value that is no step.

func (r *recording) Identity(x value) (value, error) {
	return r.unary("Identity", r.Function.Identity, x)
}
func (r *recording) Exp(x value) (value, error)  { return r.unary("Exp", r.Function.Exp, x) }
func (r *recording) Erf(x value) (value, error)  { return r.unary("Erf", r.Function.Erf, x) }
func (r *recording) Sqrt(x value) (value, error) { return r.unary("Sqrt", r.Function.Sqrt, x) }
func (r *recording) Tanh(x value) (value, error) { return r.unary("Tanh", r.Function.Tanh, x) }
func (r *recording) Logistic(x value) (value, error) {
	return r.unary("Sigmoid", r.Function.Logistic, x)
}
func (r *recording) Add(a, b value) (value, error) { return r.binary("Add", r.Function.Add, a, b) }
func (r *recording) Sub(a, b value) (value, error) { return r.binary("Sub", r.Function.Sub, a, b) }
func (r *recording) Mul(a, b value) (value, error) { return r.binary("Mul", r.Function.Mul, a, b) }
func (r *recording) Div(a, b value) (value, error) { return r.binary("Div", r.Function.Div, a, b) }
func (r *recording) Pow(a, b value) (value, error) { return r.binary("Pow", r.Function.Pow, a, b) }

func (r *recording) ReduceSum(x value, axes ...int) (value, error) {
	return r.reduce("ReduceSum", r.Function.ReduceSum, x, axes)
}

func (r *recording) ReduceMax(x value, axes ...int) (value, error) {
	return r.reduce("ReduceMax", r.Function.ReduceMax, x, axes)
}

func (r *recording) ConvertDType(x value, dtype dtypes.DType) (value, error) {
	out, err := r.Function.ConvertDType(x, dtype)
	return r.note(out, err, step{op: "Cast", in: []value{x}})
}

func (r *recording) Reshape(x value, dims ...int) (value, error) {
	out, err := r.Function.Reshape(x, dims...)
	return r.note(out, err, step{op: "Reshape", in: []value{x}})
}

func (r *recording) Transpose(x value, permutation ...int) (value, error) {
	out, err := r.Function.Transpose(x, permutation...)
	return r.note(out, err, step{op: "Transpose", in: []value{x}, integers: [][]int{permutation}})
}

func (r *recording) BroadcastInDim(x value, shape shapes.Shape, axes []int) (value, error) {
	out, err := r.Function.BroadcastInDim(x, shape, axes)
	return r.note(out, err, step{op: "Expand", in: []value{x}, integers: [][]int{axes}})
}

func (r *recording) Concatenate(axis int, of ...value) (value, error) {
	out, err := r.Function.Concatenate(axis, of...)
	return r.note(out, err, step{op: "Concat", in: slices.Clone(of), integers: [][]int{{axis}}})
}

func (r *recording) Slice(x value, starts, limits, strides []int) (value, error) {
	if strides == nil {
		strides = slices.Repeat([]int{1}, len(starts))
	}
	out, err := r.Function.Slice(x, starts, limits, strides)
	return r.note(out, err, step{op: "Slice", in: []value{x}, integers: [][]int{starts, limits, strides}})
}

func (r *recording) DotGeneral(a value, aContracting, aBatch []int, b value, bContracting, bBatch []int,
	config compute.DotGeneralConfig) (value, error) {
	out, err := r.Function.DotGeneral(a, aContracting, aBatch, b, bContracting, bBatch, config)
	return r.note(out, err, step{op: "Einsum", in: []value{a, b},
		integers: [][]int{aContracting, aBatch, bContracting, bBatch}})
}

// Fused operations: those that ONNX has, and none of others, so that GoMLX takes the single ones.

func (r *recording) FusedGelu(x value, exact bool) (value, error) {
	out, err := r.Function.FusedGelu(x, exact)
	if !exact {
		return nil, compute.ErrNotImplemented
	}
	return r.note(out, err, step{op: "Gelu", in: []value{x}})
}

func (r *recording) FusedSoftmax(x value, axis int) (value, error) {
	out, err := r.Function.FusedSoftmax(x, axis)
	return r.note(out, err, step{op: "Softmax", in: []value{x}, integers: [][]int{{axis}}})
}

func (r *recording) FusedLayerNorm(x value, axes []int, epsilon float64, gamma, beta value) (value, error) {
	if len(axes) != 1 || axes[0] != -1 || gamma != nil || beta != nil {
		return nil, compute.ErrNotImplemented
	}
	out, err := r.Function.FusedLayerNorm(x, axes, epsilon, nil, nil)
	return r.note(out, err, step{op: "LayerNormalization", in: []value{x}, epsilon: epsilon})
}

func (r *recording) FusedDense(_, _, _ value, _ compute.DenseConfig) (value, error) {
	return nil, compute.ErrNotImplemented
}

// Parameter implements compute.Function.
func (r *recording) Parameter(name string, shape shapes.Shape, s *compute.ShardingSpec) (value, error) {
	out, err := r.Function.Parameter(name, shape, s)
	return r.note(out, err, step{op: "Parameter"})
}

// Constant implements compute.Function.
func (r *recording) Constant(flat any, dims ...int) (value, error) {
	out, err := r.Function.Constant(flat, dims...)
	if err != nil {
		return nil, err
	}
	r.known[out] = dtypes.UnsafeByteSliceFromAny(flat)
	r.shapes[out], err = r.Shape(out)
	return out, err
}

// Return implements compute.Function.
func (r *recording) Return(outputs []value, _ []*compute.ShardingSpec) error {
	r.result = outputs[0]
	return nil
}

// compute returns the bytes of values of which none is to depend on the parameter, whose numbers are all x.
func (r *recording) compute(values []value, backend compute.Backend, x float32) (map[value][]byte, error) {
	unknown := slices.DeleteFunc(slices.Clone(values), func(v value) bool { return r.known[v] != nil })
	if len(unknown) == 0 {
		return r.known, nil
	}
	if err := r.Function.Return(unknown, nil); err != nil {
		return nil, err
	}
	executable, err := r.builder.Compile()
	if err != nil {
		return nil, err
	}
	defer executable.Finalize()
	_, inputs := executable.Inputs()
	buffer, err := backend.BufferFromFlatData(0, slices.Repeat([]float32{x}, inputs[0].Size()), inputs[0])
	if err != nil {
		return nil, err
	}
	buffers, err := executable.Execute([]compute.Buffer{buffer}, nil, 0)
	if err != nil {
		return nil, err
	}
	for i, buffer := range buffers {
		flat, err := buffer.Data()
		if err != nil {
			return nil, err
		}
		r.known[unknown[i]] = dtypes.UnsafeByteSliceFromAny(flat)
	}
	return r.known, nil
}

// onnxGraph is the graph of a file in the making.
type onnxGraph struct {
	*recording
	other *recording
	sizes [2]int // the numbers of images of both
	graph *pb.GraphProto
	names map[value]string
	loose map[value]bool // not yet broadcast: axes may have length 1
	count int
}

func (f *onnxGraph) build(backend compute.Backend) error {
	depends, folded, err := f.dependent()
	if err != nil {
		return err
	}
	size := 0
	for _, value := range folded[0] {
		if shape := f.shapes[value]; types[shape.DType] == 0 {
			return errors.Errorf("the export to ONNX lacks the type %s", shape.DType)
		} else if size += int(shape.ByteSize()); size > math.MaxInt32 {
			return errors.New("the constants of the model take more than the 2 GiB of an ONNX file")
		}
	}
	raw, err := f.compute(folded[0], backend, 0)
	if err != nil {
		return err
	}
	others, err := f.other.compute(folded[1], backend, 0.7)
	if err != nil {
		return err
	}
	for i, value := range folded[0] {
		if !bytes.Equal(raw[value], others[folded[1][i]]) { // of an operation that is no step
			return errors.Errorf("the export to ONNX lacks an operation of the model that gives %s", f.shapes[value])
		}
		f.names[value] = f.constant(f.shapes[value], raw[value])
	}
	for i, s := range f.steps {
		if depends[i] {
			f.names[s.out] = f.step(s)
		}
	}
	f.graph.Node = append(f.graph.Node, &pb.NodeProto{OpType: "Identity", Input: []string{f.full(f.result)},
		Output: []string{"logits"}})
	f.graph.Output = append(f.graph.Output, f.described("logits", f.result))
	return nil
}

// dependent returns which of the steps that the result needs depend on the images or on their number, and the values
// that these take from others, in both recordings.
func (f *onnxGraph) dependent() (depends []bool, folded [2][]value, err error) {
	if len(f.steps) != len(f.other.steps) {
		return nil, folded, errors.New("the graph depends on the batch size")
	}
	depends, needed := make([]bool, len(f.steps)), map[value]bool{f.result: true}
	of := func(in value) bool { from, known := f.at[in]; return known && depends[from] }
	for i, s := range f.steps {
		other := f.other.steps[i]
		shape, otherShape := f.shapes[s.out], f.other.shapes[other.out]
		if s.op != other.op || shape.Rank() != otherShape.Rank() || f.at[s.out] != f.other.at[other.out] ||
			s.op != "Slice" && !slices.EqualFunc(s.integers, other.integers, slices.Equal) {
			return nil, folded, errors.Errorf("the graph depends on the batch size: %s %s, %s %s", s.op, shape, other.op,
				otherShape)
		}
		depends[i] = s.op == "Parameter" || !slices.Equal(shape.Dimensions, otherShape.Dimensions) ||
			slices.ContainsFunc(s.in, of)
	}
	for i, s := range slices.Backward(f.steps) {
		depends[i] = depends[i] && needed[s.out] && f.at[s.out] == i
		for k, in := range s.in {
			if depends[i] && !needed[in] {
				needed[in] = true
				if !of(in) {
					folded[0], folded[1] = append(folded[0], in), append(folded[1], f.other.steps[i].in[k])
				}
			}
		}
	}
	return depends, folded, nil
}

// new returns a name.
func (f *onnxGraph) new(of string) string {
	f.count++
	return fmt.Sprintf("%s_%d", of, f.count)
}

// types are the types of tensors in ONNX.
var types = map[dtypes.DType]pb.TensorProto_DataType{dtypes.Float32: pb.TensorProto_FLOAT,
	dtypes.Int32: pb.TensorProto_INT32, dtypes.Int64: pb.TensorProto_INT64, dtypes.Bool: pb.TensorProto_BOOL}

func (f *onnxGraph) constant(shape shapes.Shape, raw []byte) string {
	t := &pb.TensorProto{Name: f.new("constant"), DataType: int32(types[shape.DType]), RawData: raw}
	for _, d := range shape.Dimensions {
		t.Dims = append(t.Dims, int64(d))
	}
	f.graph.Initializer = append(f.graph.Initializer, t)
	return t.Name
}

func (f *onnxGraph) integers(values ...int) string {
	wide := make([]int64, len(values))
	for i, v := range values {
		wide[i] = int64(v)
	}
	return f.constant(shapes.Make(dtypes.Int64, len(wide)), dtypes.UnsafeByteSlice(wide))
}

func (f *onnxGraph) node(op string, inputs []string, attributes ...*pb.AttributeProto) string {
	name := f.new(op)
	f.graph.Node = append(f.graph.Node, &pb.NodeProto{OpType: op, Input: inputs, Output: []string{name},
		Attribute: attributes})
	return name
}

func integer(name string, value int) *pb.AttributeProto {
	return &pb.AttributeProto{Name: name, Type: pb.AttributeProto_INT, I: int64(value)}
}

// described is an input or output of the graph.
func (f *onnxGraph) described(name string, value value) *pb.ValueInfoProto {
	shape, dims := f.shapes[value], []*pb.TensorShapeProto_Dimension{}
	for i, d := range shape.Dimensions {
		dim := &pb.TensorShapeProto_Dimension{Value: &pb.TensorShapeProto_Dimension_DimValue{DimValue: int64(d)}}
		if i == 0 {
			dim.Value = &pb.TensorShapeProto_Dimension_DimParam{DimParam: "batch"}
		}
		dims = append(dims, dim)
	}
	return &pb.ValueInfoProto{Name: name, Type: &pb.TypeProto{Value: &pb.TypeProto_TensorType{
		TensorType: &pb.TypeProto_Tensor{ElemType: int32(types[shape.DType]),
			Shape: &pb.TensorShapeProto{Dim: dims}}}}}
}

// dims returns the dimensions of a value as base + slope·batch.
func (f *onnxGraph) dims(value value) (base, slope []int) {
	other := f.other.shapes[f.other.steps[f.at[value]].out].Dimensions
	for axis, d := range f.shapes[value].Dimensions {
		each := (other[axis] - d) / (f.sizes[1] - f.sizes[0])
		base, slope = append(base, d-each*f.sizes[0]), append(slope, each)
	}
	return base, slope
}

// size is the node with base + slope·batch.
func (f *onnxGraph) size(base, slope []int) string {
	if !slices.ContainsFunc(slope, func(s int) bool { return s != 0 }) {
		return f.integers(base...)
	}
	input := f.graph.Input[0].Name
	batch := f.node("Gather", []string{f.node("Shape", []string{input}), f.integers(0)})
	return f.node("Add", []string{f.integers(base...), f.node("Mul", []string{f.integers(slope...), batch})})
}

// full is the name of a value with all of its dimensions.
func (f *onnxGraph) full(value value) string {
	if f.loose[value] {
		f.names[value] = f.node("Expand", []string{f.names[value], f.size(f.dims(value))})
		delete(f.loose, value)
	}
	return f.names[value]
}

// step adds the nodes of an operation, and returns the name of its value.
func (f *onnxGraph) step(s step) string {
	switch s.op {
	case "Parameter":
		f.graph.Input = append(f.graph.Input, f.described("pixel_values", s.out))
		return "pixel_values"
	case "Identity":
		f.loose[s.out] = f.loose[s.in[0]]
		return f.names[s.in[0]]
	case "Add", "Sub", "Mul", "Div", "Pow", "Exp", "Erf", "Sqrt", "Tanh", "Sigmoid", "Gelu":
		return f.elementwise(s)
	case "Expand":
		return f.expand(s)
	}
	var names []string
	for _, in := range s.in {
		names = append(names, f.full(in))
	}
	switch s.op {
	case "Cast":
		return f.node("Cast", names, integer("to", int(types[f.shapes[s.out].DType])))
	case "Softmax", "Concat":
		return f.node(s.op, names, integer("axis", s.integers[0][0]))
	case "LayerNormalization":
		width := f.shapes[s.out].Dim(-1)
		ones := f.constant(shapes.Make(dtypes.Float32, width), dtypes.UnsafeByteSlice(slices.Repeat([]float32{1}, width)))
		return f.node(s.op, append(names, ones),
			&pb.AttributeProto{Name: "epsilon", Type: pb.AttributeProto_FLOAT, F: float32(s.epsilon)})
	case "ReduceSum", "ReduceMax":
		return f.node(s.op, append(names, f.integers(s.integers[0]...)), integer("keepdims", 0))
	case "Reshape":
		base, slope := f.dims(s.out)
		grows := func(each int) bool { return each != 0 }
		if axis := slices.IndexFunc(slope, grows); axis >= 0 && !slices.ContainsFunc(slope[axis+1:], grows) {
			base[axis], slope = -1, nil // inferred
		}
		return f.node("Reshape", append(names, f.size(base, slope)))
	case "Transpose":
		perm := &pb.AttributeProto{Name: "perm", Type: pb.AttributeProto_INTS}
		for _, axis := range s.integers[0] {
			perm.Ints = append(perm.Ints, int64(axis))
		}
		return f.node("Transpose", names, perm)
	case "Slice":
		var of [4][]int // starts, limits, axes, strides
		for axis, d := range f.shapes[s.in[0]].Dimensions {
			start, limit, stride := s.integers[0][axis], s.integers[1][axis], s.integers[2][axis]
			if start != 0 || limit != d || stride != 1 {
				for i, x := range []int{start, limit, axis, stride} {
					of[i] = append(of[i], x)
				}
			}
		}
		return f.node("Slice", append(names, f.integers(of[0]...), f.integers(of[1]...), f.integers(of[2]...),
			f.integers(of[3]...)))
	}
	return f.product(s, names)
}

// elementwise leaves it to ONNX to broadcast: its value is loose unless an input has all dimensions.
func (f *onnxGraph) elementwise(s step) string {
	var names []string
	loose := true
	for _, in := range s.in {
		names = append(names, f.names[in])
		loose = loose && (f.loose[in] || !f.shapes[in].EqualDimensions(f.shapes[s.out]))
	}
	f.loose[s.out] = loose
	return f.node(s.op, names)
}

// expand puts the dimensions in place; those that are new or grow have length 1 as yet.
func (f *onnxGraph) expand(s step) string {
	base, slope := f.dims(s.out)
	from := f.shapes[s.in[0]]
	for axis := range base {
		if in := slices.Index(s.integers[0], axis); in < 0 || from.Dimensions[in] == 1 {
			base[axis], slope[axis] = 1, 0
		}
	}
	f.loose[s.out] = true
	return f.node("Reshape", []string{f.full(s.in[0]), f.size(base, slope)})
}

// product is MatMul where the last two axes are those of a product of matrices, in this order, else Einsum.
func (f *onnxGraph) product(s step, names []string) string {
	a, b := f.shapes[s.in[0]], f.shapes[s.in[1]]
	aContracting, aBatch, bContracting, bBatch := s.integers[0], s.integers[1], s.integers[2], s.integers[3]
	n := len(aBatch)
	leading := true
	for i := range n {
		leading = leading && aBatch[i] == i && bBatch[i] == i
	}
	if leading && b.Rank() == n+2 && (n == 0 || a.Rank() == n+2) && slices.Equal(aContracting, []int{a.Rank() - 1}) &&
		slices.Equal(bContracting, []int{n}) {
		return f.node("MatMul", names)
	}
	letters, next := [2][]byte{make([]byte, a.Rank()), make([]byte, b.Rank())}, byte('a')
	pair := func(ofA, ofB []int) {
		for i, axis := range ofA {
			letters[0][axis], letters[1][ofB[i]] = next, next
			next++
		}
	}
	pair(aBatch, bBatch)
	out := []byte("abcdefghijklmnopqrstuvwxyz")[:n]
	pair(aContracting, bContracting)
	for _, of := range letters {
		for axis, letter := range of {
			if letter == 0 {
				of[axis], out = next, append(slices.Clip(out), next)
				next++
			}
		}
	}
	return f.node("Einsum", names, &pb.AttributeProto{Name: "equation", Type: pb.AttributeProto_STRING,
		S: fmt.Appendf(nil, "%s,%s->%s", letters[0], letters[1], out)})
}
