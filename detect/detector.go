// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"cmp"
	"fmt"
	"image"
	"math"
	"slices"
	"sync"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/detect/scenes"
	"github.com/wepe-go/wepe/finetune/engine"
)

// Scopes of a detector's variables. They are a file format.
const (
	detectorScope = "/detector" // the others are below it
	backboneScope = "backbone"
	pyramidScope  = "pyramid"
	rpnScope      = "rpn"
	roiScope      = "roi"
	maskScope     = "mask" // in roiScope
)

// Detector is a network with its variables, on a backend, trained or in training. It is not safe for concurrent use.
//
// Not all backends can sort, so inference has three programs with the host between them: one proposes boxes in images,
// one classifies proposals, and one predicts masks.
type Detector struct {
	Recipe     Recipe
	Categories []coco.Category // by class
	Rows, Cols int             // pixels of the canvas for images; at first the training size

	store                        *model.Store
	proposer, classifier, masker *model.Exec
}

// newDetector returns a detector whose weights are drawn when its first program is compiled. The recipe is
// resolved.
func newDetector(b compute.Backend, recipe Recipe, categories []coco.Category, seed int64) (*Detector, error) {
	store, err := engine.NewStore(recipe.Params, seed)
	if err != nil {
		return nil, err
	}
	c := recipe.Detector
	program := func(graph func(c Config, scope *model.Scope, in []*Node) []*Node) *model.Exec {
		return model.MustNewExec(b, store, func(root *model.Scope, in []*Node) []*Node {
			return graph(c, root.Store().Scope(detectorScope), in)
		}).SetMaxCache(-1) // a graph for each size of a batch and its canvas: GoMLX would refuse the 33rd
	}
	return &Detector{Recipe: recipe, Categories: categories, Rows: c.Backbone.ImageRows, Cols: c.Backbone.ImageCols,
		store: store, proposer: program(proposerGraph), classifier: program(classifierGraph), masker: program(maskerGraph),
	}, nil
}

// Open loads the trained detector of a run's directory, ready for Detect: its best checkpoint if it has one, otherwise
// its last.
func Open(backend compute.Backend, dir string) (*Detector, error) {
	checkpoint, _, err := checkpoints.Find(dir, "")
	if err != nil {
		return nil, err
	}
	if checkpoint == nil {
		return nil, fmt.Errorf("detect: no checkpoint in %s: train with this directory first", dir)
	}
	s, err := stateOf(checkpoint)
	if err != nil {
		return nil, err
	}
	d, err := newDetector(backend, s.Recipe, s.Categories, s.Seed)
	if err != nil {
		return nil, err
	}
	return d, checkpoint.Load(d.store, func(variable string) bool { return !ofDetector(variable) })
}

// Finalize frees the detector's memory on the backend. It cannot be used afterwards.
func (d *Detector) Finalize() {
	for _, exec := range []*model.Exec{d.proposer, d.classifier, d.masker} {
		exec.Finalize()
	}
	d.store.Finalize()
}

// maps returns the pyramid for pixels [batch, rows, cols, 3] of images of sizes [batch, 2].
func (c Config) maps(scope *model.Scope, pixels, sizes *Node) []*Node {
	trace := c.Backbone.trace(scope.In(backboneScope), c.normalized(pixels, sizes), false)
	return pyramid(scope.In(pyramidScope), trace.Output, c.Channels)
}

// anchors returns the anchors of a canvas, and their number up to each map.
func (c Config) anchors(rows, cols int) (all []rect, ends []int) {
	rows, cols = rows/c.Backbone.PatchSize, cols/c.Backbone.PatchSize
	last := [2]int{rows / 2, cols / 2}
	return c.RPN.anchors([][2]int{{4 * rows, 4 * cols}, {2 * rows, 2 * cols}, {rows, cols}, last,
		{(last[0] + 1) / 2, (last[1] + 1) / 2}}, c.strides())
}

// regions returns the heads on the maps for pooling.
func (c Config) regions(maps []*Node) regions {
	return regions{c.ROI, c.Backbone.Classes, maps[:pooledLevels], c.strides()}
}

