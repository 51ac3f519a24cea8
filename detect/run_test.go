// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/detect/scenes"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/report"
)

func tinyRun(t *testing.T) Run {
	t.Helper()
	test := Test{Scenes: generated(t, 3, 32, 48, 2)}
	return Run{Backend: gomlxtest.Backend(), Recipe: tiny(), Seed: 5, Dataset: "scenes", Train: generated(t, 7, 32, 48, 1),
		Validation: &test, Tests: []Test{test}}
}

// After 150 steps a detector finds the objects of the scenes that it was trained on.
func TestRun_LearnsItsScenes(t *testing.T) {
	run := tinyRun(t)
	run.Train = gomlxtest.Must(scenes.Generated{Count: 2, Height: 32, Width: 48, Seed: 3, Most: 2}.Set())(t) // one batch
	run.Validation, run.Tests = nil, []Test{{Scenes: run.Train}}
	r := &run.Recipe
	r.Steps, r.EvalEverySteps, r.LearningRate, r.ScaleJitter, r.Optimizer.LayerDecay = 150, 75, 1e-2, scenes.Jitter{}, 0
	b := &r.Detector.Backbone
	b.DropPath, b.Width, b.Heads, b.MLPDim, b.Relative, r.Detector.Channels = 0, 32, 4, 48, true, 16
	r.Detector.ROI.Samples, r.Detector.ROI.Positive, r.Detector.ROI.CanonicalSize = 24, 0.5, 28
	d, rows, err := run.Do(t.Context())
	gomlxtest.NoError(t, err)
	defer d.Finalize()
	if boxes, masks := rows[0].Boxes["AP50"], rows[0].Masks["AP50"]; boxes < 0.8 || masks < 0.8 {
		t.Errorf("AP50 of boxes is %g, of masks %g", boxes, masks)
	}
}

// stopped starts or resumes a run and interrupts it after a step.
func stopped(t *testing.T, run Run, step int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	run.Progress = func(p engine.Progress) {
		if p.Step == step {
			cancel()
		}
	}
	if _, _, err := run.Do(ctx); !errors.Is(err, engine.ErrInterrupted) {
		t.Fatalf("stopped after step %d: %v", step, err)
	}
}

// finished runs to the end and returns the bytes of the last checkpoint and the rows without measured times.
func finished(t *testing.T, run Run) (d *Detector, variables []byte, rows report.Rows) {
	t.Helper()
	d, _, err := run.Do(t.Context())
	gomlxtest.NoError(t, err)
	t.Cleanup(d.Finalize)
	last, _, err := checkpoints.Find(run.Dir, checkpoints.LastDir)
	gomlxtest.NoError(t, err)
	variables = gomlxtest.Must(os.ReadFile(filepath.Join(last.Path, "variables.safetensors")))(t)
	rows = gomlxtest.Must(report.ReadFiles(filepath.Join(run.Dir, engine.RowsFile)))(t)
	for i := range rows.Evals {
		rows.Evals[i].ImagesPerSecond = 0
	}
	for i := range rows.Results {
		r := &rows.Results[i]
		r.ImagesPerSecond, r.WallSeconds, r.Date, r.Commit = 0, 0, "", "" // somebody may commit meanwhile
	}
	return d, variables, rows
}

