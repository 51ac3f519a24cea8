// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/report"
)

func TestRun_InterruptedEndsWithTheBitsOfAnUninterruptedOne(t *testing.T) {
	onTheSameBits(t)
	from, _ := pretrained(t, "")
	const dhvt = "architecture=dhvt;model.attention_dropout=0"
	for name, c := range map[string]struct{ position, from, settings string }{
		"wepe":          {position: "wepe"},
		"learned":       {position: "learned"},
		"look-up table": {position: "wepe-lut"},
		"changed on the host": {position: "wepe", settings: "augment.policy=rand-m9-mstd0.5-inc1;augment.rotate=15;" +
			"augment.jitter=[0.4,0.4,0.4,0.1];augment.random_erasing_prob=0.5;augment.erase_noise=true;augment.repeated_aug=3"},
		"DHVT":           {position: "none", settings: dhvt},
		"DHVT with wepe": {position: "wepe", settings: dhvt},
		"fine-tuned with SGD": {"learned", from, "optimizer.name=sgd;optimizer.weight_decay=0;freeze=vectors;" +
			"epochs=0;steps=21;warmup_epochs=0;warmup_steps=7;eval_every_steps=7"},
		"fine-tuned with AdamW and layer decay": {"hybrid", from, "head_zeroinit=true;wepe_start=fitted;" +
			`optimizer.layer_decay=0.7;optimizer.learning_rates={"gate":10,"position":3};augment.size=[10,8]`},
	} {
		if gomlxtest.OnXLA() && c.position != "hybrid" {
			continue // each of these training runs compiles for seconds
		}
		recipe := gomlxtest.Must(everything().Set(c.settings))(t)
		recipe.Model.Position = c.position
		run := saved(t, recipe, 47)
		run.Seed, run.Test, run.From = 5, dataset(9, 2), c.from
		want := finished(t, run)
		evaluations, rows := 3, want.rows
		if c.from != "" {
			evaluations++ // before the first step
		}
		equal(t, name+": evaluations, results, steps", []int{len(rows.Evals), len(rows.Results), rows.Results[0].Steps},
			[]int{evaluations, 1, 21})

		// 42 images in batches of 6 are 7 steps an epoch. Warm-up ends at step 7, late mixup begins at step 14.
		r := rand.New(rand.NewPCG(17, 0))
		run.Dir = t.TempDir()
		stops := []int{3, 7, 8 + r.IntN(6), 14 + r.IntN(6), 21} // in warm-up, on its border, ... the last
		if gomlxtest.OnXLA() {
			stops = []int{stops[2], 21}
		}
		for _, step := range stops {
			stopped(t, run, step)
			ofEarlierVersion(t, latest(t, run.Dir, checkpoints.LastDir))
		}
		run.Progress = func(p engine.Progress) { t.Errorf("a finished run makes step %d", p.Step) }
		endsAs(t, name, run, want)
		m := gomlxtest.Must(Open(run.Backend, run.Dir))(t)
		equal(t, name+", opened", gomlxtest.Must(m.Evaluate(run.Test))(t), rows.Results[0].Test)
	}
}

// ofEarlierVersion gives the settings in a checkpoint their former names.
func ofEarlierVersion(t *testing.T, c *checkpoints.Checkpoint) {
	t.Helper()
	file := filepath.Join(c.Path, "MANIFEST.json")
	var sealed struct {
		Manifest json.RawMessage `json:"manifest"`
		SHA256   string          `json:"sha256"`
	}
	err := json.Unmarshal(gomlxtest.Must(os.ReadFile(file))(t), &sealed)
	var body bytes.Buffer
	err = errors.Join(err, json.Compact(&body, sealed.Manifest))
	sealed.Manifest = bytes.Replace(body.Bytes(), c.Meta, setting.Former(c.Meta), 1)
	if !bytes.Contains(sealed.Manifest, []byte(`"smoothing":0.1`)) {
		t.Fatalf("%s has no former names", sealed.Manifest)
	}
	sealed.SHA256 = fmt.Sprintf("%x", sha256.Sum256(sealed.Manifest))
	raw, encodeErr := json.Marshal(sealed)
	gomlxtest.NoError(t, errors.Join(err, encodeErr, os.WriteFile(file, raw, 0o600)))
}

// A row of an earlier version is of the recipe that had its settings by their former names.
func TestRecipe_OfARowOfAnEarlierVersion(t *testing.T) {
	rows := gomlxtest.Must(report.ReadFiles("../docs/runs/demo-pretrain.jsonl"))(t)
	var was Recipe
	gomlxtest.NoError(t, json.Unmarshal(rows.Results[0].Settings, &was))
	equal(t, "the row's recipe", []any{was.LabelSmoothing, was.GradAccumSteps, was.Augment.HFlip, was.EvalEveryEpochs},
		[]any{0.1, 1, 0.5, 1})
	now := gomlxtest.Must(RecipeByName("demo-pretrain"))(t)
	now.Model.Position = was.Model.Position
	gomlxtest.NoError(t, now.Diff(rows.Results[0].Settings))
	now.LabelSmoothing = 0.2
	equal(t, "other label smoothing", otherRun(now.Diff(rows.Results[0].Settings)), "label_smoothing")
}

func TestRun_RefusesTheDirectoryOfAnother(t *testing.T) {
	gomlxtest.OnGo(t)
	run := saved(t, tiny(), 30)
	stopped(t, run, 1)
	for field, change := range map[string]func(*Run){
		"optimizer.weight_decay": func(r *Run) { r.Recipe.Optimizer.WeightDecay = 0.06 },
		"params.wepe_mode":       func(r *Run) { r.Recipe.Params = map[string]any{"wepe_mode": "release"} },
		"seed":                   func(r *Run) { r.Seed = 1 },
		"data":                   func(r *Run) { r.Train = dataset(30, 2) },
	} {
		other := run
		change(&other)
		err := other.fails(t)
		equal(t, fmt.Sprint(err), otherRun(err), field)
		if differ := new(engine.OtherRunError); errors.As(err, &differ) && !strings.HasPrefix(differ.Dir, run.Dir) {
			t.Errorf("%s: of the directory %s", field, differ.Dir)
		}
	}
	done(t, run) // the same run goes on
}

func TestRun_StoppedAnywhereLeaksNothing(t *testing.T) {
	gomlxtest.OnGo(t)
	rng := campaign.Rand(11)
	campaign.Leaks(t, 5, func(int) {
		run := saved(t, tiny(), 30)
		run.Test = dataset(9, 2)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stop := rng.IntN(18) // of 15 steps
		run.Progress = func(p engine.Progress) {
			if p.Step == stop {
				cancel()
			}
		}
		m, _, err := run.Do(ctx)
		if err == nil {
			m.Finalize()
		} else if !errors.Is(err, engine.ErrInterrupted) {
			t.Fatal(err)
		}
	})
}
