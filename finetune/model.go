// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/finetune/internal/parallel"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/dhvt"
	"github.com/wepe-go/wepe/vit/position"
)

// Model is a network with its weights on a backend.
type Model struct {
	Recipe  Recipe
	Seed    int64    // of the run that trained the model
	Classes []string // names, by class
	// Preprocess resizes an image of any size to the model's size, without normalization, which is the recipe's: from the
	// files of a foreign model, or as a run read its images. Predict, Embed and Export use it; zero means
	// Recipe.Preprocessing.
	Preprocess preprocess.Settings
	Source     Source // the files that Open read, or the weights of a finished run
	// Activation is how Predict converts logits: "softmax" (default), "sigmoid" for a foreign multi-label model, or "none"
	// for regression.
	Activation string
	Headless   bool         // the files have no head, so that Predict returns ErrHeadless; Embed and Inference do not
	Logger     *slog.Logger // of warnings about images that Predict and Embed read; may be nil

	refused  error             // why Preprocess is unknown; nil if it is known
	onnx     *checkpoints.ONNX // an ONNX file that computes the logits in place of the network; or nil
	backend  compute.Backend
	devices  parallel.Devices
	store    *model.Store
	eval     *model.Exec
	features *model.Exec      // of Embed, nil before its first call
	encoder  position.Encoder // of the positions, once a graph has built it
	group    engine.Group     // that shares evaluations during training
	check    func() error     // of the weights, once a program has used them: see expectNoMore

	tested struct { // by Run.Do, for Run.Page: the answers of the run's weights on its test images
		on *data.Info
		by *evaluation
	}
}

// newModel returns a model without weights: compiling its first program draws them.
func newModel(backend compute.Backend, recipe Recipe, classes []string, seed int64) (*Model, error) {
	store, err := engine.NewStore(recipe.Params, seed)
	if err != nil {
		return nil, err
	}
	m := &Model{Recipe: recipe, Classes: classes, Seed: seed, backend: backend, store: store, group: parallel.Alone{},
		check: func() error { return nil }}
	m.eval, err = m.logitsProgram()
	return m, err
}

// logitsProgram compiles the logits of the images of a plan; of an ONNX file its input, see numbers.
func (m *Model) logitsProgram() (*model.Exec, error) {
	return m.forward(func(scope *model.Scope, images *Node, plan []*Node) []*Node {
		if m.onnx != nil {
			return []*Node{images}
		}
		return []*Node{m.logits(scope, images, plan)}
	})
}

// spread sets the devices that train the model, before its first program is compiled.
func (m *Model) spread(d parallel.Devices) error {
	m.devices = d
	d.Spread(m.eval)
	// GoMLX v0.28.2 reads the sharding of every variable in its store; the generator's state has none by default.
	return m.store.GetVariable("/" + model.RNGStateVariableName).SetShardingSpec(d.Everywhere)
}

// forward compiles a program of the images of a plan as in evaluation. Inputs: pixels, plan.
func (m *Model) forward(outputs func(scope *model.Scope, images *Node, plan []*Node) []*Node) (*model.Exec, error) {
	augment := m.evalAugment()
	program, err := model.NewExec(m.backend, m.store, func(scope *model.Scope, inputs []*Node) []*Node {
		scope.Store().SetTraining(inputs[0].Graph(), false)
		plan := inputs[1 : 1+data.PlanLen]
		return outputs(scope.In(modelScope), augment.Images(inputs[0], plan), plan)
	})
	if err == nil {
		program.SetMaxCache(-1) // each dataset is another shape
	}
	return program, err
}

// traced is forward with nodes of the trace as outputs, for a ViT with one image size. With weights, attention is
// computed unfused.
func (m *Model) traced(weights bool, choose func(*vit.Trace) []*Node) (*model.Exec, error) {
	return m.forward(func(scope *model.Scope, images *Node, _ []*Node) []*Node {
		return choose(m.Recipe.Model.Trace(scope, images, weights))
	})
}

