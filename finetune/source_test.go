// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
)

// pretrained is a run of tiny with some changes, one epoch on images of 4×6 pixels: a grid of 2×3.
func pretrained(t *testing.T, change func(*Recipe)) (dir string, m *Model) {
	t.Helper()
	recipe := tiny()
	recipe.Epochs, recipe.WarmupEpochs, recipe.Model.Position = 1, 0.5, "learned"
	if change != nil {
		change(&recipe)
	}
	dir = t.TempDir()
	run := Run{Backend: gomlxtest.Backend(), Recipe: recipe, Train: dataset(40, 1), Dir: dir}
	done(t, run)
	m = gomlxtest.Must(Open(run.Backend, dir))(t) // the source: the best checkpoint, with averages in place of weights
	return dir, m
}

// fine is a recipe for a pretrained model of tiny: 3 steps on a grid of 5×4.
func fine() Recipe {
	return Recipe{
		Name: "fine", Steps: 3, BatchSize: 6, LearningRate: 0.01, EvalBatchSize: 4,
		Optimizer: engine.Optimizer{ClipNorm: 1}, Augment: data.Augment{Size: [2]int{10, 8}},
	}
}

// resampled resamples a table of positions from the grid of pretrained, 2×3, to the grid of fine, 5×4. The tests of
// Resample compare it with torch, Pillow and scipy.
func resampled(t *testing.T, table []float64, c vit.Config, kind string) []float64 {
	t.Helper()
	from := fixtures.Tensor{Data: table}.Float32()
	rows, _, err := checkpoints.Resample(from, c.Width, c.Prefix(), [2]int{2, 3}, [2]int{5, 4}, kind)
	gomlxtest.NoError(t, err)
	return gomlxtest.Values(t, tensors.FromValue(rows))
}

// started returns the model of a run of fine with some settings before its first step, and its log.
func started(t *testing.T, settings string, run Run) (*classification, string) {
	t.Helper()
	var said strings.Builder
	run.Recipe = gomlxtest.Must(fine().Set(settings))(t)
	run.Backend, run.Logger = gomlxtest.Backend(), gomlxtest.Logger(&said)
	if run.Train == nil {
		run.Train = dataset(30, 3)
	}
	return begun(t, run), said.String()
}

func TestFrom_LoadsTheBackboneBitForBit(t *testing.T) {
	gomlxtest.OnGo(t)
	for name, change := range map[string]func(*Recipe){
		"weights":  nil,
		"averages": func(r *Recipe) { r.EMADecay = 0.5 },
		"no class": func(r *Recipe) { r.Model.Pool = "mean" },
		"release":  func(r *Recipe) { r.Model.PatchNorm, r.Model.Epsilon = true, 1e-5 },
	} {
		from, source := pretrained(t, change)
		want := source.weights(t, "")
		rows := resampled(t, want[tablePath], source.Recipe.Model, "bilinear")
		positions := []string{"learned"}
		if name == "weights" {
			positions = append(positions, "hybrid", "wepe", "none")
		}
		for _, position := range positions {
			trainer, said := started(t, "interpolation=bilinear;model.position="+position, Run{From: from})
			got := trainer.model.weights(t, "")
			wanted := maps.Clone(want)
			delete(wanted, tablePath)
			if position == "learned" || position == "hybrid" {
				wanted[tablePath] = rows
				if !strings.Contains(said, "positions: "+position+" 2×3 -> 5×4 (bilinear)\n") {
					t.Errorf("%s, %s: not said how positions are resampled:\n%s", name, position, said)
				}
			} else if !strings.Contains(said, "positions: "+position+" in place of the checkpoint's learned\n") {
				t.Errorf("%s, %s: not said that positions are replaced:\n%s", name, position, said)
			}
			equal(t, name+", "+position+": lines about positions", strings.Count(said, "positions: "), 1)
			maps.DeleteFunc(got, func(path string, _ []float64) bool { // the hybrid's encoding, started from the table
				return strings.HasPrefix(path, positionPath) && path != tablePath
			})
			what := name + ", " + position
			equal(t, what+": variables before the first step", got, wanted)
			c, s := trainer.Recipe.Model, source.Recipe.Model
			c.ImageRows, c.ImageCols, c.Position = s.ImageRows, s.ImageCols, s.Position
			equal(t, what, c, s)
			a, b := trainer.Recipe.Augment, source.Recipe.Augment
			equal(t, what+": mean and std", [2][3]float64{a.Mean, a.Std}, [2][3]float64{b.Mean, b.Std})
			gomlxtest.NoError(t, trainer.Advance())
		}
	}
}

