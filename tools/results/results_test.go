// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/report"
)

func TestFilled_ReplacesWhatIsBetweenTheMarkers(t *testing.T) {
	dir := t.TempDir()
	for seed, top1 := range []report.JSONFloat{0.25, 0.75} {
		for i, encoding := range []string{"wepe", "cpe"} { // 1.5625 and 4.6875 points apart
			gomlxtest.NoError(t, report.Append(filepath.Join(dir, "study.jsonl"), report.Result{
				Job:         report.Job{Encoding: encoding, Fraction: 1, Seed: int64(seed)},
				Test:        report.Metrics{Loss: 2 - top1, Top1: top1 * (1 + report.JSONFloat(i)/16), Top5: 1, Images: 3},
				WallSeconds: 90,
			}))
		}
	}
	const marker = "# Results\n<!-- table: study baseline=wepe -->\n"
	const after = "<!-- end -->\ntext <!-- end -->\n<!-- other -->\nx\n"
	const want = marker + `
| encoding | n | test top-1 % | top-1 − wepe (95 % interval) |
|---|---:|---:|---:|
| wepe | 2 | 50.00 | – |
| cpe | 2 | 53.12 | +3.12 |

` + after
	for _, before := range []string{marker + "old\n" + after, want} {
		if got, err := filled(before, dir, drawn); err != nil || got != want {
			t.Errorf("got\n%s\n%v, want\n%s", got, err, want)
		}
	}
	// Three runs each, of which two have a partner.
	for seed := range 3 {
		for i, encoding := range []string{"wepe", "cpe"} {
			gomlxtest.NoError(t, report.Append(filepath.Join(dir, "apart.jsonl"), report.Result{
				Job: report.Job{Encoding: encoding, Seed: int64(seed + i)}, Test: report.Metrics{Top1: 0.5, Images: 3},
			}))
		}
	}
	const apart = "<!-- table: apart baseline=wepe rows=cpe -->\n"
	const paired = apart + `
| encoding | n | test top-1 % | top-1 − wepe (95 % interval) | pairs |
|---|---:|---:|---:|---:|
| cpe | 3 | 50.00 | +0.00 | 2 |

<!-- end -->`
	if got, err := filled(apart+"<!-- end -->", dir, drawn); err != nil || got != paired {
		t.Errorf("got\n%s\n%v, want\n%s", got, err, paired)
	}
	for _, text := range []string{"<!-- table: study -->\n",
		"<!-- table: study -->\n<!-- table: study -->\n<!-- end -->\n",
		"<!-- table: study baseline= -->\nx\n<!-- end-->", "<!-- table: study colour=red -->\n<!-- end -->\n",
		"<!-- table: absent -->\n<!-- end -->\n", "<!-- table: -->\n<!-- end -->\n",
		"<!-- table: study by=encoding,seed -->\n<!-- end -->\n", "<!-- curves: study p.png only=x -->\n<!-- end -->\n",
		"<!-- table: study baseline=wepe only=cpe -->\n<!-- end -->\n",
		"<!-- table: study only=wepe,x -->\n<!-- end -->\n", "<!-- table: study columns=x -->\n<!-- end -->\n",
		"<!-- figure: study x by=encoding -->\n<!-- end -->\n", "<!-- dots: study p.png rows=x -->\n<!-- end -->\n"} {
		if _, err := filled(text, dir, drawn); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

// A failed run, one that was not evaluated, and an earlier attempt are not drawn.
func TestDots_AreTheRunsThatCount(t *testing.T) {
	recipe := gomlxtest.Must(finetune.RecipeByName("shapes"))(t)
	recipe.Model.ImageRows, recipe.Model.ImageCols, recipe.Model.Channels, recipe.Model.Classes = 32, 32, 3, 5
	settings := gomlxtest.Must(json.Marshal(recipe))(t)
	run := func(seed int64, top1 report.JSONFloat) report.Result {
		return report.Result{Job: report.Job{Encoding: "learned", Seed: seed}, Settings: settings,
			Test: report.Metrics{Top1: top1, Images: 7}}
	}
	draw := func(runs ...report.Result) string {
		var file bytes.Buffer
		gomlxtest.NoError(t, plots["dots:"].draw(&file, report.Rows{Results: runs}))
		return file.String()
	}
	failed, unseen := report.Result{Job: report.Job{Encoding: "learned", Seed: 3}, Failed: "diverged"}, run(5, 0)
	unseen.Test.Images = 0
	is.Equal(t, "runs that count", draw(run(1, 0.25), failed, run(2, 0.5), unseen, run(1, 0.75)),
		draw(run(2, 0.5), run(1, 0.75)))
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
		is.Equal(t, q.position+" at "+q.model+" of "+q.source, parameters(q.model, q.position, params)+q.more, q.count)
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
