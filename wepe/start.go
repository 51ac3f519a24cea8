// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"errors"
	"fmt"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/wepe-go/wepe/internal/weight"
)

// fitRank is the ratio to the largest singular value below which (9.4) treats a singular value as zero.
const fitRank = 1e-2

// Start implements Encoder.
func (h *hybrid) Start(backend compute.Backend) error {
	if h.start == startDrawn {
		return nil
	}
	if err := h.moveTo(backend); err != nil {
		return fmt.Errorf("wepe: %s = %q: %w", ParamStart, h.start, err)
	}
	return nil
}

func (h *hybrid) moveTo(backend compute.Backend) error {
	evaluate := func(build func(*Graph) *Node) (*mat.Dense, error) {
		value, err := model.CallOnce(backend, h.scope.Store(), func(_ *model.Scope, g *Graph) *Node { return build(g) })
		if err != nil {
			return nil, err
		}
		numbers, err := elements(value)
		if err != nil {
			return nil, err
		}
		return mat.NewDense(len(numbers)/h.width, h.width, numbers), nil
	}
	all, err := flat(h.pretrained)
	if err != nil {
		return err
	}
	table := mat.NewDense(h.rows*h.cols, h.width, all[h.prefix*h.width:])
	if e, ok := h.Encoder.(*surrogateEncoder); ok && h.start == startFitted {
		hidden, err := evaluate(e.hiddenRows) // [rows·cols, width]
		if err != nil {
			return err
		}
		if err := fit(e.output, hidden, table); err != nil {
			return err
		}
	}
	rows, err := evaluate(h.Encoder.Encode) // [rows·cols, width]
	if err != nil {
		return err
	}
	offset, scale, err := lastOffset(h.Encoder)
	if err != nil {
		return err
	}
	present, err := flat(offset)
	if err != nil {
		return err
	}
	moved := make([]float64, h.width)
	for j := range moved {
		apart := stat.Mean(mat.Col(nil, j, table), nil) - stat.Mean(mat.Col(nil, j, rows), nil)
		moved[j] = present[j] + apart/scale
	}
	return assign(offset, moved)
}

// lastOffset returns the offset that ends an encoding, and its factor.
func lastOffset(encoding Encoder) (offset *model.Variable, scale float64, err error) {
	switch e := encoding.(type) {
	case *surrogateEncoder:
		return e.offset, 1, nil
	case *encoder:
		scalars, err := e.Scalars()
		if err == nil && scalars[nameBetaPos] == 0 {
			err = errors.New("β_pos is 0, so no offset can change the rows")
		}
		return e.projection.final.norm.Offset, scalars[nameBetaPos], err
	}
	return nil, 0, fmt.Errorf("%s has no offset", encoding.Name())
}

// fit sets a layer to the smallest solution of [x 1]·[weights; biases] ≈ y in least squares, for x [n, inputs] and
// y [n, outputs], mathematics.md (9.4).
func fit(d weight.Linear, x, y mat.Matrix) error {
	n, inputs := x.Dims()
	ones := mat.NewDense(n, 1, nil)
	ones.Apply(func(int, int, float64) float64 { return 1 }, ones)
	var affine, solution mat.Dense // [n, inputs + 1], [inputs + 1, outputs]
	affine.Augment(x, ones)
	var svd mat.SVD
	if !svd.Factorize(&affine, mat.SVDThin) {
		return errors.New("no singular values: the hidden rows are not finite")
	}
	svd.SolveTo(&solution, y, svd.Rank(fitRank))
	return errors.Join(assign(d.Biases, solution.RawRowView(inputs)),
		assign(d.Weights, solution.RawMatrix().Data[:inputs*solution.RawMatrix().Stride]))
}

// elements returns the elements of a float32 tensor.
func elements(value *tensors.Tensor) ([]float64, error) {
	numbers, err := tensors.CopyFlatData[float32](value)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(numbers))
	for i, v := range numbers {
		out[i] = float64(v)
	}
	return out, nil
}

// flat returns the elements of a float32 variable.
func flat(v *model.Variable) ([]float64, error) {
	value, err := v.Value()
	if err != nil {
		return nil, fmt.Errorf("wepe: variable %q: %w", v.Path(), err)
	}
	return elements(value)
}

// assign sets all elements of a variable.
func assign(v *model.Variable, values []float64) error {
	return v.SetValue(filled(values, v.Shape().Dimensions...))
}
