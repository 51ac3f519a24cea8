// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"math"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// The mean score of an image and its equal mirror image is the image's, and of others the mean of both.
func TestModel_AverageFlipsMeansTheScores(t *testing.T) {
	gomlxtest.OnGo(t)
	m := trained(t)
	same := dataset(5, 4) // [image, row, column, channel], 6 columns of 3 channels
	mirror, set := dataset(5, 4), dataset(5, 4)
	for i := range same.Pixels {
		from := i - i%18 + 15 - i%18/3*3 + i%3
		mirror.Pixels[i] = set.Pixels[from]
		if from < i {
			same.Pixels[i] = same.Pixels[from]
		}
	}
	for _, scores := range []string{"", "softmax", "sigmoid", "none"} {
		m.Scores = scores
		scored := func(images *data.InMemory) (all [][]float64) {
			for _, logits := range gomlxtest.Must(m.logitsOf(images))(t) {
				all = append(all, m.probabilities(logits))
			}
			return all
		}
		m.eval = gomlxtest.Must(m.logitsProgram())(t)
		one, mirrored, plain := scored(same), scored(mirror), scored(set)
		if err := m.AverageFlips(); err != nil {
			t.Fatal(err)
		}
		two, both := scored(same), scored(set)
		for i := range one {
			gomlxtest.NearAbs(t, scores+": a symmetric image", two[i], one[i], 2e-6)
			for k := range plain[i] {
				plain[i][k] = (plain[i][k] + mirrored[i][k]) / 2
			}
			gomlxtest.NearAbs(t, scores+": mean", both[i], plain[i], 2e-6)
		}
	}

	m.Scores = ""
	loss := 0.0
	for i, p := range softmaxOf(t, m, set) {
		loss -= math.Log(p[set.Labels[i]]) / float64(set.Len())
	}
	if got := gomlxtest.Must(m.Evaluate(set))(t); !(math.Abs(float64(got.Loss)-loss) <= 1e-5) {
		t.Errorf("loss %g, want %g", got.Loss, loss)
	}
	m.Recipe.Aspect = AspectKeep
	if m.AverageFlips() == nil {
		t.Error("images with grids of their own are flipped")
	}
}

func TestAverageOf_SigmoidsKeepTheDigitsOfLargeLogits(t *testing.T) {
	got := gomlxtest.Run(t, func(in []*Node) []*Node { return []*Node{averageOf(in[0], "sigmoid")} },
		tensors.FromValue([][][]float32{{{30, -30, 0, 90}}, {{30, -30, 2, -90}}}))
	p := (0.5 + 1/(1+math.Exp(-2))) / 2
	gomlxtest.NearAbs(t, "logits", got[0], []float64{30, -30, math.Log(p / (1 - p)), 0}, 1e-5)
}
