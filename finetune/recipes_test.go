// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/vit"
)

// deitSettings are the defaults of main.py of facebookresearch/deit (arXiv 2012.12877, table 9) that rope-vit's and
// DHVT's commands keep.
const deitSettings = "warmup_epochs=5;augment.flip_prob=0.5;augment.mixup_alpha=0.8;augment.cutmix_alpha=1;" +
	"augment.mean=[0.485,0.456,0.406];augment.std=[0.229,0.224,0.225];validation_part=-1;"

// deitCrops are the settings of main.py for images of 224×224 and more; it resamples with bicubic interpolation.
const deitCrops = deitSettings + "augment.size=[224,224];augment.crop_scale=[0.08,1];augment.resample=bicubic;" +
	"model.dtype=bfloat16;"

// randAugment is main.py's policy, with random erasing by noise.
const randAugment = "augment.policy=rand-m9-mstd0.5-inc1;augment.erase_prob=0.25;augment.erase_noise=true;"

// deit3Settings are common to rope-vit's commands for training (deit/README.md of naver-ai/rope-vit).
const deit3Settings = deitCrops + "epochs=400;batch_size=2048;smoothing=0;loss=bce;augment.repeats=3;" +
	"optimizer.kind=lamb;optimizer.weight_decay=0.03;optimizer.clip_norm=1;augment.policy=3-augment;" +
	"augment.jitter=[0.3,0.3,0.3,0];model.patch_size=16;model.layer_scale=1e-4;model.patch_positions=true;"

// releaseSettings are common to the scripts for CIFAR-100 of the WePE release: 32×32 pixels enlarged to 224×224,
// AdamW that decays every parameter.
const releaseSettings = "augment.size=[224,224];augment.flip_prob=0.5;augment.mean=[0.5071,0.4865,0.4409];" +
	"augment.std=[0.2673,0.2564,0.2762];optimizer.decay_all=true;validation_part=-1;model.patch_size=16;" +
	"model.depth=12;model.epsilon=1e-5;model.init=release;wepe_mode=release;"

// releaseTiSettings are ImprovedViT_Ti's of W_Ti.py and its batches of 160.
const releaseTiSettings = releaseSettings + "model.width=192;model.heads=3;model.mlp_dim=768;model.patch_norm=true;" +
	"augment.cutout=12;"

// releaseFirst are the settings that W_Ti.py and 2d_position_encoding_comparison.py share.
const releaseFirst = releaseTiSettings + "batch_size=160;learning_rate=0.0015;smoothing=0.08;augment.pad=4;" +
	"optimizer.weight_decay=0.03;optimizer.clip_norm=0.8;model.dropout=0.05;model.attention_dropout=0.05;" +
	"model.drop_path=0.05;"

// releaseTuned are common to the scripts of the WePE release that fine-tune; λ is σ(0.5), σ(0.6) or fixed at 1.
const releaseTuned = "model.dtype=bfloat16;resample=bilinear;optimizer.decay_all=true;optimizer.clip_norm=1;"

// releaseVTABSettings are common to its scripts for VTAB-1k.
const releaseVTABSettings = releaseTuned + "augment.size=[384,384];augment.mean=[0.485,0.456,0.406];" +
	"augment.std=[0.229,0.224,0.225];validation_part=-1;"

// releaseCIFAR100Settings are those of weierstrass_vit_experiment2.py, without the images' size and λ.
const releaseCIFAR100Settings = releaseTuned + "epochs=35;batch_size=20;warmup_epochs=8;learning_rate=4e-5;" +
	"smoothing=0.1;optimizer.weight_decay=0.05;optimizer.learning_rates.position=16;" +
	"optimizer.learning_rates.gate=20;optimizer.learning_rates.head=20;augment.crop_scale=[0.8,1];" +
	"augment.crop_ratio=[0.9,1.1];augment.flip_prob=0.5;augment.rotate=15;augment.jitter=[0.4,0.4,0.4,0.1];" +
	"augment.grey_prob=0.1;augment.erase_prob=0.25;augment.erase_scale=[0.02,0.33];augment.mixup_alpha=0.2;" +
	"augment.cutmix_alpha=1;augment.mix_prob=0.5;augment.mean=[0.5071,0.4867,0.4408];" +
	"augment.std=[0.2675,0.2565,0.2761];"

