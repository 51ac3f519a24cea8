// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/vit"
)

func TestSet_ChangesTheFieldItNames(t *testing.T) {
	start := func() Recipe {
		r := everything()
		r.Params = map[string]any{"wepe_mode": "paper"}
		r.Optimizer.LearningRates = map[string]float64{"head": 2}
		return r
	}
	for settings, change := range map[string]func(*Recipe){
		"":                                      func(*Recipe) {},
		" epochs = 7 ;; batch_size=11;epochs=8": func(r *Recipe) { r.Epochs, r.BatchSize = 8, 11 }, // the last one wins
		"optimizer.learning_rates.position=0.5": func(r *Recipe) { r.Optimizer.LearningRates["position"] = 0.5 },
		"model.width=64;model.position=learned": func(r *Recipe) { r.Model.Width, r.Model.Position = 64, "learned" },
		"wepe_mode=release;rope_theta=20": func(r *Recipe) {
			r.Params["wepe_mode"], r.Params["rope_theta"] = "release", 20.0
		},
		"params.wepe_learn_lattice=false":      func(r *Recipe) { r.Params["wepe_learn_lattice"] = false },
		"mixup_switch_epoch=3;val_fraction=-1": func(r *Recipe) { r.MixupSwitchEpoch, r.ValFraction = 3, -1 },
	} {
		want, from := start(), start()
		change(&want)
		got, err := from.Set(settings)
		gomlxtest.NoError(t, err)
		is.Equal(t, settings, got, want)
		is.Equal(t, "the recipe before "+settings, from, start())
	}
}

func TestSet_RefusesInOneLineThatHasTheSetting(t *testing.T) {
	for _, settings := range []string{"epochs", "=3", "epoch=3", "optimizer.decay=1", "model.posision=wepe",
		"nothing.width=1", "model.width.x=1", "epochs=three", "epochs=3.5", "epochs=null", "name=5",
		"optimizer.decay_all=1", "optimizer.learning_rates.head=", "model=wepe", "augment.size=24", "learning_rate=nan",
		"model.width=1e400", "augment.mean=[0.5]", "augment.size=[4,6,3]"} {
		is.Refused(t, settings, is.ErrorOf(tiny().Set("batch_size=5;"+settings)), "finetune: ", settings)
	}
	// 0 would be the default of these, in whatever form; of steps and epochs one has none.
	for name, settings := range map[string]string{"optimizer.epsilon": "optimizer.epsilon=0",
		"model.epsilon": "Model.Epsilon=0", "optimizer.beta1": `optimizer={"beta1":0}`,
		"optimizer.beta2": "OPTIMIZER.BETA2=0", "eval_every_epochs": "eval_every_epochs=0",
		"eval_every_steps": "steps=9;eval_every_steps=0", "grad_accum_steps": "grad_accum_steps=0",
		"eval_batch_size": "eval_batch_size=0", "optimizer.momentum": "optimizer.name=sgd;optimizer.momentum=0",
		"augment.mix_prob": "augment.mix_prob=0"} {
		is.Refused(t, settings, is.ErrorOf(tiny().Set(settings)), "finetune: "+name+" = 0")
	}
	for _, settings := range []string{"steps=9;eval_every_epochs=0", "eval_every_steps=0",
		"grad_accum_steps=0;grad_accum_steps=2"} {
		gomlxtest.NoError(t, is.ErrorOf(tiny().Set(settings)))
	}
	for settings, ok := range map[string]bool{"": false, ";lora=2": true,
		";lora=2;freeze=lora,head,position,gate": false} {
		r := gomlxtest.Must(tiny().Set("freeze=backbone,position,gate,head" + settings))(t)
		r.Model.ImageRows, r.Model.ImageCols, r.Model.Classes = 4, 6, 7
		is.Equal(t, "all groups frozen"+settings, is.ErrorOf(r.Resolve()) == nil, ok)
	}
}

