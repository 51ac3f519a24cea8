// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

	. "github.com/gomlx/gomlx/core/graph"
	"gonum.org/v1/gonum/stat"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/vit"
)

// Bounds of one look at attention.
const (
	weightBytes = 256 << 20 // of all layers, in one batch; one image may take more
	weightWork  = 1 << 31   // weights measured on the host: at least one image's
	rangeShare  = 0.9       // of the weight, that the effective range holds
)

// seen is what one pass over images has shown of attention and features.
type seen struct {
	spreads [][][]Spread  // [layer][head][image], without what is long
	weights [][][]float64 // [layer][head][rings] mean weight by distance
	class   [][]float64   // [image][patches] last layer, head mean: what the answer attends to
	rollout [][]float64   // [image][patches]
	shown   [][]float32   // [layer][heads·tokens·tokens] of the first image
	last    []float32     // [points, width] patch features of the last block, of the first images
	points  int
	pooled  [][]float64 // [layer][images·width] patch features of each block, mean over patches
	images  int
}

// answer is whose row of the attention the answer is read from: the class token's, or equal parts of all patches'.
func (s *subject) answer() []float64 {
	from := make([]float64, s.grid.Tokens())
	if s.model.Recipe.Model.Pool != vit.PoolMean {
		from[0] = 1
		return from
	}
	for i := s.grid.Prefix; i < len(from); i++ {
		from[i] = 1 / float64(s.grid.Patches())
	}
	return from
}

// batch is how many images are looked at at once.
func (s *subject) batch(images int) int {
	c := s.model.Recipe.Model
	return max(1, min(32, images, weightBytes/(4*c.Depth*c.Heads*c.Tokens()*c.Tokens())))
}

// attended runs the model on images, once.
func (s *subject) attended() (*seen, error) {
	if s.seen != nil {
		return s.seen, nil
	}
	if err := s.attends(); err != nil {
		return nil, err
	}
	c := s.model.Recipe.Model
	tokens, n, rings := c.Tokens(), s.grid.Patches(), s.grid.Rings()
	size := c.Heads * tokens * tokens // weights of a layer
	v := &seen{images: min(s.Images.Len(), 256, max(1, weightWork/(c.Depth*size)))}
	for range c.Depth {
		v.spreads = append(v.spreads, make([][]Spread, c.Heads))
		weights := make([][]float64, c.Heads)
		for h := range weights {
			weights[h] = make([]float64, len(rings.Distances))
		}
		v.weights = append(v.weights, weights)
	}
	v.pooled = make([][]float64, c.Depth)
	s.log(fmt.Sprintf("%s: attention with its weights, %.1f MiB an image, in place of the fused operation", s.Name,
		float64(4*c.Depth*size)/(1<<20)))
	from := s.answer()
	choose := func(t *vit.Trace) (nodes []*Node) {
		for _, block := range t.Blocks {
			patches := SliceAxis(block.Output, 1, AxisRange(c.Prefix()))
			nodes = append(nodes, block.Weights, ReduceMean(patches, 1))
		}
		return append(nodes, SliceAxis(t.Blocks[c.Depth-1].Output, 1, AxisRange(c.Prefix())))
	}
	err := s.model.Look(
		data.First(s.Images, v.images),
		s.batch(v.images),
		choose,
		func(first int, values [][]float32) error {
			for k := range len(values[0]) / size {
				layers := make([][]float32, c.Depth)
				for l := range layers {
					layers[l] = values[2*l][k*size : (k+1)*size]
					for h, head := range slices.Collect(slices.Chunk(layers[l], tokens*tokens)) {
						spread, err := rings.Spread(head, rangeShare)
						if err != nil {
							return err
						}
						for r, w := range spread.ByDistance {
							v.weights[l][h][r] += w / float64(v.images)
						}
						spread.Ranges, spread.ByDistance = nil, nil
						v.spreads[l][h] = append(v.spreads[l][h], spread)
					}
					for _, f := range values[2*l+1][k*c.Width : (k+1)*c.Width] {
						v.pooled[l] = append(v.pooled[l], float64(f))
					}
				}
				rollout, err := Rollout{}.Row(layers, c.Heads, from)
				if err != nil {
					return err
				}
				v.rollout = append(v.rollout, rollout[s.grid.Prefix:])
				v.class = append(v.class, s.answered(layers[c.Depth-1], from))
				if first+k == 0 {
					for _, layer := range layers {
						v.shown = append(v.shown, slices.Clone(layer))
					}
				}
				if v.points == 0 || v.points+n <= tsnePoints {
					v.last = append(v.last, values[2*c.Depth][k*n*c.Width:(k+1)*n*c.Width]...)
					v.points += n
				}
			}
			return nil
		},
	)
	if err != nil {
		return nil, err
	}
	s.seen = v
	return v, nil
}

