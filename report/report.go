// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package report records runs as rows and computes tables, plots, confusion matrices and HTML pages from them.
//
//	job := report.Job{Recipe: "shapes", Dataset: "shapes", Fraction: 1, Encoding: "wepe", Seed: 3}
//	err := report.Append(path, report.Eval{Job: job, Step: 100, Split: report.Validation, Metrics: m})
//
//	rows, err := report.ReadFiles(path)
//	table, err := report.NewTable(rows.Results, report.Spec{Baseline: "learned"})
//	fmt.Print(table.Text())
//
// A record is an append-only file of JSON lines: an Eval per evaluation, a Result at the end of a run. Readers skip an
// incomplete line and report it.
//
// In rows, accuracies are fractions of 1, losses are means in nats per image, times are in seconds; tables and plots
// show accuracies in percent. Differences between encodings are paired by seed, with 95 % confidence intervals.
package report

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/wepe-go/wepe/internal/figure"
	"github.com/wepe-go/wepe/internal/printable"
)

// Names of the splits of a row. Choices are made on the validation split; the test split is only reported.
const (
	Validation = "validation"
	Test       = "test"
)

// JSONFloat is a float64 that JSON can encode: NaN and ±Inf, which a diverged run produces, are written as null. A null
// is read as NaN.
type JSONFloat float64

// MarshalJSON implements json.Marshaler.
func (n JSONFloat) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *JSONFloat) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*n = JSONFloat(math.NaN())
		return nil
	}
	return json.Unmarshal(data, (*float64)(n))
}

// Job identifies what was run: the columns by which rows are grouped and paired. Two rows with equal jobs are two
// attempts at the same thing.
type Job struct {
	Recipe   string  `json:"recipe"`
	Dataset  string  `json:"dataset"`
	Fraction float64 `json:"fraction"` // of the training images that were used, in (0, 1]
	Encoding string  `json:"encoding"` // position encoding, by the name that selects it
	Seed     int64   `json:"seed"`
}

// Weights are the evaluated weights of a run: "best" on the validation split, or "last", and their step.
type Weights struct {
	Name string `json:"name"`
	Step int    `json:"step"`
}

// String returns a text like "best, step 120".
func (w Weights) String() string { return fmt.Sprintf("%s, step %d", w.Name, w.Step) }

// Metrics are the results on one split.
type Metrics struct {
	Loss   JSONFloat `json:"loss"`
	Top1   JSONFloat `json:"top1"`
	Top5   JSONFloat `json:"top5"`
	Images int       `json:"images"` // number of images in these means
}

// Text returns a line like "top-1 62.50 %, top-5 93.75 %, loss 1.3750"; without a top-5 of 100 %, which every model of
// five classes or fewer has.
func (m Metrics) Text() string {
	top5 := ""
	if m.Top5 != 1 {
		top5 = fmt.Sprintf("top-5 %.2f %%, ", 100*float64(m.Top5))
	}
	return fmt.Sprintf("top-1 %.2f %%, %sloss %.4f", 100*float64(m.Top1), top5, float64(m.Loss))
}

// Eval is the row of one evaluation during a run.
type Eval struct {
	Job
	Step  int       `json:"step"`
	Epoch JSONFloat `json:"epoch"` // passes over the training images so far
	Split string    `json:"split"`
	Metrics
	TrainLoss       JSONFloat            `json:"train_loss"` // mean since the previous evaluation
	LearningRate    JSONFloat            `json:"learning_rate"`
	ImagesPerSecond JSONFloat            `json:"images_per_second"` // as in Result, so far
	Scalars         map[string]JSONFloat `json:"scalars,omitempty"` // learned scalars of the encoding
	DetectionMetrics
}

// DetectionMetrics holds COCO's metrics by name (AP, AP50, … ARl): fractions of 1, or -1 without objects. Both are
// empty for a classifier, Masks for a detector without masks.
type DetectionMetrics struct {
	Boxes map[string]JSONFloat `json:"boxes,omitempty"`
	Masks map[string]JSONFloat `json:"masks,omitempty"`
}

