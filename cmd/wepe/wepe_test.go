// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
	"github.com/wepe-go/wepe/cmd/wepe/internal/dataset"
	"github.com/wepe-go/wepe/data"
	detection "github.com/wepe-go/wepe/detect"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/study"
	"github.com/wepe-go/wepe/vit"
)

// invoke runs a command, a line of words and further arguments, and returns what it prints on standard output.
func invoke(t *testing.T, line string, args ...string) (out string, code int, err error) {
	t.Helper()
	var buffer bytes.Buffer
	root := command()
	root.SetOut(&buffer)
	root.SetErr(&buffer)
	code, err = cli.Run(root, append(strings.Fields(line), args...))
	return buffer.String(), code, err
}

// succeeds runs a command that must succeed.
func succeeds(t *testing.T, line string, args ...string) string {
	t.Helper()
	out, code, err := invoke(t, line, args...)
	if err != nil || code != 0 {
		t.Fatalf("wepe %s %q: exit code %d, %v", line, args, code, err)
	}
	return out
}

// complains returns what is printed on standard error.
func complains(t *testing.T, do func()) string {
	t.Helper()
	printed := gomlxtest.Must(os.Create(filepath.Join(t.TempDir(), "stderr")))(t)
	before := os.Stderr
	os.Stderr = printed
	defer func() { os.Stderr = before }()
	do()
	return string(gomlxtest.Must(os.ReadFile(printed.Name()))(t))
}

// refuses runs a command that must fail with an exit code, and an error that contains a text.
func refuses(t *testing.T, code int, want, line string, args ...string) {
	t.Helper()
	if _, got, err := invoke(t, line, args...); got != code || err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("wepe %s %q: exit code %d, %v; want %d and %q", line, args, got, err, code, want)
	}
}

// results are the rows of a run.
func results(t *testing.T, run string) []report.Result {
	t.Helper()
	return gomlxtest.Must(report.ReadFiles(filepath.Join(run, "rows.jsonl")))(t).Results
}

// row is the last of a run.
func row(t *testing.T, run string) report.Result {
	t.Helper()
	rows := results(t, run)
	return rows[len(rows)-1]
}

// asJSON runs a command with --json.
func asJSON[T any](t *testing.T, line string, args ...string) (value T) {
	t.Helper()
	gomlxtest.NoError(t, json.Unmarshal([]byte(succeeds(t, line, append(args, "--json")...)), &value))
	return value
}

// otherRun returns in what the run of a directory differs, of a command that it refused.
func otherRun(err error) string {
	if other := (*engine.OtherRunError)(nil); errors.As(err, &other) {
		return other.Field
	}
	return ""
}