func TestRun_InterruptedEndsWithTheBitsOfAnUninterruptedOne(t *testing.T) {
	if name := gomlxtest.Backend().Name(); name != "Go Backend" {
		t.Skipf("backend %s does not promise the same bits twice", name)
	}
	run := tinyRun(t)
	run.Dir = t.TempDir()
	d, want, wantRows := finished(t, run)
	if len(wantRows.Evals) != 2 || len(wantRows.Results) != 1 || len(wantRows.Results[0].Masks) != 12 {
		t.Fatalf("rows are %+v", wantRows)
	}
	whole := run.Dir
	run.Dir = t.TempDir()
	stopped(t, run, 1) // in an epoch of three steps
	stopped(t, run, 4) // in the next one, after an evaluation
	_, got, gotRows := finished(t, run)
	is.Equal(t, "variables", string(got) == string(want), true)
	is.Equal(t, "rows", gotRows, wantRows)

	t.Run("opened elsewhere its last checkpoint finds the same", func(t *testing.T) {
		opened := gomlxtest.Must(Open(gomlxtest.Backend(), filepath.Join(whole, checkpoints.LastDir)))(t)
		defer opened.Finalize()
		want, got := gomlxtest.Must(d.Detect(picture(t, 32, 48)))(t), gomlxtest.Must(opened.Detect(picture(t, 32, 48)))(t)
		if len(want[0]) == 0 || !reflect.DeepEqual(got, want) || opened.Categories[2].Name != "heart" {
			t.Errorf("%v are found, %v by the model that was trained", got, want)
		}
	})
	t.Run("it is tested at another size and on other scenes without training again", func(t *testing.T) {
		single := gomlxtest.Must(scenes.Generated{Count: 3, Height: 32, Width: 48, Seed: 2, Most: 1}.Set())(t)
		run.Tests = append(run.Tests, Test{Scenes: generated(t, 3, 56, 40, 2)}, Test{Scenes: generated(t, 3, 32, 48, 9)},
			Test{Scenes: single}, Test{Scenes: generated(t, 3, 56, 40, 2), Rows: 32, Cols: 48})
		run.Progress = func(p engine.Progress) { t.Errorf("a finished run makes step %d", p.Step) }
		for range 2 { // the second time nothing is measured
			d, rows, err := run.Do(t.Context())
			gomlxtest.NoError(t, err)
			defer d.Finalize()
			if len(rows) != 5 || rows[0].Recipe != "tiny" || rows[1].Recipe != "tiny at 56x40" || rows[1].ImageSize != "56x40" ||
				!strings.Contains(string(rows[2].Settings), `"shapes-9"`) {
				t.Errorf("rows are %+v", rows)
			}
			for i, size := range []string{"32x48", "56x40", "32x48-2", "32x48-3", "32x48-4"} {
				found := gomlxtest.Must(coco.ReadResults(filepath.Join(run.Dir, "results-"+size+".json")))(t)
				_, want, err := d.Evaluate(run.Tests[i])
				gomlxtest.NoError(t, err)
				nearDetections(t, size, found, want, 1e-6)
			}
			found := gomlxtest.Must(coco.ReadResults(filepath.Join(run.Dir, "results-56x40.json")))(t)
			truth := gomlxtest.Must(run.Tests[1].Scenes.Annotated())(t)
			numbers := gomlxtest.Must(coco.Evaluate(truth, found, false, run.Tests[1].Scenes.Areas))(t)
			gomlxtest.NearAbs(t, "AP of the file", numbers[:1], []float64{float64(rows[1].Boxes["AP"])}, 1e-12)
			gomlxtest.NoError(t, run.Page(d, rows))
		}
		rows := gomlxtest.Must(report.ReadFiles(filepath.Join(run.Dir, engine.RowsFile)))(t)
		is.Equal(t, "rows", len(rows.Results), 5) // one for each test
		page := gomlxtest.Must(os.ReadFile(filepath.Join(run.Dir, finetune.PageFile)))(t)
		is.Equal(t, "images of scenes and curves", bytes.Count(page, []byte("data:image/png;base64,")), 3*5+2)
	})
	t.Run("another run is refused", func(t *testing.T) {
		for field, change := range map[string]func(*Run){
			"optimizer.layer_decay": func(r *Run) { r.Recipe.Optimizer.LayerDecay = 0.8 },
			"detector.channels":     func(r *Run) { r.Recipe.Detector.Channels = 16 },
			"seed":                  func(r *Run) { r.Seed = 6 },
			"scenes":                func(r *Run) { r.Train = generated(t, 8, 32, 48, 1) },
			"data":                  func(r *Run) { r.Train = generated(t, 7, 32, 48, 77) },
			"validation":            func(r *Run) { r.Validation = &Test{Scenes: generated(t, 2, 32, 48, 2)} },
		} {
			other := run
			change(&other)
			_, _, err := other.Do(t.Context())
			if differ := (*engine.OtherRunError)(nil); !errors.As(err, &differ) || differ.Field != field {
				t.Errorf("%s: %v", field, err)
			}
		}
	})
}

