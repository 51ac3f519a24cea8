// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/metric"
	"github.com/gomlx/gomlx/ml/train/optimizer"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/weight"
)

// The update rule, in one graph: with the scalars of a step as inputs in a Trainer of this package, computed from a
// counter in one of GoMLX.

var (
	_ optimizer.Interface         = (*Optimizer)(nil)
	_ train.OptimizeWithGradients = (*Optimizer)(nil)
)

// rates are the scalars of a step, float32.
type rates struct {
	rate          *Node // learning rate
	first, second *Node // bias corrections of the moments, 1/(1-β^t)
	average       *Node // decay of the averages
}

// scalars are the values of rates in step t, from 0, as a Trainer passes them. They are computed on the host in
// float64, so that the graph has no counters and every step runs the same program.
func (o *Optimizer) scalars(t int) []float32 {
	average := 0.0 // the averages start at the weights after the first step
	if t > 0 {
		// The decay grows to its value, so that a young average does not depend on its start.
		average = min(o.EMADecay, float64(1+t)/float64(10+t))
	}
	return []float32{
		float32(o.Schedule.At(t)),
		float32(1 / (1 - math.Pow(o.Beta1, float64(t+1)))),
		float32(1 / (1 - math.Pow(o.Beta2, float64(t+1)))),
		float32(average),
	}
}

// ratesOf reads the input that scalars returned.
func ratesOf(scalars *Node) rates {
	number := func(i int64) *Node { return Reshape(Gather(scalars, Const(scalars.Graph(), []int64{i}))) } // scalar
	return rates{number(0), number(1), number(2), number(3)}
}

// counted is scalars in a graph, of a float64 step from 0; since is the step counted from the first of the moments.
func (o *Optimizer) counted(step, since *Node) rates {
	single := func(x *Node) *Node { return ConvertDType(x, dtypes.Float32) }
	correction := func(beta float64) *Node {
		return single(Inverse(OneMinus(Exp(MulScalar(OnePlus(since), math.Log(beta))))))
	}
	average := MinScalar(Div(OnePlus(step), AddScalar(step, 10)), o.EMADecay)
	average = Where(GreaterThan(step, ZerosLike(step)), average, ZerosLike(step))
	return rates{single(o.Schedule.node(step)), correction(o.Beta1), correction(o.Beta2), single(average)}
}

// UpdateGraph implements optimizer.Interface of GoMLX.
func (o *Optimizer) UpdateGraph(scope *model.Scope, g *Graph, loss *Node) {
	if !loss.Shape().IsScalar() {
		exceptions.Panicf("training: the loss is %s, want a scalar", loss.Shape())
	}
	o.UpdateGraphWithGradients(scope, scope.BuildTrainableVariablesGradientsGraph(loss), loss.DType())
}

// UpdateGraphWithGradients implements train.OptimizeWithGradients of GoMLX: gradients are those of the trainable
// variables that the graph uses, in the order of the scope. One of integers is the state of the random generator, which
// GoMLX's checkpoints bring back as trainable: it is not trained.
func (o *Optimizer) UpdateGraphWithGradients(scope *model.Scope, gradients []*Node, _ dtypes.DType) {
	full, err := o.Resolve()
	if err != nil {
		panic(err)
	}
	if len(gradients) == 0 {
		exceptions.Panicf("training: no variable is left to train")
	}
	if !(full.Schedule.Peak > 0) {
		exceptions.Panicf("training: Schedule.Peak is %g, want the highest learning rate, above 0", full.Schedule.Peak)
	}
	g, depth := gradients[0].Graph(), 0
	of := map[*model.Variable]*Node{}
	for v := range scope.IterVariables() {
		if !v.InUseByGraph(g) {
			continue
		}
		depth = max(depth, blockOf(v.Path())+1) // also of frozen blocks
		if v.Trainable {
			if of[v], gradients = gradients[0], gradients[1:]; !v.DType().IsFloat() {
				delete(of, v)
			}
		}
	}
	vars := weight.Variables(scope.Store(), func(v *model.Variable) bool { return of[v] != nil })
	sorted := make([]*Node, len(vars))
	for i, v := range vars {
		if sorted[i] = of[v]; v.DType() != dtypes.Float32 {
			exceptions.Panicf("training: %s is %s, but only float32 can be trained", v.Path(), v.DType())
		}
	}
	step := AddScalar(optimizer.IncrementGlobalStep(g, dtypes.Float64), -1)
	since := step
	if cleared := scope.Store().GetVariable(clearedPath); cleared != nil {
		since = Sub(step, ConvertDType(cleared.SetTrainable(false).NodeValue(g), dtypes.Float64))
	}
	factor := func(path string) float64 { return full.Factor(path, depth) }
	full.apply(scope, vars, sorted, full.counted(step, since), factor)
}

