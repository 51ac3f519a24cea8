// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
)

// DeiT, table 9, for a new model; MAE, table 9, for a pretrained one. The rates are those of FineTuning's
// documentation.
func TestDefaultRecipes_AreDeiTsAndMAEs(t *testing.T) {
	scratch := gomlxtest.Must(RecipeByName("scratch"))(t)
	want := gomlxtest.Must(scratch.Set("optimizer.weight_decay=0.05;label_smoothing=0.1;model.drop_path=0.1;" +
		"learning_rate=5e-4;model.patch_size=16;model.width=384;model.depth=12;model.heads=6;augment.size=[224,224];" +
		"augment.hflip=0.5;augment.mean=[0.485,0.456,0.406];augment.std=[0.229,0.224,0.225]"))(t)
	if !reflect.DeepEqual(scratch, want) {
		t.Errorf("from scratch %+v, want %+v", scratch, want)
	}
	for width, rate := range map[int]float64{192: 1e-3, 384: 5e-4, 768: 2.5e-4, 1024: 1.875e-4} {
		got := FineTuning(vit.Config{Width: width, ImageRows: 32, ImageCols: 48, Position: "rope-axial"}, 50_000)
		want := gomlxtest.Must(got.Set("optimizer.weight_decay=0.05;optimizer.layer_decay=0.75;label_smoothing=0.1;" +
			"augment.hflip=0.5;augment.size=[32,48];model.position=rope-axial"))(t)
		if want.LearningRate = rate; math.Abs(got.LearningRate-rate) < 1e-12 {
			want.LearningRate = got.LearningRate
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("width %d: %+v, want %+v", width, got, want)
		}
	}
}

// A batch is a twentieth of the images or eight. A run from scratch has at most 36,000 images, one from a ViT-Ti/16 at
// 224×224 about 2,400, as far as whole epochs allow.
func TestDefaultRecipes_FollowTheNumberOfImages(t *testing.T) {
	ti := vit.Config{Width: 192, Depth: 12, PatchSize: 16, ImageRows: 224, ImageCols: 224}
	base := ti
	base.Width = 768
	for images, want := range map[int][4]int{20: {60, 10, 7, 8}, 90: {60, 10, 3, 8}, 300: {60, 8, 3, 8},
		319: {60, 7, 3, 8}, 320: {60, 7, 3, 16}, 639: {56, 3, 3, 16}, 640: {56, 3, 3, 32}, 800: {45, 3, 3, 32},
		1279: {28, 3, 3, 32}, 1280: {28, 3, 3, 64}, 19_000: {2, 3, 3, 64}, 1_000_000: {2, 10, 10, 64}} {
		tuned := FineTuning(ti, images)
		got := [4]int{Photos(images).Epochs, tuned.Epochs, FineTuning(base, images).Epochs, tuned.BatchSize}
		if got != want {
			t.Errorf("%d images: %d epochs from scratch, from Ti and from B, batches; want %d", images, got, want)
		}
	}
}

// What a user sets must have an effect on one of the compared encodings; a published recipe may contain more.
func TestUnread_NamesWhatHasNoEffect(t *testing.T) {
	for _, c := range []struct{ settings, positions, want string }{ // what it lacks, or the encodings
		{"wepe_alpha_scale=0.9", "learned", "position learned"},
		{"params.wepe_alpha_scale=0.9", "none learned", "position none, learned"},
		{"epochs=2; wepe_alpha_scale=0.9", "learned wepe-sphere", ""},
		{"wepe_alpha_scale=0.9", "learned+rope-axial", "position learned+rope-axial"},
		{"wepe_alpha_scale=0.9", "rope-axial+wepe-bias", ""},
		{"wepe_alpha_scale=0.9", "", ""}, // of a model that is not open yet
		{"late_mixup_alpha=0.3", "none", "mixup_switch_epoch"}, {"late_mixup_alpha=0.3;mixup_switch_epoch=1", "none", ""},
		{"augment.erase_noise=true", "none", "augment.random_erasing_prob"}, {"augment.erase_noise=false", "none", ""},
		{"augment.erase_scale=[0.1,0.2]", "none", "augment.random_erasing_prob"},
		{"augment.erase_noise=true;augment.random_erasing_prob=0.25", "none", ""},
		{"augment.crop_ratio=[0.5,2]", "none", "augment.crop_scale"},
		{"augment.crop_ratio=[0.5,2];augment.crop_scale=[0.5,1]", "none", ""},
		{"augment.mix_prob=0.5", "none", "augment.mixup_alpha or augment.cutmix_alpha"},
		{"augment.mix_prob=0.5;augment.cutmix_alpha=1", "none", ""},
		{"augment.switch_prob=0.5;augment.cutmix_alpha=1", "none", "augment.mixup_alpha and augment.cutmix_alpha"},
		{"augment.switch_prob=0.5;augment.cutmix_alpha=1;augment.mixup_alpha=1", "none", ""},
		{"optimizer.beta2=0.99;optimizer.name=sgd", "none", "optimizer.name adamw or lamb"},
		{"optimizer.beta2=0.99;optimizer.name=lamb", "none", ""},
	} {
		err := gomlxtest.Must(tiny().Set(c.settings))(t).UnusedSetting(c.settings, strings.Fields(c.positions)...)
		if c.want != "" {
			refused(t, c.settings, err, c.want)
		} else if err != nil {
			t.Errorf("%s with %s: %v", c.settings, c.positions, err)
		}
	}
}
