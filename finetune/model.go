// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/finetune/data"
	"github.com/wepe-go/wepe/finetune/report"
	"github.com/wepe-go/wepe/wepe"
)

// Model is a network with its weights on a backend.
type Model struct {
	Recipe  Recipe
	Classes []string // names, by class
	// Preprocess is what Predict does with pictures, but for normalisation; zero is a bilinear resize to the model's
	// size.
	Preprocess preprocess.Settings

	backend compute.Backend
	store   *model.Store
	eval    *model.Exec
	check   func() error // of the weights, until confirm has seen the model ask for them

	answered struct { // the last set that logitsOf was asked for
		set    *data.Set
		logits [][]float32
	}
}

// newModel returns a model without weights: they are drawn when its first program is compiled.
func newModel(backend compute.Backend, recipe Recipe, classes []string, seed int64) (*Model, error) {
	m := &Model{Recipe: recipe, Classes: classes, backend: backend, store: model.NewStore()}
	for name, value := range recipe.Params {
		m.store.SetParam("/"+name, value)
	}
	m.store.SetParam("/"+model.ParamInitialSeed, seed)
	if err := m.store.SetRNGStateFromSeed(seed); err != nil {
		return nil, err
	}
	var err error
	m.eval, err = evalProgram(m)
	return m, err
}

// Open loads the trained model of a run directory: its best checkpoint if it has one, else its last.
func Open(backend compute.Backend, dir string) (*Model, error) {
	checkpoint, err := newest(dir)
	if err != nil {
		return nil, err
	}
	if checkpoint == nil {
		return nil, fmt.Errorf("finetune: no checkpoint in %s: train with this directory first", dir)
	}
	s, err := stateOf(checkpoint)
	if err != nil {
		return nil, err
	}
	m, err := newModel(backend, s.Recipe, s.Classes, s.Seed)
	if err != nil {
		return nil, err
	}
	if err := m.load(checkpoint); err != nil || s.Recipe.EMA == 0 {
		return m, err
	}
	return m, m.swapAverage()
}

// load takes over all variables of a checkpoint of the same model.
func (m *Model) load(checkpoint *checkpoints.Checkpoint) error {
	m.check = func() error { return checkpoint.Check(m.store, temporary) }
	return checkpoint.Load(m.store, nil)
}

// zeroHead creates a head that starts at zero, before the first program is compiled.
func (m *Model) zeroHead() error {
	c := m.Recipe.Model
	for name, value := range map[string]*tensors.Tensor{
		"weights": tensors.FromShape(shapes.Make(dtypes.Float32, c.Width, c.Classes)),
		"biases":  tensors.FromShape(shapes.Make(dtypes.Float32, c.Classes)),
	} {
		if _, err := m.store.CreateVariable("/"+modelScope+"/"+headPath+name, value); err != nil {
			return err
		}
	}
	return nil
}

// Finalize frees what the model holds on the backend, at once and not when the garbage collector comes by: weights and
// programs of a study of many models do not fit together. The model cannot be used any more.
func (m *Model) Finalize() {
	m.eval.Finalize()
	m.store.Finalize()
}

// confirm says, once the first program has run, whether the model asked for just the variables that its weights came
// with: those of another version of this library could lack some, which would silently be drawn anew.
func (m *Model) confirm() error {
	if m.check == nil {
		return nil
	}
	check := m.check
	m.check = nil
	return check()
}

// parameters is the number of trained numbers, once the model has been built.
func (m *Model) parameters() int {
	n := 0
	for v := range m.store.IterVariables() {
		if v.Trainable && strings.HasPrefix(v.Path(), "/"+modelScope+"/") {
			n += v.Shape().Size()
		}
	}
	return n
}

// pixels is a data set as input of a program.
type pixels struct {
	set      *data.Set
	resident *tensors.Tensor // the whole set, nil where only the rows of a batch are passed
}

// upload brings a set to the device, once. ONNX Runtime copies its inputs at every call, so there the rows of each
// batch are picked on the host, which is the device.
func (m *Model) upload(set *data.Set) pixels {
	if m.backend.Name() == "onnxruntime" {
		return pixels{set: set}
	}
	return pixels{set: set, resident: set.Tensor()}
}

