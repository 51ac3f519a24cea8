// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train/loss"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/finetune/internal/parallel"
	"github.com/wepe-go/wepe/internal/disk"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/report"
)

// classification is the engine.Task of a Run: images with one class each.
type classification struct {
	Run
	*engine.Trainer
	model        *Model
	images, held pixels // the training and the validation split, which may be empty
	order        order
	next         func() (*data.Batch, error, bool) // of images that are read for each batch, nil otherwise
	stop         func()
	read         *data.Batch // the batch of the current step
	rows         []int       // images of the current step
	fetched      int         // the current step, -1 before the first
	state        state
	tested       string       // labelling of Test
	resumed      int          // step of the checkpoint that the run continues
	weights      []float32    // of the classes in the loss, nil for equal weights
	before       *report.Eval // the accuracy of a pretrained model, until the first step
	row          report.Result
}

// smallSplit is the number of validation images below which weights cannot be distinguished: the standard error of an
// accuracy can exceed 2.5 %.
const smallSplit = 400

// newClassification returns the task of a prepared run, its model without weights.
func newClassification(run Run) (*classification, error) {
	r := run.Recipe
	images, held, err := run.split()
	if err != nil {
		return nil, err
	}
	devices, err := parallel.NewDevices(run.Backend, run.Devices, r.BatchSize/r.GradAccumSteps)
	if err != nil {
		return nil, err
	}
	if r.Model.Recompute && run.Backend.Name() == "onnxruntime" {
		return nil, errors.New("finetune: model.recompute is set, but ONNX Runtime has no optimization barrier: use " +
			"grad_accum_steps to save memory, or another backend")
	}
	if exist := run.Backend.NumDevices(); exist > 1 {
		run.Logger.Info("devices share each batch", "devices", devices.Count(), "of", exist)
	}
	if held != nil && held.Len() < smallSplit && run.Weights != checkpoints.LastDir {
		run.Logger.Warn("the validation split is small, so the selection of the best weights is partly random: add "+
			"images, or use the last weights (--checkpoint last)", "images", held.Len(), "standard error of the accuracy",
			fmt.Sprintf("up to %.1f %%", 50/math.Sqrt(float64(held.Len()))))
	}
	if held == nil && r.Patience > 0 {
		return nil, fmt.Errorf("finetune: patience is %d, but there are no validation images: leave out patience or "+
			"val_fraction", r.Patience)
	}
	if images.Len() < r.BatchSize {
		return nil, fmt.Errorf("finetune: %d training images are fewer than one batch of %d: lower batch_size",
			images.Len(), r.BatchSize)
	}
	m, err := newModel(run.Backend, r, images.Describe().Classes, run.Seed)
	if err != nil {
		return nil, err
	}
	c := &classification{Run: run, model: m, images: pixels{set: images, devices: devices}, held: pixels{set: held},
		fetched: -1, state: state{Recipe: r, Classes: images.Describe().Classes, Seed: run.Seed,
			Data: data.Fingerprint(images),
			From: run.source, Preprocess: images.Describe().Preprocessing()}}
	c.state.Held, c.tested = labelling(run.Validation), labelling(run.Test)
	if c.weights, err = r.classWeights(images.Describe()); err != nil {
		return nil, err
	}
	m.Preprocess = c.state.Preprocess
	for _, set := range []data.Dataset{held, run.Test} {
		if set == nil {
			continue
		}
		if _, warning, err := m.Labelled(set.Describe()); err != nil {
			return nil, err
		} else if warning != "" {
			run.Logger.Warn(warning)
		}
	}
	perPass := images.Len() / r.BatchSize
	steps, warmup, interval := r.schedule(perPass)
	r.Optimizer.EMADecay = r.EMADecay
	r.Optimizer.Schedule = engine.Schedule{Peak: r.LearningRate, Warmup: warmup, Steps: steps}
	c.Trainer = engine.NewTrainer(engine.Training{
		Task: c, Backend: run.Backend, Store: m.store, Network: "/" + modelScope, LossNames: []string{""},
		Job: report.Job{Recipe: r.Name, Dataset: run.Train.Describe().Name, Fraction: run.Fraction, Encoding: run.Label,
			Seed: run.Seed},
		Optimizer: r.Optimizer, Freeze: r.frozen(), Devices: devices,
		Factor:    func(variable string) float64 { return r.Optimizer.Factor(variable, r.Model.Depth) },
		BatchSize: r.BatchSize, GradAccumSteps: r.GradAccumSteps, PerPass: perPass, Steps: steps, Interval: interval,
		Group: run.Group, Dir: run.Dir, Description: run.Description, SaveEvery: run.SaveEvery, SaveSteps: run.SaveSteps,
		Patience: r.Patience,
		Progress: run.Progress, Logger: run.Logger,
	})
	own := r.BatchSize / run.Group.Size()
	c.order = order{Sampler: data.Sampler{Images: images.Len(), Batch: r.BatchSize, Repeats: r.Augment.RepeatedAug,
		Seed: run.Seed},
		from: run.Group.Rank() * own, to: (run.Group.Rank() + 1) * own}
	return c, m.spread(devices)
}

