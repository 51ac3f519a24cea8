// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	stdmaps "maps"
	"math"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"gonum.org/v1/gonum/stat"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/numeric"
	"github.com/wepe-go/wepe/vit"
)

// traced returns the values of one node of a model for all images.
func traced(t *testing.T, path string, images *data.Memory, node func(*vit.Trace) *Node) (c vit.Config,
	flat []float32) {
	t.Helper()
	model := gomlxtest.Must(finetune.Open(gomlxtest.Backend(), path))(t)
	defer model.Finalize()
	err := model.Look(images, images.Len(), func(t *vit.Trace) []*Node { return []*Node{node(t)} },
		func(_ int, values [][]float32) error {
			flat = slices.Clone(values[0])
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return model.Recipe.Model, flat
}

// patchWeights returns the weights between patches, [rows of heads and images][queries][keys], rows divided by their
// sums, or with the weights of prefix tokens.
func patchWeights(c vit.Config, flat []float32, divided bool) (all [][][]float64) {
	tokens, prefix := c.Tokens(), c.Prefix()
	for head := range slices.Chunk(flat, tokens*tokens) {
		var rows [][]float64
		for query := range slices.Chunk(head[prefix*tokens:], tokens) {
			row, sum := make([]float64, tokens-prefix), 0.0
			for k, w := range query[prefix:] {
				row[k] = float64(w)
				sum += row[k]
			}
			for k := range row {
				if divided {
					row[k] /= sum
				}
			}
			rows = append(rows, row)
		}
		all = append(all, rows)
	}
	return all
}

// Range and weight by distance of each layer, and the correlations, of 37 images on 3×5 patches.
func TestRowsOfAttentionAreMeansOfTheWeightsOfAllImages(t *testing.T) {
	images := testImages(37)
	path := trained(t, "learned", 1, nil)
	rows := asked(t, "range,distance,maps", images, Model{Name: "m", Path: path})
	got := func(analysis, measure, at string) float64 { return value(t, rows, analysis, "m", measure, at) }
	apart := func(i, j int) float64 { return math.Hypot(float64(i/5-j/5), float64(i%5-j%5)) }
	for l := range 2 {
		c, flat := traced(t, path, images, func(t *vit.Trace) *Node { return t.Blocks[l].Weights })
		var radii []float64
		ofHead := make([][]float64, c.Heads)
		sums, counts := map[float64]float64{}, map[float64]float64{}
		for i, head := range patchWeights(c, flat, true) {
			for query, weights := range head {
				byDistance := map[float64]float64{}
				for key, w := range weights {
					d := apart(query, key)
					byDistance[d] += w
					sums[d] += w
					counts[d]++
				}
				sum := 0.0
				for _, d := range slices.Sorted(stdmaps.Keys(byDistance)) {
					if sum += byDistance[d]; sum >= 0.9 {
						radii, ofHead[i%c.Heads] = append(radii, d), append(ofHead[i%c.Heads], d)
						break
					}
				}
			}
		}
		layer := fmt.Sprintf("layer %d", l+1)
		gomlxtest.NearAbs(t, layer, []float64{got("range", "effective range, patches", layer),
			got("range", "effective range, patches", layer+" head 2")},
			[]float64{stat.Mean(radii, nil), stat.Mean(ofHead[1], nil)}, 0.01) // a sum may round to less than 0.9
		var distances, means []float64
		for _, d := range slices.Sorted(stdmaps.Keys(sums)) {
			distances, means = append(distances, d), append(means, sums[d]/counts[d])
			at := fmt.Sprintf("%s at %.3g", layer, d)
			gomlxtest.NearAbs(t, at, []float64{got("distance", "weight by distance", at)}, means[len(means)-1:], 1e-6)
		}
		gomlxtest.NearAbs(t, layer, []float64{got("distance", "correlation of attention weight and distance", layer)},
			[]float64{stat.Correlation(distances, means, nil)}, 1e-3)
		if l > 0 {
			continue
		}
		var fromCentre, distance []float64 // of the first image, with the class token in the sums
		for key := range 15 {
			mean := 0.0
			for _, head := range patchWeights(c, flat, false)[:c.Heads] {
				mean += head[7][key]
			}
			fromCentre, distance = append(fromCentre, mean), append(distance, apart(7, key))
		}
		gomlxtest.NearAbs(t, "maps", []float64{got("maps",
			"correlation of attention weight and distance, from the centre", "layer 1, first image")},
			[]float64{stat.Correlation(distance, fromCentre, nil)}, 1e-3)
	}
}

// CKA of both layers with the other model's, and t-SNE's R² of the positions of the first 16 images.
func TestRowsOfFeaturesAreOfThePatchesOfEachModel(t *testing.T) {
	images := testImages(37)
	paths := []string{trained(t, "learned", 1, nil), trained(t, "learned", 2, nil)}
	rows := asked(t, "cka,tsne", images, Model{Name: "a", Path: paths[0]}, Model{Name: "b", Path: paths[1]})
	for l := range 2 {
		var pooled [2][]float64
		for m, path := range paths {
			c, flat := traced(t, path, images, func(t *vit.Trace) *Node { return t.Blocks[l].Output })
			for image := range slices.Chunk(flat, c.Tokens()*c.Width) {
				for k := range c.Width {
					mean := 0.0
					for p := c.Prefix(); p < c.Tokens(); p++ {
						mean += float64(image[p*c.Width+k]) / 15
					}
					pooled[m] = append(pooled[m], mean)
				}
			}
			if l == 0 {
				continue
			}
			var patches, row, col []float64
			for _, image := range slices.Collect(slices.Chunk(flat, c.Tokens()*c.Width))[:16] {
				patches = append(patches, wide(image[c.Prefix()*c.Width:])...)
				for p := range 15 {
					row, col = append(row, float64(p/5)), append(col, float64(p%5))
				}
			}
			_, r2 := numeric.NearestR2(patches, [][]float64{row, col}, 5)
			gomlxtest.NearAbs(t, "R²", []float64{value(t, rows, "tsne", string("ab"[m]),
				"R² of row and column, 5 nearest neighbours", "")}, []float64{r2}, 1e-6)
		}
		gomlxtest.NearAbs(t, "CKA", []float64{value(t, rows, "cka", "b", "unbiased linear CKA with the first model",
			fmt.Sprintf("layer %d", l+1))}, []float64{unbiasedCKA(pooled[0], pooled[1], 37)}, 1e-4)
	}
}

// The overlap of the rollout's largest pixels with the masks of all images but one, which has no object.
func TestRowsOfMasksAreOfTheThresholdsOfTheirNames(t *testing.T) {
	gomlxtest.OnGo(t)
	const n = 13
	mask := func(i int) []bool {
		if i == 4 {
			return nil
		}
		m := make([]bool, 12*20)
		for k := range m {
			m[k] = k%20 >= i && k/20 > 3
		}
		return m
	}
	models := []Model{{Name: "a", Path: trained(t, "learned", 1, nil)},
		{Name: "b", Path: trained(t, "learned", 2, nil)}}
	c := Comparison{Backend: gomlxtest.Backend(), Images: testImages(n), Mask: mask, Models: models,
		Analyses: gomlxtest.Must(Choose([]string{"masks"}))(t)}
	rows := gomlxtest.Must(c.Run(t.Context()))(t).Rows
	all := map[string][2][]float64{}
	for m, model := range c.Models {
		s := gomlxtest.Must(c.open(t.Context(), model))(t)
		v := gomlxtest.Must(s.attended())(t)
		s.model.Finalize()
		for i, row := range v.rollout {
			object := mask(i)
			if object == nil {
				continue
			}
			pixels := enlarge(row, 3, 5, 12, 20)
			sorted := slices.Sorted(slices.Values(pixels))
			overlap := func(least float64) float64 {
				both, either := 0.0, 0.0
				for k, v := range pixels {
					if object[k] && v >= least {
						both++
					}
					if object[k] || v >= least {
						either++
					}
				}
				return both / either
			}
			for name, least := range map[string]float64{ // of 240 values, 0.9·239 = 215.1
				"IoU at half of the range":   (sorted[0] + sorted[239]) / 2,
				"IoU at the median":          (sorted[119] + sorted[120]) / 2,
				"IoU at the 90th percentile": sorted[215] + 0.1*(sorted[216]-sorted[215])} {
				of := all[name]
				of[m] = append(of[m], overlap(least))
				all[name] = of
			}
		}
	}
	for name, of := range all {
		statistic, p := pairedT(of[1], of[0])
		if len(of[0]) != n-1 || !(math.Abs(statistic) > 1e-3) {
			t.Errorf("%s: t = %g of %d images", name, statistic, len(of[0]))
		}
		for m, model := range []string{"a", "b"} {
			mean, deviation := stat.MeanStdDev(of[m], nil)
			gomlxtest.NearAbs(t, model+": "+name, []float64{value(t, rows, "masks", model, name, "mean"),
				value(t, rows, "masks", model, name, "standard deviation")}, []float64{mean, deviation}, 1e-6)
		}
		gomlxtest.NearAbs(t, name, []float64{value(t, rows, "masks", "b", name,
			"p of the paired t-test against the first model")}, []float64{p}, 1e-4)
	}
}