// copied returns a copy of a directory.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "run")
	gomlxtest.NoError(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

const oldRun = "testdata/run-701e9e7"

type evaluated struct {
	Split   string
	Metrics report.Metrics
	Classes []report.ClassScore
}

// The run was trained, stopped and evaluated by examples/cifar100 of commit 701e9e7 on pure Go; the numbers were
// printed by that program, those of the resumed run are in its row. The tolerance is for other processors.
func TestOldRun_HasTheSameNumbers(t *testing.T) {
	e := asJSON[evaluated](t, "eval --data shapes", oldRun)
	is.Near(t, "loss", float64(e.Metrics.Loss), 0.8798, 1e-4)
	is.Near(t, "top-1", float64(e.Metrics.Top1), 0.4330, 1.1e-3)
	text := complains(t, func() { succeeds(t, "eval --data shapes --size 40x24", oldRun) })
	is.Equal(t, "a warning about its own pixels, which have no normalization", strings.Contains(text, "warning"), false)
	is.Equal(t, "split", e.Split, report.Test)
	is.Equal(t, "images", e.Metrics.Images, 1000)
	names, want := []string{"bottom left", "bottom right", "top left", "top right"}, []float64{0.490, 0.460, 0.028, 0.022}
	for i, c := range predicted(t, oldRun).Labels {
		is.Equal(t, fmt.Sprint("answer ", i), c.Name, names[i])
		is.Near(t, c.Name, c.Probability, want[i], 6e-4)
	}

	dir := copied(t, oldRun)
	succeeds(t, "resume --data shapes", dir)
	resumed := row(t, dir)
	is.Near(t, "test loss", float64(resumed.Test.Loss), 0.535837792004401, 2e-5)
	is.Near(t, "validation loss", float64(resumed.Validation.Loss), 0.4989272219471967, 2e-5)
	is.Near(t, "test top-1", float64(resumed.Test.Top1), 0.775, 1.1e-3)
	is.Equal(t, "weights", resumed.Weights, report.Weights{Name: "best", Step: 216})
	is.Equal(t, "steps", resumed.Steps, 216)
	// Now the directory describes the data: the fraction, the label and the dataset stay.
	succeeds(t, "resume --epochs 13", dir)
	extended := row(t, dir)
	is.Equal(t, "steps", extended.Steps, 234)
	is.Equal(t, "fraction", extended.Fraction, 0.2)
}

// Google's files do not state the grid of their positions: a command says it once.
func TestResume_KeepsTheWeightsAndHowTheModelWasRead(t *testing.T) {
	old := gomlxtest.Must(filepath.Abs(oldRun))(t)
	t.Chdir(t.TempDir())
	succeeds(t, "export --to jax", old, "jax")
	gomlxtest.NoError(t, errors.Join(os.Remove("jax/config.json"), os.Remove("jax/preprocessor_config.json")))
	line := "train jax --size 16x16 --epochs 1 --set batch_size=6 --out run --data " + images(t, "own", 8, 16, 16)
	refuses(t, 1, "grid", line)
	succeeds(t, line, "--assume-square")
	for _, c := range []struct{ flag, want string }{{"", "best"}, {" --checkpoint last", "last"}, {"", "last"},
		{" --checkpoint best", "best"}} {
		for _, dir := range []string{"run/last", "run/best"} { // as if it had been interrupted before its first checkpoint
			gomlxtest.NoError(t, os.RemoveAll(dir))
		}
		succeeds(t, "resume run"+c.flag)
		is.Equal(t, "weights of resume"+c.flag, row(t, "run").Weights.Name, c.want)
	}
}

func TestTrain_StartsFromTheWeightsThatAreAskedFor(t *testing.T) {
	old := copied(t, oldRun)
	t.Chdir(t.TempDir())
	succeeds(t, "resume --data shapes", old) // so that the last weights are others than the best
	dir := images(t, "own", 8, 32, 32)
	for i, weights := range []string{"best", "last"} {
		out := fmt.Sprint(i)
		text := complains(t, func() {
			succeeds(t, "train --epochs 1 --set batch_size=6 --out "+out+" --checkpoint "+weights+" --data", dir, old)
		})
		is.Equal(t, "weights of --checkpoint "+weights, row(t, out).Weights.Name, weights)
		is.Said(t, "--checkpoint "+weights, text, old+": "+weights+", step 216\n")
	}
}

// A shape in the left half of the image would be in the right half of its mirror image.
func TestChosen_DoesNotAugmentPositionsAway(t *testing.T) {
	dir, lists := images(t, "own", 8, 32, 32), map[string][]byte{}
	for list, n := range map[string]int{"train800": 800, "val200": 200, "train800val200": 1000, "test": 73_728} {
		for i := range n {
			lists["dsprites_loc/"+list+".txt"] = fmt.Appendf(lists["dsprites_loc/"+list+".txt"], "a.png %d\n", i%16)
		}
	}
	for spec, augmented := range map[string]bool{"shapes": false, "shapes:location": false, dir: true,
		"vtab:dsprites_loc:" + datatest.Tree(t, lists): false} {
		d := gomlxtest.Must(dataset.Open(t.Context(), spec, dataset.Options{}))(t)
		for _, model := range []string{"", demoModel} {
			a := new(training).chosen(d, model).Augment
			is.Equal(t, spec+" from "+model+": flips and crops", [2]bool{a.HFlip > 0, a.CropScale != [2]float64{}},
				[2]bool{augmented, augmented})
		}
	}
}

// A recipe in steps has its warm-up in steps.
func TestEpochs_KeepTheShareOfTheWarmup(t *testing.T) {
	d := gomlxtest.Must(dataset.Open(t.Context(), "shapes", dataset.Options{}))(t)
	o := training{recipe: "dosovitskiy-cifar100", epochs: 6}
	steps, got := gomlxtest.Must(finetune.RecipeByName(o.recipe))(t), o.chosen(d, "")
	is.Equal(t, "epochs and steps", []int{got.Epochs, got.Steps, got.WarmupSteps}, []int{6, 0, 0})
	is.Equal(t, "warm-up epochs", got.WarmupEpochs, 6*float64(steps.WarmupSteps)/float64(steps.Steps))
	is.Equal(t, "the recipe has a warm-up", steps.WarmupSteps > 0, true)
	o = training{recipe: "photos", epochs: 13} // a twelfth
	got = o.chosen(d, "")
	is.Equal(t, "epochs of photos", got.Epochs, 13)
	is.Near(t, "warm-up of photos", got.WarmupEpochs, 13./12, 1e-9)
	for _, recipe := range []string{"photos", "dosovitskiy-cifar100"} {
		o = training{recipe: recipe, epochs: 8, set: []string{"warmup_epochs=3"}}
		is.Equal(t, "warm-up that --set gives "+recipe, o.chosen(d, "").WarmupEpochs, 3)
	}
	o = training{recipe: "photos", set: []string{"steps=40"}} // in place of its epochs
	got = o.chosen(d, "")
	is.Equal(t, "steps and epochs", []int{got.Steps, got.Epochs}, []int{40, 0})
	is.Equal(t, "warm-up", got.WarmupEpochs, 0)
}

// As many epochs as show 2,400 images to a ViT-Ti at 224×224, at least 3: this model has half of its blocks.
func TestFineTuning_HasEpochsForTheSizeOfTheTraining(t *testing.T) {
	d := gomlxtest.Must(dataset.Open(t.Context(), "shapes", dataset.Options{}))(t)
	half := checkpoints.Info{Config: vit.Config{Width: 192, Depth: 6, PatchSize: 16, ImageRows: 224, ImageCols: 224}}
	for name, c := range map[string]struct {
		of    training
		times int
	}{
		"its own": {training{}, 2}, "--size": {training{size: [2]int{112, 112}}, 8},
		"--set": {training{set: []string{"augment.size=[112,112]"}}, 8},
		"0":     {training{set: []string{"augment.size=[0,0]"}}, 2}, // no size: its own
	} {
		c.of.info = &half
		is.Equal(t, "epochs of MODEL at the size of "+name, c.of.chosen(d, "MODEL").Epochs, max(3, c.times*2400/d.Images()))
	}
}

// images writes a folder per class of images of one colour each.
func images(t *testing.T, name string, perClass, height, width int) string {
	t.Helper()
	files := map[string][]byte{}
	for k, class := range []string{"blue", "green", "red"} {
		for i := range perClass {
			img := image.NewRGBA(image.Rect(0, 0, width, height))
			for p := range height * width {
				channels := [3]uint8{uint8(7 * i), uint8(11 * p), uint8(13 * i)}
				channels[2-k] = 240
				img.SetRGBA(p%width, p/width, color.RGBA{channels[0], channels[1], channels[2], 255})
			}
			files[filepath.Join(name, class, string(rune('a'+i))+".png")] = datatest.PNG(img)
		}
	}
	return filepath.Join(datatest.Tree(t, files), name)
}

// small are settings that train in a second.
const small = " --set model.width=12;model.depth=1;model.num_heads=1;batch_size=6;model.patch_size=8 --epochs 2"

func TestOwnImages_AreTrainedEvaluatedPredictedExportedAndFineTuned(t *testing.T) {
	dir := images(t, "colours", 13, 20, 28)
	t.Chdir(t.TempDir())
	const run = "runs/photos-colours-wepe-sphere"
	is.Said(t, "train", succeeds(t, "train --size 16x24 --position wepe-sphere --data "+dir+small), "wepe predict "+run,
		run+"/report.html")
	r := row(t, run)
	// By Python's hashlib the SHA-256 of 0/blue/a.png … is below a fifth for 3, 4 and 3 of the 13 images of each class.
	is.Equal(t, "the row", []any{r.Validation.Images, r.ImageSize, r.Encoding}, []any{10, "16x24", "wepe-sphere"})
	eval := func(args string) evaluated { return asJSON[evaluated](t, "eval "+run+" --data "+args) }
	e := eval(dir)
	is.Equal(t, "eval", e.Metrics, r.Validation)
	is.Equal(t, "eval", []any{e.Split, len(e.Classes)}, []any{report.Validation, 3})
	flipped := eval(dir + " --tta flip").Metrics
	is.Equal(t, "of two views: images, equal", []any{flipped.Images, flipped.Loss == e.Metrics.Loss}, []any{10, false})
	all, train := eval(dir+" --split all").Metrics, eval(dir+" --split train").Metrics
	is.Equal(t, "images, and those for training", [2]int{all.Images, train.Images}, [2]int{39, 29})
	mean := (float64(train.Loss)*29 + float64(e.Metrics.Loss)*10) / 39
	is.Near(t, "the loss of all images", float64(all.Loss), mean, 1e-5)
	three := eval(parts(t, map[string]int{"train": 3, "val": 2, "test": 1}, 20, 28) + " --split all")
	is.Equal(t, "images of three splits", three.Metrics.Images, 18)
	table := gomlxtest.Must(csv.NewReader(strings.NewReader(succeeds(t, "predict --csv --top 2", run, dir))).ReadAll())(t)
	single := asJSON[struct{ Images []finetune.Prediction }](t, "predict", run, table[1][0]).Images[0]
	is.Equal(t, "rows of the table of a folder", len(table), 1+2*3*13)
	is.Equal(t, "its second answer, and its first class", []string{table[2][1], table[1][2]},
		[]string{"2", single.Labels[0].Name})
	p := gomlxtest.Must(strconv.ParseFloat(table[1][3], 64))(t)
	is.Near(t, "probability in the table", p, single.Labels[0].Probability, 1e-5)
	for _, line := range []string{"export " + run + " hf --to hf", "verify " + run + " hf", "verify " + run} {
		succeeds(t, line)
	}

	// Fine-tuning takes the model's own size and position, of an export the table.
	for from, want := range map[string]string{"hf": "learned", run: "wepe-sphere"} {
		succeeds(t, "train --epochs 1 --set batch_size=6 --out "+want+" --data", dir, from)
		r := row(t, want)
		is.Equal(t, "from "+from, [2]string{r.Encoding, r.ImageSize}, [2]string{want, "16x24"})
	}
}

// More images than are predicted at once; of a terminal a name must not be obeyed.
func TestPredict_ReportsEachUnreadImageAndGoesOn(t *testing.T) {
	const hostile, n = "\x1b[2J.png", 300
	raw := gomlxtest.Must(os.ReadFile(corner))(t)
	dir := datatest.Tree(t, map[string][]byte{"bad.png": []byte("no image"), hostile: raw})
	old := gomlxtest.Must(filepath.Abs(oldRun))(t)
	t.Chdir(dir)
	args := []string{old, "bad.png"}
	for i := range n - 1 {
		args = append(args, fmt.Sprint("missing", i))
	}
	args = append(args, hostile)
	var out string
	text := complains(t, func() {
		var code int
		var err error
		out, code, err = invoke(t, "predict --json", args...)
		is.Equal(t, "exit code", code, 1)
		is.Said(t, "error", fmt.Sprint(err), "300 of 301")
	})
	is.Said(t, "as of wepe serve", out, `"name":`, `"error":`, `"labels":`, `"label":`, `"class":`, `"probability":`)
	var got struct{ Images []finetune.Prediction }
	gomlxtest.NoError(t, json.Unmarshal([]byte(out), &got))
	last := got.Images[len(got.Images)-1]
	is.Equal(t, "images, the last", []any{len(got.Images), last.Name, len(last.Labels)}, []any{n + 1, hostile, 4})
	is.Equal(t, "a likely one", last.Labels[0].Probability >= 0.25 && last.Labels[0].Name != "", true)
	is.Said(t, "the first", "error "+got.Images[0].Error, "error bad.png: ")
	for _, name := range []string{"bad.png", "missing0:", "missing298:"} {
		is.Equal(t, name+" is reported", strings.Count(text, name), 1)
	}
	out, code, _ := invoke(t, "predict", old, "nowhere", "--csv")
	is.Equal(t, "output and exit code of no image", []any{out, code}, []any{"", 1})
	m := gomlxtest.Must(finetune.Open(gomlxtest.Backend(), old))(t)
	defer m.Finalize()
	for raw, want := range map[bool]string{true: hostile, false: `\x1b[2J.png`} {
		var table bytes.Buffer
		c := &cobra.Command{}
		c.SetOut(&table)
		gomlxtest.NoError(t, predictions{top: 1, csv: true, raw: raw}.print(c, m, []string{hostile}))
		rows := gomlxtest.Must(csv.NewReader(&table).ReadAll())(t)
		is.Equal(t, "rows", len(rows), 2)
		is.Equal(t, "name", rows[1][0], want)
	}
}

func TestPredict_WarnsOnceOf16BitGrey(t *testing.T) {
	img := image.NewGray16(image.Rect(0, 0, 30, 20))
	for i := range 30 * 20 {
		img.SetGray16(i%30, i/30, color.Gray16{Y: uint16(2000 * (i%30 + 1))}) // 2,000 to 60,000
	}
	dir := datatest.Tree(t, map[string][]byte{"1.png": datatest.PNG(img), "2.png": datatest.PNG(img)})
	text := complains(t, func() {
		succeeds(t, "predict", oldRun, filepath.Join(dir, "1.png"), filepath.Join(dir, "2.png"))
	})
	is.Equal(t, "warnings of predict", strings.Count(text, data.ClippedGrey), 1)
}

// transformers' DINOv3ViTModel has no head: the export's features are compared.
func TestExport_OfAModelWithoutAHead(t *testing.T) {
	for _, args := range [][]string{{fixtures.Dir(t, "dinov3_vit_tiny"), "hf", "--no-head"},
		{demoModel, "timm", "--classes", "5"}} { // or a new head
		out := succeeds(t, "export "+args[0]+" "+filepath.Join(t.TempDir(), args[1])+" --to", args[1:]...)
		is.Said(t, "the export of "+args[0], out, "random images differ by")
		is.Equal(t, args[0]+" is not compared", strings.Contains(out, "the largest is 0\n"), false)
	}
}

// A directory holds one run, whose data may move, and neither its images nor MODEL's files; one that made no step is
// free. A refused command does not change its description.
func TestDirectory_HoldsOneRun(t *testing.T) {
	a, b := images(t, "A", 8, 16, 16), images(t, "B", 9, 16, 16)
	t.Chdir(t.TempDir())
	const scratch = " --stream=false --size 16x16 --epochs 1 --set " + // in memory: pixels are compared
		"model.width=12;model.depth=1;model.num_heads=1;batch_size=6;model.patch_size=8"
	first, tuned := "train --data "+a+scratch, " --data "+a+" --epochs 1 --set batch_size=6 --out RUN"
	for _, line := range []string{first + " --out A2", first + " --seed 1 --out A3"} {
		succeeds(t, line)
	}
	_, _, err := invoke(t, "train A2"+tuned+" --set freeze=weights,vectors,head,position") // nothing is left to train
	is.Equal(t, "fails before the first step", err != nil, true)
	succeeds(t, "train A2"+tuned)
	succeeds(t, "export A2 M --to native")
	gomlxtest.NoError(t, os.Symlink(a, "L"))
	for _, line := range []string{first + " --out " + filepath.Join(a, "run"),
		"train M --data " + a + scratch + " --out M", "train M/model.safetensors --data " + a + scratch + " --out M",
		"train --data L" + scratch + " --out " + filepath.Join(a, "run"), "compare --data " + a + " --out " + a,
		"features A2 --data " + a + " --out " + filepath.Join(a, "x")} {
		refuses(t, 2, "--out", line)
	}
	rows := copied(t, "A2") // alone
	for _, name := range []string{"last", "best", "run.json"} {
		gomlxtest.NoError(t, os.RemoveAll(filepath.Join(rows, name)))
	}
	described := func() string {
		return string(append(gomlxtest.Must(os.ReadFile("A2/run.json"))(t),
			gomlxtest.Must(os.ReadFile("RUN/run.json"))(t)...))
	}
	before := described()
	refused := func(code int, field, line string) {
		t.Helper()
		_, got, err := invoke(t, line)
		is.Equal(t, fmt.Sprint("exit code, and what differs, of wepe ", line, ": ", err), []any{got, otherRun(err)},
			[]any{code, field})
		is.Equal(t, "the description after wepe "+line, described(), before)
	}
	for line, field := range map[string]string{"train --data " + b + scratch + " --out A2": "dataset",
		first + " --recipe cifar100-small --out A2": "recipe", first + " --seed 7 --out A2": "seed",
		first + " --position learned --out A2": "model.position", "train A3" + tuned: "from",
		first + " --seed 7 --out " + rows:                   "seed",
		"compare --data " + a + " --recipe shapes --out A2": "kind"} {
		refused(3, field, line)
	}
	refused(1, "", "resume A2 --data "+b)
	refused(2, "", "resume A2 --stream")

	// An image that the description does not hold: only the training compares all.
	image := filepath.Join(a, "green", "d.png")
	pixels := gomlxtest.Must(os.ReadFile(image))(t)
	other := gomlxtest.Must(os.ReadFile(filepath.Join(a, "green", "c.png")))(t)
	gomlxtest.NoError(t, os.WriteFile(image, other, 0o600))
	refused(3, "data", "resume A2 --epochs 2")
	gomlxtest.NoError(t, os.WriteFile(image, pixels, 0o600))
	for _, line := range []string{first + " --out A2", "resume A2", "train A2" + tuned, "resume RUN"} {
		succeeds(t, line)
	}
	moved := filepath.Join(t.TempDir(), "other") // also under another name
	gomlxtest.NoError(t, os.Rename(a, moved))
	refuses(t, 1, a, "resume A2") // before the new directory is named
	succeeds(t, "resume A2 --data", moved)
	gomlxtest.NoError(t, errors.Join(os.Rename(moved, a), os.Remove(image)))
	before = described()
	refused(3, "data", first+" --out A2")
}

func TestList_HasALineForEachName(t *testing.T) {
	for list, want := range map[string]string{"recipes": "cifar100-small", "positions": "wepe-sphere", "models": "Ti/P",
		"data": "cifar100:PATH", "analyses": "attention", "studies": "ablation"} {
		is.Said(t, "list "+list, strings.ReplaceAll(succeeds(t, "list", list), "\n", " \n"), want+" ")
		for _, e := range asJSON[map[string][]entry](t, "list", list)[list] {
			is.Equal(t, fmt.Sprintf("list %s: %+v is complete", list, e), e.Name != "" && e.About != "", true)
		}
	}
	is.Said(t, "inspect", succeeds(t, "inspect", oldRun), "best, step 54")
	other := datatest.Tree(t, map[string]string{"config.json": `{"model_type":"vit"}`, // a model that no command opens
		"model.safetensors": "\x02\x00\x00\x00\x00\x00\x00\x00{}"})
	refuses(t, 1, "refused", "inspect", other)
	refuses(t, 1, "refused", "inspect", other, "--json")
}

func TestDoctor_ChecksTheNumbers(t *testing.T) {
	d := asJSON[struct {
		OK     bool
		Checks []check
	}](t, "doctor")
	found := map[string]check{}
	for _, k := range d.Checks {
		found[k.Name] = k
	}
	for _, name := range []string{"go", "chosen", "product", "sums", "encoding"} {
		is.Equal(t, name, found[name].OK, true)
	}
	is.Equal(t, "all", d.OK, true)
	is.Said(t, "product", found["product"].Detail, "GFLOP/s")
}

// brief are settings that train in a moment.
const brief = " --set epochs=0;warmup_epochs=0;eval_every_steps=2;model.width=12;model.depth=1;model.num_heads=1"

func TestTable_HasNoRowsOfOtherSettingsAndWritesNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	const dir, few = "c[1]", brief + " --set val_fraction=0.02" // a pattern, if it were one
	out := succeeds(t, "compare --recipe shapes --out none --table --set steps=4"+few)
	is.Equal(t, "the table of no run names files", strings.Contains(out, "none"), false)
	compare := func(args string) (string, error) {
		out, _, err := invoke(t, "compare --recipe shapes --out "+dir+few+args)
		return out, err
	}
	tabled := func(args, notes string, words ...string) {
		t.Helper()
		out := gomlxtest.Must(compare(args))(t)
		is.Said(t, args, out, words...)
		is.Equal(t, args+": it notes rows", strings.Contains(out, "not counted"), notes != "")
		is.Said(t, args, out, notes)
	}
	const first = " --set learning_rate=0.003;steps=4"
	tabled(first+" --positions=learned", "", finetune.PageFile, "chance is 25.0 %")
	before := contents(t, dir)
	const two = " --positions learned,wepe"
	for field, c := range map[string][2]string{
		"learning_rate": {" --set learning_rate=0.1;steps=4;model.depth=7", "its learning_rate is 0.003, this one's 0.1"},
		"steps":         {" --set learning_rate=0.003;steps=8", "its steps is 4, this one's 8"},
		"from":          {first + " " + dir + "/learned-seed0", "its from is none"},
	} {
		tabled(c[0]+two+" --table", c[1], "2 of 2 training runs are not done yet")
		_, err := compare(c[0] + two)
		is.Equal(t, field+": a training in the same directory", otherRun(err), field)
		is.Equal(t, field+": files of the study", contents(t, dir), before)
	}
	tabled(first+two+" --table", "", "1 of 2 training runs are not done")
	_, err := compare(first + " --resample-images --fractions 0.5")
	is.Equal(t, "the images of each seed in the same directory", otherRun(err), "subsets")
	_, _, err = invoke(t, "train --recipe shapes --out "+dir+few+first)
	is.Equal(t, "a training in the study's directory", otherRun(err), "kind")
}