// labelling identifies images by their number, classes and labels, which a stream and images in memory share; "" for
// nil.
func labelling(set data.Dataset) string {
	if set == nil {
		return ""
	}
	info := set.Describe()
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%d %q %d", info.Len(), info.Classes, info.Labels)))
}

// split returns the training and the validation images of a run.
func (run Run) split() (training, validation data.Dataset, err error) {
	if run.Validation != nil {
		return run.Train, run.Validation, nil
	}
	return run.Recipe.Split(run.Train)
}

// begin returns the task of a prepared run before its next step.
func (run Run) begin() (*classification, error) {
	c, err := newClassification(run)
	if err != nil {
		return nil, err
	}
	return c, c.Trainer.Begin()
}

// Losses returns the loss of a plan's images: inputs are pixels and the plan. The graph augments the pixels, which may
// already be cropped.
func (c *classification) Losses(scope *model.Scope, inputs []*Node) []*Node {
	r, plan := c.Recipe, inputs[1:]
	_, augment := r.Augment.SplitHostGraph(c.images.set)
	logits := c.model.logits(scope.In(modelScope), augment.Images(inputs[0], plan), plan) // [batch, classes]
	targets := data.SoftLabels(plan, r.Model.Classes, r.LabelSmoothing)                   // [batch, classes]
	if c.weights != nil {
		targets = Mul(targets, InsertAxes(Const(targets.Graph(), c.weights), 0)) // as torch's for soft targets
	}
	return []*Node{r.loss(targets, logits)}
}

// loss is the training loss of logits [batch, classes] for targets [batch, classes]: the cross-entropy, or lossBCE.
func (r Recipe) loss(targets, logits *Node) *Node {
	if r.Loss == lossBCE {
		targets = ConvertDType(GreaterThan(targets, ZerosLike(targets)), logits.DType())
		return ReduceAllMean(loss.BinaryCrossentropyLogits([]*Node{targets}, []*Node{logits}))
	}
	return ReduceAllMean(loss.CategoricalCrossEntropyLogits([]*Node{targets}, []*Node{logits}))
}

// Start loads the source, and sets the head to zero if the recipe requires it.
func (c *classification) Start() error {
	if c.source != nil {
		lines, err := c.source.load(c.model, func(path string) bool {
			return strings.HasPrefix(path, headPath) || strings.HasPrefix(path, positionPath)
		})
		if err != nil {
			return err
		}
		c.Run.Logger.Info(fmt.Sprintf("starting from %s (SHA-256 %.12s…)", c.source.Path, c.source.SHA256))
		for _, line := range lines {
			c.Run.Logger.Info(line)
		}
	}
	if c.Recipe.LoRA > 0 {
		if err := weight.Adapt(c.model.store.Scope("/"+modelScope), c.Recipe.LoRA, c.Recipe.LoRAMLP); err != nil {
			return err
		}
	}
	if c.Recipe.HeadZeroInit {
		return c.model.zeroHead()
	}
	return nil
}

