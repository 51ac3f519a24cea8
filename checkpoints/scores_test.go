// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// transformers reads problem_type; timm and Google have no such field, so that their exports must say what is lost.
func TestTheScoresOfAnExportAreThoseOfItsModel(t *testing.T) {
	for scores, problem := range map[string]any{
		"softmax": nil, "sigmoid": "multi_label_classification", "none": "regression",
	} {
		config := hfConfig()
		if problem != nil {
			config = hfConfig("problem_type", `"`+problem.(string)+`"`)
		}
		m := imported(t, put(t, hf, made(hf, smallViT), config), ImportOptions{})
		m.Config.Epsilon = 1e-6 // as timm's and Google's
		for _, format := range fileFormats {
			dir := filepath.Join(t.TempDir(), format)
			report, err := Export(dir, nil, loaded(t, m), m.Config, ExportOptions{Format: format, Scores: m.Scores})
			if err != nil {
				t.Fatal(err)
			}
			again := imported(t, dir, ImportOptions{})
			if format == formatTimm || format == formatJAX {
				if strings.Contains(strings.Join(report, "\n"), "scores: the ") != (problem != nil) {
					t.Errorf("%s as %s: report %q", scores, format, report)
				}
				continue
			}
			var written map[string]any
			if err := json.Unmarshal(readFile(t, filepath.Join(dir, foreignConfig)), &written); err != nil {
				t.Fatal(err)
			}
			if again.Scores != scores || written["problem_type"] != problem {
				t.Errorf("%s as %s: opened with %s, problem_type %v", scores, format, again.Scores, written["problem_type"])
			}
			said := strings.Contains(string(readFile(t, filepath.Join(dir, "README.md"))), "| scores |")
			if said != (problem != nil) {
				t.Errorf("%s as %s: the card describes the scores: %v", scores, format, said)
			}
		}
	}
	if err := (ExportOptions{Scores: "max"}).Validate(); err == nil || !strings.Contains(err.Error(), `scores "max"`) {
		t.Errorf("%v", err)
	}
}
