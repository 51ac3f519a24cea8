// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/internal/parallel"
	"github.com/wepe-go/wepe/report"
)

// Evaluate evaluates the model on a dataset: mean cross-entropy without smoothing, top-1 and top-5 accuracy. Classes
// match by name, see Labelled.
func (m *Model) Evaluate(set data.Dataset) (report.Metrics, error) {
	e, err := m.evaluate(set)
	if err != nil {
		return report.Metrics{}, err
	}
	return e.metrics(), nil
}

// EvaluateWithConfusion is Evaluate with the confusion matrix.
func (m *Model) EvaluateWithConfusion(set data.Dataset) (report.Metrics, report.Confusion, error) {
	e, err := m.evaluate(set)
	if err == nil {
		err = e.answered()
	}
	if err != nil {
		return report.Metrics{}, report.Confusion{}, err
	}
	return e.metrics(), e.confusion(), nil
}

// evaluate evaluates a dataset.
func (m *Model) evaluate(set data.Dataset) (*evaluation, error) {
	p := m.upload(set)
	defer p.finalize()
	return m.evaluateOn(p)
}

// evaluateOn evaluates the images of a dataset on the device, batch by batch. Each process of a group computes some of
// the batches; all get the answers of all.
func (m *Model) evaluateOn(p pixels) (*evaluation, error) {
	labelled, _, err := m.Labelled(p.set.Describe())
	if err != nil {
		return nil, err
	}
	if labelled.Len() == 0 {
		return nil, fmt.Errorf("finetune: dataset %s has no images to evaluate", labelled.Name)
	}
	e := &evaluation{set: labelled, answers: make([]answer, p.set.Len())}
	err = m.eachLogits(p, func(row int, logits []float32) { e.answers[row] = answerOf(logits, e.set.Labels[row]) })
	for _, row := range p.set.Describe().Damaged() {
		if e.answers[row] != (answer{}) { // computed by another process
			e.answers[row] = answer{class: damagedImage}
		}
	}
	if m.group.Size() == 1 {
		return e, err
	}
	switch failed, groupErr := parallel.Any(m.group, err != nil); {
	case groupErr != nil:
		return nil, groupErr
	case failed && err == nil:
		return nil, &data.ImageError{Where: e.set.Name, Err: errors.New("another process failed")}
	case failed:
		return nil, err
	}
	return e, e.share(m.group)
}

// sameClasses refuses a dataset with another number of classes.
func (m *Model) sameClasses(set *data.Info) error {
	if m.Headless {
		return fmt.Errorf("finetune: %w", ErrHeadless)
	}
	if len(set.Classes) != m.Recipe.Model.Classes {
		return fmt.Errorf("finetune: dataset %s has %d classes, the model %d: use a dataset with the model's classes",
			set.Name, len(set.Classes), m.Recipe.Model.Classes)
	}
	return nil
}

// eachLogits computes the logits [classes] of all images of a dataset on the device, and calls see with each.
func (m *Model) eachLogits(p pixels, see func(row int, logits []float32)) error {
	return m.batches(p, m.eval, m.EvalBatch(), func(first int, outputs [][]float32) error {
		for logits := range slices.Chunk(outputs[0], m.Recipe.Model.Classes) {
			see(first, logits)
			first++
		}
		return nil
	})
}

// EvalBatch is the batch size of evaluation: the recipe's, but on ONNX Runtime's CPU at most a power of two whose
// widest activations, batch·tokens·mlp_dim values, fit its caches. With batches of 100 a ViT-Ti/16 takes 1.46 times as
// long per image as with 8.
func (m *Model) EvalBatch() int {
	const cached = 1 << 21
	if m.backend.Name() != "onnxruntime" || !strings.Contains(m.backend.DeviceDescription(0), "CPU") {
		return m.Recipe.EvalBatchSize
	}
	c := m.Recipe.Model
	fit := max(1, cached/(c.Tokens()*c.MLPDim))
	return min(m.Recipe.EvalBatchSize, 1<<(bits.Len(uint(fit))-1))
}

// batches runs a program on all images, size at a time, and calls see with the index of the first and the outputs of
// the batch's images, flat. The last batch is padded, so that one program suffices; outputs of the padding are dropped.
func (m *Model) batches(p pixels, program *model.Exec, size int, see func(first int, outputs [][]float32) error) error {
	images, augment, info := p.set.Len(), m.evalAugment(), p.set.Describe()
	if rows, cols := augment.OutputSize(info.Height, info.Width); rows != info.Height || cols != info.Width {
		augment.Interpolation = m.Recipe.Augment.Interpolation // on the host, as in training
	}
	size = m.devices.Fill(min(size, images))
	own := m.ownBatches(images, size)
	var next func() (*data.Batch, error, bool)
	if host, _ := augment.SplitHostGraph(p.set); host != (data.Augment{}) {
		var stop func()
		next, stop = iter.Pull2(data.Read(p.set, host, 0, 0, own))
		defer stop()
	}
	for _, rows := range own {
		var shown *data.InMemory
		if next != nil {
			batch, err, _ := next()
			if err != nil {
				return fmt.Errorf("finetune: %w", err)
			}
			shown = &batch.InMemory
		}
		outputs, err := p.call(program, augment.Plan(p.set, 0, 0, 0, rows), shown, nil)
		if err != nil {
			return err
		}
		flat, err := taken(outputs, min(size, images-rows[0]), m.numbers)
		if err := errors.Join(err, m.check()); err != nil {
			return err
		}
		if err := see(rows[0], flat); err != nil {
			return err
		}
	}
	return nil
}

