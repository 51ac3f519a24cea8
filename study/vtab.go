// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"github.com/wepe-go/wepe/data/vtab"
)

// vtabLearned is the ViT-L/16 (ImageNet-21k) of Dosovitskiy et al. 2021, Table 9; the WePE paper's APE row has the same
// numbers.
var vtabLearned = column{Name: "L/16 learned", Top1: map[string]float64{
	"caltech101": 90.8, "cifar": 84.1, "dtd": 74.1, "oxford_flowers102": 99.3, "oxford_iiit_pet": 92.7, "sun397": 61.0,
	"svhn": 80.9, "patch_camelyon": 82.5, "eurosat": 95.6, "resisc45": 85.2, "diabetic_retinopathy": 75.3,
	"clevr_count": 70.3, "clevr_dist": 56.1, "dmlab": 41.9, "dsprites_loc": 74.7, "dsprites_ori": 64.9, "kitti": 79.9,
	"smallnorb_azi": 30.5, "smallnorb_ele": 41.7,
}}

// vtabWePE is the WePE paper's own row: the cells that we have, and the means of the groups, computed from the paper's
// 19 cells. The mean that the paper prints beside them is neither the mean of these nor of any 18 of them.
var vtabWePE = column{Name: "L/16 WePE", Top1: map[string]float64{
	"oxford_flowers102": 98.79, "eurosat": 93.89, "dmlab": 54.24, "kitti": 81.25,
	"natural": 85.31, "specialized": 85.22, "structured": 61.20,
}}

// vtab1k is the benchmark of the 19 tasks of VTAB-1k with the published results.
func vtab1k() benchmark {
	b := benchmark{
		Name: "VTAB-1k", published: []column{vtabLearned, vtabWePE},
		conditions: "published are ViT-L/16 of ImageNet-21k at 384 px: learned is Dosovitskiy et al. 2021, Table 9 (2500 " +
			"steps of 512), which the WePE paper quotes (mean 72.71, printed 72.70); WePE is that paper's row, whose mean is " +
			"75.14, not the 73.59 printed beside it",
	}
	for _, t := range vtab.Tasks {
		b.Tasks = append(b.Tasks, benchmarkTask{Name: t.Name, Group: t.Group, Images: t.Test})
	}
	return b
}
