// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/support/xslices"
	"gonum.org/v1/gonum/floats"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/vit"
)

// pretrained is a run of tiny with some settings, one epoch on images of 4×6 pixels: a grid of 2×3.
func pretrained(t *testing.T, settings string) (dir string, m *Model) {
	t.Helper()
	recipe := gomlxtest.Must(tiny().Set("epochs=1;warmup_epochs=0.5;model.position=learned;" + settings))(t)
	run := saved(t, recipe, 40)
	done(t, run)
	m = gomlxtest.Must(Open(run.Backend, run.Dir))(t) // the source: the best checkpoint, averages in place of weights
	return run.Dir, m
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

// tuned is a run of fine with some settings.
func tuned(t *testing.T, from, settings string) Run {
	recipe := gomlxtest.Must(fine().Set(settings))(t)
	return Run{Backend: gomlxtest.Backend(), Recipe: recipe, From: from, Train: dataset(30, 3)}
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
	for name, settings := range map[string]string{"weights": "", "averages": "ema_decay=0.5",
		"no class": "model.pool=mean", "release": "model.patch_norm=true;model.epsilon=1e-5"} {
		from, source := pretrained(t, settings)
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
			what, replaced := name+", "+position, "positions: "+position+" in place of the checkpoint's learned\n"
			if position == "learned" || position == "hybrid" {
				wanted[tablePath], replaced = rows, "positions: "+position+" 2×3 -> 5×4 (bilinear)\n"
			}
			is.Said(t, what, said, replaced)
			is.Equal(t, what+": lines about positions", strings.Count(said, "positions: "), 1)
			maps.DeleteFunc(got, func(path string, _ []float64) bool { // the hybrid's encoding, started from the table
				return strings.HasPrefix(path, positionPath) && path != tablePath
			})
			is.Equal(t, what+": variables before the first step", got, wanted)
			c, s := trainer.Recipe.Model, source.Recipe.Model
			c.ImageRows, c.ImageCols, c.Position = s.ImageRows, s.ImageCols, s.Position
			is.Equal(t, what, c, s)
			a, b := trainer.Recipe.Augment, source.Recipe.Augment
			is.Equal(t, what+": mean and std", [2][3]float64{a.Mean, a.Std}, [2][3]float64{b.Mean, b.Std})
			gomlxtest.NoError(t, trainer.Advance())
		}
	}
}

func TestFrom_StartsAHybridFromTheTableOfItsGrid(t *testing.T) {
	gomlxtest.OnGo(t)
	from, _ := pretrained(t, "")
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
		is.Equal(t, fmt.Sprint(start, ": the mean row is ", apart, " from the table's"), apart < 1e-5, centred)
	}
}

// At its own size, with its own positions and head, a pretrained model has the same logits before the first step. An
// encoding that is added to the model's own starts as the identity, and every one of its variables learns.
func TestRun_StartsAsThePretrainedFunction(t *testing.T) {
	gomlxtest.OnGo(t)
	from, source := pretrained(t, "ema_decay=0.5")
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
		is.Equal(t, position+" begins as the pretrained model", got == want, neutral > 0 || position == "learned")
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
		is.Equal(t, position+": variables that are zero", zeros, neutral)
	}
}

func TestFrom_KeepsTheHeadOnlyForTheSameClasses(t *testing.T) {
	gomlxtest.OnGo(t)
	from, source := pretrained(t, "")
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
		head []float64 // before the first step
		said string
	}{
		"same":       {dataset(30, 3), false, head, ""},
		"same, zero": {dataset(30, 3), true, make([]float64, 12*7), ""},
		"others":     {others, false, nil, "head: a new one for 7 classes in place of the checkpoint's for 7 others\n"},
		"fewer":      {fewer, false, nil, "head: a new one for 5 classes in place of the checkpoint's for 7\n"},
		"zero":       {fewer, true, make([]float64, 12*5), "for 5 classes"},
	} {
		trainer, said := started(t, fmt.Sprintf("head_zeroinit=%v", c.zero), Run{From: from, Train: c.set})
		is.Equal(t, name, trainer.model.weights(t, "")["head/weights"], c.head)
		is.Said(t, name, said, c.said)
		is.Equal(t, name+": it says something of the head", strings.Contains(said, "head:"), c.said != "")
		advanced(t, trainer, 1)
		is.Equal(t, name+": numbers of the head", len(trainer.model.weights(t, "")["head/weights"]), 12*len(c.set.Classes))
	}
}

