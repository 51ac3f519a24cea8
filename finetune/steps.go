// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/inplace"
	"github.com/wepe-go/wepe/internal/kernel"
	"github.com/wepe-go/wepe/internal/weight"
)

// The programs of a run. Each is compiled once: everything that changes from step to step (rows of the dataset,
// windows, learning rate) is an input. GoMLX's train.Trainer is not used: it adds metric variables under random names,
// which would be saved in checkpoints, and splits its batches into inputs and labels, whereas one plan contains both
// here.

// program compiles a program for all devices.
func (t *Trainer) program(build func(scope *model.Scope, inputs []*Node) []*Node) (*model.Exec, error) {
	program, err := model.NewExec(t.Backend, t.Store, func(scope *model.Scope, inputs []*Node) []*Node {
		outputs := build(scope, inputs)
		inplace.Update(t.Store, inputs[0].Graph())
		return outputs
	})
	if err == nil {
		t.devices.spread(program)
	}
	return program, err
}

// stepProgram compiles one micro-batch of an optimizer step: with apply false it adds the gradients to the
// accumulators, with apply true it also updates the weights. Inputs: those of Task.Losses, scalars. Outputs: the losses
// [n], and with apply the gradient norm before clipping.
func (t *Trainer) stepProgram(apply bool) (*model.Exec, error) {
	return t.program(func(scope *model.Scope, inputs []*Node) []*Node {
		g, last := inputs[0].Graph(), len(inputs)-1
		scope.Store().SetTraining(g, true)
		losses := t.Task.Losses(scope, inputs[:last])
		total := losses[0]
		for _, l := range losses[1:] {
			total = Add(total, l)
		}
		vars := t.trainable(scope, g)
		if len(vars) == 0 {
			exceptions.Panicf("finetune: no variable is left to train: freeze fewer groups")
		}
		weights := make([]*Node, len(vars))
		for i, v := range vars {
			weights[i] = v.NodeValue(g)
		}
		grads := Gradient(total, weights...)
		if t.Accumulate > 1 {
			t.accumulate(scope, vars, grads, apply)
		}
		outputs := []*Node{Stack(losses, 0)} // [n]
		if apply {
			outputs = append(outputs, t.optimize(scope, vars, grads, inputs[last]))
		}
		return outputs
	})
}

// accumulate adds gradients to their sums over the micro-batches, and returns these sums. The last micro-batch clears
// the sums for the next step.
func (t *Trainer) accumulate(scope *model.Scope, vars []*model.Variable, grads []*Node, last bool) {
	for i, v := range vars {
		sum := companion(scope, accumulatorRoot, v)
		total := Add(sum.NodeValue(grads[i]), MulScalar(grads[i], 1/float64(t.Accumulate)))
		if last {
			sum.SetNodeValue(ZerosLike(total))
		} else {
			sum.SetNodeValue(total)
		}
		grads[i] = total
	}
}

// sumsProgram compiles an optimizer step on the accumulators, which a group has summed. Input: scalars. Output: the
// gradient norm before clipping.
func (t *Trainer) sumsProgram() (*model.Exec, error) {
	return t.program(func(scope *model.Scope, inputs []*Node) []*Node {
		scalars := inputs[0]
		var vars []*model.Variable
		var grads []*Node
		for _, sum := range accumulators(scope.Store()) {
			vars = append(vars, accumulatedOf(scope.Store(), sum))
			grads = append(grads, sum.NodeValue(scalars))
			sum.SetNodeValue(ZerosLike(sum.NodeValue(scalars)))
		}
		return []*Node{t.optimize(scope, vars, grads, scalars)}
	})
}

// accumulatedOf returns the variable that a sum of gradients belongs to.
func accumulatedOf(store *model.Store, sum *model.Variable) *model.Variable {
	return store.GetVariable(strings.TrimPrefix(sum.Path(), accumulatorRoot))
}

// optimize builds the optimizer step and the averages after it, and returns the gradient norm before clipping.
func (t *Trainer) optimize(scope *model.Scope, vars []*model.Variable, grads []*Node, scalars *Node) (norm *Node) {
	g := scalars.Graph()
	norm = t.Optimizer.update(scope, vars, grads, scalars, t.Factor)
	// GoMLX has no moving averages during training; it can average whole checkpoints.
	decay := Reshape(Gather(scalars, Const(g, []int64{scalarEMA}))) // scalar
	averaged, values := t.averaged(scope.Store(), g)
	for i, v := range averaged {
		average := companion(scope, averageRoot, v)
		old := average.NodeValue(g)
		average.SetNodeValue(Add(Mul(old, decay), Mul(values[i], OneMinus(decay))))
	}
	return norm
}

