// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"strings"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/report"
)

// Evaluate measures the model on a set: mean cross-entropy without smoothing, top-1 and top-5 accuracy.
func (m *Model) Evaluate(set data.Source) (report.Metrics, error) {
	e, err := m.examine(set)
	if err != nil {
		return report.Metrics{}, err
	}
	return e.metrics(), nil
}

// Examine is Evaluate with the confusion of the classes.
func (m *Model) Examine(set data.Source) (report.Metrics, report.Confusion, error) {
	metrics, err := m.Evaluate(set)
	if err != nil {
		return metrics, report.Confusion{}, err
	}
	answers, err := m.answers(set)
	return metrics, confusion(set.Describe(), answers), err
}

func (m *Model) evaluate(p pixels) (report.Metrics, error) {
	e, err := m.examination(p)
	if err != nil {
		return report.Metrics{}, err
	}
	return e.metrics(), nil
}

// examine examines a set, or returns what it found last where that was the same set: the page of a run comes right
// after its result.
func (m *Model) examine(set data.Source) (*examination, error) {
	if m.examined.set == set {
		return m.examined.result, nil
	}
	if err := m.knows(set.Describe()); err != nil {
		return nil, err
	}
	p := m.upload(set)
	defer p.finalize()
	e, err := m.examination(p)
	if err == nil {
		m.examined.set, m.examined.result = set, e
	}
	return e, err
}

// examination examines the images of a set on the device, batch by batch. Of a group each process takes some of the
// batches, and all get all.
func (m *Model) examination(p pixels) (*examination, error) {
	e := &examination{classes: m.Recipe.Model.Classes, verdicts: make([]verdict, p.set.Len())}
	labels := p.set.Describe().Labels
	err := m.eachLogits(p, func(row int, logits []float32) {
		e.verdicts[row] = judge(logits, labels[row])
	})
	for _, row := range p.set.Damaged() {
		if e.verdicts[row] != (verdict{}) { // which is another process's
			e.verdicts[row] = leftOut
		}
	}
	if m.group == nil || m.group.Size() == 1 {
		return e, err
	}
	switch failed, groupErr := anyone(m.group, err != nil); {
	case groupErr != nil:
		return nil, groupErr
	case failed && err == nil:
		return nil, &data.ImageError{Where: p.set.Describe().Name, Err: errors.New("another process could not go on")}
	case failed:
		return nil, err
	}
	return e, e.share(m.group)
}

// knows refuses a set of other classes.
func (m *Model) knows(set *data.Info) error {
	if len(set.Classes) != m.Recipe.Model.Classes {
		return fmt.Errorf("finetune: data set %s has %d classes, the model %d", set.Name, len(set.Classes),
			m.Recipe.Model.Classes)
	}
	return nil
}

// eachLogits computes the logits [classes] of the images of a set on the device, and calls see with each.
func (m *Model) eachLogits(p pixels, see func(row int, logits []float32)) error {
	return m.batches(p, m.eval, m.EvalBatch(), func(first, n int, outputs []*tensors.Tensor) error {
		values, ok := outputs[0].Value().([][]float32)
		if !ok {
			return fmt.Errorf("finetune: logits are %s, want float32 [batch, classes]", outputs[0].Shape())
		}
		for k, logits := range values[:n] {
			see(first+k, logits)
		}
		return nil
	})
}

// EvalBatch is how many images are evaluated at a time: as many as the recipe says, but on ONNX Runtime's processor no
// more than a power of two whose widest activations, batch·tokens·mlp_dim numbers, stay in its caches. In batches of
// 100 a ViT-Ti/16 takes 1.46 times as long an image as in those of 8 (docs/performance.md).
func (m *Model) EvalBatch() int {
	const cached = 1 << 21
	if m.backend.Name() != "onnxruntime" || !strings.Contains(m.backend.DeviceDescription(0), "CPU") {
		return m.Recipe.EvalBatchSize
	}
	c := m.Recipe.Model
	fit := max(1, cached/(c.Tokens()*c.MLPDim))
	return min(m.Recipe.EvalBatchSize, 1<<(bits.Len(uint(fit))-1))
}

// batches runs a program on all images, so many at a time, and calls see with the number of the first and how many of
// the batch count: the last batch is filled up, so that one program serves all.
func (m *Model) batches(p pixels, program *model.Exec, size int,
	see func(first, n int, outputs []*tensors.Tensor) error) error {
	images, augment := p.set.Len(), m.evalAugment()
	size = m.devices.fill(min(size, images))
	own := m.ownBatches(images, size)
	var loader *data.Loader
	if host, _ := p.set.Divide(augment); host != (data.Augment{}) {
		loader = data.NewLoader(p.set, host, 0, size, own)
		defer loader.Close()
	}
	for _, rows := range own {
		var shown *data.Memory
		if loader != nil {
			batch, err := loader.Next()
			if err != nil {
				return fmt.Errorf("finetune: %w", err)
			}
			shown = &batch.Memory
		}
		outputs, err := p.call(program, augment.Plan(p.set, 0, 0, 0, rows), shown, nil)
		if err != nil {
			return err
		}
		if err = m.confirm(); err == nil {
			err = see(rows[0], min(size, images-rows[0]), outputs)
		}
		for _, o := range outputs {
			err = errors.Join(err, o.FinalizeAll())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ownBatches yields the rows of all images in order, so many at a time, as of epoch 0; of a group those batches that
// are this process's. The last is filled up.
func (m *Model) ownBatches(images, size int) iter.Seq2[int, []int] {
	return func(yield func(int, []int) bool) {
		rows := make([]int, size)
		for begin := 0; begin < images; begin += size {
			if m.group != nil && begin/size%m.group.Size() != m.group.Rank() {
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

func (m *Model) answers(set data.Source) ([]answer, error) {
	e, err := m.examine(set)
	if err != nil {
		return nil, err
	}
	answers := make([]answer, len(e.verdicts))
	for i, v := range e.verdicts {
		if v.class == noAnswer {
			return nil, fmt.Errorf("finetune: image %d of %s: its logits are not finite: the model diverged", i,
				set.Describe().Name)
		}
		answers[i] = v.answer
	}
	return answers, nil
}
