// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/wepe"
)

func TestEncodingsStartWithTheSpreadOfTheirAuthors(t *testing.T) {
	const width, heads = 2520, 630 // enough numbers for a spread within 6 %
	xavier := func(gain, in, out float64) float64 { return gain * math.Sqrt(2/(in+out)) }
	for _, test := range []struct {
		position string
		params   map[string]any
		path     string
		want     float64
	}{
		{"learned", nil, "embedding", 0.02}, // timm trunc_normal_(std=.02), Google's normal(stddev=0.02)
		// The release's 2-D grid: trunc_normal_(std=.02).
		{"grid2d", nil, "grid2d/table", 0.02}, {"grid2d", nil, "grid2d/prefix", 0.02},
		// timm's NaFlexViT: both tables normal, std .02.
		{"factorized", nil, "factorized/rows", 0.02}, {"factorized", nil, "factorized/cols", 0.02},
		// The release's encoder: cls_pos_embedding randn·0.015, every Linear trunc_normal_(std=.02) inside its ViT.
		{"wepe", nil, "wepe/prefix", 0.015}, {"wepe", nil, "wepe/projection/dense/weights", 0.02},
		{"wepe", map[string]any{"wepe_mode": "release"}, "wepe/prefix", 0.015},
		{"wepe", map[string]any{"wepe_projection": "mlp"}, "wepe/projection/hidden/dense/weights", 0.02},
		{"wepe", map[string]any{"wepe_projection": "mlp"}, "wepe/projection/output/dense/weights", 0.02},
		{"wepe-bias", nil, "wepe_bias/weights", 0.02},                // ours, as the weights of wepe
		{"relative-table", nil, "relative_table/block_01/scores", 0}, // BEiT: torch.zeros
		// The release's fine-tuning: xavier_uniform_(gain=.8).
		{"hybrid", nil, "embedding", 0.02},
		{"hybrid", map[string]any{"wepe_surrogate": "svhn"}, "surrogate/projection/hidden/dense/weights",
			xavier(0.8, 6, width/2)},
		{"hybrid", map[string]any{"wepe_surrogate": "sweep"}, "surrogate/projection/output/dense/weights",
			xavier(0.8, width, width)},
		// rope-vit's init_random_2d_freqs: directions on the unit circle, and lengths that begin with 1.
		{"rope-mixed", nil, "rope_mixed/block_00/frequencies", math.Sqrt(0.5)},
		{"liere", nil, "liere/block_01/generators", 2 * math.Pi / math.Sqrt(3)}, // rand·2π
	} {
		c := small(test.position)
		c.Width, c.Heads = width, heads
		store := gomlxtest.Seeded(t, 5)
		store.SetParams(test.params)
		c.on(store.Scope("/vit"))
		values := gomlxtest.Values(t, store.GetVariable("/vit/position/"+test.path).MustValue())
		name := fmt.Sprint(test.position, test.params, " ", test.path)
		gomlxtest.Spreads(t, name, values, test.want)
		if test.position == "liere" {
			is.Equal(t, name+": below 0", slices.Min(values) < 0, false)
		}
	}
}

// recorded are the settings that an encoding reads, with their defaults.
func recorded(n named) []setting.Row {
	recorder, rows := setting.Recorder()
	n.on(recorder.RootScope())
	return *rows
}

