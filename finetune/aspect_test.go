// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
)

// keeping is tiny for images that keep their aspect ratio, on a grid of 4×3 patches.
func keeping(t *testing.T, settings string) Recipe {
	t.Helper()
	r := tiny()
	r.Model.PatchSize, r.Augment.Size, r.Aspect, r.Epochs = 4, [2]int{16, 12}, AspectKeep, 2
	return gomlxtest.Must(r.Set(settings))(t)
}

// ofAspects returns shapes in images of several aspect ratios, resized for a recipe.
func ofAspects(t *testing.T, r Recipe) (train, test *data.InMemory) {
	t.Helper()
	train, test, err := data.ShapesOfAspects("shape", 31, 17, 16, 2,
		gomlxtest.Must(r.Preprocessing([2]int{16, 12}))(t))
	gomlxtest.NoError(t, err)
	return train, test
}

func TestAspectKeep_TrainsOpensAndPredicts(t *testing.T) {
	gomlxtest.OnGo(t)
	for _, position := range gomlxtest.InTurn(1, "learned", "wepe-sphere", "rope-axial+alibi2d") {
		recipe := keeping(t, "model.position="+position)
		train, test := ofAspects(t, recipe)
		run := Run{Backend: gomlxtest.Backend(), Recipe: recipe, Train: train, Test: test, Dir: t.TempDir()}
		m, row := done(t, run)
		gomlxtest.NoError(t, errors.Join(run.Page(m, row), data.Check(t.Context(), train, true)))
		opened := gomlxtest.Must(Open(run.Backend, run.Dir))(t)
		equal(t, position, opened.Preprocess, m.Preprocess)
		equal(t, position, m.Preprocess.Resize, preprocess.ResizePatches)
		if position == "wepe-sphere" { // folds
			said := gomlxtest.Must(opened.Export(filepath.Join(t.TempDir(), "hf"), checkpoints.ExportOptions{}))(t)
			if !strings.Contains(strings.Join(said, "\n"), `fit "exact" to 16×12 in place of "patches"`) {
				t.Errorf("the export reports %q", said)
			}
		}
		want := softmaxOf(t, opened, test)
		for i := range 5 {
			file := pngFile(t, test.RGBA(i)) // of whole patches: it is not resized
			opened.has(t, fmt.Sprint(position, test.Grids[i]), gomlxtest.Must(opened.predictOne(file, 3))(t), want[i])
		}
	}
}

func TestAspectKeep_OfSquaresIsTrainingOnImages(t *testing.T) {
	images, _, err := data.Shapes("where", 31, 17, 16, 2)
	gomlxtest.NoError(t, err)
	keep := preprocess.Settings{Resize: preprocess.ResizePatches, Size: [2]int{16, 16}, Patch: 4}
	strips := &data.InMemory{
		Info: data.Info{Name: "strips", Labels: images.Labels, Height: 64, Width: 4, Channels: 3, Classes: images.Classes},
	}
	for i := range images.Len() {
		strip := gomlxtest.Must(data.FromImage(images.RGBA(i)).Preprocess(keep))(t)
		strips.Pixels, strips.Grids = append(strips.Pixels, strip.Pixels...), append(strips.Grids, strip.Grid)
	}
	weights := map[string]map[string][]float64{}
	for aspect, set := range map[string]*data.InMemory{"": images, AspectKeep: strips} {
		r := keeping(t, "model.position=wepe+rope-mixed;augment.size=[16,16]")
		r.Aspect = aspect
		m, _ := done(t, Run{Backend: gomlxtest.Backend(), Recipe: r, Train: set})
		weights[aspect] = m.weights(t, "")
	}
	for path, want := range weights[""] {
		gomlxtest.Near(t, path, weights[AspectKeep][path], want, 2e-3) // Adam divides small by small
	}
}

func TestAspectKeep_Refuses(t *testing.T) {
	good := keeping(t, "")
	strips, _ := ofAspects(t, good)
	images, _, err := data.Shapes("where", 31, 17, 16, 2)
	gomlxtest.NoError(t, err)
	for words, c := range map[string]struct {
		settings string
		set      *data.InMemory
	}{
		"augmentation":                        {"augment.hflip=0.5", strips},
		"position hybrid":                     {"model.position=hybrid", strips},
		"needs images in patches of 4 pixels": {"", images},
		"needs images in patches of 2 pixels": {"model.patch_size=2", strips},
		"aspect keep needs":                   {"aspect=squash", strips},
		"augment.size":                        {"augment.size=[16,16]", strips},
	} {
		run := Run{Backend: gomlxtest.Backend(), Recipe: keeping(t, c.settings), Train: c.set}
		refused(t, c.settings, errorOf(run.prepared()), words)
	}
	big := Recipe{Name: "big", Aspect: AspectKeep}
	refused(t, "no patch size", errorOf(big.Preprocessing([2]int{16, 12})), "set model.patch_size")
	good, _ = good.Resolve() // the data complete it
	m := gomlxtest.Must(newModel(gomlxtest.Backend(), good, strips.Classes, 0))(t)
	refused(t, "Embed", errorOf(m.embedImages(strips.RGBA(0))), "Embed needs images of one size")
	err = m.Activations(strips, 1, func(*vit.Trace) []*graph.Node { return nil }, nil)
	refused(t, "Look", err, "inspection needs images of one size")
}
