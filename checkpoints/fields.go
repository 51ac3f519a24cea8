// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/vit"
)

// refuse returns the error for an invalid value of a field.
func refuse(value any, want string) error { return errors.Errorf("%s, want %s", short(value), want) }

// whole returns a value that is an integer from low.
func whole(value any, low int) (int, error) {
	x, err := number(value)
	if err != nil || x != math.Trunc(x) || x < float64(low) || x > 1<<24 {
		return 0, refuse(value, "an integer from "+strconv.Itoa(low))
	}
	return int(x), nil
}

// orNil returns a value to write, or null.
func orNil(has bool, value any) any {
	if !has {
		return nil
	}
	return value
}

func number(value any) (float64, error) {
	switch x := value.(type) {
	case float64:
		return x, nil
	case int:
		return float64(x), nil
	}
	return 0, refuse(value, "a number")
}

// integer is a size of the model, of at least 1, or a number of registers, of at least 0.
func integer(key string, byDefault, least int, of func(*vit.Config) *int) field {
	return field{key: key, byDefault: byDefault,
		set: func(m *foreign, value any) (err error) {
			*of(&m.config), err = whole(value, least)
			return err
		},
		get: func(m *foreign) any { return *of(&m.config) },
	}
}

func registers(c *vit.Config) *int { return &c.Registers }

// square is the side of a patch: one number, or the same number twice.
func square(key string, byDefault int) field {
	return field{key: key, byDefault: byDefault,
		set: func(m *foreign, value any) error {
			rows, cols, ok := twoSides(value)
			if m.config.PatchSize = rows; !ok || rows != cols {
				return refuse(value, "the side of square patches")
			}
			return nil
		},
		get: func(m *foreign) any { return m.config.PatchSize },
	}
}

// pixels is the size of images: one number, or rows and columns.
func pixels(key string, byDefault int) field {
	return field{key: key, byDefault: byDefault,
		set: func(m *foreign, value any) (err error) {
			m.image, err = imageSize(value)
			return err
		},
		get: func(m *foreign) any {
			if m.config.ImageRows == m.config.ImageCols {
				return m.config.ImageRows
			}
			return []int{m.config.ImageRows, m.config.ImageCols}
		},
	}
}

// imageSize reads one number of pixels, [rows, cols] or [channels, rows, cols].
func imageSize(value any) (gridSize, error) {
	last := value
	if sides, ok := value.([]any); ok {
		last = sides[max(0, len(sides)-2):]
	}
	rows, cols, ok := twoSides(last)
	if !ok || max(rows, cols) > maxPixels {
		return gridSize{}, refuse(value, "pixels, one number or rows and columns, at most "+strconv.Itoa(maxPixels))
	}
	return gridSize{rows, cols}, nil
}

// twoSides reads one number for both sides, or rows and columns.
func twoSides(value any) (rows, cols int, ok bool) {
	sides, two := value.([]any)
	if !two {
		sides = []any{value, value}
	}
	if len(sides) != 2 {
		return 0, 0, false
	}
	rows, err := whole(sides[0], 1)
	cols, colsErr := whole(sides[1], 1)
	return rows, cols, err == nil && colsErr == nil
}

// maxPixels bounds the side of an image.
const maxPixels = 16384

// fraction is a number that transformers requires to have a fraction: 100 is written 100.0.
type fraction float64

// MarshalJSON writes the number with a point or an exponent.
func (x fraction) MarshalJSON() ([]byte, error) {
	raw, err := json.Marshal(float64(x))
	if err == nil && !strings.ContainsAny(string(raw), ".eE") {
		raw = append(raw, ".0"...)
	}
	return raw, err
}

// epsilon is the ε of the norms.
func epsilon(key string, byDefault float64) field {
	return field{key: key, byDefault: byDefault,
		set: func(m *foreign, value any) (err error) {
			if m.config.Epsilon, err = number(value); err == nil && !(m.config.Epsilon > 0 && m.config.Epsilon <= 1) {
				err = refuse(value, "more than 0 and at most 1")
			}
			return err
		},
		get: func(m *foreign) any { return fraction(m.config.Epsilon) },
	}
}

// layerScale is the initial value of the LayerScale factors. In models that may have none, 0 or null means none.
func layerScale(key string, byDefault any, none any, optional bool) field {
	return field{key: key, byDefault: byDefault, nullable: true,
		set: func(m *foreign, value any) (err error) {
			if value != nil {
				m.config.LayerScale, err = number(value)
			}
			if err == nil && m.config.LayerScale == 0 && !optional {
				err = refuse(value, "more than 0: models of this class have a LayerScale (layer_scale)")
			}
			return err
		},
		get: func(m *foreign) any {
			if m.config.LayerScale == 0 {
				return none
			}
			return fraction(m.config.LayerScale)
		},
	}
}