// A run interrupted by an earlier version (fb574f5) is resumed with that version's losses and metrics: the rows are
// those of its uninterrupted run, on the go backend bit for bit.
func TestRun_OfAnEarlierVersionIsResumedWithItsNumbers(t *testing.T) {
	gomlxtest.OnGo(t)
	run := tinyRun(t)
	run.Recipe.Name = "small"
	d := &run.Recipe.Detector
	d.Backbone.Width, d.Backbone.Depth, d.Backbone.MLPDim, d.Backbone.Global = 8, 1, 8, []int{0}
	d.Channels, d.ROI.Convs, d.ROI.Dense, d.ROI.Masks, d.ROI.MaskSize = 4, []int{4}, []int{8}, []int{4}, 2
	run.Dir = t.TempDir()
	gomlxtest.NoError(t, os.CopyFS(run.Dir, os.DirFS("testdata/interrupted")))
	_, _, got := finished(t, run)
	want := gomlxtest.Must(report.ReadFiles("testdata/interrupted/expected.jsonl"))(t)
	is.Equal(t, "evaluations and results", [2]int{len(got.Evals), len(got.Results)}, [2]int{len(want.Evals), 1})
	for i, row := range want.Evals {
		is.Near(t, "loss", float64(got.Evals[i].TrainLoss), float64(row.TrainLoss), 1e-4)
	}
	for name, ap := range want.Results[0].Masks {
		is.Near(t, name, float64(got.Results[0].Masks[name]), float64(ap), 1e-4)
	}
}

