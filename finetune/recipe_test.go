// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
)

func TestSetChangesTheFieldItNamesAndNoOther(t *testing.T) {
	start := func() Recipe {
		r := everything()
		r.Params = map[string]any{"wepe_mode": "paper"}
		r.Optimizer.LearningRates = map[string]float64{GroupHead: 2}
		return r
	}
	for settings, change := range map[string]func(*Recipe){
		"":                                        func(*Recipe) {},
		"epochs=7":                                func(r *Recipe) { r.Epochs = 7 },
		" epochs = 7 ;; batch_size=11;":           func(r *Recipe) { r.Epochs, r.BatchSize = 7, 11 },
		"epochs=7;epochs=8":                       func(r *Recipe) { r.Epochs = 8 }, // the last one wins
		"learning_rate=1e-4":                      func(r *Recipe) { r.LearningRate = 1e-4 },
		"ema=0":                                   func(r *Recipe) { r.EMA = 0 },
		"optimizer.weight_decay=0.3":              func(r *Recipe) { r.Optimizer.WeightDecay = 0.3 },
		"optimizer.decay_all=true":                func(r *Recipe) { r.Optimizer.DecayAll = true },
		"optimizer.learning_rates.position=0.5":   func(r *Recipe) { r.Optimizer.LearningRates[GroupPosition] = 0.5 },
		"model.position=learned":                  func(r *Recipe) { r.Model.Position = "learned" },
		`model.position="learned"`:                func(r *Recipe) { r.Model.Position = "learned" },
		"model.width=64;model.drop_path=0.3":      func(r *Recipe) { r.Model.Width, r.Model.DropPath = 64, 0.3 },
		"augment.size=[24,36]":                    func(r *Recipe) { r.Augment.Size = [2]int{24, 36} },
		"augment.mixup_alpha=0;augment.cutout=3":  func(r *Recipe) { r.Augment.MixupAlpha, r.Augment.Cutout = 0, 3 },
		"wepe_mode=release":                       func(r *Recipe) { r.Params["wepe_mode"] = "release" },
		"wepe_alpha_scale=0.2":                    func(r *Recipe) { r.Params["wepe_alpha_scale"] = 0.2 },
		"rope_theta=20":                           func(r *Recipe) { r.Params["rope_theta"] = 20.0 },
		"fope_learn=true":                         func(r *Recipe) { r.Params["fope_learn"] = true },
		"params.wepe_learn_lattice=false":         func(r *Recipe) { r.Params["wepe_learn_lattice"] = false },
		"name=mine":                               func(r *Recipe) { r.Name = "mine" },
		"late_from=3;late_mixup_alpha=1":          func(r *Recipe) { r.LateFrom, r.LateMixupAlpha = 3, 1 },
		"validation_part=-1":                      func(r *Recipe) { r.ValidationPart = -1 },
		"optimizer={\"clip_norm\":2,\"beta1\":0}": func(r *Recipe) { r.Optimizer.ClipNorm = 2 },
	} {
		want, from := start(), start()
		change(&want)
		got, err := from.Set(settings)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v, want %+v", settings, got, err, want)
		}
		if !reflect.DeepEqual(from, start()) {
			t.Errorf("%q changes the recipe it starts from", settings)
		}
	}
}

func TestSetRefusesWhatItDoesNotUnderstandInOneLine(t *testing.T) {
	for settings, want := range map[string]string{
		"epochs":                         `"epochs" is not of the form key=value`,
		"=3":                             `"=3" is not of the form key=value`,
		"epoch=3":                        "batch_size",   // what there is
		"optimizer.decay=1":              "weight_decay", // there
		"augment.mixup=1":                "mixup_alpha",  // there
		"model.posision=wepe":            "position",     // there
		"nothing.width=1":                "no such field",
		"model.width.x=1":                "want int",
		"epochs=three":                   "want int",
		"epochs=3.5":                     "number 3.5",
		"epochs=null":                    "want int",
		"name=5":                         "want string",
		"optimizer.decay_all=1":          "want bool",
		"optimizer.learning_rates.head=": "want float64",
		"model=wepe":                     "want vit.Config",
		"augment.size=24":                "want [2]int",
		"model.width=1e400":              "number 1e400",
	} {
		_, err := tiny().Set("batch_size=5;" + settings)
		refused(t, settings, err, want, "finetune: ", settings)
	}
}

