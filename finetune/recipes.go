// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"slices"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/vit"
)

// recipes are the named recipes.
var recipes = slices.Concat(byDefault, fromScratch, hybrids, onImageNet, fromPretrained)

// The usual rounded statistics of CIFAR-100's training images, per channel.
var (
	cifarMean = [3]float64{0.5071, 0.4865, 0.4409}
	cifarStd  = [3]float64{0.2673, 0.2564, 0.2762}
)

// fromScratch are the recipes that start with random weights.
var fromScratch = []Recipe{
	// The default recipe: generated shapes, classified by the quarter of the image that they are in, on the pure-Go
	// backend; chance is 25 %.
	//
	//	make run
	{
		Name:   "shapes",
		Model:  vit.Config{PatchSize: 8, Width: 32, Depth: 2, Heads: 1},
		Epochs: 3, BatchSize: 20,
		LearningRate: 1e-3, WarmupEpochs: 0.5, Optimizer: engine.Optimizer{WeightDecay: 0.01, ClipNorm: 1},
		EvalBatchSize: 100,
	},
	// CIFAR-100 from scratch on two CPU cores with ONNX Runtime, three to seven minutes a run: images reduced to 24×24, a
	// grid of 6×6 patches. No smoothing and little augmentation, because three epochs cannot overfit.
	//
	//	go run -tags=onnx ./cmd/wepe compare --recipe cifar100-small --data cifar100:DIR --seeds 3
	{
		Name:   "cifar100-small",
		Model:  vit.Config{PatchSize: 4, Width: 64, Depth: 4, Heads: 2},
		Epochs: 3, BatchSize: 32,
		LearningRate: 2e-3, WarmupEpochs: 0.1, Optimizer: engine.Optimizer{WeightDecay: 0.05, ClipNorm: 1},
		Augment:       data.Augment{Size: [2]int{24, 24}, FlipProb: 0.5, Mean: cifarMean, Std: cifarStd},
		EvalBatchSize: 100,
	},
	// Long enough to separate an encoding's final accuracy from its head start (docs/results.md, "Fifteen epochs"):
	// cifar100-small with larger batches and crops, seven minutes a run on two quiet CPU cores with XLA.
	//
	//	go run ./cmd/wepe compare --recipe cifar100-15 --data cifar100:DIR --position learned,rope-mixed
	{
		Name:   "cifar100-15",
		Model:  vit.Config{PatchSize: 4, Width: 64, Depth: 4, Heads: 2},
		Epochs: 15, BatchSize: 64,
		LearningRate: 2e-3, WarmupEpochs: 1, Optimizer: engine.Optimizer{WeightDecay: 0.05, ClipNorm: 1},
		Augment: data.Augment{
			Size: [2]int{24, 24}, CropScale: [2]float64{0.5, 1}, FlipProb: 0.5, Mean: cifarMean, Std: cifarStd,
		},
		EvalBatchSize: 100,
	},
	// The pretrained model of make finetune-demo: learned positions on a grid of 6×6. Two CPU cores trained it in 72
	// minutes while running other programs, and its weights take less than 3 MB.
	//
	//	go run -tags=onnx ./cmd/wepe compare --recipe demo-pretrain --position learned --data cifar100:DIR
	{
		Name:   "demo-pretrain",
		Model:  vit.Config{PatchSize: 4, Width: 96, Depth: 6, Heads: 3},
		Epochs: 15, BatchSize: 64,
		LearningRate: 1.5e-3, WarmupEpochs: 1, Optimizer: engine.Optimizer{WeightDecay: 0.05, ClipNorm: 1}, Smoothing: 0.1,
		Augment: data.Augment{
			Size: [2]int{24, 24}, CropScale: [2]float64{0.5, 1}, FlipProb: 0.5, Mean: cifarMean, Std: cifarStd,
		},
		EvalBatchSize: 100,
	},
	// The 120-epoch CIFAR-100 run of the WePE release (W_Ti.py at commit 3c27aecd), with the same numbers; it trains in
	// mixed precision, here bfloat16. The release reports the best test epoch of one seed, 63.78 % top-1 in the paper's
	// text; here the test set is evaluated once, after the last epoch. Not run by us.
	//
	//	go run ./cmd/wepe compare --recipe release-cifar100-120 --data cifar100:DIR  (for a GPU: 4.5e16 FLOPs)
	releaseTi("release-cifar100-120", func(r *Recipe) {
		r.Epochs, r.WarmupEpochs = 120, 15
		r.Augment.MixupAlpha, r.Augment.MixProb, r.LateFrom, r.LateMixupAlpha = 0.15, 0.6, 15, 0.3
	}),
	// The 60-epoch run of the release's comparison of encodings (2d_position_encoding_comparison.py at commit 3c27aecd):
	// no mixup, no mixed precision. It reports 58.28 % top-1 for a learned table. Not run by us.
	//
	//	go run ./cmd/wepe compare --recipe release-cifar100-60 --data cifar100:DIR      (half as much)
	releaseTi("release-cifar100-60", func(r *Recipe) {
		r.Epochs, r.WarmupEpochs = 60, 10
		r.Model.DType = "float32"
	}),
	// The 200-epoch run on a part of CIFAR-100 (train_wef_cifar_subsets.py at commit 3c27aecd), with mixup's α at 0.6,
	// 0.5, 0.4 and 0.3 for -fraction 0.2, 0.4, 0.6 and 0.9. The script keeps the best test epoch. Not run by us.
	//
	//	go run ./cmd/wepe compare --recipe release-cifar100-200 --data cifar100:DIR --fractions 0.2 \
	//	  --set augment.mixup_alpha=0.6
	releaseTi("release-cifar100-200", func(r *Recipe) {
		r.Epochs, r.WarmupEpochs, r.BatchSize, r.LearningRate, r.Smoothing = 200, 10, 128, 5e-4, 0.1
		r.Optimizer.WeightDecay, r.Optimizer.ClipNorm = 0.05, 1
		r.Model.Dropout, r.Model.AttentionDropout, r.Model.DropPath = 0.1, 0.1, 0.1
		r.Augment.Pad, r.Augment.CropScale, r.Augment.CropRatio = 0, [2]float64{0.6, 1}, [2]float64{0.9, 1.1}
		r.Augment.MixupAlpha, r.Augment.Policy = 0.3, "RandAugment(2,9)"
	}),
}

