// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/wepe"
)

// A misspelt name would take no setting away.
func TestSettingsOfPartsAreSettings(t *testing.T) {
	for _, name := range slices.Concat(ofGate, ofProjection, ofSum, ofGrid) {
		if !slices.Contains(wepe.Params(), name) {
			t.Errorf("package wepe has no setting %s", name)
		}
	}
}

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
		{"grid2d", nil, "grid2d/table", 0.02},
		{"grid2d", nil, "grid2d/prefix", 0.02},
		// timm's NaFlexViT: both tables normal, std .02.
		{"factorized", nil, "factorized/rows", 0.02},
		{"factorized", nil, "factorized/cols", 0.02},
		// The release's encoder: cls_pos_embedding randn·0.015, every Linear trunc_normal_(std=.02) inside its ViT.
		{"wepe", nil, "wepe/prefix", 0.015},
		{"wepe", nil, "wepe/projection/dense/weights", 0.02},
		{"wepe", map[string]any{"wepe_mode": "release"}, "wepe/prefix", 0.015},
		{"wepe", map[string]any{"wepe_projection": "mlp"}, "wepe/projection/hidden/dense/weights", 0.02},
		{"wepe", map[string]any{"wepe_projection": "mlp"}, "wepe/projection/output/dense/weights", 0.02},
		{"wepe-bias", nil, "wepe_bias/weights", 0.02},                   // ours, as the weights of wepe
		{"relative-table", nil, "relative_table/block_01/scores", 0.02}, // BEiT: trunc_normal_(std=.02)
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
		v := store.GetVariable("/vit/position/" + test.path)
		if v == nil {
			t.Fatalf("%s %v has no variable %s", test.position, test.params, test.path)
		}
		gomlxtest.Spreads(t, fmt.Sprint(test.position, test.params, " ", test.path), gomlxtest.Values(t, v.MustValue()),
			test.want)
	}
}

func TestHyperparametersAreValidFromTheirLowestToTheirHighestValue(t *testing.T) {
	const huge, side = math.MaxFloat32, 16_384 // side: patches along one side of a grid
	var rows, cols int
	all := slices.Concat(new(axialRope).settings(), new(as2dRope).settings(), new(dinoRope).settings(),
		new(fopeSettings).settings(), new(liereSettings).settings(), new(lookHere).settings(new(string)),
		grid2DGrid.settings(&rows, &cols))
	accepts := func(row setting.Row, value any) bool {
		store := model.NewStore()
		store.SetParam("/"+row.Name, value)
		setting.Read(store.RootScope(), []setting.Row{row})
		return setting.Check([]setting.Row{row}) == nil
	}
	ints := map[string][2]int{
		ParamFoPELength: {0, side * side}, "fope_dim": {0, 65_536}, ParamLiereBlock: {2, 65_536},
		ParamRopeAxialRows: {0, side}, ParamRopeAxialCols: {0, side}, ParamAS2DRoPEBaseRows: {0, side},
		"liere_trained_rows": {0, side}, "liere_trained_cols": {0, side}, "grid2d_rows": {0, side}, "grid2d_cols": {0, side},
	}
	floats := map[string][2]float64{
		ParamRopeTheta: {1.000001, huge}, ParamRopeAxialOffset: {-huge, huge},
		ParamDINORopeShortest: {0, huge}, ParamDINORopeLongest: {0, huge}, ParamDINORopeShift: {0, 100},
		ParamDINORopeJitter: {0, 100}, ParamDINORopeRescale: {0, 100}, "lookhere_slope": {0, 1000},
		"lookhere_first": {0, 1000}, "lookhere_last": {0, 1000},
	}
	choices := []string{ParamRopeAxialFirst, ParamDINORopeNormalize, "fope_ignore_zero", "fope_separate_basis",
		"fope_separate_head", "liere_shared", "liere_first_layer", "lookhere_distance", "lookhere_fill", ParamLookHereViews,
		"lookhere_words"}
	for _, row := range all {
		var values []any // two within, two beyond the ends
		if ends, ok := ints[row.Name]; ok {
			values = []any{ends[0], ends[1], ends[0] - 1, ends[1] + 1}
		} else if ends, ok := floats[row.Name]; ok {
			values = []any{ends[0], ends[1], math.Nextafter(ends[0], math.Inf(-1)), math.Nextafter(ends[1], math.Inf(1))}
		} else if !slices.Contains(choices, row.Name) {
			t.Errorf("%s: give its ends here", row.Name)
		}
		for i, value := range values {
			if accepts(row, value) != (i < 2) {
				t.Errorf("%s = %v: accepted %v", row.Name, value, i >= 2)
			}
		}
	}
}