// ends are the lowest and the highest values of numbers, and words that are valid and not.
var ends = map[string][2]any{
	ParamRopeTheta: {1.000001, math.MaxFloat32}, ParamRopeAxialOffset: {-math.MaxFloat32, math.MaxFloat32},
	ParamRopeAxialRows: {0, 16_384}, ParamRopeAxialCols: {0, 16_384}, ParamRopeAxialFirst: {"row", "rows"},
	ParamDINORopeShortest: {0.0, math.MaxFloat32}, ParamDINORopeLongest: {0.0, math.MaxFloat32},
	ParamDINORopeShift: {0.0, 100.0}, ParamDINORopeJitter: {0.0, 100.0}, ParamDINORopeRescale: {0.0, 100.0},
	ParamDINORopeNormalize: {"min", "longest"}, ParamSinCos2DTemperature: {1.000001, math.MaxFloat32},
	ParamLookHereViews: {"eighths1-eighths2-none", "triangles-none"}, ParamGrid2DKernel: {"bicubic", "nearest"},
	ParamBlend: {"exact", "sum"}, ParamLiereBlock: {2, 65_536}, fopeLength: {0, 1 << 28}, as2dRoPEBase: {0, 16_384},
	"liere_trained_rows": {0, 16_384}, "liere_trained_cols": {0, 16_384}, "grid2d_rows": {0, 16_384},
	"grid2d_cols": {0, 16_384}, "factorized_rows": {0, 16_384}, "factorized_cols": {0, 16_384},
	"relative_table_rows": {0, 16_384}, "relative_table_cols": {0, 16_384},
	"rope_mixed_qkv_rows": {0, 16_384}, "rope_mixed_qkv_cols": {0, 16_384},
	"lape_rows": {0, 16_384}, "lape_cols": {0, 16_384}, "free_v_rows": {0, 16_384}, "free_v_cols": {0, 16_384},
	ParamFourierWaves: {1, 16}, ParamFourierLearn: {true, false}, ParamLegendreDegree: {0, 8},
}

// Spec.Params lists what an encoding reads, and each is valid to its ends. Package wepe has the tests of its own.
func TestEncodingsReadTheirParamsFromTheLowestToTheHighestValue(t *testing.T) {
	for _, spec := range All() {
		rows := recorded(turning(spec.Name))
		for _, name := range spec.Params {
			is.Equal(t, spec.Name+" reads "+name, slices.Contains(setting.Names(rows), name), true)
		}
		for _, row := range rows {
			ofWePE := slices.Contains(wepe.Params(), row.Name)
			listed := ofWePE || slices.Contains(spec.Params, row.Name)
			is.Equal(t, row.Name+" is listed in Params of "+spec.Name, listed, true)
			of, known := ends[row.Name]
			is.Equal(t, row.Name+" has its ends here", known || ofWePE, true)
			if !known {
				continue
			}
			values := []any{of[0], of[1]} // those that are valid
			beyond := []any{}
			switch low := of[0].(type) {
			case int:
				beyond = []any{low - 1, of[1].(int) + 1}
			case float64:
				beyond = []any{math.Nextafter(low, math.Inf(-1)), math.Nextafter(of[1].(float64), math.Inf(1)), math.NaN()}
			case string:
				values, beyond = values[:1], values[1:]
			}
			for i, value := range slices.Concat(values, beyond) {
				setting.Read(stored(map[string]any{row.Name: value}).RootScope(), []setting.Row{row})
				accepted := setting.Check([]setting.Row{row}) == nil
				is.Equal(t, fmt.Sprintf("%s = %v is accepted", row.Name, value), accepted, i < len(values))
			}
		}
	}
}

func TestEncodersRefuseHyperparameters(t *testing.T) {
	for _, test := range []struct {
		name, param string
		value       any
	}{
		{"rope1d", ParamRopeTheta, 1.0}, {"as2drope", as2dRoPEBase, -1}, {"fope", fopeLength, 6},
		{"liere", ParamLiereBlock, 3}, // heads of 20 channels
		{"grid2d", "grid2d_cols", 1 << 20}, {"factorized", "factorized_rows", -1},
		{"rope-dinov3", ParamDINORopeShortest, 0.5}, // without the longest
		{"lookhere", ParamLookHereViews, "none"}, {"hybrid", ParamBlend, "sum"},
	} {
		scope := stored(map[string]any{test.param: test.value}).RootScope()
		refuses(t, fmt.Sprint(test), func() { turning(test.name).on(scope) }, test.param)
	}
	huge := stored(map[string]any{"lape_rows": 16_384, "lape_cols": 16_384}).RootScope()
	refuses(t, "a table of 40 GB", func() { turning("lape").on(huge) }, "lape_rows")
	c := turning("fope")
	c.Heads = c.Width / 2
	refuses(t, "fope for heads of 2 channels", func() { c.on(model.NewStore().RootScope()) })
}