// Identity implements Task.
func (c *classification) Identity() engine.RunIdentity { return c.state.identity() }

// Load implements Task. A run to be extended has the length of the new recipe.
func (c *classification) Load(checkpoint *checkpoints.Checkpoint) (of engine.RunIdentity, at engine.TrainState,
	err error) {
	s, err := stateOf(checkpoint)
	if err != nil {
		return of, at, err
	}
	if now := c.Recipe; c.Extend && s.Recipe.Epochs <= now.Epochs && s.Recipe.Steps <= now.Steps {
		longer := s.Recipe.Epochs < now.Epochs || s.Recipe.Steps < now.Steps
		if longer && c.Exhausted(int(checkpoint.Step), s.TrainState) {
			return of, at, fmt.Errorf("finetune: %s cannot be extended: its last %d evaluations were no better than that of "+
				"step %d, and its patience is %d: start a run from it, as MODEL of wepe train", checkpoint.Path, now.Patience,
				s.BestStep, now.Patience)
		}
		s.Recipe.Epochs, s.Recipe.Steps, s.Recipe.Patience = now.Epochs, now.Steps, now.Patience
	}
	c.state, c.resumed = s, int(checkpoint.Step)
	return s.identity(), s.TrainState, c.model.load(checkpoint, func(variable string) bool {
		// In averages without a decay earlier versions kept the sums of matrices and adapters.
		return c.Recipe.EMADecay == 0 && strings.HasPrefix(variable, engine.AverageRoot+"/")
	})
}

// State implements Task.
func (c *classification) State(course engine.TrainState) any {
	s := c.state
	s.TrainState, s.Damaged = course, c.images.set.Describe().Damaged()
	return s
}

// Begin uploads the images, or opens their stream, and records the accuracy of a pretrained model before its first
// step. A resumed run may record it again; readers count it once.
func (c *classification) Begin(step int) (err error) {
	augment := c.Recipe.Augment
	if host, _ := augment.SplitHostGraph(c.images.set); host != (data.Augment{}) {
		for _, row := range c.state.Damaged {
			_ = c.images.set.Describe().Exclude(row, nil)
		}
		order := c.order // of the goroutine that reads
		c.next, c.stop = iter.Pull2(data.Read(c.images.set, host, c.Seed, c.Recipe.BatchSize/c.Recipe.GradAccumSteps,
			func(yield func(int, []int) bool) {
				for at := step; at < c.Steps && yield(order.of(at)); at++ {
				}
			}))
	} else {
		c.images = c.model.upload(c.images.set)
	}
	if c.held.set != nil {
		c.held = c.model.upload(c.held.set)
	}
	c.model.group = c.Run.Group
	if step > 0 || c.source == nil || c.held.set == nil || c.Run.Dir == "" {
		return nil
	}
	row, _, _, err := c.Measure()
	if err != nil {
		return err
	}
	c.before = &row
	return nil
}

// Fetch implements Task: it reads the images of a step that this process computes, if they are read for each batch.
func (c *classification) Fetch(step int) (err error) {
	switch {
	case step == c.fetched:
		return nil
	case c.next == nil:
		_, c.rows = c.order.of(step)
	default:
		if c.read, err, _ = c.next(); err != nil {
			return fmt.Errorf("finetune: %w", err)
		}
		c.rows = c.read.Indices // damaged images replaced
	}
	c.fetched = step
	return nil
}

// Call implements Task.
func (c *classification) Call(program *model.Exec, step, part int, scalars []float32) ([]*tensors.Tensor, error) {
	plan, shown := c.plan(step, part)
	outputs, err := c.images.call(program, plan, shown, scalars)
	if err != nil {
		return nil, err
	}
	if c.before != nil { // a run that fails before does not claim its directory
		if err := c.Record(*c.before); err != nil {
			return nil, err
		}
		c.before = nil
	}
	if step == 0 && part == 0 {
		for _, line := range c.model.warnings() {
			c.Run.Logger.Warn(line)
		}
	}
	return outputs, c.model.check()
}

