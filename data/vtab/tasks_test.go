// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vtab

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// The classes in JieShibo/PETL-ViT (026e4f1, FacT/vtab.py), and the lengths of the test lists in the tests of
// google-research/task_adaptation (d7630d3): sources independent of the table, in another order.
var publishedSizes = map[string][2]int{
	"cifar": {100, 10_000}, "caltech101": {102, 6_084}, "dtd": {47, 1_880}, "oxford_flowers102": {102, 6_149},
	"oxford_iiit_pet": {37, 3_669}, "svhn": {10, 26_032}, "sun397": {397, 21_750}, "patch_camelyon": {2, 32_768},
	"eurosat": {10, 5_400}, "resisc45": {45, 6_300}, "diabetic_retinopathy": {5, 42_670}, "clevr_count": {8, 15_000},
	"clevr_dist": {6, 15_000}, "dmlab": {6, 22_735}, "kitti": {4, 711}, "dsprites_loc": {16, 73_728},
	"dsprites_ori": {16, 73_728}, "smallnorb_azi": {18, 12_150}, "smallnorb_ele": {9, 12_150},
}

func TestTasks_HaveTheSizesOfVTAB(t *testing.T) {
	if len(Tasks) != 19 || len(publishedSizes) != 19 {
		t.Fatalf("%d tasks, published %d, want 19", len(Tasks), len(publishedSizes))
	}
	counts := map[string]int{}
	names := map[string]bool{}
	for _, task := range Tasks {
		counts[task.Group]++
		if got := [2]int{task.Classes, task.Test}; got != publishedSizes[task.Name] {
			t.Errorf("%s: classes and test images %v, want %v", task.Name, got, publishedSizes[task.Name])
		}
		for _, name := range append([]string{task.Name}, task.Aliases...) {
			if names[name] || slices.Contains(groups, name) || name == "all" {
				t.Errorf("%s: the name %s means two things", task.Name, name)
			}
			names[name] = true
		}
		if task.Source == "" {
			t.Errorf("%s: no source of its images", task.Name)
		}
	}
	for i, want := range []int{7, 4, 8} {
		if counts[groups[i]] != want {
			t.Errorf("%d %s tasks, want %d", counts[groups[i]], groups[i], want)
		}
	}
}

func TestChoose_ByNameGroupAndAlias(t *testing.T) {
	names := func(tasks []Task) (names []string) {
		for _, task := range tasks {
			names = append(names, task.Name)
		}
		return names
	}
	for _, c := range []struct{ list, want string }{
		{"specialized", "patch_camelyon,eurosat,resisc45,diabetic_retinopathy"},
		{"dmlab,cifar100", "cifar,dmlab"}, // the order of the table
		{"pets,oxford_iiit_pet,pets", "oxford_iiit_pet"},
		{"structured,kitti,dtd", "dtd,clevr_count,clevr_dist,dmlab,dsprites_loc,dsprites_ori,kitti," +
			"smallnorb_azi,smallnorb_ele"},
		{"all", strings.Join(names(Tasks), ",")},
	} {
		chosen, err := Choose(strings.Split(c.list, ","))
		if got := strings.Join(names(chosen), ","); got != c.want || err != nil {
			t.Errorf("%s chooses %s, want %s, %v", c.list, got, c.want, err)
		}
	}
}

func TestOpen_FindsATaskUnderEachOfItsNames(t *testing.T) {
	tasks := gomlxtest.Must(Choose([]string{"oxford_iiit_pet"}))(t)
	for _, name := range []string{"oxford_iiit_pet", "oxford_pet", "pets"} {
		dir := datatest.Tree(t, map[string][]byte{name + "/readme": nil})
		var log strings.Builder
		_, err := Open(dir, tasks, true, gomlxtest.Logger(&log)) // the folder exists, its lists do not
		if folder := filepath.Join(dir, name); err == nil || !strings.Contains(err.Error(), folder) || log.Len() > 0 {
			t.Errorf("%s: %v, want an error about %s; logged %s", name, err, folder, &log)
		}
	}
}