func TestFrom_StartsAHybridFromTheTableOfItsGrid(t *testing.T) {
	gomlxtest.OnGo(t)
	from, _ := pretrained(t, nil)
	for start, centred := range map[string]bool{"drawn": false, "centred": true, "fitted": true} {
		trainer, _ := started(t, "model.position=hybrid;wepe_gate=1;wepe_learn_gate=false;wepe_start="+start,
			Run{From: from})
		_, _, rows, err := trainer.model.Encoding()
		gomlxtest.NoError(t, err)
		c := trainer.Recipe.Model
		table := trainer.model.weights(t, "")[tablePath][c.Prefix()*c.Width:]
		var apart float64 // largest difference of the mean rows
		for j := range c.Width {
			var sum float64
			for i := j; i < len(rows); i += c.Width {
				sum += rows[i] - table[i]
			}
			apart = max(apart, math.Abs(sum)*float64(c.Width)/float64(len(rows)))
		}
		equal(t, fmt.Sprint(start, ": the mean row is ", apart, " from the table's"), apart < 1e-5, centred)
	}
}

// At its own size, with its own positions and head, a pretrained model has the same logits before the first step. An
// encoding that is added to the model's own starts as the identity, and every one of its variables learns.
func TestRun_StartsAsThePretrainedFunction(t *testing.T) {
	gomlxtest.OnGo(t)
	from, source := pretrained(t, func(r *Recipe) { r.EMADecay = 0.5 })
	set := dataset(11, 9)
	want := gomlxtest.Must(source.Evaluate(set))(t)
	for position, neutral := range map[string]int{ // variables of its two blocks
		"learned": 0, "learned+wepe-v": 2, "learned+fourier-v": 2, "learned+wepe-qkv": 6, "learned+fourier-qkv": 6,
		"learned+rope-mixed": 2, "learned+liere": 2, "learned+cpe": 2,
		"learned+relative-table": 2, "hybrid+wepe-v": 2, "wepe-v": 0, "wepe+rope-mixed": 0,
	} {
		settings := "augment.size=[4,6];model.position=" + position
		if strings.HasPrefix(position, "hybrid") {
			settings += ";wepe_gate=0"
		}
		trainer, _ := started(t, settings, Run{From: from})
		got := gomlxtest.Must(trainer.model.Evaluate(set))(t)
		equal(t, position+" begins as the pretrained model", got == want, neutral > 0 || position == "learned")
		start, zeros := trainer.model.weights(t, ""), 0
		nonzero := func(x float64) bool { return x != 0 }
		advanced(t, trainer, 1)
		for path, after := range trainer.model.weights(t, "") {
			_, block, _ := strings.Cut(path, "/block_") // no scalar of a lattice
			if !strings.HasPrefix(path, positionPath) || block == "" || slices.ContainsFunc(start[path], nonzero) {
				continue
			}
			zeros++
			// The class token alone is pooled, and has no position: queries of the last block do nothing.
			if last := block == "01/query"; last == slices.ContainsFunc(after, nonzero) {
				t.Errorf("%s: %s does not learn", position, path)
			}
		}
		equal(t, position+": variables that are zero", zeros, neutral)
	}
}

