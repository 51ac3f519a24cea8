// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/datatest"
)

// The classes as JieShibo/PETL-ViT (026e4f1, FacT/vtab.py) lists them, and the lengths of the test lists that the tests
// of google-research/task_adaptation (d7630d3) assert: other sources than the table's, in another order.
var publishedSizes = map[string][2]int{
	"cifar": {100, 10_000}, "caltech101": {102, 6_084}, "dtd": {47, 1_880}, "oxford_flowers102": {102, 6_149},
	"oxford_iiit_pet": {37, 3_669}, "svhn": {10, 26_032}, "sun397": {397, 21_750}, "patch_camelyon": {2, 32_768},
	"eurosat": {10, 5_400}, "resisc45": {45, 6_300}, "diabetic_retinopathy": {5, 42_670}, "clevr_count": {8, 15_000},
	"clevr_dist": {6, 15_000}, "dmlab": {6, 22_735}, "kitti": {4, 711}, "dsprites_loc": {16, 73_728},
	"dsprites_ori": {16, 73_728}, "smallnorb_azi": {18, 12_150}, "smallnorb_ele": {9, 12_150},
}

func TestTheTableOfTasksHasTheSizesOfVTAB(t *testing.T) {
	if len(tasks) != 19 || len(publishedSizes) != 19 {
		t.Fatalf("%d tasks, published %d, want 19", len(tasks), len(publishedSizes))
	}
	counts := map[string]int{}
	names := map[string]bool{}
	for _, task := range tasks {
		counts[task.group]++
		if got := [2]int{task.classes, task.test}; got != publishedSizes[task.name] {
			t.Errorf("%s: classes and test images %v, want %v", task.name, got, publishedSizes[task.name])
		}
		for _, name := range append([]string{task.name}, task.aliases...) {
			if names[name] || slices.Contains(groups, name) || name == "all" {
				t.Errorf("%s: the name %s means two things", task.name, name)
			}
			names[name] = true
		}
		if task.source == "" {
			t.Errorf("%s: no source of its pictures", task.name)
		}
	}
	for i, want := range []int{7, 4, 8} {
		if counts[groups[i]] != want {
			t.Errorf("%d %s tasks, want %d", counts[groups[i]], groups[i], want)
		}
	}
}

func TestThePublishedCellsHaveThePublishedMeans(t *testing.T) {
	// Dosovitskiy et al. 2021, Table 9 prints 72.7.
	p := published
	if mean := learned.mean(tasks); math.Abs(mean-72.7) > 0.05 || math.Abs(mean-p.learned19) > 0.005 {
		t.Errorf("mean of the learned row %.4f, want %.2f, printed 72.7", mean, p.learned19)
	}
	if mean := learned.groupMean(tasks); math.Abs(mean-p.learned3) > 0.005 {
		t.Errorf("mean of the learned row's groups %.4f, want %.2f", mean, p.learned3)
	}
	// Of the WePE row we have the means of 7, 4 and 8 cells, to two decimals.
	of := p.wepeGroups
	if mean := (7*of[natural] + 4*of[specialized] + 8*of[structured]) / 19; math.Abs(mean-p.wepe19) > 0.01 {
		t.Errorf("the groups' means give a mean of %.4f over tasks, want %.2f", mean, p.wepe19)
	}
	if mean := (of[natural] + of[specialized] + of[structured]) / 3; math.Abs(mean-p.wepe3) > 0.01 {
		t.Errorf("the groups' means average to %.4f, want %.2f", mean, p.wepe3)
	}
	if math.Abs(p.wepe19-p.wepePrinted) < 1 {
		t.Errorf("the printed mean %.2f would follow from the row, %.2f", p.wepePrinted, p.wepe19)
	}
}

func TestTasksAreChosenByNameGroupAndAlias(t *testing.T) {
	var everything []string
	for _, task := range tasks {
		everything = append(everything, task.name)
	}
	for _, c := range []struct{ list, want string }{
		{"specialized", "patch_camelyon,eurosat,resisc45,diabetic_retinopathy"},
		{"dmlab,cifar100", "cifar,dmlab"}, // the order of the table
		{"pets,oxford_iiit_pet,pets", "oxford_iiit_pet"},
		{"structured,kitti,dtd", "dtd,clevr_count,clevr_dist,dmlab,dsprites_loc,dsprites_ori,kitti," +
			"smallnorb_azi,smallnorb_ele"},
		{"all", strings.Join(everything, ",")},
	} {
		chosen, err := chooseTasks(c.list)
		if err != nil {
			t.Errorf("%s: %v", c.list, err)
		}
		var names []string
		for _, task := range chosen {
			names = append(names, task.name)
		}
		if got := strings.Join(names, ","); got != c.want {
			t.Errorf("%s chooses %s, want %s", c.list, got, c.want)
		}
	}
}

func TestATaskIsFoundUnderEachOfItsNames(t *testing.T) {
	for _, name := range []string{"oxford_iiit_pet", "oxford_pet", "pets"} {
		dir := datatest.Tree(t, map[string][]byte{name + "/readme": nil})
		folder := filepath.Join(dir, name)
		o, err := parse([]string{"-plan", "-tasks", "oxford_iiit_pet", "-data", dir})
		if err == nil {
			err = o.find() // the folder is there, its lists are not
		}
		if err == nil || !strings.Contains(err.Error(), folder) {
			t.Errorf("%s: %v, want an error about %s", name, err, folder)
		}
	}
}

func TestFlagsGiveEveryTaskItsRecipe(t *testing.T) {
	t.Setenv("JOB_COMPLETION_INDEX", "2")
	t.Setenv("JOB_COMPLETIONS", "5")
	for _, c := range []struct {
		args, shard string
		recipes     []string // of the tasks; one where it is that of all 19
	}{
		{"-data d -from f", "2/5", []string{"dosovitskiy-vtab"}},
		{"-plan -shard 1/3", "1/3", []string{"dosovitskiy-vtab"}},
		{"-recipe release -plan", "2/5", []string{"release-svhn", "release-resisc45", "release-dmlab"}},
	} {
		o, err := parse(append(strings.Fields(c.args), "-set", "model.drop_path=0.125"))
		if err != nil {
			t.Fatal(err)
		}
		if len(c.recipes) == 1 {
			c.recipes = slices.Repeat(c.recipes, 19)
		}
		for i, task := range o.study.Tasks {
			r := task.Recipe
			if r.Name != c.recipes[i] || r.Model.DropPath != 0.125 || r.ValidationPart != -1 || task.Name != o.tasks[i].name {
				t.Errorf("%s: task %d, %s, has %+v, want %s", c.args, i, task.Name, r, c.recipes[i])
			}
		}
		if len(o.tasks) != len(c.recipes) || o.study.Shard.String() != c.shard {
			t.Errorf("%s: %d tasks, shard %v", c.args, len(o.tasks), o.study.Shard)
		}
	}
}

func TestTheDocumentHasTheTableOfTasks(t *testing.T) {
	document, err := os.ReadFile(filepath.Join("..", "..", "docs", "vtab.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		line := fmt.Sprintf("| `%s` | %s | %d | %d | %s | %s | %s |\n", task.name, task.group, task.classes, task.test,
			percent(learned(task)), percent(wepe(task)), task.source)
		if !strings.Contains(string(document), line) {
			t.Errorf("docs/vtab.md lacks %s", line)
		}
	}
	for _, group := range groups {
		if mean := percent(published.wepeGroups[group]); !strings.Contains(string(document), mean) {
			t.Errorf("docs/vtab.md lacks the mean of %s, %s", group, mean)
		}
	}
}