// call runs a program on one plan. The pixels stay, the rest is freed.
func (p pixels) call(program *model.Exec, plan *data.Plan, scalars []float32) ([]*tensors.Tensor, error) {
	source := p.resident
	if source == nil {
		rows := make([]int, len(plan.Indices))
		for k, row := range plan.Indices {
			rows[k], plan.Indices[k] = int(row), int64(k)
		}
		source = p.set.Subset(rows).Tensor()
		defer func() { _ = source.FinalizeAll() }()
	}
	inputs := []any{source}
	for _, t := range plan.Tensors() {
		inputs = append(inputs, t)
		defer func() { _ = t.FinalizeAll() }()
	}
	if scalars != nil {
		inputs = append(inputs, scalars)
	}
	return program.Call(inputs...)
}

// evalAugment brings images of any size to the model's.
func (m *Model) evalAugment() data.Augment {
	a := m.Recipe.Augment.Eval()
	a.Size = [2]int{m.Recipe.Model.ImageRows, m.Recipe.Model.ImageCols}
	return a
}

// logits computes [rows, classes] for the given rows of a set, batch by batch.
func (m *Model) logits(p pixels, rows []int, batch int) ([][]float32, error) {
	out := make([][]float32, 0, len(rows))
	for begin := 0; begin < len(rows); begin += batch {
		// The last batch is filled up with its first row, so that one program serves all.
		chunk := append([]int(nil), rows[begin:min(begin+batch, len(rows))]...)
		whole := len(chunk)
		for len(chunk) < batch {
			chunk = append(chunk, chunk[0])
		}
		results, err := p.call(m.eval, m.evalAugment().Plan(p.set, 0, 0, 0, chunk), nil)
		if err != nil {
			return nil, err
		}
		if err := m.confirm(); err != nil {
			return nil, err
		}
		values, ok := results[0].Value().([][]float32)
		if !ok {
			return nil, fmt.Errorf("finetune: logits are %s, want float32 [batch, classes]", results[0].Shape())
		}
		out = append(out, values[:whole]...)
		if err := results[0].FinalizeAll(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// allLogits computes [images, classes] for the images of a set on the device.
func (m *Model) allLogits(p pixels) ([][]float32, error) {
	rows := make([]int, p.set.Len())
	for i := range rows {
		rows[i] = i
	}
	return m.logits(p, rows, min(m.Recipe.EvalBatchSize, len(rows)))
}

// logitsOf computes [images, classes] for a set, or returns what it computed last where that was the same set: the page
// of a run comes right after its result.
func (m *Model) logitsOf(set *data.Set) ([][]float32, error) {
	if m.answered.set == set {
		return m.answered.logits, nil
	}
	if len(set.Classes) != m.Recipe.Model.Classes {
		return nil, fmt.Errorf("finetune: data set %s has %d classes, the model %d", set.Name, len(set.Classes),
			m.Recipe.Model.Classes)
	}
	p := m.upload(set)
	if p.resident != nil {
		defer func() { _ = p.resident.FinalizeAll() }()
	}
	logits, err := m.allLogits(p)
	if err == nil {
		m.answered.set, m.answered.logits = set, logits
	}
	return logits, err
}

// Evaluate measures the model on a set: mean cross-entropy without smoothing, top-1 and top-5 accuracy.
func (m *Model) Evaluate(set *data.Set) (report.Metrics, error) {
	logits, err := m.logitsOf(set)
	if err != nil {
		return report.Metrics{}, err
	}
	return measure(logits, set.Labels), nil
}

func (m *Model) evaluate(p pixels) (report.Metrics, error) {
	logits, err := m.allLogits(p)
	if err != nil {
		return report.Metrics{}, err
	}
	return measure(logits, p.set.Labels), nil
}

// measure compares logits [images, classes] with labels. An answer is among the first k if fewer than k of the other
// logits are as large as its own: who cannot tell two classes apart is not right about either, or a head that starts at
// zero would be right about all. NaN is never right, and as large as any number where another class has it.
func measure(logits [][]float32, labels []int32) report.Metrics {
	var loss float64
	var top1, top5 int
	for i, row := range logits {
		own, before := row[labels[i]], -1 // itself
		for _, v := range row {
			if !(v < own) {
				before++
			}
		}
		loss += logSumExp(row) - float64(own)
		if math.IsNaN(float64(own)) {
			continue
		}
		if before < 1 {
			top1++
		}
		if before < 5 {
			top5++
		}
	}
	n := float64(len(logits))
	return report.Metrics{
		Loss: report.Number(loss / n), Top1: report.Number(float64(top1) / n), Top5: report.Number(float64(top5) / n),
		Images: len(logits),
	}
}

// logSumExp is log Σ exp(v), by which logits become log-probabilities.
func logSumExp(logits []float32) float64 {
	peak, sum := float64(slices.Max(logits)), 0.0
	for _, v := range logits {
		sum += math.Exp(float64(v) - peak)
	}
	return peak + math.Log(sum)
}

// followed is an encoder with numbers that a training log should follow.
type followed interface {
	Scalars() (map[string]float64, error)
}

// scalars returns what the encoding has learned, for the log; nil for encodings without such numbers.
func (m *Model) scalars() (map[string]report.Number, error) {
	scope := m.store.Scope("/" + modelScope)
	encoder, ok := m.Recipe.Model.Encoder(scope).(followed)
	if !ok {
		encoder, ok = m.Recipe.Model.RelativeEncoder(scope).(followed)
	}
	if !ok {
		return nil, nil
	}
	values, err := encoder.Scalars()
	if err != nil {
		return nil, err
	}
	out := make(map[string]report.Number, len(values))
	for name, value := range values {
		out[name] = report.Number(value)
	}
	return out, nil
}

// Encoding returns what the position encoding of the model holds for each patch, row by row: the vectors that it adds
// [Rows·Cols, width], and for wepe the features they are made of [Rows·Cols, 4]; nil where there is no such thing.
func (m *Model) Encoding() (features, vectors []float64, err error) {
	exec, err := model.NewExec(m.backend, m.store, func(scope *model.Scope, g *Graph) []*Node {
		encoder := m.Recipe.Model.Encoder(scope.In(modelScope))
		if encoder == nil {
			return []*Node{ScalarZero(g, dtypes.Float32)}
		}
		// Times one: a variable that is itself an output comes back wrong from the onnx backend.
		outputs := []*Node{MulScalar(encoder.Encode(g), 1)}
		if e, ok := encoder.(*wepe.Encoder); ok {
			outputs = append(outputs, e.Features(g))
		}
		return outputs
	})
	if err != nil {
		return nil, nil, err
	}
	defer exec.Finalize()
	outputs, err := exec.Call()
	if err != nil {
		return nil, nil, err
	}
	flat := make([][]float64, len(outputs))
	for i, o := range outputs {
		if err := o.ConstFlatData(func(data any) {
			for _, v := range data.([]float32) {
				flat[i] = append(flat[i], float64(v))
			}
		}); err != nil {
			return nil, nil, err
		}
	}
	c := m.Recipe.Model
	if len(flat[0]) > 1 {
		vectors = flat[0][c.Prefix()*c.Width:]
	}
	if len(flat) > 1 && len(flat[1]) == 4*c.Rows()*c.Cols() {
		features = flat[1]
	}
	return features, vectors, nil
}

// swapAverage exchanges the weights with their moving average; a second call undoes it.
func (m *Model) swapAverage() error {
	m.answered.set = nil
	for v := range m.store.IterVariables() {
		if !strings.HasPrefix(v.Path(), "/"+modelScope+"/") {
			continue
		}
		average := m.store.GetVariable(averageRoot + v.Path())
		if average == nil {
			continue // not trained
		}
		weights, err := v.Value()
		if err != nil {
			return err
		}
		mean, err := average.Value()
		if err != nil {
			return err
		}
		if err := v.SetValuePreservingOld(mean); err != nil {
			return err
		}
		if err := average.SetValuePreservingOld(weights); err != nil {
			return err
		}
	}
	return nil
}
