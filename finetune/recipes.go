// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	_ "embed" // recipes.txt
	"strings"
	"sync"

	"github.com/gomlx/gomlx/support/xslices"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/vit"
)

//go:embed recipes.txt
var recipeList string

// recipes are the named recipes, [Photos] and those of recipes.txt.
var recipes = sync.OnceValue(func() []Recipe {
	all, parts, part := []Recipe{Photos(600)}, map[string][]string{}, ""
	for line := range strings.Lines(recipeList) {
		name, settings, named := strings.Cut(line, ":")
		switch text := strings.TrimSpace(line); {
		case text == "" || text[0] == '#':
			continue
		case line[0] == '\t':
			settings = text
		case !named:
			panic("recipes.txt: " + line)
		default:
			if part = name; name[0] != '.' {
				all = append(all, Recipe{Name: name})
			}
		}
		for setting := range strings.SplitSeq(strings.TrimSpace(settings), "; ") {
			parts[part] = append(parts[part], setting)
		}
	}
	for i, r := range all[1:] {
		r, err := r.Set(strings.Join(expanded(r.Name, parts), ";"))
		if err != nil {
			panic("recipes.txt: " + r.Name + ": " + err.Error())
		}
		all[1+i] = r
	}
	return all
})

// expanded returns the settings of a part with those of the parts in it.
func expanded(name string, parts map[string][]string) (settings []string) {
	for _, setting := range parts[name] {
		if setting[0] == '.' {
			settings = append(settings, expanded(setting, parts)...)
		} else {
			settings = append(settings, setting)
		}
	}
	return settings
}

// RecipeByName returns the recipe of that name.
func RecipeByName(name string) (Recipe, error) {
	for _, r := range recipes() {
		if r.Name == name {
			return r, nil
		}
	}
	return Recipe{}, setting.Unknown("recipe", name, RecipeNames())
}

// RecipeNames lists the recipes.
func RecipeNames() []string {
	return xslices.Map(recipes(), func(r Recipe) string { return r.Name })
}

// imagenetMean and imagenetStd normalize images for torchvision's models.
var imagenetMean, imagenetStd = [3]float64{0.485, 0.456, 0.406}, [3]float64{0.229, 0.224, 0.225}

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
		LearningRate: 1e-3, WarmupEpochs: float64(epochs) / 12, LabelSmoothing: 0.1,
		Optimizer: engine.Optimizer{WeightDecay: 0.05, ClipNorm: 1},
		Augment: data.Augment{
			Size: [2]int{64, 64}, CropScale: [2]float64{0.4, 1}, HFlip: 0.5, Jitter: [4]float64{0.2, 0.2, 0.2, 0},
			Mean: imagenetMean, Std: imagenetStd,
		},
		EvalBatchSize: 64,
	}
}

// FineTuning is the default recipe for a pretrained model: at the model's own size, with its own normalization and
// position encoding. AdamW, weight decay and layer decay are those with which MAE fine-tunes ViT-B
// (https://arxiv.org/abs/2111.06377, Table 9: 5e-4 per 256 images, decay 0.05, layer decay 0.65; 0.75 for ViT-L, here
// for all). Its learning rate depends on the width of the model: 0.192/width, so 1e-3 for Ti, 5e-4 for S, 2.5e-4 for B
// and 1.9e-4 for L, at a batch of 64. A batch is at most a twentieth of the images, or 8. It has 10 epochs; of fewer
// images than ManyImages it has 3 to 10, as many as show 2,400 images to a ViT-Ti/16 at 224, or to another network for
// as many multiplications in its layers.
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
		LearningRate: 0.192 / float64(m.Width), WarmupEpochs: 1, LabelSmoothing: 0.1,
		Optimizer: engine.Optimizer{WeightDecay: 0.05, LayerDecay: 0.75, ClipNorm: 1},
		Augment: data.Augment{
			Size: [2]int{m.ImageRows, m.ImageCols}, CropScale: [2]float64{0.35, 1}, HFlip: 0.5,
		},
		EvalBatchSize: 64,
	}
}