// proposerGraph takes pixels and sizes; it returns the logits and the boxes of all anchors, and the maps.
func proposerGraph(c Config, scope *model.Scope, in []*Node) []*Node {
	maps := c.maps(scope, in[0], in[1])
	logits, by := c.RPN.head(scope.In(rpnScope), maps)
	d := in[0].Shape().Dimensions
	anchors, _ := c.anchors(d[1], d[2])
	boxes := rpnDeltas.decode(by, InsertAxes(constant(logits.Graph(), anchors), 0)) // [batch, anchors, 4]
	return append([]*Node{logits, boxes}, maps[:pooledLevels]...)
}

// classifierGraph takes proposals, sizes and maps; it returns the probabilities and boxes of regions.results.
func classifierGraph(c Config, scope *model.Scope, in []*Node) []*Node {
	r := c.regions(in[2:])
	scores, boxes := r.results(r.boxHeads(scope.In(roiScope), in[0], in[1]), in[1])
	return []*Node{scores, boxes}
}

// maskerGraph takes boxes, classes and maps; it returns the probabilities of masks, [batch·n, side, side].
func maskerGraph(c Config, scope *model.Scope, in []*Node) []*Node {
	r := c.regions(in[2:])
	return []*Node{Sigmoid(r.ofClass(r.masks(scope.In(roiScope).In(maskScope), in[0]), in[1]))}
}

// proposed is the output of the first program for a batch of images.
type proposed struct {
	sizes     [][2]int
	proposals [][]rect
	maps      []any // *tensors.Tensor
}

// finalize frees the maps.
func (s proposed) finalize() {
	for _, x := range s.maps {
		_ = x.(*tensors.Tensor).FinalizeAll() // the garbage collector frees the rest
	}
}

// propose runs the first program on pixels uint8 [batch, rows, cols, 3].
func (d *Detector) propose(pixels *tensors.Tensor, sizes [][2]int, before, after int) (s proposed, err error) {
	values, maps, err := call(d.proposer, 2, pixels, sizeTensor(sizes))
	if err != nil {
		return s, err
	}
	s = proposed{sizes: sizes, maps: maps}
	logits, boxes := values[0], boxesIn(values[1])
	c := d.Recipe.Detector
	_, ends := c.anchors(pixels.Shape().Dim(1), pixels.Shape().Dim(2))
	n := ends[len(ends)-1]
	s.proposals = make([][]rect, len(sizes))
	var images sync.WaitGroup
	for i, size := range sizes {
		images.Go(func() {
			s.proposals[i], _ = c.RPN.proposals(logits[i*n:(i+1)*n], boxes[i*n:(i+1)*n], ends, size, before, after)
		})
	}
	images.Wait()
	return s, nil
}

// Detect returns the objects in each image, highest score first. Images are fitted into the canvas, keeping their
// aspect ratio; boxes and masks are in pixels of the image.
func (d *Detector) Detect(images ...image.Image) ([][]scenes.Object, error) {
	return d.detect(d.Rows, d.Cols, images...)
}

func (d *Detector) detect(rows, cols int, images ...image.Image) ([][]scenes.Object, error) {
	if len(images) == 0 {
		return nil, nil
	}
	c := d.Recipe.Detector
	if err := c.checkCanvas(rows, cols); err != nil {
		return nil, err
	}
	pixels, sizes, err := canvas(images, rows, cols)
	if err != nil {
		return nil, err
	}
	s, err := d.propose(pixels, sizes, c.RPN.Before.Test, c.RPN.After.Test)
	defer s.finalize()
	if err != nil {
		return nil, err
	}
	found, err := d.classify(s)
	if err != nil {
		return nil, err
	}
	masks, err := d.maskProbabilities(s, found)
	if err != nil {
		return nil, err
	}
	all := make([][]scenes.Object, len(images))
	for i, img := range images {
		all[i] = objects(found[i], masks[i], 2*c.ROI.MaskSize, sizes[i], [2]int{img.Bounds().Dy(), img.Bounds().Dx()})
	}
	return all, nil
}

