// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train/optimizer"

	"github.com/wepe-go/wepe/internal/figure"
	"github.com/wepe-go/wepe/internal/numeric"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

// probeBytes bounds the memory of the probe's patches.
const probeBytes = 64 << 20

func probe(s *subject, field report.Field) error {
	if err := s.attends(); err != nil {
		return err
	}
	c := s.model.Recipe.Model
	if c.Encoding()[0].Kind != position.Additive || len(field.Vectors) != s.grid.patches()*c.Width {
		return notApplicable("the vectors of the encoding are not added to the tokens")
	}
	images := s.probedImages()
	if images < 2 {
		return notApplicable("the probe needs two images: one for training, one for testing")
	}
	held := max(1, images/4)
	order := testFirst(s.even(images), held)
	p := pairing{rings: s.grid.rings(), width: c.Width, vectors: field.Vectors, seed: s.Comparison.Seed}
	err := s.model.Activations(s.Images.Subset(order), s.batch(images),
		func(t *vit.Trace) []*Node { return []*Node{t.Patches} },
		func(_ int, values [][]float32) error {
			p.content = append(p.content, values[0]...)
			return nil
		})
	if err != nil {
		return err
	}
	for with, name := range []string{"content only", "content + position"} {
		train := p.draw(s.Pairs, held, images-held, float64(with))
		test := p.draw(max(1, s.Pairs/4), 0, held, float64(with))
		if with == 0 && s.first { // independent of the column's seed
			s.measured("MSE, patches²", "mean offset", chanceErrors(train.targets, test.targets).MSE)
		}
		e, err := releasedProbe(s.Comparison.Seed).errors(s.Backend, train, test)
		if err != nil {
			return err
		}
		s.measured("MSE, patches²", name, e.MSE)
		s.measured("MAE, patches", name, e.MAE)
		s.measured("RMSE, patches", name, e.RMSE)
		if with == 1 {
			share := make([]float64, len(e.Lengths))
			for i := range share {
				share[i] = float64(i+1) / float64(len(share))
			}
			s.line("cumulative distribution of the probe's errors", "error (patches)", "fraction of the test pairs",
				figure.Line{X: e.Lengths, Y: share})
		}
	}
	return nil
}

// testFirst returns rows with n of them, spread evenly, before the others: of a sorted dataset both have all classes.
func testFirst(rows []int, n int) (order []int) {
	for _, k := range numeric.Spread(n, len(rows)) {
		order = append(order, rows[k])
	}
	return append(order, slices.DeleteFunc(rows, func(row int) bool { return slices.Contains(order, row) })...)
}

// probedImages is the number of images whose patches the probe uses.
func (s *subject) probedImages() int {
	return min(s.Images.Len(), 256, max(2, probeBytes/(4*s.grid.patches()*s.model.Recipe.Model.Width)))
}

// examples are inputs [n][width] and targets [n], columns before rows.
type examples struct {
	inputs  [][]float32
	targets [][2]float64
}

// pairing makes examples from pairs of patches.
type pairing struct {
	rings
	width   int
	content []float32 // [images, patches, width]
	vectors []float64 // [patches, width]
	seed    uint64
}

// draw makes n examples from images first, first+1, …, with the vectors of their positions multiplied by with.
func (p pairing) draw(n, first, images int, with float64) (e examples) {
	for _, pair := range p.drawPairs(n, images, p.seed+uint64(first)) {
		x := make([]float32, 0, 2*p.width)
		for _, patch := range []int{pair.From, pair.To} {
			at := ((first+pair.Image)*p.patches() + patch) * p.width
			for k, v := range p.content[at : at+p.width] {
				x = append(x, v+float32(with*p.vectors[patch*p.width+k]))
			}
		}
		e.inputs, e.targets = append(e.inputs, x), append(e.targets, p.offset(pair))
	}
	return e
}

// pair is two patches of an image.
type pair struct{ Image, From, To int }

// offset is the target of the probe: columns and rows from From to To.
func (g grid) offset(p pair) [2]float64 {
	return [2]float64{float64(p.To%g.Cols - p.From%g.Cols), float64(p.To/g.Cols - p.From/g.Cols)}
}

// drawPairs draws pairs of different patches of the given number of images, uniform in distance. The release draws both
// patches uniformly, which makes short and very long distances rare.
func (r rings) drawPairs(n, images int, seed uint64) []pair {
	patches := r.patches()
	byRing := make([][]int32, len(r.Distances))
	for at, ring := range r.of {
		byRing[ring] = append(byRing[ring], int32(at))
	}
	draw := rand.New(rand.NewPCG(seed, 1))
	pairs := make([]pair, n)
	for i := range pairs {
		ring := byRing[1+draw.IntN(len(byRing)-1)]
		at := int(ring[draw.IntN(len(ring))])
		pairs[i] = pair{draw.IntN(images), at / patches, at % patches}
	}
	return pairs
}

// distanceProbe learns the offset of two patches from their two vectors (relative_position_awareness_experiment.py of
// the release): an MLP with LayerNorm and ReLU after each hidden layer, Adam with the decay added to the gradient, a
// half cosine of the learning rate over the epochs, mean squared error.
type distanceProbe struct {
	Hidden              [2]int
	Epochs, Batch       int
	LearningRate, Decay float64
	Seed                int64 // of weights and order

	store              *model.Store
	train, predictions *model.Exec
}