// numbers returns the output of a program, and of an ONNX file the logits of the images in it.
func (m *Model) numbers(output *tensors.Tensor) ([]float32, error) {
	if m.onnx != nil {
		return m.onnx.Logits(output)
	}
	return tensors.CopyFlatData[float32](output)
}

// taken returns the first n rows of outputs, flat, and frees the outputs.
func taken(outputs []*tensors.Tensor, n int, numbers func(*tensors.Tensor) ([]float32, error)) (flat [][]float32,
	err error) {
	for _, output := range outputs {
		values, copyErr := numbers(output)
		if copyErr == nil {
			values = values[:len(values)/output.Shape().Dim(0)*n]
		}
		flat = append(flat, values)
		err = errors.Join(err, copyErr, output.FinalizeAll())
	}
	return flat, err
}

// ownBatches yields the rows of all images in order, size at a time, as of epoch 0: in a group only the batches of this
// process. The last is padded.
func (m *Model) ownBatches(images, size int) iter.Seq2[int, []int] {
	return func(yield func(int, []int) bool) {
		rows := make([]int, size)
		for begin := 0; begin < images; begin += size {
			if begin/size%m.group.Size() != m.group.Rank() {
				continue
			}
			for k := range rows {
				if rows[k] = begin + k; rows[k] >= images {
					rows[k] = begin
				}
			}
			if !yield(0, rows) {
				return
			}
		}
	}
}

// AverageFlips makes Evaluate and Predict average the scores, see Model.Activation, of each image and its mirror
// image (test-time augmentation), in twice the time.
func (m *Model) AverageFlips() error {
	if err := m.Recipe.oneSize("test-time augmentation"); err != nil {
		return err
	}
	if m.onnx != nil {
		return errors.New("finetune: an ONNX file has no test-time augmentation: leave it out")
	}
	program, err := m.forward(func(scope *model.Scope, images *Node, plan []*Node) []*Node {
		logits := m.logits(scope, Concatenate([]*Node{images, Reverse(images, 2)}, 0), plan) // [2·batch, classes]
		batch, classes := images.Shape().Dim(0), m.Recipe.Model.Classes
		return []*Node{averageOf(Reshape(logits, 2, batch, classes), m.Activation)} // [batch, classes]
	})
	if err != nil {
		return err
	}
	m.eval.Finalize()
	m.eval = program
	return nil
}

// averageOf returns the logits [batch, classes] whose scores are the mean scores of views with logits [views, batch,
// classes]; scores is Model.Activation.
func averageOf(logits *Node, scores string) *Node {
	switch scores {
	case "sigmoid": // log(p/(1−p)), with 1−p from the opposite logits: near 1 the difference would lose its digits
		return Sub(logOfMean(logSigmoid(logits)), logOfMean(logSigmoid(Neg(logits))))
	case "none":
		return ReduceMean(logits, 0)
	default:
		return logOfMean(LogSoftmax(logits))
	}
}

// logSigmoid is log σ(x) = min(x, 0) − log(1 + exp(−|x|)).
func logSigmoid(x *Node) *Node { return Sub(MinScalar(x, 0), Log1P(Exp(Neg(Abs(x))))) }

// logOfMean is log of the mean of exp(logs) over the first axis.
func logOfMean(logs *Node) *Node {
	peak := ReduceAndKeep(logs, ReduceMax, 0)
	return Add(Squeeze(peak, 0), Log(ReduceMean(Exp(Sub(logs, peak)), 0)))
}

// pixels is a dataset as input of a program.
type pixels struct {
	set      data.Dataset
	resident []*tensors.Tensor // the whole dataset, for each device; unused if the images of a batch are passed
	devices  parallel.Devices
}

// upload transfers a dataset to the device, once. ONNX Runtime copies its inputs at every call, so for it the rows of
// each batch are selected on the host, which is its device. Streams are read batch by batch.
func (m *Model) upload(set data.Dataset) pixels {
	p := pixels{set: set, devices: m.devices}
	if held, ok := set.(*data.InMemory); ok && m.backend.Name() != "onnxruntime" {
		for range m.devices.Count() {
			p.resident = append(p.resident, held.Tensor())
		}
	}
	return p
}

// call runs a program on one plan. It keeps the pixels and frees other inputs. shown are the images of the plan's rows
// if they come from a loader, otherwise nil.
func (p pixels) call(program *model.Exec, plan *data.Plan, shown *data.InMemory, scalars []float32) ([]*tensors.Tensor,
	error) {
	source := p.resident
	if shown != nil || source == nil {
		rows := make([]int, len(plan.Indices))
		for k, row := range plan.Indices {
			rows[k], plan.Indices[k] = int(row), int64(k)
		}
		if shown == nil {
			var err error
			if shown, err = data.Load(context.Background(), p.set, rows); err != nil {
				return nil, err
			}
		}
		source = []*tensors.Tensor{shown.Tensor()}
		defer func() { _ = source[0].FinalizeAll() }()
	}
	inputs := plan.Tensors()
	if scalars != nil {
		inputs = append(inputs, tensors.FromValue(scalars))
	}
	return p.devices.Call(program, source, inputs...)
}

// finalize frees memory on the device.
func (p pixels) finalize() {
	for _, t := range p.resident {
		_ = t.FinalizeAll()
	}
}
