// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package study compares position encodings: training runs of encodings × sizes × aspect ratios × fractions × seeds ×
// tasks, with the same images in the same order for equal seeds.
//
//	s := study.Study{
//		Dir: "runs/shapes", Variants: study.Variants("learned", "wepe"), Seeds: 3, Backend: b,
//		Tasks: []study.Task{{Recipe: recipe, Images: study.Sets(train, test)}},
//	}
//	err := s.Run(ctx)                  // the same call resumes an interrupted study
//	table, err := s.Table()            // of all finished training runs, of this machine and others
//
// Every training run has its own directory below Dir, as finetune.Run writes it. With a Shard, each of several machines
// runs a part of them; machines with a common disk share Dir.
//
// With a Sweep, each task and encoding is first trained with every combination of settings on a part of the training
// images, evaluated on the rest, and then trained with the best settings on all of them: "learning_rate=0.01,0.03;
// wepe_gate=0.12,0.5"; commas within brackets belong to a value. A training run that waits for settings measured by
// other shards is run later.
//
// Rows are stored in Dir in results*.jsonl, a file per shard; Merge joins the files of machines without a common disk.
//
// The named studies are those of the paper and of docs/results.md (wepe list studies).
package study

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/disk"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/vit/position"
)

// Study is a comparison. The zero values of Sizes and Fractions are one size, the recipe's, and all images.
type Study struct {
	Dir       string    // directory of its training runs and its record
	Tasks     []Task    // at least one
	Variants  []Variant // the variants to compare, at least one
	Sizes     [][2]int
	Aspects   []string  // for images with other aspect ratios, see finetune.Recipe; none: the recipe's
	Fractions []float64 // of the training images, in (0, 1]
	Seeds     int
	FirstSeed int   // use new seeds to confirm what earlier ones chose
	Shard     Shard // the part for Run; the zero value is the whole study

	// Parts give the study a record, for tasks whose results Task.Measure measures: the names of the training images for
	// choosing settings, and of all training images.
	Parts [2]string
	Sweep string // with Parts: settings to choose from for each task and variant, as described above
	Keep  bool   // with Parts: keep the models of final training runs

	// Spec is of Table: published results by label, and the label of the variant with which it compares the others, ""
	// for learned or, if that is none, the last. GroupBy is set.
	Spec      report.Spec
	EvalSizes [][2]float64 // heights and widths at which to evaluate trained models, as multiples of the training side

	Backend  compute.Backend
	Devices  int               // of the backend that share each batch, 0 for all
	Group    engine.Group      // the processes that share each run, nil for a single one; without a record
	Weights  string            // of the rows: checkpoints.BestDir (default) or LastDir, as finetune.Run's
	From     string            // pretrained model of all training runs, as finetune.Run's; "" for from scratch
	Import   checkpoints.Hints // what its files lack
	Progress func(title string) func(engine.Progress)
	Logger   *slog.Logger // its attribute "run" names the training; may be nil

	warned *sync.Map // warnings of earlier runs
	sha256 string    // of From's weights, once Run has opened it for a record: rows of other weights are refused
}

// Task is a recipe with its images.
type Task struct {
	Name   string // "" for the only one
	Recipe finetune.Recipe
	// Images reads the images of a training run: without Validation if the recipe splits it off Train, without Test if
	// Measure reads it. nil if this machine has none: its training runs are left to others.
	Images func(ctx context.Context, u Unit) (data.Splits, error)
	// TestAt reads the test images for a model of another size than it was trained at; nil, or no images, if those of
	// Images are resized in the graph.
	TestAt func(ctx context.Context, m *finetune.Model) (data.Dataset, error)

	// Measure evaluates a training run of a study with a record: on validation images for a unit that chooses a setting,
	// on test images for a final one. It also returns a fingerprint of these images, "" for unknown.
	Measure func(ctx context.Context, u Unit, m *finetune.Model) (_ report.Metrics, images string, err error)
	Origin  string // of the images, for the record, unless it is the usual one
}

// recorded reports whether the study has a record.
func (s *Study) recorded() bool { return s.Parts != [2]string{} }

// Sets returns a Task.Images function that takes Unit.Fraction of train, and all of test.
func Sets(train, test data.Dataset) func(context.Context, Unit) (data.Splits, error) {
	return func(_ context.Context, u Unit) (data.Splits, error) {
		part, err := data.Fraction(train, u.Fraction, 42)
		return data.Splits{Train: part, Test: test}, err
	}
}

// ErrPending means that training runs wait for settings from other shards. It is not a failure.
var ErrPending = errors.New("settings that other shards are still measuring: repeat this command when those have " +
	"finished")