// Fields of a later version are copied from the pretrained model too, instead of keeping their defaults.
func TestAdopt_CopiesEveryField(t *testing.T) {
	gomlxtest.OnGo(t)
	source := &initialModel{Path: "other", Model: tiny().Model}
	fields := reflect.ValueOf(&source.Model).Elem()
	for field := range fields.Type().Fields() {
		switch value := fields.FieldByIndex(field.Index); value.Kind() {
		case reflect.Bool:
			value.SetBool(true)
		case reflect.String:
			value.SetString("of " + field.Name)
		case reflect.Float64:
			value.SetFloat(0.125)
		case reflect.Int:
			value.SetInt(7)
		}
	}
	source.Model.Position = "learned"
	run := Recipe{Model: vit.Config{Position: "none", DropPath: 0.25}}
	got := gomlxtest.Must(run.adopt(source))(t)
	want := source.Model
	want.ImageRows, want.ImageCols, want.Classes, want.Position, want.DropPath = 0, 0, 0, "none", 0.25
	want.Dropout, want.AttentionDropout, want.Init, want.DType, want.Recompute = 0, 0, "", "", false
	is.Equal(t, "model", got.Model, want)
	run.Model.Activation = "relu"
	is.Refused(t, "another activation", is.ErrorOf(run.adopt(source)),
		"activation is relu, but of Activation in checkpoint other")
}

// A recipe has numbers for at most three channels.
func TestNewSource_NormalizesUpToThreeChannels(t *testing.T) {
	for n, want := range map[int][2][3]float64{0: {}, 1: {{0.1}, {0.5}}, 3: {{0.1, 0.2, 0.3}, {0.5, 0.6, 0.7}}, 4: {}} {
		s := newSource("other", &checkpoints.Imported{Config: tiny().Model, Mean: []float64{0.1, 0.2, 0.3, 0.4}[:n],
			Std: []float64{0.5, 0.6, 0.7, 0.8}[:n]}, nil)
		is.Equal(t, fmt.Sprint(n, " channels"), [2][3]float64{s.Mean, s.Std}, want)
	}
}

func TestRecipe_NumbersHaveRanges(t *testing.T) {
	const steps = "epochs=0;warmup_epochs=0;eval_every_epochs=0;"
	for _, c := range []struct{ before, name, valid, invalid string }{
		{steps + "eval_every_steps=1;", "steps", "1 1000000000", "-1 1000000001"},
		{"", "epochs", "1 1000000", "0 -1 1000001"}, {"steps=10;", "epochs", "", "3"},
		{"", "batch_size", "1 1000000", "0 -1 1000001"}, {"", "grad_accum_steps", "1 2 3 6", "-1 4 12"},
		{"", "learning_rate", "1e-9 999.9", "0 -1 1000"},
		{"", "warmup_epochs", "0 3", "-0.1 3.1"}, {"epochs=0;steps=10;", "warmup_epochs", "", "1"},
		{steps + "steps=7;eval_every_steps=1;", "warmup_steps", "0 7", "-1 8"}, {"", "warmup_steps", "0", "5"},
		{"", "label_smoothing", "0 0.99", "-0.01 1"}, {"", "ema_decay", "0 0.9999", "-0.1 1"},
		{"augment.mixup_alpha=0.1;mixup_switch_epoch=1;", "late_mixup_alpha", "0.01", "0 -1"},
		{"mixup_switch_epoch=1;", "late_mixup_alpha", "", "1"},
		{"", "eval_every_epochs", "1 99", "-1"}, {"epochs=0;warmup_epochs=0;steps=10;", "eval_every_epochs", "0", "2"},
		{steps + "steps=7;", "eval_every_steps", "1 99", "-1"}, {"", "eval_every_steps", "0", "2"},
		{"", "eval_batch_size", "1 1000000", "-1 1000001"}, {"", "val_fraction", "-1 0.5 0.99", "1 2"},
		{"", "patience", "0 9", "-1"}, {"", "lora", "0 1 10000", "-1 10001"}, {"lora_mlp=true;", "lora", "1", "0"},
		{"", "optimizer.beta1", "0.99", "1 -0.1"}, {"", "optimizer.beta2", "0.99", "1 -0.1"},
		{"", "optimizer.weight_decay", "0 99", "-1 100"}, {"", "optimizer.clip_norm", "0 1e9", "-1"},
		{"", "optimizer.layer_decay", "0 0.99", "-0.1 1"},
		{"optimizer.name=sgd;optimizer.weight_decay=0;", "optimizer.momentum", "0.9", "-1 1"},
	} {
		of := func(value string) error {
			r, _ := gomlxtest.Must(tiny().Set(c.before + c.name + "=" + value))(t).Resolve()
			return r.validateNumbers()
		}
		for _, value := range strings.Fields(c.valid) {
			is.Equal(t, c.before+c.name+"="+value, of(value), nil)
		}
		for _, value := range strings.Fields(c.invalid) {
			var wrong *setting.RangeError
			if err := of(value); !errors.As(err, &wrong) || wrong.Field != c.name {
				t.Errorf("%s%s=%s: %v", c.before, c.name, value, err)
			}
		}
	}
	for _, value := range []float64{math.NaN(), math.Inf(1)} { // not representable in JSON
		for _, r := range []Recipe{{EMADecay: value}, {LearningRate: value}, {Optimizer: engine.Optimizer{ClipNorm: value}}} {
			is.Refused(t, fmt.Sprint(value), r.validateNumbers())
		}
	}
}