// releaseTi is the common part of the CIFAR-100 scripts of the WePE release, with the changes of one of them.
func releaseTi(name string, change func(*Recipe)) Recipe {
	r := Recipe{
		Name: name,
		Model: vit.Config{
			PatchSize: 16, Width: 192, Depth: 12, Heads: 3, MLPDim: 768, PatchNorm: true, Epsilon: 1e-5,
			Dropout: 0.05, AttentionDropout: 0.05, DropPath: 0.05, Init: "release", DType: "bfloat16", Position: "wepe",
		},
		Params:    map[string]any{"wepe_mode": "release"},
		BatchSize: 160, LearningRate: 1.5e-3,
		Optimizer: engine.Optimizer{WeightDecay: 0.03, DecayAll: true, ClipNorm: 0.8},
		Smoothing: 0.08,
		Augment: data.Augment{
			Size: [2]int{224, 224}, Pad: 4, FlipProb: 0.5, Cutout: 12, Mean: cifarMean, Std: cifarStd,
		},
		ValidationPart: -1,
	}
	change(&r)
	return r
}

// Named returns the recipe of that name.
func Named(name string) (Recipe, error) {
	for _, r := range recipes {
		if r.Name == name {
			return r, nil
		}
	}
	return Recipe{}, setting.Unknown("recipe", name, Names())
}

// Names lists the recipes.
func Names() []string {
	names := make([]string, len(recipes))
	for i, r := range recipes {
		names[i] = r.Name
	}
	return names
}