// answered is the weight that the answer gives to each patch in a layer, mean over heads.
func (s *subject) answered(weights []float32, from []float64) []float64 {
	tokens, prefix := s.grid.Tokens(), s.grid.Prefix
	heads := len(weights) / (tokens * tokens)
	out := make([]float64, s.grid.Patches())
	for h := range heads {
		for q, part := range from {
			for k := range out {
				out[k] += part / float64(heads) * float64(weights[(h*tokens+q)*tokens+prefix+k])
			}
		}
	}
	return out
}

// attends says why the model has no attention over a grid of patches, if it has none.
func (s *subject) attends() error {
	if s.model.Recipe.Architecture != "" {
		return NotHere("its attention has tokens of its own for heads, which no grid of patches shows")
	}
	return nil
}

// spread tells one number of attention layer by layer.
func spread(measure, axis string, value func(Spread) float64) func(*subject) error {
	return func(s *subject) error {
		v, err := s.attended()
		if err != nil {
			return err
		}
		x, y := make([]float64, len(v.spreads)), make([]float64, len(v.spreads))
		heads := report.Cloud{Title: measure}
		for l, layer := range v.spreads {
			var all []float64
			for h, images := range layer {
				var head []float64
				for _, image := range images {
					if number := value(image); !math.IsNaN(number) {
						head = append(head, number)
					}
				}
				mean := meanOf(head)
				s.detail(measure, fmt.Sprintf("layer %d head %d", l+1, h+1), mean)
				if all = append(all, head...); !math.IsNaN(mean) {
					heads.X, heads.Y = append(heads.X, float64(l+1)), append(heads.Y, mean)
				}
			}
			x[l], y[l] = float64(l+1), meanOf(all)
			s.measured(measure, fmt.Sprintf("layer %d", l+1), y[l])
		}
		s.line(measure, "layer", axis, report.Line{X: x, Y: y})
		heads.Value = heads.Y
		return s.show("each head", "A point for every head, by layer.", func(w io.Writer) error {
			return report.Clouds(w, []report.Cloud{heads})
		})
	}
}

func meanOf(values []float64) float64 {
	if len(values) == 0 {
		return undefined
	}
	return stat.Mean(values, nil)
}

var distanceByLayer = spread("attention distance, patches", "distance (patches)",
	func(a Spread) float64 { return a.Distance })

func distance(s *subject) error {
	if err := distanceByLayer(s); err != nil {
		return err
	}
	v, err := s.attended()
	if err != nil {
		return err
	}
	rings := s.grid.Rings()
	for _, l := range slices.Compact([]int{0, len(v.weights) - 1}) {
		mean := make([]float64, len(rings.Distances))
		for _, head := range v.weights[l] {
			for r, w := range head {
				mean[r] += w / float64(len(v.weights[l]))
			}
		}
		for r, d := range rings.Distances {
			s.detail("weight by distance", fmt.Sprintf("layer %d at %.3g", l+1, d), mean[r])
		}
		s.measured("correlation of weight and distance", fmt.Sprintf("layer %d", l+1), pearson(rings.Distances,
			mean))
		s.line(fmt.Sprintf("weight of a pair of patches, layer %d", l+1), "distance (patches)", "mean weight",
			report.Line{X: rings.Distances, Y: mean})
	}
	return nil
}

