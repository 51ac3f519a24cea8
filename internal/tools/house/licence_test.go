// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/campaign"
)

// permissive are sentences of licences that ask for no more than to be named.
var permissive = map[string]string{
	"MIT":      "permission is hereby granted, free of charge",
	"BSD":      "redistribution and use in source and binary",
	"Apache":   "apache license",
	"FreeType": "your choice of exactly one of the following", // that of FreeType, or the GPL
	"CC BY":    "creative commons attribution 4.0 international",
}

// Of every module that some build of ours has code of.
func TestTheLicencesOfAllModulesArePermissive(t *testing.T) {
	const format = "{{with .Module}}{{.Path}} {{.Dir}}{{end}}"
	list := exec.Command("go", "list", "-tags", "onnx,xla", "-deps", "-f", format, "./...")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(lines)
	space, copyleft := regexp.MustCompile(`\s+`), regexp.MustCompile(`general public license|mozilla public`)
	modules := 0
	for _, line := range slices.Compact(lines) {
		path, dir, _ := strings.Cut(line, " ")
		if path+"/" == module {
			continue
		}
		modules++
		files, _ := filepath.Glob(filepath.Join(dir, "LICEN[CS]E*"))
		found := []string{}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.ToLower(space.ReplaceAllString(string(raw), " "))
			for name, sentence := range permissive {
				if strings.Contains(text, sentence) {
					found = append(found, name)
				}
			}
			if !slices.Contains(found, "FreeType") && copyleft.MatchString(text) {
				t.Errorf("%s: %s is of a licence that asks for more", path, filepath.Base(file))
			}
		}
		if len(found) == 0 {
			t.Errorf("%s: no permissive licence among %q", path, files)
		}
	}
	campaign.Did(t, modules, "modules with a permissive licence")
	if modules < 20 {
		t.Errorf("only %d modules were looked at", modules)
	}
}