// publishedSettings are all settings of the recipes of others, copied from their sources. Micro-batches (accumulate)
// and validation splits above 0 are ours.
var publishedSettings = map[string]string{
	"paper-imagenet-200": deitCrops + randAugment + "epochs=200;batch_size=1024;accumulate=4;learning_rate=0.001;" +
		"optimizer.weight_decay=0.05;smoothing=0.1;augment.repeats=3;model.patch_size=16;model.width=192;" +
		"model.depth=12;model.heads=3;model.drop_path=0.1;model.position=wepe",
	"deit3-s16-400": deit3Settings + "accumulate=8;learning_rate=0.004;model.width=384;model.depth=12;model.heads=6;" +
		"model.position=learned",
	"deit3-b16-400": deit3Settings + "accumulate=8;learning_rate=0.003;model.width=768;model.depth=12;model.heads=12;" +
		"model.drop_path=0.1;augment.size=[192,192];model.position=learned",
	"deit3-l16-400": deit3Settings + "accumulate=16;learning_rate=0.003;model.width=1024;model.depth=24;" +
		"model.heads=16;model.drop_path=0.4;augment.size=[192,192];model.position=learned",
	"deit3-finetune": deitCrops + "epochs=20;batch_size=512;accumulate=2;learning_rate=1e-5;smoothing=0.1;" +
		"optimizer.weight_decay=0.1;augment.policy=rand-m9-mstd0.5-inc1;model.drop_path=0.2",
	// DHVT: run_code_cifar.sh, main.py and vision_transformer.py of ArieSeirack/DHVT.
	"dhvt-300": deitSettings + randAugment + "architecture=dhvt;epochs=300;batch_size=512;learning_rate=0.001;" +
		"optimizer.weight_decay=0.05;smoothing=0.1;augment.pad=4;augment.repeats=3;model.patch_size=4;" +
		"model.width=192;model.depth=12;model.heads=4;model.mlp_dim=768;model.drop_path=0.1;model.position=none",
	// big_vision: arXiv 2205.01580, section 2, and configs/vit_s16_i1k.py.
	"bigvision-s16-90": "epochs=90;batch_size=1024;accumulate=4;learning_rate=0.001;warmup_epochs=8.0775;" +
		"optimizer.weight_decay=0.1;optimizer.clip_norm=1;model.width=384;model.depth=12;model.heads=6;" +
		"model.patch_size=16;model.pool=mean;model.init=jax;model.position=sincos2d;model.dtype=bfloat16;" +
		"augment.size=[224,224];" +
		"augment.crop_scale=[0.05,1];augment.flip_prob=0.5;augment.policy=randaug(2,10);augment.mixup_alpha=0.2;" +
		"augment.mean=[0.5,0.5,0.5];augment.std=[0.5,0.5,0.5];validation_part=0.01",
	// ViT: arXiv 2010.11929, table 4, and google-research/vision_transformer.
	"dosovitskiy-vtab": "steps=2500;learning_rate=0.01;batch_size=512;accumulate=8;warmup_steps=500;" +
		"optimizer.kind=sgd;optimizer.momentum=0.9;optimizer.clip_norm=1;zero_head=true;augment.size=[384,384];" +
		"validation_part=-1",
	"dosovitskiy-cifar100": "steps=10000;learning_rate=0.03;batch_size=512;accumulate=8;warmup_steps=500;" +
		"optimizer.kind=sgd;optimizer.momentum=0.9;optimizer.clip_norm=1;zero_head=true;augment.size=[384,384];" +
		"augment.crop_scale=[0.05,1];augment.flip_prob=0.5;validation_part=0.02",
	// MAE: FINETUNE.md of facebookresearch/mae, ViT-B.
	"adamw-layer-decay": randAugment + "epochs=100;batch_size=1024;accumulate=8;learning_rate=0.002;warmup_epochs=5;" +
		"smoothing=0.1;optimizer.weight_decay=0.05;optimizer.layer_decay=0.65;model.drop_path=0.1;" +
		"model.dtype=bfloat16;augment.size=[224,224];augment.crop_scale=[0.08,1];augment.resample=bicubic;" +
		"augment.flip_prob=0.5;augment.mixup_alpha=0.8;augment.cutmix_alpha=1",
	// DINO: eval_linear.py of facebookresearch/dino.
	"linear-probe": "epochs=100;batch_size=1024;accumulate=8;learning_rate=0.004;optimizer.kind=sgd;" +
		"optimizer.momentum=0.9;augment.size=[224,224];augment.crop_scale=[0.08,1];augment.flip_prob=0.5;" +
		`freeze="backbone,position,gate"`,
	// The WePE release at commit 3c27aecd: W_Ti.py, 2d_position_encoding_comparison.py, train_wef_cifar_subsets.py,
	// dhvt_wef_experiment.py, weierstrass_vit_experiment2.py, vit_wef_svhn_1k.py, vit_wef_dmlab_1k.py, wef_resisc45.py.
	"release-cifar100-120": releaseFirst + "epochs=120;warmup_epochs=15;augment.mixup_alpha=0.15;" +
		"augment.mix_prob=0.6;late_from=15;late_mixup_alpha=0.3;model.dtype=bfloat16",
	"release-cifar100-60": releaseFirst + "epochs=60;warmup_epochs=10;model.dtype=float32",
	"release-cifar100-200": releaseTiSettings + "epochs=200;batch_size=128;learning_rate=5e-4;warmup_epochs=10;" +
		"smoothing=0.1;optimizer.weight_decay=0.05;optimizer.clip_norm=1;model.dropout=0.1;" +
		"model.attention_dropout=0.1;model.drop_path=0.1;augment.crop_scale=[0.6,1];augment.crop_ratio=[0.9,1.1];" +
		"augment.policy=RandAugment(2,9);augment.mixup_alpha=0.3;model.dtype=bfloat16",
	"release-dhvt-300": releaseSettings + "architecture=dhvt;epochs=300;batch_size=96;learning_rate=0.0015;" +
		"warmup_epochs=15;smoothing=0.15;optimizer.weight_decay=0.03;optimizer.clip_norm=1;model.width=224;" +
		"model.heads=4;model.mlp_dim=896;model.dropout=0.08;model.drop_path=0.15;augment.pad=4;augment.cutout=16;" +
		"augment.mixup_alpha=0.3;augment.mix_prob=0.7;late_from=15;late_mixup_alpha=0.6;wepe_projection=mlp;" +
		"wepe_dropout=0.08;wepe_alpha_scale=0.1;wepe_g2=0.8;wepe_g3=0.2",
	"release-cifar100-pretrained": releaseCIFAR100Settings + "augment.size=[224,224];" +
		"wepe_gate=1;wepe_learn_gate=false",
	"paper-cifar100-384": releaseCIFAR100Settings + "augment.size=[384,384];wepe_gate=0.622459",
	"release-svhn": releaseVTABSettings + "epochs=100;batch_size=16;warmup_epochs=10;learning_rate=2e-5;" +
		"smoothing=0.1;optimizer.weight_decay=0.02;optimizer.learning_rates.position=10;" +
		"optimizer.learning_rates.gate=15;optimizer.learning_rates.head=15;augment.pad=3;augment.flip_prob=0.5;" +
		"augment.rotate=15;augment.jitter=[0.4,0.4,0.4,0.15];augment.erase_prob=0.3;augment.erase_scale=[0.02,0.3];" +
		"wepe_surrogate=svhn;wepe_gate=0.622459",
	"release-dmlab": releaseVTABSettings + "epochs=120;batch_size=12;warmup_epochs=15;learning_rate=1.2e-5;" +
		"smoothing=0.15;optimizer.weight_decay=0.025;optimizer.learning_rates.position=15;" +
		"optimizer.learning_rates.gate=25;optimizer.learning_rates.head=25;augment.crop_scale=[0.85,1];" +
		"augment.crop_ratio=[1,1];augment.flip_prob=0.3;augment.rotate=8;augment.jitter=[0.3,0.3,0.2,0.1];" +
		"augment.erase_prob=0.2;augment.erase_scale=[0.02,0.2];wepe_gate=0.645656",
	"release-resisc45": releaseVTABSettings + "epochs=120;batch_size=12;warmup_epochs=15;learning_rate=1.5e-5;" +
		"smoothing=0.15;optimizer.weight_decay=0.08;optimizer.learning_rates.position=12;" +
		"optimizer.learning_rates.gate=18;optimizer.learning_rates.head=18;augment.crop_scale=[0.85,1];" +
		"augment.crop_ratio=[1,1];augment.flip_prob=0.5;augment.flip_up_prob=0.3;augment.rotate=30;" +
		"augment.jitter=[0.3,0.3,0.3,0.1];augment.erase_prob=0.4;augment.erase_scale=[0.02,0.25];" +
		"wepe_gate=0.645656",
}