// Every setting is checked before the first step, by its name. A step or two of the valid ones would take longer.
func TestRun_RefusesSettingsByName(t *testing.T) {
	gomlxtest.OnGo(t)
	for settings, want := range map[string]string{
		"steps=0": "steps", "batch_size=9": "batch_size", "learning_rate=0": "learning_rate",
		"learning_rate=1000": "learning_rate", "warmup_steps=6": "warmup_steps", "lr_milestones=[4,2]": "lr_milestones",
		"lr_milestones=[0,2]": "lr_milestones", "scale_jitter.height=40": "scale_jitter.height",
		"scale_jitter.width=40": "scale_jitter.width", "scale_jitter.low=2": "jitter", "scale_jitter.low=-1": "jitter",
		"scale_jitter.high=17": "jitter", "scale_jitter.flip=1.5": "jitter", "scale_jitter.flip=-1": "jitter",
		"val_fraction=1.5": "val_fraction", "optimizer.weight_decay=-1": "weight_decay",
		`optimizer.learning_rates={"head":3}`: "optimizer.learning_rates", "wepe_mode=round": "wepe_mode",
		"detector.backbone.wideness=3": "wideness", "detector.backbone.global=3": "global",
		"eval_every_steps=often": "eval_every_steps",

		"detector.channels=-1": "channels", "detector.backbone.channels=1": "backbone.channels",
		"detector.backbone.image_rows=8": "canvas", "detector.backbone.patch_size=6": "patches",
		"detector.backbone.width=30;detector.backbone.num_heads=5": "backbone.width", "detector.backbone.width=41": "width",
		"detector.backbone.dtype=bfloat16": "backbone.dtype", "detector.backbone.pre_norm=true": "pre_norm",
		"detector.backbone.window=-1": "window", "detector.backbone.position_rows=-5": "position_rows",
		"detector.backbone.position_cols=16385": "position_cols", "detector.backbone.global=[2]": "global",
		"detector.backbone.global=[1,1]": "global", "lr_milestones=[3,1000]": "lr_milestones",
		"detector.backbone.position=hybrid": "hybrid",
		"detector.backbone.residual=[-1]":   "residual", "detector.rpn.neg_iou=0.8": "rpn.neg_iou",
		"detector.rpn.nms_iou=2": "rpn.nms_iou", "detector.rpn.samples=1048577": "rpn.samples",
		"detector.rpn.before.train=-1": "rpn.before.train", "detector.rpn.after.test=-1": "rpn.after.test",
		"detector.rpn.sizes=[32]": "rpn.sizes", "detector.rpn.sizes=[7,11,0,25,35]": "rpn.sizes",
		"detector.rpn.sizes=[7,11,1e9,25,35]": "rpn.sizes", "detector.rpn.ratios=[-1]": "rpn.ratios",
		"detector.rpn.ratios=[]": "rpn.ratios", "detector.roi.samples=-2": "roi.samples",
		"detector.roi.max_detections=-1": "roi.max_detections", "detector.roi.size=1001": "roi.size",
		"detector.roi.score_threshold=1.5": "roi.score_threshold", "detector.roi.positive=-1": "roi.positive",
		"detector.roi.canonical_size=-1": "roi.canonical_size", "detector.roi.canonical_level=32": "roi.canonical_level",
		"detector.std=[1,-1,1]":        "std",
		"detector.roi.convs=[1048577]": "roi.convs", "detector.roi.dense=[0]": "dense", "detector.roi.masks=[3,0]": "masks",
		"detector.roi.masks=[]": "masks", "detector.roi.stages=[]": "roi.stages", "detector.roi.stages=[{}]": "stage 0",
		`detector.roi.stages=[{"iou":1.5,"weights":[1,1,1,1]}]`: "stage 0",
		`detector.roi.stages=[{"iou":0.5,"weights":[1,1,0,1]}]`: "stage 0",

		"detector.mean=[0.5,0.5,0.5]": "std", "detector.std=[1,1,1]": "detector.mean",
		"detector.backbone.registers=4": "registers", `detector={"backbone":{"recompute":true}}`: "recompute",

		"lr_milestones=[1];eval_every_steps=1;warmup_steps=1":                        "",
		"detector.mean=[0,0,0];detector.std=[1,1,1]":                                 "",
		"detector.backbone.window=16384;detector.backbone.position_rows=1":           "",
		"detector.rpn.neg_iou=0.7;detector.rpn.ratios=[0.25];detector.rpn.samples=1": "",
		"detector.roi.canonical_size=0.125":                                          "",
		"detector.roi.convs=[];detector.roi.dense=[];detector.roi.masks=[1,1048576]": "", "detector.roi.size=1000": "",
		`detector.roi.stages=[{"iou":1,"weights":[0.5,1,2,1]}];detector.roi.nms_iou=1`: "",
	} {
		run := tinyRun(t)
		var err error
		if run.Recipe, err = run.Recipe.Set(settings); err == nil {
			_, err = run.prepared()
		}
		if want != "" {
			is.Refused(t, settings, err, want)
		} else if err != nil {
			t.Errorf("%s: %v", settings, err)
		}
	}
	for _, settings := range []string{"lr_milestones=[3,1000]", "detector.backbone.global=[1,1]",
		"detector.backbone.position=hybrid"} { // a finished detector of an earlier version may have them
		gomlxtest.Must(gomlxtest.Must(tiny().Set(settings))(t).Resolve())(t)
	}
	r := Recipe{LRMilestones: []int{3, 7}, Params: map[string]any{"wepe_alpha_u": 0.5}}
	r.Detector.RPN.Sizes = []float64{11, 13}
	changed := gomlxtest.Must(r.Set("lr_milestones=[5,9];wepe_alpha_u=0.25;detector.rpn.sizes=[5,7]"))(t)
	shown := func(r Recipe) string { return fmt.Sprint(r.LRMilestones, r.Params, r.Detector.RPN.Sizes) }
	is.Equal(t, "changed", shown(changed), "[5 9] map[wepe_alpha_u:0.25] [5 7]")
	is.Equal(t, "the recipe that it starts from", shown(r), "[3 7] map[wepe_alpha_u:0.5] [11 13]")
	is.Refused(t, "a refusal", is.ErrorOf(RecipeByName("yolo")), "recipe")
	is.Refused(t, "a refusal", is.ErrorOf(Open(gomlxtest.Backend(), t.TempDir())), "no checkpoint in")
}

