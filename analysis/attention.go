// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"gonum.org/v1/gonum/stat"

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/figure"
	"github.com/wepe-go/wepe/internal/numeric"
	"github.com/wepe-go/wepe/vit"
)

// Bounds of one pass over images.
const (
	weightBytes = 256 << 20 // of all layers, for one batch; a single image may take more
	weightWork  = 1 << 31   // number of weights evaluated on the host: at least one image's
	rangeShare  = 0.9       // share of the weight within the effective range

	attendedMost = 256 // images
	maskImages   = 50  // compared with masks
	tsnePoints   = 250 // patches
)

// attention contains the measurements of attention and features from one pass over images.
type attention struct {
	rows    []int     // of the dataset: the images
	from    []float64 // [tokens] the weight of each token in the prediction
	rings   rings
	spreads [][][]headSpread // [layer][head][image], without ByDistance
	weights [][][]float64    // [layer][head][rings] mean weight by distance
	class   [][]float64      // [image][patches] last layer, head mean: the attention of the prediction
	rollout [][]float64      // [image][patches]
	shown   [][]float32      // [layer][heads·tokens·tokens] of the first image
	last    []float64        // [points, width] patch features of the last block, of some images
	pooled  [][]float64      // [layer][images·width] mean-pooled patch features of each block
}

// prediction returns the weight of each token in the prediction, those of the pool: the mean of both if it concatenates
// two vectors.
func (s *subject) prediction() []float64 {
	from := make([]float64, s.grid.tokens())
	weights := s.model.Recipe.Model.PoolWeights(s.grid.patches(), len(from))
	for i, w := range weights {
		from[i%len(from)] += float64(w) * float64(len(from)) / float64(len(weights))
	}
	return from
}

// layerWeights is the number of weights of a layer.
func (s *subject) layerWeights() int {
	c := s.model.Recipe.Model
	return c.Heads * c.Tokens() * c.Tokens()
}

// batch returns the number of images in a batch.
func (s *subject) batch(images int) int {
	return max(1, min(32, images, weightBytes/(4*s.model.Recipe.Model.Depth*s.layerWeights())))
}

// attendedImages is the number of images whose attention in all layers is evaluated.
func (s *subject) attendedImages() int {
	return min(s.Images.Len(), attendedMost, max(1, weightWork/(s.model.Recipe.Model.Depth*s.layerWeights())))
}

// ofAttention is an analysis of the attention of a model on images, which is computed once.
func ofAttention(do func(*subject, *attention) error) func(*subject) error {
	return func(s *subject) error {
		v, err := s.attended()
		if err != nil {
			return err
		}
		s.used = len(v.rows)
		return do(s, v)
	}
}

func (s *subject) attended() (*attention, error) {
	if err := s.attends(); s.attention != nil || err != nil {
		return s.attention, err
	}
	c := s.model.Recipe.Model
	size := s.layerWeights()
	v := &attention{rows: s.even(s.attendedImages()), from: s.prediction(), rings: s.grid.rings(),
		pooled: make([][]float64, c.Depth)}
	for range c.Depth {
		weights := make([][]float64, c.Heads)
		for h := range weights {
			weights[h] = make([]float64, len(v.rings.Distances))
		}
		v.spreads, v.weights = append(v.spreads, make([][]headSpread, c.Heads)), append(v.weights, weights)
	}
	s.Logger.Info(fmt.Sprintf("attention weights: %.2g MiB per image; fused attention is off",
		float64(4*c.Depth*size)/(1<<20)), "model", s.Name)
	choose := func(t *vit.Trace) (nodes []*Node) {
		for _, block := range t.Blocks {
			nodes = append(nodes, block.Weights, ReduceMean(SliceAxis(block.Output, 1, AxisRange(c.Prefix())), 1))
		}
		return append(nodes, SliceAxis(t.Blocks[c.Depth-1].Output, 1, AxisRange(c.Prefix())))
	}
	err := s.model.Activations(s.Images.Subset(v.rows), s.batch(len(v.rows)), choose,
		func(_ int, values [][]float32) error {
			for k := range len(values[0]) / size {
				v.add(s, values, k)
			}
			return nil
		})
	if err == nil {
		s.attention = v
	}
	return v, err
}

