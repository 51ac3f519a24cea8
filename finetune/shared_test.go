// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"bytes"
	"context"
	"errors"
	"image"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/support/xslices"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/vit"
)

// dataset returns images of 4×6 pixels in 7 classes; a class is a colour behind noise.
func dataset(n int, seed uint64) *data.InMemory {
	r := rand.New(rand.NewPCG(seed, 0))
	s := &data.InMemory{
		Info: data.Info{Name: "images", Height: 4, Width: 6, Channels: 3, Classes: strings.Fields("a b c d e f g")},
	}
	for range n {
		label := r.IntN(len(s.Classes))
		s.Labels = append(s.Labels, int32(label))
		for k := range 4 * 6 * 3 {
			s.Pixels = append(s.Pixels, uint8(r.IntN(160)+90*(label>>(k%3)&1)))
		}
	}
	return s
}

// logitsOf computes [images, classes] for a set.
func (m *Model) logitsOf(set *data.InMemory) (logits [][]float32, err error) {
	p := m.upload(set)
	defer p.finalize()
	return logits, m.eachLogits(p, func(_ int, l []float32) { logits = append(logits, l) })
}

// scores are the probabilities of the images of a set, which TestProbabilities compares with softmax and sigmoid.
func (m *Model) scores(t *testing.T, set *data.InMemory) [][]float64 {
	t.Helper()
	return xslices.Map(gomlxtest.Must(m.logitsOf(set))(t), m.probabilities)
}

// embedImages returns the features of decoded images.
func (m *Model) embedImages(images ...image.Image) (all []Features, err error) {
	read := func(i int) (*data.Image, error) { return data.FromImage(images[i]), nil }
	err = m.EmbedEach(len(images), strconv.Itoa, read,
		func(_ int, f Features, unread error) error {
			all = append(all, f)
			return unread
		})
	return all, err
}

// predictOne is Predict for one file.
func (m *Model) predictOne(file string, top int) ([]Class, error) {
	classes, err := m.Predict([]string{file}, top)
	if err != nil {
		return nil, err
	}
	return classes[0], nil
}

// pngFile writes an image and returns its path.
func pngFile(t *testing.T, img image.Image) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.png")
	gomlxtest.NoError(t, os.WriteFile(path, datatest.PNG(img), 0o600))
	return path
}

// tiny is a recipe for images that trains in milliseconds.
func tiny() Recipe {
	return Recipe{
		Name:   "tiny",
		Model:  vit.Config{PatchSize: 2, Width: 12, Depth: 2, Heads: 3, MLPDim: 20},
		Epochs: 3, BatchSize: 6, LearningRate: 0.01, WarmupEpochs: 1, EvalBatchSize: 4,
		Optimizer: engine.Optimizer{WeightDecay: 0.05, ClipNorm: 1},
		Augment:   data.Augment{Mean: [3]float64{0.5, 0.4, 0.3}, Std: [3]float64{0.2, 0.3, 0.4}},
	}
}

// tinyRun trains tiny with some settings on a number of images.
func tinyRun(t *testing.T, settings string, images int) Run {
	t.Helper()
	recipe := gomlxtest.Must(tiny().Set(settings))(t)
	return Run{Backend: gomlxtest.Backend(), Recipe: recipe, Train: dataset(images, 1)}
}

// everything is tiny with all random and stateful features enabled.
func everything() Recipe {
	r := tiny()
	r.Model.Dropout, r.Model.AttentionDropout, r.Model.DropPath = 0.1, 0.1, 0.2
	r.EMADecay, r.GradAccumSteps, r.LabelSmoothing = 0.9, 2, 0.1
	r.Augment.Pad, r.Augment.HFlip, r.Augment.Cutout = 1, 0.5, 2
	r.Augment.MixupAlpha, r.Augment.CutmixAlpha, r.Augment.MixProb = 0.4, 1, 0.7
	r.MixupSwitchEpoch, r.LateMixupAlpha = 2, 0.8
	return r
}

// saved is a run on a number of images, in a directory of its own.
func saved(t *testing.T, recipe Recipe, images int) Run {
	return Run{Backend: gomlxtest.Backend(), Recipe: recipe, Train: dataset(images, 1), Dir: t.TempDir()}
}

func begun(t *testing.T, run Run) *classification {
	t.Helper()
	run = gomlxtest.Must(run.prepared())(t)
	trainer := gomlxtest.Must(run.begin())(t)
	t.Cleanup(trainer.close)
	return trainer
}

// advanced makes steps.
func advanced(t *testing.T, trainer *classification, steps int) {
	t.Helper()
	for range steps {
		gomlxtest.NoError(t, trainer.Advance())
	}
}

// done runs to the end.
func done(t *testing.T, run Run) (*Model, report.Result) {
	t.Helper()
	m, row, err := run.Do(t.Context())
	gomlxtest.NoError(t, err)
	return m, row
}