func TestAdopt_KeepsTheTrainingGrid(t *testing.T) {
	gomlxtest.OnGo(t)
	source := &initialModel{Model: tiny().Model, Params: map[string]any{"rope_theta": 50.0}}
	source.Model.Position, source.Model.ImageRows, source.Model.ImageCols = "as2drope", 10, 6
	kept, other := tiny(), tiny()
	kept.Model.Position, other.Model.Position = "as2drope", "learned"
	kept = gomlxtest.Must(kept.adopt(source))(t)
	is.Equal(t, "the run has", kept.Params, map[string]any{"rope_theta": 50.0, "as2drope_base_rows": 5})
	other = gomlxtest.Must(other.adopt(source))(t)
	is.Equal(t, "a run with an encoding of its own has", other.Params, nil)
	// A source that was itself fine-tuned passes on the origin of its own source.
	source.Params["as2drope_base_rows"] = 7.0
	kept = gomlxtest.Must(gomlxtest.Must(tiny().Set("model.position=as2drope"))(t).adopt(source))(t)
	is.Equal(t, "rows", kept.Params["as2drope_base_rows"], 7.0)
	kept.Params["as2drope_base_rows"] = 3
	is.Refused(t, "another grid", is.ErrorOf(kept.adopt(source)), "as2drope_base_rows is 3, but 7")
	zero := map[string]any{"as2drope_base_rows": 0.0}
	source.imported, source.Params, kept.Params = &checkpoints.Imported{}, zero, zero
	is.Equal[any](t, "0", gomlxtest.Must(kept.adopt(source))(t).Params["as2drope_base_rows"], 5)
	source.imported, source.Params = nil, map[string]any{"as2drope_base_rows": 7} // its own run, resumed
	kept.Params = map[string]any{"as2drope_base_rows": 0}
	is.Equal[any](t, "0, resumed", gomlxtest.Must(kept.adopt(source))(t).Params["as2drope_base_rows"], 7)
}

func TestRecipe_SurvivesItsFile(t *testing.T) {
	for _, name := range RecipeNames() {
		want := gomlxtest.Must(RecipeByName(name))(t)
		want, _ = want.Resolve() // the data complete it
		var got Recipe
		gomlxtest.NoError(t, json.Unmarshal(gomlxtest.Must(json.Marshal(want))(t), &got))
		is.Equal(t, name, got, want)
	}
	var unknown *setting.UnknownError
	_, err := RecipeByName("nothing")
	is.Equal(t, "refused", errors.As(err, &unknown) && slices.Equal(unknown.Names, RecipeNames()), true)
}