// The files of Google and many of timm have no names; transformers writes LABEL_0, LABEL_1, … for unknown ones.
func TestFrom_KeepsAHeadOfUnnamedClassesWithALine(t *testing.T) {
	gomlxtest.OnGo(t)
	_, source := pretrained(t, "")
	head := source.weights(t, "")["head/weights"]
	unnamed := strings.Fields("LABEL_0 LABEL_1 LABEL_2 LABEL_3 LABEL_4 LABEL_5 LABEL_6")
	for format, labels := range map[string][]string{"hf": unnamed, "timm": {}} {
		dir := filepath.Join(t.TempDir(), format)
		gomlxtest.Must(source.Export(dir, checkpoints.ExportOptions{Format: format, Labels: labels}))(t)
		trainer, said := started(t, "", Run{From: dir})
		is.Equal(t, format, trainer.model.weights(t, "")["head/weights"], head)
		is.Said(t, format, said, "head: the checkpoint's; its files do not name its 7 classes")
		_, said = started(t, "head_zeroinit=true", Run{From: dir})
		said += strings.Join(gomlxtest.Must(Open(gomlxtest.Backend(), dir))(t).Source.Notes, "\n")
		is.Equal(t, format+": with a head of zeros, and opened: "+said, strings.Contains(said, "head:"), false)
	}
}

func TestFrom_KeepsPositionsWithTheirHyperparameters(t *testing.T) {
	gomlxtest.OnGo(t)
	from, source := pretrained(t, "model.position=wepe;wepe_mode=release")
	trainer, said := started(t, "model.position=wepe", Run{From: from})
	is.Equal(t, "variables of wepe, continued as wepe", trainer.model.weights(t, ""), source.weights(t, ""))
	is.Equal(t, "mode", trainer.Recipe.Params["wepe_mode"], any("release"))
	is.Said(t, "the same positions", said, "positions: the checkpoint's wepe\n")
	_, said = started(t, "model.position=sincos2d", Run{From: from})
	is.Said(t, "other positions", said, "positions: sincos2d in place of the checkpoint's wepe\n")
	paper := tuned(t, from, "model.position=wepe;wepe_mode=paper")
	is.Refused(t, "another mode than the variables'", is.ErrorOf(paper.prepared()),
		"wepe_mode is paper, but release in checkpoint "+from)

	from, source = pretrained(t, "model.position=hybrid")
	trainer, _ = started(t, "model.position=hybrid;wepe_start=centred", Run{From: from}) // changed its table
	got, want := trainer.model.weights(t, ""), source.weights(t, "")
	delete(got, "position/embedding") // resampled
	delete(want, "position/embedding")
	is.Equal(t, "gate and surrogate of a hybrid, continued as one", got, want)
}

func TestResume_NeedsNoSourceAndRefusesAnother(t *testing.T) {
	gomlxtest.OnGo(t)
	from, _ := pretrained(t, "")
	run := tuned(t, from, "steps=6;warmup_steps=3;model.position=hybrid")
	run.Dir = t.TempDir()
	want := finished(t, run)

	run.Dir = t.TempDir()
	stopped(t, run, 2)
	other, scratch := run, run
	other.From, _ = pretrained(t, "learning_rate=0.02")
	scratch.From, scratch.Recipe.Model = "", tiny().Model
	for _, another := range []Run{other, scratch} {
		differs := otherRun(another.fails(t))
		is.Equal(t, "another source", []any{differs.Field, differs.Is == engine.Scratch}, []any{"from", another.From == ""})
	}
	gomlxtest.NoError(t, os.RemoveAll(from))
	run.From, run.Extend = other.From, true // as if trained on since
	endsAs(t, "resumed without its source", run, want)
	m := gomlxtest.Must(Open(run.Backend, run.Dir))(t)
	gomlxtest.Must(m.Evaluate(run.Train))(t)
}

func TestRow_NamesTheSourceOfTheWeights(t *testing.T) {
	gomlxtest.OnGo(t)
	from, _ := pretrained(t, "")
	_, row := done(t, tuned(t, from, ""))
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
	is.Equal(t, "steps", row.Steps, 3)
	is.Equal(t, "epochs", row.Epochs, 0.75)
}

