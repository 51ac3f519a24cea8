// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/numeric"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

var (
	fileFormats = []string{formatHF, formatTimm, formatJAX, formatNative} // the formats that Import reads
	normalized  = preprocess.Settings{Mean: [3]float64{0.5, 0.25, 0.125}, Std: [3]float64{0.5, 0.75, 0.3}}
)

// loaded returns the scope of a new store with the import in it.
func loaded(t testing.TB, m *Imported) *model.Scope {
	t.Helper()
	scope := model.NewStore().Scope("/some/model")
	if err := m.Load(scope); err != nil {
		t.Fatal(err)
	}
	return scope
}

// exported writes an import in a format and returns the directory.
func exported(t testing.TB, m *Imported, o ExportOptions) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new", "model")
	if _, err := Export(dir, gomlxtest.Backend(), loaded(t, m), m.Config, o); err != nil {
		t.Fatal(err)
	}
	return dir
}

// exportedFrom writes the model below /vit of a store and returns the directory.
func exportedFrom(t testing.TB, store *model.Store, c vit.Config, o ExportOptions) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	if _, err := Export(dir, gomlxtest.Backend(), store.Scope("/vit"), c, o); err != nil {
		t.Fatal(err)
	}
	return dir
}

// stirred returns a store with a model below /vit whose weights are all random.
func stirred(t testing.TB, c vit.Config, params map[string]any) *model.Store {
	t.Helper()
	store := model.NewStore()
	store.SetParam("/"+model.ParamInitialSeed, int64(3))
	store.Scope("/vit").SetParams(params)
	gomlxtest.Build(t, store, func(s *model.Scope, in []*Node) []*Node {
		return []*Node{c.Logits(s.In("vit"), in[0])}
	}, Noise(c, 1, 1))
	table := strings.HasSuffix(c.Position, "-lut")
	rng := rand.New(rand.NewPCG(11, 13))
	for v := range store.IterVariables() {
		// A look-up table belongs to the lattice for which it was computed.
		if path, ok := below(v, "/vit"); !ok || table && strings.HasPrefix(path, positionsPath) {
			continue
		}
		flat := tensors.MustCopyFlatData[float32](v.MustValue())
		for i := range flat {
			flat[i] += float32(0.2 * rng.NormFloat64())
		}
		if err := v.SetValue(tensors.FromFlatDataAndDimensions(flat, v.Shape().Dimensions...)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.CreateVariable("/adamw/vit/class", tensors.FromScalar(float32(1))); err != nil {
		t.Fatal(err)
	}
	return store
}

// ownViT is a model of unequal sizes on a grid of 3×5 whose heads fit every encoding.
func ownViT(position string) vit.Config {
	return gomlxtest.Resolved(vit.Config{ImageRows: 6, ImageCols: 10, Channels: 3, PatchSize: 2, Width: 48, Depth: 2, Heads: 3, MLPDim: 29,
		Classes: 7, Position: position})
}

// An imported model may be exported again, with the same look-up table: the files are the same.
func TestANativeModelKeepsItsHyperparametersAndItsFiles(t *testing.T) {
	for position, params := range map[string]map[string]any{
		"wepe-lut":   {"wepe_alpha_u": 0.3},
		"rope-axial": {"rope_theta": 50.0},
	} {
		c := ownViT(position)
		store := stirred(t, c, params)
		store.SetParam("/learning_rate", 0.1) // a training setting, not exported
		first := exportedFrom(t, store, c, ExportOptions{Format: formatNative})
		m := imported(t, first, ImportOptions{})
		if !reflect.DeepEqual(m.Params, params) {
			t.Errorf("%v, want %v", m.Params, params)
		}
		table := m.Variables["position/wepe/table/values"]
		if position == "wepe-lut" && table == nil {
			t.Error("no look-up table")
		}
		second := exported(t, m, ExportOptions{Format: formatNative})
		for _, name := range []string{foreignWeights, foreignConfig, "README.md"} {
			a, errA := os.ReadFile(filepath.Join(first, name))
			b, errB := os.ReadFile(filepath.Join(second, name))
			if errA != nil || errB != nil || string(a) != string(b) {
				t.Errorf("%s: %s differs: %v %v", position, name, errA, errB)
			}
		}
	}
}

func TestFoldedModelsAreOrdinaryViTs(t *testing.T) {
	gomlxtest.OnGo(t)
	for _, p := range position.All() {
		if !p.Folds() {
			continue
		}
		c := ownViT(p.Name)
		store := stirred(t, c, nil)
		images := Noise(c, 2, 5)
		want, err := forward(gomlxtest.Backend(), store, "/vit", c, images)
		if err != nil {
			t.Fatal(err)
		}
		for _, format := range []string{formatHF, formatTimm, formatJAX} {
			dir := filepath.Join(t.TempDir(), "model")
			report, err := Export(dir, gomlxtest.Backend(), store.Scope("/vit"), c, ExportOptions{Format: format})
			if err != nil {
				t.Fatal(err)
			}
			folded := fmt.Sprintf("positions: %s folded into a table of 1+3x5 rows", p.Name)
			if slices.Contains(report, folded) != (p.Name != "learned") {
				t.Errorf("%s as %s: report %q", p.Name, format, report)
			}
			m := imported(t, dir, ImportOptions{})
			got, err := m.Logits(gomlxtest.Backend(), images)
			if d, scale := numeric.Difference(got, want); err != nil || m.Config.Position != "learned" || d > 1e-6*scale {
				t.Errorf("%s as %s: position %s, %v, logits differ by %g of %g", p.Name, format, m.Config.Position, err, d, scale)
			}
		}
		if v := store.GetVariable("/adamw/vit/class"); v == nil || store.NumVariables() < 10 {
			t.Errorf("%s: the export changed the store", p.Name)
		}
	}
}

func TestATimmConfigGivesTimmTheHiddenUnits(t *testing.T) {
	for width := 1; width < 100; width++ {
		for hidden := 1; hidden < 100; hidden++ {
			if got := int(float64(width) * float64(ratioOf(width, hidden))); got != hidden { // timm's own expression
				t.Fatalf("width %d, %d hidden units: timm computes %d", width, hidden, got)
			}
		}
	}
}

// A model whose encoding uses its training grid gets it as a hyperparameter on another grid.
func TestANativeModelKeepsItsTrainingGridOnAnotherGrid(t *testing.T) {
	c := ownViT("as2drope")
	dir := exportedFrom(t, stirred(t, c, nil), c, ExportOptions{Format: formatNative})
	if m := imported(t, dir, ImportOptions{}); len(m.Params) != 0 {
		t.Errorf("%v", m.Params)
	}
	m := imported(t, dir, ImportOptions{ImageRows: 8, ImageCols: 12})
	if !reflect.DeepEqual(m.Params, map[string]any{"as2drope_base_rows": 3}) || m.Config.ImageRows != 8 {
		t.Errorf("%v, %+v", m.Params, m.Config)
	}
}

func TestAFaultAtAnyOperationOfAnExportLeavesNothing(t *testing.T) {
	c := smallViT
	c.Depth = 1
	m := imported(t, put(t, timm, made(timm, c), timmConfig(c)), ImportOptions{})
	scope := loaded(t, m)
	for _, format := range []string{formatHF, formatJAX} {
		for _, mode := range []faultMode{failNoSpace, failIO, shortWrite} {
			for failAt := 1; ; failAt++ {
				parent := t.TempDir()
				dir := filepath.Join(parent, "model")
				files := newFaultyFiles(failAt, mode)
				_, err := Export(dir, nil, scope, m.Config, ExportOptions{Format: format, Preprocess: &normalized,
					files: files})
				if files.count < failAt {
					if err != nil || failAt < 20 { // mkdir, four for each of four files, syncs around the rename
						t.Fatalf("without a fault: %v after %d operations", err, files.count)
					}
					break
				}
				left, _ := os.ReadDir(parent)
				renamed := strings.Contains(files.trace[failAt-1], "syncdir "+filepath.Base(parent))
				switch {
				case err == nil:
					t.Errorf("%s, %v at %s: no error", format, mode, files.trace[failAt-1])
				case !renamed && len(left) > 0:
					t.Errorf("%s, %v at %s: left %v", format, mode, files.trace[failAt-1], left)
				}
			}
		}
	}
}