// plan draws the augmentation of a micro-batch, a function of the seed, the epoch and its number in the epoch, and
// returns its images if they are read for each batch.
func (c *classification) plan(step, part int) (plan *data.Plan, shown *data.InMemory) {
	r, epoch := c.Recipe, step/c.PerPass
	size := r.BatchSize / r.GradAccumSteps
	from := part*size - c.order.from
	_, augment := r.augmentation(epoch).SplitHostGraph(c.images.set)
	if c.read != nil {
		shown = c.read.Part(from, from+size)
	}
	return augment.Plan(c.images.set, c.Seed, epoch, step%c.PerPass*r.GradAccumSteps+part, c.rows[from:from+size]), shown
}

// Evaluate implements Task: the score is the accuracy.
func (c *classification) Evaluate(row *report.Eval) (score float64, measured bool, err error) {
	err = c.averaged(func() (err error) {
		if measured = c.held.set != nil; measured {
			e, err := c.model.evaluateOn(c.held)
			if err != nil {
				return err
			}
			row.Metrics = e.metrics()
		}
		row.Scalars, err = c.model.scalars() // after the first program, which creates the variables
		return err
	})
	return float64(row.Top1), measured, err
}

// averaged calls a function with the averaged weights if there are any, otherwise with the weights.
func (c *classification) averaged(measure func() error) error {
	if err := c.model.swapAverages(); err != nil {
		return err
	}
	return errors.Join(measure(), c.model.swapAverages())
}

// Finish evaluates the test images and records the run, unless it is recorded.
func (c *classification) Finish(context.Context) (err error) {
	recorded, err := c.recorded()
	if err != nil {
		return err
	}
	if recorded {
		if _, err := os.Stat(filepath.Join(c.Run.Dir, curvesFile)); errors.Is(err, fs.ErrNotExist) {
			if err := c.draw(); err != nil {
				return err
			}
		}
		_, err := c.choose()
		return err
	}
	r := c.Recipe
	row, err := c.Result(struct {
		Recipe
		From *initialModel `json:"from,omitempty"`
	}{r, c.source})
	if err != nil {
		return err
	}
	row.ImageSize = fmt.Sprintf("%dx%d", r.Model.ImageRows, r.Model.ImageCols)
	if row.Weights, err = c.choose(); err != nil {
		return err
	}
	if row.Scalars, err = c.model.scalars(); err != nil {
		return err
	}
	if c.held.set != nil {
		e, err := c.model.evaluateOn(c.held)
		if err != nil {
			return err
		}
		row.Validation = e.metrics()
	}
	if c.Test != nil {
		e, err := c.model.evaluate(c.Test)
		if err != nil {
			return err
		}
		row.Test, row.TestData = e.metrics(), c.tested
		c.model.tested.on, c.model.tested.by = c.Test.Describe(), e
	}
	for _, set := range []data.Dataset{c.images.set, c.held.set, c.Test} {
		n, err := c.damaged(set)
		if err != nil {
			return err
		}
		row.Damaged += n
	}
	row.Stamp(time.Now())
	if err := c.Record(row); err != nil {
		return err
	}
	c.row = row
	return c.draw()
}

// damaged counts the damaged images that any process has read, before a resumption the first one.
func (c *classification) damaged(set data.Dataset) (int, error) {
	if set == nil {
		return 0, nil
	}
	said, err := json.Marshal(set.Describe().Damaged())
	if err != nil {
		return 0, err
	}
	all, err := c.Group.Gather(said)
	damaged := map[int]bool{}
	for _, said := range all {
		var rows []int
		err = errors.Join(err, json.Unmarshal(said, &rows))
		for _, row := range rows {
			damaged[row] = true
		}
	}
	return len(damaged), err
}