func TestNamed_HasTheSettingsOfItsSource(t *testing.T) {
	for _, name := range Names() {
		settings, published := publishedSettings[name]
		if ours := "photos scratch shapes cifar100-small cifar100-15 demo-pretrain demo-cifar100 demo-shapes"; !published {
			if !slices.Contains(strings.Fields(ours), name) {
				t.Errorf("%s has no source here", name)
			}
			continue
		}
		is := gomlxtest.Must(Named(name))(t).WithDefaults()
		source := gomlxtest.Must(Recipe{Name: name}.Set(settings))(t).WithDefaults()
		source.EvalBatchSize = is.EvalBatchSize // changes no result
		got, want := gomlxtest.Must(setting.Values(is))(t), gomlxtest.Must(setting.Values(source))(t)
		all := maps.Clone(got)
		maps.Copy(all, want)
		for key := range all {
			if got[key] != want[key] {
				t.Errorf("%s: %s is %s, its source has %s", name, key, got[key], want[key])
			}
		}
	}
}

// DeiT, table 9, for a new model; MAE, table 9, for a pretrained one. The rates are those of FineTuning's
// documentation.
func TestDefaultRecipes_AreDeiTsAndMAEs(t *testing.T) {
	scratch := gomlxtest.Must(Named("scratch"))(t)
	want := gomlxtest.Must(scratch.Set("optimizer.weight_decay=0.05;smoothing=0.1;model.drop_path=0.1;" +
		"learning_rate=5e-4;model.patch_size=16;model.width=384;model.depth=12;model.heads=6;augment.size=[224,224];" +
		"augment.flip_prob=0.5;augment.mean=[0.485,0.456,0.406];augment.std=[0.229,0.224,0.225]"))(t)
	if !reflect.DeepEqual(scratch, want) {
		t.Errorf("from scratch %+v, want %+v", scratch, want)
	}
	for width, rate := range map[int]float64{192: 1e-3, 384: 5e-4, 768: 2.5e-4, 1024: 1.875e-4} {
		got := FineTuning(vit.Config{Width: width, ImageRows: 32, ImageCols: 48, Position: "rope-axial"}, 50_000)
		want := gomlxtest.Must(got.Set("optimizer.weight_decay=0.05;optimizer.layer_decay=0.75;smoothing=0.1;" +
			"augment.flip_prob=0.5;augment.size=[32,48];model.position=rope-axial"))(t)
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
		{"late_mixup_alpha=0.3", "none", "late_from"}, {"late_mixup_alpha=0.3;late_from=1", "none", ""},
		{"augment.erase_noise=true", "none", "augment.erase_prob"}, {"augment.erase_noise=false", "none", ""},
		{"augment.erase_scale=[0.1,0.2]", "none", "augment.erase_prob"},
		{"augment.erase_noise=true;augment.erase_prob=0.25", "none", ""},
		{"augment.crop_ratio=[0.5,2]", "none", "augment.crop_scale"},
		{"augment.crop_ratio=[0.5,2];augment.crop_scale=[0.5,1]", "none", ""},
		{"augment.mix_prob=0.5", "none", "augment.mixup_alpha or augment.cutmix_alpha"},
		{"augment.mix_prob=0.5;augment.cutmix_alpha=1", "none", ""},
		{"augment.switch_prob=0.5;augment.cutmix_alpha=1", "none", "augment.mixup_alpha and augment.cutmix_alpha"},
		{"augment.switch_prob=0.5;augment.cutmix_alpha=1;augment.mixup_alpha=1", "none", ""},
		{"optimizer.beta2=0.99;optimizer.kind=sgd", "none", "optimizer.kind adamw or lamb"},
		{"optimizer.beta2=0.99;optimizer.kind=lamb", "none", ""},
	} {
		err := gomlxtest.Must(tiny().Set(c.settings))(t).Unread(c.settings, strings.Fields(c.positions)...)
		if c.want != "" {
			refused(t, c.settings, err, c.want)
		} else if err != nil {
			t.Errorf("%s with %s: %v", c.settings, c.positions, err)
		}
	}
}
