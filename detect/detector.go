// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"fmt"
	"image"
	"slices"
	"sync"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
)

// Scopes of a detector's variables, below the detector's scope.
const (
	backboneScope = "backbone"
	pyramidScope  = "pyramid"
	rpnScope      = "rpn"
	roiScope      = "roi"
	maskScope     = "mask" // in roiScope
)

// Detector is a Config with its variables, on a backend. It is not safe for concurrent use.
//
// Not all backends can sort, so inference has three programs with the host between them: one proposes boxes in images,
// one classifies proposals, and one predicts masks.
type Detector struct {
	Config     Config
	Rows, Cols int // pixels of the canvas for images; at first the training size

	scope                        *model.Scope
	proposer, classifier, masker *model.Exec
}

// New returns the detector of a configuration. Variables that are not in scope are initialized on first use.
func New(backend compute.Backend, scope *model.Scope, config Config) (*Detector, error) {
	config = config.WithDefaults()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	d := &Detector{Config: config, Rows: config.Backbone.ImageRows, Cols: config.Backbone.ImageCols, scope: scope}
	for _, program := range []struct {
		exec  **model.Exec
		graph func(c Config, scope *model.Scope, in []*Node) []*Node
	}{{&d.proposer, proposerGraph}, {&d.classifier, classifierGraph}, {&d.masker, maskerGraph}} {
		*program.exec = model.MustNewExec(backend, scope.Store(), func(root *model.Scope, in []*Node) []*Node {
			return program.graph(config, root.Store().Scope(scope.Scope()), in)
		})
	}
	return d, nil
}

// Finalize frees the detector's memory on the backend, except for its variables. The detector cannot be used
// afterwards.
func (d *Detector) Finalize() {
	for _, exec := range []*model.Exec{d.proposer, d.classifier, d.masker} {
		exec.Finalize()
	}
}

// maps returns the pyramid for pixels [batch, rows, cols, 3] of images of sizes [batch, 2].
func (c Config) maps(scope *model.Scope, pixels, sizes *Node) []*Node {
	trace := c.Backbone.trace(scope.In(backboneScope), c.normalized(pixels, sizes), false)
	return pyramid(scope.In(pyramidScope), trace.Output, c.Channels)
}

// anchors returns the anchors of a canvas, and their number up to each map.
func (c Config) anchors(rows, cols int) (all []Box, ends []int) {
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
	return append([]*Node{logits, propose(by, constant(logits.Graph(), anchors))}, maps[:pooledLevels]...)
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
	proposals [][]Box
	maps      []*tensors.Tensor
}

// finalize frees the maps.
func (s proposed) finalize() {
	for _, x := range s.maps {
		_ = x.FinalizeAll() // the garbage collector frees the rest
	}
}

// propose runs the first program on pixels uint8 [batch, rows, cols, 3].
func (d *Detector) propose(pixels *tensors.Tensor, sizes [][2]int, before, after int) (s proposed, err error) {
	out, err := d.proposer.Call(pixels, sizeTensor(sizes))
	if err != nil {
		return s, fmt.Errorf("detect: %w", err)
	}
	s = proposed{sizes: sizes, maps: out[2:]}
	logits, err := tensors.CopyFlatData[float32](out[0])
	if err != nil {
		return s, err
	}
	boxes, err := boxesIn(out[1])
	if err != nil {
		return s, err
	}
	_, ends := d.Config.anchors(pixels.Shape().Dim(1), pixels.Shape().Dim(2))
	n := ends[len(ends)-1]
	s.proposals = make([][]Box, len(sizes))
	var images sync.WaitGroup
	for i, size := range sizes {
		images.Go(func() {
			s.proposals[i], _ = d.Config.RPN.proposals(logits[i*n:(i+1)*n], boxes[i*n:(i+1)*n], ends, size[0], size[1], before,
				after)
		})
	}
	images.Wait()
	return s, nil
}

// boxesIn returns the boxes of a tensor [..., 4].
func boxesIn(x *tensors.Tensor) ([]Box, error) {
	flat, err := tensors.CopyFlatData[float32](x)
	boxes := make([]Box, len(flat)/4)
	for i := range boxes {
		boxes[i] = Box(flat[4*i:])
	}
	return boxes, err
}

// Detect returns the detections in each image, highest score first. Images are fitted into the canvas, keeping their
// aspect ratio; boxes and masks are in pixels of the image.
func (d *Detector) Detect(images ...image.Image) ([][]Detection, error) {
	if len(images) == 0 {
		return nil, nil
	}
	c := d.Config
	if err := c.CheckCanvas(d.Rows, d.Cols); err != nil {
		return nil, err
	}
	pixels, sizes, err := canvas(images, d.Rows, d.Cols)
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
	side := 2 * c.ROI.MaskSize
	for i, size := range sizes {
		rows, cols := images[i].Bounds().Dy(), images[i].Bounds().Dx()
		all, keep := scaled(found[i], float64(rows)/float64(size[0]), float64(cols)/float64(size[1]), rows, cols)
		for k := range all {
			if masks != nil {
				all[k].Mask = paste(masks[i][keep[k]*side*side:(keep[k]+1)*side*side], side, all[k].Box, rows, cols)
			}
		}
		found[i] = all
	}
	return found, nil
}

// classify runs the second program: detections in the pixels of the canvas, without masks.
func (d *Detector) classify(s proposed) (found [][]Detection, err error) {
	c, n := d.Config, d.Config.RPN.After.Test
	var padded []Box
	for _, boxes := range s.proposals {
		padded = append(append(padded, boxes...), make([]Box, n-len(boxes))...)
	}
	inputs := []any{boxTensor(padded, len(s.proposals), n), sizeTensor(s.sizes)}
	out, err := d.classifier.Call(append(inputs, anys(s.maps)...)...)
	if err != nil {
		return nil, fmt.Errorf("detect: %w", err)
	}
	scores, err := tensors.CopyFlatData[float32](out[0])
	if err != nil {
		return nil, err
	}
	boxes, err := boxesIn(out[1])
	if err != nil {
		return nil, err
	}
	perScore, perBox := len(scores)/len(padded), len(boxes)/len(padded)
	for i, own := range s.proposals {
		first, last := i*n, i*n+len(own)
		found = append(found, c.ROI.detections(scores[first*perScore:last*perScore], boxes[first*perBox:last*perBox],
			c.Backbone.Classes))
	}
	return found, nil
}

// maskProbabilities runs the third program: for each image the probabilities of its detections' masks, concatenated.
func (d *Detector) maskProbabilities(s proposed, found [][]Detection) (masks [][]float32, err error) {
	most := 0 // maximum number of detections per image
	for _, all := range found {
		most = max(most, len(all))
	}
	if most == 0 || d.Config.ROI.NoMasks {
		return nil, nil
	}
	most = filledTo(most)
	boxes, classes := make([]Box, len(found)*most), make([]int64, len(found)*most)
	for i, all := range found {
		for k, one := range all {
			boxes[i*most+k], classes[i*most+k] = one.Box, int64(one.Class)
		}
	}
	inputs := []any{boxTensor(boxes, len(found), most), tensors.FromFlatDataAndDimensions(classes, len(found), most)}
	out, err := d.masker.Call(append(inputs, anys(s.maps)...)...)
	if err != nil {
		return nil, fmt.Errorf("detect: %w", err)
	}
	flat, err := tensors.CopyFlatData[float32](out[0])
	return slices.Collect(slices.Chunk(flat, max(1, len(flat)/len(found)))), err
}

func anys[T any](list []T) []any {
	out := make([]any, len(list))
	for i, x := range list {
		out[i] = x
	}
	return out
}
