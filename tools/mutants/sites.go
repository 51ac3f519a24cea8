// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// pkg is a package with its types.
type pkg struct {
	path, dir, name string
	fset            *token.FileSet
	files           []*ast.File
	source          map[string][]byte // by file
	info            *types.Info
	types           *types.Package
}

// mutant is one change of the bytes [from, to) of a file.
type mutant struct {
	id             int
	file, position string
	from, to       int
	what           string
	changed        string // code that selects between the original and the change by the identifier %d
}

// load parses and type-checks a package; its imports come from the compiler's export data.
func load(path string) (*pkg, error) {
	cmd := exec.Command("go", "list", "-deps", "-export", "-json=ImportPath,Dir,Name,GoFiles,Export", path)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", path, err)
	}
	type listed struct {
		ImportPath, Dir, Name, Export string
		GoFiles                       []string
	}
	exports := map[string]string{}
	var last listed // the package itself comes after its dependencies
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		last = listed{}
		if err := d.Decode(&last); err != nil {
			return nil, err
		}
		exports[last.ImportPath] = last.Export
	}
	p := &pkg{path: path, dir: last.Dir, name: last.Name, fset: token.NewFileSet(), source: map[string][]byte{}}
	for _, name := range last.GoFiles {
		file := filepath.Join(last.Dir, name)
		src, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		parsed, err := parser.ParseFile(p.fset, file, src, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		p.files, p.source[file] = append(p.files, parsed), src
	}
	p.info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(p.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
	p.types, err = config.Check(last.ImportPath, p.fset, p.files, p.info)
	return p, err
}

var swapped = map[token.Token]token.Token{
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL, token.REM: token.MUL,
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN,
	token.MUL_ASSIGN: token.QUO_ASSIGN, token.QUO_ASSIGN: token.MUL_ASSIGN,
}

// finder collects the mutants of one file.
type finder struct {
	*pkg
	file    *ast.File
	name    string
	mutants []*mutant
}

func (p *pkg) mutants() []*mutant {
	var all []*mutant
	for _, file := range p.files {
		f := &finder{pkg: p, file: file, name: p.fset.Position(file.Pos()).Filename}
		ast.Inspect(file, f.visit)
		all = append(all, f.mutants...)
	}
	return all
}

func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok != token.CONST && n.Tok != token.IMPORT && n.Tok != token.TYPE
	case *ast.ArrayType, *ast.FuncType:
		return false
	case *ast.BlockStmt:
		f.statements(n.List)
	case *ast.CaseClause:
		f.statements(n.Body)
	case *ast.IfStmt:
		f.expression(n.Cond, "false", f.text(n.Cond)+" never holds")
	case *ast.BinaryExpr:
		if other, ok := swapped[n.Op]; ok && f.swaps(n) {
			f.expression(n, f.text(n.X)+" "+other.String()+" "+f.text(n.Y), n.Op.String()+" → "+other.String())
		}
	case *ast.UnaryExpr:
		if n.Op == token.SUB || n.Op == token.NOT {
			f.expression(n, f.text(n.X), "without "+n.Op.String())
		}
	case *ast.BasicLit:
		f.number(n)
	case *ast.Ident:
		if c, ok := f.info.Uses[n].(*types.Const); ok && c.Pkg() == nil {
			if other := map[string]string{"true": "false", "false": "true"}[n.Name]; other != "" {
				f.constant(n, other)
			}
		}
	case *ast.CallExpr:
		f.call(n)
	}
	return true
}

// swaps reports whether an operator has another one on its operands.
func (f *finder) swaps(n *ast.BinaryExpr) bool {
	basic, ok := f.info.Types[n].Type.Underlying().(*types.Basic)
	return ok && basic.Info()&(types.IsNumeric|types.IsBoolean) != 0
}

func (f *finder) number(n *ast.BasicLit) {
	switch n.Kind {
	case token.INT:
		if v, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
			f.constant(n, strconv.FormatInt(v+1, 10))
		}
	case token.FLOAT:
		f.constant(n, "(1+"+n.Value+")")
	}
}

