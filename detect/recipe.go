// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"cmp"
	_ "embed" // the comments of settings
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/detect/scenes"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

//go:embed recipe.go
var recipeCode string

var _ = setting.Describe(recipeCode)

// Recipe describes the training of a detector except the data, the seed and the machine. It is saved with every
// checkpoint and every row. Resolve sets zero fields.
type Recipe struct {
	Name string `json:"name"` // of the recipe, in rows and directories

	Detector Config         `json:"detector"`         // its number of classes comes from the data
	Params   map[string]any `json:"params,omitempty"` // hyperparameters of the encoding: vit.Params

	Steps        int     `json:"steps"`         // optimizer steps
	BatchSize    int     `json:"batch_size"`    // images per optimizer step
	LearningRate float64 `json:"learning_rate"` // the highest, at the end of warm-up
	WarmupSteps  int     `json:"warmup_steps"`  // linear from 0; then one half cosine to 0 at the last step
	// LRMilestones are steps at each of which the learning rate is divided by ten, in place of the cosine.
	LRMilestones []int `json:"lr_milestones,omitempty"`
	// Optimizer is that of package finetune. Its layer decay is ViTDet's: pyramid, heads and other encodings are new.
	Optimizer engine.Optimizer `json:"optimizer"`

	ScaleJitter    scenes.Jitter `json:"scale_jitter"`     // to the size of the detector's images
	EvalEverySteps int           `json:"eval_every_steps"` // steps between evaluations, default a tenth of all
	// ValFraction is the fraction of a folder's training images for validation, if a Run has no Validation; 0 for none.
	ValFraction float64 `json:"val_fraction,omitempty"`
}

// Resolve returns r with defaults for its zero fields, and an error that names the first field out of its range: those
// of Detector and Optimizer, a jitter of the detector's size without rescaling, and a tenth of the steps between
// evaluations.
func (r Recipe) Resolve() (_ Recipe, err error) {
	r.Detector, err = r.Detector.resolve()
	r.Optimizer, _ = r.Optimizer.Resolve() // validate has its error
	j, b := &r.ScaleJitter, r.Detector.Backbone
	j.Height, j.Width = cmp.Or(j.Height, b.ImageRows), cmp.Or(j.Width, b.ImageCols)
	if j.Low == 0 && j.High == 0 {
		j.Low, j.High = 1, 1
	}
	r.EvalEverySteps = cmp.Or(r.EvalEverySteps, max(1, r.Steps/10))
	if err != nil {
		return r, err
	}
	return r, r.validate()
}

func (r Recipe) validate() error {
	b, j := r.Detector.Backbone, r.ScaleJitter
	if err := cmp.Or(
		setting.In("steps", r.Steps, r.Steps >= 1 && r.Steps <= 1e9, ">= 1"),
		setting.In("batch_size", r.BatchSize, r.BatchSize >= 1 && r.BatchSize <= 1e6, ">= 1"),
		setting.In("learning_rate", r.LearningRate, r.LearningRate > 0 && r.LearningRate < 1e3, "> 0"),
		setting.In("warmup_steps", r.WarmupSteps, r.WarmupSteps >= 0 && r.WarmupSteps <= r.Steps,
			fmt.Sprintf("0 to steps, %d", r.Steps)),
		setting.In("eval_every_steps", r.EvalEverySteps, r.EvalEverySteps >= 1, ">= 1"),
		setting.In("val_fraction", r.ValFraction, r.ValFraction >= 0 && r.ValFraction < 1,
			"0 <= val_fraction < 1"),
		setting.In("scale_jitter.height", j.Height, j.Height == b.ImageRows, "the rows of the detector's images"),
		setting.In("scale_jitter.width", j.Width, j.Width == b.ImageCols, "the columns of the detector's images"),
	); err != nil {
		return fmt.Errorf("detect: %w", err)
	}
	if !slices.IsSorted(r.LRMilestones) || len(r.LRMilestones) > 0 && r.LRMilestones[0] < r.WarmupSteps {
		return fmt.Errorf("detect: lr_milestones are %v, want steps after warm-up in rising order", r.LRMilestones)
	}
	if err := j.Validate(); err != nil {
		return err
	}
	if _, err := r.Optimizer.Resolve(); err != nil {
		return err
	}
	if len(r.Optimizer.LearningRates) > 0 {
		return errors.New("detect: optimizer.learning_rates is set: detectors have no groups, want none")
	}
	return finetune.ValidateParams(r.Params, r.Detector.Backbone.Config)
}

// begins refuses what a resolved recipe of a new training must not have; detectors that were trained with it open.
func (r Recipe) begins() error {
	b, m := r.Detector.Backbone, r.LRMilestones
	switch {
	case b.Encoding()[0].Name == "hybrid":
		return errors.New("detect: hybrid blends a table of one grid: take grid2d, which is resampled, or wepe")
	case len(slices.Compact(slices.Sorted(slices.Values(b.Global)))) < len(b.Global):
		return fmt.Errorf("detect: global names a block twice: %v", b.Global)
	case len(m) > 0 && m[len(m)-1] > r.Steps:
		return fmt.Errorf("detect: lr_milestones are %v, of %d steps: set lr_milestones too, [] for a cosine", m, r.Steps)
	}
	return nil
}

