// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// fitRank is what (9.4) takes for zero: singular values below this part of the largest.
const fitRank = 1e-2

// Start moves the last layer of the blended encoding to where ParamStart says, mathematics.md (9.3) to (9.5). Call
// it once, with the pretrained rows in place, before training: all that it changes are values of ordinary variables.
// The backend evaluates the encoding; the rest is float64 on the host.
func (h *Hybrid) Start(backend compute.Backend) error {
	if h.start == StartDrawn {
		return nil
	}
	var last lastLayer
	switch e := h.encoding.(type) {
	case *SurrogateEncoder:
		last = lastLayer{inputs: e.hiddenRows, dense: e.output, offset: e.offset, scale: 1}
	case *Encoder:
		scalars, err := rawScalars(e.scope, nameBetaPos)
		if err != nil {
			return err
		}
		final := e.projection.final
		last = lastLayer{
			inputs: func(g *Graph) *Node { return e.projection.hiddenRows(e.Features(g)) },
			dense:  final.dense, gain: final.gain, offset: final.offset, scale: scalars[nameBetaPos],
		}
	default:
		return fmt.Errorf("wepe: %s = %q: not for %s", ParamStart, h.start, h.encoding.Name())
	}
	if err := h.startFrom(last, backend); err != nil {
		return fmt.Errorf("wepe: %s = %q: %w", ParamStart, h.start, err)
	}
	return nil
}

// lastLayer makes the rows of an encoding: scale·(gain·normalise(inputs·weights + biases) + offset), or without gain
// inputs·weights + biases + offset.
type lastLayer struct {
	inputs func(*Graph) *Node // [rows·cols, inputs]
	dense
	gain, offset *model.Variable // [width]
	scale        float64
}

func (h *Hybrid) startFrom(last lastLayer, backend compute.Backend) error {
	value, err := h.pretrained.Value()
	if err != nil {
		return err
	}
	table, err := hostMatrix(value)
	if err != nil {
		return err
	}
	table = table.Slice(h.prefix, h.positions(), 0, h.width).(*mat.Dense) // [rows·cols, width]
	evaluate := func(build func(*Graph) *Node) (*mat.Dense, error) {
		value, err := model.CallOnce(backend, h.scope.Store(), func(_ *model.Scope, g *Graph) *Node { return build(g) })
		if err != nil {
			return nil, err
		}
		return hostMatrix(value)
	}
	fitted := h.start == StartFitted
	if fitted {
		inputs, err := evaluate(last.inputs)
		if err != nil {
			return err
		}
		solution, err := leastSquares(inputs, table) // [inputs + 1, width]
		if err != nil {
			return err
		}
		n, _ := solution.Dims()
		if err := assign(last.weights, solution.RawMatrix().Data[:(n-1)*h.width]); err != nil {
			return err
		}
		if err := assign(last.biases, solution.RawRowView(n-1)); err != nil {
			return err
		}
	}
	rows, err := evaluate(h.encoding.Encode) // [rows·cols, width]
	if err != nil {
		return err
	}
	gains, offsets := make([]float64, h.width), make([]float64, h.width)
	for j := range h.width {
		x, y := mat.Col(nil, j, rows), mat.Col(nil, j, table)
		gains[j] = 1
		if fitted && last.gain != nil {
			gains[j] = 0
			if variance := stat.Variance(x, nil); variance > 0 {
				gains[j] = stat.Covariance(x, y, nil) / variance
			}
		}
		offsets[j] = (stat.Mean(y, nil) - gains[j]*stat.Mean(x, nil)) / last.scale
	}
	if last.gain != nil {
		if err := assign(last.gain, gains); err != nil {
			return err
		}
	}
	return assign(last.offset, offsets)
}

// leastSquares returns the smallest solution [inputs + 1, outputs] of [x 1]·solution ≈ y, (9.4).
func leastSquares(x, y mat.Matrix) (*mat.Dense, error) {
	n, _ := x.Dims()
	ones := mat.NewDense(n, 1, nil)
	ones.Apply(func(int, int, float64) float64 { return 1 }, ones)
	var affine, solution mat.Dense
	affine.Augment(x, ones)
	var svd mat.SVD
	if !svd.Factorize(&affine, mat.SVDThin) {
		return nil, fmt.Errorf("no singular values of the %d hidden rows: they are not finite", n)
	}
	svd.SolveTo(&solution, y, svd.Rank(fitRank))
	return &solution, nil
}

// hostMatrix returns a float32 tensor [n, m] in float64.
func hostMatrix(t *tensors.Tensor) (*mat.Dense, error) {
	flat, err := tensors.CopyFlatData[float32](t)
	if err != nil {
		return nil, err
	}
	values := make([]float64, len(flat))
	for i, v := range flat {
		values[i] = float64(v)
	}
	dims := t.Shape().Dimensions
	return mat.NewDense(dims[0], dims[1], values), nil
}

// assign sets all elements of a variable.
func assign(v *model.Variable, values []float64) error {
	return v.SetValue(filled(v.DType(), values, v.Shape().Dimensions...))
}