func TestFrom_KeepsTheHeadOnlyForTheSameClasses(t *testing.T) {
	gomlxtest.OnGo(t)
	from, source := pretrained(t, nil)
	head := source.weights(t, "")["head/weights"]
	others := dataset(30, 3)
	others.Classes = strings.Fields("a b c d e f other")
	fewer := dataset(30, 3)
	fewer.Classes = fewer.Classes[:5]
	for i := range fewer.Labels {
		fewer.Labels[i] %= 5
	}
	for name, c := range map[string]struct {
		set  *data.InMemory
		zero bool
		kept bool
		said string
	}{
		"same":       {set: dataset(30, 3), kept: true},
		"same, zero": {set: dataset(30, 3), zero: true},
		"others":     {set: others, said: "head: a new one for 7 classes in place of the checkpoint's for 7 others\n"},
		"fewer":      {set: fewer, said: "head: a new one for 5 classes in place of the checkpoint's for 7\n"},
		"zero":       {set: fewer, zero: true, said: "for 5 classes"},
	} {
		trainer, said := started(t, fmt.Sprintf("head_zeroinit=%v", c.zero), Run{From: from, Train: c.set})
		got, there := trainer.model.weights(t, "")["head/weights"]
		if there != (c.kept || c.zero) || c.kept && !slices.Equal(got, head) {
			t.Errorf("%s: head there: %v; the source's: %v", name, there, slices.Equal(got, head))
		}
		if c.zero && slices.ContainsFunc(got, func(v float64) bool { return v != 0 }) {
			t.Errorf("%s: the head does not start at zero", name)
		}
		if !strings.Contains(said, c.said) || strings.Contains(said, "head:") != (c.said != "") {
			t.Errorf("%s: said\n%swant %q", name, said, c.said)
		}
		advanced(t, trainer, 1)
		equal(t, name+": numbers of the head", len(trainer.model.weights(t, "")["head/weights"]), 12*len(c.set.Classes))
	}
}

// The files of Google and many of timm have no names; transformers writes LABEL_0, LABEL_1, … for unknown ones.
func TestFrom_KeepsAHeadOfUnnamedClassesWithALine(t *testing.T) {
	gomlxtest.OnGo(t)
	_, source := pretrained(t, nil)
	head := source.weights(t, "")["head/weights"]
	unnamed := make([]string, 7)
	for i := range unnamed {
		unnamed[i] = fmt.Sprintf("LABEL_%d", i)
	}
	for format, labels := range map[string][]string{"hf": unnamed, "timm": {}} {
		dir := filepath.Join(t.TempDir(), format)
		gomlxtest.Must(source.Export(dir, checkpoints.ExportOptions{Format: format, Labels: labels}))(t)
		trainer, said := started(t, "", Run{From: dir, Train: dataset(30, 3)})
		if !slices.Equal(trainer.model.weights(t, "")["head/weights"], head) ||
			!strings.Contains(said, "head: the checkpoint's; its files do not name its 7 classes") {
			t.Errorf("%s: said\n%s", format, said)
		}
		_, said = started(t, "head_zeroinit=true", Run{From: dir, Train: dataset(30, 3)})
		if strings.Contains(said, "head:") {
			t.Errorf("%s: with a head of zeros said\n%s", format, said)
		}
		if notes := gomlxtest.Must(Open(gomlxtest.Backend(), dir))(t).Source.Notes; slices.ContainsFunc(notes,
			func(line string) bool { return strings.HasPrefix(line, "head:") }) {
			t.Errorf("%s: opened with %q", format, notes)
		}
	}
}

