// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// The initial weights, the inputs and the losses are from the released script, with its dropout set to 0.
func TestProbe_LearnsAsTheReleasedScriptDoes(t *testing.T) { fixtures.Each(t, testProbe) }

func testProbe(t *testing.T) {
	var meta struct {
		Probe struct {
			Width, Epochs int
			Hidden, Grid  [2]int
			LR            float64
			Decay         float64 `json:"weight_decay"`
		}
		Tolerance map[string]float64
	}
	fixtures.JSON(t, "official_analysis", "meta.json", &meta)
	c, tolerance := meta.Probe, meta.Tolerance["probe_abs"]
	file := fixtures.Tensors(t, "official_analysis", "tensors.safetensors")
	matrix := func(name string) (rows [][]float32) {
		flat := file["probe."+name]
		for row := range slices.Chunk(flat.Float32(), flat.Shape[1]) {
			rows = append(rows, row)
		}
		return rows
	}
	x, y := matrix("inputs_out"), matrix("targets_out")
	probe := distanceProbe{Hidden: c.Hidden, Epochs: c.Epochs, Batch: len(x), LearningRate: c.LR, Decay: c.Decay}
	gomlxtest.NoError(t, probe.begin(gomlxtest.Backend()))
	defer probe.finalize()
	mapped := func(prefix string, store *model.Store) *model.Store { // the layers of torch's nn.Sequential
		f := gomlxtest.LoadTorch(t, "official_analysis", "tensors.safetensors", "/")
		f.Store = store
		for i := range 2 {
			f.Layer(fmt.Sprintf("hidden_%d", i), fmt.Sprintf("probe.%s.predictor.%d", prefix, 4*i))
			f.Norm(fmt.Sprintf("norm_%d", i), fmt.Sprintf("probe.%s.predictor.%d", prefix, 4*i+1))
		}
		f.Layer("output", fmt.Sprintf("probe.%s.predictor.8", prefix))
		return store
	}
	mapped("param", probe.store)
	predicted := gomlxtest.Must(probe.predict(x))(t)
	gomlxtest.NearAbs(t, "initial predictions", slices.Concat(predicted...), file["probe.initial_predictions_out"].Data,
		tolerance)
	var losses []float64
	for epoch := range c.Epochs {
		losses = append(losses, gomlxtest.Must(probe.step(epoch, x, y))(t))
	}
	gomlxtest.NearAbs(t, "losses", losses, file["probe.losses_out"].Data, tolerance)
	for v := range mapped("trained_out", model.NewStore()).IterVariables() {
		got := gomlxtest.Values(t, probe.store.GetVariable(v.Path()).MustValue())
		gomlxtest.NearAbs(t, v.Path(), got, gomlxtest.Values(t, v.MustValue()), tolerance)
	}
	var e probeErrors
	predicted = gomlxtest.Must(probe.predict(x))(t)
	g := grid{Rows: c.Grid[0], Cols: c.Grid[1]}
	for i, drawn := range slices.Collect(slices.Chunk(file["probe.pairs"].Data, 3)) {
		want := g.offset(pair{int(drawn[0]), int(drawn[1]), int(drawn[2])})
		equal(t, fmt.Sprint("pair ", drawn), want, [2]float64{float64(y[i][0]), float64(y[i][1])})
		e.add(float64(predicted[i][0])-want[0], float64(predicted[i][1])-want[1])
	}
	done := e.finished()
	gomlxtest.NearAbs(t, "metrics", []float64{done.MSE, done.MAE, done.RMSE}, file["probe.metrics_out"].Data, tolerance)
	lengths := slices.Sorted(slices.Values(file["probe.errors_out"].Data))
	gomlxtest.NearAbs(t, "errors", done.Lengths, lengths, tolerance)
}

