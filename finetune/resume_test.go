// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
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
		is.Equal(t, name+": evaluations, results, steps", []int{len(rows.Evals), len(rows.Results), rows.Results[0].Steps},
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
		is.Equal(t, name+", opened", gomlxtest.Must(m.Evaluate(run.Test))(t), rows.Results[0].Test)
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
	is.Said(t, "former names", string(sealed.Manifest), `"smoothing":0.1`)
	sealed.SHA256 = fmt.Sprintf("%x", sha256.Sum256(sealed.Manifest))
	raw, encodeErr := json.Marshal(sealed)
	gomlxtest.NoError(t, errors.Join(err, encodeErr, os.WriteFile(file, raw, 0o600)))
}

// A row of an earlier version is of the recipe that had its settings by their former names.
func TestRecipe_OfARowOfAnEarlierVersion(t *testing.T) {
	rows := gomlxtest.Must(report.ReadFiles("../docs/runs/demo-pretrain.jsonl"))(t)
	var was Recipe
	gomlxtest.NoError(t, json.Unmarshal(rows.Results[0].Settings, &was))
	is.Equal(t, "the row's recipe", []any{was.LabelSmoothing, was.GradAccumSteps, was.Augment.HFlip, was.EvalEveryEpochs},
		[]any{0.1, 1, 0.5, 1})
	now := gomlxtest.Must(RecipeByName("demo-pretrain"))(t)
	now.Model.Position = was.Model.Position
	gomlxtest.NoError(t, now.Diff(rows.Results[0].Settings))
	now.LabelSmoothing = 0.2
	is.Equal(t, "other label smoothing", otherRun(now.Diff(rows.Results[0].Settings)).Field, "label_smoothing")
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
		differs := otherRun(other.fails(t))
		is.Equal(t, differs.Error(), []any{differs.Field, strings.HasPrefix(differs.Dir, run.Dir)}, []any{field, true})
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

// tarred writes the images of a dataset as files in two tar shards.
func tarred(t *testing.T, set *data.InMemory) *data.Files {
	t.Helper()
	var shards [2][][2]string
	for i := range set.Len() {
		shard := &shards[2*i/set.Len()]
		*shard = append(*shard, [2]string{fmt.Sprintf("%03d.png", i), string(datatest.PNG(set.RGBA(i)))},
			[2]string{fmt.Sprintf("%03d.cls", i), fmt.Sprint(set.Labels[i])})
	}
	dir := datatest.Tree(t, map[string][]byte{"0.tar": datatest.Tar(shards[0]...), "1.tar": datatest.Tar(shards[1]...)})
	parts, _, err := data.Find(dir)
	gomlxtest.NoError(t, err)
	parts.Train.Classes = set.Classes
	return parts.Train
}

func streamOf(t *testing.T, f *data.Files, how data.Streaming) data.Dataset {
	t.Helper()
	set := gomlxtest.Must(f.Stream(preprocess.Settings{Resize: preprocess.ResizeExact, Size: [2]int{4, 6}}, how))(t)
	set.Describe().Name = "images"
	return set
}

func TestStream_TrainsAsMemory(t *testing.T) {
	gomlxtest.OnGo(t)
	run := saved(t, everything(), 47)
	run.Seed, run.Test = 5, dataset(9, 2)
	want := finished(t, run)
	for _, workers := range []int{1, 3} {
		run.Dir = t.TempDir()
		run.Train = streamOf(t, tarred(t, dataset(47, 1)), data.Streaming{Workers: workers})
		run.Test = streamOf(t, tarred(t, dataset(9, 2)), data.Streaming{Workers: workers})
		endsAs(t, fmt.Sprint(workers, " workers"), run, want)
	}
	m, row := done(t, run) // a second time
	gomlxtest.NoError(t, run.Page(m, row))
}

// container is the type of data.Files.In.
type container interface {
	Open(part int) (io.ReadCloser, error)
	Where(part int) string
}

// watched counts the reads of a container's parts, some of which are no images.
type watched struct {
	container
	broken []int
	mutex  sync.Mutex
	parts  map[int]int
}

func watch(f *data.Files, broken ...int) *watched {
	w := &watched{container: f.In, broken: broken, parts: map[int]int{}}
	f.In = w
	return w
}

func (w *watched) Open(part int) (io.ReadCloser, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.parts[part]++; slices.Contains(w.broken, part) {
		return io.NopCloser(strings.NewReader("no image")), nil
	}
	return w.container.Open(part)
}

// cropping is everything with random crops of larger images.
func cropping(t *testing.T) Recipe {
	return gomlxtest.Must(everything().Set("augment.pad=0;augment.crop_scale=[0.3,1];val_fraction=-1"))(t)
}

func TestStream_ResumesWithinAnEpochWithoutRereading(t *testing.T) {
	gomlxtest.OnGo(t)
	f, run := tarred(t, dataset(47, 1)), saved(t, cropping(t), 0)
	run.Seed, run.Train = 5, streamOf(t, f, data.Streaming{})
	want := finished(t, run)

	run.Dir = t.TempDir()
	stopped(t, run, 3) // of 7 in an epoch
	stopped(t, run, 12)
	counter := watch(f)
	endsAs(t, "resumed within epochs", run, want)
	wanted := map[int]int{} // steps 12 and 13 of the second epoch, and the third
	for _, row := range slices.Concat(data.Order(5, 1, 47, 1)[5*6:7*6], data.Order(5, 2, 47, 1)[:42]) {
		wanted[row]++
	}
	is.Equal(t, "images that were left, and read", counter.parts, wanted)
}

func TestStream_ACutShardStopsARunWithEverythingSaved(t *testing.T) {
	gomlxtest.OnGo(t)
	for name, validation := range map[string]string{"training": "-1", "validation": "0.1"} {
		f := tarred(t, dataset(47, 1))
		run := saved(t, gomlxtest.Must(cropping(t).Set("grad_accum_steps=3;val_fraction="+validation))(t), 0)
		run.Seed, run.Train = 5, streamOf(t, f, data.Streaming{})
		want := finished(t, run)

		run.Dir = t.TempDir()
		shard := filepath.Join(f.Dir, "1.tar")
		content := gomlxtest.Must(os.ReadFile(shard))(t)
		run.Progress = func(p engine.Progress) {
			if name == "training" && p.Step == 4 || name == "validation" && p.Step == 6 {
				gomlxtest.NoError(t, os.Truncate(shard, 0))
			}
		}
		is.Refused(t, name, run.fails(t), "1.tar", "cannot be read", "saved")
		at := begun(t, run).Step()
		if name == "training" && (at < 4 || at > 6) || name == "validation" && (at < 6 || at > 7) {
			t.Errorf("%s: saved at step %d", name, at)
		}
		run.Progress = nil
		gomlxtest.NoError(t, os.WriteFile(shard, content, 0o644))
		endsAs(t, name+" with the shard back", run, want)
	}
}

func TestStream_DamagedImagesAreErrorsOrLeftOutAndCounted(t *testing.T) {
	gomlxtest.OnGo(t)
	f := tarred(t, dataset(330, 1))
	tested := *f
	watch(f, 17, 205)
	watch(&tested, 17, 205, 329) // 329 is a batch of its own
	run := tinyRun(t, "epochs=1;val_fraction=0.5;eval_batch_size=47", 0)
	run.Train = streamOf(t, f, data.Streaming{})
	is.Refused(t, "damage", run.fails(t), "cannot be read", ".tar: ", ".png")

	var log strings.Builder
	run.Dir = t.TempDir()
	run.Train = streamOf(t, f, data.Streaming{Skip: true, Logger: gomlxtest.Logger(&log)})
	test := streamOf(t, &tested, data.Streaming{Skip: true})
	run.Test = test
	stopped(t, run, 20)
	m, row := done(t, run)
	is.Equal(t, "damaged, and test images that count", [2]int{row.Damaged, row.Test.Images}, [2]int{5, 327})
	is.Near(t, "images that validate", float64(row.Validation.Images), 164, 1) // of 165
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	slices.Sort(lines)
	if lines = slices.Compact(lines); len(lines) != 2 || !strings.Contains(lines[0], "017.png") {
		t.Errorf("said %q", lines)
	}
	for i, a := range gomlxtest.Must(m.evaluate(test))(t).answers {
		is.Equal(t, fmt.Sprintf("image %d is damaged", i), a.class < 0, i == 17 || i == 205 || i == 329)
	}
	gomlxtest.NoError(t, run.Page(m, row))
}
