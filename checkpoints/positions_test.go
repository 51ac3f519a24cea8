// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

// ownEncodings are all names of encodings, and some combinations of two.
var ownEncodings = append(position.Names(), "wepe+rope-mixed", "learned+rope-axial", "hybrid+liere",
	"fope+wepe-bias")

func TestNative_EveryEncoding(t *testing.T) {
	gomlxtest.OnGo(t)
	for _, position := range gomlxtest.Encodings(ownEncodings) {
		c := ownViT(position)
		c.PatchNorm, c.Pool = true, "mean"
		store := stirred(t, c, nil)
		dir := exportedFrom(t, store, c, ExportOptions{Format: formatNative})
		t.Run(position+" comes back", func(t *testing.T) { comesBack(t, store, c, dir) })
		t.Run(position+" without all of its variables", func(t *testing.T) { refusesLessThanAll(t, dir) })
		t.Run(position+" with the variables of others", func(t *testing.T) { refusesUnknownVariables(t, store, c, dir) })
		if !c.Encoding().Folds() {
			// Another format does not support attention encodings, with or without a table.
			t.Run(position+" in an ordinary ViT", func(t *testing.T) { notSupportedElsewhere(t, position) })
		}
	}
}

func comesBack(t *testing.T, store *model.Store, c vit.Config, dir string) {
	images := Noise(c, 2, 5)
	want := gomlxtest.Must(forward(gomlxtest.Backend(), store, "/vit", c, images))(t)
	m := imported(t, dir, ImportOptions{})
	if m.Config != c {
		t.Errorf("%+v", m.Config)
	}
	n := 0
	for v := range store.IterVariables() {
		path, ok := below(v, "/vit")
		if !ok {
			continue
		}
		n++
		if got := m.Variables[path]; got == nil || !bytes.Equal(bytesOf(t, got), bytesOf(t, v.MustValue())) {
			t.Errorf("variable %s differs", path)
		}
	}
	if n != len(m.Variables) {
		t.Errorf("%d variables, want %d", len(m.Variables), n)
	}
	got, err := m.Logits(gomlxtest.Backend(), images)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, logits %v, want %v", err, got, want)
	}
}

func refusesLessThanAll(t *testing.T, dir string) {
	whole := imported(t, dir, ImportOptions{})
	for path := range whole.Variables {
		if !strings.HasPrefix(path, positionsPath) {
			continue
		}
		m := imported(t, dir, ImportOptions{})
		delete(m.Variables, path)
		err := m.Load(model.NewStore().Scope("/vit"))
		named := strings.TrimSuffix(path, "/values") // a table counts as one
		if err == nil || !strings.Contains(err.Error(), named) || strings.Contains(err.Error(), "\n") {
			t.Errorf("without %s: %v", path, err)
		}
	}
	if err := whole.Load(model.NewStore().Scope("/vit")); err != nil {
		t.Error(err)
	}
}

// A variable that does not belong to the model's encoding is refused by name, on import and on export.
func refusesUnknownVariables(t *testing.T, store *model.Store, c vit.Config, dir string) {
	file := filepath.Join(dir, foreignWeights)
	raw := readFile(t, file)
	stray := map[string]bool{"x": true, "wepe2/beta_pos": true}
	for _, other := range position.All() {
		for _, variable := range other.Variables { // a directory of variables ends in a slash
			stray[variable+strings.Repeat("x", strings.Count(variable[len(variable)-1:], "/"))] = true
		}
	}
	for name := range stray {
		if c.Encoding().Owns(name) {
			continue
		}
		all := gomlxtest.Must(readAll(raw))(t)
		all[positionsPath+name] = tensors.FromScalar(float32(1))
		writeWeights(t, file, all)
		_, err := Import(dir, ImportOptions{})
		if e := onlyMismatch(t, err); !slices.Equal(e.Unexpected, []string{positionsPath + name + " []"}) ||
			e.Missing != nil ||
			e.Mismatched != nil {
			t.Errorf("%v, want %s unexpected", err, name)
		}
	}
	gomlxtest.Must(store.CreateVariable("/vit/position/x", tensors.FromScalar(float32(1))))(t)
	_, err := Export(filepath.Join(t.TempDir(), "x"), nil, store.Scope("/vit"), c, ExportOptions{Format: formatNative})
	if e := onlyMismatch(t, err); len(e.Unexpected) != 1 {
		t.Errorf("exported with %v", e)
	}
}

func notSupportedElsewhere(t *testing.T, position string) {
	c := ownViT(position)
	for _, format := range []string{formatHF, formatTimm, formatJAX} {
		folded := c
		folded.Position = cmp.Or(c.Encoding().Folded(), c.Position)
		if _, _, err := forExport(format, folded, true, nil); err == nil {
			continue // its code has the same
		}
		_, err := Export(filepath.Join(t.TempDir(), "x"), gomlxtest.Backend(), model.NewStore().Scope("/vit"), c,
			ExportOptions{Format: format})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("position %q acts inside the blocks", position)) {
			t.Errorf("to %s: %v", format, err)
		}
	}
}