// Set changes fields from settings as finetune.Recipe.Set does, "steps=300;detector.backbone.width=96".
func (r Recipe) Set(settings string) (Recipe, error) {
	if err := setting.Set(&r, settings, position.Params()); err != nil {
		return r, fmt.Errorf("detect: %w", err)
	}
	keys := setting.Keys(settings)
	for _, key := range keys {
		if field, is := strings.CutPrefix(key, "detector.backbone."); is && slices.Contains(unread, field) {
			return r, fmt.Errorf("detect: %s has no effect in a detector: leave it out", key)
		}
	}
	if slices.Contains(keys, "detector.std") && !slices.Contains(keys, "detector.mean") { // which would be 0
		return r, errors.New("detect: detector.std without detector.mean: set both")
	}
	return r, nil
}

// unread are the fields of vit.Config that Backbone.trace does not read, and the classes, which are those of the data.
var unread = []string{"classes", "pool", "pool_prefix", "pool_num_heads", "pool_mlp_dim", "class_token", "registers",
	"register_positions", "patch_positions", "final_norm", "recompute"}

// schedule is the learning rate by step.
func (r Recipe) schedule() engine.Schedule {
	return engine.Schedule{Peak: r.LearningRate, Warmup: r.WarmupSteps, Steps: r.Steps, Milestones: r.LRMilestones}
}

// Photographs is the name of the recipe for a pretrained ViT.
const Photographs = "photographs"

// recipes are the named recipes.
var recipes = []func() Recipe{
	// Generated scenes of 96×96 pixels, 8×8 patches. Objects, and so the anchors, have sides of about 14 to 58 pixels. A
	// step takes 0.6 s of CPU time with ONNX Runtime, most of it for the finest map, of 32×32 cells.
	//
	//	wepe detect train
	func() Recipe {
		return Recipe{
			Name: "scenes",
			Detector: Config{
				Backbone: Backbone{Config: vit.Config{ImageRows: 96, ImageCols: 96, PatchSize: 12, Width: 64, Depth: 4,
					Heads: 4, Position: "wepe"}, Window: 4, Global: []int{1, 3}},
				Channels: 32,
				RPN: RPN{Convs: 1, Sizes: []float64{14, 24, 40, 58, 80}, Samples: 128,
					Before: Counts{Train: 200, Test: 200}, After: Counts{Train: 100, Test: 50}},
				ROI: ROI{Samples: 32, Convs: []int{32}, Dense: []int{128}, MaskSize: 7, Masks: []int{32, 32}, MaxDetections: 20},
			},
			Steps: 900, BatchSize: 8, LearningRate: 1e-3, WarmupSteps: 100,
			Optimizer:      engine.Optimizer{WeightDecay: 0.05, ClipNorm: 1},
			ScaleJitter:    scenes.Jitter{Flip: 0.5},
			EvalEverySteps: 150,
		}
	},
	// A pretrained ViT, which is all of the network, on some hundred photographs and a CPU: 320×320 pixels, with patches
	// of 16 windows of a quarter of the image, small heads. A step with ViT-Ti takes seconds.
	//
	//	wepe detect train MODEL --data coco:DIR
	func() Recipe {
		return Recipe{
			Name: Photographs,
			Detector: Config{
				Backbone: Backbone{Config: vit.Config{ImageRows: 320, ImageCols: 320}, Window: 10},
				Channels: 64,
				RPN: RPN{Sizes: []float64{12, 24, 48, 96, 192},
					Before: Counts{Train: 400, Test: 400}, After: Counts{Train: 200, Test: 100}},
				ROI: ROI{Samples: 64, Convs: []int{64}, Dense: []int{256}, Masks: []int{64, 64}, MaxDetections: 50},
			},
			Steps: 1500, BatchSize: 4, LearningRate: 3e-4, WarmupSteps: 100,
			Optimizer:   engine.Optimizer{WeightDecay: 0.05, ClipNorm: 1, LayerDecay: 0.8},
			ScaleJitter: scenes.Jitter{Flip: 0.5},
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
	v, err := vit.Variant(variant)
	if err != nil {
		panic(err) // variant is a constant
	}
	side := 224 / v.PatchSize // of MAE's images
	v.ImageRows, v.ImageCols, v.Classes, v.Position, v.DropPath = 1024, 1024, 80, grid2d, dropPath
	c := Config{Backbone: Backbone{Config: v, Relative: true, PositionRows: side, PositionCols: side}}
	if cascade {
		c.ROI.Stages = cascadeStages()
	}
	return Recipe{
		Name: name, Detector: c,
		Steps: 184_375, BatchSize: 64, LearningRate: 1e-4, WarmupSteps: 250, LRMilestones: []int{163_889, 177_546},
		Optimizer:   engine.Optimizer{WeightDecay: 0.1, LayerDecay: layerDecay},
		ScaleJitter: scenes.Jitter{Height: 1024, Width: 1024, Low: 0.1, High: 2, Flip: 0.5}, EvalEverySteps: 5000,
	}
}

// RecipeByName returns a recipe by its name.
func RecipeByName(name string) (Recipe, error) {
	for _, make := range recipes {
		if r := make(); r.Name == name {
			return r, nil
		}
	}
	return Recipe{}, setting.Unknown("recipe", name, RecipeNames())
}

// RecipeNames lists the recipes.
func RecipeNames() (names []string) {
	for _, make := range recipes {
		names = append(names, make().Name)
	}
	return names
}