func TestFrom_KeepsPositionsWithTheirHyperparameters(t *testing.T) {
	gomlxtest.OnGo(t)
	from, source := pretrained(t, func(r *Recipe) {
		r.Model.Position, r.Params = "wepe", map[string]any{"wepe_mode": "release"}
	})
	trainer, said := started(t, "model.position=wepe", Run{From: from})
	equal(t, "variables of wepe, continued as wepe", trainer.model.weights(t, ""), source.weights(t, ""))
	if trainer.Recipe.Params["wepe_mode"] != "release" || !strings.Contains(said, "positions: the checkpoint's wepe\n") {
		t.Errorf("params %v, said\n%s", trainer.Recipe.Params, said)
	}
	if _, said := started(t, "model.position=sincos2d", Run{From: from}); !strings.Contains(said,
		"positions: sincos2d in place of the checkpoint's wepe\n") {
		t.Errorf("of other positions said\n%s", said)
	}
	recipe := gomlxtest.Must(fine().Set("model.position=wepe;wepe_mode=paper"))(t)
	other := Run{Backend: gomlxtest.Backend(), Recipe: recipe, From: from, Train: dataset(30, 3)}
	refused(t, "another mode than the variables'", errorOf(other.prepared()),
		"wepe_mode is paper, but release in checkpoint "+from)

	from, source = pretrained(t, func(r *Recipe) { r.Model.Position = "hybrid" })
	trainer, _ = started(t, "model.position=hybrid;wepe_start=centred", Run{From: from}) // changed its table
	got, want := trainer.model.weights(t, ""), source.weights(t, "")
	delete(got, "position/embedding") // resampled
	delete(want, "position/embedding")
	equal(t, "gate and surrogate of a hybrid, continued as one", got, want)
}

func TestResume_NeedsNoSourceAndRefusesAnother(t *testing.T) {
	gomlxtest.OnGo(t)
	from, _ := pretrained(t, nil)
	recipe := fine()
	recipe.Steps, recipe.WarmupSteps, recipe.Model.Position = 6, 3, "hybrid"
	run := Run{Backend: gomlxtest.Backend(), Recipe: recipe, Train: dataset(30, 3), From: from, Dir: t.TempDir()}
	want := finished(t, run)

	run.Dir = t.TempDir()
	stopped(t, run, 2)
	for scratch, change := range map[bool]func(*Run){
		false: func(r *Run) { r.From, _ = pretrained(t, func(r *Recipe) { r.LearningRate = 0.02 }) },
		true: func(r *Run) {
			r.From, r.Recipe.Model = "", vit.Config{PatchSize: 2, Width: 12, Depth: 2, Heads: 3, MLPDim: 20}
		},
	} {
		other := run
		change(&other)
		err := other.fails(t)
		var differ *engine.OtherRunError
		if !errors.As(err, &differ) || differ.Field != "from" || (differ.Is == engine.Scratch) != scratch {
			t.Errorf("another source: %v", err)
		}
	}
	gomlxtest.NoError(t, os.RemoveAll(from))
	run.From, _ = pretrained(t, func(r *Recipe) { r.LearningRate = 0.02 }) // as if trained on since
	run.Extend = true
	endsAs(t, "resumed without its source", run, want)
	m := gomlxtest.Must(Open(run.Backend, run.Dir))(t)
	gomlxtest.Must(m.Evaluate(run.Train))(t)
}

func TestRow_NamesTheSourceOfTheWeights(t *testing.T) {
	gomlxtest.OnGo(t)
	from, _ := pretrained(t, nil)
	run := Run{Backend: gomlxtest.Backend(), Recipe: fine(), From: from, Train: dataset(30, 3)}
	_, row := done(t, run)
	var settings struct {
		Recipe
		From *initialModel
	}
	gomlxtest.NoError(t, json.Unmarshal(row.Settings, &settings))
	best := latest(t, from, "")
	if settings.From == nil || settings.From.Path != from || settings.From.SHA256 != best.SHA256 ||
		settings.From.Model.Position != "learned" || settings.Model.Position != "learned" || row.Encoding != "learned" {
		t.Errorf("the row says %s", row.Settings)
	}
	// 27 of 30 images train, in batches of 6: 4 steps are an epoch.
	if row.Steps != 3 || row.Epochs != 0.75 {
		t.Errorf("%d steps, %g epochs, want 3 and 0.75", row.Steps, row.Epochs)
	}
}