// logits builds the network on the images of a plan: [batch, classes].
func (m *Model) logits(scope *model.Scope, images *Node, plan []*Node) *Node {
	if m.Recipe.Aspect == AspectKeep {
		return m.Recipe.Model.NaFlexLogits(scope, ofStrips(images, plan))
	}
	if m.Recipe.Architecture == "" {
		trace := m.Recipe.Model.Trace(scope, images, false)
		m.encoder = trace.Encoder
		return trace.Logits
	}
	n, err := networkOf(m.Recipe.Architecture, m.Recipe.Model)
	if err != nil {
		panic(err)
	}
	return n.Logits(scope, images)
}

// evalAugment resizes images of any size to the model's.
func (m *Model) evalAugment() data.Augment {
	a := m.Recipe.Augment.Eval()
	if a.Size = [2]int{m.Recipe.Model.ImageRows, m.Recipe.Model.ImageCols}; m.Recipe.Aspect == AspectKeep {
		a.Size = [2]int{} // strips are not resized
	}
	return a
}

// load loads the variables of a checkpoint of the same model, without the omitted ones.
func (m *Model) load(checkpoint *checkpoints.Checkpoint, omit func(variable string) bool) error {
	if err := checkpoint.Load(m.store, omit); err != nil {
		return err
	}
	m.expectNoMore(checkpoint.Path, func(string) bool { return false })
	return nil
}

// expectNoMore makes check, at its first call, refuse network variables that are created from now on, except those that
// may be new: weights of another version of this library could lack some, which would be drawn without notice.
func (m *Model) expectNoMore(path string, mayBeNew func(path string) bool) {
	loaded := map[string]bool{}
	for _, v := range m.variables() {
		loaded[v.Path()] = true
	}
	m.check = sync.OnceValue(func() error {
		mismatch := &checkpoints.MismatchError{Path: path}
		for _, v := range m.variables() {
			if !loaded[v.Path()] && !mayBeNew(below(v.Path())) {
				mismatch.Missing = append(mismatch.Missing, v.Path()+" "+v.Shape().String())
			}
		}
		if len(mismatch.Missing) == 0 {
			return nil
		}
		return mismatch
	})
}

// zeroHead creates a head that starts at zero, before the first program is compiled.
func (m *Model) zeroHead() error {
	c := m.Recipe.Model
	for name, value := range map[string]*tensors.Tensor{
		"weights": tensors.FromShape(shapes.Make(dtypes.Float32, c.PooledWidth(), c.Classes)),
		"biases":  tensors.FromShape(shapes.Make(dtypes.Float32, c.Classes)),
	} {
		if _, err := m.store.CreateVariable("/"+modelScope+"/"+headPath+name, value); err != nil {
			return err
		}
	}
	return nil
}

// variables returns the variables of the network, without the optimizer's and averages, by path.
func (m *Model) variables() []*model.Variable {
	return weight.Variables(m.store, func(v *model.Variable) bool { return inNetwork(v.Path()) })
}

// Finalize frees the model's weights and programs on the backend at once, without waiting for garbage collection. The
// model cannot be used afterwards.
func (m *Model) Finalize() {
	m.eval.Finalize()
	if m.features != nil {
		m.features.Finalize()
	}
	if m.onnx != nil {
		m.onnx.Finalize()
	}
	m.store.Finalize()
}

// swapAverages exchanges the weights with their moving averages, if there are any; a second call undoes it.
func (m *Model) swapAverages() error {
	if err := engine.SwapAverages(m.store); !errors.Is(err, engine.ErrNoAverages) {
		return err
	}
	return nil
}

// settle gives the model the weights that its training ends with: the averages, if there are any, and matrices with
// their adapters added, which are zero then.
func (m *Model) settle() error {
	if err := m.swapAverages(); err != nil {
		return err
	}
	// In checkpoints of versions before adapters had averages, the average of a matrix is already the sum.
	return weight.Merge(m.store, func(w string) bool { return m.store.GetVariable(engine.AverageRoot+w) == nil })
}

// DHVT is the Recipe.Architecture of package vit/dhvt: vit.Config contains its sizes, see [dhvt.FromViT]. Its Position
// is "none", as in the original, or "wepe". It trains from scratch only, in float32, and cannot be folded or exported.
// Batch normalization uses the statistics of each micro-batch.
const DHVT = "dhvt"

