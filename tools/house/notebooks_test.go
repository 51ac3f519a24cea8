// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package house

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// displays replaces the packages of outputs, which belong to tools/notebooks, a module of its own.
var displays = map[string]string{
	`"github.com/janpfeifer/gonb/gonbui"`: `var gonbui struct{ shown }
		type shown struct{}
		func (shown) DisplayPng(png []byte) { fmt.Println(len(png), "bytes") }`,
	`"github.com/gomlx/gomlx/ui/gonb/margaid"`: `var margaid struct{ plots }
		type plots struct{}
		func (plots) New(width, height int) plots { return plots{} }
		func (plots) AddPoint(p plot.Point) { fmt.Println(p) }
		func (plots) Plot() {}`,
}

var steps = regexp.MustCompile(`steps=\d+`)

// TestNotebooks_EveryCellRuns runs the Go cells of each notebook as gonb does, with a step of training: declarations
// are shared, code after %% is the main function of a process. make notebooks runs them in Jupyter.
func TestNotebooks_EveryCellRuns(t *testing.T) {
	notebooks, err := filepath.Glob(filepath.Join(root, "examples", "*", "*.ipynb"))
	if err != nil || len(notebooks) != 2 {
		t.Fatalf("notebooks %v, %v, want two", notebooks, err)
	}
	for _, path := range notebooks {
		dir := t.TempDir()
		code, cells := cellsOf(t, path)
		program := filepath.Join(dir, "cells")
		overlaid(t, map[string]string{"examples/cells/cells.go": code}, "build", "-o", program, "./examples/cells")
		for cell := range cells {
			run := exec.Command(program, strconv.Itoa(cell))
			run.Env = append(os.Environ(), "GONB_TMP_DIR="+dir, "GONB_DIR="+gomlxtest.Must(filepath.Abs(filepath.Dir(path)))(t))
			if out, err := run.CombinedOutput(); err != nil || len(out) == 0 {
				t.Fatalf("%s, cell %d: %v\n%s", path, cell, err, out)
			}
		}
	}
}

// cellsOf returns the Go code of a notebook as a program that runs the cell of its argument, and the number of cells.
func cellsOf(t *testing.T, path string) (program string, cells int) {
	t.Helper()
	var notebook struct {
		Cells []struct {
			Kind   string   `json:"cell_type"`
			Source []string `json:"source"`
		}
	}
	gomlxtest.NoError(t, json.Unmarshal(gomlxtest.Must(os.ReadFile(path))(t), &notebook))
	var code, calls strings.Builder
	code.WriteString("package main\n")
	for _, cell := range notebook.Cells {
		text := strings.Join(cell.Source, "")
		if cell.Kind != "code" || strings.HasPrefix(text, "!") {
			continue
		}
		declarations, body, runs := strings.Cut(steps.ReplaceAllString(text, "steps=1"), "%%\n")
		for path, replacement := range displays {
			if strings.Contains(declarations, path) {
				declarations = strings.Replace(declarations, path, "", 1) + "\n" + replacement
			}
		}
		code.WriteString(declarations + "\n")
		if runs {
			fmt.Fprintf(&code, "func cell%d() {\n%s\n}\n", cells, body)
			fmt.Fprintf(&calls, "case \"%d\": cell%d()\n", cells, cells)
			cells++
		}
	}
	if cells < 3 {
		t.Errorf("%s has %d cells of Go", path, cells)
	}
	fmt.Fprintf(&code, "func main() {\nswitch os.Args[1] {\n%s}\n}\n", &calls)
	return code.String(), cells
}