// contents are the files below a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files[path] = string(text)
		return err
	})
	gomlxtest.NoError(t, err)
	return files
}

func TestSubsets_AreOfTheSeed(t *testing.T) {
	d := gomlxtest.Must(dataset.Open(t.Context(), "shapes", dataset.Options{}))(t)
	recipe := gomlxtest.Must(finetune.RecipeByName("shapes"))(t)
	drawn := func(subsets bool, position string, seed int) string {
		images := gomlxtest.Must(task(recipe, d, subsets).Images(t.Context(), study.Unit{Recipe: recipe, Fraction: 0.2,
			Seed: seed, Variant: study.Variant{Position: position}}))(t)
		is.Equal(t, "images of 3,000", images.Train.Len(), 600)
		return data.Fingerprint(images.Train)
	}
	first := drawn(true, "learned", 3)
	is.Equal(t, "the images of another encoding", drawn(true, "wepe", 3), first)
	is.Equal(t, "with --resample-images another seed has the same images", drawn(true, "learned", 5) == first, false)
	is.Equal(t, "without --resample-images another seed", drawn(false, "learned", 3), drawn(false, "learned", 5))
}

// A PNG's header ends at byte 33; the pixels of these images follow.
func TestTrain_FindsADamagedTestImageBeforeTheFirstStep(t *testing.T) {
	for whole, flags := range map[int]string{20: "", 60: " --verify-images"} {
		dir, out := parts(t, map[string]int{"train": 8, "val": 8, "test": 8}, 16, 24), filepath.Join(t.TempDir(), "run")
		gomlxtest.NoError(t, os.Truncate(filepath.Join(dir, "test", "green", "b.png"), int64(whole)))
		refuses(t, 1, filepath.Join("green", "b.png"), "train --stream --recipe cifar100-small --epochs 1 --set "+
			"batch_size=4 --out "+out+" --data "+dir+flags)
		_, err := os.Stat(filepath.Join(out, "rows.jsonl"))
		is.Equal(t, "the training had begun"+flags, err == nil, false)
	}
}

