// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package house checks the repository against its documents.
package house

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

const (
	root   = "../.."
	module = "github.com/wepe-go/wepe/"
)

// testsOnly are packages that only tests import.
var testsOnly = []string{"internal/gomlxtest", "internal/fixtures", "internal/datatest"}

func read(t *testing.T, path string) string {
	t.Helper()
	text := gomlxtest.Must(os.ReadFile(filepath.Join(root, path)))(t)
	return string(text)
}

// goFiles calls visit with every Go file below the root, by its path from there.
func goFiles(t *testing.T, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".go") {
			relative, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			visit(filepath.ToSlash(relative))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestImports_RunDown checks every package against the table of folders in CONTRIBUTING.md: a package imports only
// packages of its own top folder and of folders further down the table.
func TestImports_RunDown(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "CONTRIBUTING.md"), "<!-- floors -->")
	table, _, _ = strings.Cut(table, "<!-- end -->")
	var floors []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+)/` ").FindAllStringSubmatch(table, -1) {
		floors = append(floors, row[1])
	}
	top := func(path string) string {
		name, _, _ := strings.Cut(path, "/")
		return name
	}
	files := 0
	goFiles(t, func(path string) {
		from := top(path)
		floor := slices.Index(floors, from)
		if floor < 0 {
			t.Errorf("%s is in no folder of CONTRIBUTING.md", path)
		}
		if strings.HasSuffix(path, "_test.go") || slices.Contains(testsOnly, filepath.Dir(path)) {
			return
		}
		files++
		file := gomlxtest.Must(parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.ImportsOnly))(t)
		for _, imported := range file.Imports {
			to, ours := strings.CutPrefix(strings.Trim(imported.Path.Value, `"`), module)
			if ours && slices.Index(floors, top(to)) < floor {
				t.Errorf("%s imports %s, which is above it", path, to)
			}
		}
	})
	if files < 100 || len(floors) != 15 {
		t.Errorf("checked %d files and %d folders, want at least 100 and 15", files, len(floors))
	}
}
