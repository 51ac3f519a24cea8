// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/optimizer"
	"github.com/gomlx/gomlx/support/exceptions"
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

// counted is scalars in a graph, of a float64 step from 0.
func (o *Optimizer) counted(step *Node) rates {
	single := func(x *Node) *Node { return ConvertDType(x, dtypes.Float32) }
	correction := func(beta float64) *Node {
		return single(Inverse(OneMinus(Exp(MulScalar(OnePlus(step), math.Log(beta))))))
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
// variables that the graph uses, in the order of the scope.
func (o *Optimizer) UpdateGraphWithGradients(scope *model.Scope, gradients []*Node, _ dtypes.DType) {
	full, err := o.Resolve()
	if err != nil {
		panic(err)
	}
	if len(gradients) == 0 {
		exceptions.Panicf("training: no variable is left to train")
	}
	g, depth := gradients[0].Graph(), 0
	type trained struct {
		*model.Variable
		gradient *Node
	}
	var all []trained
	for v := range scope.IterVariables() {
		if v.Trainable && v.InUseByGraph(g) {
			all = append(all, trained{v, gradients[len(all)]})
			depth = max(depth, blockOf(v.Path())+1)
		}
	}
	slices.SortFunc(all, func(a, b trained) int { return cmp.Compare(a.Path(), b.Path()) })
	var vars []*model.Variable
	for i, v := range all {
		vars, gradients[i] = append(vars, v.Variable), v.gradient
	}
	step := AddScalar(optimizer.IncrementGlobalStep(g, dtypes.Float64), -1)
	full.apply(scope, vars, gradients, full.counted(step), func(path string) float64 { return full.Factor(path, depth) })
}

// Clear implements optimizer.Interface of GoMLX: it deletes the moments, not the averages.
func (o *Optimizer) Clear(scope *model.Scope) error {
	for _, root := range []string{firstRoot, secondRoot, momentumRoot} {
		if err := scope.Store().Scope(root).DeleteVariablesInScope(); err != nil {
			return err
		}
	}
	return nil
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
	for _, root := range []string{firstRoot, secondRoot, momentumRoot, AverageRoot, accumulatorRoot,
		"/" + train.AccumulatedGradientsScope, "/" + optimizer.Scope, train.TrainerAbsoluteScope} {
		if strings.HasPrefix(variable, root+"/") {
			return true
		}
	}
	return strings.Count(variable, "/") < 2 // the random generator and the global step
}

// SwapAverages exchanges the weights with their moving averages; a second call undoes it. Without averages it does
// nothing.
func SwapAverages(store *model.Store) error {
	for v := range store.IterVariables() {
		average := store.GetVariable(AverageRoot + v.Path())
		if average == nil {
			continue
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