func TestEncodersRefuseHyperparameters(t *testing.T) {
	for _, test := range []struct {
		name, param string
		value       any
	}{
		{"rope1d", ParamRopeTheta, 1.0}, {"as2drope", ParamAS2DRoPEBaseRows, -1}, {"fope", ParamFoPELength, 6},
		{"liere", ParamLiereBlock, 3}, // heads of 20 channels
		{"grid2d", ParamGrid2DCols, 1 << 20}, {"grid2d", ParamGrid2DKernel, "nearest"}, {"factorized", ParamFactorizedRows,
			-1},
		{"rope-dinov3", ParamDINORopeShortest, 0.5}, // without the longest
		{"rope-dinov3", ParamDINORopeNormalize, "longest"}, {"lookhere", ParamLookHereViews, "triangles-center"},
		{"hybrid", ParamBlend, "sum"},
	} {
		store := model.NewStore()
		store.SetParam("/"+test.param, test.value)
		err := exceptions.TryCatch[error](func() { turning(test.name).on(store.RootScope()) })
		if err == nil || !strings.Contains(err.Error(), test.param) {
			t.Errorf("%s, %s = %v: %v", test.name, test.param, test.value, err)
		}
		if !slices.Contains(Params(), test.param) {
			t.Errorf("%s is not listed", test.param)
		}
	}
	for name, words := range map[string]any{"of an unknown view": "halves-wide", "of three blocks": "none,none,none"} {
		store := model.NewStore()
		store.SetParam("/lookhere_words", words) // the model has two
		if exceptions.TryCatch[error](func() { turning("lookhere").on(store.RootScope()) }) == nil {
			t.Errorf("views %s are built", name)
		}
	}
	c := turning("fope")
	c.Heads = c.Width / 2
	if exceptions.TryCatch[error](func() { c.on(model.NewStore().RootScope()) }) == nil {
		t.Error("fope is built for heads of 2 channels")
	}
}

// Seven patches are the first to have a period of one radian per patch.
func TestFoPERecordsTheLengthOfItsTrainingGridButAtLeastSeven(t *testing.T) {
	for _, grid := range [][3]int{{1, 5, 7}, {1, 7, 7}, {5, 3, 15}} {
		if got := onGrid("fope", grid[0], grid[1], 1, 2).trainedGrid()[ParamFoPELength]; got != grid[2] {
			t.Errorf("%d × %d patches: %v, want %d", grid[0], grid[1], got, grid[2])
		}
	}
}

// The additive ones average over the training patches in a coarser patch, so a model has to record them.
func TestEncodingsWithATrainingGridRecordIt(t *testing.T) {
	found := 0
	for _, name := range Names() {
		if e := gomlxtest.Must(Parse(name))(t); !slices.Contains(e[0].Params, "wepe_rows") || name == "hybrid" {
			continue // hybrid takes ℘ at the centre of each patch
		}
		found++
		got := onGrid(name, 5, 3, 1, 4).trainedGrid()
		if got["wepe_rows"] != 5 || got["wepe_cols"] != 3 {
			t.Errorf("%s: %v, want 5 rows and 3 columns", name, got)
		}
	}
	if found < 4 {
		t.Errorf("%d encodings", found)
	}
}

// Runs of earlier versions open with what is constant now, and with nothing else.
func TestRetiredHyperparametersMayHaveTheirConstantValue(t *testing.T) {
	for _, test := range []struct {
		name           string
		value          any
		retired, valid bool
	}{
		{"fope_gain", 0.3, true, true}, {"fope_gain", 0.6, true, false}, {"lookhere_slope", 1.0, true, true},
		{"liere_shared", true, true, false}, {"sincos2d_variant", "mae", true, true}, {"rope_theta", 7.0, false, true},
	} {
		if retired, err := Retired("wepe", test.name, test.value); retired != test.retired || (err == nil) != test.valid {
			t.Errorf("%s = %v: retired %v, %v", test.name, test.value, retired, err)
		}
	}
	for name := range retired {
		if slices.Contains(Params(), name) {
			t.Errorf("%s is retired and listed", name)
		}
	}
}
