// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package detection trains the detectors of package detect and measures them as COCO does.
//
//	recipe, err := detection.Named("scenes")
//	test, err := detection.Generated(scenes.Generated{Count: 200, Height: 96, Width: 96, Seed: 1})
//	run := detection.Run{Backend: backend, Recipe: recipe, Dir: "runs/first", Dataset: "scenes",
//		Train: scenes.Generated{Count: 4000, Height: 96, Width: 96}, Tests: []detection.Test{test}}
//	model, rows, err := run.Do(ctx)
//	found, err := model.Detect(image) // boxes, classes, scores and masks
//
// Elsewhere, Open takes such a run's directory and gives the same model.
//
// The steps, checkpoints, resume and record are those of package finetune, whose Trainer trains the Task that is here:
// the losses, what they are computed on, and the metrics. What a step sees is a function of (seed, step), and a run
// that was interrupted ends with the bits of one that never was.
//
// # What a run leaves in its directory
//
//	rows.jsonl        one row per evaluation, one for each size that the trained detector was tested at
//	last/             the newest checkpoint, all that a resume needs and what the tests measured
//	best/             the one of the highest average precision of boxes in the validation scenes, which Open prefers
//	results-HxW.json  what was found in the test images, in COCO's form
//	report.html       numbers and images, where Page was called
package train

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/detect/scenes"
	"github.com/wepe-go/wepe/finetune"
)

// Scenes are images with objects: scenes.Generated, *scenes.Folder. At is called by several goroutines at once.
type Scenes interface {
	Len() int
	At(index int) (*scenes.Scene, error)
	Categories() []coco.Category
}

// Test is scenes that a detector is measured on.
type Test struct {
	Scenes      Scenes
	Annotations *coco.Dataset    // of the same images
	Areas       []coco.AreaRange // what counts as small, medium and large; nil for COCO's

	// Rows and Cols are the pixels of the canvas that images are fitted into, a multiple of the patches; 0 for those that
	// the detector is trained on.
	Rows, Cols int
}

// Generated are generated scenes as a test, seen at their own size.
func Generated(g scenes.Generated) (Test, error) {
	annotations, err := g.Dataset()
	return Test{Scenes: g, Annotations: annotations, Areas: g.Sizes(), Rows: g.Height, Cols: g.Width}, err
}

// Folder is a folder as a test, at the size of the training.
func Folder(f *scenes.Folder) Test { return Test{Scenes: f, Annotations: f.Dataset} }

// Run is one training of one recipe on one data set with one seed.
type Run struct {
	Backend compute.Backend
	Recipe  Recipe
	Seed    int64

	Dataset string // its name, for the record
	Train   Scenes
	// Validation is measured every Recipe.EvalSteps, and chooses the best checkpoint; nil for none.
	Validation *Test
	Tests      []Test // each measured once, after the last step
	Label      string // of the encoding in rows; default the name of the position

	From   string                    // a pretrained ViT for the backbone, see checkpoints.Import; empty for from scratch
	Import checkpoints.ImportOptions // what its files leave open

	Dir       string                  // where the run leaves its files; empty for nowhere
	SaveEvery time.Duration           // between checkpoints beside those at evaluations, default 5 minutes
	Progress  func(finetune.Progress) // called after every step, nil for silence
	Logger    *slog.Logger            // nil for silence

	source *checkpoints.Imported // what From is
}

// size names a size of images, as rows do.
func size(rows, cols int) string { return fmt.Sprintf("%dx%d", rows, cols) }