func TestFrom_RefusesASourceThatLacksPartOfTheBackbone(t *testing.T) {
	gomlxtest.OnGo(t)
	from, _ := pretrained(t, "")
	run := gomlxtest.Must(tuned(t, from, "").prepared())(t)
	delete(run.source.imported.Variables, "norm/gain")
	trainer := gomlxtest.Must(run.begin())(t)
	defer trainer.close()
	is.Refused(t, "a missing norm/gain", trainer.Advance(), "norm/gain")
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
	from, _ := pretrained(t, "")
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
			if n := len(after["learned"]); n < 60 || len(after["hybrid"]) <= n ||
				bytes.Equal(after["learned"]["/vit/position/embedding"], after["learned"]["/vit/class"]) {
				t.Errorf("%d variables against %d: nothing shown", n, len(after["hybrid"]))
			}
			gate := binary.LittleEndian.Uint32(after["hybrid"]["/vit/position/gate_raw"])
			is.Equal(t, "the gate's raw value", math.Float32frombits(gate), -100)
		})
	}
}

var squareGrid = checkpoints.Hints{AssumeSquare: true} // for Google's files, which do not contain the grid

// Models of every supported class of transformers and timm. Each is trained with its own encoding and, if it has a
// table, with WePE blended in by the gate: block, head and gate change. Package checkpoints exports them.
func TestFrom_EveryFamilyIsFineTunedAndBlended(t *testing.T) {
	models := map[string]string{"jax": filepath.Join(fixtures.Dir(t, "jax_vit_npz"), "model.npz")}
	for _, set := range []string{"hf_vit", "dinov2_tiny", "dinov2_reg_tiny", "dinov3_vit_tiny", "dinov3_vit_tiny_swiglu"} {
		models[set] = fixtures.Dir(t, set)
	}
	families := fixtures.Dir(t, "families")
	for _, entry := range gomlxtest.Must(os.ReadDir(families))(t) {
		models[entry.Name()] = filepath.Join(families, entry.Name())
	}
	for i, name := range slices.Sorted(maps.Keys(models)) {
		if gomlxtest.OnXLA() && i%12 != 0 {
			continue // each compiles for ten seconds
		}
		t.Run(name, func(t *testing.T) {
			path, options := models[name], checkpoints.ImportOptions{Hints: squareGrid}
			options.Classes = 7
			imported := gomlxtest.Must(checkpoints.Import(path, options))(t)
			own := imported.Config.Position
			positions := []string{own}
			if strings.HasPrefix(own, "learned") {
				positions = append(positions, strings.Replace(own, "learned", "hybrid", 1))
			}
			for _, position := range positions {
				fineTuned(t, path, imported, position)
			}
		})
	}
}

func fineTuned(t *testing.T, path string, imported *checkpoints.Imported, position string) {
	t.Helper()
	c := imported.Config
	trainer, _ := started(t, fmt.Sprintf("model.position=%s;augment.size=[%d,%d]", position, c.ImageRows, c.ImageCols),
		Run{From: path, Import: squareGrid})
	before := trainer.model.weights(t, "")
	for variable, value := range imported.Variables {
		if !strings.HasPrefix(variable, headPath) && !strings.HasPrefix(variable, positionPath) &&
			!slices.Equal(before[variable], gomlxtest.Values(t, value)) {
			t.Errorf("%s: %s is not that of the file", position, variable)
		}
	}
	if a := trainer.Recipe.Augment; imported.Mean != nil {
		is.Equal(t, position, [][]float64{a.Mean[:], a.Std[:]}, [][]float64{imported.Mean, imported.Std})
	}
	is.Equal(t, position, trainer.Recipe.Model.Epsilon, c.Epsilon)
	advanced(t, trainer, trainer.Steps)
	after := trainer.model.weights(t, "")
	watched := []string{"head/biases", "patch/weights", "block_00/mlp/output/weights"}
	if position != c.Position {
		watched = append(watched, "position/gate_raw")
	}
	for _, variable := range watched {
		if n := len(after[variable]); n == 0 || slices.Equal(before[variable], after[variable]) {
			t.Errorf("%s: %s is %d numbers, the same after %d steps", position, variable, n, trainer.Steps)
		}
	}
}

// logitsIn returns the logits of a model whose variables are in a store.
func logitsIn(t *testing.T, store *model.Store, c vit.Config, images any) []float64 {
	return gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) []*Node {
		return []*Node{c.Logits(s.Store().Scope("/"+modelScope), in[0])}
	}, images)[0]
}

func TestDHVT_Learns(t *testing.T) {
	gomlxtest.OnGo(t)
	recipe := tiny()
	recipe.Architecture, recipe.Epochs, recipe.EvalEveryEpochs, recipe.Model.Depth = DHVT, 6, 6, 1
	for _, recipe.Model.Position = range gomlxtest.InTurn(1, "none", "wepe") {
		m, row := done(t, Run{Backend: gomlxtest.Backend(), Recipe: recipe, Train: dataset(90, 1), Test: dataset(70, 2)})
		if loss, chance := float64(row.Test.Loss), math.Log(7); !(loss < chance/2) {
			t.Errorf("%s: the test loss is %.3f where chance is %.3f", row.Encoding, loss, chance)
		}
		is.Equal(t, "encoding", row.Encoding, recipe.Model.Position)
		is.Equal(t, "a DHVT", m.store.GetVariable("/vit/block_00/mlp/depthwise/norm/variance") != nil, true)
	}
}