// weights returns the variables of the network below a root, by the rest of their paths.
func (m *Model) weights(tb testing.TB, root string) map[string][]float64 {
	tb.Helper()
	out := map[string][]float64{}
	for v := range m.store.IterVariables() {
		if rest, ok := strings.CutPrefix(v.Path(), root+"/vit/"); ok {
			out[rest] = gomlxtest.Values(tb, v.MustValue())
		}
	}
	if len(out) == 0 {
		tb.Fatalf("no variables below %q", root)
	}
	return out
}

// latest is the newest checkpoint of a kind in a run's directory.
func latest(t *testing.T, dir, kind string) *checkpoints.Checkpoint {
	t.Helper()
	c, _, err := checkpoints.Find(dir, kind)
	gomlxtest.NoError(t, err)
	return c
}

// end is what a run leaves: the bytes of its last checkpoint, and its rows without measured times.
type end struct {
	variables []byte
	rows      report.Rows
}

// finished runs to the end.
func finished(t *testing.T, run Run) end {
	t.Helper()
	done(t, run)
	last := latest(t, run.Dir, checkpoints.LastDir)
	variables := gomlxtest.Must(os.ReadFile(filepath.Join(last.Path, "variables.safetensors")))(t)
	rows := gomlxtest.Must(report.ReadFiles(filepath.Join(run.Dir, engine.RowsFile)))(t)
	is.Equal(t, "skipped lines", len(rows.Skipped), 0)
	for i := range rows.Evals {
		rows.Evals[i].ImagesPerSecond = 0
		if rows.Evals[i].Step == 0 {
			rows.Evals[i].TrainLoss = 0 // NaN, which is not equal to itself: no step was made
		}
	}
	for i := range rows.Results {
		r := &rows.Results[i]
		r.ImagesPerSecond, r.WallSeconds, r.Date, r.Commit = 0, 0, "", "" // somebody may commit meanwhile
	}
	return end{variables, rows}
}

// endsAs runs to the end, which must be that of another run.
func endsAs(t *testing.T, what string, run Run, want end) {
	t.Helper()
	got := finished(t, run)
	if !bytes.Equal(got.variables, want.variables) {
		t.Errorf("%s: the variables differ", what)
	}
	is.Equal(t, what, got.rows, want.rows)
}

// stopped starts or resumes a run and interrupts it after a step; after the last step it finishes.
func stopped(t *testing.T, run Run, step int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	last := false
	run.Progress = func(p engine.Progress) {
		if p.Step == step {
			last = p.Step == p.Steps
			cancel()
		}
	}
	if _, _, err := run.Do(ctx); last && err != nil || !last && !errors.Is(err, engine.ErrInterrupted) {
		t.Fatalf("stopped after step %d: %v", step, err)
	}
}

// diverge makes every logit of a model NaN.
func diverge(t *testing.T, m *Model) {
	t.Helper()
	gain := m.store.GetVariable("/vit/norm/gain")
	bad := make([]float32, gain.Shape().Size())
	bad[0] = float32(math.NaN())
	gomlxtest.NoError(t, gain.SetValue(tensors.FromFlatDataAndDimensions(bad, len(bad))))
}

// onTheSameBits skips a test on backends without reproducible bits.
func onTheSameBits(t *testing.T) {
	t.Helper()
	if name := gomlxtest.Backend().Name(); name != "Go Backend" && name != "xla" {
		t.Skipf("backend %s does not promise the same bits twice", name)
	}
}

// has requires that answers of a model have the probabilities of their classes.
func (m *Model) has(t *testing.T, what string, answers []Class, probabilities []float64) {
	t.Helper()
	for _, a := range answers {
		is.Near(t, what+": "+a.Name, a.Probability, probabilities[slices.Index(m.Classes, a.Name)], 1e-6)
	}
}

// infersAs requires the logits of each image of a set from Inference.
func (m *Model) infersAs(t *testing.T, set *data.InMemory, want [][]float32) {
	t.Helper()
	inference := gomlxtest.Must(m.Inference())(t)
	for row := range set.Len() {
		out := gomlxtest.Must(inference.Batch([]*data.Image{gomlxtest.Must(set.Image(t.Context(), row))(t)}))(t)
		nearLogits(t, "inference", [][]float32{out[0].Logits}, want[row:row+1])
	}
}

// fails is the error of a run.
func (run Run) fails(t *testing.T) error {
	_, _, err := run.Do(t.Context())
	return err
}

// otherRun is how a refused run differs from that of its directory.
func otherRun(err error) (differs engine.OtherRunError) {
	if e := (*engine.OtherRunError)(nil); errors.As(err, &e) {
		differs = *e
	}
	return differs
}

// bits returns the bytes of all variables by their paths.
func (m *Model) bits(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for v := range m.store.IterVariables() {
		gomlxtest.NoError(t, v.MustValue().ConstBytes(func(raw []byte) { all[v.Path()] = bytes.Clone(raw) }))
	}
	return all
}

var cifar100 = &data.InMemory{
	Info: data.Info{Name: "CIFAR-100", Height: 32, Width: 32, Channels: 3, Classes: make([]string, 100)},
}
