// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/data"
	"github.com/wepe-go/wepe/finetune/report"
)

func TestEveryUnitOfEveryStudyHasARecipeAndADirectoryOfItsOwn(t *testing.T) {
	set, _, err := data.Shapes(data.TaskWhere, 7, 5, 32, 0)
	if err != nil {
		t.Fatal(err)
	}
	base, err := finetune.Named("cifar100-small")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range studies {
		args := []string{"-study", s.name, "-seeds", "3", "-fractions", "0.2,0.7", "-data", "x"}
		if s.pretrained {
			args = append(args, "-from", "y")
		}
		o, err := parse(args)
		if err != nil {
			t.Fatal(err)
		}
		if o.sizes, err = o.aspects(base, set); err != nil {
			t.Fatal(err)
		}
		units := o.units()
		if want := 3 * 2 * max(1, len(s.aspects)) * len(o.variants); len(units) != want {
			t.Errorf("%s: %d units, want %d", s.name, len(units), want)
		}
		dirs := map[string]string{}
		for _, u := range units {
			r, err := u.recipe(base)
			if err == nil {
				err = withData(r)
			}
			if err != nil {
				t.Errorf("%s: %s: %v", s.name, u.title(), err)
			}
			if other, taken := dirs[o.dir(u)]; taken || strings.ContainsAny(filepath.Base(o.dir(u)), " ,=/") {
				t.Errorf("%s: %s lives in %s, like %q", s.name, u.title(), o.dir(u), other)
			}
			dirs[o.dir(u)] = u.title()
		}
	}
}

// withData completes a recipe with what data decides, and validates it.
func withData(r finetune.Recipe) error {
	r.Model.ImageRows, r.Model.ImageCols = r.Augment.OutputSize(32, 32)
	r.Model.Classes = 100
	return r.WithDefaults().Validate()
}

func TestSqueezedPicturesKeepTheirAreaInWholePatches(t *testing.T) {
	for _, c := range []struct {
		side         float64
		patch        int
		ratio, wants [2]int
	}{
		{24, 4, [2]int{1, 1}, [2]int{24, 24}},
		{24, 4, [2]int{4, 1}, [2]int{48, 12}},
		{24, 4, [2]int{1, 4}, [2]int{12, 48}},
		{24, 4, [2]int{2, 1}, [2]int{32, 16}},     // 33.9 × 17.0
		{24, 4, [2]int{1, 3}, [2]int{12, 40}},     // 13.9 × 41.6
		{224, 16, [2]int{1, 2}, [2]int{160, 320}}, // 158.4 × 316.8
	} {
		if got := squeezed(c.side, c.patch, c.ratio); got != c.wants {
			t.Errorf("side %g, patch %d, ratio %v: %v, want %v", c.side, c.patch, c.ratio, got, c.wants)
		}
	}
}

func TestShardsTrainEveryUnitOnceAndTheTableJoinsThem(t *testing.T) {
	runs := t.TempDir()
	study := []string{"-compare", "none,rope-axial", "-sizes", "16x32,24x24", "-fractions", "0.05", "-checkpoint", runs,
		"-set", "epochs=1;model.depth=1;model.width=8;eval_batch_size=500"}
	rows := func() map[string]int {
		files, err := filepath.Glob(filepath.Join(runs, "shapes", "*", finetune.RowsFile))
		if err != nil {
			t.Fatal(err)
		}
		all, err := report.ReadFiles(files...)
		if err != nil {
			t.Fatal(err)
		}
		count := map[string]int{}
		for _, r := range all.Results {
			count[r.Recipe+" "+r.Encoding+" "+r.ImageSize]++
		}
		return count
	}
	first := cifar100.Run(t, append(study, "-shard", "0/3")...)
	if first.Code != 0 || len(rows()) != 2 || !strings.Contains(first.Stdout, "2 of 4 trainings are not done yet") {
		t.Fatalf("status %d, %v, printed %s%s", first.Code, rows(), first.Stdout, first.Stderr)
	}
	for _, part := range []string{"1/3", "2/3", "0/3"} {
		if e := cifar100.Run(t, append(study, "-shard", part)...); e.Code != 0 {
			t.Fatalf("shard %s: status %d, %s", part, e.Code, e.Stderr)
		}
	}
	want := map[string]int{
		"shapes 16x32 none 16x32": 1, "shapes 16x32 rope-axial 16x32": 1,
		"shapes 24x24 none 24x24": 1, "shapes 24x24 rope-axial 24x24": 1,
	}
	if got := rows(); !maps.Equal(got, want) {
		t.Errorf("recorded %v, want %v", got, want)
	}
	table := cifar100.Run(t, append(study, "-table")...)
	lines := slices.DeleteFunc(strings.Split(table.Stdout, "\n"), func(line string) bool {
		return !strings.HasPrefix(line, "shapes ")
	})
	if table.Code != 0 || len(lines) != 4 || strings.Contains(table.Stdout, "not done") || !maps.Equal(rows(), want) {
		t.Errorf("status %d, printed %s", table.Code, table.Stdout)
	}
}
