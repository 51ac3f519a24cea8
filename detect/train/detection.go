// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package train trains the detectors of package detect and evaluates them as COCO does.
//
//	recipe, err := train.Named("scenes")
//	test, err := train.Generated(scenes.Generated{Count: 200, Height: 96, Width: 96, Seed: 1})
//	run := train.Run{Backend: b, Recipe: recipe, Dir: "runs/first", Dataset: "scenes",
//		Train: scenes.Generated{Count: 4000, Height: 96, Width: 96}, Tests: []train.Test{test}}
//	detector, rows, err := run.Do(ctx)      // the same call resumes an interrupted run
//	found, err := detector.Detect(img)      // boxes, classes, scores and masks
//
// Open returns the detector of a finished run. Steps, checkpoints and resume are those of package finetune, whose
// Trainer trains the Task defined here. Every batch is a function of (seed, step).
//
// The run directory contains
//
//	rows.jsonl        a row per evaluation, and one per size of the test images
//	last/             the newest checkpoint, used by resume and by the final test
//	best/             the checkpoint with the highest validation AP of boxes; Open prefers it
//	results-HxW.json  detections in the test images, in COCO's format
//	report.html       figures and images, written by Page
//
// The command is wepe detect.
package train

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/detect/scenes"
	"github.com/wepe-go/wepe/finetune/engine"
)

// Scenes are images with objects: scenes.Generated, *scenes.Folder. At may be called concurrently.
type Scenes interface {
	Len() int
	At(index int) (*scenes.Scene, error)
	Categories() []coco.Category
}

// Test is a test split for a detector.
type Test struct {
	Scenes      Scenes
	Annotations *coco.Dataset // of the same images
	Areas       coco.Areas    // limits of small, medium and large; zero for COCO's

	// Rows and Cols are the pixels of the canvas for images, multiples of the patch size; 0 for the detector's training
	// size.
	Rows, Cols int
}

// Generated returns generated scenes as a test, at their own size.
func Generated(g scenes.Generated) (Test, error) {
	annotations, err := g.Dataset()
	return Test{Scenes: g, Annotations: annotations, Areas: g.Sizes(), Rows: g.Height, Cols: g.Width}, err
}

// Run is one training run of one recipe on one dataset with one seed.
type Run struct {
	Backend compute.Backend
	Recipe  Recipe
	Seed    int64

	Dataset string // its name, for the record
	Train   Scenes
	// Validation is evaluated every Recipe.EvalSteps, and selects the best checkpoint; nil for none.
	Validation *Test
	Tests      []Test // each evaluated once, after the last step
	Label      string // of the encoding in rows; default the position's name

	From   string            // a pretrained ViT for the backbone, see checkpoints.Import; empty for from scratch
	Import checkpoints.Hints // what its files lack

	Dir       string                // directory of the run's files; empty for none
	SaveEvery time.Duration         // between checkpoints, in addition to evaluations; default 5 minutes
	Progress  func(engine.Progress) // called after every step; may be nil
	Logger    *slog.Logger          // may be nil

	source *checkpoints.Imported // the model of From
}

// size formats an image size, as in rows.
func size(rows, cols int) string { return fmt.Sprintf("%dx%d", rows, cols) }
