// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/internal/random"
)

// Indices of the tensors in Plan.Tensors and in the nodes passed to Augment.Images.
const (
	planIndices  = iota // int64 [batch]: rows of the dataset
	planLabels          // int32 [batch]: their labels
	planWindows         // float32 [batch, 8]: scale, offset, first and end of the window, by row then by column
	planCutout          // float32 [batch, 4]: box set to zero
	planPartners        // int64 [batch]: position in the batch of the image mixed in
	PlanMix             // float32 [1, 6]: box of the partner, weight of the image within it, λ of the labels
	PlanGrids           // int64 [batch]: index into preprocess.Grids of each image; 0 without grids
	PlanLen             // number of tensors
)

// Plan contains all random choices for one batch, drawn on the host. Boxes are top, left, bottom, right in output
// pixels, the last two exclusive.
type Plan struct {
	Indices  []int64
	Labels   []int32
	Windows  [][8]float32
	Cutout   [][4]float32
	Partners []int64
	Mix      [6]float32
	Grids    []int64
}

// window is the visible part of an image: whole pixels, possibly beyond the border (which is black).
type window struct {
	top, left, height, width int
	flip, flipUp             bool
}

// Plan draws the plan of one batch: the given rows of a dataset (or indices, see [Order]), as a function of (seed,
// epoch, index) for each image and of (seed, epoch, batch) for the mixing.
func (a Augment) Plan(s Dataset, seed int64, epoch, batch int, indices []int) *Plan {
	info := s.Describe()
	outHeight, outWidth := a.OutputSize(info.Height, info.Width)
	rows := make([]int, len(indices))
	for k, index := range indices {
		rows[k] = index % info.Len()
	}
	p := &Plan{
		Indices: make([]int64, len(rows)), Labels: make([]int32, len(rows)),
		Windows: make([][8]float32, len(rows)), Cutout: make([][4]float32, len(rows)), Grids: info.gridNumbers(rows),
	}
	for k, row := range rows {
		w := a.window(random.New(streamSample, seed, epoch, indices[k]), info.Height, info.Width)
		p.Indices[k], p.Labels[k] = int64(row), info.Labels[row]
		p.Windows[k] = w.lines(outHeight, outWidth)
		if a.Cutout > 0 { // of its own stream: the host may have drawn the crop
			r := random.New(streamCutout, seed, epoch, indices[k])
			p.Cutout[k] = box(r.IntN(outHeight), r.IntN(outWidth), a.Cutout, a.Cutout, outHeight, outWidth)
		}
	}
	a.mix(p, random.New(streamMix, seed, epoch, batch), outHeight, outWidth)
	return p
}

// window draws the visible part of an image.
func (a Augment) window(r *rand.Rand, height, width int) window {
	w := window{height: height, width: width}
	switch {
	case a.Pad > 0:
		w.top, w.left = r.IntN(2*a.Pad+1)-a.Pad, r.IntN(2*a.Pad+1)-a.Pad
	case a.crops():
		w = a.resizedCrop(r, height, width)
	}
	w.flip = r.Float64() < a.HFlip
	if a.VFlip > 0 {
		w.flipUp = r.Float64() < a.VFlip
	}
	return w
}

// resizedCrop is torchvision's RandomResizedCrop: ten tries at an area uniform in CropScale and a ratio log-uniform in
// CropRatio, then the largest centred window of an admissible ratio.
func (a Augment) resizedCrop(r *rand.Rand, height, width int) window {
	least, greatest := cmp.Or(a.CropRatio[0], 3.0/4), cmp.Or(a.CropRatio[1], 4.0/3)
	for range 10 {
		area := float64(height*width) * (a.CropScale[0] + r.Float64()*(a.CropScale[1]-a.CropScale[0]))
		ratio := math.Exp(math.Log(least) + r.Float64()*(math.Log(greatest)-math.Log(least)))
		w, h := int(math.Round(math.Sqrt(area*ratio))), int(math.Round(math.Sqrt(area/ratio)))
		if w > 0 && w <= width && h > 0 && h <= height {
			return window{top: r.IntN(height - h + 1), left: r.IntN(width - w + 1), height: h, width: w}
		}
	}
	w, h := width, height
	if ratio := float64(width) / float64(height); ratio < least {
		h = max(1, int(math.Round(float64(width)/least)))
	} else if ratio > greatest {
		w = max(1, int(math.Round(float64(height)*greatest)))
	}
	return window{top: (height - h) / 2, left: (width - w) / 2, height: h, width: w}
}

// lines returns the input positions of output line i along each axis: scale·i + offset, from source lines first…end-1
// only.
func (w window) lines(outHeight, outWidth int) (out [8]float32) {
	axis := func(start, length, outLength int, flip bool) [4]float32 {
		scale := float64(length) / float64(outLength)
		offset := scale/2 - 0.5
		if flip {
			scale, offset = -scale, float64(length)-1-offset
		}
		return [4]float32{float32(scale), float32(offset + float64(start)), float32(start), float32(start + length)}
	}
	rows, columns := axis(w.top, w.height, outHeight, w.flipUp), axis(w.left, w.width, outWidth, w.flip)
	copy(out[:4], rows[:])
	copy(out[4:], columns[:])
	return out
}

