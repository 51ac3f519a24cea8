// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/loss"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

func TestAccumulate_IsOneStepOnTheWholeBatch(t *testing.T) {
	for _, clip := range gomlxtest.InTurn(1, 0, 0.5) { // without clipping the size of the gradient matters, too
		after := func(accumulate int) map[string][]float64 {
			// A large ε: with the default, Adam amplifies rounding errors of zero gradients (key biases).
			trainer := begun(t, tinyRun(t, fmt.Sprintf("optimizer.epsilon=0.1;optimizer.clip_norm=%g;grad_accum_steps=%d",
				clip, accumulate), 30))
			advanced(t, trainer, 7)
			return trainer.model.weights(t, "")
		}
		want := after(1)
		for _, parts := range gomlxtest.InTurn(1, 2, 3) {
			for path, got := range after(parts) {
				gomlxtest.NearAbs(t, fmt.Sprintf("clip %g, %d parts: %s", clip, parts, path), got, want[path], 1e-6)
			}
		}
	}
}

func TestRow_TrainLossIsTheMeanSinceTheRowBefore(t *testing.T) {
	gomlxtest.OnGo(t)
	// Rows after epochs 2 and 3 of 3, of 4 steps each.
	trainer := begun(t, tinyRun(t, "eval_every_epochs=2;grad_accum_steps=2", 30))
	var rows []*report.Eval
	trainer.Training.Progress = func(p engine.Progress) {
		if p.Eval != nil {
			rows = append(rows, p.Eval)
		}
	}
	var losses []float64
	for trainer.Step() < trainer.Steps {
		gomlxtest.NoError(t, trainer.Advance())
		losses = append(losses, gomlxtest.Must(trainer.Loss())(t))
	}
	is.Equal(t, "rows", len(rows), 2)
	is.Equal(t, "steps", [2]int{rows[0].Step, rows[1].Step}, [2]int{8, 12})
	is.Near(t, "until epoch 2", float64(rows[0].TrainLoss), stat.Mean(losses[:8], nil), 1e-12)
	is.Near(t, "until epoch 3", float64(rows[1].TrainLoss), stat.Mean(losses[8:], nil), 1e-12)
}

func TestEMA_FollowsItsRecursion(t *testing.T) {
	for _, architecture := range gomlxtest.InTurn(0, "", DHVT) {
		run := tinyRun(t, "ema_decay=0.3", 30) // reached at step 4: min(0.3, (1+s)/(10+s))
		run.Recipe.Architecture = architecture
		trainer := begun(t, run)
		var want map[string][]float64
		for step := range 8 {
			advanced(t, trainer, 1)
			now := trainer.model.weights(t, "")
			if step == 0 {
				want = now // the average starts at the weights after the first step
			}
			decay := min(0.3, float64(1+step)/float64(10+step))
			for path, average := range trainer.model.weights(t, engine.AverageRoot) {
				for i := range average {
					if step > 0 {
						want[path][i] = decay*want[path][i] + (1-decay)*now[path][i]
					}
				}
				gomlxtest.NearAbs(t, fmt.Sprintf("step %d: %s", step, path), average, want[path], 1e-6)
			}
		}

		weights, average := trainer.model.weights(t, ""), trainer.model.weights(t, engine.AverageRoot)
		// Also untrained ones are averaged: the statistics of a batch normalization.
		is.Equal(t, architecture, slices.Sorted(maps.Keys(average)), slices.Sorted(maps.Keys(weights)))
		is.Equal(t, "weights and average are the same", reflect.DeepEqual(weights, average), false)
		for k, want := range [][2]map[string][]float64{{average, weights}, {weights, average}} {
			gomlxtest.NoError(t, trainer.model.swapAverages())
			now := [2]map[string][]float64{trainer.model.weights(t, ""), trainer.model.weights(t, engine.AverageRoot)}
			is.Equal(t, fmt.Sprintf("weights and averages after %d calls of swapAverages", k+1), now, want)
		}
	}
}

