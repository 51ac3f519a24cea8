// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/dhvt"
)

func nearLogits(t *testing.T, what string, got, want [][]float32) {
	t.Helper()
	if d, scale := checkpoints.Difference(slices.Concat(got...), slices.Concat(want...)); d > 1e-5*scale {
		t.Errorf("%s: logits differ by %g of %g", what, d, scale)
	}
}

func TestARunAndItsExportsOpenAsTheSameModel(t *testing.T) {
	recipe := tiny()
	recipe.Model.Width, recipe.Model.MLPDim = 16, 0 // what JAX's and timm's files let guess
	recipe.Model.Heads, recipe.Model.PatchSize = 2, 2
	run := Run{Backend: gomlxtest.Backend(), Recipe: recipe, Seed: 5, Train: pictures(47, 1), Dir: t.TempDir()}
	done(t, run)
	m := gomlxtest.Must(OpenAny(run.Backend, run.Dir))(t)
	if m.Seed() != 5 {
		t.Errorf("seed %d, want 5", m.Seed())
	}
	set := pictures(7, 9)
	want := gomlxtest.Must(m.logitsOf(set))(t)
	for _, format := range []string{checkpoints.FormatHF, checkpoints.FormatTimm, checkpoints.FormatUnfolded} {
		dir := filepath.Join(t.TempDir(), format)
		if _, err := m.Export(dir, checkpoints.ExportOptions{Format: format}); err != nil {
			t.Fatal(err)
		}
		opened := gomlxtest.Must(OpenAny(run.Backend, dir))(t)
		if !slices.Equal(opened.Classes, set.Classes) {
			t.Errorf("%s: classes %q", format, opened.Classes)
		}
		nearLogits(t, format, gomlxtest.Must(opened.logitsOf(set))(t), want)
		if format == checkpoints.FormatUnfolded {
			larger := gomlxtest.Must(OpenAt(run.Backend, dir, [2]int{8, 6}))(t)
			same := gomlxtest.Must(OpenAt(run.Backend, run.Dir, [2]int{8, 6}))(t)
			nearLogits(t, "at another size", gomlxtest.Must(larger.logitsOf(set))(t), gomlxtest.Must(same.logitsOf(set))(t))
		}
	}
	_, err := OpenAny(run.Backend, filepath.Join(t.TempDir(), "nothing"))
	refused(t, "a path of nothing", err, "nothing")
}

func TestAModelOfTheHubIsOpenedByItsAddress(t *testing.T) {
	home := t.TempDir()
	cached := filepath.Join(home, "hub", "models--me--demo")
	commit := strings.Repeat("0123abcd", 5)
	demo := os.DirFS("../examples/cifar100/demo/vit")
	if err := os.CopyFS(filepath.Join(cached, "snapshots", commit), demo); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HF_HOME", home)
	t.Setenv("HF_HUB_CACHE", filepath.Join(home, "hub"))
	t.Setenv("HF_HUB_OFFLINE", "1")
	m := gomlxtest.Must(OpenAny(gomlxtest.Backend(), "hf://me/demo@"+commit))(t)
	defer m.Finalize()
	if m.Recipe.Model.Width != 96 || len(m.Classes) != 100 {
		t.Errorf("width %d, %d classes", m.Recipe.Model.Width, len(m.Classes))
	}
	_, err := OpenAny(gomlxtest.Backend(), "hf://me/other")
	refused(t, "a model that is not in the cache", err, "me/other")
}

func TestTheStartOfARunIsDrawnAgain(t *testing.T) {
	run := Run{Backend: gomlxtest.Backend(), Recipe: everything(), Seed: 3, Train: pictures(47, 1), Dir: t.TempDir()}
	set := pictures(5, 9)
	first := begun(t, Run{Backend: run.Backend, Recipe: run.Recipe, Seed: run.Seed, Train: run.Train})
	want := gomlxtest.Must(first.model.logitsOf(set))(t)
	done(t, run)
	nearLogits(t, "start", gomlxtest.Must(gomlxtest.Must(OpenStart(run.Backend, run.Dir))(t).logitsOf(set))(t), want)

	tuned := Run{Backend: run.Backend, Recipe: everything(), Train: run.Train, From: run.Dir, Dir: t.TempDir()}
	done(t, tuned)
	_, err := OpenStart(run.Backend, tuned.Dir)
	refused(t, "the start of a fine-tuning", err, "not drawn", run.Dir)
}

func TestLookShowsTheWeightsOfEveryImageOnceAndTheModelsLogits(t *testing.T) {
	for _, pool := range []string{vit.PoolClass, vit.PoolMean} {
		recipe := tiny()
		recipe.Model.Position, recipe.Model.Pool = "rope-axial", pool // no addition to the tokens
		m := begun(t, Run{Backend: gomlxtest.Backend(), Recipe: recipe, Seed: 1, Train: pictures(47, 1)}).model
		set := pictures(7, 9)
		var logits [][]float32
		tokens := m.Recipe.Model.Tokens()
		err := m.Look(set, 3, func(t *vit.Trace) []*Node { return []*Node{t.Blocks[1].Weights} },
			func(first int, values [][]float32) error {
				n := len(values[1]) / len(set.Classes)
				if first != len(logits) || len(values[0]) != n*recipe.Model.Heads*tokens*tokens {
					t.Fatalf("image %d after %d, %d weights of %d images", first, len(logits), len(values[0]), n)
				}
				for row := range slices.Chunk(values[0], tokens) {
					sum := 0.0
					for _, w := range row {
						sum += float64(w)
					}
					if math.Abs(sum-1) > 1e-5 {
						t.Fatalf("a row of weights has the sum %g", sum)
					}
				}
				logits = slices.AppendSeq(logits, slices.Chunk(values[1], len(set.Classes)))
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		nearLogits(t, pool, logits, gomlxtest.Must(m.logitsOf(set))(t))
	}
}

func TestADHVTSaysThatItCannotBeLookedInto(t *testing.T) {
	recipe := tiny()
	recipe.Architecture, recipe.Model.Position = DHVT, dhvt.Positions()[0]
	m := &Model{Recipe: recipe}
	err := m.Look(pictures(2, 1), 1, nil, nil)
	refused(t, "a DHVT", err, "only a ViT shows what happens inside")
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Error("the error has more than one line")
	}
}
