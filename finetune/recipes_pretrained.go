// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/vit"
)

// fromPretrained are the recipes of fine-tuning. The checkpoint (Run.From) determines the model, and the normalization
// of the pixels unless a recipe has one. CHECKPOINT below is anything that checkpoints.Import reads, or a run; the
// published ones, ViT-B/16 and ViT-L/16 trained on ImageNet-21k, need a GPU.
var fromPretrained = []Recipe{
	// make finetune-demo: the model of demo-pretrain, with a grid of 6×6, on a tenth of CIFAR-100 at 36×36, a grid of
	// 9×9, with its own head. A minute a run on two CPU cores with ONNX Runtime.
	//
	//	go run -tags=onnx ./cmd/wepe compare --recipe demo-cifar100 CHECKPOINT --data cifar100:DIR --fractions 0.1
	{
		Name:  "demo-cifar100",
		Steps: 200, BatchSize: 32,
		LearningRate: 3e-4, WarmupSteps: 20, Smoothing: 0.1,
		Optimizer:     engine.Optimizer{WeightDecay: 0.05, ClipNorm: 1},
		Augment:       data.Augment{Size: [2]int{36, 36}, CropScale: [2]float64{0.7, 1}, FlipProb: 0.5},
		EvalBatchSize: 100,
	},
	// The same model on generated shapes at 48×48, a grid of 12×12: a location task, with a new head. Images are not
	// cropped or flipped, because that would change the label.
	//
	//	go run -tags=onnx ./cmd/wepe compare --recipe demo-shapes CHECKPOINT
	{
		Name:  "demo-shapes",
		Steps: 100, BatchSize: 32,
		LearningRate: 1e-3, WarmupSteps: 10,
		Optimizer:     engine.Optimizer{WeightDecay: 0.05, ClipNorm: 1},
		Augment:       data.Augment{Size: [2]int{48, 48}},
		EvalBatchSize: 100,
	},

	// Dosovitskiy et al. 2021 (https://arxiv.org/abs/2010.11929), table 4 and B.1.1: SGD with momentum 0.9, no weight
	// decay, batch 512, cosine, clipping at 1, a head that starts at zero, 384×384. VTAB: 2,500 steps at 0.01 for all
	// tasks. Warm-up and gradient accumulation are from their code (configs/common.py at commit c6de1e5). Images are
	// resized, not cropped or flipped, because half of the tasks are about locations and directions. With 1,000 images
	// each epoch has one batch, drawn again, and drops the rest. Theirs, ViT-L/16: mean of 19 tasks 72.7 %. Not run by
	// us.
	//
	//	go run ./examples/vtab -recipe dosovitskiy-vtab -from CHECKPOINT -data DIR
	dosovitskiy("dosovitskiy-vtab", 2500, 0.01, func(r *Recipe) { r.ValidationPart = -1 }),
	// Theirs on CIFAR-100: 10,000 steps, the rate one of 0.001, 0.003, 0.01, 0.03, chosen on 2 % of the training
	// images; 0.03 is from their code, with its crop of 5 to 100 % of the image and flip (input_pipeline.py). Table 5:
	// ViT-B/16 91.67 %, ViT-L/16 93.44 %. Not run by us.
	//
	//	go run ./cmd/wepe compare --recipe dosovitskiy-cifar100 CHECKPOINT --data cifar100:DIR
	dosovitskiy("dosovitskiy-cifar100", 10_000, 0.03, func(r *Recipe) {
		r.Augment.CropScale, r.Augment.FlipProb, r.ValidationPart = [2]float64{0.05, 1}, 0.5, 0.02
	}),

	// AdamW with layer-wise decay, MAE's numbers for ViT-B/16 on ImageNet (https://arxiv.org/abs/2111.06377,
	// FINETUNE.md at commit 2f170f23: base rate 5e-4 per 256 images, batch 1024, so 2e-3 for the head), with 83.57 ±
	// 0.08 % on ImageNet over 4 seeds. Not run by us.
	//
	//	go run ./cmd/wepe compare --recipe adamw-layer-decay CHECKPOINT --data cifar100:DIR
	{
		Name:   "adamw-layer-decay",
		Model:  vit.Config{DropPath: 0.1, DType: "bfloat16"},
		Epochs: 100, BatchSize: 1024, Accumulate: 8,
		LearningRate: 2e-3, WarmupEpochs: 5, Smoothing: 0.1,
		Optimizer: engine.Optimizer{WeightDecay: 0.05, LayerDecay: 0.65},
		Augment: data.Augment{
			Size: [2]int{224, 224}, CropScale: [2]float64{0.08, 1}, Resample: "bicubic", FlipProb: 0.5,
			Policy: "rand-m9-mstd0.5-inc1", EraseProb: 0.25, EraseNoise: true, MixupAlpha: 0.8, CutmixAlpha: 1,
		},
		EvalBatchSize: 128,
	},
	// The head alone on frozen features, DINO's numbers (https://arxiv.org/abs/2104.14294, eval_linear.py at commit
	// 04c0ad95: SGD at 0.001 per 256 images, batch 8·128, 100 epochs, random resized crop and flip), on the class
	// token of the last block after the final norm. "probe" compares backbones with their own positions, so use
	// -position learned. Not run by us.
	//
	//	go run ./cmd/wepe compare --recipe linear-probe --position learned CHECKPOINT --data cifar100:DIR
	{
		Name:   "linear-probe",
		Freeze: "backbone,position,gate",
		Epochs: 100, BatchSize: 1024, Accumulate: 8,
		LearningRate: 4e-3,
		Optimizer:    engine.Optimizer{Kind: engine.KindSGD},
		Augment: data.Augment{
			Size: [2]int{224, 224}, CropScale: [2]float64{0.08, 1}, FlipProb: 0.5,
		},
		EvalBatchSize: 128,
	},

	// The paper's fine-tuning, ViT-B/16 at 384×384 with the gate: 93.28 % on CIFAR-100; its text gives no rate, length
	// or seeds. The numbers are from the released CIFAR-100 script, the gate's from the released VTAB scripts. Not run
	// by us.
	//
	//	go run ./cmd/wepe compare --recipe paper-cifar100-384 --position learned,hybrid CHECKPOINT --data cifar100:DIR
	releaseCIFAR100("paper-cifar100-384", func(r *Recipe) {
		r.Augment.Size = [2]int{384, 384}
		r.Params = map[string]any{"wepe_gate": 0.622459} // a gate trained from σ(0.5)
	}),
	// The released CIFAR-100 script (weierstrass_vit_experiment2.py at commit 3c27aecd): ViT-B/16, 224×224, no gate,
	// so λ = 1, fixed. Omitted here: the script trains the modulation of its channels, mixes only from epoch 6 on,
	// restarts its cosine every 15 epochs, changes the rate once per epoch, has a head of two layers with dropout, and
	// keeps the best test epoch. Not run by us.
	//
	//	go run ./cmd/wepe compare --recipe release-cifar100-pretrained --position hybrid CHECKPOINT \
	//	  --data cifar100:DIR
	releaseCIFAR100("release-cifar100-pretrained", nil),

	// The released scripts for three tasks of VTAB-1k (vit_wef_svhn_1k.py, vit_wef_dmlab_1k.py, wef_resisc45.py at
	// commit 3c27aecd): ViT-L/16, 384×384, ImageNet's mean and std. Omitted here: heads of three and four layers with
	// dropout, the schedule by epochs, early stopping on the test set, and, except for SVHN, the constants of the
	// surrogate, for which the paper's stand. Not run by us.
	//
	//	go run ./examples/vtab -recipe release-svhn -tasks svhn -position hybrid -from CHECKPOINT -data DIR
	//
	// The script pads an image of 384 pixels by 32, here 32 by 3; it does flip digits, with probability ½.
	releaseVTAB("release-svhn", 2e-5, 10, 15, 0.622459, func(r *Recipe) {
		r.Params["wepe_surrogate"] = "svhn"
		r.Epochs, r.BatchSize, r.WarmupEpochs, r.Smoothing, r.Optimizer.WeightDecay = 100, 16, 10, 0.1, 0.02
		r.Augment.Pad, r.Augment.FlipProb, r.Augment.Rotate = 3, 0.5, 15
		r.Augment.Jitter = [4]float64{0.4, 0.4, 0.4, 0.15}
		r.Augment.EraseProb, r.Augment.EraseScale = 0.3, [2]float64{0.02, 0.3}
	}),
	//	go run ./examples/vtab -recipe release-dmlab -tasks dmlab -position hybrid -from CHECKPOINT -data DIR
	//
	// The script crops 384 pixels from 416, padded by 32: here 85 to 100 % of the image.
	releaseVTAB("release-dmlab", 1.2e-5, 15, 25, 0.645656, func(r *Recipe) {
		r.Epochs, r.BatchSize, r.WarmupEpochs, r.Smoothing, r.Optimizer.WeightDecay = 120, 12, 15, 0.15, 0.025
		r.Augment.CropScale, r.Augment.CropRatio, r.Augment.FlipProb = [2]float64{0.85, 1}, [2]float64{1, 1}, 0.3
		r.Augment.Rotate, r.Augment.Jitter = 8, [4]float64{0.3, 0.3, 0.2, 0.1}
		r.Augment.EraseProb, r.Augment.EraseScale = 0.2, [2]float64{0.02, 0.2}
	}),
	//	go run ./examples/vtab -recipe release-resisc45 -tasks resisc45 -position hybrid -from CHECKPOINT -data DIR
	releaseVTAB("release-resisc45", 1.5e-5, 12, 18, 0.645656, func(r *Recipe) {
		r.Epochs, r.BatchSize, r.WarmupEpochs, r.Smoothing, r.Optimizer.WeightDecay = 120, 12, 15, 0.15, 0.08
		r.Augment.CropScale, r.Augment.CropRatio, r.Augment.FlipProb = [2]float64{0.85, 1}, [2]float64{1, 1}, 0.5
		r.Augment.FlipUpProb, r.Augment.Rotate, r.Augment.Jitter = 0.3, 30, [4]float64{0.3, 0.3, 0.3, 0.1}
		r.Augment.EraseProb, r.Augment.EraseScale = 0.4, [2]float64{0.02, 0.25}
	}),
}

