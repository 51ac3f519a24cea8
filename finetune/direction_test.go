// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// The package read from bottom to top: a file refers to nothing that a file after it declares.
var files = strings.Fields(`
	groups network optimizer aspect recipe settings recipes_pretrained recipes_imagenet recipes group devices
	loss answers model pixels evaluate reading predict encoding export source saved pretrained look embed
	group_table exchange finetune task steps trainer record resume train order classification do page timing show`)

// Names are resolved without types: those of functions, types, constants and variables by the parser, those of
// unexported methods where no other type of the package, nor a field, has the same.
func TestFilesKnowOnlyThoseBelowThem(t *testing.T) {
	const several = -1
	declaredIn, methodIn := map[string]int{}, map[string]int{}
	paths := gomlxtest.Must(filepath.Glob("*.go"))(t)
	parsed := make([]*ast.File, len(files))
	for _, path := range paths {
		name := strings.TrimSuffix(path, ".go")
		if strings.HasSuffix(name, "_test") {
			continue
		}
		at := slices.Index(files, name)
		if at < 0 {
			t.Fatalf("%s has no place in the list of files", path)
		}
		parsed[at] = gomlxtest.Must(parser.ParseFile(token.NewFileSet(), path, nil, 0))(t)
		for name := range parsed[at].Scope.Objects { //nolint:staticcheck // one package of one directory: this is enough
			declaredIn[name] = at
		}
		ast.Inspect(parsed[at], func(n ast.Node) bool {
			once := func(id *ast.Ident, where int) {
				if _, again := methodIn[id.Name]; again {
					where = several
				}
				methodIn[id.Name] = where
			}
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil && !n.Name.IsExported() {
					once(n.Name, at)
				}
			case *ast.Field:
				for _, id := range n.Names {
					once(id, several)
				}
			}
			return true
		})
	}
	arrows := 0
	for at, file := range parsed {
		if file == nil {
			t.Fatalf("there is no %s.go", files[at])
		}
		known := map[int]bool{}
		refers := func(name string, to map[string]int) {
			if where, ok := to[name]; ok && where != several && where != at {
				known[where] = true
				if where > at {
					t.Errorf("%s.go refers to %s of %s.go, which comes after it", files[at], name, files[where])
				}
			}
		}
		for _, id := range file.Unresolved { //nolint:staticcheck // as above
			refers(id.Name, declaredIn)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				refers(s.Sel.Name, methodIn)
			}
			return true
		})
		arrows += len(known)
	}
	if arrows < 60 {
		t.Errorf("%d arrows between files: this test sees nothing", arrows)
	}
	t.Logf("%d arrows between %d files", arrows, len(files))
}