// The recipe crops and flips, which aspect keep does not support.
func TestAspectKeep_OfARecipeThatCrops(t *testing.T) {
	for _, line := range []string{"train --aspect keep --size 12x16",
		"compare --positions learned --aspects keep --sizes 12x16 --seeds 1"} {
		out := succeeds(t, line+" --recipe cifar100-15 --set batch_size=4;epochs=1;warmup_epochs=0 --data",
			images(t, "own", 8, 16, 24), "--out", filepath.Join(t.TempDir(), "run"))
		is.Equal(t, "wepe serve is named, which refuses the run", strings.Contains(out, "wepe serve"), false)
	}
}

func TestDetect_TrainsMeasuresAndUsesADetector(t *testing.T) {
	t.Chdir(t.TempDir())
	const scenes = " --test-scenes 3 --objects 2"
	is.Said(t, "train", succeeds(t, "detect train --train-scenes 7 --positions wepe-sphere --out d --set steps=3;"+
		"batch_size=1;warmup_steps=1;eval_every_steps=3"+scenes), "wepe-sphere", "wepe detect predict d/wepe-sphere-seed0")
	run := filepath.Join("d", "wepe-sphere-seed0")
	r := row(t, run)
	for size, found := range asJSON[map[string]report.DetectionMetrics](t, "detect eval"+scenes, run) {
		is.Equal(t, "eval", []any{size, found.Boxes["AP"], len(found.Masks)}, []any{r.ImageSize, r.Boxes["AP"], len(r.Masks)})
	}
	succeeds(t, "detect train --train-scenes 1 --out boxes --set steps=1;batch_size=1;warmup_steps=0;"+
		"detector.roi.no_masks=true;detector.roi.score_threshold=0.99"+scenes)
	is.Said(t, "a detector of boxes", succeeds(t, "detect eval boxes/wepe-seed0"+scenes), "mask AP –")
	refuses(t, 2, "grid2d", "detect train --positions learned,grid2d"+scenes)
	succeeds(t, "train --out classifier"+small)
	is.Said(t, "on a pretrained backbone", succeeds(t,
		"detect train classifier --out tuned --train-scenes 1 --set steps=1;"+
			"batch_size=1;warmup_steps=0;detector.backbone.image_rows=64;detector.backbone.image_cols=64"+scenes),
		"recipe photographs", "tuned/"+fromScratch+"-seed0")
	for _, line := range []string{"detect eval classifier", "eval " + run + " --data shapes", "resume " + run,
		"export " + run + " x"} {
		refuses(t, 1, "detect", line)
	}
	file := filepath.Join(images(t, "one", 1, 60, 50), "red", "a.png")
	for image, found := range asJSON[map[string][]object](t, "detect predict --score-threshold 0", run, file) {
		gomlxtest.Must(os.Stat(filepath.Join(run, "found", "a.png")))(t)
		is.Equal(t, "the image, and objects in it", []any{image, len(found) > 0}, []any{file, true})
	}
	low := asJSON[map[string][]object](t, "detect predict --score-threshold 0 boxes/wepe-seed0", file)[file]
	is.Equal(t, "objects below the threshold of the recipe", len(low), 20)
	gomlxtest.NoError(t, os.WriteFile("bad.png", []byte("no image"), 0o600)) // first: the others are shown all the same
	out, code, _ := invoke(t, "detect", "predict", run, "bad.png", file, "--score-threshold", "1", "--json")
	var objects map[string][]object
	gomlxtest.NoError(t, json.Unmarshal([]byte(out), &objects))
	is.Equal(t, "objects, exit code", []any{objects, code}, []any{map[string][]object{file: {}}, 1})
	// over another file
	for _, args := range []string{"other/a.jpg", "--out " + filepath.Dir(file)} {
		refuses(t, 2, file, "detect predict "+run+" "+file+" "+args)
	}
}

