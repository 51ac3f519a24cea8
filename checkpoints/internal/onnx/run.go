// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64 && onnx

package checkpoints

import (
	"bytes"
	"encoding/binary"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/gomlx/compute"
	onnx "github.com/gomlx/compute-onnx"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// saveONNX writes a graph of one input, whose first axis is the batch, for any batch size. Names are as in Hugging
// Face's own exports, so that transformers.js and others can run it.
func saveONNX(store *model.Store, build func(*model.Scope, *Node) *Node, input shapes.Shape, w io.Writer) error {
	compiled := func(batch int, do func(*onnx.Backend, *onnx.Executable) error) error {
		opened, err := compute.NewWithConfig("onnx:cpu")
		if err != nil {
			return err
		}
		defer opened.Finalize()
		backend := opened.(*onnx.Backend)
		backend.SetKeepModelProto(true)
		exec, err := model.NewExec(backend, store.WithVariableAsConst(true), build)
		if err != nil {
			return err
		}
		defer exec.Finalize()
		shape := input.Clone()
		shape.Dimensions[0] = batch
		graph, err := exec.Compile(shape)
		if err != nil {
			return err
		}
		return do(backend, graph.Executable().(*onnx.Executable))
	}
	const size, other = 1009, 1013 // the binding shares equal constants: sizes that no other dimension has
	var constants map[string][]int64
	err := compiled(other, func(_ *onnx.Backend, e *onnx.Executable) error {
		constants = shapeConstants(e.ModelProto())
		return nil
	})
	if err != nil {
		return err
	}
	return compiled(size, func(b *onnx.Backend, e *onnx.Executable) error {
		if err := freeBatch(e.ModelProto(), size, constants, other); err != nil {
			return err
		}
		return onnx.SaveModel(b, e, w, []string{"pixel_values"}, []string{"logits"})
	})
}

// runONNX runs a file with one input and one output.
func runONNX(file string, input *tensors.Tensor) ([]float32, error) {
	backend, err := compute.NewWithConfig("onnx:cpu")
	if err != nil {
		return nil, err
	}
	defer backend.Finalize()
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if raw, err = fixBatch(raw, input.Shape().Dim(0)); err != nil {
		return nil, err
	}
	graph, err := onnx.LoadModel(backend, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	defer graph.Finalize()
	if names, _ := graph.Inputs(); len(names) != 1 || len(graph.Outputs()) != 1 {
		return nil, errors.Errorf("%d inputs and %d outputs, want one of each", len(names), len(graph.Outputs()))
	}
	buffer, err := input.Buffer(backend, 0)
	if err != nil {
		return nil, err
	}
	out, err := graph.Execute([]compute.Buffer{buffer}, []bool{false}, 0)
	if err != nil {
		return nil, err
	}
	logits, err := tensors.FromBuffer(out[0])
	if err != nil {
		return nil, err
	}
	return tensors.CopyFlatData[float32](logits)
}

// The binding to ONNX Runtime builds graphs for one batch size, which appears in the constants for the shapes of
// Reshape and Expand and for the ends of Slice. Graphs of two batch sizes differ only in these constants: comparing
// them gives each entry as base + slope·batch.

// message is a message of ONNX, whose Go types are internal to the binding.
type message struct{ protoreflect.Message }

func (m message) field(name string) protoreflect.FieldDescriptor {
	return m.Descriptor().Fields().ByName(protoreflect.Name(name))
}

func (m message) get(name string) protoreflect.Value { return m.Get(m.field(name)) }

func (m message) sub(name string) message { return message{m.get(name).Message()} }

func (m message) set(name string, value any) { m.Set(m.field(name), protoreflect.ValueOf(value)) }

// each calls do with the messages of a list.
func (m message) each(name string, do func(message)) {
	for list, i := m.get(name).List(), 0; i < list.Len(); i++ {
		do(message{list.Get(i).Message()})
	}
}

// add appends a message to a list.
func (m message) add(name string) message {
	return message{m.Mutable(m.field(name)).List().AppendMutable().Message()}
}

// integers returns the values of an int64 constant, nil for another.
func (m message) integers() (out []int64) {
	const int64s = 7 // TensorProto.DataType
	raw := m.get("raw_data").Bytes()
	for i := 0; m.get("data_type").Int() == int64s && i+8 <= len(raw); i += 8 {
		out = append(out, int64(binary.LittleEndian.Uint64(raw[i:])))
	}
	return out
}

func (m message) setIntegers(values []int64) { m.set("raw_data", dtypes.UnsafeByteSlice(values)) }

// shapeConstants returns the int64 constants of a graph by name.
func shapeConstants(model proto.Message) map[string][]int64 {
	constants := map[string][]int64{}
	message{model.ProtoReflect()}.sub("graph").each("initializer", func(c message) {
		if values := c.integers(); values != nil {
			constants[c.get("name").String()] = values
		}
	})
	return constants
}

// freeBatch generalizes a graph of one batch size to any, with the constants of the same graph of another size.
func freeBatch(model proto.Message, size int, constants map[string][]int64, other int) error {
	graph := message{model.ProtoReflect()}.sub("graph")
	reshapes, elsewhere := map[string]bool{}, map[string]bool{} // constants; Reshape and Expand may share one
	graph.each("node", func(n message) {
		for inputs, i := n.get("input").List(), 0; i < inputs.Len(); i++ {
			if name := inputs.Get(i).String(); n.get("op_type").String() == "Reshape" && i == 1 {
				reshapes[name] = true
			} else {
				elsewhere[name] = true
			}
		}
	})
	linear := map[string][2][]int64{} // base and slope
	var err error
	graph.each("initializer", func(c message) {
		values, name := c.integers(), c.get("name").String()
		others := constants[name]
		if len(values) != len(others) {
			err = errors.Errorf("the constant %s of the graph depends on the batch size", name)
			return
		}
		base, slope, depend := make([]int64, len(values)), make([]int64, len(values)), []int{}
		for i, v := range values {
			slope[i] = (others[i] - v) / int64(other-size)
			if base[i] = v - slope[i]*int64(size); slope[i] != 0 {
				depend = append(depend, i)
			}
		}
		if len(depend) == 1 && reshapes[name] && !elsewhere[name] { // Reshape infers one entry
			values[depend[0]] = -1
			c.setIntegers(values)
		} else if len(depend) > 0 {
			linear[name] = [2][]int64{base, slope}
			c.set("name", name+"_base")
			c.setIntegers(base)
		}
	})
	if err != nil {
		return err
	}
	graph.computeShapes(linear)
	graph.eachBatch(func(d message) { d.set("dim_param", "batch") })
	return nil
}

// eachBatch calls do with the first dimension of all inputs and outputs of a graph.
func (m message) eachBatch(do func(message)) {
	for _, list := range []string{"input", "output"} {
		m.each(list, func(v message) {
			if dims := v.sub("type").sub("tensor_type").sub("shape").get("dim").List(); dims.Len() > 0 {
				do(message{dims.Get(0).Message()})
			}
		})
	}
}

// fixBatch fixes the batch size of a file: the binding panics at a size that is not a number.
func fixBatch(raw []byte, size int) ([]byte, error) {
	model := new(onnx.Executable).ModelProto().ProtoReflect().New().Interface() // its type is not exported
	if err := proto.Unmarshal(raw, model); err != nil {
		return nil, err
	}
	message{model.ProtoReflect()}.sub("graph").eachBatch(func(d message) {
		if d.get("dim_value").Int() <= 0 {
			d.set("dim_value", int64(size))
		}
	})
	return proto.Marshal(model)
}

// computeShapes inserts the nodes that compute base + slope·batch before their users.
func (m message) computeShapes(linear map[string][2][]int64) {
	if len(linear) == 0 {
		return
	}
	constant := func(name string, values []int64) {
		c := m.add("initializer")
		c.set("name", name)
		c.set("data_type", int32(7))
		c.Mutable(c.field("dims")).List().Append(protoreflect.ValueOfInt64(int64(len(values))))
		c.setIntegers(values)
	}
	before := m.NewField(m.field("node")).List()
	node := func(op, output string, inputs ...string) {
		n := message{before.AppendMutable().Message()}
		n.set("op_type", op)
		n.Mutable(n.field("output")).List().Append(protoreflect.ValueOfString(output))
		for _, input := range inputs {
			n.Mutable(n.field("input")).List().Append(protoreflect.ValueOfString(input))
		}
	}
	input := message{m.get("input").List().Get(0).Message()}.get("name").String()
	constant("batch_axis", []int64{0})
	node("Shape", "input_shape", input)
	node("Gather", "batch", "input_shape", "batch_axis")
	for _, name := range slices.Sorted(maps.Keys(linear)) {
		constant(name+"_slope", linear[name][1])
		node("Mul", name+"_scaled", name+"_slope", "batch")
		node("Add", name, name+"_base", name+"_scaled")
	}
	m.each("node", func(n message) { before.Append(protoreflect.ValueOfMessage(n.Message)) })
	m.Set(m.field("node"), protoreflect.ValueOfList(before))
}