// choose sets the model's weights to those that the run ends with, or their averages if there are any: the weights of
// Open.
func (c *classification) choose() (report.Weights, error) {
	c.model.Source = Source{Path: c.Run.Dir, Format: "checkpoint",
		Weights: report.Weights{Name: checkpoints.LastDir, Step: c.Step()}}
	best, err := c.chosen()
	if err != nil {
		return report.Weights{}, err
	}
	if best != nil {
		c.model.Source = openedRun(best)
		if err := c.model.load(best, ofOptimizer); err != nil {
			return report.Weights{}, err
		}
	}
	return c.model.Source.Weights, c.model.settle()
}

// chosen returns the checkpoint that the run ends with, nil for the last weights, also where the best are damaged.
func (c *classification) chosen() (*checkpoints.Checkpoint, error) {
	if c.Weights == checkpoints.LastDir || c.Run.Dir == "" || c.held.set == nil {
		return nil, nil
	}
	best, _, err := checkpoints.Find(c.Run.Dir, "")
	if best != nil && best.Kind != checkpoints.BestDir {
		best = nil
	}
	if errors.As(err, new(syscall.Errno)) { // later it may be readable
		return nil, err
	}
	return best, nil
}

// recorded finds the row of an already finished run with the weights that Run.Weights selects; without one they are
// evaluated again. All processes of a group must find it, or none.
func (c *classification) recorded() (bool, error) {
	if c.resumed != c.Step() {
		return false, nil
	}
	best, err := c.chosen()
	if err != nil {
		return false, err
	}
	name := checkpoints.LastDir
	if best != nil {
		name = checkpoints.BestDir
	}
	found := byte(0)
	// otherwise it is written again
	if rows, err := report.ReadFiles(filepath.Join(c.Run.Dir, engine.RowsFile)); err == nil {
		for _, r := range rows.Results {
			if r.Job == c.Job && r.Steps == c.Step() && r.Failed == "" { // the last one is what tables show
				c.row, found = r, 0
				tested := c.Test == nil || r.TestData == c.tested || r.TestData == "" && r.Test.Images > 0
				if tested && (r.Weights.Name == name || r.Weights.Name == "") {
					found = 1
				}
			}
		}
	}
	if found == 0 && c.row.Weights.Name == checkpoints.BestDir && best == nil && c.Weights != checkpoints.LastDir {
		c.Run.Logger.Warn("the best weights are gone: the last ones are evaluated", "directory", c.Run.Dir)
	}
	all, err := c.Run.Group.Gather([]byte{found})
	for rank, other := range all {
		if err == nil && other[0] != all[0][0] {
			err = fmt.Errorf("finetune: only one of process %d and process 0 finds the finished run: all must see the same "+
				"run directory", rank)
		}
	}
	return found > 0, err
}

// curvesFile is in a run's directory.
const curvesFile = "curves.png"

// draw writes the curves of the run as an image.
func (c *classification) draw() error {
	if c.Run.Dir == "" || c.Run.Group.Rank() > 0 {
		return nil
	}
	rows, err := report.ReadFiles(filepath.Join(c.Run.Dir, engine.RowsFile))
	if err != nil || len(rows.Evals) == 0 { // the file was removed after the run
		return err
	}
	title := fmt.Sprintf("%s on %s, seed %d", c.Job.Recipe, c.Job.Dataset, c.Seed)
	return disk.Write(filepath.Join(c.Run.Dir, curvesFile), func(w io.Writer) error {
		return report.PlotCurves(w, title, rows.Evals)
	})
}

// close frees the run's memory on the device except for the model.
func (c *classification) close() {
	if c.stop != nil {
		c.stop()
	}
	c.images.finalize()
	c.held.finalize()
	c.model.group = parallel.Alone{}
	c.Trainer.Close()
}

// order returns the images of each step that this process computes.
type order struct {
	data.Sampler
	from, to int // the part of each batch
}

// of returns the epoch of a step and its indices, which remain the order's.
func (o *order) of(step int) (epoch int, rows []int) {
	epoch, _, rows = o.At(step)
	return epoch, rows[o.from:o.to]
}