func TestRun_WarnsOfPatchesTooCloseForFloat32(t *testing.T) {
	gomlxtest.OnGo(t)
	for settings, want := range map[string]bool{"wepe_alpha_scale=100000": true, "wepe_alpha_scale=0.15": false} {
		run := tinyRun(t, "epochs=1;warmup_epochs=0.5;grad_accum_steps=2;freeze=backbone;model.position=wepe;"+settings, 30)
		var said strings.Builder
		run.Logger = gomlxtest.Logger(&said)
		done(t, run)
		if got := strings.Count(said.String(), "too close for float32"); got > 1 || (got == 1) != want {
			t.Errorf("%s: warned %d times: %s", settings, got, said.String())
		}
		frozen := strings.Count(said.String(), "training weights frozen (13 variables")
		is.Equal(t, "lines of the trained groups, of four steps of two micro-batches", frozen, 1)
	}
}

// refusals are settings that no run accepts, by what the error names.
var refusals = map[string][]string{
	"classes": {"model.classes=9"}, "image_rows": {"model.image_rows=8"},
	"patches": {"model.patch_size=3"}, "pad": {"augment.pad=-1"}, "loss": {"loss=mse", "loss=bce;label_smoothing=0.1"},
	"class_weights": {"class_weights=1,2", "class_weights=1,-2,3", "class_weights=1,x,3,4,5,6,7",
		"loss=bce;class_weights=balanced"},
	"validation split": {"val_fraction=0.999"}, "patience": {"patience=2;val_fraction=-1"},
	`"rope"`: {"model.position=rope"}, "width": {"model.position=sincos2d;model.width=14;model.num_heads=7"},
	`"papr"`: {"wepe_mode=papr"}, `"wepe_alfa_scale"`: {"wepe_alfa_scale=0.2"}, `"rope_teta"`: {"rope_teta=20"},
	"wepe_alpha_scale": {"wepe_alpha_scale=-1"}, "wepe_harmonics": {"wepe_harmonics=many"},
	"vit_width": {"params.vit_width=3"}, "as2drope_base_rows": {"model.position=as2drope;as2drope_base_rows=-1"},
	"optimizer.name": {"optimizer.name=lion"}, "optimizer.weight_decay": {"optimizer.name=sgd"},
	"optimizer.momentum": {"optimizer.momentum=0.9"}, `group "body"`: {"optimizer.learning_rates.body=2", "freeze=body"},
	`learning_rates["head"]`: {"optimizer.learning_rates.head=-1"},
	"left to train":          {"freeze=backbone,position,gate,head"}, "lora": {"lora=2"}, // from scratch
	`aspect "kept"`: {"aspect=kept"}, "patches of 2 pixels": {"aspect=keep"}, "interpolation": {"interpolation=best"},
	`grey16 "low"`: {"grey16=low"},
	"architecture": {"architecture=cnn"},
	`"learned"`:    {"architecture=dhvt;model.position=learned"},
}

func TestRun_RefusesInOneLineAndLeavesNothing(t *testing.T) {
	gomlxtest.OnGo(t)
	dir := filepath.Join(t.TempDir(), "run")
	check := func(run Run, words ...string) {
		t.Helper()
		run.Dir = dir
		is.Refused(t, words[0], run.fails(t), words[len(words)-1])
		left, _ := filepath.Glob(filepath.Join(dir, "[^.]*"))
		is.Equal(t, words[0]+": files that are left", left, nil)
	}
	for name, all := range refusals {
		for _, settings := range all {
			check(tinyRun(t, settings, 30), settings, name)
		}
	}
	eight := dataset(1, 1)
	eight.Classes = strings.Fields("a b c d e f g h")
	for name, change := range map[string]func(*Run){
		"batch_size":                          func(r *Run) { r.Train = dataset(6, 1) }, // 1 is split off
		"no images":                           func(r *Run) { r.Test = dataset(0, 1) },
		"label 7":                             func(r *Run) { r.Train.Describe().Labels[3] = 7 },
		"the model 7: use a dataset with the": func(r *Run) { r.Test = eight },
		"tiny has no model":                   func(r *Run) { r.Recipe.Model = vit.Config{} },
		"model.recompute": func(r *Run) {
			r.Recipe.Model.Recompute, r.Backend = true, named{r.Backend, "onnxruntime", ""}
		},
		"weights-less": func(r *Run) { r.From = filepath.Join(dir, "weights-less") },
	} {
		run := tinyRun(t, "", 30)
		change(&run)
		check(run, name)
	}
	from, _ := pretrained(t, "")
	for _, settings := range []string{"width=14", "depth=3", "num_heads=2", "mlp_dim=24", "patch_size=1", "channels=1",
		"epsilon=1e-5", "pool=mean", "patch_norm=true"} {
		field, _, _ := strings.Cut(settings, "=")
		check(tuned(t, from, "model.position=learned;model."+settings), "model's "+field)
	}
	dhvt := tinyRun(t, "architecture=dhvt;model.position=none", 30)
	dhvt.From = from
	check(dhvt, "architecture dhvt")
}