// classify runs the second program: detections in the pixels of the canvas.
func (d *Detector) classify(s proposed) (found [][]detection, err error) {
	c, n := d.Recipe.Detector, d.Recipe.Detector.RPN.After.Test
	var padded []rect
	for _, boxes := range s.proposals {
		padded = append(append(padded, boxes...), make([]rect, n-len(boxes))...)
	}
	inputs := []any{boxTensor(padded, len(s.proposals), n), sizeTensor(s.sizes)}
	values, _, err := call(d.classifier, 2, append(inputs, s.maps...)...)
	if err != nil {
		return nil, err
	}
	scores, boxes := values[0], boxesIn(values[1])
	perScore, perBox := len(scores)/len(padded), len(boxes)/len(padded)
	for i, own := range s.proposals {
		first, last := i*n, i*n+len(own)
		found = append(found, c.ROI.detections(scores[first*perScore:last*perScore], boxes[first*perBox:last*perBox],
			c.Backbone.Classes))
	}
	return found, nil
}

// maskProbabilities runs the third program: for each image the probabilities of its detections' masks, concatenated;
// nil without masks.
func (d *Detector) maskProbabilities(s proposed, found [][]detection) (masks [][]float32, err error) {
	most := len(slices.MaxFunc(found, func(a, b []detection) int { return cmp.Compare(len(a), len(b)) }))
	if most == 0 || d.Recipe.Detector.ROI.NoMasks {
		return make([][]float32, len(found)), nil
	}
	most = filledTo(most)
	boxes, classes := make([]rect, len(found)*most), make([]int64, len(found)*most)
	for i, all := range found {
		for k, one := range all {
			boxes[i*most+k], classes[i*most+k] = one.box, int64(one.class)
		}
	}
	inputs := []any{boxTensor(boxes, len(found), most), tensors.FromFlatDataAndDimensions(classes, len(found), most)}
	values, _, err := call(d.masker, 1, append(inputs, s.maps...)...)
	if err != nil {
		return nil, err
	}
	return slices.Collect(slices.Chunk(values[0], len(values[0])/len(found))), nil
}

// call runs a program and returns the values of its first n outputs, float32, and the other outputs.
func call(program *model.Exec, n int, inputs ...any) (values [][]float32, others []any, err error) {
	out, err := program.Call(inputs...)
	if err != nil {
		return nil, nil, fmt.Errorf("detect: %w", err)
	}
	for i, x := range out {
		if i >= n {
			others = append(others, x)
			continue
		}
		flat, err := tensors.CopyFlatData[float32](x)
		if err != nil {
			return nil, nil, fmt.Errorf("detect: %w", err)
		}
		values = append(values, flat)
	}
	return values, others, nil
}

// detection is a detected object, in pixels of the canvas.
type detection struct {
	box   rect
	class int
	score float32 // 0 to 1
}

// detections returns the best of boxes [n, classes or 1] with probabilities [n, classes+1], the last one for
// background: every pair of a box and a class with a score above the threshold, without those that overlap a better one
// of the same class, by decreasing score.
func (r ROI) detections(scores []float32, boxes []rect, classes int) []detection {
	var all, kept []detection
	each := classes
	if r.agnostic() {
		each = 1
	}
	for i := range len(boxes) / each {
		for k := range classes {
			s, box := scores[i*(classes+1)+k], boxes[i*each+k%each]
			if s > float32(r.ScoreThreshold) && finite(box.area()) {
				all = append(all, detection{box, k, s})
			}
		}
	}
	for _, i := range nms(all, float32(r.NMSIoU), r.MaxDetections) {
		kept = append(kept, all[i])
	}
	return kept
}

// objects rescales detections in an image whose size on the canvas is fitted to the image's own size, rows and cols,
// and clips them; empty ones are dropped. masks has side² probabilities for each, or is nil.
func objects(found []detection, masks []float32, side int, fitted, size [2]int) (all []scenes.Object) {
	down, across := float64(size[0])/float64(fitted[0]), float64(size[1])/float64(fitted[1])
	for i, d := range found {
		for k := range d.box {
			d.box[k] *= float32([2]float64{across, down}[k%2])
		}
		if d.box = d.box.clip(size); d.box.empty() {
			continue
		}
		x, y := float64(d.box[0]), float64(d.box[1])
		o := scenes.Object{Class: d.class, Score: float64(d.score),
			Box: coco.Box{x, y, float64(d.box[2]) - x, float64(d.box[3]) - y}}
		if masks != nil {
			o.Mask = coco.Encode(paste(masks[i*side*side:(i+1)*side*side], side, d.box, size), size[0], size[1])
		}
		all = append(all, o)
	}
	return all
}

