// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"image"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// A checkpoint of Hugging Face becomes a backbone for images of another size: the graph resamples its table of
// positions as package checkpoints does.
func TestACheckpointBecomesABackboneForImagesOfAnotherSize(t *testing.T) {
	fixtures.Each(t, testACheckpointBecomesABackboneForImagesOfAnotherSize)
}

func testACheckpointBecomesABackboneForImagesOfAnotherSize(t *testing.T) {
	dir := fixtures.Dir(t, "hf_vit")
	m := gomlxtest.Must(checkpoints.Import(dir, checkpoints.ImportOptions{}))(t)
	rows, cols := 6*m.Config.PatchSize, 5*m.Config.PatchSize
	resampled := gomlxtest.Must(checkpoints.Import(dir, checkpoints.ImportOptions{
		ImageRows: rows, ImageCols: cols, Resample: "hf"}))(t)
	want := gomlxtest.Values(t, resampled.Variables["position/embedding"])[m.Config.Width:]

	config := Config{Backbone: FromViT(m.Config, rows, cols), Channels: 8,
		ROI: ROI{Convs: []int{8}, Dense: []int{8}, Masks: []int{8}}}
	store := model.NewStore()
	if m.Config.Width%4 != 0 { // the pyramid halves the width twice
		if _, err := New(gomlxtest.Backend(), store.Scope("/detector"), config); err == nil {
			t.Errorf("width %d is accepted", m.Config.Width)
		}
		return
	}
	d := gomlxtest.Must(New(gomlxtest.Backend(), store.Scope("/detector"), config))(t)
	defer d.Finalize()
	if err := d.LoadBackbone(m.Config, m.Params, m.Variables); err != nil {
		t.Fatal(err)
	}
	got := gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) []*Node {
		trace := d.Config.Backbone.trace(s.At("detector").At("backbone"), in[0], false)
		return []*Node{Sub(trace.Tokens, trace.Patches)}
	}, gomlxtest.Noise(1, rows, cols, 3))
	gomlxtest.NearAbs(t, "positions", got[0], want, 1e-5)
	if _, err := d.Detect(image.NewGray(image.Rect(0, 0, 31, 17))); err != nil {
		t.Error(err)
	}
}