func TestRun_DivergedIsStoppedAndNotSaved(t *testing.T) {
	gomlxtest.OnGo(t)
	run := saved(t, tiny(), 40)
	trainer := begun(t, run)
	advanced(t, trainer, 1)
	diverge(t, trainer.model)
	var err error
	for trainer.Step() < trainer.Steps && err == nil {
		err = trainer.Advance()
	}
	is.Refused(t, "a model that diverged in the second step", err, "learning_rate", "about step 2:")
	is.Equal(t, "the error is ErrDiverged", errors.Is(err, engine.ErrDiverged), true)
	is.Equal(t, "a diverged state is saved", latest(t, run.Dir, checkpoints.LastDir), nil)
}

func TestSchedule_CountsOptimizerSteps(t *testing.T) {
	gomlxtest.OnGo(t)
	for name, c := range map[string]struct {
		settings              string
		images, steps, warmup int
		evaluated             []int
	}{
		// 31 images in batches of 6 are 5 steps an epoch and 20 in all; round(1.5·5) = 8 of them warm up.
		"epochs": {"epochs=4;warmup_epochs=1.5", 31, 20, 8, []int{5, 10, 15, 20}},
		// 9 images are one batch per epoch, drawn anew each time; an incomplete batch is dropped.
		"steps": {"epochs=0;warmup_epochs=0;steps=10;warmup_steps=4;eval_every_steps=3", 9, 10, 4, []int{3, 6, 9, 10}},
	} {
		trainer := begun(t, tinyRun(t, c.settings+";learning_rate=0.2;val_fraction=-1", c.images))
		batches, evaluated := map[string]bool{}, []int(nil)
		trainer.Training.Progress = func(p engine.Progress) {
			if p.Eval != nil {
				evaluated = append(evaluated, p.Step)
			}
		}
		for step := range c.steps {
			want := engine.Schedule{Peak: 0.2, Warmup: c.warmup, Steps: c.steps}.At(step)
			is.Equal(t, fmt.Sprintf("%s: rate at step %d", name, step), trainer.Optimizer.Schedule.At(step), want)
			advanced(t, trainer, 1)
			_, _, seen := trainer.order.At(step - step%trainer.PerPass)
			batch := slices.Clone(seen)
			slices.Sort(batch)
			batches[fmt.Sprint(batch)] = true
		}
		is.Equal(t, name, trainer.Step(), trainer.Steps)
		is.Equal(t, name+": evaluated after", evaluated, c.evaluated)
		is.Equal(t, "few different batches in 10 epochs of one", name == "steps" && len(batches) < 5, false)
	}
}

// torch's BCEWithLogitsLoss on targets.gt(0), as DeiT-III calls it, by hand: log(1+eˣ) − t·x, the mean over all.
func TestLoss_BCEHasATargetForEveryClassInAMixedImage(t *testing.T) {
	targets := [][]float32{{0, 1e-4, 0.7}, {1, 0, 0}} // however small
	logits := [][]float32{{-2, 0.5, 3}, {40, -60, 0}}
	want := 0.0
	for i, row := range logits {
		for k, x := range row {
			want += math.Max(float64(x), 0) + math.Log1p(math.Exp(-math.Abs(float64(x))))
			if targets[i][k] > 0 {
				want -= float64(x)
			}
		}
	}
	got := gomlxtest.Run(t, func(in []*Node) []*Node {
		return []*Node{Recipe{Loss: lossBCE}.loss(in[0], in[1])}
	}, targets, logits)[0]
	gomlxtest.Near(t, "bce", got, []float64{want / 6}, 1e-6)
}