// Every recipe can be trained: on CIFAR-100 with its own model, or with the one it is for.
func TestNamed_FitsItsModel(t *testing.T) {
	for _, name := range RecipeNames() {
		r := gomlxtest.Must(RecipeByName(name))(t)
		if r.Model.Width == 0 {
			model := gomlxtest.Must(vit.Variant("B/16"))(t)
			if strings.HasPrefix(name, "demo-") {
				model = gomlxtest.Must(RecipeByName("demo-pretrain"))(t).Model
				model.ImageRows, model.ImageCols, model.Classes = 24, 24, 100
			}
			model.Position = "learned"
			r.Model.Position = "hybrid"
			source := &initialModel{Path: "pretrained", Model: model, Mean: [3]float64{0.5, 0.5, 0.5},
				Std: [3]float64{0.5, 0.5, 0.5}}
			r = gomlxtest.Must(r.adopt(source))(t)
		}
		gomlxtest.Must(r.fit(cifar100.Describe()))(t)
		is.Equal(t, name+" has no mean", r.Augment.Mean == [3]float64{}, name == "shapes")
	}
}

// Parameters were counted on the released models (W_Ti.py and dhvt_wef_experiment.py at commit 3c27aecdfd06); rates and
// the logit of the initial λ are from the fine-tuning scripts there.
func TestNamed_HasTheParametersAndRatesOfTheScripts(t *testing.T) {
	for name, want := range map[string]int{"release-cifar100-120": 5_507_815, "release-dhvt-300": 8_234_265} {
		r := gomlxtest.Must(gomlxtest.Must(RecipeByName(name))(t).fit(cifar100.Describe()))(t)
		net := gomlxtest.Must(networkOf(r.Architecture, r.Model))(t)
		got := weight.Count(func(scope *model.Scope, images *graph.Node) *graph.Node {
			scope.SetParams(r.Params)
			return net.Logits(scope, images)
		}, 224, 224, 3)
		is.Equal(t, "parameters of "+name, got, want)
	}
	for _, c := range []struct {
		recipe string
		rates  [4]float64 // of backbone, encoding, head and gate
		gate   float64    // 0 for λ = 1
	}{
		{"release-cifar100-pretrained", [4]float64{4e-5, 6.4e-4, 8e-4, 8e-4}, 0},
		{"paper-cifar100-384", [4]float64{4e-5, 6.4e-4, 8e-4, 8e-4}, 0.5},
		{"release-svhn", [4]float64{2e-5, 2e-4, 3e-4, 3e-4}, 0.5},
		{"release-dmlab", [4]float64{1.2e-5, 1.8e-4, 3e-4, 3e-4}, 0.6},
		{"release-resisc45", [4]float64{1.5e-5, 1.8e-4, 2.7e-4, 2.7e-4}, 0.6},
	} {
		r := gomlxtest.Must(RecipeByName(c.recipe))(t)
		check := func(what string, got, want float64) { is.Near(t, c.recipe+": "+what, got, want, 1e-6*want) }
		for i, variable := range []string{"/vit/block_03/norm1/gain", "/vit/position/surrogate/scale",
			"/vit/head/weights", "/vit/position/gate_raw"} {
			check(variable, r.LearningRate*r.Optimizer.Factor(variable, 12), c.rates[i])
		}
		if c.gate > 0 {
			check("λ", r.Params["wepe_gate"].(float64), 1/(1+math.Exp(-c.gate)))
		}
	}
}