func TestFrom_RefusesASourceThatLacksPartOfTheBackbone(t *testing.T) {
	gomlxtest.OnGo(t)
	from, _ := pretrained(t, nil)
	run := Run{Backend: gomlxtest.Backend(), Recipe: fine(), From: from, Train: dataset(30, 3)}
	run = gomlxtest.Must(run.prepared())(t)
	delete(run.source.imported.Variables, "norm/gain")
	trainer := gomlxtest.Must(run.begin())(t)
	defer trainer.close()
	refused(t, "a missing norm/gain", trainer.Advance(), "norm/gain")
}

// within reports whether the float32 values of two tensors differ by at most tol of the largest, which counts as at
// least 0.01: the gradients of key biases are rounding errors alone.
func within(a, b []byte, tol float64) bool {
	float := func(raw []byte, i int) float64 {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[i:])))
	}
	gap, largest := 0.0, 0.01
	for i := 0; i+4 <= len(a) && len(a) == len(b); i += 4 {
		gap, largest = max(gap, math.Abs(float(a, i)-float(b, i))), max(largest, math.Abs(float(b, i)))
	}
	return len(a) == len(b) && gap <= tol*largest
}

// A run with learned positions and one with a closed gate, from the same model, are equal.
func TestGate_ClosedIsTheLearnedRunBitForBit(t *testing.T) {
	onTheSameBits(t)
	from, _ := pretrained(t, nil)
	const dropout = ";model.dropout=0.1;model.attention_dropout=0.2;model.drop_path=0.3"
	for name, settings := range map[string]string{
		// The gate is in the graph and trainable, without a gradient. Dropout would change its encoding's draws.
		"learning gate, AdamW": "wepe_gate=0;optimizer.weight_decay=0.1;optimizer.layer_decay=0.7;ema_decay=0.5",
		"learning gate, SGD":   "wepe_gate=0;optimizer.name=sgd;grad_accum_steps=2",
		"gate out of the way":  "wepe_gate=0;wepe_learn_gate=false;optimizer.weight_decay=0.1" + dropout,
		"frozen position":      "wepe_gate=0;wepe_learn_gate=false;freeze=position,gate;optimizer.name=sgd" + dropout,
	} {
		if gomlxtest.OnXLA() && name != "learning gate, AdamW" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			after := map[string]map[string][]byte{}
			for _, position := range []string{"learned", "hybrid"} {
				trainer, _ := started(t, "steps=6;warmup_steps=2;learning_rate=0.03;label_smoothing=0.1;model.position="+position+
					";"+settings, Run{From: from, Seed: 7})
				advanced(t, trainer, trainer.Steps)
				after[position] = trainer.model.bits(t)
			}
			for path, want := range after["learned"] {
				if path == "/#rngState" && !strings.Contains(settings, dropout) {
					continue // changed by the surrogate's dropout, but unused
				}
				// XLA fuses the two programs differently, so it rounds differently in each.
				if got := after["hybrid"][path]; !bytes.Equal(got, want) && !(gomlxtest.OnXLA() && within(got, want, 1e-5)) {
					t.Errorf("%s differs", path)
				}
			}
			if n := len(after["learned"]); n < 60 || len(after["hybrid"]) <= n {
				t.Errorf("%d variables against %d: nothing shown", n, len(after["hybrid"]))
			}
			if bytes.Equal(after["learned"]["/vit/position/embedding"], after["learned"]["/vit/class"]) {
				t.Error("nothing was compared")
			}
			gate := binary.LittleEndian.Uint32(after["hybrid"]["/vit/position/gate_raw"])
			if raw := math.Float32frombits(gate); raw != -100 {
				t.Errorf("the gate's raw value moved to %g", raw)
			}
		})
	}
}