// parts is a directory with splits of the given numbers of images of each of three classes.
func parts(t *testing.T, perClass map[string]int, height, width int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "own")
	for part, n := range perClass {
		gomlxtest.NoError(t, os.CopyFS(filepath.Join(dir, part), os.DirFS(images(t, part, n, height, width))))
	}
	return dir
}

func TestCompare_SelectsOnTheDirectorysValidationSplit(t *testing.T) {
	for name, c := range map[string]struct {
		perClass                map[string]int
		validation, test, steps int
	}{
		"val and test": {map[string]int{"train": 8, "val": 5, "test": 4}, 15, 12, 24 / 6},
		"val":          {map[string]int{"train": 8, "val": 5}, 2, 15, 22 / 6}, // a tenth of 24 is split off
	} {
		t.Chdir(t.TempDir())
		dir := parts(t, c.perClass, 16, 16)
		line := "compare --recipe scratch --positions learned --sizes 16x16 --out c --data " + dir + small
		succeeds(t, line)
		const unit = "c/learned-16x16-seed0"
		r := row(t, unit)
		is.Equal(t, name+": steps, validation and test images", [3]int{r.Steps, r.Validation.Images, r.Test.Images},
			[3]int{2 * c.steps, c.validation, c.test})
		before := contents(t, "c")
		for _, dir := range []string{unit, unit + "/", "c"} {
			refuses(t, 1, "wepe compare", "resume", dir)
		}
		is.Equal(t, name+": files after the refused resume", contents(t, "c"), before)
		succeeds(t, line)
	}
}

