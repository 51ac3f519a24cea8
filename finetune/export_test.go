// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// A run with averaged weights on a grid of 2×3 is opened, exported as an ordinary ViT and imported again. The images
// are normalised here, by what the exported files say.
func TestAnExportIsTheOpenedModelWithItsNamesAndPixels(t *testing.T) {
	run := Run{Backend: gomlxtest.Backend(), Recipe: everything(), Seed: 5, Train: dataset(47, 1), Dir: t.TempDir()}
	done(t, run)
	m := gomlxtest.Must(Open(run.Backend, run.Dir))(t)
	if c := m.Recipe.Model; c.Rows() != 2 || c.Cols() != 3 || c.Position != "wepe" {
		t.Fatalf("the checkpoint's model has a grid of %dx%d and position %s", c.Rows(), c.Cols(), c.Position)
	}
	dir := filepath.Join(t.TempDir(), "model")
	if _, err := m.Export(dir, checkpoints.ExportOptions{}); err != nil {
		t.Fatal(err)
	}
	imported, err := checkpoints.Import(dir, checkpoints.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	set := dataset(4, 9)
	if c := imported.Config; c.ImageRows != 4 || c.ImageCols != 6 || c.Position != "learned" ||
		!slices.Equal(imported.Labels, set.Classes) {
		t.Errorf("%+v, labels %q", c, imported.Labels)
	}
	images := make([]float32, len(set.Pixels))
	for i, p := range set.Pixels {
		images[i] = float32((float64(p)/255 - imported.Mean[i%3]) / imported.Std[i%3])
	}
	got, err := imported.Logits(run.Backend, tensors.FromFlatDataAndDimensions(images, set.Len(), 4, 6, 3))
	if err != nil {
		t.Fatal(err)
	}
	want := gomlxtest.Must(m.logitsOf(set))(t)
	if d, scale := checkpoints.Difference(got, slices.Concat(want...)); d > 1e-5*scale {
		t.Errorf("logits differ by %g of %g", d, scale)
	}
}