// dosovitskiy is the fine-tuning of the ViT paper.
func dosovitskiy(name string, steps int, rate float64, change func(*Recipe)) Recipe {
	r := Recipe{
		Name:  name,
		Steps: steps, BatchSize: 512, Accumulate: 8,
		LearningRate: rate, WarmupSteps: 500,
		Optimizer: engine.Optimizer{Kind: engine.KindSGD, Momentum: 0.9, ClipNorm: 1}, ZeroHead: true,
		Augment:       data.Augment{Size: [2]int{384, 384}},
		EvalBatchSize: 64,
	}
	change(&r)
	return r
}

// imagenetMean and imagenetStd normalize images for torchvision's models.
var imagenetMean, imagenetStd = [3]float64{0.485, 0.456, 0.406}, [3]float64{0.229, 0.224, 0.225}

// releaseCIFAR100 is the released script: rates of 4e-5 for the backbone, 6.4e-4 for WePE, 8e-4 for the head.
func releaseCIFAR100(name string, change func(*Recipe)) Recipe {
	r := Recipe{
		Name:   name,
		Model:  vit.Config{DType: "bfloat16"},
		Params: map[string]any{"wepe_gate": 1.0, "wepe_learn_gate": false},
		Epochs: 35, BatchSize: 20,
		LearningRate: 4e-5, WarmupEpochs: 8, Smoothing: 0.1,
		Optimizer: engine.Optimizer{WeightDecay: 0.05, DecayAll: true, ClipNorm: 1,
			LearningRates: map[string]float64{"position": 16, "gate": 20, "head": 20}},
		Augment: data.Augment{
			Size: [2]int{224, 224}, CropScale: [2]float64{0.8, 1}, CropRatio: [2]float64{0.9, 1.1}, FlipProb: 0.5,
			Rotate: 15, Jitter: [4]float64{0.4, 0.4, 0.4, 0.1}, GreyProb: 0.1,
			EraseProb: 0.25, EraseScale: [2]float64{0.02, 0.33},
			MixupAlpha: 0.2, CutmixAlpha: 1, MixProb: 0.5,
			Mean: [3]float64{0.5071, 0.4867, 0.4408}, Std: [3]float64{0.2675, 0.2565, 0.2761}, // this script's
		},
		Resample: "bilinear",
	}
	if change != nil {
		change(&r)
	}
	return r
}

// releaseVTAB is the common part of the released scripts: the backbone's rate, the factors of the rate for WePE and for
// head and gate, and the initial λ.
func releaseVTAB(name string, rate, position, head, gate float64, change func(*Recipe)) Recipe {
	r := Recipe{
		Name:         name,
		Model:        vit.Config{DType: "bfloat16"},
		Params:       map[string]any{"wepe_gate": gate},
		LearningRate: rate,
		Optimizer: engine.Optimizer{DecayAll: true, ClipNorm: 1,
			LearningRates: map[string]float64{"position": position, "gate": head, "head": head}},
		Augment:        data.Augment{Size: [2]int{384, 384}, Mean: imagenetMean, Std: imagenetStd},
		ValidationPart: -1,
		Resample:       "bilinear",
	}
	change(&r)
	return r
}