func TestARunThatKeepsItsSourcesEncodingKeepsTheGridItWasTrainedOn(t *testing.T) {
	source := &Source{Model: tiny().Model, Params: map[string]any{"rope_theta": 50.0}}
	source.Model.Position, source.Model.ImageRows, source.Model.ImageCols = "as2drope", 10, 6
	kept, other := tiny(), tiny()
	kept.Model.Position, other.Model.Position = "as2drope", "learned"
	kept, err := kept.adopt(source)
	want := map[string]any{"rope_theta": 50.0, "as2drope_base_rows": 5}
	if err != nil || !reflect.DeepEqual(kept.Params, want) {
		t.Errorf("the run has %v, %v, want %v", kept.Params, err, want)
	}
	if other, err = other.adopt(source); err != nil || other.Params != nil {
		t.Errorf("a run with an encoding of its own has %v, %v", other.Params, err)
	}
	// A source that was itself trained on from another one hands on what that one was trained on.
	source.Params["as2drope_base_rows"] = 7.0
	if kept, err = tiny().Set("model.position=as2drope"); err == nil {
		kept, err = kept.adopt(source)
	}
	if err != nil || kept.Params["as2drope_base_rows"] != 7.0 {
		t.Errorf("the run has %v, %v, want 7 rows", kept.Params, err)
	}
	kept.Params["as2drope_base_rows"] = 3
	if _, err = kept.adopt(source); err == nil || !strings.Contains(err.Error(), "as2drope_base_rows is 3, but 7") {
		t.Errorf("another grid: %v", err)
	}
}

func TestARecipeSurvivesItsFile(t *testing.T) {
	for _, name := range Names() {
		want := gomlxtest.Must(Named(name))(t)
		want = want.WithDefaults()
		encoded := gomlxtest.Must(json.Marshal(want))(t)
		var got Recipe
		if err := json.Unmarshal(encoded, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: read back as %+v, %v, want %+v", name, got, err, want)
		}
	}
	if _, err := Named("nothing"); err == nil || !strings.Contains(err.Error(), strings.Join(Names(), ", ")) {
		t.Errorf("an unknown recipe: %v", err)
	}
}

// Every number is that of W_Ti.py at commit 3c27aecdfd06 of the released code.
func TestTheReleaseRecipeHasTheNumbersOfTheRelease(t *testing.T) {
	recipe := onCIFAR100(t, "release-cifar100-120")
	m, o, a := recipe.Model, recipe.Optimizer, recipe.Augment
	early, late := recipe.augmentation(14), recipe.augmentation(15)
	same(t, []compared{
		{"epochs", recipe.Epochs, 120},
		{"batch", recipe.BatchSize, 160},
		{"parts of a batch", recipe.Accumulate, 1},
		{"steps an epoch, drop_last", 50_000 / recipe.BatchSize, 312},
		{"peak learning rate", recipe.LearningRate, 1.5e-3},
		{"warm-up epochs", recipe.WarmupEpochs, 15.0},
		{"betas", [2]float64{o.Beta1, o.Beta2}, [2]float64{0.9, 0.999}},
		{"epsilon of AdamW", o.Epsilon, 1e-8},
		{"weight decay", o.WeightDecay, 0.03},
		{"decay of all parameters", o.DecayAll, true},
		{"clip", o.ClipNorm, 0.8},
		{"learning rate of groups", len(o.LearningRates), 0},
		{"label smoothing", recipe.Smoothing, 0.08},
		{"average", recipe.EMA, 0.0},
		{"trained on every image", recipe.ValidationPart < 0, true},
		{"image", [2]int{m.ImageRows, m.ImageCols}, [2]int{224, 224}},
		{"patch", m.PatchSize, 16},
		{"width, depth, heads, MLP", [4]int{m.Width, m.Depth, m.Heads, m.MLPDim}, [4]int{192, 12, 3, 4 * 192}},
		{"pool", m.Pool, vit.PoolClass},
		{"LayerNorm after the patches", m.PatchNorm, true},
		{"epsilon of LayerNorm", m.Epsilon, 1e-5},
		{"dropout", m.Dropout, 0.05},
		{"attention dropout", m.AttentionDropout, 0.05},
		{"drop path", m.DropPath, 0.05},
		{"initialisation", m.Init, vit.InitRelease},
		{"mixed precision", m.DType, "bfloat16"},
		{"position", m.Position, "wepe"},
		{"mode", recipe.Params["wepe_mode"], "release"},
		{"parameters", m.Parameters(), 5_507_815},
		{"padding of the random crop", a.Pad, 4},
		{"flip", a.FlipProb, 0.5},
		{"resize", a.Size, [2]int{224, 224}},
		{"cutout", a.Cutout, 12},
		{"mean", a.Mean, [3]float64{0.5071, 0.4865, 0.4409}},
		{"std", a.Std, [3]float64{0.2673, 0.2564, 0.2762}},
		{"mixup probability", a.MixProb, 0.6},
		{"cutmix", a.CutmixAlpha, 0.0},
		{"mixup alpha before epoch 15", early.MixupAlpha, 0.15},
		{"mixup alpha from epoch 15", late.MixupAlpha, 0.3},
		{"mixup probability from epoch 15", late.MixProb, 0.6},
	})
}