// The parameters of a training grid: rows and columns of a table, of ℘ for coarser grids, and FoPE's length, where
// seven patches are the first to have a period of one radian per patch.
func TestTrainedGridRecordsTheGrid(t *testing.T) {
	wanted := map[string]map[string]any{"rope-axial": {}, "hybrid": {}, "none": {}, "fope": {fopeLength: 15},
		"as2drope": {as2dRoPEBase: 5}}
	for name, prefix := range map[string]string{"liere": "liere_trained", "grid2d": "grid2d",
		"rope-mixed-qkv": "rope_mixed_qkv", "factorized": "factorized",
		"relative-table": "relative_table", "wepe": "wepe", "wepe-sum": "wepe", "wepe-sphere": "wepe", "wepe-qkv": "wepe",
		"wepe-v": "wepe", "wepe-lut": "wepe", "wepe-sphere-lut": "wepe"} {
		wanted[name] = map[string]any{prefix + "_rows": 5, prefix + "_cols": 3}
	}
	for name, want := range wanted {
		is.Equal(t, name, gomlxtest.Must(Parse(name))(t).TrainedGrid(small(name).Grid), want)
	}
	for patches, length := range map[int]int{5: 7, 7: 7} {
		is.Equal[any](t, fmt.Sprint(patches), fopeTrainedGrid(Grid{Rows: 1, Cols: patches})[fopeLength], length)
	}
}

// A file of an earlier version may set a retired setting to what is constant now, and to nothing else.
func TestRetired(t *testing.T) {
	for _, c := range []struct {
		position, name string
		value          any
		retired, ok    bool
	}{
		{"wepe", "wepe_compression", "tanh", true, true}, {"wepe", "wepe_compression", "sphere", true, false},
		{"wepe-sphere+rope-axial", "wepe_compression", "sphere", true, true},
		{"wepe-sphere", "wepe_compression", "tanh", true, false}, {"wepe-v", "wepe_compression", "sphere", true, true},
		{"learned+wepe-v", "wepe_compression", "sphere", true, true},
		{"hybrid+wepe-bias", "wepe_compression", "tanh", true, true},
		{"learned+wepe-v", "wepe_compression", "tanh", true, false},
		{"wepe+wepe-v", "wepe_compression", "tanh", true, false},
		{"learned+wepe-v", "wepe_evaluation", "exact", true, true}, {"learned", "wepe_compression", "tanh", true, true},
		{"wepe", "wepe_evaluation", "exact", true, true}, {"wepe", "wepe_evaluation", "table", true, false},
		{"wepe-lut", "wepe_evaluation", "table", true, true}, {"wepe-sum", "wepe_evaluation", "sum", true, true},
		{"wepe", "wepe_sum_cut", 12.0, true, true}, {"wepe", "wepe_sum_cut", 13, true, false},
		{"wepe-lut", "wepe_table_resolution", int64(256), true, true}, {"wepe", "wepe_table", "raw", true, false},
		{"wepe", "wepe_omega1", 2.6220575542921198, true, true}, {"wepe", "wepe_learn_oblique", true, true, false},
		{"fope", "fope_gain", 0.3, true, true}, {"fope", "fope_gain", 0.6, true, false},
		{"lookhere", "lookhere_slope", 1.0, true, true}, {"liere", "liere_shared", true, true, false},
		{"sincos2d", "sincos2d_variant", "mae", true, true}, {"rope1d", "rope_theta", 7.0, false, true},
		{"wepe", "wepe_alpha_u", 0.3, false, true}, {"wepe", "nothing", 1, false, true},
	} {
		retired, err := Retired(c.position, c.name, c.value)
		if retired != c.retired || (err == nil) != c.ok {
			t.Errorf("%+v: retired %v, %v", c, retired, err)
		}
		_, others, found := strings.Cut(fmt.Sprint(err), "use one of ")
		if c.name == "wepe_compression" && !c.ok {
			is.Equal(t, c.name+" names others", found, true)
		}
		for _, other := range strings.Fields(strings.ReplaceAll(others, ",", "")) {
			gomlxtest.NoError(t, is.ErrorOf(Retired(other, c.name, c.value)))
		}
	}
	for name := range retired {
		is.Equal(t, name+" is listed", slices.Contains(Params(), name), false)
	}
}
