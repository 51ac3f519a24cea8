// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// The initial weights, the inputs and the losses are from the released script, with its dropout set to 0.
func TestTheProbeLearnsAsTheReleasedScriptDoes(t *testing.T) {
	fixtures.Each(t, testTheProbeLearnsAsTheReleasedScriptDoes)
}

func testTheProbeLearnsAsTheReleasedScriptDoes(t *testing.T) {
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
	if err := probe.begin(gomlxtest.Backend()); err != nil {
		t.Fatal(err)
	}
	defer probe.finalize()
	names := map[string]string{ // ours, as torch's nn.Sequential counts
		"/hidden_0/weights": "0.weight", "/hidden_0/biases": "0.bias", "/norm_0/gain": "1.weight", "/norm_0/offset": "1.bias",
		"/hidden_1/weights": "4.weight", "/hidden_1/biases": "4.bias", "/norm_1/gain": "5.weight", "/norm_1/offset": "5.bias",
		"/output/weights": "8.weight", "/output/biases": "8.bias",
	}
	transposed := func(p fixtures.Tensor) ([]float32, []int) { // [out, in] becomes [in, out]
		if len(p.Shape) < 2 {
			return p.Float32(), p.Shape
		}
		out, in := p.Shape[0], p.Shape[1]
		flat := make([]float32, 0, out*in)
		for j := range in {
			for i := range out {
				flat = append(flat, float32(p.Data[i*in+j]))
			}
		}
		return flat, []int{in, out}
	}
	for ours, theirs := range names {
		flat, dims := transposed(file["probe.param.predictor."+theirs])
		if _, err := probe.store.CreateVariable(ours, tensors.FromFlatDataAndDimensions(flat, dims...)); err != nil {
			t.Fatal(err)
		}
	}
	predicted := gomlxtest.Must(probe.predict(x))(t)
	gomlxtest.NearAbs(t, "initial predictions", slices.Concat(predicted...), file["probe.initial_predictions_out"].Data,
		tolerance)
	var losses []float64
	for epoch := range c.Epochs {
		losses = append(losses, gomlxtest.Must(probe.step(epoch, x, y))(t))
	}
	gomlxtest.NearAbs(t, "losses", losses, file["probe.losses_out"].Data, tolerance)
	for _, ours := range []string{"/hidden_0/weights", "/norm_0/offset", "/output/weights"} {
		want, _ := transposed(file["probe.trained_out.predictor."+names[ours]])
		got := gomlxtest.Values(t, probe.store.GetVariable(ours).MustValue())
		wide := make([]float64, len(want))
		for i, v := range want {
			wide[i] = float64(v)
		}
		gomlxtest.NearAbs(t, ours, got, wide, tolerance)
	}
	var e probeErrors
	predicted = gomlxtest.Must(probe.predict(x))(t)
	g := grid{Rows: c.Grid[0], Cols: c.Grid[1]}
	for i, drawn := range slices.Collect(slices.Chunk(file["probe.pairs"].Data, 3)) {
		want := g.offset(pair{int(drawn[0]), int(drawn[1]), int(drawn[2])})
		if want != [2]float64{float64(y[i][0]), float64(y[i][1])} {
			t.Errorf("pair %v is %v apart, want %v", drawn, want, y[i])
		}
		e.add(float64(predicted[i][0])-want[0], float64(predicted[i][1])-want[1])
	}
	done := e.finished()
	gomlxtest.NearAbs(t, "metrics", []float64{done.MSE, done.MAE, done.RMSE}, file["probe.metrics_out"].Data, tolerance)
	lengths := slices.Sorted(slices.Values(file["probe.errors_out"].Data))
	gomlxtest.NearAbs(t, "errors", done.Lengths, lengths, tolerance)
}

func TestAProbePredictsPositionsFromTheirVectorsAndNotFromNoise(t *testing.T) {
	rings := grid{Rows: 3, Cols: 5}.rings()
	draw := func(n int, seed uint64) (known, blind [][]float32, offsets [][2]float64) {
		for i, p := range rings.drawPairs(n, 7, seed) {
			place := func(k int) []float32 { return []float32{float32(k % 5), float32(k / 5)} }
			known = append(known, append(place(p.From), place(p.To)...))
			blind = append(blind, []float32{float32(i % 3), float32(i % 7), float32(i % 11), float32(i % 13)})
			offsets = append(offsets, rings.offset(p))
		}
		return known, blind, offsets
	}
	known, blind, offsets := draw(640, 1)
	heldKnown, heldBlind, held := draw(101, 2)
	probe := releasedProbe(1)
	probe.Hidden, probe.Batch, probe.LearningRate = [2]int{16, 8}, 32, 1e-2
	sees := gomlxtest.Must(probe.errors(gomlxtest.Backend(), examples{known, offsets}, examples{heldKnown, held}))(t)
	not := gomlxtest.Must(probe.errors(gomlxtest.Backend(), examples{blind, offsets}, examples{heldBlind, held}))(t)
	chance := chanceErrors(offsets, held)
	probe.Batch, probe.Epochs = 700, 200 // more than there are
	all := gomlxtest.Must(probe.errors(gomlxtest.Backend(), examples{known, offsets}, examples{heldKnown, held}))(t)
	if !(all.MSE < 0.3*chance.MSE) {
		t.Errorf("MSE %g in one batch of all, chance is %g", all.MSE, chance.MSE)
	}
	if !(sees.MSE < 0.1*chance.MSE) || !(not.MSE > 0.7*chance.MSE) || !(math.Abs(not.RMSE-math.Sqrt(not.MSE)) <= 1e-12) {
		t.Errorf("MSE %g with places and %g without, chance is %g", sees.MSE, not.MSE, chance.MSE)
	}
}

func TestAProbeOfExamplesOfSeveralWidthsIsAnError(t *testing.T) {
	narrow, wide := [][]float32{{1, 2, 3}, {3, 2, 1}}, [][]float32{{1, 2, 3, 4, 5}, {5, 4, 3, 2, 1}}
	targets := [][2]float64{{1, 0}, {0, 1}}
	for name, c := range map[string]struct{ train, test examples }{
		"other widths":   {examples{narrow, targets}, examples{wide, targets}},
		"ragged queries": {examples{narrow, targets}, examples{[][]float32{{1, 2, 3}, {1}}, targets}},
		"ragged":         {examples{[][]float32{{1, 2, 3}, {1}}, targets}, examples{narrow, targets}},
	} {
		probe := releasedProbe(1)
		probe.Hidden, probe.Epochs = [2]int{3, 2}, 1
		if e, err := probe.errors(gomlxtest.Backend(), c.train, c.test); err == nil {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestPairsAreBalancedOverDistance(t *testing.T) {
	rings := grid{Rows: 3, Cols: 7}.rings()
	counts := map[float64]int{}
	for _, p := range rings.drawPairs(4000, 5, 1) {
		counts[rings.distance(p.From, p.To)]++
	}
	want := 4000 / float64(len(rings.Distances)-1)
	for _, d := range rings.Distances[1:] {
		if n := float64(counts[d]); !(math.Abs(n-want) <= 5*math.Sqrt(want)) {
			t.Errorf("distance %g: %g pairs, want about %g", d, n, want)
		}
	}
	if counts[0] > 0 {
		t.Error("a pair of one patch with itself")
	}
}
