// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

func TestAccumulationEqualsOneStepOnTheWholeBatch(t *testing.T) {
	for _, clip := range gomlxtest.InTurn(1, 0, 0.5) { // without clipping the size of the gradient matters, too
		after := func(accumulate int) map[string][]float64 {
			// A large ε: with the default, Adam amplifies rounding errors of zero gradients (key biases).
			trainer := begun(t, tinyRun(t, fmt.Sprintf("optimizer.epsilon=0.1;optimizer.clip_norm=%g;accumulate=%d",
				clip, accumulate), 30))
			advanced(t, trainer, 7)
			return trainer.model.weights(t, "")
		}
		want := after(1)
		for _, parts := range gomlxtest.InTurn(1, 2, 3) {
			for path, got := range after(parts) {
				gap := 0.0
				for i := range got {
					gap = max(gap, math.Abs(got[i]-want[path][i]))
				}
				if gap > 1e-6 {
					t.Errorf("clip %g, %d parts: %s differs by %g", clip, parts, path, gap)
				}
			}
		}
	}
}

func TestTheTrainingLossOfARowIsTheMeanSinceTheRowBefore(t *testing.T) {
	gomlxtest.OnGo(t)
	trainer := begun(t, tinyRun(t, "eval_epochs=2", 30)) // rows after epochs 2 and 3 of 3, of 4 steps each
	var rows []*report.Eval
	trainer.Training.Progress = func(p engine.Progress) {
		if p.Eval != nil {
			rows = append(rows, p.Eval)
		}
	}
	var losses []float64
	for trainer.Step() < trainer.Steps {
		if err := trainer.Advance(); err != nil {
			t.Fatal(err)
		}
		losses = append(losses, gomlxtest.Must(trainer.Loss())(t))
	}
	mean := func(of []float64) (sum float64) {
		for _, v := range of {
			sum += v / float64(len(of))
		}
		return sum
	}
	if len(rows) != 2 || rows[0].Step != 8 || rows[1].Step != 12 ||
		!(math.Abs(float64(rows[0].TrainLoss)-mean(losses[:8])) <= 1e-12) ||
		!(math.Abs(float64(rows[1].TrainLoss)-mean(losses[8:])) <= 1e-12) {
		t.Errorf("rows %+v of the losses %v", rows, losses)
	}
}

func TestTheAverageFollowsItsRecursion(t *testing.T) {
	for _, architecture := range gomlxtest.InTurn(0, "", DHVT) {
		run := tinyRun(t, "ema=0.3", 30) // reached at step 4: min(0.3, (1+s)/(10+s))
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
					if !(math.Abs(average[i]-want[path][i]) <= 1e-6) {
						t.Fatalf("step %d: %s is %g, want %g", step, path, average[i], want[path][i])
					}
				}
			}
		}

		weights, average := trainer.model.weights(t, ""), trainer.model.weights(t, engine.AverageRoot)
		for path := range weights { // also untrained ones: the statistics of a batch normalization
			if average[path] == nil {
				t.Errorf("architecture %q: %s is not averaged", architecture, path)
			}
		}
		if reflect.DeepEqual(weights, average) {
			t.Fatal("weights and average are the same: nothing to exchange")
		}
		for k := range 2 {
			if err := trainer.model.swapAverages(); err != nil {
				t.Fatal(err)
			}
			if swapped := reflect.DeepEqual(trainer.model.weights(t, ""), average) &&
				reflect.DeepEqual(trainer.model.weights(t, engine.AverageRoot), weights); swapped != (k == 0) {
				t.Errorf("after %d calls of swapAverages the weights are exchanged: %v", k+1, swapped)
			}
		}
		if !reflect.DeepEqual(trainer.model.weights(t, ""), weights) {
			t.Error("swapping twice changes the weights")
		}
	}
}

