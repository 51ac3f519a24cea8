// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	_ "embed" // the comments of settings
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

//go:embed recipe.go
var recipeCode string

var _ = setting.Describe(recipeCode)

// Recipe describes a training except the data, the seed and the machine. It is saved with every checkpoint and every
// row. Resolve sets zero fields.
type Recipe struct {
	Name string `json:"name"` // name of the recipe, in rows and directories

	// Architecture is the network, with the sizes of Model: "" for the ViT, or DHVT.
	Architecture string `json:"architecture,omitempty"`
	// Model is the network; image size and classes left at zero are taken from the data.
	Model vit.Config `json:"model"`
	// Params are the hyperparameters of the encoding: vit.Params.
	Params map[string]any `json:"params,omitempty"`

	Epochs         int `json:"epochs"`           // passes over the training images; one of Epochs and Steps is 0
	Steps          int `json:"steps,omitempty"`  // optimizer steps, in place of Epochs
	BatchSize      int `json:"batch_size"`       // images per optimizer step; an epoch drops an incomplete batch
	GradAccumSteps int `json:"grad_accum_steps"` // micro-batches per batch, to save memory: a divisor of BatchSize

	LearningRate   float64          `json:"learning_rate"`          // the highest one, at the end of warm-up
	WarmupEpochs   float64          `json:"warmup_epochs"`          // epochs of linear warm-up; then half a cosine to 0
	WarmupSteps    int              `json:"warmup_steps,omitempty"` // steps of warm-up if Steps is set
	Optimizer      engine.Optimizer `json:"optimizer"`
	Freeze         string           `json:"freeze,omitempty"` // groups that are not trained, as "backbone,position,gate"
	LabelSmoothing float64          `json:"label_smoothing"`  // share of the target of all classes
	Loss           string           `json:"loss,omitempty"`   // "" for the cross-entropy, "bce" for a binary one by class
	// ClassWeights scales the cross-entropy by class: "balanced", n/(classes·n_c) if n_c of the n training images are of
	// class c, or a number for each class, as "1,2.5,1"; "" for none.
	ClassWeights string  `json:"class_weights,omitempty"`
	EMADecay     float64 `json:"ema_decay"` // decay of the averaged weights that are evaluated and saved, 0 for none

	Augment data.Augment `json:"augment"`
	// Aspect is how images of other aspect ratios are resized: "crop", "squash" or "keep", or "" for crop where they have
	// several sizes.
	Aspect string `json:"aspect,omitempty"`
	// Grey16 is how 16-bit grey in image files is converted: "scale", the high byte, "range", the range of each image, or
	// "", clipped to 255 as in Pillow.
	Grey16 string `json:"grey16,omitempty"`
	// MixupSwitchEpoch is the epoch from which on mixup draws λ with LateMixupAlpha (the release's two stages); 0: never.
	MixupSwitchEpoch int     `json:"mixup_switch_epoch,omitempty"`
	LateMixupAlpha   float64 `json:"late_mixup_alpha,omitempty"` // α of mixup from epoch MixupSwitchEpoch on

	EvalEveryEpochs int     `json:"eval_every_epochs"`          // epochs between evaluations, default 1
	EvalEverySteps  int     `json:"eval_every_steps,omitempty"` // the same in steps if Steps is set, default a tenth
	EvalBatchSize   int     `json:"eval_batch_size"`            // images per evaluation step at most, default BatchSize
	Patience        int     `json:"patience,omitempty"`         // evaluations without improvement that end a run, 0: never
	ValFraction     float64 `json:"val_fraction"`               // fraction of training images to split off, < 0 for none

	// For a run that starts from a pretrained model (Run.From). The model sets the zero sizes of Model, the normalization
	// if Augment has none, and the position if Model has none.

	Interpolation string `json:"interpolation,omitempty"` // kernel for pretrained positions; "" for the source's own
	HeadZeroInit  bool   `json:"head_zeroinit,omitempty"` // initialize a new head with zeros, also from scratch
	// LoRA is the rank of adapters on query, key, value and output of every attention, with LoRAMLP of the MLPs too, which
	// are trained in place of the backbone (weight.Adapt, alpha = rank). Evaluations, checkpoints and exports contain
	// their sum.
	LoRA    int  `json:"lora,omitempty"`
	LoRAMLP bool `json:"lora_mlp,omitempty"` // adapters on the MLPs too
}