// mix draws the partner of each image, the box where it is mixed in and λ; without mixing the box is empty and λ is 1.
func (a Augment) mix(p *Plan, r *rand.Rand, height, width int) {
	p.Partners = make([]int64, len(p.Indices))
	for k, partner := range r.Perm(len(p.Indices)) {
		p.Partners[k] = int64(partner)
	}
	p.Mix = [6]float32{0, 0, 0, 0, 1, 1}
	if !a.mixes() || r.Float64() >= cmp.Or(a.MixProb, 1) {
		return
	}
	cut := a.CutmixAlpha > 0 && (a.MixupAlpha == 0 || r.Float64() < cmp.Or(a.SwitchProb, 0.5))
	if !cut {
		lambda := float32(beta(r, a.MixupAlpha))
		p.Mix = [6]float32{0, 0, float32(height), float32(width), lambda, lambda}
		return
	}
	side := math.Sqrt(1 - beta(r, a.CutmixAlpha))
	b := box(r.IntN(height), r.IntN(width), int(side*float64(height)), int(side*float64(width)), height, width)
	area := float64(b[2]-b[0]) * float64(b[3]-b[1])
	p.Mix = [6]float32{b[0], b[1], b[2], b[3], 0, float32(1 - area/float64(height*width))} // λ of the box as clipped
}

// box returns top, left, bottom, right of a box around a centre, clipped at the border.
func box(row, column, boxHeight, boxWidth, height, width int) [4]float32 {
	top, left := row-boxHeight/2, column-boxWidth/2
	return [4]float32{
		float32(max(0, top)), float32(max(0, left)),
		float32(min(height, top+boxHeight)), float32(min(width, left+boxWidth)),
	}
}

// Tensors returns the plan as new tensors, in the order of the Plan… constants.
func (p *Plan) Tensors() []*tensors.Tensor {
	n := len(p.Indices)
	windows, cutout := make([]float32, 0, 8*n), make([]float32, 0, 4*n)
	for k := range n {
		windows, cutout = append(windows, p.Windows[k][:]...), append(cutout, p.Cutout[k][:]...)
	}
	return []*tensors.Tensor{
		planIndices:  tensors.FromFlatDataAndDimensions(p.Indices, n),
		planLabels:   tensors.FromFlatDataAndDimensions(p.Labels, n),
		planWindows:  tensors.FromFlatDataAndDimensions(windows, n, 8),
		planCutout:   tensors.FromFlatDataAndDimensions(cutout, n, 4),
		planPartners: tensors.FromFlatDataAndDimensions(p.Partners, n),
		PlanMix:      tensors.FromFlatDataAndDimensions(p.Mix[:], 1, 6),
		PlanGrids:    tensors.FromFlatDataAndDimensions(p.Grids, n),
	}
}

// Streams separate the draws for different purposes with the same seed, epoch and index.
const (
	streamOrder uint64 = iota + 1
	streamSample
	streamMix
	streamFraction
	streamSplit
	streamShapes
	streamChange
	streamCutout
)

// Order returns the indices that an epoch visits, of a dataset of n images: a permutation of 0…n-1, or with repeats
// above 1 its first n/repeats rows, each that many times in a row with another draw (Hoffer et al. 2020,
// https://arxiv.org/abs/1901.09335, as DeiT's RASampler), so that an epoch keeps its length. The k-th repetition of a
// row has the index row + k·n, which seeds its draws; index mod n is the row.
func Order(seed int64, epoch, n, repeats int) []int {
	order := random.New(streamOrder, seed, epoch, 0).Perm(n)
	if repeats < 2 {
		return order
	}
	repeated := make([]int, n)
	for i := range repeated {
		repeated[i] = order[i/repeats] + i%repeats*n
	}
	return repeated
}

// drawRows chooses k of n rows uniformly without replacement and returns them and the others, each in order.
func drawRows(stream uint64, seed int64, n, k int) (rows, others []int) {
	order := random.New(stream, seed, 0, 0).Perm(n)
	slices.Sort(order[:k])
	slices.Sort(order[k:])
	return order[:k], order[k:]
}

// beta draws from Beta(alpha, alpha) as Gₐ/(Gₐ+G_b) of two gamma variates, in logarithms because for mixup's small
// alpha both may underflow.
func beta(r *rand.Rand, alpha float64) float64 {
	a, b := logGamma(r, alpha), logGamma(r, alpha)
	return 1 / (1 + math.Exp(b-a))
}

// logGamma draws the logarithm of a Gamma(alpha, 1) variate: Marsaglia and Tsang, "A simple method for generating gamma
// variables" (2000), for alpha+1, reduced to alpha by a factor U^(1/alpha).
func logGamma(r *rand.Rand, alpha float64) float64 {
	d := alpha + 1 - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(1-r.Float64()) < 0.5*x*x+d-d*v+d*math.Log(v) { // 1-U is never 0
			return math.Log(d*v) + math.Log(1-r.Float64())/alpha
		}
	}
}