// torch's CrossEntropyLoss(weight=w) on targets of probabilities: the mean of −Σ w_c·t_c·log p_c.
func TestClassWeights_ScaleTheLossOfEachImage(t *testing.T) {
	gomlxtest.OnGo(t)
	trainer := begun(t, tinyRun(t, "class_weights=1,2,3,4,5,6,70;label_smoothing=0.1", 40))
	set := trainer.images.set.(*data.InMemory)
	logits := gomlxtest.Must(trainer.model.logitsOf(set))(t)
	advanced(t, trainer, 1)
	weights, want := []float64{1, 2, 3, 4, 5, 6, 70}, 0.0
	for _, row := range trainer.rows {
		for class, logit := range logits[row] {
			target := 0.1 / 7
			if class == int(set.Labels[row]) {
				target += 0.9
			}
			want -= weights[class] * target * (float64(logit) - logSumExp(logits[row])) / float64(len(trainer.rows))
		}
	}
	is.Near(t, "loss", gomlxtest.Must(trainer.Loss())(t), want, 1e-5*want)
}

// scikit-learn's compute_class_weight("balanced") of 2, 3 and 5 images: n/(3·n_c).
func TestClassWeights_BalancedAreScikitLearns(t *testing.T) {
	info := &data.Info{Name: "unequal", Classes: []string{"a", "b", "c"}, Labels: []int32{2, 1, 0, 2, 2, 1, 1, 2, 0, 2}}
	balanced := Recipe{ClassWeights: "balanced"}
	got := gomlxtest.Must(balanced.classWeights(info))(t)
	gomlxtest.NearAbs(t, "balanced", got, []float64{10. / 6, 10. / 9, 10. / 15}, 1e-6)
	info.Classes = append(info.Classes, "d")
	is.Refused(t, "an empty class", is.ErrorOf(balanced.classWeights(info)), "no image of class d")
}

func TestFreeze_KeepsBitsAndHasNoState(t *testing.T) {
	gomlxtest.OnGo(t)
	for freeze, trained := range map[string][]string{
		"":                       {"weights", "vectors", "table", "position", "gate", "head"},
		"backbone,position,gate": {"head"}, // the linear probe
		"backbone":               {"position", "gate", "head"},
		"table":                  {"weights", "vectors", "position", "gate", "head"},
		" head , gate":           {"weights", "vectors", "table", "position"},
		"weights,vectors,head":   {"table", "position", "gate"},
	} {
		for _, kind := range gomlxtest.InTurn(len(freeze), "adamw", "sgd") {
			trainer := begun(t, tinyRun(t, "model.position=hybrid;warmup_epochs=0;ema_decay=0.5;grad_accum_steps=2;"+
				"learning_rate=0.1;optimizer.weight_decay=0;optimizer.name="+kind+";freeze="+freeze, 30))
			store := trainer.model.store
			// The initial weights are drawn while the first program is compiled; an evaluation comes first.
			gomlxtest.Must(trainer.model.Evaluate(dataset(5, 2)))(t)
			before := trainer.model.bits(t)
			advanced(t, trainer, 3)
			after, moved := trainer.model.bits(t), map[string]bool{}
			for path, old := range before {
				if !strings.HasPrefix(path, "/vit/") {
					continue
				}
				v := store.GetVariable(path)
				group := groupOf(path)
				same := bytes.Equal(old, after[path])
				moved[group] = moved[group] || !same
				state := []string{"/adamw/first", "/adamw/second", "/sgd/momentum", engine.AverageRoot, "/accumulated"}
				has := slices.ContainsFunc(state, func(root string) bool { return store.GetVariable(root+path) != nil })
				trains := slices.Contains(trained, group) && v.Trainable
				if !trains && !same || has != trains {
					t.Errorf("freeze %q, %s: %s: unchanged: %v, has state: %v", freeze, kind, path, same, has)
				}
			}
			for _, group := range trained {
				is.Equal(t, fmt.Sprintf("freeze %q, %s: some of %s moved", freeze, kind, group), moved[group], true)
			}
		}
	}
}

