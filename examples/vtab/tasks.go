// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/finetune/study"
)

// The groups of VTAB, in the order of every published table.
const (
	natural     = "natural"
	specialized = "specialized"
	structured  = "structured"
)

var groups = []string{natural, specialized, structured}

// The parts of a task: list files with their lengths. The metric of all 19 tasks is top-1 accuracy on the whole test
// list, whose length is the task's own; retinopathy's too, where others would take Cohen's kappa.
const (
	train800    = "train800"
	val200      = "val200"
	train1000   = "train800val200"
	test        = "test"
	trainImages = 800
	valImages   = 200
)

// task is one of the 19, as google-research/task_adaptation (commit d7630d3) defines and its tests assert it.
type task struct {
	name    string   // folder, as the script behind most VTAB-1k copies writes it (ZhangYuanhan-AI/NOAH, e9c55f3)
	aliases []string // folders of the same task in other repositories
	group   string
	classes int
	test    int    // images of the test list
	labels  string // what the classes are, where the name does not say
	source  string // of the pictures; what their owners allow differs, read it there
	release string // recipe with the settings of the WePE release's script for this task, where it has one

	// Published top-1, in percent. Learned is the ViT-L/16 (ImageNet-21k) of Dosovitskiy et al. 2021, Table 9, which the
	// WePE paper quotes digit for digit as its APE row. WePE is the paper's own row, 0 where we have no copy of the cell.
	learned, wepe float64
}

// tasks are the 19 in the order of the published tables.
var tasks = []task{
	{name: "caltech101", group: natural, classes: 102, test: 6084, learned: 90.8,
		labels: "101 objects and the background; the training lists are balanced, the test list is not",
		source: "https://data.caltech.edu/records/mzrjq-6wc02"},
	{name: "cifar", aliases: []string{"cifar100", "cifar_100"}, group: natural, classes: 100, test: 10000, learned: 84.1,
		labels: "fine labels of CIFAR-100", source: "https://www.cs.toronto.edu/~kriz/cifar.html"},
	{name: "dtd", group: natural, classes: 47, test: 1880, learned: 74.1,
		labels: "textures", source: "https://www.robots.ox.ac.uk/~vgg/data/dtd"},
	{name: "oxford_flowers102", aliases: []string{"flowers102"}, group: natural, classes: 102, test: 6149,
		learned: 99.3, wepe: 98.79, source: "https://www.robots.ox.ac.uk/~vgg/data/flowers/102"},
	{name: "oxford_iiit_pet", aliases: []string{"oxford_pet", "pets"}, group: natural, classes: 37, test: 3669,
		learned: 92.7, labels: "breeds", source: "https://www.robots.ox.ac.uk/~vgg/data/pets"},
	{name: "sun397", group: natural, classes: 397, test: 21750, learned: 61.0,
		labels: "scenes", source: "https://vision.princeton.edu/projects/2010/SUN (39 GB)"},
	{name: "svhn", group: natural, classes: 10, test: 26032, learned: 80.9,
		labels: "cropped digits", release: "release-svhn", source: "http://ufldl.stanford.edu/housenumbers"},

	{name: "patch_camelyon", group: specialized, classes: 2, test: 32768, learned: 82.5,
		source: "https://github.com/basveeling/pcam (8 GB)"},
	{name: "eurosat", group: specialized, classes: 10, test: 5400, learned: 95.6, wepe: 93.89,
		labels: "land use, from the RGB bands; the last fifth of the only split is the test list",
		source: "https://github.com/phelber/EuroSAT"},
	{name: "resisc45", group: specialized, classes: 45, test: 6300, learned: 85.2,
		labels:  "scenes from above; the last fifth of the only split is the test list",
		release: "release-resisc45", source: "NWPU-RESISC45, from its authors by hand"},
	{name: "diabetic_retinopathy", group: specialized, classes: 5, test: 42670, learned: 75.3,
		labels: "stage of the disease; pictures prepared as btgraham-300",
		source: "https://www.kaggle.com/c/diabetic-retinopathy-detection, with an account, not to be passed on"},

	{name: "clevr_count", group: structured, classes: 8, test: 15000, learned: 70.3,
		labels: "3 to 10 objects", source: "https://cs.stanford.edu/people/jcjohns/clevr (19 GB)"},
	{name: "clevr_dist", group: structured, classes: 6, test: 15000, learned: 56.1,
		labels: "depth of the nearest object, cut at 8, 8.5, 9, 9.5 and 10",
		source: "https://cs.stanford.edu/people/jcjohns/clevr (19 GB)"},
	{name: "dmlab", group: structured, classes: 6, test: 22735, learned: 41.9, wepe: 54.24,
		labels:  "kind and distance of the nearest object in a maze",
		release: "release-dmlab", source: "https://github.com/google-research/task_adaptation (3 GB)"},
	{name: "dsprites_loc", group: structured, classes: 16, test: 73728, learned: 74.7,
		labels: "horizontal place, 32 of them in pairs", source: "https://github.com/google-deepmind/dsprites-dataset"},
	{name: "dsprites_ori", group: structured, classes: 16, test: 73728, learned: 64.9,
		labels: "orientation, 40 of them, floor(k/2.5)", source: "https://github.com/google-deepmind/dsprites-dataset"},
	{name: "kitti", group: structured, classes: 4, test: 711, learned: 79.9, wepe: 81.25,
		labels: "depth of the nearest vehicle, cut at 8 and 20 m; the last class is none",
		source: "https://www.cvlibs.net/datasets/kitti (12 GB); TFDS's kitti 3.1.0 is wrong, 3.2.0 is right"},
	{name: "smallnorb_azi", group: structured, classes: 18, test: 12150, learned: 30.5,
		labels: "azimuth; the second half of the official test set is the test list",
		source: "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small"},
	{name: "smallnorb_ele", group: structured, classes: 9, test: 12150, learned: 41.7,
		labels: "elevation, of the same pictures as the azimuth",
		source: "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small"},
}