// add evaluates image k of a batch: weights and pooled features of each layer, then the patches of the last.
func (v *attention) add(s *subject, values [][]float32, k int) {
	c := s.model.Recipe.Model
	tokens, n := c.Tokens(), s.grid.patches()
	size := c.Heads * tokens * tokens
	layers := make([][]float32, c.Depth)
	for l := range layers {
		layers[l] = values[2*l][k*size : (k+1)*size]
		for h, head := range slices.Collect(slices.Chunk(layers[l], tokens*tokens)) {
			spread := v.rings.spread(head, rangeShare)
			for r, w := range spread.ByDistance {
				v.weights[l][h][r] += w / float64(len(v.rows))
			}
			spread.ByDistance = nil
			v.spreads[l][h] = append(v.spreads[l][h], spread)
		}
		v.pooled[l] = append(v.pooled[l], wide(values[2*l+1][k*c.Width:(k+1)*c.Width])...)
	}
	if some := min(len(v.rows), max(1, tsnePoints/n)); slices.Contains(numeric.Spread(some, len(v.rows)), len(v.class)) {
		v.last = append(v.last, wide(values[2*c.Depth][k*n*c.Width:(k+1)*n*c.Width])...)
	}
	v.rollout = append(v.rollout, rolloutRow(layers, c.Heads, v.from)[s.grid.Prefix:])
	v.class = append(v.class, s.attendedBy(v.from, layers[c.Depth-1]))
	if v.shown == nil {
		for _, layer := range layers {
			v.shown = append(v.shown, slices.Clone(layer))
		}
	}
}

func wide(values []float32) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = float64(v)
	}
	return out
}

// attendedBy returns the weight of each patch in a layer, mean over heads and over queries with the weights from.
func (s *subject) attendedBy(from []float64, weights []float32) []float64 {
	tokens, prefix := s.grid.tokens(), s.grid.Prefix
	heads := len(weights) / (tokens * tokens)
	out := make([]float64, s.grid.patches())
	for h := range heads {
		for q, part := range from {
			for k := range out {
				out[k] += part / float64(heads) * float64(weights[(h*tokens+q)*tokens+prefix+k])
			}
		}
	}
	return out
}

// attends returns the reason if the model has no attention over a grid of patches.
func (s *subject) attends() error {
	switch r := s.model.Recipe; {
	case r.Architecture == finetune.ONNX:
		return notApplicable(onnxHasLogits)
	case r.Architecture != "":
		return notApplicable("the attention of the model has additional head tokens")
	case r.Aspect == finetune.AspectKeep:
		return notApplicable("the images have several sizes")
	}
	return nil
}

// byLayer is the analysis of one measure of attention, layer by layer.
func byLayer(measure, axis string, value func(headSpread) float64) func(*subject, *attention) error {
	return func(s *subject, v *attention) error {
		x, y := make([]float64, len(v.spreads)), make([]float64, len(v.spreads))
		name, _, _ := strings.Cut(measure, ",")
		heads := figure.Cloud{Title: name, Across: "layer", Down: axis}
		for l, layer := range v.spreads {
			var all []float64
			for h, images := range layer {
				var head []float64
				for _, image := range images {
					if number := value(image); !math.IsNaN(number) {
						head = append(head, number)
					}
				}
				mean := stat.Mean(head, nil)
				s.detail(measure, fmt.Sprintf("layer %d head %d", l+1, h+1), mean)
				if all = append(all, head...); !math.IsNaN(mean) {
					heads.X, heads.Y = append(heads.X, float64(l+1)), append(heads.Y, mean)
				}
			}
			x[l], y[l] = float64(l+1), stat.Mean(all, nil)
			s.measured(measure, fmt.Sprintf("layer %d", l+1), y[l])
		}
		s.line(name+", mean over heads", "layer", axis, figure.Line{X: x, Y: y})
		return s.show(name+" of each head", "One point per head.", func(w io.Writer) error {
			return figure.Clouds(w, []figure.Cloud{heads})
		})
	}
}

var distanceByLayer = byLayer("attention distance, patches", "distance (patches)",
	func(a headSpread) float64 { return a.Distance })