// hybrids are the recipes of the DHVT, from scratch.
var hybrids = []Recipe{
	// The 300-epoch run of the WePE release (dhvt_wef_experiment.py at commit 3c27aecd), with the same numbers except for
	// three differences. Its WePE sums 64 of the 288 terms up to |m|, |n| = 8, half of the last shell missing, in
	// complex64: it differs by .005 from the function here, a symmetric sum of 624 terms. It trains in float16, here
	// float32, and on several GPUs, each of which normalizes its own part of a batch. The paper has 76.53 % top-1 with
	// WePE and 74.78 % for the smaller DHVT-T of 192 channels, best test epochs of one seed. Not run by us.
	//
	//	go run ./cmd/wepe compare --recipe release-dhvt-300 --position none,wepe --data cifar100:DIR  (two times 1.6e17
	// FLOPs)
	{
		Name:         "release-dhvt-300",
		Architecture: DHVT,
		Model: vit.Config{
			PatchSize: 16, Width: 224, Depth: 12, Heads: 4, MLPDim: 896, Epsilon: 1e-5, Dropout: 0.08, DropPath: 0.15,
			Init: "release", Position: "wepe",
		},
		Params: map[string]any{
			"wepe_mode": "release", "wepe_projection": "mlp", "wepe_dropout": 0.08, "wepe_alpha_scale": 0.1,
			"wepe_g2": 0.8, "wepe_g3": 0.2,
		},
		Epochs: 300, BatchSize: 96, LearningRate: 1.5e-3, WarmupEpochs: 15, Smoothing: 0.15,
		Optimizer: engine.Optimizer{WeightDecay: 0.03, DecayAll: true, ClipNorm: 1},
		Augment: data.Augment{
			Size: [2]int{224, 224}, Pad: 4, FlipProb: 0.5, Cutout: 16, MixupAlpha: 0.3, MixProb: 0.7,
			Mean: cifarMean, Std: cifarStd,
		},
		LateFrom: 15, LateMixupAlpha: 0.6,
		ValidationPart: -1,
	},
	// DHVT-T as its authors train it on CIFAR-100 at 32×32 (https://github.com/ArieSeirack/DHVT, run_code_cifar.sh and the
	// defaults of main.py at commit a86fedab), without positions; -position wepe adds them. Their rates start at 1e-6 and
	// end at 1e-5, here 0. Their colour jitter has no effect: timm drops it when RandAugment is on. They average weights
	// with a decay of 0.99996 too, but evaluate the unaveraged ones, as here. Not run by us.
	//
	//	go run ./cmd/wepe compare --recipe dhvt-300 --position none --data cifar100:DIR               (3.5e16 FLOPs)
	{
		Name:         "dhvt-300",
		Architecture: DHVT,
		Model: vit.Config{
			PatchSize: 4, Width: 192, Depth: 12, Heads: 4, MLPDim: 768, DropPath: 0.1, Position: "none",
		},
		Epochs: 300, BatchSize: 512, LearningRate: 1e-3, WarmupEpochs: 5, Smoothing: 0.1,
		Optimizer: engine.Optimizer{WeightDecay: 0.05},
		Augment: data.Augment{
			Pad: 4, FlipProb: 0.5, Policy: "rand-m9-mstd0.5-inc1", EraseProb: 0.25, EraseNoise: true, Repeats: 3,
			MixupAlpha: 0.8, CutmixAlpha: 1, Mean: imagenetMean, Std: imagenetStd,
		},
		EvalBatchSize: 100, ValidationPart: -1,
	},
}

// byDefault are the recipes of wepe train without --recipe.
var byDefault = []Recipe{
	Photos(600),
	// ViT-S/16 from scratch. Optimizer, warm-up, smoothing and drop path are DeiT's (https://arxiv.org/abs/2012.12877,
	// Table 9). Its learning rate of 5e-4·batch/512 would be 6e-5 at a batch of 64, for 300 epochs of ImageNet: here it is
	// 5e-4, as for one device in DeiT's repository. Crops are milder. Not run by us.
	//
	//	wepe train --data DIR --recipe scratch
	{
		Name:   "scratch",
		Model:  vit.Config{PatchSize: 16, Width: 384, Depth: 12, Heads: 6, DropPath: 0.1},
		Epochs: 30, BatchSize: 64,
		LearningRate: 5e-4, WarmupEpochs: 3, Smoothing: 0.1,
		Optimizer: engine.Optimizer{WeightDecay: 0.05, ClipNorm: 1},
		Augment: data.Augment{
			Size: [2]int{224, 224}, CropScale: [2]float64{0.35, 1}, FlipProb: 0.5, Mean: imagenetMean, Std: imagenetStd,
		},
		EvalBatchSize: 64,
	},
}