// Of the 3,000 training images of the shapes a tenth is drawn, and a tenth of these validates.
func TestEval_HasTheValidationImagesOfARunOfAFraction(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, flags := range map[string]string{"42": "", "seed": " --resample-images"} {
		succeeds(t, "compare --recipe shapes --positions learned --fractions 0.1 --seed 3 --set steps=4 --out "+name+brief+
			flags)
		run := filepath.Join(name, "learned-fraction0.1-seed3")
		r := row(t, run)
		for split, images := range map[string]int{"validation": 30, "train": 270, "test": 1000} {
			e := asJSON[evaluated](t, "eval --data shapes --split", split, run)
			if e.Metrics.Images != images || split == "validation" && e.Metrics != r.Validation ||
				split == "test" && e.Metrics != r.Test {
				t.Errorf("%s, %s: %+v, want %d images; the run has %+v", name, split, e.Metrics, images, r)
			}
		}
		refuses(t, 1, "shapes:shape", "eval --data shapes:shape --split validation", run)
	}
	succeeds(t, "export 42/learned-fraction0.1-seed3 hf --to hf")
	whole := asJSON[evaluated](t, "eval hf --data shapes --split validation")
	is.Equal(t, "images for a model that is no run", whole.Metrics.Images, 300)
}

// The models see images of files at 32×32 as wepe eval would, not those of 16×16 enlarged; the record and the page of a
// directory with splits have its name.
func TestCompare_ReadsTheFilesAtEachSize(t *testing.T) {
	dir := parts(t, map[string]int{"train": 8, "test": 8}, 32, 32)
	t.Chdir(t.TempDir())
	succeeds(t, "compare --study resolution --positions learned --seeds 1 --set augment.size=[16,16] --out runs"+small+
		" --data", dir)
	rows := gomlxtest.Must(report.ReadFiles("runs/learned-seed0/elsewhere.jsonl"))(t).Results
	seen := 0
	for _, r := range rows {
		is.Equal(t, "dataset", r.Dataset, filepath.Base(dir)+"-train")
		if r.ImageSize == "32x32" {
			seen++
			e := asJSON[evaluated](t, "eval runs/learned-seed0 --size 32x32 --data", dir)
			is.Equal(t, "wepe eval at 32×32", e.Metrics, r.Test)
		}
	}
	is.Equal(t, "rows at 32×32", seen, 1)
}

