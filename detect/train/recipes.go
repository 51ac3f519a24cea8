// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package train

import (
	"github.com/wepe-go/wepe/detect"
	"github.com/wepe-go/wepe/detect/scenes"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/vit"
)

// recipes are the named recipes.
var recipes = []func() Recipe{
	// Generated scenes of 96×96 pixels, 8×8 patches. Objects, and so the anchors, have sides of about 14 to 58 pixels. A
	// step takes 0.6 s of CPU time with ONNX Runtime, most of it for the finest map, of 32×32 cells.
	//
	//	wepe detect train
	func() Recipe {
		return Recipe{
			Name: "scenes",
			Detector: detect.Config{
				Backbone: detect.Backbone{Config: vit.Config{ImageRows: 96, ImageCols: 96, PatchSize: 12, Width: 64, Depth: 4,
					Heads: 4, Position: "wepe"}, Window: 4, Global: []int{1, 3}},
				Channels: 32,
				RPN: detect.RPN{Convs: 1, Sizes: []float64{14, 24, 40, 58, 80}, Samples: 128,
					Before: detect.Counts{Train: 200, Test: 200}, After: detect.Counts{Train: 100, Test: 50}},
				ROI: detect.ROI{Samples: 32, Convs: []int{32}, Dense: []int{128}, MaskSize: 7, Masks: []int{32, 32}, Top: 20},
			},
			Steps: 900, BatchSize: 8, LearningRate: 1e-3, WarmupSteps: 100,
			Optimizer: engine.Optimizer{WeightDecay: 0.05, ClipNorm: 1},
			Jitter:    scenes.Jitter{Flip: 0.5},
			EvalSteps: 150,
		}
	},
	// ViTDet on COCO (Li et al. 2022, https://arxiv.org/abs/2203.16527; projects/ViTDet of detectron2 at 02b5c4e), from
	// MAE's weights: 1024² pixels, batches of 64, 100 epochs of 118,287 images, a tenth of the learning rate after 8/9 and
	// 26/27 of the steps. WePE's paper starts there and prints box and mask AP: ViT-B 51.6 and 45.9, 52.9 and 46.1 with
	// its encoding; cascade 54.0 and 46.7, 54.7 and 47.3. Here weight decay applies to matrices alone; detectron2 exempts
	// only norms and positions. All computation is float32. Not run by us: it needs many GPUs for days.
	//
	//	wepe detect train MAE --recipe vitdet-b --data coco:DIR
	func() Recipe { return vitDet("vitdet-b", "B/16", 0.1, 0.7, false) },
	func() Recipe { return vitDet("vitdet-b-cascade", "B/16", 0.1, 0.7, true) },
	func() Recipe { return vitDet("vitdet-l", "L/16", 0.4, 0.8, false) },
	func() Recipe { return vitDet("vitdet-l-cascade", "L/16", 0.4, 0.8, true) },
}

func vitDet(name, variant string, dropPath, layerDecay float64, cascade bool) Recipe {
	config, err := detect.ViTDet(variant, 80, cascade)
	if err != nil {
		panic(err) // variant is a constant
	}
	config.Backbone.DropPath = dropPath
	return Recipe{
		Name: name, Detector: config,
		Steps: 184_375, BatchSize: 64, LearningRate: 1e-4, WarmupSteps: 250, Drops: []int{163_889, 177_546},
		Optimizer: engine.Optimizer{WeightDecay: 0.1, LayerDecay: layerDecay},
		Jitter:    scenes.Jitter{Height: 1024, Width: 1024, Low: 0.1, High: 2, Flip: 0.5}, EvalSteps: 5000,
	}
}

// Named returns a recipe by its name.
func Named(name string) (Recipe, error) {
	for _, make := range recipes {
		if r := make(); r.Name == name {
			return r, nil
		}
	}
	return Recipe{}, setting.Unknown("recipe", name, Names())
}

// Names lists the recipes.
func Names() (names []string) {
	for _, make := range recipes {
		names = append(names, make().Name)
	}
	return names
}