// paste puts a mask of probabilities, side × side cells of a box, into an image of a size: a pixel belongs to the
// object if the probability at its centre, bilinear between the cells and 0 outside, is at least ½.
func paste(mask []float32, side int, box rect, size [2]int) []bool {
	rows, cols := size[0], size[1]
	pixels := make([]bool, rows*cols)
	at := func(pixel int, begin, end float32) float64 { // in cells, from the centre of the first
		return (float64(pixel)+0.5-float64(begin))/float64(end-begin)*float64(side) - 0.5
	}
	cell := func(row, col int) float64 {
		if row < 0 || row >= side || col < 0 || col >= side {
			return 0
		}
		return float64(mask[row*side+col])
	}
	// A pixel whose centre is outside the box is less than ½: at the border the mask is half of its last cell.
	top, bottom := max(0, int(box[1])), min(rows, int(math.Ceil(float64(box[3]))))
	left, right := max(0, int(box[0])), min(cols, int(math.Ceil(float64(box[2]))))
	for row := top; row < bottom; row++ {
		y := at(row, box[1], box[3])
		up := math.Floor(y)
		for col := left; col < right; col++ {
			x := at(col, box[0], box[2])
			before := math.Floor(x)
			i, j, v, h := int(up), int(before), y-up, x-before
			p := (1-v)*((1-h)*cell(i, j)+h*cell(i, j+1)) + v*((1-h)*cell(i+1, j)+h*cell(i+1, j+1))
			pixels[row*cols+col] = p >= 0.5
		}
	}
	return pixels
}

// normalized returns pixels uint8 [batch, rows, cols, 3] as float32, normalized by mean and deviation; pixels beyond
// the images of sizes [batch, 2] are zero.
func (c Config) normalized(pixels, sizes *Node) *Node {
	g, d := pixels.Graph(), pixels.Shape().Dimensions
	mean, scale := make([]float32, 3*d[2]), make([]float32, 3*d[2]) // of a whole row: a last axis of three is slow
	for i := range mean {
		mean[i], scale[i] = float32(255*c.Mean[i%3]), float32(1/(255*c.Std[i%3]))
	}
	x := ConvertDType(Reshape(pixels, d[0], d[1], -1), dtypes.Float32) // [batch, rows, cols·3]
	x = Mul(Sub(x, Const(g, [][][]float32{{mean}})), Const(g, [][][]float32{{scale}}))
	within := func(axis int, each float64) *Node { // 1 within the image along rows or columns, repeated each times
		positions := Iota(g, shapes.Make(dtypes.Float32, 1, x.Shape().Dim(1+axis)), 1)
		inside := LessThan(positions, MulScalar(SliceAxis(sizes, 1, AxisRange(axis, axis+1)), each))
		return InsertAxes(ConvertDType(inside, dtypes.Float32), 2-axis) // [batch, rows, 1] or [batch, 1, cols·3]
	}
	return Reshape(Mul(x, Mul(within(0, 1), within(1, 3))), d...)
}

// canvas resizes images to fit into rows × cols pixels, keeping their aspect ratio, at the top left: uint8 [batch,
// rows, cols, 3] and their sizes there.
func canvas(images []image.Image, rows, cols int) (pixels *tensors.Tensor, sizes [][2]int, err error) {
	flat := make([]uint8, 0, len(images)*rows*cols*3)
	for i, img := range images {
		if img == nil || img.Bounds().Empty() {
			return nil, nil, fmt.Errorf("detect: image %d has no pixels", i)
		}
		p := data.FromImage(img)
		scale := min(float64(rows)/float64(p.Height), float64(cols)/float64(p.Width))
		fit := func(side int) int { return max(1, int(math.Round(float64(side)*scale))) }
		size := [2]int{fit(p.Height), fit(p.Width)}
		flat = append(flat, p.Resize(size[0], size[1], preprocess.Bilinear).Window(0, 0, rows, cols).Pixels...)
		sizes = append(sizes, size)
	}
	return tensors.FromFlatDataAndDimensions(flat, len(images), rows, cols, 3), sizes, nil
}

// sizeTensor returns sizes as float32 [batch, 2].
func sizeTensor(sizes [][2]int) *tensors.Tensor {
	var flat []float32
	for _, size := range sizes {
		flat = append(flat, float32(size[0]), float32(size[1]))
	}
	return tensors.FromFlatDataAndDimensions(flat, len(sizes), 2)
}