// FuzzSet: settings give a one-line error, or a recipe that is unchanged after saving and after setting them again.
func FuzzSet(f *testing.F) {
	seeds := []string{"epochs=7;epochs=8", "model.width=64;model.drop_path=0.3", "augment.size=[24,36];name=mine",
		"optimizer.learning_rates.position=0.5", `optimizer={"clip_norm":2,"beta1":0}`,
		"wepe_mode=release;rope_theta=20", "params.wepe_learn_lattice=false", "batch_size=null",
		"model.width.x=1", "a=b=c;;", "model.width=1e400"}
	campaign.Fuzz(f, seeds, func(t *testing.T, settings string) {
		start := everything()
		start.Params = map[string]any{"wepe_mode": "paper"}
		got, err := start.Set(settings)
		is.Equal(t, "the recipe it starts from", start.Params, map[string]any{"wepe_mode": "paper"})
		if err != nil {
			if strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "finetune: ") {
				t.Errorf("%q", err)
			}
			return
		}
		is.Equal(t, "set twice", gomlxtest.Must(got.Set(settings))(t), got)
	})
}

// DeiT, table 9, for a new model; MAE, table 9, for a pretrained one. The rates are those of FineTuning's
// documentation.
func TestDefaultRecipes_AreDeiTsAndMAEs(t *testing.T) {
	scratch := gomlxtest.Must(RecipeByName("scratch"))(t)
	want := gomlxtest.Must(scratch.Set("optimizer.weight_decay=0.05;label_smoothing=0.1;model.drop_path=0.1;" +
		"learning_rate=5e-4;model.patch_size=16;model.width=384;model.depth=12;model.num_heads=6;augment.size=[224,224];" +
		"augment.hflip=0.5;augment.mean=[0.485,0.456,0.406];augment.std=[0.229,0.224,0.225]"))(t)
	is.Equal(t, "from scratch", scratch, want)
	for width, rate := range map[int]float64{192: 1e-3, 384: 5e-4, 768: 2.5e-4, 1024: 1.875e-4} {
		got := FineTuning(vit.Config{Width: width, ImageRows: 32, ImageCols: 48, Position: "rope-axial"}, 50_000)
		want := gomlxtest.Must(got.Set("optimizer.weight_decay=0.05;optimizer.layer_decay=0.75;label_smoothing=0.1;" +
			"augment.hflip=0.5;augment.size=[32,48];model.position=rope-axial"))(t)
		if want.LearningRate = rate; math.Abs(got.LearningRate-rate) < 1e-12 {
			want.LearningRate = got.LearningRate
		}
		is.Equal(t, fmt.Sprint("width ", width), got, want)
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
		is.Equal(t, fmt.Sprint(images, " images: epochs from scratch, from Ti and from B, a batch"), got, want)
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
		{`optimizer={"EPSILON":0.1,"name":"sgd"}`, "none", "optimizer.name adamw or lamb"},
		{"optimizer.decay_all=true;optimizer.weight_decay=0", "none", "optimizer.weight_decay"},
		{"optimizer.decay_all=true;optimizer.weight_decay=0.1", "none", ""},
		{"optimizer.learning_rates.gate=3", "learned wepe", "position learned, wepe"},
		{"optimizer.learning_rates.gate=3", "hybrid wepe", ""}, {"optimizer.learning_rates.table=3", "learned wepe", ""},
		{`optimizer.learning_rates={"table":3}`, "none", "position none"},
		{"optimizer.learning_rates.head=3;freeze=head", "none", "freeze that trains head"},
		{"optimizer.learning_rates.weights=3;freeze=backbone,gate", "none", "freeze that trains weights"},
		{"optimizer.learning_rates.head=3;freeze=backbone", "none", ""},
		{"optimizer.learning_rates.lora=3", "none", "lora"}, {"optimizer.learning_rates.lora=3;lora=2", "none", ""},
		{"optimizer.learning_rates.vectors=3;lora=2", "none", "lora=0"},
		{"optimizer.layer_decay=0.7;lora=2", "none", "trains the backbone"}, {"optimizer.layer_decay=0.7", "none", ""},
	} {
		err := gomlxtest.Must(tiny().Set(c.settings))(t).UnusedSetting(c.settings, strings.Fields(c.positions)...)
		if c.want == "" {
			gomlxtest.NoError(t, err)
		} else {
			is.Refused(t, c.settings, err, c.want)
		}
	}
}