// cocoapi counts a detection of the object of annotation 0 as wrong, and so do the metrics here.
func TestDetect_WarnsOfAnnotationZero(t *testing.T) {
	t.Chdir(t.TempDir())
	succeeds(t, "detect train --export-coco c --train-scenes 1 --test-scenes 1")
	_, _, err := invoke(t, "detect train --export-coco c")
	is.Refused(t, "over what is there", err, "exists")
	_, instances := cocoPaths("c", "val2017")
	raw := gomlxtest.Must(os.ReadFile(instances))(t)
	for id, warns := range map[string]bool{"1": false, "0": true} {
		text := bytes.Replace(raw, []byte(`"id":1,"image_id"`), []byte(`"id":`+id+`,"image_id"`), 1)
		gomlxtest.NoError(t, os.WriteFile(instances, text, 0o644))
		got := complains(t, func() { (&objects{data: "coco:c", test: 1, shapes: 1}).load(detection.Recipe{}, false) })
		is.Equal(t, "a warning of annotation "+id, strings.Contains(got, "warning: an annotation has the id 0"), warns)
	}
}

const corner = "testdata/corner.png"

// larger resizes to 48×48 pixels.
var larger = map[string]any{"size": map[string]int{"height": 48, "width": 48}}

// predicted returns the answers of a model for one image.
func predicted(t *testing.T, dir string) finetune.Prediction {
	t.Helper()
	return asJSON[struct{ Images []finetune.Prediction }](t, "predict "+dir+" "+corner).Images[0]
}