// lossBCE is the Recipe.Loss of DeiT-III: a binary cross-entropy per class, with target 1 for every class that mixing
// left in an image, however little. It is the mean over images and classes of
//
//	−t·log σ(x) − (1−t)·log(1−σ(x)),   t = 1 for a soft target above 0
const lossBCE = "bce"

// Resolve completes and checks a recipe: it sets zero fields, its model's by vit.Config.Resolve, and returns the
// completed recipe also with an error, a *setting.RangeError for a number. Run.Do resolves its recipe once; what is
// stored is resolved.
//
//	grad_accum_steps    1
//	eval_every_epochs   1, or eval_every_steps a tenth of steps
//	eval_batch_size     batch_size
//	val_fraction        0.1
//	optimizer           engine.Optimizer.Resolve
func (r Recipe) Resolve() (Recipe, error) {
	r.GradAccumSteps = cmp.Or(r.GradAccumSteps, 1)
	if r.Steps > 0 {
		r.EvalEverySteps = cmp.Or(r.EvalEverySteps, max(1, r.Steps/10))
	} else {
		r.EvalEveryEpochs = cmp.Or(r.EvalEveryEpochs, 1)
	}
	r.EvalBatchSize = cmp.Or(r.EvalBatchSize, r.BatchSize)
	r.ValFraction = cmp.Or(r.ValFraction, 0.1)
	r.Optimizer, _ = r.Optimizer.Resolve()
	r.Model, _ = r.Model.Resolve() // validate has the errors
	return r, r.validate()
}

// fit sets image size and classes from the data, and refuses a recipe that contradicts them.
func (r Recipe) fit(set *data.Info) (Recipe, error) {
	rows, cols, err := sidesOf(set, r.Aspect, r.Augment, r.Model)
	if err != nil {
		return r, err
	}
	if r.Aspect == AspectKeep {
		r.Augment.Size = [2]int{} // strips are not resized
	}
	m := &r.Model
	for _, err := range []error{
		agree("image_rows", &m.ImageRows, rows), agree("image_cols", &m.ImageCols, cols),
		agree("channels", &m.Channels, set.Channels), agree("classes", &m.Classes, len(set.Classes)),
	} {
		if err != nil {
			return r, fmt.Errorf("%w in dataset %s", err, set.Name)
		}
	}
	if r, err = r.Resolve(); err != nil {
		return r, err
	}
	_, err = r.classWeights(set)
	return r, err
}

// classWeights returns the factor of each class in the loss, nil for none.
func (r Recipe) classWeights(set *data.Info) (weights []float32, err error) {
	classes := len(set.Classes)
	switch r.ClassWeights {
	case "":
		return nil, nil
	case "balanced":
		counts := make([]int, classes)
		for _, label := range set.Labels {
			counts[label]++
		}
		for class, n := range counts {
			if n == 0 {
				return nil, fmt.Errorf("finetune: class_weights=balanced: %s has no image of class %s", set.Name,
					set.Classes[class])
			}
			weights = append(weights, float32(float64(set.Len())/float64(classes*n)))
		}
		return weights, nil
	}
	for text := range strings.SplitSeq(r.ClassWeights, ",") {
		w, err := strconv.ParseFloat(strings.TrimSpace(text), 32)
		if err != nil || !(w >= 0 && w <= 1e6) {
			return nil, fmt.Errorf("finetune: class_weights: %q is not a number from 0 to 1e6: want balanced, or numbers "+
				"separated by commas", text)
		}
		weights = append(weights, float32(w))
	}
	if len(weights) != classes {
		return nil, fmt.Errorf("finetune: class_weights has %d numbers, %s %d classes", len(weights), set.Name, classes)
	}
	return weights, nil
}

// agree sets a zero field and refuses another value.
func agree[T comparable](name string, field *T, value T) error {
	if *field = cmp.Or(*field, value); *field != value {
		return fmt.Errorf("finetune: the model's %s is %v, but %v", name, *field, value)
	}
	return nil
}