// What the evaluation at the end would refuse is refused before the first step.
func TestRun_RefusesTestsThatDoNotFit(t *testing.T) {
	run := tinyRun(t)
	for want, change := range map[string]func(test *Test){
		"canvas of 40×44": func(test *Test) { test.Rows, test.Cols = 40, 44 },
		"8×64":            func(test *Test) { test.Rows, test.Cols = 8, 64 },
		"categories":      func(test *Test) { test.Scenes.Categories = test.Scenes.Categories[1:] },
		"category": func(test *Test) { // of several with one name
			test.Scenes.Categories = slices.Clone(test.Scenes.Categories)
			for i := range test.Scenes.Categories {
				test.Scenes.Categories[i] = coco.Category{ID: int64(7 + i), Name: run.Train.Categories[0].Name}
			}
		},
		"segmentation": func(test *Test) {
			annotations := *gomlxtest.Must(test.Scenes.Annotated())(t)
			annotations.Annotations = slices.Clone(annotations.Annotations)
			annotations.Annotations[0].Segmentation = coco.Segmentation{}
			test.Scenes.Annotated = func() (*coco.Dataset, error) { return &annotations, nil }
		},
	} {
		test := run.Tests[0]
		own := *test.Scenes
		test.Scenes = &own
		change(&test)
		other := run
		other.Validation, other.Tests = &test, nil
		is.Refused(t, "a refusal", is.ErrorOf(other.prepared()), want)
		if other.Recipe.Detector.ROI.NoMasks = true; want == "segmentation" {
			gomlxtest.Must(other.prepared())(t) // of boxes alone
		}
	}
}

// docs/runs has the settings of the recipe's published runs.
func TestRecipe_ScenesIsThatOfItsPublishedRuns(t *testing.T) {
	rows := gomlxtest.Must(report.ReadFiles("../docs/runs/scenes-full.jsonl"))(t)
	if len(rows.Results) == 0 {
		t.Fatal("no rows")
	}
	for _, row := range rows.Results {
		want := gomlxtest.Must(RecipeByName("scenes"))(t)
		want.Detector.Backbone.Position, want.Detector.Backbone.Classes = row.Encoding, 3
		var got Recipe
		gomlxtest.NoError(t, json.Unmarshal(row.Settings, &got))
		is.Equal(t, row.Encoding, gomlxtest.Resolved(got), gomlxtest.Resolved(want))
	}
}