func TestProbe_SeesPositionsInTheirVectorsAndNotInNoise(t *testing.T) {
	rings := grid{Rows: 3, Cols: 5}.rings()
	draw := func(n int, seed uint64) (known, blind examples) {
		for i, p := range rings.drawPairs(n, 7, seed) {
			offset := rings.offset(p)
			known.inputs = append(known.inputs, []float32{float32(p.From % 5), float32(p.From / 5), float32(p.To % 5),
				float32(p.To / 5)})
			blind.inputs = append(blind.inputs, []float32{float32(i % 3), float32(i % 7), float32(i % 11), float32(i % 13)})
			known.targets, blind.targets = append(known.targets, offset), append(blind.targets, offset)
		}
		return known, blind
	}
	known, blind := draw(640, 1)
	heldKnown, heldBlind := draw(101, 2)
	chance := chanceErrors(known.targets, heldKnown.targets).MSE
	for name, c := range map[string]struct {
		train, test    examples
		batch, epochs  int
		least, largest float64
	}{
		"places": {known, heldKnown, 32, 30, 0, 0.1}, "noise": {blind, heldBlind, 32, 30, 0.7, 10},
		"one batch of all": {known, heldKnown, 700, 200, 0, 0.3}, // more than there are
	} {
		probe := releasedProbe(1)
		probe.Hidden, probe.Batch, probe.Epochs, probe.LearningRate = [2]int{16, 8}, c.batch, c.epochs, 1e-2
		e := gomlxtest.Must(probe.errors(gomlxtest.Backend(), c.train, c.test))(t)
		if !(c.least*chance <= e.MSE && e.MSE <= c.largest*chance) || !(math.Abs(e.RMSE-math.Sqrt(e.MSE)) <= 1e-12) {
			t.Errorf("%s: MSE %g, chance is %g", name, e.MSE, chance)
		}
	}
}

func TestRings_PairsAreBalancedOverDistance(t *testing.T) {
	rings := grid{Rows: 3, Cols: 7}.rings()
	counts := map[float64]int{}
	for _, p := range rings.drawPairs(4000, 5, 1) {
		counts[rings.distance(p.From, p.To)]++
	}
	want := 4000 / float64(len(rings.Distances)-1)
	for _, d := range rings.Distances[1:] {
		near(t, fmt.Sprint("pairs at the distance ", d), float64(counts[d]), want, 5*math.Sqrt(want))
	}
	equal(t, "pairs of one patch with itself", counts[0], 0)
}

// The content is 1000·image + 10·patch + channel, the vectors are thousandths of 10·patch + channel.
func TestPairing_HasThePatchesOfItsImagesAndTheVectorsOfItsPositions(t *testing.T) {
	const images, width = 11, 3
	g := grid{Rows: 2, Cols: 5}
	p := pairing{rings: g.rings(), width: width, seed: 7}
	for i := range images * g.patches() * width {
		image, patch, channel := i/width/g.patches(), i/width%g.patches(), i%width
		p.content = append(p.content, float32(1000*image+10*patch+channel))
		if image == 0 {
			p.vectors = append(p.vectors, float64(10*patch+channel)/1000)
		}
	}
	for _, with := range []float64{0, 1} {
		const first, drawn = 4, 5
		e, seen := p.draw(200, first, drawn, with), map[int]bool{}
		for i, x := range e.inputs {
			image := int(x[0]) / 1000
			seen[image] = true
			var at [2]int
			var want []float64
			for end := range at {
				at[end] = int(x[end*width]) % 1000 / 10
				for channel := range width {
					own := float64(10*at[end] + channel)
					want = append(want, float64(1000*image)+own+with*own/1000)
				}
			}
			gomlxtest.NearAbs(t, "input", x, want, 1e-3)
			equal(t, "offset", e.targets[i], [2]float64{float64(at[1]%5 - at[0]%5), float64(at[1]/5 - at[0]/5)})
		}
		if len(e.inputs) != 200 || len(seen) != drawn || seen[first-1] || seen[first+drawn] {
			t.Errorf("%d examples of images %v, want images 4 to 8", len(e.inputs), seen)
		}
	}
}

// The mean target is (2, 4): the errors are (2, 4) and (0, −1).
func TestChanceErrors_AreOfTheMeanTargetOfTraining(t *testing.T) {
	got := chanceErrors([][2]float64{{1, 2}, {3, 6}}, [][2]float64{{0, 0}, {2, 5}})
	gomlxtest.NearAbs(t, "errors", append(got.Lengths, got.MSE, got.MAE, got.RMSE),
		[]float64{1, math.Sqrt(20), 10.5, 3.5, math.Sqrt(10.5)}, 1e-12)
}