func TestARunWarnsOfPatchesThatItsEncodingCannotDistinguish(t *testing.T) {
	gomlxtest.OnGo(t)
	for settings, want := range map[string]bool{"wepe_alpha_scale=100000": true, "wepe_alpha_scale=0.15": false} {
		run := tinyRun(t, "epochs=1;warmup_epochs=0.5;accumulate=2;freeze=backbone;model.position=wepe;"+settings, 30)
		var said strings.Builder
		run.Logger = gomlxtest.Logger(&said)
		done(t, run)
		if got := strings.Count(said.String(), "too close for float32"); got > 1 || (got == 1) != want {
			t.Errorf("%s: warned %d times: %s", settings, got, said.String())
		}
		// Four steps of two micro-batches.
		if got := strings.Count(said.String(), "training weights frozen (13 variables"); got != 1 {
			t.Errorf("%s: the trained groups are logged %d times: %s", settings, got, said.String())
		}
	}
}

// withoutScalars is an encoder whose variables cannot be read.
type withoutScalars struct{ position.Adder }

func (withoutScalars) Scalars() (map[string]float64, error) { return nil, fs.ErrPermission }

func TestScalarsThatCannotBeReadAreAnError(t *testing.T) {
	m := &Model{encoder: withoutScalars{}}
	if scalars, err := m.scalars(); !errors.Is(err, fs.ErrPermission) || scalars != nil {
		t.Errorf("scalars %v, %v", scalars, err)
	}
}

// An evaluation is cached for the page of a run, but not after a change of the weights.
func TestAnEvaluationIsNotCachedAcrossAChangeOfWeights(t *testing.T) {
	gomlxtest.OnGo(t)
	trainer := begun(t, tinyRun(t, "ema=0.9", 40))
	advanced(t, trainer, 6)
	set, m := dataset(61, 3), trainer.model
	for k := range 3 {
		p := m.upload(set)
		want := gomlxtest.Must(m.examination(p))(t).metrics()
		p.finalize()
		if got := gomlxtest.Must(m.Evaluate(set))(t); got != want {
			t.Errorf("after %d swaps Evaluate gives %+v, the weights %+v", k, got, want)
		}
		if err := m.swapAverages(); err != nil {
			t.Fatal(err)
		}
	}
}

// onnxRuntime is a backend by that name.
type onnxRuntime struct{ compute.Backend }

func (onnxRuntime) Name() string { return "onnxruntime" }