// detectron2's projects/ViTDet/configs/COCO at 02b5c4e: mask_rcnn_vitdet_b_100ep.py, mask_rcnn_vitdet_l_100ep.py,
// cascade_mask_rcnn_vitdet_b_100ep.py, configs/common/{coco_loader_lsj,optim,models/mask_rcnn_vitdet}.py and
// mask_rcnn_fpn.py. The learning rate drops at 163889 and 177546 of 184375 steps, after 250 of warm-up.
func TestRecipes_OfViTDetAreDetectron2s(t *testing.T) {
	const heads = `{"channels":256,"mean":[0.485,0.456,0.406],"std":[0.229,0.224,0.225],
		"rpn":{"convs":2,"sizes":[32,64,128,256,512],"ratios":[0.5,1,2],"neg_iou":0.3,"pos_iou":0.7,"samples":256,
			"positive":0.5,"before":{"train":2000,"test":1000},"after":{"train":1000,"test":1000},"nms_iou":0.7},
		"roi":{"samples":512,"positive":0.25,"stages":[{"iou":0.5,"weights":[10,10,5,5]},{"iou":0.6,"weights":[20,20,10,10]},
			{"iou":0.7,"weights":[30,30,15,15]}],"size":7,"convs":[256,256,256,256],"dense":[1024],"mask_size":14,
			"masks":[256,256,256,256],"canonical_size":224,"canonical_level":4,
			"score_threshold":0.05,"nms_iou":0.5,"max_detections":100}}`
	for name, want := range map[string]struct {
		width, depth         int
		global               []int
		dropPath, layerDecay float64
		stages               int
	}{"vitdet-b": {768, 12, []int{2, 5, 8, 11}, 0.1, 0.7, 1},
		"vitdet-b-cascade": {768, 12, []int{2, 5, 8, 11}, 0.1, 0.7, 3},
		"vitdet-l":         {1024, 24, []int{5, 11, 17, 23}, 0.4, 0.8, 1},
		"vitdet-l-cascade": {1024, 24, []int{5, 11, 17, 23}, 0.4, 0.8, 3}} {
		r := gomlxtest.Must(gomlxtest.Must(RecipeByName(name))(t).Resolve())(t)
		b := r.Detector.Backbone
		if b.Width != want.width || b.Depth != want.depth || b.DropPath != want.dropPath || b.PatchSize != 16 ||
			b.ImageRows != 1024 || b.Window != 14 || !slices.Equal(b.Global, want.global) || !b.Relative || b.Classes != 80 ||
			b.PositionRows != 14 || b.PositionCols != 14 || r.Optimizer.LayerDecay != want.layerDecay {
			t.Errorf("%s: %+v, layer decay %g", name, b, r.Optimizer.LayerDecay)
		}
		var wanted Config
		gomlxtest.NoError(t, json.Unmarshal([]byte(heads), &wanted))
		wanted.Backbone, wanted.ROI.Stages = b, wanted.ROI.Stages[:want.stages]
		is.Equal(t, name, r.Detector, wanted)
		if r.BatchSize != 64 || r.Steps != 184_375 || r.Optimizer.WeightDecay != 0.1 || r.EvalEverySteps != 5000 ||
			r.ScaleJitter != (scenes.Jitter{Height: 1024, Width: 1024, Low: 0.1, High: 2, Flip: 0.5}) {
			t.Errorf("%s: %+v", name, r)
		}
		for step, want := range map[int]float64{0: 0, 125: 5e-5, 250: 1e-4, 163_888: 1e-4, 163_889: 1e-5, 177_546: 1e-6} {
			is.Near(t, fmt.Sprint("step ", step), r.schedule().At(step), want, 1e-18)
		}
	}
}

// COCO's files number the same categories in different ways; the names decide.
func TestTest_CategoriesAreFoundByTheirNames(t *testing.T) {
	own := []coco.Category{{ID: 2, Name: "cat"}, {ID: 5, Name: "dog"}, {ID: 7, Name: "eel"}}
	unnamed := []coco.Category{{ID: 3}, {ID: 4}}
	for _, c := range []struct {
		own, test []coco.Category
		ids       []int64 // nil where they are refused
	}{
		{own, own, []int64{2, 5, 7}},
		{own, []coco.Category{{ID: 1, Name: "eel"}, {ID: 3, Name: "cat"}, {ID: 9, Name: "dog"}}, []int64{3, 9, 1}},
		{unnamed, unnamed, []int64{3, 4}},
		{own, own[:2], nil}, {own, append([]coco.Category{{ID: 1, Name: "ant"}}, own...), nil},
		{own, []coco.Category{{ID: 2, Name: "cat"}, {ID: 5, Name: "dog"}, {ID: 7, Name: "ape"}}, nil},
		{own, slices.Repeat(own, 3), nil},
	} {
		ids, err := identifiers(c.own, &scenes.Set{Name: "x", Categories: c.test})
		is.Equal(t, fmt.Sprint(c.test, err), ids, c.ids)
		is.Equal(t, fmt.Sprint(c.test, err), err == nil, c.ids != nil)
	}
}

