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
	name    string // folder, as the script behind most VTAB-1k copies writes it (ZhangYuanhan-AI/NOAH, e9c55f3)
	group   string
	classes int
	test    int // images of the test list

	// Published top-1, in percent. Learned is the ViT-L/16 (ImageNet-21k) of Dosovitskiy et al. 2021, Table 9, which the
	// WePE paper quotes digit for digit as its APE row. WePE is the paper's own row, 0 where we have no copy of the cell.
	learned, wepe float64

	source  string   // of the pictures; what their owners allow differs, read it there
	aliases []string // folders of the same task in other repositories
}

// tasks are the 19 in the order of the published tables, each behind what its classes are.
var tasks = []task{
	// 101 objects and the background; the training lists are balanced, the test list is not.
	{"caltech101", natural, 102, 6084, 90.8, 0, "https://data.caltech.edu/records/mzrjq-6wc02", nil},
	// The fine labels of CIFAR-100.
	{"cifar", natural, 100, 10000, 84.1, 0, "https://www.cs.toronto.edu/~kriz/cifar.html",
		[]string{"cifar100", "cifar_100"}},
	// Textures.
	{"dtd", natural, 47, 1880, 74.1, 0, "https://www.robots.ox.ac.uk/~vgg/data/dtd", nil},
	{"oxford_flowers102", natural, 102, 6149, 99.3, 98.79, "https://www.robots.ox.ac.uk/~vgg/data/flowers/102",
		[]string{"flowers102"}},
	// Breeds.
	{"oxford_iiit_pet", natural, 37, 3669, 92.7, 0, "https://www.robots.ox.ac.uk/~vgg/data/pets",
		[]string{"oxford_pet", "pets"}},
	// Scenes.
	{"sun397", natural, 397, 21750, 61.0, 0, "https://vision.princeton.edu/projects/2010/SUN (39 GB)", nil},
	// Cropped digits.
	{"svhn", natural, 10, 26032, 80.9, 0, "http://ufldl.stanford.edu/housenumbers", nil},

	{"patch_camelyon", specialized, 2, 32768, 82.5, 0, "https://github.com/basveeling/pcam (8 GB)", nil},
	// Land use, from the RGB bands; the last fifth of the only split is the test list.
	{"eurosat", specialized, 10, 5400, 95.6, 93.89, "https://github.com/phelber/EuroSAT", nil},
	// Scenes from above; the last fifth of the only split is the test list.
	{"resisc45", specialized, 45, 6300, 85.2, 0, "NWPU-RESISC45, from its authors by hand", nil},
	// Stage of the disease; pictures prepared as btgraham-300.
	{"diabetic_retinopathy", specialized, 5, 42670, 75.3, 0,
		"https://www.kaggle.com/c/diabetic-retinopathy-detection, with an account, not to be passed on", nil},

	// 3 to 10 objects.
	{"clevr_count", structured, 8, 15000, 70.3, 0, "https://cs.stanford.edu/people/jcjohns/clevr (19 GB)", nil},
	// Depth of the nearest object, cut at 8, 8.5, 9, 9.5 and 10.
	{"clevr_dist", structured, 6, 15000, 56.1, 0, "https://cs.stanford.edu/people/jcjohns/clevr (19 GB)", nil},
	// Kind and distance of the nearest object in a maze.
	{"dmlab", structured, 6, 22735, 41.9, 54.24, "https://github.com/google-research/task_adaptation (3 GB)", nil},
	// Horizontal place, 32 of them in pairs.
	{"dsprites_loc", structured, 16, 73728, 74.7, 0, "https://github.com/google-deepmind/dsprites-dataset", nil},
	// Orientation, 40 of them, floor(k/2.5).
	{"dsprites_ori", structured, 16, 73728, 64.9, 0, "https://github.com/google-deepmind/dsprites-dataset", nil},
	// Depth of the nearest vehicle, cut at 8 and 20 m; the last class is none.
	{"kitti", structured, 4, 711, 79.9, 81.25,
		"https://www.cvlibs.net/datasets/kitti (12 GB); TFDS's kitti 3.1.0 is wrong, 3.2.0 is right", nil},
	// Azimuth; the second half of the official test set is the test list.
	{"smallnorb_azi", structured, 18, 12150, 30.5, 0, "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small", nil},
	// Elevation, of the same pictures.
	{"smallnorb_ele", structured, 9, 12150, 41.7, 0, "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small", nil},
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
	left := slices.Clone(wanted)
	var names []string
	for _, t := range tasks {
		names = append(names, t.name)
		is := func(w string) bool {
			return w == "all" || w == t.group || w == t.name || slices.Contains(t.aliases, w)
		}
		if slices.ContainsFunc(wanted, is) {
			chosen = append(chosen, t)
		}
		left = slices.DeleteFunc(left, is)
	}
	if len(left) > 0 {
		return nil, fmt.Errorf("-tasks: no task %q: want all, %s or some of %s", left[0], strings.Join(groups, ", "),
			strings.Join(names, ","))
	}
	return chosen, nil
}
