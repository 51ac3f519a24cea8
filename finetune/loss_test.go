// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"math"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// torch's BCEWithLogitsLoss on targets.gt(0), as DeiT-III calls it, by hand: log(1+eˣ) − t·x, the mean over all.
func TestLoss_BCEHasATargetForEveryClassInAMixedImage(t *testing.T) {
	targets := [][]float32{{0, 1e-4, 0.7}, {1, 0, 0}} // however small
	logits := [][]float32{{-2, 0.5, 3}, {40, -60, 0}}
	want := 0.0
	for i, row := range logits {
		for k, x := range row {
			want += math.Max(float64(x), 0) + math.Log1p(math.Exp(-math.Abs(float64(x))))
			if targets[i][k] > 0 {
				want -= float64(x)
			}
		}
	}
	got := gomlxtest.Run(t, func(in []*Node) []*Node {
		return []*Node{Recipe{Loss: lossBCE}.loss(in[0], in[1])}
	}, targets, logits)[0]
	gomlxtest.Near(t, "bce", got, []float64{want / 6}, 1e-6)
}

// torch's CrossEntropyLoss(weight=w) on targets of probabilities: the mean of −Σ w_c·t_c·log p_c.
func TestClassWeights_ScaleTheLossOfEachImage(t *testing.T) {
	gomlxtest.OnGo(t)
	trainer := begun(t, tinyRun(t, "class_weights=1,2,3,4,5,6,70;label_smoothing=0.1", 40))
	set := trainer.images.set.(*data.InMemory)
	logits := gomlxtest.Must(trainer.model.logitsOf(set))(t)
	advanced(t, trainer, 1)
	weights, want := []float64{1, 2, 3, 4, 5, 6, 70}, 0.0
	for _, row := range trainer.rows {
		for class, logit := range logits[row] {
			target := 0.1 / 7
			if class == int(set.Labels[row]) {
				target += 0.9
			}
			want -= weights[class] * target * (float64(logit) - logSumExp(logits[row])) / float64(len(trainer.rows))
		}
	}
	if got := gomlxtest.Must(trainer.Loss())(t); !(math.Abs(got-want) <= 1e-5*want) {
		t.Errorf("loss %g, want %g", got, want)
	}
}

// scikit-learn's compute_class_weight("balanced") of 2, 3 and 5 images: n/(3·n_c).
func TestClassWeights_BalancedAreScikitLearns(t *testing.T) {
	info := &data.Info{Name: "unequal", Classes: []string{"a", "b", "c"}, Labels: []int32{2, 1, 0, 2, 2, 1, 1, 2, 0, 2}}
	got := gomlxtest.Must(Recipe{ClassWeights: "balanced"}.classWeights(info))(t)
	gomlxtest.NearAbs(t, "balanced", got, []float64{10. / 6, 10. / 9, 10. / 15}, 1e-6)
	info.Classes = append(info.Classes, "d")
	_, err := Recipe{ClassWeights: "balanced"}.classWeights(info)
	refused(t, "an empty class", err, "no image of class d")
}