// PhotosName is the name of the recipe [Photos]. Its many epochs of small images are cropped in memory: to decode
// photographs of a camera for each batch would take most of the time.
const PhotosName = "photos"

// ManyImages is the number of training images from which wepe train takes the recipe scratch in place of [Photos].
const ManyImages = 20_000

// Photos is the default recipe for photographs without a pretrained model: a small ViT at 64×64. An epoch costs as much
// as it has images, so a run has 36,000 of them, in 60 epochs at most: 334 s of CPU time with XLA.
// No search chose its settings.
//
//	wepe train --data DIR
func Photos(images int) Recipe {
	epochs := max(2, min(60, 36_000/max(1, images)))
	batch := 32
	for batch > 8 && images/batch < 10 {
		batch /= 2
	}
	return Recipe{
		Name:   PhotosName,
		Model:  vit.Config{PatchSize: 8, Width: 128, Depth: 6, Heads: 4},
		Epochs: epochs, BatchSize: batch,
		LearningRate: 1e-3, WarmupEpochs: float64(epochs) / 12, Smoothing: 0.1,
		Optimizer: engine.Optimizer{WeightDecay: 0.05, ClipNorm: 1},
		Augment: data.Augment{
			Size: [2]int{64, 64}, CropScale: [2]float64{0.4, 1}, FlipProb: 0.5, Jitter: [4]float64{0.2, 0.2, 0.2, 0},
			Mean: imagenetMean, Std: imagenetStd,
		},
		EvalBatchSize: 64,
	}
}

// FineTuning is the default recipe for a pretrained model: at the model's own size, with its own normalization and
// position encoding. AdamW, weight decay and layer decay are those with which MAE fine-tunes ViT-B
// (https://arxiv.org/abs/2111.06377, Table 9: 5e-4 per 256 images, decay 0.05, layer decay 0.65; 0.75 for ViT-L, here
// for all). Its learning rate depends on the width of the model: 0.192/width, so 1e-3 for Ti, 5e-4 for S, 2.5e-4 for B
// and 1.9e-4 for L, at a batch of 64. A batch is at most a twentieth of the images. It has 10 epochs; of fewer images
// than ManyImages it has 3 to 10, as many as show 2,400 images to a ViT-Ti/16 at 224, or to another network for as many
// multiplications in its layers.
func FineTuning(m vit.Config, images int) Recipe {
	batch := 64
	for batch > 8 && images/batch < 20 {
		batch /= 2
	}
	epochs := 10
	if images < ManyImages && m.PatchSize > 0 {
		work := func(width, depth, patches, images int) float64 {
			return float64(width*width*depth) * float64(patches*images)
		}
		own := work(m.Width, m.Depth, m.ImageRows/m.PatchSize*(m.ImageCols/m.PatchSize), images)
		epochs = int(max(3, min(10, work(192, 12, 14*14, 2400)/max(1, own))))
	}
	return Recipe{
		Name:   "finetune",
		Model:  vit.Config{Position: m.Position},
		Epochs: epochs, BatchSize: batch,
		LearningRate: 0.192 / float64(m.Width), WarmupEpochs: 1, Smoothing: 0.1,
		Optimizer: engine.Optimizer{WeightDecay: 0.05, LayerDecay: 0.75, ClipNorm: 1},
		Augment: data.Augment{
			Size: [2]int{m.ImageRows, m.ImageCols}, CropScale: [2]float64{0.35, 1}, FlipProb: 0.5,
		},
		EvalBatchSize: 64,
	}
}