// Run runs the unfinished training runs of this shard. Before each training run it reads the rows of other shards in
// the same directory again. Without a record a run that diverges is an error after the others have ended.
func (s *Study) Run(ctx context.Context) error {
	if s.recorded() && s.Group != nil {
		return errors.New("study: processes cannot share the runs of a study with a record: use shards")
	}
	if s.recorded() && s.From != "" { // refuse an unreadable file before any training
		var err error
		if s.sha256, err = checkpoints.Sum(s.From); err != nil {
			return err
		}
	}
	var diverged []error
	for visited := map[string]bool{}; ; {
		done, err := s.results()
		if err != nil {
			return err
		}
		next, waits, err := s.next(done, visited)
		switch {
		case err != nil:
			return err
		case next == nil && waits > 0:
			return errors.Join(append(diverged, fmt.Errorf("%d training runs need %w", waits, ErrPending))...)
		case next == nil:
			return errors.Join(diverged...)
		}
		visited[next.id] = true
		switch err := s.train(ctx, *next, done); {
		case errors.Is(err, engine.ErrInterrupted):
			return fmt.Errorf("%s: %w: all is saved, the same command continues it", next, err)
		case errors.Is(err, engine.ErrDiverged): // the others can be compared all the same
			diverged = append(diverged, fmt.Errorf("%s: %w", next, err))
		case err != nil:
			return fmt.Errorf("%s: %w", next, err)
		}
	}
}

// next returns the first training of this shard that can run now, nil if there is none, and how many wait for other
// shards. Without a record every training run is visited once: its directory shows whether it is finished.
func (s *Study) next(done results, visited map[string]bool) (next *Unit, waits int, err error) {
	units, err := s.units(done)
	if err != nil {
		return nil, 0, err
	}
	for _, u := range units {
		_, finished := done[u.id]
		switch {
		case u.shard != s.Shard.Index, u.Task.Images == nil, visited[u.id], finished && s.recorded(), u.failed:
		case u.waits > 0:
			waits++
		default:
			return &u, 0, nil
		}
	}
	return nil, waits, nil
}

// train executes one training run and writes its results.
func (s *Study) train(ctx context.Context, u Unit, done results) error {
	images, err := u.Task.Images(ctx, u)
	if err != nil {
		return err
	}
	run := finetune.Run{
		Backend: s.Backend, Recipe: u.Recipe, Seed: int64(u.Seed), Train: images.Train, Validation: images.Validation,
		Test: images.Test, Fraction: u.Fraction, Label: u.Label, From: s.From, Import: s.Import, Devices: s.Devices,
		Group: s.Group, Dir: u.Dir, Logger: s.logger(u.String()), Weights: s.Weights,
	}
	if s.Progress != nil {
		run.Progress = s.Progress(u.String())
	}
	if s.recorded() {
		return s.record(ctx, u, run, done)
	}
	model, row, err := run.Do(ctx)
	if err != nil {
		return err
	}
	defer model.Finalize()
	if s.Group != nil && s.Group.Rank() > 0 { // another process writes the results
		return nil
	}
	if err := WriteReport(run, model, row); err != nil {
		return err
	}
	return s.multiResolution(ctx, u, row, images.Test)
}

// WriteReport writes field.png, the encoding of a trained model over the patch grid, and the page of a finished run,
// unless the page for the same steps exists.
func WriteReport(run finetune.Run, model *finetune.Model, row report.Result) error {
	page, err := os.Stat(filepath.Join(run.Dir, finetune.PageFile))
	if rows, missing := os.Stat(filepath.Join(run.Dir, engine.RowsFile)); err == nil && missing == nil &&
		!page.ModTime().Before(rows.ModTime()) {
		return nil
	}
	features, names, vectors, err := model.Encoding()
	if err != nil {
		return err
	}
	if vectors == nil {
		return run.Page(model, row)
	}
	c := model.Recipe.Model
	field := report.Field{Title: c.Position, Rows: c.Rows(), Cols: c.Cols(), Features: features, Names: names,
		Vectors: vectors}
	figure, err := report.NewFigure("Position encoding of each patch", "Features over the patch grid, if the "+
		"encoding has any, and cosine similarity of each position vector to that of the centre patch: from blue, −1, "+
		"to red, +1.", field.Draw)
	if err != nil {
		return err
	}
	if err := disk.Write(filepath.Join(run.Dir, "field.png"), field.Draw); err != nil {
		return err
	}
	return run.Page(model, row, figure)
}

// logger returns the logger for a training run.
func (s *Study) logger(run string) *slog.Logger {
	if s.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	if s.warned == nil {
		s.warned = &sync.Map{}
	}
	return slog.New(shownOnce{s.Logger.Handler(), s.warned}).With("run", run)
}

// shownOnce is a handler that shows a warning with equal attributes once, not for each training run. A warning without
// attributes is about its run.
type shownOnce struct {
	slog.Handler
	seen *sync.Map
}

// Handle implements slog.Handler.
func (s shownOnce) Handle(ctx context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += "\x00" + a.String()
		return true
	})
	if _, seen := s.seen.LoadOrStore(text, true); seen && r.Level == slog.LevelWarn && r.NumAttrs() > 0 {
		return nil
	}
	return s.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (s shownOnce) WithAttrs(attrs []slog.Attr) slog.Handler {
	return shownOnce{s.Handler.WithAttrs(attrs), s.seen}
}