// published is what the two rows come to as a whole. WePE's means were computed from the 19 cells that its paper
// prints; the mean that the paper prints beside them follows from neither those nor any 18 of them.
var published = struct {
	wepeGroups                          map[string]float64
	wepe19, wepe3, wepePrinted          float64
	learned19, learned3, learnedPrinted float64
}{
	wepeGroups: map[string]float64{natural: 85.31, specialized: 85.22, structured: 61.20},
	wepe19:     75.14, wepe3: 77.24, wepePrinted: 73.59,
	learned19: 72.71, learned3: 75.14, learnedPrinted: 72.70,
}

// chooseTasks returns the tasks that a list names, of "all", groups, folders and their aliases, in the table's order.
func chooseTasks(list string) (chosen []task, err error) {
	wanted := study.Split(list)
	if len(wanted) == 0 {
		return nil, fmt.Errorf("-tasks names none: want all, %s or names of tasks", strings.Join(groups, ", "))
	}
	used := map[string]bool{}
	for _, t := range tasks {
		names := append([]string{"all", t.group, t.name}, t.aliases...)
		for _, w := range wanted {
			if slices.Contains(names, w) {
				used[w] = true
				if len(chosen) == 0 || chosen[len(chosen)-1].name != t.name {
					chosen = append(chosen, t)
				}
			}
		}
	}
	for _, w := range wanted {
		if !used[w] {
			return nil, fmt.Errorf("-tasks: no task %q: want all, %s or some of %s", w, strings.Join(groups, ", "),
				strings.Join(taskNames(), ","))
		}
	}
	return chosen, nil
}

func taskNames() []string {
	names := make([]string, len(tasks))
	for i, t := range tasks {
		names[i] = t.name
	}
	return names
}