// Percent is the mean of a detection metric over runs in percent, "–" if no run has it, or there are no objects of its
// size or category: COCO's -1.
func Percent(digits int, name string, of ...map[string]JSONFloat) string {
	return percent(meanOf(name, of...), digits)
}

// meanOf is the mean of a metric over runs that have it, NaN for none.
func meanOf(name string, of ...map[string]JSONFloat) JSONFloat {
	sum, n := JSONFloat(0), JSONFloat(0)
	for _, numbers := range of {
		if value, known := numbers[name]; known && value >= 0 {
			sum, n = sum+value, n+1
		}
	}
	return sum / n
}

// Result is the row of one finished (or failed) run.
type Result struct {
	Date   string `json:"date"`         // end of the run, RFC 3339, UTC
	Commit string `json:"commit"`       // see Commit
	ID     string `json:"id,omitempty"` // of the unit of a study with a record
	Job
	Backend         string               `json:"backend"`
	Cores           int                  `json:"cores"`      // of the machine, as the Go runtime counts them
	ImageSize       string               `json:"image_size"` // rows x columns in pixels, like "32x48"
	Parameters      int                  `json:"parameters"` // of the network, frozen ones too, without adapters
	Steps           int                  `json:"steps"`
	Epochs          JSONFloat            `json:"epochs"`
	WallSeconds     JSONFloat            `json:"wall_seconds"`
	ImagesPerSecond JSONFloat            `json:"images_per_second"` // of steps and the wait for images, not compilation
	Weights         Weights              `json:"weights,omitzero"`  // evaluated weights; unknown in rows without a name
	Validation      Metrics              `json:"validation,omitzero"`
	Test            Metrics              `json:"test,omitzero"`
	TestData        string               `json:"test_data,omitempty"` // tells test images by number, classes and labels
	Scalars         map[string]JSONFloat `json:"scalars,omitempty"`
	DetectionMetrics
	Damaged  int             `json:"damaged,omitempty"`  // images that were skipped
	Failed   string          `json:"failed,omitempty"`   // why the run has no result; such rows stay
	Command  string          `json:"command"`            // of a resumed run all, separated by semicolons
	Settings json.RawMessage `json:"settings,omitempty"` // the resolved recipe, every hyperparameter
}

// Field is a position encoding over a grid of patches, drawn by its method Draw.
type Field = figure.Field

// Stamp fills the fields of a run about its time, source and machine: Date, Commit, Cores and, at its end, Command.
func (r *Result) Stamp(now time.Time) {
	r.Date = now.UTC().Format(time.RFC3339)
	r.Commit = Commit()
	r.Cores = runtime.NumCPU()
	if now := commandLine(os.Args); !strings.HasSuffix(r.Command, now) { // a resumed run has the commands before
		r.Command = strings.TrimPrefix(r.Command+"; "+now, "; ")
	}
}

// Commit returns the source revision of the running program from its build information: the revision that the Go tool
// stamped, with "+dirty" for uncommitted changes, or the version of the module, or "unknown", as with go run and go
// test. The working directory does not matter.
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return revision(info)
}

func revision(info *debug.BuildInfo) string {
	settings := make(map[string]string)
	for _, setting := range info.Settings {
		settings[setting.Key] = setting.Value
	}
	switch commit := settings["vcs.revision"]; {
	case commit != "" && settings["vcs.modified"] == "true":
		return commit + "+dirty"
	case commit != "":
		return commit
	case info.Main.Version != "" && info.Main.Version != "(devel)":
		return info.Main.Version
	}
	return "unknown"
}

// commandLine joins the arguments as typed on a command line, so that it can be pasted; of the program only the name is
// kept.
func commandLine(args []string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		if i == 0 {
			arg = filepath.Base(arg)
		}
		words[i] = printable.Shell(arg)
	}
	return strings.Join(words, " ")
}
