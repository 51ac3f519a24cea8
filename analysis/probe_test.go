// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
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
	matrix := func(name string) [][]float32 {
		flat := file["probe."+name]
		return slices.Collect(slices.Chunk(flat.Float32(), flat.Shape[1]))
	}
	x, y := matrix("inputs_out"), matrix("targets_out")
	probe := distanceProbe{Hidden: c.Hidden, Epochs: c.Epochs, Batch: len(x), LearningRate: c.LR, Decay: c.Decay}
	gomlxtest.NoError(t, probe.begin(gomlxtest.Backend()))
	defer probe.finalize()
	f := gomlxtest.LoadTorch(t, "official_analysis", "tensors.safetensors", "/")
	f.Store = probe.store
	for i := range 2 { // the layers of torch's nn.Sequential
		f.Layer(fmt.Sprintf("hidden_%d", i), fmt.Sprintf("probe.param.predictor.%d", 4*i))
		f.Norm(fmt.Sprintf("norm_%d", i), fmt.Sprintf("probe.param.predictor.%d", 4*i+1))
	}
	f.Layer("output", "probe.param.predictor.8")
	predicted := gomlxtest.Must(probe.predict(x))(t)
	gomlxtest.NearAbs(t, "initial predictions", slices.Concat(predicted...), file["probe.initial_predictions_out"].Data,
		tolerance)
	var losses []float64
	for epoch := range c.Epochs {
		losses = append(losses, gomlxtest.Must(probe.step(epoch, x, y))(t))
	}
	gomlxtest.NearAbs(t, "losses", losses, file["probe.losses_out"].Data, tolerance)
	torch := strings.NewReplacer("/hidden_0/", "0.", "/norm_0/", "1.", "/hidden_1/", "4.", "/norm_1/", "5.", "/output/",
		"8.", "weights", "weight", "gain", "weight", "biases", "bias", "offset", "bias")
	compared, kept := 0, 0
	for name := range file {
		if strings.HasPrefix(name, "probe.trained_out.") { // a set may have some of them
			kept++
		}
	}
	for v := range probe.store.IterVariables() {
		want, ok := file["probe.trained_out.predictor."+torch.Replace(v.Path())]
		if !ok {
			continue
		}
		compared++
		if strings.HasSuffix(v.Path(), "weights") {
			want.Data = gomlxtest.Reversed(want.Data, want.Shape[0], 1, want.Shape[1])
		}
		gomlxtest.NearAbs(t, v.Path(), gomlxtest.Values(t, v.MustValue()), want.Data, tolerance)
	}
	is.Equal(t, "all trained parameters of the set are compared, one or more", compared == kept && kept > 0, true)
	var e probeErrors
	predicted = gomlxtest.Must(probe.predict(x))(t)
	g := grid{Rows: c.Grid[0], Cols: c.Grid[1]}
	for i, drawn := range slices.Collect(slices.Chunk(file["probe.pairs"].Data, 3)) {
		want := g.offset(pair{int(drawn[0]), int(drawn[1]), int(drawn[2])})
		is.Equal(t, fmt.Sprint("pair ", drawn), want, [2]float64{float64(y[i][0]), float64(y[i][1])})
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
		is.Near(t, fmt.Sprint("pairs at the distance ", d), float64(counts[d]), want, 5*math.Sqrt(want))
	}
	is.Equal(t, "pairs of one patch with itself", counts[0], 0)
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
			is.Equal(t, "offset", e.targets[i], [2]float64{float64(at[1]%5 - at[0]%5), float64(at[1]/5 - at[0]/5)})
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

// On images of one colour tokens and attention depend on positions only. The expected R² is that of least squares on
// the table in the files.
func TestDepth_InputsOfOneColourHaveThePositionsOfTheTable(t *testing.T) {
	images := testImages(5)
	images.Pixels = bytes.Repeat([]byte{90}, len(images.Pixels))
	dir := trained(t, "learned", 1, nil)
	var places []float64
	for k := range 15 {
		places = append(places, float64(k/5), float64(k%5))
	}
	want := explained(places, tableOf(t, dir), 15)
	rows := asked(t, "depth", images, Model{Name: "a", Path: dir})
	got := func(measure, at string) float64 { return value(t, rows, "depth", "a", measure, at) }
	is.Near(t, "R²", got("R² of row and column, linear", "input"), want, 1e-5)
	const share = "attention variance due to position, %"
	gomlxtest.NearAbs(t, share, []float64{got(share, "layer 1"), got(share, "layer 2")}, []float64{100, 100}, 1e-3)
}

// Tokens row·a + noise of deviation σ: with |a| = 1 a linear regression has R² var/(var+σ²) of the row and 0 of the
// column.
func TestReadout_HasTheR2OfSignalAndNoise(t *testing.T) {
	g := grid{Rows: 3, Cols: 5, Prefix: 1}
	const width, images = 7, 3000
	r := rand.New(rand.NewPCG(3, 0))
	for _, sigma := range []float64{0, 0.5, 2} {
		read := newReadout(g, width)
		for image := range images {
			var tokens []float32
			for k := range g.patches() {
				for j := range width {
					signal := 40.0 // a mean far from zero
					if j < 4 {
						signal += float64(k/g.Cols) / 2
					}
					tokens = append(tokens, float32(signal+sigma*r.NormFloat64()))
				}
			}
			read.add(image, tokens)
		}
		const rowVariance, colVariance = 2.0 / 3, 2.0
		want := rowVariance * rowVariance / (rowVariance + sigma*sigma) / (rowVariance + colVariance)
		is.Near(t, "R²", read.r2(), want, 0.01)
	}
	constant := newReadout(g, width)
	for image := range 4 {
		constant.add(image, make([]float32, g.patches()*width))
	}
	is.Equal(t, "no R² of tokens that are all zero", math.IsNaN(constant.r2()), true)
}

// Two images, two pairs: head 1 has [1, 3] and [3, 5], between 2·(1+1) of 8; head 2 [2, 2] and [4, 4], between 0 of 4.
func TestMeanShare_IsOfTheVarianceInEachHead(t *testing.T) {
	m := newMeanShare(2, 2)
	m.add([]float32{1, 3, 2, 2})
	m.add([]float32{3, 5, 4, 4})
	is.Near(t, "share", m.share(), 4.0/12, 1e-12)
	constant := newMeanShare(1, 3)
	constant.add([]float32{0.2, 0.2, 0.2, 0.2, 0.2, 0.2})
	is.Equal(t, "no share of weights that are all equal", math.IsNaN(constant.share()), true)
}