// groupOf tells the group of a variable by the factor of its learning rate.
func groupOf(variable string) string {
	rates := map[string]float64{"weights": 2, "vectors": 3, "table": 5, "position": 7, "gate": 11, "head": 13, "lora": 17}
	factor := engine.Optimizer{LearningRates: rates}.Factor(variable, 0)
	for group, rate := range rates {
		if rate == factor {
			return group
		}
	}
	return ""
}

// where is a dataset of dark 4×4 images with one bright quarter, which is the class: a bag of patches of 2×2 pixels
// without positions contains no information about it.
func where(n int, seed uint64) *data.InMemory {
	r := rand.New(rand.NewPCG(seed, 1))
	s := &data.InMemory{Info: data.Info{Name: "where", Height: 4, Width: 4, Channels: 3,
		Classes: []string{"top left", "top right", "bottom left", "bottom right"}}}
	for range n {
		label := r.IntN(4)
		s.Labels = append(s.Labels, int32(label))
		for k := range 4 * 4 * 3 {
			v := r.IntN(30)
			if row, col := k/3/4, k/3%4; row/2*2+col/2 == label {
				v += 200
			}
			s.Pixels = append(s.Pixels, uint8(v))
		}
	}
	return s
}

func TestRun_LearnsWhereSomethingIsFromTheEncodingAlone(t *testing.T) {
	recipe := Recipe{
		Name: "where", Model: vit.Config{PatchSize: 2, Width: 16, Depth: 1, Heads: 2, Pool: "mean"},
		BatchSize: 16, LearningRate: 0.01, WarmupEpochs: 1, Optimizer: engine.Optimizer{ClipNorm: 1},
		EvalBatchSize: 64, EvalEveryEpochs: 100, ValFraction: -1,
		Augment: data.Augment{Mean: [3]float64{0.1, 0.1, 0.1}, Std: [3]float64{0.2, 0.2, 0.2}},
	}
	chance := math.Log(4)
	positions := position.Names()
	if gomlxtest.OnXLA() {
		positions = []string{"none", "wepe-sphere", "rope-mixed"}
	}
	for _, position := range positions {
		// Distances alone are the same from each of the four corners.
		learns := position != "none" && position != "alibi2d"
		recipe.Model.Position, recipe.Epochs = position, 6
		if slices.Contains([]string{"wepe-bias", "lookhere", "relative-table"}, position) {
			recipe.Epochs = 40 // it learns through the attention weights; 20 epochs are too few for some orders of summation
		}
		run := Run{Backend: gomlxtest.Backend(), Recipe: recipe, Train: where(320, 1), Test: where(256, 2)}
		_, row := done(t, run)
		loss := float64(row.Test.Loss)
		t.Logf("%s: test loss %.3f, chance %.3f, top-1 %.3f", position, loss, chance, float64(row.Test.Top1))
		if learns && loss > chance/3 || !learns && loss < 0.97*chance {
			t.Errorf("%s: test loss %.3f where chance is %.3f", position, loss, chance)
		}
	}
}

func TestEncoding_OfAModulationIsItsFactorsLess1(t *testing.T) {
	gomlxtest.OnGo(t)
	for position, parts := range map[string][]string{"wepe-qkv": {"query", "key", "value"},
		"fourier-qkv": {"query", "key", "value"}, "wepe-v": {"value"}, "fourier-v": {"value"}} {
		trainer := begun(t, tinyRun(t, "model.position="+position, 30))
		advanced(t, trainer, 1)
		c, weights := trainer.Recipe.Model, trainer.model.weights(t, "")
		features, names, vectors, err := trainer.model.Encoding()
		n, patches := len(names), c.Rows()*c.Cols()
		if err != nil || n != 12 || len(features) != patches*n || len(vectors) != patches*c.Depth*len(parts)*c.Width {
			t.Fatalf("%s: %v, features %q, %d values, %d vectors", position, err, names, len(features), len(vectors))
		}
		var want []float64
		for patch := range patches {
			f := features[patch*n:][:n]
			is.Near(t, position+": length of four points of a sphere, or of six waves", floats.Norm(f, 2), 2, 1e-5)
			for block := range c.Depth {
				for _, of := range parts {
					m := weights[fmt.Sprintf("position/%s/block_%02d/%s", strings.ReplaceAll(position, "-", "_"), block, of)]
					for channel := range c.Width {
						sum := 0.0
						for k := range n {
							sum += f[k] * m[k*c.Width+channel]
						}
						want = append(want, sum)
					}
				}
			}
		}
		gomlxtest.NearAbs(t, position, vectors, want, 1e-5)
	}
}