func distance(s *subject, v *attention) error {
	if err := distanceByLayer(s, v); err != nil {
		return err
	}
	distances := v.rings.Distances
	for _, l := range slices.Compact([]int{0, len(v.weights) - 1}) {
		mean := make([]float64, len(distances))
		for _, head := range v.weights[l] {
			for r, w := range head {
				mean[r] += w / float64(len(v.weights[l]))
			}
		}
		for r, d := range distances {
			s.detail("weight by distance", fmt.Sprintf("layer %d at %.6g", l+1, d), mean[r])
		}
		s.measured("correlation of attention weight and distance", fmt.Sprintf("layer %d", l+1), pearson(distances, mean))
		s.line(fmt.Sprintf("attention weight by distance, layer %d", l+1), "distance (patches)", "mean weight",
			figure.Line{X: distances, Y: mean})
	}
	return nil
}

func maps(s *subject, v *attention) error {
	g := s.grid
	queries := g.queries()
	var panels [][]figure.HeatMap
	for _, l := range slices.Compact([]int{0, len(v.shown) - 1}) {
		var row []figure.HeatMap
		for _, q := range queries {
			from := make([]float64, g.tokens())
			from[g.Prefix+q] = 1
			row = append(row, g.heatMap(l, q, s.attendedBy(from, v.shown[l])))
		}
		panels = append(panels, row)
	}
	var distances []float64
	for i := range g.patches() {
		distances = append(distances, g.distance(queries[0], i))
	}
	s.used = 1
	s.measured("correlation of attention weight and distance, from the centre", "layer 1, first image",
		pearson(distances, slices.Concat(panels[0][0].Values...)))
	return s.show("attention maps", "Mean over heads, first image. The query is outlined; the colour scale of each map "+
		"is from 0, white, to its largest weight, dark red.", func(w io.Writer) error { return figure.HeatMaps(w, panels) })
}

// queries are the patches whose attention is shown: the centre, the first and the last.
func (g grid) queries() []int {
	return slices.Compact([]int{g.Rows/2*g.Cols + g.Cols/2, 0, g.patches() - 1})
}

// heatMap shows the weights of all patches in a layer, from 0, for one query.
func (g grid) heatMap(layer, query int, weights []float64) figure.HeatMap {
	at := [2]int{query / g.Cols, query % g.Cols}
	return figure.HeatMap{Title: fmt.Sprintf("layer %d, from row %d, column %d", layer+1, at[0], at[1]), Positive: true,
		Down: "row (patches)", Across: "column (patches)", Outlined: &at, Limit: slices.Max(weights),
		Values: slices.Collect(slices.Chunk(weights, g.Cols))}
}

func rollout(s *subject, v *attention) error {
	var contrasts []float64
	for _, row := range v.rollout {
		contrasts = append(contrasts, stat.StdDev(row, nil)/stat.Mean(row, nil))
	}
	s.measured("coefficient of variation of the map", "", stat.Mean(contrasts, nil))
	shown := min(shownImages, len(v.rollout))
	return s.show("attention of the prediction", "From left to right: image, attention of the last layer, rollout "+
		"through all layers; red is the largest weight of each.", func(w io.Writer) error {
		return overlays(w, s.Images.Subset(v.rows[:shown]), s.grid, v.class[:shown], v.rollout[:shown])
	})
}

