// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
	"gonum.org/v1/gonum/mat"

	"github.com/wepe-go/wepe/internal/figure"
	"github.com/wepe-go/wepe/vit"
)

// depth measures, layer by layer, how much of the position is left in the tokens and in attention.
func depth(s *subject) error {
	if err := s.attends(); err != nil {
		return err
	}
	c, n, images := s.model.Recipe.Model, s.grid.patches(), s.attendedImages()
	if n < 2 || images/2*n <= 2*c.Width {
		return notApplicable(fmt.Sprintf("a regression on %d features needs more than %d patches in half of the images",
			c.Width, 2*c.Width))
	}
	readouts, shares := make([]*readout, c.Depth+1), make([]*meanShare, c.Depth)
	for l := range readouts {
		readouts[l] = newReadout(s.grid, c.Width)
	}
	for l := range shares {
		shares[l] = newMeanShare(c.Heads, n*n)
	}
	choose := func(t *vit.Trace) []*Node {
		nodes := []*Node{SliceAxis(t.Tokens, 1, AxisRange(s.grid.Prefix))}
		for _, block := range t.Blocks {
			nodes = append(nodes, SliceAxis(block.Output, 1, AxisRange(s.grid.Prefix)))
		}
		for _, block := range t.Blocks {
			nodes = append(nodes, Slice(block.Weights, AxisRange(), AxisRange(), AxisRange(s.grid.Prefix),
				AxisRange(s.grid.Prefix)))
		}
		return nodes
	}
	err := s.model.Activations(s.Images.Subset(s.even(images)), s.batch(images), choose,
		func(first int, values [][]float32) error {
			for l, r := range readouts {
				for k := range len(values[l]) / (n * c.Width) {
					r.add(first+k, values[l][k*n*c.Width:(k+1)*n*c.Width])
				}
			}
			for l, m := range shares {
				m.add(values[len(readouts)+l])
			}
			return nil
		})
	if err != nil {
		return err
	}
	var x, position, share []float64
	for l, r := range readouts {
		at := "input"
		if l > 0 {
			at = fmt.Sprintf("layer %d", l)
		}
		x, position = append(x, float64(l)), append(position, r.r2())
		s.measured("R² of row and column, linear", at, position[l])
	}
	for l, m := range shares {
		share = append(share, 100*m.share())
		s.measured("attention variance due to position, %", fmt.Sprintf("layer %d", l+1), share[l])
	}
	s.line("row and column in the tokens", "layer (0: input)", "R²", figure.Line{X: x, Y: position})
	s.line("attention variance due to position", "layer", "share (%)", figure.Line{X: x[1:], Y: share})
	return nil
}

// readout predicts row and column of a patch from its token by linear regression, fitted to every second image and
// tested on the others.
type readout struct {
	grid
	width int
	grams [2]*mat.SymDense // Σ uuᵀ over the patches of both halves, u = [token, 1, row, column]
}

func newReadout(g grid, width int) *readout {
	return &readout{g, width, [2]*mat.SymDense{mat.NewSymDense(width+3, nil), mat.NewSymDense(width+3, nil)}}
}

// add adds the tokens [patches, width] of an image.
func (r *readout) add(image int, tokens []float32) {
	u := mat.NewDense(r.patches(), r.width+3, nil)
	for k := range r.patches() {
		u.SetRow(k, append(wide(tokens[k*r.width:(k+1)*r.width]), 1, float64(k/r.Cols), float64(k%r.Cols)))
	}
	gram := r.grams[image%2]
	gram.SymRankK(gram, 1, u.T())
}

// r2 is R² on the second half, row and column together; NaN if the tokens do not vary or are not finite.
func (r *readout) r2() float64 {
	fitted, tested, w := r.grams[0], r.grams[1], r.width
	count := fitted.At(w, w)
	covariance := func(i, j int) float64 {
		return fitted.At(i, j)/count - fitted.At(i, w)/count*fitted.At(j, w)/count
	}
	tokens, trace := mat.NewSymDense(w, nil), 0.0
	for i := range w {
		for j := i; j < w; j++ {
			tokens.SetSym(i, j, covariance(i, j))
		}
		trace += covariance(i, i)
	}
	for i := range w {
		tokens.SetSym(i, i, tokens.At(i, i)+1e-9*trace/float64(w)) // for constant and dependent features
	}
	var cholesky mat.Cholesky
	if !cholesky.Factorize(tokens) {
		return undefined
	}
	errors, total := 0.0, 0.0
	for target := w + 1; target < w+3; target++ {
		with, residual := mat.NewVecDense(w, nil), mat.NewVecDense(w+3, nil) // residual·u is the error of a prediction
		for i := range w {
			with.SetVec(i, covariance(i, target))
		}
		if err := cholesky.SolveVecTo(with, with); err != nil {
			return undefined
		}
		bias := fitted.At(target, w) / count
		for i := range w {
			residual.SetVec(i, with.AtVec(i))
			bias -= with.AtVec(i) * fitted.At(i, w) / count
		}
		residual.SetVec(w, bias)
		residual.SetVec(target, -1)
		errors += mat.Inner(residual, tested, residual)
		total += tested.At(target, target) - tested.At(target, w)*tested.At(target, w)/tested.At(w, w)
	}
	return 1 - errors/total
}

// meanShare is the share of the variance of attention weights over images and pairs of patches that their mean over
// images has: 1 if they depend on positions only, about 1/images if not at all.
type meanShare struct {
	heads, pairs int
	images       float64
	sums         []float64 // [heads·pairs]
	squares      float64
}

func newMeanShare(heads, pairs int) *meanShare {
	return &meanShare{heads: heads, pairs: pairs, sums: make([]float64, heads*pairs)}
}

// add adds weights [images, heads, pairs].
func (m *meanShare) add(weights []float32) {
	for i, w := range weights {
		m.sums[i%len(m.sums)] += float64(w)
		m.squares += float64(w) * float64(w)
	}
	m.images += float64(len(weights) / len(m.sums))
}

// share is the share, all heads together, each less its mean weight.
func (m *meanShare) share() float64 {
	between, total := 0.0, m.squares
	for h := range m.heads {
		sum := 0.0
		for _, v := range m.sums[h*m.pairs : (h+1)*m.pairs] {
			sum += v
			between += v * v / m.images
		}
		grand := sum * sum / (m.images * float64(m.pairs))
		between, total = between-grand, total-grand
	}
	if total < 1e-12*m.squares { // all weights of a head are equal, but for rounding
		return undefined
	}
	return between / total
}
