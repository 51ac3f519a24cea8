// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package house checks the repository against its documents.
package house

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	_ "github.com/wepe-go/wepe/analysis"
	_ "github.com/wepe-go/wepe/detect"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	_ "github.com/wepe-go/wepe/vit/dhvt"
)

const root = "../.."

func read(t *testing.T, path string) string {
	t.Helper()
	text := gomlxtest.Must(os.ReadFile(filepath.Join(root, path)))(t)
	return string(text)
}

// A package imports only packages of its own top folder and of folders further down the table in CONTRIBUTING.md, but
// for those that only tests import.
func TestImports_RunDown(t *testing.T) {
	const module, testsOnly = "github.com/wepe-go/wepe/", "internal/gomlxtest internal/fixtures internal/datatest"
	_, table, _ := strings.Cut(read(t, "CONTRIBUTING.md"), "<!-- floors -->")
	table, _, _ = strings.Cut(table, "<!-- end -->")
	var floors []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+)/` ").FindAllStringSubmatch(table, -1) {
		floors = append(floors, row[1])
	}
	floor := func(path string) int {
		top, _, _ := strings.Cut(path, "/")
		return slices.Index(floors, top)
	}
	list := exec.Command("go", "list", "-C", root, "-tags=onnx,mpi,libjpeg", "-f", `{{.ImportPath}} {{join .Imports " "}}`,
		"./...")
	packages := strings.Split(strings.TrimSpace(string(gomlxtest.Must(list.Output())(t))), "\n")
	for _, line := range packages {
		words := strings.Fields(strings.ReplaceAll(line, module, ""))
		if floor(words[0]) < 0 {
			t.Errorf("%s is in no folder of CONTRIBUTING.md", words[0])
		}
		for _, imported := range words[1:] {
			if at := floor(imported); at >= 0 && strings.Contains(line, module+imported) && at < floor(words[0]) &&
				!strings.Contains(testsOnly, words[0]) {
				t.Errorf("%s imports %s, which is above it", words[0], imported)
			}
		}
	}
	if len(packages) < 40 || len(floors) < 12 {
		t.Errorf("checked %d packages and %d folders", len(packages), len(floors))
	}
}

// Importing this library changes no global state: every registered gradient of GoMLX is GoMLX's own.
func TestImports_LeaveTheGradientsOfGoMLX(t *testing.T) {
	for kind, vjp := range VJPRegistration {
		name := runtime.FuncForPC(reflect.ValueOf(vjp).Pointer()).Name()
		if !strings.HasPrefix(name, "github.com/gomlx/gomlx/core/graph.") {
			t.Errorf("the gradient of %s is %s", kind, name)
		}
	}
}

// overlaid runs the go command in the module with more files, by their paths in it, and returns its output.
func overlaid(t *testing.T, files map[string]string, command string, args ...string) string {
	t.Helper()
	dir, overlay := t.TempDir(), map[string]map[string]string{"Replace": {}}
	write := func(name string, content []byte) string {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		gomlxtest.NoError(t, os.WriteFile(file, content, 0o600))
		return file
	}
	for name, content := range files {
		overlay["Replace"][gomlxtest.Must(filepath.Abs(filepath.Join(root, name)))(t)] = write(name, []byte(content))
	}
	list := write("overlay.json", gomlxtest.Must(json.Marshal(overlay))(t))
	c := exec.Command("go", append([]string{command, "-C", root, "-overlay", list}, args...)...)
	c.Env = append(os.Environ(), "GOMLX_BACKEND=go")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return string(out)
}
