// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/report"
)

func TestFilled_ReplacesWhatIsBetweenTheMarkers(t *testing.T) {
	dir := t.TempDir()
	for seed, top1 := range []report.JSONFloat{0.25, 0.75} {
		for i, encoding := range []string{"wepe", "cpe"} { // 1.5625 and 4.6875 points apart
			if err := report.Append(filepath.Join(dir, "study.jsonl"), report.Result{
				Job:         report.Job{Encoding: encoding, Fraction: 1, Seed: int64(seed)},
				Test:        report.Metrics{Loss: 2 - top1, Top1: top1 * (1 + report.JSONFloat(i)/16), Top5: 1, Images: 3},
				WallSeconds: 90,
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	const marker = "# Results\n<!-- table: study by=encoding baseline=wepe -->\n"
	const after = "<!-- end -->\ntext <!-- end -->\n<!-- other -->\nx\n"
	const want = marker + `
| encoding | n | test top-1 % | top-1 − wepe (95 % interval) |
|---|---:|---:|---:|
| wepe | 2 | 50.00 | – |
| cpe | 2 | 53.12 | +3.12 (-16.73…+22.98) |

` + after
	for _, before := range []string{marker + "old\n" + after, want} {
		if got, err := filled(before, dir, drawn); err != nil || got != want {
			t.Errorf("got\n%s\n%v, want\n%s", got, err, want)
		}
	}
	for _, text := range []string{"<!-- table: study -->\n",
		"<!-- table: study -->\n<!-- table: study -->\n<!-- end -->\n",
		"<!-- table: study by=encoding baseline= -->\nx\n<!-- end-->", "<!-- table: study colour=red -->\n<!-- end -->\n",
		"<!-- table: absent -->\n<!-- end -->\n", "<!-- table: -->\n<!-- end -->\n",
		"<!-- table: study by=encoding,seed -->\n<!-- end -->\n", "<!-- curves: study p.png only=x -->\n<!-- end -->\n"} {
		if _, err := filled(text, dir, drawn); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

// This detects a number that was changed by hand, and a code change without the documents.
func TestDocuments_EveryTableIsComputed(t *testing.T) {
	const root = "../.."
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/evidence/*.md"} {
		for _, path := range gomlxtest.Must(filepath.Glob(filepath.Join(root, pattern)))(t) {
			text := string(gomlxtest.Must(os.ReadFile(path))(t))
			if want, err := filled(text, filepath.Join(root, "docs", "runs"), drawn); err != nil || want != text {
				t.Errorf("%s: run make results: %v", path, err)
			}
		}
	}
}

// The numbers of parameters in papers and in their authors' code. more is counted there and not here, or negative.
func TestParameters_EqualThePublishedOnes(t *testing.T) {
	for _, q := range []struct {
		source, model, position string
		count, more             int
	}{
		{"WePE release", "Ti/16", "learned", 37_824, 0},
		{"timm", "B/16", "learned", 151_296, 0},
		{"WePE release", "Ti/16", "sincos2d", 192, 192}, // a learned row for the class token
		{"WePE release", "Ti/16", "grid2d", 37_824, 0},
		{"rope-vit", "B/16", "rope-mixed", 9_216, 0},
		{"LieRE paper, 580 k", "B/16", "liere", 580_608, 0}, // with blocks of 64
		{"WePE release", "Ti/16", "wepe", 1_539, 0},
		{"WePE paper, Direct", "Ti/16", "wepe", 1_731, 192}, // the class token
		// Four factors are fixed here, which has the learned table and the gate.
		{"WePE release, CIFAR-100 fine-tuning", "B/16", "hybrid", 891_271, 4 - 1 - 151_296},
		{"WePE paper, LUT at width 768", "B/16", "hybrid", 895_879, 4 - 1 - 151_296 + 6*768},
	} {
		var params map[string]any
		if q.position == "liere" {
			params = map[string]any{"liere_block": 64}
		}
		if got := gomlxtest.Must(parameters(q.model, q.position, params))(t); got+q.more != q.count {
			t.Errorf("%s at %s: %d and %d more, %s has %d", q.position, q.model, got, q.more, q.source, q.count)
		}
	}
}

// drawn replaces the file of a plot.
func drawn(_ string, draw func(io.Writer) error) error {
	var content bytes.Buffer
	if err := draw(&content); err != nil {
		return err
	}
	_, err := png.DecodeConfig(&content)
	return err
}
