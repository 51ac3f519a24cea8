// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/weight"
)

// Probe learns how far two patches are apart from their two vectors (relative_position_awareness_experiment.py of the
// release): an MLP with LayerNorm and ReLU after each hidden layer, Adam with the decay added to the gradient, the
// learning rate a half cosine over the epochs, mean square error. Zero fields mean the defaults beside them.
type Probe struct {
	Hidden       [2]int  // 128, 64
	Epochs       int     // 30
	Batch        int     // 256
	LearningRate float64 // 1e-3
	Decay        float64 // 1e-4
	Seed         int64   // of weights and order
}

// Pair is two patches of an image.
type Pair struct{ Image, From, To int }

// Offset is what the probe has to say: by how many columns and rows To is further than From.
func (g Grid) Offset(p Pair) [2]float64 {
	return [2]float64{float64(p.To%g.Cols - p.From%g.Cols), float64(p.To/g.Cols - p.From/g.Cols)}
}

// DrawPairs draws pairs of different patches of so many images, each distance as often as any other. The release draws
// both patches uniformly, which makes short and very long distances rare.
func (r Rings) DrawPairs(n, images int, seed uint64) ([]Pair, error) {
	if len(r.Distances) < 2 || images < 1 {
		return nil, fmt.Errorf("analysis: a grid of %d×%d patches and %d images have no pairs", r.Rows, r.Cols, images)
	}
	patches := r.Patches()
	byRing := make([][]int32, len(r.Distances))
	for pair, ring := range r.of {
		byRing[ring] = append(byRing[ring], int32(pair))
	}
	draw := rand.New(rand.NewPCG(seed, 1))
	pairs := make([]Pair, n)
	for i := range pairs {
		ring := byRing[1+draw.IntN(len(byRing)-1)]
		pair := int(ring[draw.IntN(len(ring))])
		pairs[i] = Pair{draw.IntN(images), pair / patches, pair % patches}
	}
	return pairs, nil
}

// Errors trains the probe on inputs [n][width] and targets [n], and returns by how much it misses those of held, the
// Euclidean length of each error and of its parts.
func (p Probe) Errors(backend compute.Backend, inputs [][]float32, targets [][2]float64, heldInputs [][]float32,
	held [][2]float64) (probeErrors, error) {
	t, err := p.begin(backend)
	if err != nil {
		return probeErrors{}, err
	}
	defer t.finalize()
	order := make([]int, len(inputs))
	for epoch := range t.Epochs {
		for i := range order {
			order[i] = i
		}
		rand.New(rand.NewPCG(uint64(t.Seed), uint64(epoch))).Shuffle(len(order), func(i, j int) {
			order[i], order[j] = order[j], order[i]
		})
		for batch := range slices.Chunk(order, t.Batch) {
			if len(batch) < t.Batch && len(order) >= t.Batch {
				break // one program serves all
			}
			var x, y [][]float32
			for _, i := range batch {
				x, y = append(x, inputs[i]), append(y, []float32{float32(targets[i][0]), float32(targets[i][1])})
			}
			if _, err := t.step(epoch, x, y); err != nil {
				return probeErrors{}, err
			}
		}
	}
	said, err := t.answers(heldInputs)
	if err != nil {
		return probeErrors{}, err
	}
	var e probeErrors
	for i, want := range held {
		e.add(float64(said[i][0])-want[0], float64(said[i][1])-want[1])
	}
	return e.finished(), nil
}

// probeErrors are in patches. As in the release MSE and MAE add the two coordinates, and RMSE is the root of MSE.
type probeErrors struct {
	MSE, MAE, RMSE float64
	Lengths        []float64 // of each error, ascending: the curve of cumulative errors
}

func (e *probeErrors) add(dx, dy float64) {
	e.MSE += dx*dx + dy*dy
	e.MAE += math.Abs(dx) + math.Abs(dy)
	e.Lengths = append(e.Lengths, math.Hypot(dx, dy))
}

func (e *probeErrors) finished() probeErrors {
	n := float64(len(e.Lengths))
	slices.Sort(e.Lengths)
	return probeErrors{MSE: e.MSE / n, MAE: e.MAE / n, RMSE: math.Sqrt(e.MSE / n), Lengths: e.Lengths}
}

// chanceErrors are those of who always answers the mean of the training targets.
func chanceErrors(targets, held [][2]float64) probeErrors {
	var mean [2]float64
	for _, t := range targets {
		for c := range mean {
			mean[c] += t[c] / float64(len(targets))
		}
	}
	var e probeErrors
	for _, want := range held {
		e.add(mean[0]-want[0], mean[1]-want[1])
	}
	return e.finished()
}

