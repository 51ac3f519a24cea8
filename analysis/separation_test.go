// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"gonum.org/v1/gonum/stat"

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
)

// The mean over heads of the last layer's weights, by hand, of more images than one batch has.
func TestSeparationIsOfTheStrongestPatchesAndTheErrorOfEachImage(t *testing.T) {
	const n = 83
	images := testImages(n)
	for pool, change := range map[string]func(*finetune.Recipe){"class": nil, "mean": meanOfPatches} {
		path := trained(t, "learned", 1, change)
		model := gomlxtest.Must(finetune.Open(gomlxtest.Backend(), path))(t)
		defer model.Finalize()
		c := model.Recipe.Model
		tokens, prefix, patches := c.Tokens(), c.Prefix(), c.Rows()*c.Cols()
		var separations, wrong []float64
		err := model.Look(images, n, func(t *vit.Trace) []*Node { return []*Node{t.Blocks[c.Depth-1].Weights} },
			func(_ int, values [][]float32) error {
				for i := range n {
					weights, attended := values[0][i*c.Heads*tokens*tokens:], make([]float64, patches)
					for h := range c.Heads {
						for query := range tokens {
							if pool == "mean" && query < prefix || pool == "class" && query > 0 {
								continue
							}
							for k := range patches {
								attended[k] += float64(weights[(h*tokens+query)*tokens+prefix+k])
							}
						}
					}
					order := make([]int, patches)
					for k := range order {
						order[k] = k
					}
					slices.SortFunc(order, func(a, b int) int { return cmp.Compare(attended[b], attended[a]) })
					sum := 0.0
					for a := range 5 {
						for b := range a {
							p, q := order[a], order[b]
							sum += math.Hypot(float64(p/c.Cols()-q/c.Cols()), float64(p%c.Cols()-q%c.Cols()))
						}
					}
					logits := values[1][i*c.Classes : (i+1)*c.Classes]
					missed := 1.0
					if slices.Index(logits, slices.Max(logits)) == int(images.Labels[i]) {
						missed = 0
					}
					separations, wrong = append(separations, sum/10), append(wrong, missed)
				}
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		rows := asked(t, "separation", images, Model{Name: "m", Path: path})
		counted, failed := 0.0, 0.0
		for _, r := range rowsOf(rows, "separation", "m") {
			if r.Measure == "images" && r.Value > 0 {
				counted += float64(r.Value)
				failed += float64(r.Value) * value(t, rows, "separation", "m", "error rate", r.At)
			}
		}
		gomlxtest.NearAbs(t, pool, []float64{counted, failed,
			value(t, rows, "separation", "m", "mean separation, patches", ""),
			value(t, rows, "separation", "m", "correlation of separation and error, images", "")}, []float64{n,
			stat.Mean(wrong, nil) * n, stat.Mean(separations, nil), stat.Correlation(separations, wrong, nil)}, 1e-9)
	}
}

// The labels are compared with the model's classes by name.
func TestMeasuresOfAccuracyDoNotDependOnTheOrderOfClasses(t *testing.T) {
	images, permuted, other := testImages(30), testImages(30), testImages(30)
	permuted.Classes, other.Classes = strings.Fields("c a b"), strings.Fields("a b x")
	for i, label := range images.Labels {
		permuted.Labels[i] = (label + 1) % 3
	}
	model := Model{Name: "m", Path: trained(t, "learned", 1, nil)}
	want := asked(t, "separation,shuffle", images, model)
	if got := asked(t, "separation,shuffle", permuted, model); fmt.Sprint(got) != fmt.Sprint(want) { // NaN is printed
		t.Errorf("got %v, want %v", got, want)
	}
	for _, r := range asked(t, "separation,shuffle", other, model) {
		if !strings.Contains(r.Note, "class 2 is c in the model and x in the data") {
			t.Errorf("other classes: %+v", r)
		}
	}
}