// record trains and evaluates a unit of a study that has a record.
func (s *Study) record(ctx context.Context, u Unit, run finetune.Run, done results) error {
	o := origin{Data: data.Fingerprint(run.Train), Origin: u.Task.Origin}
	o.From.SHA256 = s.sha256
	if err := s.agree(done, u, o); err != nil {
		return err
	}
	model, row, err := run.Do(ctx)
	switch {
	case errors.Is(err, engine.ErrDiverged): // a result: the setting does not suit this task
		run.Logger.Warn(err.Error())
		if row, err = diverged(run, err); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		defer model.Finalize()
		measured := ofPair(u, [2]*report.Metrics{&row.Validation, &row.Test})
		if *measured, o.Measured, err = u.Task.Measure(ctx, u, model); err != nil {
			return err
		}
		if err := s.agree(done, u, o); err != nil {
			return err
		}
	}
	row.ID = u.id
	if row.Settings, err = o.addTo(row.Settings); err != nil {
		return err
	}
	if err := report.Append(filepath.Join(s.Dir, recordOf(s.Shard)), row); err != nil {
		return err
	}
	if s.Keep && !u.Search {
		return nil
	}
	// A model with its momentum takes gigabytes; the row has all results that the study needs.
	return errors.Join(os.RemoveAll(filepath.Join(run.Dir, "last")), os.RemoveAll(filepath.Join(run.Dir, "best")))
}

// Validate returns an error for invalid settings, before the first training begins. A checkpoint that is not open yet
// may determine the network: placeholders stand for its values.
func (s *Study) Validate() error {
	var labels []string
	for _, v := range s.Variants {
		if _, err := position.Parse(v.Position); err != nil {
			return err
		}
		labels = append(labels, v.Label)
	}
	for _, f := range s.Fractions {
		if !(f > 0 && f <= 1) {
			return fmt.Errorf("fraction %g: want 0 < fraction <= 1", f)
		}
	}
	if len(s.Tasks) == 0 || len(s.Variants) == 0 || s.Seeds < 1 {
		return fmt.Errorf("%d tasks, %d variants, %d seeds: want at least one of each", len(s.Tasks), len(s.Variants),
			s.Seeds)
	}
	for _, t := range s.Tasks {
		if t.Recipe.Architecture != "" && s.EvalSizes != nil {
			return fmt.Errorf("a %s is of one image size: leave out the comparison at other sizes", t.Recipe.Architecture)
		}
	}
	if s.Sweep != "" && !s.recorded() {
		return errors.New("a sweep needs Parts")
	}
	if b := s.Spec.Baseline; b != "" && len(labels) > 1 && !slices.Contains(labels, b) {
		return fmt.Errorf("baseline %q is none of the variants %q", b, labels)
	}
	var tasks []string
	for _, t := range s.Tasks {
		if tasks = append(tasks, t.Name); s.recorded() && t.Images != nil && t.Measure == nil {
			return fmt.Errorf("task %q: a record needs Measure", t.Name)
		}
	}
	if err := cmp.Or(distinct("task", tasks), distinct("variant", labels), distinct("size", s.Sizes),
		distinct("aspect", s.Aspects), distinct("fraction", s.Fractions)); err != nil {
		return err
	}
	units, err := s.units(nil)
	if err != nil {
		return err
	}
	dirs := map[string]Unit{}
	for _, u := range units {
		if other, twice := dirs[u.Dir]; twice {
			return fmt.Errorf("%q and %q have one directory, %s: change a label or a setting", other, u, u.Dir)
		}
		if dirs[u.Dir] = u; u.waits > 0 {
			continue
		}
		if _, err := placed(u.Recipe).Resolve(); err != nil {
			return err
		}
	}
	return nil
}

// placed returns a recipe with placeholders for what a checkpoint determines.
func placed(r finetune.Recipe) finetune.Recipe {
	m := &r.Model
	m.ImageRows, m.ImageCols, m.Classes = r.Augment.Size[0], r.Augment.Size[1], 2
	if m.PatchSize == 0 || m.ImageRows == 0 {
		m.PatchSize = cmp.Or(m.PatchSize, 1)
		m.ImageRows, m.ImageCols = 5*m.PatchSize, 7*m.PatchSize
	}
	m.Depth, m.Heads = cmp.Or(m.Depth, 1), cmp.Or(m.Heads, 1)
	m.Width = cmp.Or(m.Width, 64*m.Heads)
	return r
}

// distinct returns an error for a repeated value.
func distinct[T comparable](what string, values []T) error {
	for i, v := range values {
		if slices.Contains(values[:i], v) {
			return fmt.Errorf("%s %v appears twice", what, v)
		}
	}
	return nil
}