func maps(s *subject) error {
	v, err := s.attended()
	if err != nil {
		return err
	}
	tokens, g := s.grid.Tokens(), s.grid
	heads := s.model.Recipe.Model.Heads
	queries := slices.Compact([]int{g.Rows/2*g.Cols + g.Cols/2, 0, g.Patches() - 1})
	var panels [][]report.HeatMap
	for _, l := range slices.Compact([]int{0, len(v.shown) - 1}) {
		var row []report.HeatMap
		for _, q := range queries {
			h := report.HeatMap{Title: fmt.Sprintf("layer %d, from row %d, column %d", l+1, q/g.Cols, q%g.Cols), Positive: true,
				Down: "row (patches)", Across: "column (patches)",
				Outlined: &[2]int{q / g.Cols, q % g.Cols}}
			for r := range g.Rows {
				line := make([]float64, g.Cols)
				for c := range line {
					for head := range heads {
						line[c] += float64(v.shown[l][(head*tokens+g.Prefix+q)*tokens+g.Prefix+r*g.Cols+c]) / float64(heads)
					}
				}
				h.Values = append(h.Values, line)
				h.Limit = max(h.Limit, slices.Max(line))
			}
			row = append(row, h)
		}
		panels = append(panels, row)
	}
	first := pearson(distancesFrom(g, queries[0]), flat(panels[0][0].Values))
	s.measured("correlation of weight and distance, from the centre", "layer 1, first image", first)
	return s.show("where patches look",
		"Mean over heads, for the first image; the query is outlined, each map as red as its "+
			"largest weight.", func(w io.Writer) error { return report.HeatMaps(w, panels) })
}

func distancesFrom(g Grid, query int) []float64 {
	out := make([]float64, g.Patches())
	for i := range out {
		out[i] = g.Distance(query, i)
	}
	return out
}

func flat(rows [][]float64) []float64 { return slices.Concat(rows...) }

func rollout(s *subject) error {
	v, err := s.attended()
	if err != nil {
		return err
	}
	var spreads []float64
	for _, row := range v.rollout {
		spreads = append(spreads, stat.StdDev(row, nil)/stat.Mean(row, nil))
	}
	s.measured("contrast of the map, deviation/mean", "", meanOf(spreads))
	shown := min(s.Shown, len(v.rollout))
	return s.show("what the answer looks at",
		"From left to right: the picture, the weights of the last layer, and rollout "+
			"through all layers; each as red as its largest.", func(w io.Writer) error {
			return overlays(w, s.Images, s.grid, v.class[:shown], v.rollout[:shown])
		})
}

// tsnePoints bounds the patches that are embedded.
const tsnePoints = 250

func tsne(s *subject) error {
	v, err := s.attended()
	if err != nil {
		return err
	}
	n, g := v.points, s.grid
	points := make([]float64, len(v.last))
	for i, f := range v.last {
		points[i] = float64(f)
	}
	quadrant, rows, cols := make([]int, n), make([]float64, n), make([]float64, n)
	for i := range n {
		row, col := i%g.Patches()/g.Cols, i%g.Cols
		rows[i], cols[i] = float64(row), float64(col)
		if 2*row >= g.Rows {
			quadrant[i] = 2
		}
		if 2*col >= g.Cols {
			quadrant[i]++
		}
	}
	if n < 10 {
		return NotHere(fmt.Sprintf("%d patches are too few", n))
	}
	apart, _ := silhouette(points, quadrant)
	_, r2 := Neighbours(points, [][]float64{rows, cols}, 5)
	s.measured("silhouette by quadrant, of features", "", apart)
	s.measured("R² of row and column from 5 nearest features", "", r2)
	embedded, divergence, err := TSNE{Seed: s.Look.Seed}.Embed(points, n)
	if err != nil {
		return err
	}
	apart, _ = silhouette(embedded, quadrant)
	s.measured("silhouette by quadrant, of t-SNE", "", apart)
	s.detail("divergence, nats", "", divergence)
	x, y := make([]float64, n), make([]float64, n)
	for i := range n {
		x[i], y[i] = embedded[2*i], embedded[2*i+1]
	}
	return s.show("patch features of the last block by t-SNE", fmt.Sprintf("%d patches, coloured by row and by column.",
		n),
		func(w io.Writer) error {
			return report.Clouds(w, []report.Cloud{{Title: "by row", X: x, Y: y, Value: rows},
				{Title: "by column", X: x, Y: y, Value: cols}})
		})
}

func likeness(s *subject) error {
	v, err := s.attended()
	if err != nil {
		return err
	}
	if v.images < 8 {
		return NotHere("fewer than 8 images")
	}
	if s.reference.features == nil {
		s.reference.images, s.reference.features = v.images, v.pooled
	}
	if first := s.reference.images; first != v.images {
		return NotHere(fmt.Sprintf("seen with %d images, the first model with %d", v.images, first))
	}
	for l, first := range s.reference.features[:min(len(v.pooled), len(s.reference.features))] {
		s.measured("unbiased linear CKA with the first model", fmt.Sprintf("layer %d", l+1),
			unbiasedCKA(first, v.pooled[l], v.images))
	}
	return nil
}