// probing is a probe under way.
type probing struct {
	Probe
	store         *model.Store
	train, answer *model.Exec
	steps         int
}

func (p Probe) begin(backend compute.Backend) (*probing, error) {
	p.Hidden = [2]int{cmp.Or(p.Hidden[0], 128), cmp.Or(p.Hidden[1], 64)}
	p.Epochs, p.Batch = cmp.Or(p.Epochs, 30), cmp.Or(p.Batch, 256)
	p.LearningRate, p.Decay = cmp.Or(p.LearningRate, 1e-3), cmp.Or(p.Decay, 1e-4)
	t := &probing{Probe: p, store: model.NewStore()}
	t.store.SetParam("/"+model.ParamInitialSeed, p.Seed)
	var err error
	if t.train, err = model.NewExec(backend, t.store, t.trainGraph); err != nil {
		return nil, err
	}
	t.answer, err = model.NewExec(backend, t.store, func(scope *model.Scope, inputs []*Node) []*Node {
		return []*Node{t.build(scope, inputs[0])}
	})
	return t, err
}

func (t *probing) finalize() {
	t.train.Finalize()
	t.answer.Finalize()
	t.store.Finalize()
}

// build is the MLP on x [batch, width]: [batch, 2], columns before rows.
func (t *probing) build(scope *model.Scope, x *Node) *Node {
	const epsilon = 1e-5 // torch's
	drawn := func(r *rand.Rand, in, out int) float64 { return weight.Uniform(1/math.Sqrt(float64(in)))(r, in, out) }
	for i, width := range t.Hidden {
		x = weight.Dense(scope.In("hidden_%d", i), x, width, drawn, weight.Constant(0))
		x = activation.Relu(weight.LayerNorm(scope.In("norm_%d", i), x, epsilon))
	}
	return weight.Dense(scope.In("output"), x, 2, drawn, weight.Constant(0))
}

// trainGraph is one step of Adam. Inputs: x [batch, width], y [batch, 2], and learning rate and bias corrections [3].
// Output: the mean over both coordinates of the squared error.
func (t *probing) trainGraph(scope *model.Scope, inputs []*Node) []*Node {
	const beta1, beta2, epsilon = 0.9, 0.999, 1e-8
	g := inputs[0].Graph()
	scalar := func(i int64) *Node { return Reshape(Gather(inputs[2], Const(g, []int64{i}))) }
	loss := ReduceAllMean(Square(Sub(t.build(scope, inputs[0]), inputs[1])))
	var variables []*model.Variable
	var weights []*Node
	for v := range t.store.IterVariables() {
		variables, weights = append(variables, v), append(weights, v.NodeValue(g))
	}
	moment := func(name string, v *model.Variable) *model.Variable {
		return weight.Float32(t.store.Scope(model.JoinPath("/adam", name, v.Scope())), v.Name(), weight.Constant(0),
			v.Shape().Dimensions...)
	}
	for i, gradient := range Gradient(loss, weights...) {
		gradient = Add(gradient, MulScalar(weights[i], t.Decay))
		first, second := moment("first", variables[i]), moment("second", variables[i])
		m := Add(MulScalar(first.NodeValue(g), beta1), MulScalar(gradient, 1-beta1))
		s := Add(MulScalar(second.NodeValue(g), beta2), MulScalar(Square(gradient), 1-beta2))
		first.SetNodeValue(m)
		second.SetNodeValue(s)
		step := Div(Mul(m, scalar(1)), AddScalar(Sqrt(Mul(s, scalar(2))), epsilon))
		variables[i].SetNodeValue(Sub(weights[i], Mul(step, scalar(0))))
	}
	return []*Node{loss}
}

// step trains on one batch and returns its loss before.
func (t *probing) step(epoch int, x, y [][]float32) (float64, error) {
	t.steps++
	rate := t.LearningRate * (1 + math.Cos(math.Pi*float64(epoch)/float64(t.Epochs))) / 2
	outputs, err := t.train.Call(x, y, []float32{float32(rate), float32(1 / (1 - math.Pow(0.9, float64(t.steps)))),
		float32(1 / (1 - math.Pow(0.999, float64(t.steps))))})
	if err != nil {
		return 0, err
	}
	loss := tensors.ToScalar[float32](outputs[0])
	return float64(loss), outputs[0].FinalizeAll()
}

// answers are what the probe says of inputs [n][width], [n][2].
func (t *probing) answers(inputs [][]float32) ([][]float32, error) {
	outputs, err := t.answer.Call(inputs)
	if err != nil {
		return nil, err
	}
	said := outputs[0].Value().([][]float32)
	return said, outputs[0].FinalizeAll()
}
