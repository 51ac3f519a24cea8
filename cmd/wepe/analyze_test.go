// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/analysis"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
)

const demoModel = "../../examples/cifar100/demo/vit"

// demoWith is a copy of the demo model, of 24×24 pixels, with other fields of a file.
func demoWith(t *testing.T, file string, fields map[string]any) string {
	t.Helper()
	dir, all := copied(t, demoModel), map[string]any{}
	path := filepath.Join(dir, file)
	gomlxtest.NoError(t, json.Unmarshal(gomlxtest.Must(os.ReadFile(path))(t), &all))
	maps.Copy(all, fields)
	gomlxtest.NoError(t, os.WriteFile(path, gomlxtest.Must(json.Marshal(all))(t), 0o644))
	return dir
}

const processor = "preprocessor_config.json"

// cropped resizes the shorter side to 48 pixels and crops the middle 24×24.
var cropped = map[string]any{"size": map[string]int{"shortest_edge": 48}, "do_center_crop": true,
	"crop_size": map[string]int{"height": 24, "width": 24}}

// As by predict.
func TestPreprocessing_UnknownIsRefused(t *testing.T) {
	dir := images(t, "own", 3, 24, 24)
	for names, fields := range map[string]map[string]any{"crop_pct": {"crop_pct": 0.875},
		"images differ in size": {"size": map[string]int{"shortest_edge": 24}}} {
		model := demoWith(t, processor, fields)
		refuses(t, 1, "predict, eval", "inspect", model)
		for _, line := range []string{"eval " + model + " --data " + dir, "serve " + model + " --addr 127.0.0.1:0",
			"predict " + model + " " + corner,
			"analyze " + model + " --analyses occlusion --data " + dir + " --out " + t.TempDir()} {
			refuses(t, 1, names, line)
		}
	}
}

func TestDistinct_ModelsOfOneFileNameAreNoSeeds(t *testing.T) {
	t.Chdir(datatest.Tree(t, map[string][]byte{"lr=0.1/x": nil, "a=1/b=2-seed3/x": nil}))
	for line, want := range map[string]string{
		"a/vit b/vit": "", "vit-seed1 b/vit": "", "a/vit vit=b/vit": "",
		"a/vit-seed1 b/vit-seed2/": "vit vit", "x=a/vit x=b/vit y=c": "x x y", "a=b/vit vit": "a vit", "d/a=b c": "a=b c",
		"lr=0.1 a=1/b=2-seed3 new=lr=0.1": "lr=0.1 b=2 new",
	} {
		names, err := distinct(strings.Fields(line))
		if got := strings.Join(names, " "); got != want || (err == nil) != (want != "") ||
			err != nil && !strings.Contains(err.Error(), "two models are called vit") {
			t.Errorf("%s: %q, %v, want %q", line, got, err, want)
		}
	}
}

// analyzed runs wepe analyze and returns its rows by model.
func analyzed(t *testing.T, args string) map[string][]analysis.Row {
	t.Helper()
	out, rows := t.TempDir(), map[string][]analysis.Row{}
	succeeds(t, "analyze --out "+out+" "+args)
	for line := range strings.Lines(string(gomlxtest.Must(os.ReadFile(filepath.Join(out, "analysis.jsonl")))(t))) {
		var row analysis.Row
		gomlxtest.NoError(t, json.Unmarshal([]byte(line), &row))
		rows[row.Model] = append(rows[row.Model], row)
	}
	return rows
}

// measured is what rows say, but not of which images.
func measured(rows []analysis.Row) (text string) {
	for _, row := range rows {
		text += fmt.Sprintln(row.Measure, row.At, row.Note, float64(row.Value))
	}
	return text
}

// A uniform attention over 6×6 patches and the class token has an entropy of ln 37; a larger one needs more patches.
func TestAnalyze_EachModelWithItsOwnPreprocessingAndSize(t *testing.T) {
	crop, squash := "crop="+demoWith(t, processor, cropped)+" ", "squash="+demoModel+" "
	of := "--analyses entropy --data " + images(t, "wide", 3, 20, 44)
	first, second := analyzed(t, crop+squash+of), analyzed(t, squash+crop+of)
	for _, model := range []string{"crop", "squash"} {
		is.Equal(t, model+", in another order", measured(second[model]), measured(first[model]))
		is.Equal(t, model+" has rows", len(first[model]) >= 6, true)
	}
	is.Equal(t, "two ways of preprocessing are one", measured(first["crop"]) == measured(first["squash"]), false)
	larger := analyzed(t, squash+of+" --size 96x96")["squash"]
	largest := func(rows []analysis.Row) (most float64) {
		for _, row := range rows {
			most = max(most, float64(row.Value))
		}
		return most
	}
	a, b := largest(first["squash"]), largest(larger)
	is.Equal(t, fmt.Sprint("the largest entropies: ", a, b), a > 0 && a <= math.Log(37) && b > math.Log(37), true)
}

// The images of a directory are sorted by class: the first ones would be of one.
func TestAnalyze_ALimitTakesImagesOfAllClasses(t *testing.T) {
	of := func(dir string) string {
		return measured(analyzed(t, "m="+demoModel+" --analyses entropy --limit 3 --data "+dir)["m"])
	}
	some := of(parts(t, map[string]int{"train": 5, "test": 5}, 24, 24))
	all := of(parts(t, map[string]int{"train": 5, "test": 1}, 24, 24))
	is.Equal(t, "3 of 15 images, and the first of each class", some, all)
	is.Equal(t, "there are rows", strings.Count(all, "\n") >= 6, true)
	is.Equal(t, "other images give the same", of(images(t, "own", 5, 24, 24)) == all, false)
}

// Images in memory, of CIFAR-100 with the model's 100 classes, and the same as PNG files.
func TestEval_OfADatasetInMemoryPreprocessesAsPredict(t *testing.T) {
	m := gomlxtest.Must(finetune.Open(gomlxtest.Backend(), demoModel))(t)
	defer m.Finalize()
	files, paths := datatest.CIFAR100(1, 20), []string{}
	files["fine_label_names.txt"] = []byte(strings.Join(m.Classes, "\n") + "\n")
	dir := datatest.Tree(t, files)
	_, test, err := data.CIFAR100(dir)
	gomlxtest.NoError(t, err)
	for i := range test.Len() {
		paths = append(paths, filepath.Join(dir, fmt.Sprint(i, ".png")))
		gomlxtest.NoError(t, os.WriteFile(paths[i], datatest.PNG(test.RGBA(i)), 0o600))
	}
	losses := map[string]float64{}
	for name, model := range map[string]string{"exact": demoModel, "crop": demoWith(t, processor, cropped)} {
		p := asJSON[struct{ Images []finetune.Prediction }](t, "predict --top 100 "+model, paths...)
		loss := 0.0
		for i, one := range p.Images {
			for _, c := range one.Labels {
				if c.Name == test.Classes[test.Labels[i]] {
					loss -= math.Log(c.Probability) / float64(len(paths))
				}
			}
		}
		e := asJSON[evaluated](t, "eval --split test "+model+" --data cifar100:"+dir)
		is.Near(t, name+": loss", float64(e.Metrics.Loss), loss, 1e-4)
		losses[name] = float64(e.Metrics.Loss)
	}
	is.Equal(t, "two ways of preprocessing are one", math.Abs(losses["exact"]-losses["crop"]) < 0.1, false)
}
