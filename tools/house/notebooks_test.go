// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package house

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// displays replaces the packages of outputs, which belong to tools/notebooks, a module of its own.
var displays = map[string]string{
	`"github.com/janpfeifer/gonb/gonbui"`: `var gonbui struct{ DisplayPng func([]byte) }`,
	`"github.com/gomlx/gomlx/ui/gonb/margaid"`: `
		type plots interface { AddPoint(plot.Point); Plot() }
		var margaid struct{ New func(width, height int) plots }`,
}

// TestTheCellsOfNotebooksCompile builds the Go cells of each notebook as gonb does: declarations are shared, code after
// %% is the body of a function. make notebooks executes them.
func TestTheCellsOfNotebooksCompile(t *testing.T) {
	notebooks, err := filepath.Glob(filepath.Join(root, "examples", "*", "*.ipynb"))
	if err != nil || len(notebooks) != 2 {
		t.Fatalf("notebooks %v, %v, want two", notebooks, err)
	}
	for _, path := range notebooks {
		name := strings.TrimSuffix(filepath.Base(path), ".ipynb")
		source := filepath.Join(t.TempDir(), "cells.go")
		if err := os.WriteFile(source, []byte(cellsOf(t, name, path)), 0o644); err != nil {
			t.Fatal(err)
		}
		module := gomlxtest.Must(filepath.Abs(root))(t)
		overlay := filepath.Join(t.TempDir(), "overlay.json")
		content := gomlxtest.Must(json.Marshal(map[string]map[string]string{"Replace": {
			filepath.Join(module, "examples", "notebook_"+name, "cells.go"): source}}))(t)
		if err := os.WriteFile(overlay, content, 0o644); err != nil {
			t.Fatal(err)
		}
		build := exec.Command("go", "build", "-overlay", overlay, "./examples/notebook_"+name)
		build.Dir = module
		if out, err := build.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", path, err, out)
		}
	}
}

// cellsOf returns the Go code of a notebook.
func cellsOf(t *testing.T, name, path string) string {
	t.Helper()
	var notebook struct {
		Cells []struct {
			Kind   string   `json:"cell_type"`
			Source []string `json:"source"`
		}
	}
	content, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(content, &notebook)
	}
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	fmt.Fprintf(&code, "package %s\n", name)
	cells := 0
	for _, cell := range notebook.Cells {
		text := strings.Join(cell.Source, "")
		if cell.Kind != "code" || strings.HasPrefix(text, "!") {
			continue
		}
		cells++
		declarations, body, runs := strings.Cut(text, "%%\n")
		for path, replacement := range displays {
			if strings.Contains(declarations, path) {
				declarations = strings.Replace(declarations, path, "", 1) + "\n" + replacement
			}
		}
		code.WriteString(declarations + "\n")
		if runs {
			fmt.Fprintf(&code, "func cell%d() {\n%s\n}\n", cells, body)
		}
	}
	if cells < 4 {
		t.Errorf("%s has %d cells of Go", path, cells)
	}
	return code.String()
}