// Every recipe can be trained: on CIFAR-100 with its own model, or with the one it is for.
func TestEveryRecipeFitsItsModel(t *testing.T) {
	for _, name := range Names() {
		r := gomlxtest.Must(Named(name))(t)
		if r.Model.Width == 0 {
			model, err := vit.Variant("B/16")
			if strings.HasPrefix(name, "demo-") {
				var pre Recipe
				pre, err = Named("demo-pretrain")
				model = pre.Model
				model.ImageRows, model.ImageCols, model.Classes = 24, 24, 100
			}
			if err != nil {
				t.Fatal(err)
			}
			model.Position = "learned"
			r.Model.Position = "hybrid"
			source := &Source{Path: "pretrained", Model: model, Mean: [3]float64{0.5, 0.5, 0.5}, Std: [3]float64{0.5, 0.5, 0.5}}
			if r, err = r.adopt(source); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
		}
		if _, err := r.fit(cifar100); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if unnamed := r.Augment.Mean == [3]float64{}; unnamed != (name == "shapes") {
			t.Errorf("%s: mean %v", name, r.Augment.Mean)
		}
	}
}

// The numbers are those of table 4 and B.1.1 of https://arxiv.org/abs/2010.11929 and of the code beside it.
func TestDosovitskiysRecipesHaveTheNumbersOfThePaper(t *testing.T) {
	for name, want := range map[string]struct {
		steps int
		rate  float64
	}{"dosovitskiy-vtab": {2500, 0.01}, "dosovitskiy-cifar100": {10_000, 0.03}} {
		r := gomlxtest.Must(Named(name))(t)
		o := r.WithDefaults().Optimizer
		if r.Steps != want.steps || r.Epochs != 0 || r.LearningRate != want.rate || r.WarmupSteps != 500 ||
			r.BatchSize != 512 || o.Kind != SGD || o.Momentum != 0.9 || o.WeightDecay != 0 || o.ClipNorm != 1 || !r.ZeroHead ||
			r.Augment.Size != [2]int{384, 384} || r.Model.Dropout != 0 || r.Smoothing != 0 || r.EMA != 0 || o.LayerDecay != 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// Learning rates of backbone, WePE, head and gate in the released scripts at commit 3c27aecdfd06.
func TestTheRecipesOfFineTuningHaveTheNumbersOfTheRelease(t *testing.T) {
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	for name, want := range map[string]struct {
		epochs, batch            int
		warmup, decay, smoothing float64
		rates                    [4]float64
		gate                     float64 // initial λ
		size                     int
	}{
		"release-cifar100-pretrained": {35, 20, 8, 0.05, 0.1, [4]float64{4e-5, 6.4e-4, 8e-4, 8e-4}, 1, 224},
		"paper-cifar100-384":          {35, 20, 8, 0.05, 0.1, [4]float64{4e-5, 6.4e-4, 8e-4, 8e-4}, sigmoid(0.5), 384},
		"release-svhn":                {100, 16, 10, 0.02, 0.1, [4]float64{2e-5, 2e-4, 3e-4, 3e-4}, sigmoid(0.5), 384},
		"release-dmlab":               {120, 12, 15, 0.025, 0.15, [4]float64{1.2e-5, 1.8e-4, 3e-4, 3e-4}, sigmoid(0.6), 384},
		"release-resisc45": {120, 12, 15, 0.08, 0.15, [4]float64{1.5e-5, 1.8e-4, 2.7e-4, 2.7e-4}, sigmoid(0.6),
			384},
	} {
		r := gomlxtest.Must(Named(name))(t)
		near := func(what string, got, want float64) {
			if math.Abs(got-want) > 1e-6*want {
				t.Errorf("%s: %s is %g, want %g", name, what, got, want)
			}
		}
		near("epochs", float64(r.Epochs), float64(want.epochs))
		near("batch", float64(r.BatchSize), float64(want.batch))
		near("warm-up", r.WarmupEpochs, want.warmup)
		near("weight decay", r.Optimizer.WeightDecay, want.decay)
		near("smoothing", r.Smoothing, want.smoothing)
		near("clip", r.Optimizer.ClipNorm, 1)
		near("size", float64(r.Augment.Size[0]), float64(want.size))
		near("gate", r.Params["wepe_gate"].(float64), want.gate)
		for i, variable := range []string{"/vit/block_03/norm1/gain", "/vit/position/surrogate/scale", "/vit/head/weights",
			"/vit/position/gate_raw"} {
			near(variable, r.LearningRate*r.Optimizer.factor(variable, 12), want.rates[i])
		}
		if !r.Optimizer.DecayAll || r.Optimizer.Kind == SGD || r.Resample != "bilinear" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