// trainable returns the trained variables that a graph has used so far, by path. The store's order depends on creation
// and changes after a resume, and the last bit of the gradient norm, a sum, depends on the order.
func (t *Trainer) trainable(scope *model.Scope, g *Graph) (vars []*model.Variable) {
	for v := range scope.Store().IterVariables() {
		if v.Trainable && v.InUseByGraph(g) && t.Trains(v.Path()) {
			vars = append(vars, v)
		}
	}
	slices.SortFunc(vars, func(a, b *model.Variable) int { return cmp.Compare(a.Path(), b.Path()) })
	return vars
}

// averaged returns the network's variables that have an average, with their values after the step: with EMA the trained
// variables and the running statistics of batch normalizations; and the matrices that have adapters, with their sum W +
// A·B. Code that evaluates, opens and exports averages thus needs no adapters.
func (t *Trainer) averaged(store *model.Store, g *Graph) (vars []*model.Variable, values []*Node) {
	for v := range store.IterVariables() {
		if !t.inNetwork(v.Path()) {
			continue
		}
		if a, b := weight.Factors(store, v, g); a != nil {
			vars, values = append(vars, v), append(values, Add(v.NodeValue(g), kernel.Product(a, b)))
		} else if t.EMA > 0 && v.ChangedInGraph(g) {
			vars, values = append(vars, v), append(values, v.NodeValue(g))
		}
	}
	return vars, values
}

// inNetwork reports whether a variable belongs to the network.
func (t *Trainer) inNetwork(variable string) bool { return strings.HasPrefix(variable, t.Network+"/") }

// parameters is the number of trainable parameters, once a program has used them.
func (t *Trainer) parameters() (n int) {
	for v := range t.Store.IterVariables() {
		if t.inNetwork(v.Path()) && v.Trainable {
			n += v.Shape().Size()
		}
	}
	return n
}

// Inputs of the training programs after the pixels and the plan.
const (
	scalarRate   = iota // learning rate
	scalarFirst         // bias correction of the first moment
	scalarSecond        // bias correction of the second
	scalarEMA           // decay of the average
	numScalars
)

// scalars are the inputs of step t (from 0) for update, [3]: the learning rate and the two bias corrections. They are
// computed on the host in float64, so that the graph has no counters and every step runs the same program.
func (o Optimizer) scalars(learningRate float64, t int) []float32 {
	return []float32{
		float32(learningRate),
		float32(1 / (1 - math.Pow(o.Beta1, float64(t+1)))),
		float32(1 / (1 - math.Pow(o.Beta2, float64(t+1)))),
	}
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

// update builds one optimizer step on vars and returns the global gradient norm before clipping. Inputs are the scalars
// of the step; factor returns the factor of a variable's learning rate, by its path.
func (o Optimizer) update(scope *model.Scope, vars []*model.Variable, grads []*Node, scalars *Node,
	factor func(variable string) float64) (norm *Node) {
	g := scalars.Graph()
	number := func(i int64) *Node { return Reshape(Gather(scalars, Const(g, []int64{i}))) } // scalar
	rate, fix1, fix2 := number(scalarRate), number(scalarFirst), number(scalarSecond)

	norm = globalNorm(grads)
	if o.ClipNorm > 0 {
		scale := MinScalar(Div(Scalar(g, dtypes.Float32, o.ClipNorm), AddScalar(norm, 1e-6)), 1)
		for i := range grads {
			grads[i] = Mul(grads[i], scale)
		}
	}
	for i, v := range vars {
		w := v.NodeValue(g)
		var step *Node
		if o.Kind == kindSGD {
			momentum := companion(scope, "/sgd/momentum", v)
			step = Add(MulScalar(momentum.NodeValue(g), o.Momentum), grads[i])
			momentum.SetNodeValue(step)
		} else {
			first, second := companion(scope, "/adamw/first", v), companion(scope, "/adamw/second", v)
			m := Add(MulScalar(first.NodeValue(g), o.Beta1), MulScalar(grads[i], 1-o.Beta1))
			s := Add(MulScalar(second.NodeValue(g), o.Beta2), MulScalar(Square(grads[i]), 1-o.Beta2))
			step = Div(Mul(m, fix1), AddScalar(Sqrt(Mul(s, fix2)), o.Epsilon))
			first.SetNodeValue(m)
			second.SetNodeValue(s)
		}
		lr := rate
		if _, decays := groupOf(v.Path()); (decays || o.DecayAll) && o.WeightDecay > 0 {
			step = Add(step, MulScalar(w, o.WeightDecay))
			if o.Kind == kindLAMB {
				lr = Mul(rate, trust(w, step))
			}
		}
		if f := factor(v.Path()); f != 1 {
			lr = MulScalar(lr, f)
		}
		v.SetNodeValue(Sub(w, Mul(step, lr)))
	}
	return norm
}

// trust is ‖w‖/‖step‖, 1 if one of them is 0.
func trust(w, step *Node) *Node {
	norm := func(x *Node) *Node { return Sqrt(ReduceAllSum(Square(x))) }
	a, b := norm(w), norm(step)
	one := OnesLike(a)
	known := GreaterThan(Mul(a, b), ZerosLike(a))
	return Where(known, Div(a, Where(known, b, one)), one)
}