func tsne(s *subject, v *attention) error {
	n, g := len(v.last)/s.model.Recipe.Model.Width, s.grid
	if s.used = n / g.patches(); n < 10 {
		return notApplicable(fmt.Sprintf("t-SNE needs 10 patches, the images have %d", n))
	}
	rows, cols := g.positions()
	rows, cols = slices.Repeat(rows, n/g.patches()), slices.Repeat(cols, n/g.patches())
	quadrant := make([]int, n)
	for i := range quadrant {
		if 2*int(rows[i]) >= g.Rows {
			quadrant[i] = 2
		}
		if 2*int(cols[i]) >= g.Cols {
			quadrant[i]++
		}
	}
	s.measured("silhouette by quadrant, features", "", stat.Mean(numeric.Silhouettes(v.last, quadrant), nil))
	_, r2 := numeric.NearestR2(v.last, [][]float64{rows, cols}, 5)
	s.measured("R² of row and column, 5 nearest neighbours", "", r2)
	embedded, divergence := embed(v.last, n, s.Comparison.Seed)
	s.measured("silhouette by quadrant, t-SNE", "", stat.Mean(numeric.Silhouettes(embedded, quadrant), nil))
	s.detail("divergence, nats", "", divergence)
	x, y := make([]float64, n), make([]float64, n)
	for i := range n {
		x[i], y[i] = embedded[2*i], embedded[2*i+1]
	}
	return s.show("t-SNE of patch features", fmt.Sprintf("%d patches, ", n)+colourKey,
		byPosition("t-SNE dimension", x, y, rows, cols))
}

const colourKey = "coloured by row and by column of the patch: from blue, the first, to red, the last."

// byPosition draws points twice, coloured as colourKey describes.
func byPosition(axis string, x, y, rows, cols []float64) func(io.Writer) error {
	return func(w io.Writer) error {
		return figure.Clouds(w, []figure.Cloud{
			{Title: "by row", Across: axis + " 1", Down: axis + " 2", X: x, Y: y, Value: rows},
			{Title: "by column", Across: axis + " 1", Down: axis + " 2", X: x, Y: y, Value: cols}})
	}
}

func cka(s *subject, v *attention) error {
	if len(v.rows) < 8 {
		return notApplicable("CKA needs 8 images or more")
	}
	if s.isReference {
		s.reference.features, s.reference.pooled = v.rows, v.pooled
		another := func(m Model) bool { return m.Name == s.Name && m.Path != s.Path }
		if slices.ContainsFunc(s.Models, another) { // its column is a mean over seeds: without itself
			return nil
		}
	}
	if first := s.reference.features; !slices.Equal(first, v.rows) {
		return notApplicable(fmt.Sprintf("measured with %d images, the first model with %d", len(v.rows), len(first)))
	}
	for l, first := range s.reference.pooled[:min(len(v.pooled), len(s.reference.pooled))] {
		s.measured("unbiased linear CKA with the first model", fmt.Sprintf("layer %d", l+1),
			unbiasedCKA(first, v.pooled[l], len(v.rows)))
	}
	return nil
}

func masks(s *subject) error {
	if s.Mask == nil {
		return notApplicable("the dataset has no object masks: wepe analyze takes them from --masks")
	}
	v, err := s.attended()
	if err != nil {
		return err
	}
	measures := map[string][]float64{} // of each image with an object, NaN if undefined
	names := []string{"IoU at half of the range", "IoU at the median", "IoU at the 90th percentile",
		"point-biserial correlation"}
	var rows []int // of images with an object
	for _, i := range numeric.Spread(maskImages, len(v.rows)) {
		mask := s.Mask(v.rows[i])
		if !slices.Contains(mask, true) {
			continue
		}
		rows = append(rows, v.rows[i])
		values := numeric.MinMax(enlarge(v.rollout[i], s.grid.Rows, s.grid.Cols, s.Images.Height, s.Images.Width))
		for k, number := range []float64{iou(mask, values, 0.5), iou(mask, values, quantile(values, 0.5)),
			iou(mask, values, quantile(values, 0.9)), pointBiserial(mask, values)} {
			measures[names[k]] = append(measures[names[k]], number)
		}
	}
	if len(rows) == 0 {
		return notApplicable("no image has an object")
	}
	for _, name := range names {
		values := measures[name]
		defined, _ := bothDefined(values, values) // no correlation with a mask or map of one value
		s.used = len(defined)
		s.measured(name, "mean", stat.Mean(defined, nil))
		s.measured(name, "standard deviation", stat.StdDev(defined, nil))
		if slices.Equal(rows, s.reference.masks) {
			own, first := bothDefined(values, s.reference.overlaps[name])
			s.used = len(own)
			_, p := pairedT(own, first)
			s.measured(name, "p of the paired t-test against the first model", p)
		}
	}
	if s.isReference {
		s.reference.masks, s.reference.overlaps = rows, measures
	}
	return nil
}
