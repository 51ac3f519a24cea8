// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

// Options are what [Load] changes of a model: its head and image size (ImportOptions), and its position encoding. What
// does not change the variables, as dropout, can be set in Model.Config afterwards.
type Options struct {
	ImportOptions
	Size     int            // of square images in pixels; or ImageRows and ImageCols
	Position string         // the encoding; empty: the model's own. "hybrid" keeps the table and blends WePE into it
	Params   map[string]any // hyperparameters of the encoding, by name
	// LoRA is the rank of adapters on every attention, with LoRAMLP on the MLPs too, that are trained in place of the
	// backbone, as in finetune.Recipe; 0 for none. [Model.Export] merges them into the matrices.
	LoRA    int
	LoRAMLP bool
}

// Model is a ViT in a GoMLX store, of a file or, with Config and Scope set by the caller, a new one.
type Model struct {
	Config vit.Config
	Scope  *model.Scope // of its variables

	Labels     []string             // names of the classes of the file's head, if it is kept, as Imported.Names
	Activation string               // as Imported.Activation
	Preprocess *preprocess.Settings // how images become its input, as far as the files say so; nil if they do not
	Report     []string             // what was kept, resampled and replaced, a line each
}

// Load creates the variables of a model in a scope of a GoMLX store, for GoMLX's trainer. The path is one that [Import]
// reads: a file or directory of others, an output of [Export], a run or one of its checkpoints.
//
//	store := model.NewStore()
//	m, err := checkpoints.Load(backend, store.Scope("/vit"), "vit-tiny-augreg", checkpoints.Options{
//		ImportOptions: checkpoints.ImportOptions{Classes: 5}, Size: 160, Position: "hybrid"})
//	trainer := train.NewTrainer(backend, store, m.ModelFn(data.BatchImages), loss.SparseCategoricalCrossEntropyLogits, …)
//	…
//	report, err := m.Export("out", backend, checkpoints.ExportOptions{Format: "timm"})
//
// A head of another number of classes and variables of a new encoding are drawn by the first graph; those of an
// encoding that is added to the model's start so that its function is unchanged, if it has such variables (Report), and
// the backend computes how a hybrid's gate starts ("wepe_start"). GoMLX's own checkpoints restore such a store: load
// the model first, then attach the checkpoint's loader to the same store, without Immediate, which leaves existing
// variables as they are.
func Load(backend compute.Backend, scope *model.Scope, path string, o Options) (*Model, error) {
	if o.Size != 0 {
		o.ImageRows, o.ImageCols = cmp.Or(o.ImageRows, o.Size), cmp.Or(o.ImageCols, o.Size)
	}
	if o.LoRA < 0 || o.LoRA == 0 && o.LoRAMLP {
		return nil, errors.Errorf("checkpoints: options: LoRA is %d, want 0 or more, above 0 with LoRAMLP", o.LoRA)
	}
	from, err := Import(path, o.ImportOptions)
	if err != nil {
		return nil, err
	}
	m := &Model{Config: from.Config, Scope: scope, Labels: from.Names, Activation: from.Activation,
		Preprocess: from.Preprocess, Report: from.Report}
	m.Config.Position = cmp.Or(o.Position, from.Config.Position)
	if m.Config, err = m.Config.Resolve(); err != nil {
		return nil, errors.WithMessage(err, "checkpoints: options")
	}
	encoding, old := m.Config.Encoding(), from.Config.Encoding()
	kept := maps.Clone(from.Variables)
	maps.DeleteFunc(kept, func(path string, _ *tensors.Tensor) bool {
		variable, positions := strings.CutPrefix(path, positionsPath)
		return positions && !encoding.Inherits(old, variable)
	})
	params := maps.Clone(from.Params)
	maps.DeleteFunc(params, func(name string, _ any) bool { return !slices.Contains(encoding.Params(), name) })
	for _, name := range slices.Sorted(maps.Keys(o.Params)) {
		if !slices.Contains(encoding.Params(), name) {
			return nil, errors.WithMessagef(setting.Unknown("hyperparameter", name, encoding.Params()),
				"checkpoints: options: Params of position %q", encoding)
		}
	}
	maps.Copy(params, o.Params)
	if err := exceptions.TryCatch[error](func() { // a graph's encoder would panic
		trial := model.NewStore().RootScope()
		trial.SetParams(params)
		m.Config.Encoder(trial)
	}); err != nil {
		return nil, errors.WithMessage(err, "checkpoints: options: Params")
	}
	scope.SetParams(params)
	if err := weight.Create(scope, kept); err != nil {
		return nil, errors.WithMessage(err, "checkpoints")
	}
	if o.LoRA > 0 {
		if err := weight.Adapt(scope, o.LoRA, o.LoRAMLP); err != nil {
			return nil, errors.WithMessage(err, "checkpoints")
		}
		for path := range kept {
			if !strings.HasPrefix(path, headPath) && (path == vit.PathTable || !strings.HasPrefix(path, positionsPath)) {
				scope.Store().GetVariable(model.JoinPath(scope.Scope(), path)).SetTrainable(false)
			}
		}
	}
	return m, m.StartPositions(backend, old)
}

// starter is an encoder that begins at a pretrained table, as wepe.Encoder.
type starter interface{ Start(compute.Backend) error }

// StartPositions sets the variables of an encoding that is new in a model made from one with another encoding: those
// that are added start so that the function of the model is unchanged (position.Spec.Neutral), and the gate of a hybrid
// as "wepe_start" says. A line in Report names an added encoding that changes the function from the start.
func (m *Model) StartPositions(backend compute.Backend, from position.Encoding) error {
	encoding := m.Config.Encoding()
	added := encoding.Added(from)
	if len(added) == 0 && !encoding.BeginsWith(from) {
		return nil
	}
	encoder := m.Config.Encoder(m.Scope)
	for v := range m.Scope.Store().IterVariables() {
		path, ok := below(v, m.Scope.Scope())
		if path, positions := strings.CutPrefix(path, positionsPath); ok && positions && added.Neutral(path) {
			if err := v.SetValue(tensors.FromShape(v.Shape())); err != nil {
				return err
			}
		}
	}
	for _, s := range added {
		if keeps := s.Pretrained && encoding.BeginsWith(from); len(s.Neutral) == 0 && !keeps {
			m.Report = append(m.Report, fmt.Sprintf("positions: %s is added, and changes the model before any training", s.Name))
		}
	}
	if hybrid, ok := position.As[starter](encoder); ok && encoding.BeginsWith(from) {
		return hybrid.Start(backend)
	}
	return nil
}

// ModelFn is the model for GoMLX's train.NewTrainer: images make its input, normalized float32 [batch, rows, cols,
// channels], of a batch's inputs, as data.BatchImages does; nil takes the first input.
func (m *Model) ModelFn(images func(spec any, inputs []*Node) *Node) train.ModelFn {
	path := m.Scope.Scope()
	return func(scope *model.Scope, spec any, inputs []*Node) []*Node {
		x := inputs[0]
		if images != nil {
			x = images(spec, inputs)
		}
		return []*Node{m.Config.Logits(scope.Store().Scope(path), x)}
	}
}

// Export is the function [Export] with the model's labels, scores and preprocessing where the options have none.
func (m *Model) Export(dir string, backend compute.Backend, o ExportOptions) (report []string, err error) {
	if o.Labels == nil {
		o.Labels = m.Labels
	}
	o.Activation = cmp.Or(o.Activation, m.Activation)
	if o.Preprocess == nil {
		o.Preprocess = m.Preprocess
	}
	return Export(dir, backend, m.Scope, m.Config, o)
}