// validate reports the first field out of its range, by its JSON name.
func (r Recipe) validate() error {
	if err := r.validateNumbers(); err != nil {
		return err
	}
	if r.Loss != "" && (r.Loss != lossBCE || r.LabelSmoothing > 0) {
		return fmt.Errorf("finetune: loss is %q with a smoothing of %g: want %q with none, or no loss for the cross-entropy",
			r.Loss, r.LabelSmoothing, lossBCE)
	}
	if r.ClassWeights != "" && r.Loss != "" {
		return fmt.Errorf("finetune: class_weights apply to the cross-entropy, not to loss %q: omit one of the two", r.Loss)
	}
	if _, err := engine.Frozen(r.frozen()); err != nil {
		return err
	}
	if kinds := checkpoints.Resamplings(); r.Interpolation != "" && !slices.Contains(kinds, r.Interpolation) {
		return fmt.Errorf("finetune: unknown interpolation %q: want one of %s", r.Interpolation, strings.Join(kinds, ", "))
	}
	if err := r.Augment.Validate(); err != nil {
		return err
	}
	if r.Aspect == AspectKeep {
		if err := r.plainViT("takes images of aspect " + r.Aspect); err != nil {
			return err
		}
	}
	if _, err := networkOf(r.Architecture, r.Model); err != nil {
		return err
	}
	if err := (preprocess.Settings{Grey16: r.Grey16}).Validate(); err != nil {
		return fmt.Errorf("finetune: %w", err)
	}
	if err := validateAspect(r.Aspect, r.Augment, r.Model); err != nil {
		return err
	}
	return ValidateParams(r.Params, r.Model)
}

// validateNumbers reports the first number out of its range. Comparisons are false for NaN.
func (r Recipe) validateNumbers() error {
	stepped := r.Steps > 0
	_, optimizerErr := r.Optimizer.Resolve()
	epochs, evalEpochs, evalSteps := "1 to 1e6", ">= 1", "0 where epochs is set"
	if stepped {
		epochs, evalEpochs, evalSteps = "0 where steps is set (and warmup_epochs 0)", "0 where steps is set", ">= 1"
	}
	return cmp.Or(
		setting.In("steps", r.Steps, r.Steps >= 0 && r.Steps <= 1e9, "0 to 1e9"),
		setting.In("epochs", r.Epochs,
			stepped && r.Epochs == 0 || !stepped && r.Epochs >= 1 && r.Epochs <= 1e6, epochs),
		setting.In("batch_size", r.BatchSize, r.BatchSize >= 1 && r.BatchSize <= 1e6, "1 to 1e6"),
		setting.In("grad_accum_steps", r.GradAccumSteps, r.GradAccumSteps >= 1 && r.BatchSize%max(1, r.GradAccumSteps) == 0,
			fmt.Sprintf("a divisor of batch_size, %d", r.BatchSize)),
		setting.In("learning_rate", r.LearningRate, r.LearningRate > 0 && r.LearningRate < 1e3, "0 < learning_rate < 1000"),
		setting.In("warmup_epochs", r.WarmupEpochs, r.WarmupEpochs >= 0 && r.WarmupEpochs <= float64(r.Epochs),
			fmt.Sprintf("0 to epochs, %d (warmup_steps where steps is set)", r.Epochs)),
		setting.In("warmup_steps", r.WarmupSteps, r.WarmupSteps >= 0 && r.WarmupSteps <= r.Steps,
			fmt.Sprintf("0 to steps, %d (warmup_epochs where epochs is set)", r.Steps)),
		setting.In("label_smoothing", r.LabelSmoothing, r.LabelSmoothing >= 0 && r.LabelSmoothing < 1,
			"0 <= label_smoothing < 1"),
		setting.In("ema_decay", r.EMADecay, r.EMADecay >= 0 && r.EMADecay < 1, "0 <= ema_decay < 1"),
		setting.In("late_mixup_alpha", r.LateMixupAlpha,
			r.MixupSwitchEpoch == 0 || r.LateMixupAlpha > 0 && r.Augment.MixupAlpha > 0,
			"> 0, with augment.mixup_alpha > 0, where mixup_switch_epoch is set"),
		setting.In("eval_every_epochs", r.EvalEveryEpochs,
			stepped && r.EvalEveryEpochs == 0 || !stepped && r.EvalEveryEpochs >= 1, evalEpochs),
		setting.In("eval_every_steps", r.EvalEverySteps,
			stepped && r.EvalEverySteps >= 1 || !stepped && r.EvalEverySteps == 0, evalSteps),
		setting.In("eval_batch_size", r.EvalBatchSize, r.EvalBatchSize >= 1 && r.EvalBatchSize <= 1e6, "1 to 1e6"),
		setting.In("val_fraction", r.ValFraction, r.ValFraction < 1, "< 1"),
		setting.In("patience", r.Patience, r.Patience >= 0, ">= 0"),
		setting.In("lora", r.LoRA, r.LoRA >= 0 && r.LoRA <= 1e4 && (r.LoRA > 0 || !r.LoRAMLP),
			"0 to 10000, above 0 with lora_mlp"),
		optimizerErr,
	)
}

