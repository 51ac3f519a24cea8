// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/vit"
)

// byDefault is what wepe train does with own images where no recipe is named.
var byDefault = []Recipe{
	// ViT-S/16 from scratch. Optimizer, warm-up, smoothing and drop path are DeiT's (https://arxiv.org/abs/2012.12877,
	// Table 9), its learning rate 5e-4·batch/512 at a batch of 64 would be 6e-5, which is for 300 epochs of ImageNet: here
	// it is 5e-4, as for one device in DeiT's repository. Crops are milder. Unmeasured.
	//
	//	wepe train --data DIR
	{
		Name:   "scratch",
		Model:  vit.Config{PatchSize: 16, Width: 384, Depth: 12, Heads: 6, DropPath: 0.1},
		Epochs: 30, BatchSize: 64,
		LearningRate: 5e-4, WarmupEpochs: 3, Smoothing: 0.1,
		Optimizer: Optimizer{WeightDecay: 0.05, ClipNorm: 1},
		Augment: data.Augment{
			Size: [2]int{224, 224}, CropScale: [2]float64{0.35, 1}, FlipProb: 0.5, Mean: imagenetMean, Std: imagenetStd,
		},
		EvalBatchSize: 64,
	},
}

// FineTuning is the recipe for a pretrained model where none is named: at the model's own size, with its own
// normalization and position encoding. AdamW, weight decay and layer decay are those with which MAE fine-tunes ViT-B
// (https://arxiv.org/abs/2111.06377, Table 9: 5e-4 per 256 images, decay 0.05, layer decay 0.65; 0.75 for ViT-L, here
// for all), its learning rate by the width of the model: 0.192/width, so 1e-3 for Ti, 5e-4 for S, 2.5e-4 for B and
// 1.9e-4 for L, at a batch of 64. A batch is no more than a twentieth of the images.
func FineTuning(m vit.Config, images int) Recipe {
	batch := 64
	for batch > 8 && images/batch < 20 {
		batch /= 2
	}
	return Recipe{
		Name:   "finetune",
		Model:  vit.Config{Position: m.Position},
		Epochs: 10, BatchSize: batch,
		LearningRate: 0.192 / float64(m.Width), WarmupEpochs: 1, Smoothing: 0.1,
		Optimizer: Optimizer{WeightDecay: 0.05, LayerDecay: 0.75, ClipNorm: 1},
		Augment: data.Augment{
			Size: [2]int{m.ImageRows, m.ImageCols}, CropScale: [2]float64{0.35, 1}, FlipProb: 0.5,
		},
		EvalBatchSize: 64,
	}
}