func TestDHVT_RefusesWhatIsOfAViT(t *testing.T) {
	gomlxtest.OnGo(t)
	recipe := gomlxtest.Must(tiny().Set("architecture=dhvt;model.position=none"))(t)
	run := saved(t, recipe, 47)
	stopped(t, run, 1)
	m := gomlxtest.Must(Open(run.Backend, run.Dir))(t)
	_, exported := m.Export(filepath.Join(t.TempDir(), "model"), checkpoints.ExportOptions{})
	for _, err := range []error{exported, m.Activations(run.Train, 1, nil, nil)} {
		is.Refused(t, "a DHVT", err, "architecture dhvt")
	}
	start := run
	start.From, start.Dir, start.Recipe.Architecture = run.Dir, "", ""
	is.Refused(t, "a run that starts from it", start.fails(t), "no ViT but a dhvt")
	run.Recipe.Architecture = ""
	is.Equal(t, "another architecture", otherRun(run.fails(t)).Field, "architecture")
	last := filepath.Join(run.Dir, checkpoints.LastDir)
	info := gomlxtest.Must(checkpoints.Inspect(last, checkpoints.ImportOptions{}))(t)
	is.Equal(t, "Inspect describes it", []any{info.Refused, info.Config.Width}, []any{"", 12})
}

func TestLoRA_TrainsAsPEFT(t *testing.T) { fixtures.Each(t, testLoRATrainsAsPEFT) }

// The fixture has float64 values of peft: rounding of float32 in five steps is below 1e-5.
func testLoRATrainsAsPEFT(t *testing.T) {
	const set, tol = "lora", 1e-5
	var meta struct {
		Rank, Steps, Classes int
		LearningRate         float64 `json:"learning_rate"`
		Momentum             float64
	}
	fixtures.JSON(t, set, "meta.json", &meta)
	want := fixtures.Tensors(t, set, "tensors.safetensors")
	images := want["levels"]
	shown := &data.InMemory{Info: data.Info{Name: "levels", Height: images.Shape[1], Width: images.Shape[2], Channels: 3}}
	for class := range meta.Classes {
		shown.Classes = append(shown.Classes, fmt.Sprint("class ", class))
	}
	shown.Pixels = xslices.Map(images.Data, func(level float64) uint8 { return uint8(level) })
	shown.Labels = xslices.Map(want["labels"].Data, func(label float64) int32 { return int32(label) })
	half := [3]float64{0.5, 0.5, 0.5}
	run := Run{Backend: gomlxtest.Backend(), Train: shown, From: fixtures.Dir(t, set), Dir: t.TempDir(), Recipe: Recipe{
		Name: "adapters", LoRA: meta.Rank, LoRAMLP: true, Epochs: meta.Steps, BatchSize: shown.Len(), ValFraction: -1,
		LearningRate: meta.LearningRate, Optimizer: engine.Optimizer{Name: "sgd", Momentum: meta.Momentum},
		Augment: data.Augment{Mean: half, Std: half},
	}}
	c := begun(t, run)
	for name, x := range want {
		if path, ok := strings.CutPrefix(name, "first/"); ok {
			v := c.model.store.GetVariable("/lora/vit/" + path)
			gomlxtest.NoError(t, v.SetValue(tensors.FromFlatDataAndDimensions(x.Float32(), x.Shape...)))
		}
	}
	backbone := c.model.weights(t, "")
	advanced(t, c, meta.Steps)
	factors := c.model.weights(t, weight.LowRankRoot)
	wanted := 0
	for name, x := range want {
		if path, ok := strings.CutPrefix(name, "last/"); ok {
			gomlxtest.NearAbs(t, path, factors[path], x.Data, tol)
			wanted++
		}
	}
	is.Equal(t, "factors", len(factors), wanted)
	for path, now := range c.model.weights(t, "") {
		is.Equal(t, path+" is trained", !slices.Equal(now, backbone[path]), strings.HasPrefix(path, headPath))
	}
	near := func(what string, m *Model) {
		t.Helper()
		gomlxtest.NearAbs(t, what, slices.Concat(gomlxtest.Must(m.logitsOf(shown))(t)...), want["logits"].Data, tol)
	}
	eval, augment := c.model.eval, c.model.evalAugment() // then with separate adapters, as in a training step
	c.model.eval = gomlxtest.Must(model.NewExec(run.Backend, c.model.store, func(s *model.Scope, in []*Node) []*Node {
		s.Store().SetTraining(in[0].Graph(), true)
		plan := in[1 : 1+data.PlanLen]
		return []*Node{c.model.logits(s.In(modelScope), augment.Images(in[0], plan), plan)}
	}))(t)
	near("while it trains", c.model)
	c.model.eval = eval
	gomlxtest.Must(c.choose())(t)
	near("after the run", c.model)
	dir := filepath.Join(t.TempDir(), "exported")
	gomlxtest.Must(c.model.Export(dir, checkpoints.ExportOptions{}))(t)
	near("exported", gomlxtest.Must(Open(run.Backend, dir))(t))
}