// The test's categories are the detector's, by their names, in another order.
func TestPage_GroundTruthHasTheNamesOfTheTest(t *testing.T) {
	gomlxtest.OnGo(t)
	own := generated(t, 1, 32, 48, 2)
	test := *own
	test.Categories = []coco.Category{{ID: 1, Name: "heart"}, {ID: 2, Name: "square"}, {ID: 3, Name: "ellipse"}}
	detector := untrained(t, tiny())
	content := gomlxtest.Must(detector.beside(Test{Scenes: &test}, 0))(t)
	img := gomlxtest.Must(png.Decode(bytes.NewReader(content)))(t)
	scene := gomlxtest.Must(own.At(0))(t)
	for i, o := range scene.Objects { // a class has one colour on both sides
		scene.Objects[i].Class = slices.IndexFunc(detector.Categories,
			func(c coco.Category) bool { return c.Name == test.Categories[o.Class].Name })
	}
	want := scenes.Show(scene.Image.RGBA(), scene.Objects, detector.Categories)
	for i := range want.Rect.Dx() * want.Rect.Dy() {
		x, y := i%want.Rect.Dx(), i/want.Rect.Dx()
		is.Equal(t, "pixel", color.RGBAModel.Convert(img.At(x, y)), want.At(x, y))
	}
}

// With any batch size, every image is evaluated once: the last batch may be incomplete.
func TestDetector_EvaluateDoesNotDependOnTheBatchSize(t *testing.T) {
	test := Test{Scenes: generated(t, 3, 32, 48, 2)}
	d := untrained(t, tiny())
	all := map[int][]coco.Detection{}
	for _, size := range []int{1, 2} {
		d.Recipe.BatchSize = size
		_, found, err := d.Evaluate(test)
		gomlxtest.NoError(t, err)
		all[size] = found
	}
	images := map[int64]bool{}
	for _, d := range all[1] {
		images[d.ImageID] = true
	}
	is.Equal(t, "images with detections", len(images), test.Scenes.Len)
	nearDetections(t, "batches of two", all[2], all[1], 1e-5)

	others := *test.Scenes // the same categories, with other numbers
	others.Categories = []coco.Category{{ID: 1, Name: "heart"}, {ID: 2, Name: "square"}, {ID: 3, Name: "ellipse"}}
	_, found, err := d.Evaluate(Test{Scenes: &others})
	gomlxtest.NoError(t, err)
	id := func(of []coco.Category, name string) int64 {
		return of[slices.IndexFunc(of, func(c coco.Category) bool { return c.Name == name })].ID
	}
	for i, f := range found {
		was := func(c coco.Category) bool { return c.ID == all[2][i].CategoryID }
		own := d.Categories[slices.IndexFunc(d.Categories, was)]
		is.Equal(t, "category "+own.Name, f.CategoryID, id(others.Categories, own.Name))
	}
}

// nearDetections compares images, categories and scores.
func nearDetections(t *testing.T, name string, got, want []coco.Detection, tolerance float64) {
	t.Helper()
	is.Equal(t, name+": detections", len(got), len(want))
	for i, w := range want[:min(len(want), len(got))] {
		g := got[i]
		is.Equal(t, name+": image and category", [2]int64{g.ImageID, g.CategoryID}, [2]int64{w.ImageID, w.CategoryID})
		is.Near(t, name, g.Score, w.Score, tolerance)
	}
}

// The ground truth has 1 in all metrics, nothing has 0. A wrong mask with a large box and a small area counts among the
// small masks, as in cocoapi for results without boxes: one of two detections is right, so the precision is 1/2 at
// every recall.
func TestTest_MasksAreComparedWithoutBoxes(t *testing.T) {
	const rows, cols = 60, 70
	object := func(box coco.Box, score float64, inside func(row, col int) bool) coco.Detection {
		pixels := make([]bool, rows*cols)
		for i := range pixels {
			pixels[i] = inside(i/cols, i%cols)
		}
		return result(9, 4, scenes.Object{Box: box, Score: score, Mask: coco.Encode(pixels, rows, cols)})
	}
	square := object(coco.Box{0, 0, 10, 10}, 0.5, func(row, col int) bool { return row < 10 && col < 10 })
	diagonal := object(coco.Box{12, 12, 48, 48}, 0.9, func(row, col int) bool { return row == col && row >= 12 })
	thin := object(coco.Box{0, 0, 10, 10}, 0.5, func(row, col int) bool { return row == col && row < 10 })
	truth := &coco.Dataset{Categories: []coco.Category{{ID: 4, Name: "square"}},
		Images: []coco.Image{{ID: 9, Height: rows, Width: cols}},
		Annotations: []coco.Annotation{{ID: 1, ImageID: 9, CategoryID: 4, Segmentation: square.Segmentation,
			Area: new(100.0), Box: square.Box, Crowd: new(0)}}}
	test := Test{Scenes: &scenes.Set{Annotated: func() (*coco.Dataset, error) { return truth, nil }}}
	for _, c := range []struct {
		found        []coco.Detection
		metric       string
		boxes, masks float64
	}{
		{[]coco.Detection{square}, "AP", 1, 1}, {nil, "AP", 0, 0},
		{[]coco.Detection{diagonal, square}, "APs", 1, 0.5}, // the wrong box has medium size
		{[]coco.Detection{thin}, "AP", 1, 0},
	} {
		numbers := gomlxtest.Must(test.compare(c.found, true))(t)
		got := []float64{float64(numbers.Boxes[c.metric]), float64(numbers.Masks[c.metric])}
		gomlxtest.NearAbs(t, c.metric, got, []float64{c.boxes, c.masks}, 1e-9)
	}
}