func TestScalars_AreWhatAnEncodingLearns(t *testing.T) {
	gomlxtest.OnGo(t)
	for position, want := range map[string][]string{
		"none": nil, "learned": nil, "sincos2d": nil,
		"wepe":        {"alpha_scale", "beta_pos", "omega3"},
		"wepe-sphere": {"alpha_scale", "beta_pos", "omega3"},
		"hybrid":      {"beta", "gamma", "lambda", "omega3", "scale", "strength"},
		"wepe-bias":   {"alpha_scale", "omega3"},
		"wepe-qkv":    {"alpha_scale", "omega3"}, "fourier-qkv": nil,
		"wepe-v": {"alpha_scale", "omega3"}, "fourier-v": nil,
		"wepe+wepe-v": {"alpha_scale", "alpha_scale of wepe-v", "beta_pos", "omega3", "omega3 of wepe-v"},
	} {
		trainer := begun(t, tinyRun(t, "wepe_gate=0.3;model.position="+position, 30))
		advanced(t, trainer, 1)
		scalars := gomlxtest.Must(trainer.model.scalars())(t)
		is.Equal(t, position, slices.Sorted(maps.Keys(scalars)), want)
		if lambda := float64(scalars["lambda"]); position == "hybrid" && (lambda == 0.3 || !(math.Abs(lambda-0.3) <= 0.01)) {
			t.Errorf("λ is %g after one step from 0.3", lambda)
		}
	}
}

// Every encoding trains in GoMLX's own trainer with the losses of the engine, both from the same seed. Package
// checkpoints reads such models back.
func TestModelFn_TrainsEveryEncodingAsTheEngine(t *testing.T) {
	const steps = 3
	names := position.Names()
	if gomlxtest.OnXLA() {
		names = []string{"wepe", "hybrid"} // each compiles for ten seconds
	}
	for _, name := range names {
		run := tinyRun(t, "warmup_epochs=0;val_fraction=-1;optimizer.layer_decay=0.7;model.position="+name, 31)
		c := begun(t, run)
		m := gomlxtest.Must(newModel(run.Backend, c.Recipe, c.model.Classes, run.Seed))(t)
		opt := c.Trainer.Optimizer
		trainer := train.NewTrainer(run.Backend, m.Store(), m.ModelFn(), loss.SparseCategoricalCrossEntropyLogits, &opt, nil,
			nil)
		set := owned{run.Train.(*data.InMemory), nil} // of a type that cannot be compared
		evaluate := func() float64 { return float64(gomlxtest.Must(m.Evaluate(set))(t).Loss) }
		before := 0.0
		if name == "wepe" {
			before = evaluate()
		}
		next, stop := iter.Pull2(data.Batches(run.Train, c.Recipe.BatchSize, c.Recipe.Augment, run.Seed).Iter())
		for step := range steps {
			advanced(t, c, 1)
			want := gomlxtest.Must(c.Loss())(t)
			batch, err, _ := next()
			gomlxtest.NoError(t, err)
			outputs := gomlxtest.Must(trainer.TrainStep(batch))(t)
			is.Near(t, fmt.Sprintf("%s, step %d", name, step), gomlxtest.Values(t, outputs[0])[0], want, 2e-5*want)
		}
		stop()
		if name == "wepe" {
			var loss float64
			for i, logits := range gomlxtest.Must(m.logitsOf(set.InMemory))(t) {
				loss += (logSumExp(logits) - float64(logits[set.Labels[i]])) / float64(set.Len())
			}
			after := evaluate()
			if is.Near(t, "the loss", after, loss, 1e-5*loss); !(after < before) {
				t.Errorf("the loss is %g before training, then %g", before, after)
			}
		}
		m.Finalize()
	}
}

// owned is a dataset of a user's own type.
type owned struct {
	*data.InMemory
	notes []string
}

// lost is a dataset that is evaluated and then not readable any more.
type lost struct{ *data.InMemory }

func (lost) Image(context.Context, int) (*data.Image, error) { return nil, os.ErrNotExist }