func TestARunThatCannotBeTrainedReportsTheRemedy(t *testing.T) {
	gomlxtest.OnGo(t)
	const inSteps = "epochs=0;warmup_epochs=0;steps=10;"
	for settings, want := range map[string]string{
		"model.classes=9":           "model's classes is 9, but 7 in dataset images",
		"model.image_rows=8":        "model's image_rows is 8, but 4",
		"model.patch_size=3":        "does not divide into patches",
		"model.position=rope":       `unknown encoding "rope"`,
		"augment.pad=-1":            "pad",
		"accumulate=4":              "accumulate is 4, want a divisor of batch_size",
		"validation_part=0.999":     "a validation split of 30 images needs more",
		"late_from=1":               "late_mixup_alpha",
		"smoothing=1":               "want 0 <= smoothing < 1",
		"learning_rate=-1":          "learning_rate is -1, want 0 < learning_rate < 1000",
		"warmup_epochs=4":           "warmup_epochs is 4",
		"epochs=0":                  "epochs is 0",
		"steps=10":                  "epochs is 3, want 0 where steps is set",
		"epochs=0;steps=10":         "warmup_epochs is 1", // tiny's
		"epochs=0;steps=-1":         "steps is -1",
		"warmup_steps=5":            "warmup_steps is 5",
		"eval_steps=2":              "eval_steps is 2, want 0 where epochs is set",
		inSteps + "warmup_steps=11": "warmup_steps is 11",
		inSteps + "eval_epochs=2":   "eval_epochs is 2",

		"model.position=sincos2d;model.width=14;model.heads=7": "sincos2d wants a multiple of 4 as width",

		"wepe_mode=papr":      `wepe_mode = "papr"`,
		"wepe_alfa_scale=0.2": `unknown hyperparameter "wepe_alfa_scale"`,
		"wepe_alpha_scale=-1": "wepe_alpha_scale",
		"wepe_harmonics=many": `wepe_harmonics = "many", want an integer in [`,
		"params.vit_width=3":  "vit_width",
		"rope_teta=20":        `unknown hyperparameter "rope_teta"`,
		"model.position=as2drope;as2drope_base_rows=-1": "as2drope_base_rows",

		"optimizer.kind=lion":              `"lion"`,
		"optimizer.kind=sgd":               "sgd does not support it", // tiny's weight decay
		"optimizer.momentum=0.9":           "adamw has beta1",
		"optimizer.beta1=1":                "beta1",
		"optimizer.beta2=-0.1":             "beta2",
		"optimizer.weight_decay=-1":        "weight_decay",
		"optimizer.clip_norm=-1":           "clip_norm",
		"optimizer.layer_decay=1":          "layer_decay",
		"optimizer.learning_rates.body=2":  `unknown group "body"`,
		"optimizer.learning_rates.head=-1": `learning_rates["head"]`,
		"optimizer.kind=sgd;optimizer.weight_decay=0;optimizer.momentum=1": "momentum is 1",

		"freeze=body": `"body": want some of backbone, weights, vectors, table, position, gate, head`,

		"freeze=backbone,position,gate,head": "no variable is left to train",
	} {
		_, _, err := tinyRun(t, settings, 30).Do(t.Context())
		refused(t, settings, err, want)
	}
	for want, change := range map[string]func(*Run){
		"5 training images are fewer than one batch of 6: lower batch_size": func(r *Run) {
			r.Train = dataset(6, 1) // 1 is split off
		},
		"images has no images":     func(r *Run) { r.Test = dataset(0, 1) },
		"label 7":                  func(r *Run) { r.Train.Describe().Labels[3] = 7 },
		"want 0 <= ema < 1":        func(r *Run) { r.Recipe.EMA = math.NaN() }, // not representable in JSON
		"epsilon is NaN":           func(r *Run) { r.Recipe.Optimizer.Epsilon = math.NaN() },
		"clip_norm is +Inf":        func(r *Run) { r.Recipe.Optimizer.ClipNorm = math.Inf(1) },
		"recipe tiny has no model": func(r *Run) { r.Recipe.Model = vit.Config{} },
		"model.recompute is set, but ONNX Runtime has no optimization barrier": func(r *Run) {
			r.Recipe.Model.Recompute, r.Backend = true, onnxRuntime{r.Backend}
		},
	} {
		run := tinyRun(t, "", 30)
		change(&run)
		_, _, err := run.Do(t.Context())
		refused(t, want, err, want)
	}
}

func TestADivergedRunIsStoppedAndNotSaved(t *testing.T) {
	gomlxtest.OnGo(t)
	run := Run{Backend: gomlxtest.Backend(), Recipe: tiny(), Train: dataset(40, 1), Dir: t.TempDir()}
	trainer := begun(t, run)
	advanced(t, trainer, 1)
	diverge(t, trainer.model)
	var err error
	for trainer.Step() < trainer.Steps && err == nil {
		err = trainer.Advance()
	}
	if !errors.Is(err, engine.ErrDiverged) || !strings.Contains(err.Error(), "learning_rate") ||
		!strings.Contains(err.Error(), "about step 2:") {
		t.Errorf("want an error about divergence in the second step, got %v", err)
	}
	if last, _, err := checkpoints.Find(run.Dir, checkpoints.LastDir); err != nil || last != nil {
		t.Errorf("a diverged state is saved: %v, %v", last, err)
	}
}

func TestATrainerLogsWhereItIsToldAndHasNoSpeedBeforeItsFirstStep(t *testing.T) {
	var said strings.Builder
	engine.NewTrainer(engine.Training{Logger: gomlxtest.Logger(&said)}).Logger.Info("resuming")
	engine.NewTrainer(engine.Training{}).Logger.Info("nowhere")
	if !strings.Contains(said.String(), "resuming") {
		t.Errorf("logged %q", said.String())
	}
	for course, want := range map[engine.Course]float64{{}: 0, {TimedSteps: 6, TimedSeconds: 3}: 10} {
		if got := course.ImagesPerSecond(5); got != want {
			t.Errorf("%+v: %g images per second, want %g", course, got, want)
		}
	}
}