// ONNX is the Recipe.Architecture of an opened ONNX file, see [Open]. It cannot be trained.
const ONNX = "onnx"

// network is the network of a recipe: a vit.Config or a dhvt.Config.
type network interface {
	Logits(scope *model.Scope, images *Node) *Node
}

// networkOf returns the network of an architecture and its sizes.
func networkOf(architecture string, sizes vit.Config) (network, error) {
	switch architecture {
	case "":
		return sizes.Resolve()
	case DHVT:
		return dhvt.FromViT(sizes)
	}
	return nil, fmt.Errorf("finetune: unknown architecture %q: want %q, or none for the ViT", architecture, DHVT)
}

// ModelFn returns the network as a model function of GoMLX's train.NewTrainer: the logits [batch, classes] of the
// batches of a [data.Loader], whose augmentation becomes part of the graph. It has to make images of the model's size,
// and labels count by number: those of a dataset with its own order of classes are in [Model.Labelled].
//
//	m, err := finetune.Open(backend, "vit-tiny-augreg")
//	labelled, _, err := m.Labelled(images.Describe())
//	images.Info = *labelled
//	augment := m.Recipe.Augment // with the normalization
//	augment.Size = [2]int{m.Recipe.Model.ImageRows, m.Recipe.Model.ImageCols}
//	batches := data.Batches(images, 32, augment, seed)
//	trainer := train.NewTrainer(backend, m.Store(), m.ModelFn(), loss.SparseCategoricalCrossEntropyLogits,
//		&engine.Optimizer{LayerDecay: 0.75, Schedule: engine.Schedule{Peak: 1e-3}}, nil, nil)
//
// Its programs and those of Evaluate and Predict share the variables of Store.
func (m *Model) ModelFn() train.ModelFn {
	return func(scope *model.Scope, spec any, inputs []*Node) []*Node {
		return []*Node{m.logits(scope.In(modelScope), data.BatchImages(spec, inputs), inputs[1:])}
	}
}

// Store returns the store with the variables of the model, below scope "vit", and the hyperparameters of its encoding.
func (m *Model) Store() *model.Store { return m.store }

// Paths in the store of a model. They are a file format.
const (
	modelScope   = weight.ModelScope
	headPath     = vit.ScopeHead + "/"     // below the model's scope
	positionPath = vit.ScopePosition + "/" // likewise
	tablePath    = vit.PathTable           // the learned table of positions
)

// inNetwork reports whether a variable belongs to the network.
func inNetwork(variable string) bool { return strings.HasPrefix(variable, "/"+modelScope+"/") }

// below returns the path of a network variable below the network's scope.
func below(variable string) string { return strings.TrimPrefix(variable, "/"+modelScope+"/") }

// Reinitialized returns a newly initialized model with the recipe changed as by Recipe.Set, and the same seed.
func (m *Model) Reinitialized(settings string) (*Model, error) {
	r, err := m.Recipe.Set(settings)
	if err != nil {
		return nil, err
	}
	return newModel(m.backend, r, m.Classes, m.Seed)
}

// Activations runs the model on a dataset, the given number of images at a time, and returns intermediate values: see
// is called with the index of the first image and the values, flat float32 [images, …], of the nodes that choose
// selects from the trace, followed by the logits [images, classes]. Fused attention is disabled: slower and, in 16-bit
// types, rounded differently.
func (m *Model) Activations(set data.Dataset, images int, choose func(*vit.Trace) []*Node,
	see func(first int, values [][]float32) error) error {
	if err := cmp.Or(m.Recipe.plainViT("shows what happens inside"), m.Recipe.oneSize("inspection")); err != nil {
		return err
	}
	program, err := m.traced(true, func(trace *vit.Trace) []*Node {
		outputs := choose(trace)
		for i, node := range outputs {
			outputs[i] = ConvertDType(node, dtypes.Float32)
		}
		return append(outputs, trace.Logits)
	})
	if err != nil {
		return err
	}
	defer program.Finalize()
	p := m.upload(set)
	defer p.finalize()
	return m.batches(p, program, images, see)
}