// maskImages is how many pictures maps are held to masks of.
const maskImages = 50

func masks(s *subject) error {
	if s.Mask == nil {
		return NotHere("these images come without masks of objects")
	}
	v, err := s.attended()
	if err != nil {
		return err
	}
	measures := map[string][]float64{}
	names := []string{"IoU at half of the range", "IoU of the highest half", "IoU of the highest tenth",
		"point-biserial correlation"}
	for i, row := range v.rollout[:min(maskImages, len(v.rollout))] {
		mask := s.Mask(i)
		if mask == nil {
			continue
		}
		values := MinMax(enlarge(row, s.grid.Rows, s.grid.Cols, s.Images.Height, s.Images.Width))
		correlation, _ := pointBiserial(mask, values)
		for k, number := range []float64{iou(mask, values, 0.5),
			iou(mask, values, quantile(values, 0.5)),
			iou(mask, values, quantile(values, 0.9)), correlation} {
			measures[names[k]] = append(measures[names[k]], number)
		}
	}
	if len(measures) == 0 {
		return NotHere("none of these images has an object")
	}
	for _, name := range names {
		values := measures[name]
		s.measured(name, "mean", meanOf(values))
		s.measured(name, "deviation", stat.StdDev(values, nil))
		if first := s.reference.masks[name]; len(first) == len(values) {
			_, p := pairedT(values, first)
			s.measured(name, "p of the paired difference to the first model", p)
		}
	}
	if s.reference.masks == nil {
		s.reference.masks = measures
	}
	return nil
}

// Of error against separation.
const (
	strongest = 5
	errorBins = 20
	fewImages = 10 // of a bin that says nothing
)

func separation(s *subject) error {
	if err := cmp.Or(s.answers(), s.attends()); err != nil {
		return err
	}
	c := s.model.Recipe.Model
	tokens, from := c.Tokens(), s.answer()
	size := c.Heads * tokens * tokens
	var separations []float64
	var wrong []bool
	images := min(s.Images.Len(), max(1, weightWork/size))
	err := s.model.Look(data.First(s.Images, images), s.batch(images),
		func(t *vit.Trace) []*Node { return []*Node{t.Blocks[c.Depth-1].Weights} },
		func(first int, values [][]float32) error {
			logits := slices.Collect(slices.Chunk(values[1], c.Classes))
			for k, weights := range slices.Collect(slices.Chunk(values[0], size)) {
				patches := Strongest(s.answered(weights, from), strongest)
				separations = append(separations, s.grid.Separation(patches))
				wrong = append(wrong, finetune.Rank(logits[k], s.Images.Labels[first+k]) > 0)
			}
			return nil
		})
	if err != nil {
		return err
	}
	bins := errorBySeparation(separations, wrong, errorBins, 0.005, 0.995)
	line := report.Line{}
	var rates, centres []float64
	for _, b := range bins {
		at := fmt.Sprintf("%.2f to %.2f patches", b.Low, b.High)
		s.detail("error rate", at, b.Rate)
		s.detail("images", at, float64(b.Images))
		if b.Images < fewImages {
			b.Rate = undefined
		} else {
			rates, centres = append(rates, b.Rate), append(centres, (b.Low+b.High)/2)
		}
		line.X, line.Y = append(line.X, (b.Low+b.High)/2), append(line.Y, b.Rate)
		line.Low, line.High = append(line.Low, b.Rate-b.Deviation), append(line.High, b.Rate+b.Deviation)
	}
	errors := make([]float64, len(wrong))
	for i, w := range wrong {
		if w {
			errors[i] = 1
		}
	}
	s.measured("mean separation, patches", "", meanOf(separations))
	s.measured("correlation of separation and error, images", "", pearson(separations, errors))
	s.measured("correlation of separation and error rate, bins of 10 images and more", "", pearson(centres,
		rates))
	s.line("wrong answers by how far apart the 5 strongest patches are", "mean distance (patches)", "error rate", line)
	return nil
}

// answers says why the model's answers cannot be compared with the labels, if they cannot.
func (s *subject) answers() error {
	if s.Start {
		return NotHere("it has not learned to answer yet")
	}
	if names := s.Images.Classes; len(names) != len(s.model.Classes) || len(names) < 2 {
		return NotHere(fmt.Sprintf("it knows %d classes, the images are of %d", len(s.model.Classes), len(names)))
	}
	return nil
}