// constant changes a literal where its value is not needed by the compiler.
func (f *finder) constant(n ast.Expr, other string) {
	f.add(n, f.picked(n, other), f.text(n)+" → "+other)
}

// expression changes an expression that is not a constant.
func (f *finder) expression(n ast.Expr, other, what string) {
	if f.info.Types[n].Value == nil {
		f.add(n, f.picked(n, other), what)
	}
}

// call replaces a call by its first argument of the same type.
func (f *finder) call(n *ast.CallExpr) {
	of, ok := f.info.Types[n]
	if !ok || !of.IsValue() || f.info.Types[n.Fun].IsType() {
		return
	}
	for _, arg := range n.Args {
		if types.Identical(of.Type, f.info.Types[arg].Type) && !n.Ellipsis.IsValid() {
			f.expression(n, f.text(arg), f.text(n.Fun)+"(…) → "+f.text(arg))
			return
		}
	}
}

// statements removes statements and exchanges the operators of assignments.
func (f *finder) statements(list []ast.Stmt) {
	for i, s := range list {
		remove := "if !mutantIs(%d) { " + escaped(f.text(s)) + " }"
		switch s := s.(type) {
		case *ast.ExprStmt:
			if call, ok := s.X.(*ast.CallExpr); ok && (f.text(call.Fun) != "panic" || i < len(list)-1) {
				f.add(s, remove, "removed "+f.text(s))
			}
		case *ast.IncDecStmt:
			f.add(s, remove, "removed "+f.text(s))
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE || f.text(s.Lhs[0]) == "_" {
				continue
			}
			f.add(s, remove, "removed "+f.text(s))
			if other, ok := swapped[s.Tok]; ok && f.numeric(s.Lhs[0]) {
				changed := f.text(s.Lhs[0]) + " " + other.String() + " " + f.text(s.Rhs[0])
				f.add(s, "if mutantIs(%d) { "+escaped(changed)+" } else { "+escaped(f.text(s))+" }",
					s.Tok.String()+" → "+other.String())
			}
		}
	}
}

func (f *finder) numeric(n ast.Expr) bool {
	basic, ok := f.info.Types[n].Type.Underlying().(*types.Basic)
	return ok && basic.Info()&types.IsNumeric != 0
}

// picked is code that calculates one of two expressions; empty if their type has no name in this file.
func (f *finder) picked(n ast.Expr, other string) string {
	t := f.info.Types[n].Type
	if t == nil {
		return ""
	}
	named := true
	name := types.TypeString(types.Default(t), func(p *types.Package) string {
		if p == f.types {
			return ""
		}
		for _, imported := range f.file.Imports {
			if path, _ := strconv.Unquote(imported.Path.Value); path == p.Path() {
				switch {
				case imported.Name == nil:
					return p.Name()
				case imported.Name.Name == ".":
					return ""
				}
				return imported.Name.Name
			}
		}
		named = false
		return ""
	})
	if !named || name == "untyped nil" || strings.HasPrefix(name, "(") {
		return ""
	}
	return fmt.Sprintf("mutantPick(%%d, func() %s { return %s }, func() %s { return %s })", escaped(name),
		escaped(f.text(n)), escaped(name), escaped(other))
}

func (f *finder) add(n ast.Node, changed, what string) {
	if changed == "" {
		return
	}
	at := f.fset.Position(n.Pos())
	f.mutants = append(f.mutants, &mutant{file: f.name, from: at.Offset, to: f.fset.Position(n.End()).Offset,
		position: fmt.Sprintf("%s:%d", filepath.Base(f.name), at.Line), changed: changed, what: short(what)})
}

func (f *finder) text(n ast.Node) string {
	return string(f.source[f.name][f.fset.Position(n.Pos()).Offset:f.fset.Position(n.End()).Offset])
}

func escaped(code string) string { return strings.ReplaceAll(code, "%", "%%") }

// short is a text on one line of at most 60 runes.
func short(text string) string {
	r := []rune(strings.Join(strings.Fields(text), " "))
	if len(r) > 60 {
		r = append(r[:59], '…')
	}
	return string(r)
}