func TestTable_LeavesOutUndefinedMetrics(t *testing.T) {
	row := func(seed int64, small report.JSONFloat) (r report.Result) {
		r.Recipe, r.Encoding, r.ImageSize, r.Seed = "tiny", "wepe", "32x48", seed
		r.Boxes = map[string]report.JSONFloat{"AP": 0.25, "AP50": 0, "APs": small, "APl": -1}
		return r
	}
	table := Table([]report.Result{row(0, -1), row(1, 0.5)})
	for name, want := range map[string]string{"n": "2", "box AP": "25.0", "box AP50": "0.0", "box APs": "50.0",
		"box APl": "–", "mask AP": "–"} {
		is.Equal(t, name, table.Rows[0][slices.Index(table.Header, name)], want)
	}
	evals := []report.Eval{{Step: 5, TrainLoss: 0.125,
		DetectionMetrics: report.DetectionMetrics{Boxes: map[string]report.JSONFloat{"AP": 0.5}}}}
	is.Equal(t, "an evaluation", curve(evals).Rows[0], []string{"5", "0.125", "50.0", "–"})
}

// A part of the training images may be held out. Two directories in COCO's layout give their files the same names: the
// annotations decide whether a run is the same.
func TestRun_OnAFolder(t *testing.T) {
	gomlxtest.OnGo(t)
	folder := func(seed int64) *scenes.Set {
		dir := t.TempDir()
		instances := filepath.Join(dir, "instances.json")
		gomlxtest.NoError(t, scenes.Write(dir, instances, generated(t, 7, 32, 48, seed)))
		return gomlxtest.Must(scenes.Open(dir, instances, nil))(t)
	}
	run := tinyRun(t)
	run.Validation, run.Tests, run.Dir = nil, nil, t.TempDir()
	run.Recipe.ValFraction, run.Recipe.Steps, run.Recipe.EvalEverySteps = 0.4, 2, 1
	run.Train = folder(1)
	_, _, rows := finished(t, run)
	if len(rows.Evals) != 2 || len(rows.Evals[0].Boxes) != 12 || len(rows.Evals[0].Masks) != 12 {
		t.Errorf("evaluations are %+v", rows.Evals)
	}
	best, _, err := checkpoints.Find(run.Dir, "")
	gomlxtest.NoError(t, err)
	is.Equal(t, "the opened checkpoint", filepath.Base(filepath.Dir(best.Path)), checkpoints.BestDir)
	run.Train = folder(1) // the same in another place
	finished(t, run)
	run.Train = folder(2)
	_, _, err = run.Do(t.Context())
	is.Refused(t, "a refusal", err, "its data is ")
	for _, fraction := range []float64{0.05, 0.97} { // of 7 images none and all
		run.Recipe.ValFraction = fraction
		is.Refused(t, "a refusal", is.ErrorOf(run.prepared()), fmt.Sprintf("val_fraction %g of 7 images", fraction))
	}
	run.Train = nil
	is.Refused(t, "a refusal", is.ErrorOf(run.prepared()), "Train")
}