// releasedProbe has the settings of the release.
func releasedProbe(seed uint64) *distanceProbe {
	return &distanceProbe{Hidden: [2]int{128, 64}, Epochs: 30, Batch: 256, LearningRate: 1e-3, Decay: 1e-4,
		Seed: int64(seed)}
}

func (p *distanceProbe) begin(backend compute.Backend) (err error) {
	p.store = model.NewStore()
	p.store.SetParam("/"+model.ParamInitialSeed, p.Seed)
	if p.train, err = model.NewExec(backend, p.store, p.trainGraph); err != nil {
		return err
	}
	p.predictions, err = model.NewExec(backend, p.store, p.build)
	return err
}

func (p *distanceProbe) finalize() {
	p.train.Finalize()
	p.predictions.Finalize()
	p.store.Finalize()
}

// errors trains the probe and returns its errors on other examples.
func (p *distanceProbe) errors(backend compute.Backend, train, test examples) (probeErrors, error) {
	if err := p.begin(backend); err != nil {
		return probeErrors{}, err
	}
	defer p.finalize()
	whole := min(p.Batch, len(train.inputs)) // one program for all batches
	for epoch := range p.Epochs {
		order := rand.New(rand.NewPCG(uint64(p.Seed), uint64(epoch))).Perm(len(train.inputs))
		for batch := range slices.Chunk(order, p.Batch) {
			if len(batch) < whole {
				break
			}
			var x, y [][]float32
			for _, i := range batch {
				x = append(x, train.inputs[i])
				y = append(y, []float32{float32(train.targets[i][0]), float32(train.targets[i][1])})
			}
			if _, err := p.step(epoch, x, y); err != nil {
				return probeErrors{}, err
			}
		}
	}
	predicted, err := p.predict(test.inputs)
	if err != nil {
		return probeErrors{}, err
	}
	var e probeErrors
	for i, want := range test.targets {
		e.add(float64(predicted[i][0])-want[0], float64(predicted[i][1])-want[1])
	}
	return e.finished(), nil
}

// probeErrors are in patches. As in the release MSE and MAE sum the two coordinates, and RMSE is the root of MSE.
type probeErrors struct {
	MSE, MAE, RMSE float64
	Lengths        []float64 // of each error, ascending: the cumulative error curve
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

// chanceErrors are the errors of always predicting the mean training target.
func chanceErrors(targets, test [][2]float64) probeErrors {
	var mean [2]float64
	for _, t := range targets {
		for c := range mean {
			mean[c] += t[c] / float64(len(targets))
		}
	}
	var e probeErrors
	for _, want := range test {
		e.add(mean[0]-want[0], mean[1]-want[1])
	}
	return e.finished()
}

// build is the MLP on x [batch, width]: [batch, 2], columns before rows.
func (p *distanceProbe) build(scope *model.Scope, x *Node) *Node {
	const epsilon = 1e-5 // torch's
	drawn := func(r *rand.Rand, in, out int) float64 { return weight.Uniform(1/math.Sqrt(float64(in)))(r, in, out) }
	for i, width := range p.Hidden {
		x = weight.Dense(scope.In("hidden_%d", i), x, width, drawn, weight.Constant(0))
		x = activation.Relu(weight.LayerNorm(scope.In("norm_%d", i), x, epsilon))
	}
	return weight.Dense(scope.In("output"), x, 2, drawn, weight.Constant(0))
}

// trainGraph is one step of Adam, with the decay in the gradient. Inputs: x [batch, width], y [batch, 2], and the
// learning rate. Output: the mean over both coordinates of the squared error.
func (p *distanceProbe) trainGraph(scope *model.Scope, inputs []*Node) *Node {
	const epsilon = 1e-8 // torch's
	loss := ReduceAllMean(Square(Sub(p.build(scope, inputs[0]), inputs[1])))
	decayed := loss
	for v := range p.store.IterVariables() { // Adam has not created any yet
		decayed = Add(decayed, MulScalar(ReduceAllSum(Square(v.NodeValue(loss.Graph()))), p.Decay/2))
	}
	optimizer.LearningRateVar(scope, loss.DType(), p.LearningRate).SetNodeValue(inputs[2])
	optimizer.Adam().Epsilon(epsilon).Done().UpdateGraph(scope, loss.Graph(), decayed)
	return loss
}

// step trains on one batch and returns its loss before the step.
func (p *distanceProbe) step(epoch int, x, y [][]float32) (float64, error) {
	rate := p.LearningRate * (1 + math.Cos(math.Pi*float64(epoch)/float64(p.Epochs))) / 2
	outputs, err := p.train.Call(x, y, float32(rate))
	if err != nil {
		return 0, err
	}
	loss := tensors.ToScalar[float32](outputs[0])
	return float64(loss), outputs[0].FinalizeAll()
}

// predict returns the predicted offsets [n][2] for inputs [n][width].
func (p *distanceProbe) predict(inputs [][]float32) ([][]float32, error) {
	outputs, err := p.predictions.Call(inputs)
	if err != nil {
		return nil, err
	}
	predicted := outputs[0].Value().([][]float32)
	return predicted, outputs[0].FinalizeAll()
}