// Clear implements optimizer.Interface of GoMLX: it deletes the moments, not the averages. New moments count their
// steps for the bias corrections from the present one; the schedule goes on.
func (o *Optimizer) Clear(scope *model.Scope) error {
	for _, root := range []string{firstRoot, secondRoot, momentumRoot} {
		if err := scope.Store().Scope(root).DeleteVariablesInScope(); err != nil {
			return err
		}
	}
	step := optimizer.GetGlobalStep(scope)
	return scope.Store().VariableWithValue(clearedPath, step).SetTrainable(false).SetValue(tensors.FromValue(step))
}

// companion returns the float32 variable for v under another root: its moment or its average.
func companion(scope *model.Scope, root string, v *model.Variable) *model.Variable {
	return scope.Store().Scope(model.JoinPath(root, v.Scope())).WithInitializer(initializer.Zero).
		VariableWithShape(v.Name(), v.Shape()).SetTrainable(false)
}

// globalNorm is the Euclidean norm of all gradients together. Vectors and scalars are concatenated: on a GPU a separate
// sum for each would be a separate launch.
func globalNorm(grads []*Node) *Node {
	var small, squares []*Node
	for _, grad := range grads {
		grad = ConvertDType(grad, dtypes.Float32)
		if grad.Rank() < 2 {
			small = append(small, Reshape(grad, -1))
		} else {
			squares = append(squares, ReduceAllSum(Square(grad)))
		}
	}
	if len(small) > 0 {
		squares = append(squares, ReduceAllSum(Square(Concatenate(small, 0))))
	}
	return Sqrt(ReduceAllSum(Stack(squares, 0)))
}

// apply builds one optimizer step on vars and the averages after it, and returns the global gradient norm before
// clipping; factor returns the factor of a variable's learning rate, by its path.
func (o *Optimizer) apply(scope *model.Scope, vars []*model.Variable, grads []*Node, r rates,
	factor func(variable string) float64) (norm *Node) {
	g := r.rate.Graph()
	norm = globalNorm(grads)
	if o.ClipNorm > 0 {
		scale := MinScalar(Div(Scalar(g, dtypes.Float32, o.ClipNorm), AddScalar(norm, 1e-6)), 1)
		for i := range grads {
			grads[i] = Mul(grads[i], scale)
		}
	}
	for i, v := range vars {
		w, step := v.NodeValue(g), o.direction(scope, v, grads[i], r)
		lr := r.rate
		if _, decays := groupOf(v.Path()); (decays || o.DecayAll) && o.WeightDecay > 0 {
			step = Add(step, MulScalar(w, o.WeightDecay))
			if o.Name == kindLAMB {
				lr = Mul(r.rate, trust(w, step))
			}
		}
		if f := factor(v.Path()); f != 1 {
			lr = MulScalar(lr, f)
		}
		v.SetNodeValue(Sub(w, Mul(step, lr)))
	}
	if o.EMADecay > 0 {
		averages(scope, g, r.average)
	}
	return norm
}

