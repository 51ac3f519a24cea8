// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package setting

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strings"
	"sync"
)

// sources is Go code with the structs of settings.
var sources []string

// Describe adds Go code whose structs have settings: the comment of a field is the meaning that Fields lists. A package
// embeds its own file and calls it when it is initialized.
func Describe(code string) bool {
	sources = append(sources, code)
	return true
}

// comments are the comments of fields, by package.Type.Field.
var comments = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for _, code := range sources {
		file, err := parser.ParseFile(token.NewFileSet(), "", code, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			panic(err) // it is compiled into this program
		}
		ast.Inspect(file, func(n ast.Node) bool {
			t, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := t.Type.(*ast.StructType); ok {
				for _, field := range s.Fields.List {
					for _, name := range field.Names {
						all[file.Name.Name+"."+t.Name.Name+"."+name.Name] = field.Doc.Text() + field.Comment.Text()
					}
				}
			}
			return false
		})
	}
	return all
})

var exported = regexp.MustCompile(`\b[A-Z][A-Za-z0-9]*\b`)

// meaning is the comment of a field, with the names that settings have in place of those of fields; "" for none. It
// does not begin with the setting's own name, which a list has already, unless as in "name of the recipe".
func meaning(of reflect.Type, field reflect.StructField) string {
	text := strings.TrimSuffix(strings.Join(strings.Fields(comments()[of.String()+"."+field.Name]), " "), ".")
	text = exported.ReplaceAllStringFunc(text, func(word string) string {
		if other, ok := of.FieldByName(word); ok && JSONName(other) != "" && JSONName(other) != "-" {
			return JSONName(other)
		}
		return word
	})
	if rest, begins := strings.CutPrefix(text, JSONName(field)+" "); begins && !strings.HasPrefix(rest, "of") {
		return strings.TrimPrefix(strings.TrimPrefix(rest, "is "), "are ")
	}
	return text
}