// boolean is an option that has the value of the entry or, inverted, its opposite.
func boolean(key string, byDefault, inverted bool, of ...func(*vit.Config) *bool) field {
	return field{key: key, byDefault: byDefault,
		set: func(m *foreign, value any) error {
			on, ok := value.(bool)
			if !ok {
				return refuse(value, "true or false")
			}
			for _, at := range of {
				*at(&m.config) = on != inverted
			}
			return nil
		},
		get: func(m *foreign) any { return *of[0](&m.config) != inverted },
	}
}

// words maps a value of another software to one of ours.
type words struct {
	theirs any
	ours   string
}

// choice is an option with named values; if several foreign values map to one of ours, the first is written.
func choice(key string, byDefault any, of func(*vit.Config) *string, table ...words) field {
	return field{key: key, byDefault: byDefault,
		set: func(m *foreign, value any) error {
			var known []string
			for _, w := range table {
				if w.theirs == value {
					*of(&m.config) = w.ours
					return nil
				}
				if word := short(w.theirs); !slices.Contains(known, word) {
					known = append(known, word)
				}
			}
			return refuse(value, strings.Join(known, " or "))
		},
		get: func(m *foreign) any {
			at := slices.IndexFunc(table, func(w words) bool { return w.ours == *of(&m.config) })
			return table[max(at, 0)].theirs
		},
	}
}

// gated is an activation that in a SwiGLU is silu.
func gated(plain field) field {
	return field{key: plain.key, byDefault: plain.byDefault,
		set: func(m *foreign, value any) error {
			switch {
			case !m.config.SwiGLU:
				return plain.set(m, value)
			case value != "silu" || m.config.Pool == "map":
				return refuse(value, `"silu" of a SwiGLU, and no pooling by "map"`)
			}
			return nil
		},
		get: func(m *foreign) any {
			if m.config.SwiGLU {
				return "silu"
			}
			return plain.get(m)
		},
	}
}

// only is a field that must have one value.
func only(key string, byDefault, want any) field {
	return field{key: key, byDefault: byDefault,
		set: func(_ *foreign, value any) error {
			if short(value) != short(want) {
				return refuse(value, short(want)+": this library has no other")
			}
			return nil
		},
		get: func(*foreign) any { return want },
	}
}

// unused are fields without effect on the features of an image of the model's own size.
func unused(keys ...string) (all []field) {
	for _, key := range keys {
		all = append(all, field{key: key})
	}
	return all
}

// rotation is a hyperparameter of an encoding. It is set only if it differs from the encoding's default here; null
// means off.
func rotation(key string, byDefault any, name string, ours, off float64) field {
	return field{key: key, byDefault: byDefault, nullable: true,
		set: func(m *foreign, value any) (err error) {
			x := off
			if value != nil {
				x, err = number(value)
			}
			if x != ours && slices.Contains(m.config.Encoding().Params(), name) {
				m.params[name] = x
			}
			return err
		},
		get: func(m *foreign) any {
			x, ok := m.params[name].(float64)
			if !ok {
				x = ours
			}
			if x == 0 && off == 0 {
				return nil
			}
			return fraction(x)
		},
	}
}

// hidden returns the hidden units for a ratio: software truncates the product.
func hidden(width int, ratio float64) int { return int(min(float64(width)*ratio, 1<<30)) }

// mlpRatio is the number of hidden units of the MLP, in units of the width.
var mlpRatio = field{key: "mlp_ratio", byDefault: 4.0, set: func(m *foreign, value any) error {
	ratio, err := number(value)
	m.config.MLPDim = hidden(m.config.Width, ratio)
	return err
}, get: func(m *foreign) any { return ratioOf(m.config.Width, m.config.MLPDim) }}

// ratioOf returns the ratio that gives these hidden units: software truncates the product, and 49·(5/49) is 4.99….
func ratioOf(width, units int) fraction {
	ratio := float64(units) / float64(width)
	for hidden(width, ratio) < units {
		ratio = math.Nextafter(ratio, math.Inf(1))
	}
	return fraction(ratio)
}

// without is a table of fields without some of them.
func without(fields []field, keys ...string) []field {
	return slices.DeleteFunc(slices.Clone(fields), func(f field) bool { return slices.Contains(keys, f.key) })
}

// replaced is a table of fields with some of them replaced.
func replaced(fields []field, others ...field) []field {
	fields = slices.Clone(fields)
	for _, other := range others {
		fields[slices.IndexFunc(fields, func(f field) bool { return f.key == other.key })] = other
	}
	return fields
}
