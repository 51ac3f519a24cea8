// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/vit/position"
)

// Encoding returns the encoding of each patch, row by row. vectors are what an additive encoding adds, [Rows·Cols,
// width], or the factors of a modulation less 1, for the queries, keys and values of all blocks, [Rows·Cols,
// depth·n·width]; nil for other encodings. features [Rows·Cols, len(names)] are those before the projection, if any.
func (m *Model) Encoding() (features []float64, names []string, vectors []float64, err error) {
	exec, err := model.NewExec(m.backend, m.store, func(scope *model.Scope, g *Graph) []*Node {
		encoder := m.Recipe.Model.Encoder(scope.In(modelScope))
		var outputs []*Node
		if adder, ok := position.As[position.Adder](encoder); ok {
			// Times one: a variable that is itself an output comes back wrong from the onnx backend.
			encoder, outputs = adder, []*Node{MulScalar(adder.Encode(g), 1)}
		} else if scaler, ok := position.As[position.Scaler](encoder); ok {
			var factors []*Node
			for block := range m.Recipe.Model.Depth {
				for _, scale := range scaler.Scale(g, block) {
					if scale != nil {
						factors = append(factors, scale)
					}
				}
			}
			encoder, outputs = scaler, []*Node{AddScalar(Concatenate(factors, -1), -1)}
		} else {
			return []*Node{ScalarZero(g, dtypes.Float32)}
		}
		if e, ok := encoder.(interface {
			Features(g *Graph) *Node // of each patch
			FeatureNames() []string
		}); ok {
			outputs, names = append(outputs, e.Features(g)), e.FeatureNames()
		}
		return outputs
	})
	if err != nil {
		return nil, nil, nil, err
	}
	defer exec.Finalize()
	outputs, err := exec.Call()
	if err != nil {
		return nil, nil, nil, err
	}
	flat := make([][]float64, len(outputs))
	for i, o := range outputs {
		if err := o.ConstFlatData(func(data any) {
			for _, v := range data.([]float32) {
				flat[i] = append(flat[i], float64(v))
			}
		}); err != nil {
			return nil, nil, nil, err
		}
	}
	if shape := outputs[0].Shape(); shape.Rank() == 2 {
		patches := m.Recipe.Model.Rows() * m.Recipe.Model.Cols()
		vectors = flat[0][(shape.Dim(0)-patches)*shape.Dim(1):] // without the prefix
	}
	if len(flat) > 1 {
		features = flat[1]
	}
	return features, names, vectors, nil
}

// eachEncoder returns the encoders of the model. A graph of the model has built them, unless images have several grids.
func (m *Model) eachEncoder() []position.Encoder {
	if m.encoder == nil {
		m.encoder = m.Recipe.Model.Encoder(m.store.Scope("/" + modelScope))
	}
	return position.Parts(m.encoder)
}

// scalars returns the learned scalars of the encoding for the log; nil for encodings without any. The second of two of
// one name is called NAME of ENCODING.
func (m *Model) scalars() (map[string]report.JSONFloat, error) {
	var out map[string]report.JSONFloat
	for i, encoder := range m.eachEncoder() {
		learns, ok := encoder.(interface {
			Scalars() (map[string]float64, error)
		})
		if !ok {
			continue
		}
		values, err := learns.Scalars()
		if err != nil {
			return nil, err
		}
		for name, value := range values {
			if out == nil {
				out = map[string]report.JSONFloat{}
			}
			if _, twice := out[name]; twice {
				name += " of " + m.Recipe.Model.Encoding()[i].Name
			}
			out[name] = report.JSONFloat(value)
		}
	}
	return out, nil
}

// warnings returns the warnings of the encoding before training, one line each.
func (m *Model) warnings() (lines []string) {
	for _, encoder := range m.eachEncoder() {
		if e, ok := encoder.(interface{ Warning() string }); ok && e.Warning() != "" {
			lines = append(lines, e.Warning())
		}
	}
	return lines
}