// Without lora_mlp the attention alone is adapted.
func TestLoRA_ResumesOpensAndStartsOthersWithItsSum(t *testing.T) {
	gomlxtest.OnGo(t)
	from, _ := pretrained(t, "")
	for _, ema := range []string{"0", "0.5"} {
		recipe := gomlxtest.Must(tiny().Set("lora=2;grad_accum_steps=2;ema_decay=" + ema))(t)
		run := saved(t, recipe, 47)
		run.Test, run.From = dataset(9, 2), from
		want := finished(t, run)
		run.Dir = ""
		factors := begun(t, run).model.weights(t, weight.LowRankRoot)
		is.Equal(t, "factors, two of each of four matrices in two blocks", len(factors), 2*4*2)
		run.Dir = t.TempDir()
		stopped(t, run, 8)
		endsAs(t, "resumed, ema "+ema, run, want)
		opened := gomlxtest.Must(Open(run.Backend, run.Dir))(t)
		is.Equal(t, "opened, ema "+ema, gomlxtest.Must(opened.Evaluate(run.Test))(t), want.rows.Results[0].Test)
		next := run
		next.From, next.Dir = run.Dir, ""
		next.Recipe.LoRA = 0
		started := begun(t, next).model.weights(t, "")
		is.Equal(t, "a run that starts from it, ema "+ema, started, opened.weights(t, ""))
	}
}

// Adapters that GoMLX's trainer trained are in the exported files; the matrices themselves have kept their values.
func TestExport_MergesAdaptersThatGoMLXTrained(t *testing.T) {
	b, store := gomlxtest.Backend(), model.NewStore()
	from, source := pretrained(t, "")
	scope := store.Scope("/" + modelScope)
	m := gomlxtest.Must(checkpoints.Load(b, scope, from, checkpoints.Options{LoRA: 2, LoRAMLP: true}))(t)
	images := dataset(31, 5)
	augment := source.evalAugment()
	trainer := train.NewTrainer(b, store, m.ModelFn(data.BatchImages), loss.SparseCategoricalCrossEntropyLogits,
		&engine.Optimizer{Schedule: engine.Schedule{Peak: 0.05}}, nil, nil)
	for batch, err := range data.Batches(images, 6, augment, 1).Iter() {
		gomlxtest.NoError(t, err)
		gomlxtest.Must(trainer.TrainStep(batch))(t)
		if trainer.GlobalStep() == 4 {
			break
		}
	}
	input := checkpoints.Noise(m.Config, 3, 7)
	adapted := logitsIn(t, store, m.Config, input)
	matrix := store.GetVariable("/vit/block_01/mlp/hidden/weights")
	kept := source.weights(t, "")["block_01/mlp/hidden/weights"]
	is.Equal(t, "a matrix with an adapter", gomlxtest.Values(t, matrix.MustValue()), kept)
	dir := filepath.Join(t.TempDir(), "out")
	gomlxtest.Must(m.Export(dir, b, checkpoints.ExportOptions{Format: "native"}))(t)
	back, again := gomlxtest.Must(checkpoints.Import(dir, checkpoints.ImportOptions{}))(t), model.NewStore()
	gomlxtest.NoError(t, back.Load(again.Scope("/"+modelScope)))
	gomlxtest.NearAbs(t, "exported", logitsIn(t, again, back.Config, input), adapted, 1e-5)
	gomlxtest.NearAbs(t, "after the export", logitsIn(t, store, m.Config, input), adapted, 1e-5)
	unchanged := floats.EqualApprox(logitsIn(t, source.store, m.Config, input), adapted, 1e-3)
	is.Equal(t, "the adapters changed nothing", unchanged, false)
}
