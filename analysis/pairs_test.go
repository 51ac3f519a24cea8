// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"math"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// The content is 1000·image + 10·patch + channel, the vectors are thousandths of 10·patch + channel.
func TestExamplesHaveThePatchesOfTheirImagesAndTheVectorsOfTheirPositions(t *testing.T) {
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
			right, down := at[1]%5-at[0]%5, at[1]/5-at[0]/5
			if e.targets[i] != [2]float64{float64(right), float64(down)} {
				t.Errorf("patches %v are %v apart", at, e.targets[i])
			}
		}
		if len(e.inputs) != 200 || len(seen) != drawn || seen[first-1] || seen[first+drawn] {
			t.Errorf("%d examples of images %v, want images 4 to 8", len(e.inputs), seen)
		}
	}
}

// The mean target is (2, 4): the errors are (2, 4) and (0, −1).
func TestChanceIsTheMeanTargetOfTraining(t *testing.T) {
	got := chanceErrors([][2]float64{{1, 2}, {3, 6}}, [][2]float64{{0, 0}, {2, 5}})
	gomlxtest.NearAbs(t, "errors", append(got.Lengths, got.MSE, got.MAE, got.RMSE),
		[]float64{1, math.Sqrt(20), 10.5, 3.5, math.Sqrt(10.5)}, 1e-12)
}

// Both seeds of a column would have the same probe without positions, so only the first has it.
func TestTheProbeIsMeasuredForEachSeedOfAColumn(t *testing.T) {
	gomlxtest.OnGo(t)
	models := []Model{{Name: "a", Path: trained(t, "learned", 1, nil)},
		{Name: "a", Path: trained(t, "learned", 2, nil)}}
	c := Comparison{Backend: gomlxtest.Backend(), Images: testImages(11), Pairs: 40, Models: models, Seed: 3,
		Analyses: gomlxtest.Must(Choose([]string{"probe"}))(t)}
	rows, count := gomlxtest.Must(c.Run(t.Context()))(t).Rows, map[string]int{}
	for _, r := range rowsOf(rows, "probe", "a") {
		count[r.At]++
	}
	const held = 2 // a quarter of the images, and of the pairs
	p := pairing{rings: grid{Rows: 3, Cols: 5}.rings(), width: 1, content: make([]float32, 11*15),
		vectors: make([]float64, 15), seed: 3}
	chance := chanceErrors(p.draw(40, held, 11-held, 0).targets, p.draw(10, 0, held, 0).targets)
	gomlxtest.NearAbs(t, "mean offset", []float64{value(t, rows, "probe", "a", "MSE, patches²", "mean offset")},
		[]float64{chance.MSE}, 1e-12)
	want := map[string]int{"mean offset": 1, "content only": 6, "content + position": 6}
	if fmt.Sprint(count) != fmt.Sprint(want) {
		t.Errorf("rows %v, want %v", count, want)
	}
}
