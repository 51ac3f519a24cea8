// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vtab

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
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
	is.Equal(t, "tasks, and published", [2]int{len(Tasks), len(publishedSizes)}, [2]int{19, 19})
	counts := map[string]int{}
	names := map[string]bool{}
	for _, task := range Tasks {
		counts[task.Group]++
		is.Equal(t, task.Name+": classes and test images", [2]int{task.Classes, task.Test}, publishedSizes[task.Name])
		for _, name := range append([]string{task.Name}, task.Aliases...) {
			twice := names[name] || slices.Contains(groups, name) || name == "all"
			is.Equal(t, "the name "+name+" means two things", twice, false)
			names[name] = true
		}
		is.Equal(t, task.Name+" has no source of its images", task.Source == "", false)
	}
	is.Equal(t, "tasks of each group", counts, map[string]int{groups[0]: 7, groups[1]: 4, groups[2]: 8})
}

func TestChoose_ByNameGroupAndAlias(t *testing.T) {
	names := func(tasks []Task) (names []string) {
		for _, task := range tasks {
			names = append(names, task.Name)
		}
		return names
	}
	for list, want := range map[string]string{
		"specialized":               "patch_camelyon,eurosat,resisc45,diabetic_retinopathy",
		"dmlab,cifar100":            "cifar,dmlab", // the order of the table
		"pets,oxford_iiit_pet,pets": "oxford_iiit_pet",
		"structured,kitti,dtd": "dtd,clevr_count,clevr_dist,dmlab,dsprites_loc,dsprites_ori,kitti," +
			"smallnorb_azi,smallnorb_ele",
		"all": strings.Join(names(Tasks), ","),
	} {
		is.Equal(t, list, strings.Join(names(gomlxtest.Must(Choose(strings.Split(list, ",")))(t)), ","), want)
	}
}

func TestOpen_FindsATaskUnderEachOfItsNames(t *testing.T) {
	tasks := gomlxtest.Must(Choose([]string{"oxford_iiit_pet"}))(t)
	for _, name := range []string{"oxford_iiit_pet", "oxford_pet", "pets"} {
		dir := datatest.Tree(t, map[string][]byte{name + "/readme": nil})
		var log strings.Builder
		_, err := Open(dir, tasks, true, gomlxtest.Logger(&log)) // the folder exists, its lists do not
		is.Refused(t, name, err, filepath.Join(dir, name))
		is.Equal(t, name+": logged", log.String(), "")
	}
}