// ValidateParams returns an error for unknown hyperparameters, and for values that the model's encoding rejects.
func ValidateParams(params map[string]any, c vit.Config) error {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if retired, err := position.Retired(c.Position, name, params[name]); err != nil {
			return err
		} else if !retired && !slices.Contains(position.Params(), name) {
			return fmt.Errorf("finetune: %w", setting.Unknown("hyperparameter", name, position.Params()))
		}
	}
	// Encoders panic while a graph is built; building one here gives a clear error early.
	return exceptions.TryCatch[error](func() {
		store := model.NewStore()
		store.RootScope().SetParams(params)
		c.Encoder(store.RootScope())
	})
}

// plainViT refuses what only a ViT supports.
func (r Recipe) plainViT(what string) error {
	if r.Architecture != "" {
		return fmt.Errorf("finetune: recipe %s has architecture %s: only a ViT %s", r.Name, r.Architecture, what)
	}
	return nil
}

// oneSize refuses what models for several grids do not support.
func (r Recipe) oneSize(what string) error {
	if r.Aspect == AspectKeep {
		return fmt.Errorf("finetune: recipe %s keeps the aspect ratio of its images: %s needs images of one size",
			r.Name, what)
	}
	return nil
}

// Preprocessing returns the settings that resize images to a size in pixels, as in training.
func (r Recipe) Preprocessing(size [2]int) (preprocess.Settings, error) {
	s := preprocess.Settings{Resample: preprocess.Bicubic, Size: size, Grey16: r.Grey16}
	switch r.Aspect {
	case aspectSquash:
		s.Resize = preprocess.ResizeExact
	case AspectKeep:
		if s.Resize, s.Patch = preprocess.ResizePatches, r.Model.PatchSize; s.Patch == 0 {
			return s, fmt.Errorf("finetune: aspect %s: recipe %s leaves the patch size to the model: set model.patch_size",
				r.Aspect, r.Name)
		}
	default:
		if s.Resize, s.Crop = preprocess.ResizeCover, size; size[0] == size[1] { // as in transformers and timm
			s.Resize = preprocess.ResizeShortest
		}
	}
	return s, s.Validate()
}

// frozen names the groups that are not trained, or have no variables.
func (r Recipe) frozen() string {
	if r.LoRA > 0 {
		return r.Freeze + ",backbone"
	}
	return r.Freeze + ",lora"
}

// augmentation returns the augmentation of an epoch.
func (r Recipe) augmentation(epoch int) data.Augment {
	a := r.Augment
	if r.MixupSwitchEpoch > 0 && epoch >= r.MixupSwitchEpoch {
		a.MixupAlpha = r.LateMixupAlpha
	}
	return a
}

// Split splits off the recipe's ValFraction of a dataset; validation is nil if that is empty. The split is the same
// for every seed.
func (r Recipe) Split(set data.Dataset) (training, validation data.Dataset, err error) {
	return data.RandomSplit(set, int(math.Round(max(0, r.ValFraction)*float64(set.Len()))), 0)
}

// schedule returns the number of optimizer steps of a run, of warm-up steps, and of steps between evaluations, for
// epochs of perPass batches.
func (r Recipe) schedule(perPass int) (total, warmup, interval int) {
	if r.Steps > 0 {
		return r.Steps, r.WarmupSteps, r.EvalEverySteps
	}
	return r.Epochs * perPass, int(math.Round(r.WarmupEpochs * float64(perPass))), r.EvalEveryEpochs * perPass
}
