// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package vtab contains VTAB-1k (Zhai et al. 2019, https://arxiv.org/abs/1910.04867): its 19 tasks, the image lists in
// the usual layout, and published results.
//
//	tasks, err := vtab.Choose([]string{"dtd", "structured"})
//	lists, err := vtab.Open("vtab-1k", tasks, false, slog.Default())
//
// docs/vtab.md describes layout and protocol.
package vtab

import (
	"slices"
	"strings"

	"github.com/wepe-go/wepe/internal/setting"
)

// The groups of VTAB, in the order of every published table.
const (
	natural     = "natural"
	specialized = "specialized"
	structured  = "structured"
)

// groups are the names of the groups.
var groups = []string{natural, specialized, structured}

// Task is one of the 19 tasks as defined by google-research/task_adaptation (commit d7630d3). The metric is top-1
// accuracy on the whole test list, for retinopathy too, where Cohen's kappa is common.
type Task struct {
	Name    string // folder, as the script behind most VTAB-1k copies writes it (ZhangYuanhan-AI/NOAH, e9c55f3)
	Group   string
	Classes int
	Test    int // images of the test list

	Source  string   // of the images, with their licence
	Aliases []string // folders of the same task in other repositories
}

// Tasks are the 19 tasks in the order of the published tables, each after a comment on its classes.
var Tasks = []Task{
	// 101 objects and the background; the training lists are balanced, the test list is not.
	{"caltech101", natural, 102, 6084, "https://data.caltech.edu/records/mzrjq-6wc02", nil},
	// The fine labels of CIFAR-100.
	{"cifar", natural, 100, 10000, "https://www.cs.toronto.edu/~kriz/cifar.html", []string{"cifar100", "cifar_100"}},
	// Textures.
	{"dtd", natural, 47, 1880, "https://www.robots.ox.ac.uk/~vgg/data/dtd", nil},
	{"oxford_flowers102", natural, 102, 6149, "https://www.robots.ox.ac.uk/~vgg/data/flowers/102",
		[]string{"flowers102"}},
	// Breeds.
	{"oxford_iiit_pet", natural, 37, 3669, "https://www.robots.ox.ac.uk/~vgg/data/pets", []string{"oxford_pet", "pets"}},
	// Scenes.
	{"sun397", natural, 397, 21750, "https://vision.princeton.edu/projects/2010/SUN (39 GB)", nil},
	// Cropped digits.
	{"svhn", natural, 10, 26032, "http://ufldl.stanford.edu/housenumbers", nil},

	{"patch_camelyon", specialized, 2, 32768, "https://github.com/basveeling/pcam (8 GB)", nil},
	// Land use, from the RGB bands; the last fifth of the only split is the test list.
	{"eurosat", specialized, 10, 5400, "https://github.com/phelber/EuroSAT", nil},
	// Scenes from above; the last fifth of the only split is the test list.
	{"resisc45", specialized, 45, 6300, "NWPU-RESISC45, from its authors by hand", nil},
	// Stage of the disease; images prepared as btgraham-300.
	{"diabetic_retinopathy", specialized, 5, 42670,
		"https://www.kaggle.com/c/diabetic-retinopathy-detection, with an account, not to be passed on", nil},

	// 3 to 10 objects.
	{"clevr_count", structured, 8, 15000, "https://cs.stanford.edu/people/jcjohns/clevr (19 GB)", nil},
	// Depth of the nearest object, cut at 8, 8.5, 9, 9.5 and 10.
	{"clevr_dist", structured, 6, 15000, "https://cs.stanford.edu/people/jcjohns/clevr (19 GB)", nil},
	// Kind and distance of the nearest object in a maze.
	{"dmlab", structured, 6, 22735, "https://github.com/google-research/task_adaptation (3 GB)", nil},
	// Horizontal position, 32 of them in pairs.
	{"dsprites_loc", structured, 16, 73728, "https://github.com/google-deepmind/dsprites-dataset", nil},
	// Orientation, 40 of them, floor(k/2.5).
	{"dsprites_ori", structured, 16, 73728, "https://github.com/google-deepmind/dsprites-dataset", nil},
	// Depth of the nearest vehicle, cut at 8 and 20 m; the last class is none.
	{"kitti", structured, 4, 711,
		"https://www.cvlibs.net/datasets/kitti (12 GB); TFDS's kitti 3.1.0 is wrong, 3.2.0 is right", nil},
	// Azimuth; the second half of the official test set is the test list.
	{"smallnorb_azi", structured, 18, 12150, "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small", nil},
	// Elevation, of the same images.
	{"smallnorb_ele", structured, 9, 12150, "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small", nil},
}

// Choose returns the tasks named by words ("all", groups, folders or aliases), in the order of Tasks.
func Choose(words []string) (chosen []Task, err error) {
	var names []string
	left := slices.Clone(words)
	for _, t := range Tasks {
		names = append(names, t.Name)
		is := func(word string) bool {
			return word == "all" || word == t.Group || word == t.Name || slices.Contains(t.Aliases, word)
		}
		if slices.ContainsFunc(words, is) {
			chosen = append(chosen, t)
		}
		left = slices.DeleteFunc(left, is)
	}
	if len(left) > 0 || len(words) == 0 {
		return nil, setting.Unknown("task", strings.Join(left, ","), slices.Concat([]string{"all"}, groups, names))
	}
	return chosen, nil
}