func TestPage_MistakesWhoseImagesAreLostAreAnErrorAfterTheirNumbers(t *testing.T) {
	set, m := lost{dataset(3, 1)}, &Model{}
	labels := set.Labels
	m.tested.on, m.tested.by = &set.Info, &evaluation{set: &set.Info, answers: []answer{{class: int(labels[0])},
		{class: int(labels[1]+1) % 7}, {class: int(labels[2])}}}
	var page report.RunPage
	if err := showMistakes(&page, m, set); !errors.Is(err, os.ErrNotExist) || len(page.Mistakes) > 0 {
		t.Errorf("%d mistakes, %v", len(page.Mistakes), err)
	}
	if page.Confusion == nil || page.Confusion.Counts[labels[1]][(labels[1]+1)%7] != 1 {
		t.Errorf("confusions %+v", page.Confusion)
	}
}

// The first row of a fine-tuning contains the accuracy of the pretrained model and does not change the training; the
// page has the numbers before and after, and an image of each mistake.
func TestRun_FromAPretrainedModelBeginsWithItsAccuracy(t *testing.T) {
	gomlxtest.OnGo(t)
	first, second := tinyRun(t, "model.position=learned", 60), tinyRun(t, "model.position=hybrid", 50)
	first.Dir, second.Dir = t.TempDir(), t.TempDir()
	second.From, second.Weights = first.Dir, checkpoints.LastDir
	done(t, first)
	m, row := done(t, second)
	rows := gomlxtest.Must(report.ReadFiles(filepath.Join(second.Dir, engine.RowsFile)))(t)
	before := rows.Evals[0]
	is.Equal(t, "one row is before the first step", [2]bool{before.Step == 0, rows.Evals[1].Step == 0}, [2]bool{true,
		false})
	if initial := float64(before.Scalars["lambda"]); !(initial > 0 && initial < 1) {
		t.Errorf("λ is %g before the first step", initial)
	}

	unseen := second
	unseen.Dir = "" // nothing is recorded, so nothing is evaluated first
	other, _ := done(t, unseen)
	is.Equal(t, "weights without the look before the first step", other.weights(t, ""), m.weights(t, ""))

	gomlxtest.NoError(t, second.Page(m, row, report.Figure{Title: "A figure", PNG: []byte("bytes")}))
	page := string(gomlxtest.Must(os.ReadFile(filepath.Join(second.Dir, PageFile)))(t))
	_, held, err := m.Recipe.Split(second.Train)
	gomlxtest.NoError(t, err)
	wrong := gomlxtest.Must(m.evaluate(held))(t).mistakes()
	is.Said(t, "the page", page, "A figure", fmt.Sprintf("%.2f", 100*before.Top1), fmt.Sprintf("%.2f",
		100*row.Validation.Top1))
	if got := strings.Count(page, ", predicted "); len(wrong) == 0 || got < min(pageMistakes, len(wrong)) {
		t.Errorf("%d mistakes are shown of %d", got, len(wrong))
	}
	is.Refused(t, "a page without a directory", (Run{}).Page(nil, report.Result{}))
}

// A column per image: the first row is the dataset, the others are epochs.
func TestShowAugmentation_DrawsEachEpoch(t *testing.T) {
	set := dataset(11, 3)
	show := func(settings string) image.Image {
		var file bytes.Buffer
		gomlxtest.NoError(t, gomlxtest.Must(tiny().Set(settings))(t).ShowAugmentation(&file, gomlxtest.Backend(), set, 7))
		return gomlxtest.Must(png.Decode(&file))(t)
	}
	plain, flipped := show(""), show("augment.hflip=1")
	size, each := plain.Bounds().Size(), plain.Bounds().Dy()/(1+shownEpochs)
	differ := func(row int) (n int) {
		for i := range each * size.X {
			if x, y := i%size.X, row*each+i/size.X; plain.At(x, y) != flipped.At(x, y) {
				n++
			}
		}
		return n
	}
	if size != flipped.Bounds().Size() || differ(0) > 0 || differ(1) == 0 || differ(shownEpochs) == 0 {
		t.Errorf("of %v pixels %d of the dataset differ, %d and %d of two epochs", size, differ(0), differ(1),
			differ(shownEpochs))
	}
}
