// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package jsonl

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestLinesMayBeLongAndErrorsNameThem(t *testing.T) {
	path, long := filepath.Join(t.TempDir(), "rows.jsonl"), strings.Repeat("a", 1<<17)
	for content, wrong := range map[string]string{`"` + long + "\"\n\"b\"": "", "\"a\"\n{\n": path + ":2: "} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		switch got, err := Read[string](path); {
		case wrong != "" && (err == nil || !strings.HasPrefix(err.Error(), wrong)):
			t.Errorf("error %v, want one of %s", err, wrong)
		case wrong == "" && (err != nil || !slices.Equal(got, []string{long, "b"})):
			t.Errorf("%d values: %v", len(got), err)
		}
	}
}