// Of a multi-label model, of files that resize to another size than the weights have positions for, as DINOv2's, and of
// a run that crops to a rectangle.
func TestExport_PredictsAsTheModel(t *testing.T) {
	cropping := filepath.Join(t.TempDir(), "run")
	succeeds(t, "train --data "+images(t, "colours", 11, 24, 32)+" --out "+cropping+" --position wepe-sphere --size 8x16 "+
		"--set model.width=12;model.depth=1;model.num_heads=1;batch_size=6;model.patch_size=4;epochs=0;warmup_epochs=0;"+
		"steps=4;eval_every_steps=2;augment.mean=[0.5,0.25,0.125];augment.std=[0.5,0.75,0.3]")
	plain, same := predicted(t, demoModel), 0
	for dir, c := range map[string]struct{ kept, lost, said string }{ // a format that has all, one that says what it lacks
		demoWith(t, "config.json", map[string]any{"problem_type": "multi_label_classification"}): {"hf", "timm", "scores: "},
		demoWith(t, processor, larger): {"timm", "timm", "6×6 -> 12×12"},
		cropping:                       {"native", "hf", `"exact" to 8×16`},
	} {
		kept, lost := filepath.Join(t.TempDir(), c.kept), filepath.Join(t.TempDir(), c.lost)
		succeeds(t, "export --to "+c.kept, dir, kept)
		is.Said(t, dir+" to "+c.lost, succeeds(t, "export --to "+c.lost, dir, lost), c.said)
		want, got := predicted(t, dir), predicted(t, kept)
		if reflect.DeepEqual(want, plain) {
			same++
		}
		for i, class := range want.Labels {
			is.Near(t, c.kept+": "+class.Name, got.Labels[i].Probability, class.Probability, 1e-5)
			is.Equal(t, c.kept+": answer", got.Labels[i].Name, class.Name)
		}
	}
	is.Equal(t, "at most one change, of the size of a square, does not matter", same <= 1, true)
}

func TestVerify_AtOneSize(t *testing.T) {
	small := filepath.Join(t.TempDir(), "small")
	large := demoWith(t, processor, larger)
	succeeds(t, "export --to hf --size 24x24", large, small)
	refuses(t, 1, "--size 48x48", "verify", large, small)
	succeeds(t, "verify --size 24x24", large, small)
}