// Roots of the optimizer's state. They are a file format.
const (
	firstRoot    = "/adamw/first"
	secondRoot   = "/adamw/second"
	momentumRoot = "/sgd/momentum"
	clearedPath  = "/adamw/cleared" // the global step at the last Clear, int64, absent before the first
)

// direction updates the moments of a variable and returns its step for learning rate 1, without weight decay.
func (o *Optimizer) direction(scope *model.Scope, v *model.Variable, grad *Node, r rates) *Node {
	g := grad.Graph()
	if o.Name == kindSGD {
		momentum := companion(scope, momentumRoot, v)
		step := Add(MulScalar(momentum.NodeValue(g), o.Momentum), grad)
		momentum.SetNodeValue(step)
		return step
	}
	first, second := companion(scope, firstRoot, v), companion(scope, secondRoot, v)
	m := Add(MulScalar(first.NodeValue(g), o.Beta1), MulScalar(grad, 1-o.Beta1))
	s := Add(MulScalar(second.NodeValue(g), o.Beta2), MulScalar(Square(grad), 1-o.Beta2))
	first.SetNodeValue(m)
	second.SetNodeValue(s)
	return Div(Mul(m, r.first), AddScalar(Sqrt(Mul(s, r.second)), o.Epsilon))
}

// trust is ‖w‖/‖step‖, 1 if one of them is 0.
func trust(w, step *Node) *Node {
	norm := func(x *Node) *Node { return Sqrt(ReduceAllSum(Square(x))) }
	a, b := norm(w), norm(step)
	one := OnesLike(a)
	known := GreaterThan(Mul(a, b), ZerosLike(a))
	return Where(known, Div(a, Where(known, b, one)), one)
}

// averages updates the moving averages of what the graph changed of the model: its trained variables, adapters, and the
// running statistics of batch normalizations. GoMLX has none during training; it can average whole checkpoints.
func averages(scope *model.Scope, g *Graph, decay *Node) {
	var changed []*model.Variable
	for v := range scope.Store().IterVariables() {
		if v.ChangedInGraph(g) && v.DType() == dtypes.Float32 && !isState(v.Path()) {
			changed = append(changed, v)
		}
	}
	for _, v := range changed {
		average := companion(scope, AverageRoot, v)
		average.SetNodeValue(Add(Mul(average.NodeValue(g), decay), Mul(v.NodeValue(g), OneMinus(decay))))
	}
}

// isState reports whether a variable is of the training, not of the model.
func isState(variable string) bool {
	roots := []string{firstRoot, secondRoot, momentumRoot, AverageRoot, accumulatorRoot,
		"/" + train.AccumulatedGradientsScope, "/" + optimizer.Scope, "/" + metric.Scope, train.TrainerAbsoluteScope}
	return strings.Count(variable, "/") < 2 || // the random generator and the global step
		slices.ContainsFunc(roots, func(root string) bool { return strings.HasPrefix(variable, root+"/") })
}

// ErrNoAverages means that a store has no averages of its weights.
var ErrNoAverages = errors.New("training: the store has no averages of the weights: train with an EMADecay, and run " +
	"the model before reading those of GoMLX's checkpoint, which reads variables as they are used")

// SwapAverages exchanges the weights with their moving averages; a second call undoes it. Without averages it returns
// ErrNoAverages.
func SwapAverages(store *model.Store) error {
	found := false
	for v := range store.IterVariables() {
		average := store.GetVariable(AverageRoot + v.Path())
		if average == nil {
			continue
		}
		found = true
		weights, err := v.Value()
		mean, meanErr := average.Value()
		if err = cmp.Or(err, meanErr); err == nil {
			err = cmp.Or(v.SetValuePreservingOld(mean), average.SetValuePreservingOld(weights))
		}
		if err != nil {
			return err
		}
	}
	if !found {
		return ErrNoAverages
	}
	return nil
}
