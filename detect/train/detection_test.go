// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package train

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/detect"
	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/detect/scenes"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/vit"
)

// tiny trains in a test: images of 32×48 pixels, 4×6 patches in windows of 3, with stochastic depth.
func tiny() Recipe {
	return Recipe{
		Name: "tiny",
		Detector: detect.Config{
			Backbone: detect.Backbone{Config: vit.Config{ImageRows: 32, ImageCols: 48, PatchSize: 8, Width: 16, Depth: 2,
				Heads: 2, MLPDim: 24, DropPath: 0.2, Position: "wepe"}, Window: 3, Global: []int{1}},
			Channels: 8,
			RPN: detect.RPN{Convs: 1, Sizes: []float64{7, 11, 17, 25, 35}, Samples: 32,
				Before: detect.Counts{Train: 40, Test: 30}, After: detect.Counts{Train: 20, Test: 10}},
			ROI: detect.ROI{Samples: 12, Size: 3, Convs: []int{8}, Dense: []int{16}, MaskSize: 3, Masks: []int{8},
				Score: 0.01, Top: 5},
		},
		Steps: 5, BatchSize: 2, LearningRate: 3e-3, WarmupSteps: 1, EvalSteps: 3,
		Optimizer: engine.Optimizer{WeightDecay: 0.05, ClipNorm: 1, LayerDecay: 0.7},
		Jitter:    scenes.Jitter{Low: 0.7, High: 1.5, Flip: 0.5},
	}
}

func generated(count int, seed int64) scenes.Generated {
	return scenes.Generated{Count: count, Height: 32, Width: 48, Seed: seed}
}

func tinyRun(t *testing.T) Run {
	t.Helper()
	test := gomlxtest.Must(Generated(generated(3, 2)))(t)
	return Run{Backend: gomlxtest.Backend(), Recipe: tiny(), Seed: 5, Dataset: "scenes", Train: generated(7, 1),
		Validation: &test, Tests: []Test{test}}
}

// The scenes of a seed are another test, also of as many images.
func TestAFinishedRunIsTestedOnScenesOfAnotherSeed(t *testing.T) {
	run := tinyRun(t)
	run.Dir, run.Recipe.Steps, run.Recipe.EvalSteps = t.TempDir(), 1, 1
	for _, seed := range []int64{2, 3, 2} {
		run.Tests = []Test{gomlxtest.Must(Generated(generated(3, seed)))(t)}
		m, rows, err := run.Do(t.Context())
		if err != nil || len(rows) != 1 {
			t.Fatalf("seed %d: %d rows, %v", seed, len(rows), err)
		}
		m.Finalize()
		if name := fmt.Sprintf(`"shapes-%d"`, seed); !strings.Contains(string(rows[0].Settings), name) {
			t.Errorf("seed %d: the row of %s, not of %s", seed, rows[0].Settings, name)
		}
	}
	if rows := gomlxtest.Must(report.ReadFiles(filepath.Join(run.Dir, engine.RowsFile)))(t).Results; len(rows) != 2 {
		t.Errorf("%d rows, want one for each seed", len(rows))
	}
}

func TestAFewStepsReduceTheLoss(t *testing.T) {
	run := tinyRun(t)
	run.Validation, run.Tests = nil, nil
	run.Recipe.Steps, run.Recipe.EvalSteps, run.Recipe.LearningRate = 20, 1, 1e-2 // an evaluation reads the loss back
	run.Recipe.Detector.Backbone.DropPath, run.Recipe.Jitter = 0, scenes.Jitter{}
	run.Train = generated(2, 1) // one batch
	var losses []float64
	run.Progress = func(p engine.Progress) { losses = append(losses, p.Loss) }
	m, _, err := run.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Finalize()
	if first, last := losses[0], losses[len(losses)-1]; !(last < 0.9*first) { // a loss that is not trained stays at 1
		t.Errorf("the loss goes from %g to %g in %d steps", first, last, len(losses))
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
func finished(t *testing.T, run Run) (m *Model, variables []byte, rows report.Rows) {
	t.Helper()
	m, _, err := run.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Finalize)
	last, _, err := checkpoints.Find(run.Dir, checkpoints.LastDir)
	if err != nil {
		t.Fatal(err)
	}
	variables = gomlxtest.Must(os.ReadFile(filepath.Join(last.Path, "variables.safetensors")))(t)
	rows = gomlxtest.Must(report.ReadFiles(filepath.Join(run.Dir, engine.RowsFile)))(t)
	for i := range rows.Evals {
		rows.Evals[i].ImagesPerSecond = 0
	}
	for i := range rows.Results {
		r := &rows.Results[i]
		r.ImagesPerSecond, r.WallSeconds, r.Date, r.Commit = 0, 0, "", "" // somebody may commit meanwhile
	}
	return m, variables, rows
}

func TestAnInterruptedRunEndsWithTheBitsOfAnUninterruptedOne(t *testing.T) {
	if name := gomlxtest.Backend().Name(); name != "Go Backend" {
		t.Skipf("backend %s does not promise the same bits twice", name)
	}
	run := tinyRun(t)
	run.Dir = t.TempDir()
	m, want, wantRows := finished(t, run)
	if len(wantRows.Evals) != 2 || len(wantRows.Results) != 1 || len(wantRows.Results[0].Masks) != 12 {
		t.Fatalf("rows are %+v", wantRows)
	}
	whole := run.Dir
	run.Dir = t.TempDir()
	stopped(t, run, 1) // in an epoch of three steps
	stopped(t, run, 4) // in the next one, after an evaluation
	_, got, gotRows := finished(t, run)
	if !bytes.Equal(got, want) {
		t.Error("the variables differ from those of the unbroken run")
	}
	if !reflect.DeepEqual(gotRows, wantRows) {
		t.Errorf("rows are %+v, those of the unbroken run %+v", gotRows, wantRows)
	}

	t.Run("the best checkpoint is that of the highest precision", func(t *testing.T) {
		best := wantRows.Evals[0]
		for _, row := range wantRows.Evals[1:] {
			if row.Boxes["AP"] > best.Boxes["AP"] {
				best = row
			}
		}
		found, _, err := checkpoints.Find(whole, "")
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(filepath.Dir(found.Path)) != checkpoints.BestDir || int(found.Step) != best.Step {
			t.Errorf("opened is %s of step %d, want the best, of step %d", found.Path, found.Step, best.Step)
		}
	})
	t.Run("opened elsewhere its last checkpoint finds the same", func(t *testing.T) {
		opened := gomlxtest.Must(Open(gomlxtest.Backend(), filepath.Join(whole, checkpoints.LastDir)))(t)
		defer opened.Finalize()
		scene := gomlxtest.Must(generated(1, 9).At(0))(t)
		want := gomlxtest.Must(m.Detect(scene.Image.RGBA()))(t)
		got := gomlxtest.Must(opened.Detect(scene.Image.RGBA()))(t)
		if len(want[0]) == 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("%d objects are found, %d by the model that was trained", len(got[0]), len(want[0]))
		}
		if opened.Categories[2].Name != "heart" {
			t.Errorf("categories are %v", opened.Categories)
		}
	})
	t.Run("it is tested at another size without training again", func(t *testing.T) {
		upright := scenes.Generated{Count: 3, Height: 56, Width: 40, Seed: 2}
		run.Tests = append(run.Tests, gomlxtest.Must(Generated(upright))(t))
		run.Progress = func(p engine.Progress) { t.Errorf("a finished run makes step %d", p.Step) }
		m, rows, err := run.Do(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer m.Finalize()
		if len(rows) != 2 || rows[0].Recipe != "tiny" || rows[1].Recipe != "tiny at 56x40" || rows[1].ImageSize != "56x40" {
			t.Errorf("rows are %+v", rows)
		}
		results := filepath.Join(run.Dir, "results-56x40.json")
		found := gomlxtest.Must(coco.ReadResults(results))(t)
		numbers := gomlxtest.Must(coco.Evaluate(run.Tests[1].Annotations, found, coco.Params{Areas: run.Tests[1].Areas}))(t)
		if want := float64(rows[1].Boxes["AP"]); !(math.Abs(numbers[0]-want) <= 1e-12) {
			t.Errorf("the file's detections have box AP %g, the row %g", numbers[0], want)
		}
	})
	t.Run("its page has the scenes of each test beside what is found", func(t *testing.T) {
		m, rows, err := run.Do(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer m.Finalize()
		if err := run.Page(m, rows); err != nil {
			t.Fatal(err)
		}
		page := string(gomlxtest.Must(os.ReadFile(filepath.Join(run.Dir, finetune.PageFile)))(t))
		var titles, sizes []string
		for _, title := range regexp.MustCompile(`<h2[^>]*>([^<]*)|alt="([^"]*)`).FindAllStringSubmatch(page, -1) {
			titles = append(titles, title[1]+title[2])
		}
		for _, raw := range regexp.MustCompile(`base64,([^"]*)`).FindAllStringSubmatch(page, -1) {
			decoded := gomlxtest.Must(png.Decode(base64.NewDecoder(base64.StdEncoding, strings.NewReader(raw[1]))))(t)
			sizes = append(sizes, fmt.Sprint(decoded.Bounds().Size()))
		}
		if got, want := strings.Join(titles, ", "), "Average precision, %, Test scenes at 32x48 pixels, scene 1, scene 2, "+
			"scene 3, Test scenes at 56x40 pixels, scene 1, scene 2, scene 3, Training, training loss, "+
			"average precision on the validation split"; got != want {
			t.Errorf("the page has %s, want %s", got, want)
		}
		test := run.Tests[1]
		scene := gomlxtest.Must(test.Scenes.At(2))(t)
		picture := gomlxtest.Must(png.Decode(bytes.NewReader(gomlxtest.Must(m.beside(test, 2))(t))))(t)
		found := gomlxtest.Must(m.at(test, scene.Image.RGBA()))(t)
		left := scenes.Show(scene.Image.RGBA(), scene.Objects, m.Categories)
		right := scenes.Show(scene.Image.RGBA(), Shown(found[0], 0.5), m.Categories)
		size := left.Bounds().Size()
		if got := picture.Bounds().Size(); got != image.Pt(2*size.X+8, size.Y) || sizes[5] != fmt.Sprint(got) {
			t.Errorf("scenes are %v, want twice %v and a gap", sizes, size)
		}
		for y := range size.Y {
			for x := range size.X {
				here, beside := color.RGBAModel.Convert(picture.At(x, y)), color.RGBAModel.Convert(picture.At(x+size.X+8, y))
				if here != left.At(x, y) || beside != right.At(x, y) {
					t.Fatalf("pixel %d, %d is %v, want %v; beside it %v, want %v", x, y, here, left.At(x, y), beside, right.At(x, y))
				}
			}
		}
	})
	t.Run("another run is refused", func(t *testing.T) {
		for field, change := range map[string]func(*Run){
			"optimizer.layer_decay": func(r *Run) { r.Recipe.Optimizer.LayerDecay = 0.8 },
			"detector.channels":     func(r *Run) { r.Recipe.Detector.Channels = 16 },
			"seed":                  func(r *Run) { r.Seed = 6 },
			"scenes":                func(r *Run) { r.Train = generated(8, 1) },
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

func refused(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("want one line with %q, got %v", want, err)
	}
}

// COCO's files number the same categories in different ways; the names decide.
func TestCategoriesOfATestAreFoundByTheirNames(t *testing.T) {
	own := []coco.Category{{ID: 2, Name: "cat"}, {ID: 5, Name: "dog"}, {ID: 7, Name: "eel"}}
	for _, c := range []struct {
		test []coco.Category
		ids  []int64
		want string
	}{
		{own, []int64{2, 5, 7}, ""},
		{[]coco.Category{{ID: 1, Name: "eel"}, {ID: 3, Name: "cat"}, {ID: 9, Name: "dog"}}, []int64{3, 9, 1}, ""},
		{own[:2], nil, `x has the categories "cat", "dog", the detector "cat", "dog", "eel"`},
		{append([]coco.Category{{ID: 1, Name: "ant"}}, own...), nil, `categories "ant", "cat", "dog", "eel", the detector`},
		{[]coco.Category{{ID: 2, Name: "cat"}, {ID: 5, Name: "dog"}, {ID: 7, Name: "ape"}}, nil, `"ape", the detector`},
	} {
		ids, err := identifiers(own, &coco.Dataset{Name: "x", Categories: c.test})
		if c.want != "" {
			refused(t, err, c.want)
		} else if err != nil || !slices.Equal(ids, c.ids) {
			t.Errorf("%v: %v, %v, want %v", c.test, ids, err, c.ids)
		}
	}
	var many []coco.Category
	for i := range 7 {
		many = append(many, coco.Category{ID: int64(i), Name: fmt.Sprint(i)})
	}
	_, err := identifiers(own, &coco.Dataset{Name: "x", Categories: many})
	refused(t, err, `categories "0", "1", "2", "3", "4", … (7), the detector`)
	unnamed := []coco.Category{{ID: 3}, {ID: 4}}
	ids, err := identifiers(unnamed, &coco.Dataset{Categories: unnamed})
	if err != nil || !slices.Equal(ids, []int64{3, 4}) {
		t.Errorf("without names: %v, %v", ids, err)
	}
}

// renumbered is a dataset with other IDs of the categories, in another order.
func renumbered(d *coco.Dataset) *coco.Dataset {
	out := coco.Dataset{Name: d.Name, Images: d.Images}
	for _, c := range d.Categories {
		out.Categories = append(out.Categories, coco.Category{ID: 100 - c.ID, Name: c.Name})
	}
	for _, a := range d.Annotations {
		a.CategoryID = 100 - a.CategoryID
		out.Annotations = append(out.Annotations, a)
	}
	return &out
}

func TestABadRecipeIsRefusedByName(t *testing.T) {
	for settings, want := range map[string]string{
		"steps=0":                             "steps is 0",
		"batch_size=9":                        "one batch of 9",
		"learning_rate=0":                     "learning_rate is 0",
		"learning_rate=1000":                  "learning_rate is 1000",
		"warmup_steps=6":                      "warmup_steps is 6",
		"drops=[4,2]":                         "drops are [4 2]",
		"jitter.height=40":                    "jitter.height is 40",
		"jitter.width=40":                     "jitter.width is 40",
		"jitter.low=2":                        "scales from 2 to 1.5",
		"optimizer.weight_decay=-1":           "weight_decay is -1",
		`optimizer.learning_rates={"head":3}`: "optimizer.learning_rates",
		"detector.roi.samples=-1":             "roi.samples is -1",
		"detector.backbone.patch_size=6":      "patches of 6×6",
		"wepe_mode=round":                     "wepe_mode",
		"detector.backbone.wideness=3":        `unknown setting "wideness"`,
		"detector.backbone.global=3":          "3 is not a list as [a,b], each element an integer",
		"eval_steps=often":                    "is not an integer",
	} {
		run := tinyRun(t)
		var err error
		if run.Recipe, err = run.Recipe.Set(settings); err == nil {
			_, _, err = run.Do(t.Context())
		}
		refused(t, err, want)
	}
	run, other := tinyRun(t), *tinyRun(t).Validation
	fewer := *other.Annotations
	fewer.Categories, other.Annotations, run.Validation = fewer.Categories[1:], &fewer, &other
	_, _, err := run.Do(t.Context())
	refused(t, err, "use images with the same categories")
	_, err = Named("yolo")
	refused(t, err, "want one of scenes, vitdet-b")
	run = tinyRun(t)
	for size, want := range map[[2]int]string{{40, 44}: "40×44 pixels: want at least two patches of 8", {8, 64}: "8×64"} {
		run.Tests[0].Rows, run.Tests[0].Cols = size[0], size[1]
		_, err = run.prepared()
		refused(t, err, want)
	}
	_, err = Open(gomlxtest.Backend(), t.TempDir())
	refused(t, err, "no checkpoint in")
	for _, name := range Names() {
		recipe := gomlxtest.Must(Named(name))(t)
		recipe.Detector.Backbone.Classes = 7
		for _, drops := range [][]int{recipe.Drops, {recipe.WarmupSteps}} { // the first step after warm-up
			if recipe.Drops = drops; recipe.withDefaults().validate() != nil {
				t.Errorf("%s, drops %v: %v", name, drops, recipe.withDefaults().validate())
			}
		}
	}
}

func TestSettingsDoNotChangeTheRecipeTheyStartFrom(t *testing.T) {
	r := Recipe{Drops: []int{3, 7}, Params: map[string]any{"wepe_alpha_u": 0.5}}
	changed := gomlxtest.Must(r.Set("drops=[5,9];wepe_alpha_u=0.25"))(t)
	if !slices.Equal(changed.Drops, []int{5, 9}) || changed.Params["wepe_alpha_u"] != 0.25 ||
		!slices.Equal(r.Drops, []int{3, 7}) || r.Params["wepe_alpha_u"] != 0.5 {
		t.Errorf("%v and %v, %v and %v", r.Drops, r.Params, changed.Drops, changed.Params)
	}
}

// docs/runs has the settings of the recipe's published runs.
func TestTheRecipeOfScenesIsThatOfItsPublishedRuns(t *testing.T) {
	rows := gomlxtest.Must(report.ReadFiles("../../docs/runs/scenes-full.jsonl"))(t)
	if len(rows.Results) == 0 {
		t.Fatal("no rows")
	}
	for _, row := range rows.Results {
		want := gomlxtest.Must(Named("scenes"))(t)
		want.Detector.Backbone.Position, want.Detector.Backbone.Classes = row.Encoding, 3
		var got Recipe
		if err := json.Unmarshal(row.Settings, &got); err != nil {
			t.Fatal(err)
		}
		if want = want.withDefaults(); !reflect.DeepEqual(got.withDefaults(), want) {
			t.Errorf("%s was trained with %+v, the recipe is %+v", row.Encoding, got, want)
		}
	}
}

// detectron2's projects/ViTDet/configs/COCO at 02b5c4e: mask_rcnn_vitdet_b_100ep.py, mask_rcnn_vitdet_l_100ep.py,
// configs/common/coco_loader_lsj.py and configs/common/optim.py.
func TestTheRecipesOfViTDetAreDetectron2s(t *testing.T) {
	for name, want := range map[string]struct {
		width, depth         int
		dropPath, layerDecay float64
		stages               int
	}{"vitdet-b": {768, 12, 0.1, 0.7, 1}, "vitdet-b-cascade": {768, 12, 0.1, 0.7, 3}, "vitdet-l": {1024, 24, 0.4, 0.8, 1},
		"vitdet-l-cascade": {1024, 24, 0.4, 0.8, 3}} {
		r := gomlxtest.Must(Named(name))(t).withDefaults()
		b := r.Detector.Backbone
		if b.Width != want.width || b.Depth != want.depth || b.DropPath != want.dropPath || b.PatchSize != 16 ||
			len(r.Detector.ROI.Stages) != want.stages || r.Optimizer.LayerDecay != want.layerDecay {
			t.Errorf("%s: %+v, layer decay %g, %d stages", name, b, r.Optimizer.LayerDecay, len(r.Detector.ROI.Stages))
		}
		if r.LearningRate != 1e-4 || r.WarmupSteps != 250 || r.Optimizer.WeightDecay != 0.1 || r.EvalSteps != 5000 ||
			r.Jitter != (scenes.Jitter{Height: 1024, Width: 1024, Low: 0.1, High: 2, Flip: 0.5}) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// The schedule of detectron2's ViTDet configuration: 184375 steps, 250 of warm-up, milestones at 163889 and 177546.
func TestTheLearningRateOfViTDetDropsTwice(t *testing.T) {
	r := gomlxtest.Must(Named("vitdet-b"))(t)
	if r.Steps != 184_375 || r.BatchSize != 64 {
		t.Errorf("%d steps of %d", r.Steps, r.BatchSize)
	}
	for step, want := range map[int]float64{0: 0, 125: 5e-5, 250: 1e-4, 163_888: 1e-4, 163_889: 1e-5, 177_546: 1e-6} {
		if got := r.schedule().At(step); !(math.Abs(got-want) <= 1e-18) {
			t.Errorf("step %d: %g, want %g", step, got, want)
		}
	}
}

// A perfect detector has 1 in all metrics, except in the recall with a single detection.
func TestThePerfectDetectorHasAnAveragePrecisionOfOne(t *testing.T) {
	test := gomlxtest.Must(Generated(generated(7, 3)))(t)
	m := &Model{Recipe: tiny(), Categories: test.Scenes.Categories()}
	test.Annotations = renumbered(test.Annotations)
	ids := gomlxtest.Must(identifiers(m.Categories, test.Annotations))(t)
	var found []coco.Detection
	for i := range test.Scenes.Len() {
		scene := gomlxtest.Must(test.Scenes.At(i))(t)
		truth := annotationsOf(scene)
		for k, box := range truth.Boxes {
			mask := truth.Masks[k].(detect.Bitmap)
			found = append(found, result(scene.ImageID, ids[truth.Classes[k]], detect.Detection{Box: box,
				Class: truth.Classes[k], Score: 0.9, Mask: &mask}))
		}
	}
	numbers := gomlxtest.Must(m.compare(test, found))(t)
	for _, of := range []map[string]report.Number{numbers.Boxes, numbers.Masks} {
		for _, name := range []string{"AP", "AP50", "AP75", "APs", "APm", "APl", "AR100"} {
			if got := float64(of[name]); !(math.Abs(got-1) <= 1e-12) {
				t.Errorf("%s is %g, want 1", name, got)
			}
		}
	}
	nothing := gomlxtest.Must(m.compare(test, nil))(t)
	if nothing.Boxes["AP"] != 0 || nothing.Masks["AP"] != 0 {
		t.Errorf("who finds nothing has AP %v", nothing)
	}
}

// headless is the pretrained model of make finetune-demo without its classifier, whose two tensors are the first of its
// file, and with the epsilon of MAE.
func headless(t *testing.T) string {
	const demo, config, weights = "../../examples/cifar100/demo/vit/", "config.json", "model.safetensors"
	dir := t.TempDir()
	text := gomlxtest.Must(os.ReadFile(demo + config))(t)
	text = bytes.ReplaceAll(text, []byte("ViTForImageClassification"), []byte("ViTModel"))
	text = bytes.ReplaceAll(text, []byte(`"layer_norm_eps": 0.000001`), []byte(`"layer_norm_eps": 1e-12`))
	raw := gomlxtest.Must(os.ReadFile(demo + weights))(t)
	begin := 8 + binary.LittleEndian.Uint64(raw)
	var header map[string]map[string]any
	if err := json.Unmarshal(raw[8:begin], &header); err != nil {
		t.Fatal(err)
	}
	head := header["classifier.weight"]["data_offsets"].([]any)[1].(float64)
	delete(header, "classifier.bias")
	delete(header, "classifier.weight")
	for name, tensor := range header {
		if name != "__metadata__" {
			at := tensor["data_offsets"].([]any)
			tensor["data_offsets"] = []float64{at[0].(float64) - head, at[1].(float64) - head}
		}
	}
	described := gomlxtest.Must(json.Marshal(header))(t)
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(described)))
	file = slices.Concat(file, described, raw[begin+uint64(head):])
	for name, content := range map[string][]byte{config: text, weights: file} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestARunStartsFromAModelWithoutAHead(t *testing.T) {
	run := tinyRun(t)
	run.From = headless(t)
	source := gomlxtest.Must(checkpoints.Import(run.From, checkpoints.ImportOptions{HeadOptional: true}))(t)
	run.Recipe.Detector.Backbone = detect.FromViT(source.Config, 32, 48)
	run.Recipe.Detector.Backbone.Epsilon = 0 // as in a recipe
	run = gomlxtest.Must(run.prepared())(t)
	d := gomlxtest.Must(newDetection(run))(t)
	defer d.model.Finalize()
	if err := d.Start(); err != nil || d.state.From != source.SHA256 {
		t.Errorf("a run from %q, %v", d.state.From, err)
	}
	if got := run.Recipe.Detector.Backbone.Epsilon; got != 1e-12 {
		t.Errorf("epsilon %g, want that of the model", got)
	}
}

// Objects that the evaluation at the end would refuse are refused before the first step.
func TestObjectsWithoutMasksAreRefusedBeforeTraining(t *testing.T) {
	run := tinyRun(t)
	truth := *run.Tests[0].Annotations
	truth.Annotations = slices.Clone(truth.Annotations)
	truth.Annotations[0].Segmentation = coco.Segmentation{}
	run.Tests[0].Annotations = &truth
	if _, err := run.prepared(); err == nil || !strings.Contains(err.Error(), "segmentation is missing") {
		t.Error(err)
	}
	run.Recipe.Detector.ROI.NoMasks = true
	if _, err := run.prepared(); err != nil {
		t.Errorf("boxes alone: %v", err)
	}
}

// The pretrained model of make finetune-demo, whose variables the backbone loads, at another size.
func TestARunStartsFromThePretrainedWeightsOfAViT(t *testing.T) {
	run := tinyRun(t)
	run.From = "../../examples/cifar100/demo/vit"
	source := gomlxtest.Must(checkpoints.Import(run.From, checkpoints.ImportOptions{HeadOptional: true,
		Hints: run.Import}))(t)
	run.Recipe.Detector.Backbone = detect.FromViT(source.Config, 32, 48)
	run = gomlxtest.Must(run.prepared())(t)
	d := gomlxtest.Must(newDetection(run))(t)
	defer d.model.Finalize()
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	if d.state.From != source.SHA256 || source.SHA256 == "" {
		t.Errorf("a run from %q, want %q", d.state.From, source.SHA256)
	}
	for _, path := range []string{"patch/weights", "patch/biases", "block_03/attention/query/weights"} {
		v := d.model.store.GetVariable(detectorScope + "/backbone/" + path)
		if v == nil || source.Variables[path] == nil || !v.MustValue().Equal(source.Variables[path]) {
			t.Errorf("%s is not that of the ViT", path)
		}
	}
	if got := run.Recipe.Detector.Mean[0]; len(source.Mean) == 3 && got != source.Mean[0] {
		t.Errorf("the mean of pixels is %g, the ViT's %g", got, source.Mean[0])
	}
	run = tinyRun(t)
	run.From = "../../examples/cifar100/demo/vit"
	_, _, err := run.Do(t.Context())
	refused(t, err, "the ViT has width 96, the backbone 16")
}

func TestACrowdIsNotLearned(t *testing.T) {
	s := &scenes.Scene{Rows: 20, Cols: 30, Objects: []scenes.Object{
		{Class: 1, Box: coco.Box{3, 4, 5, 6}, Crowd: true},
		{Class: 2, Box: coco.Box{2, 3, 7, 11}, Polygons: [][]float64{{2, 3, 9, 3, 9, 14}}},
		{Class: 0, Box: coco.Box{1, 1, 0, 5}}, // an empty box
	}}
	got := annotationsOf(s)
	want := detect.Annotations{Rows: 20, Cols: 30, Boxes: []detect.Box{{2, 3, 9, 14}}, Classes: []int{2},
		Masks: []detect.Mask{detect.Polygons{{2, 3, 9, 3, 9, 14}}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A run interrupted by an earlier version (fb574f5) is resumed with that version's losses and metrics: the rows are
// those of its uninterrupted run, on the go backend bit for bit.
func TestARunOfAnEarlierVersionIsResumedWithItsNumbers(t *testing.T) {
	run := tinyRun(t)
	run.Recipe.Name = "small"
	d := &run.Recipe.Detector
	d.Backbone.Width, d.Backbone.Depth, d.Backbone.MLPDim, d.Backbone.Global = 8, 1, 8, []int{0}
	d.Channels, d.ROI.Convs, d.ROI.Dense, d.ROI.Masks, d.ROI.MaskSize = 4, []int{4}, []int{8}, []int{4}, 2
	run.Dir = t.TempDir()
	if err := os.CopyFS(run.Dir, os.DirFS("testdata/interrupted")); err != nil {
		t.Fatal(err)
	}
	_, _, got := finished(t, run)
	want := gomlxtest.Must(report.ReadFiles("testdata/interrupted/expected.jsonl"))(t)
	if len(got.Evals) != len(want.Evals) || len(got.Results) != 1 {
		t.Fatalf("%d evaluations and %d results are recorded", len(got.Evals), len(got.Results))
	}
	near := func(what string, got, want report.Number) {
		t.Helper()
		if !(math.Abs(float64(got-want)) <= 1e-4) {
			t.Errorf("%s is %g, want %g", what, got, want)
		}
	}
	for i, row := range want.Evals {
		near(fmt.Sprintf("training loss up to step %d", row.Step), got.Evals[i].TrainLoss, row.TrainLoss)
	}
	for name, ap := range want.Results[0].Masks {
		near("mask "+name, got.Results[0].Masks[name], ap)
	}
}

// With any batch size, every image is evaluated once: the last batch may be incomplete.
func TestTheBatchSizeDoesNotChangeTheDetections(t *testing.T) {
	test := gomlxtest.Must(Generated(generated(3, 2)))(t)
	recipe := tiny()
	recipe.Detector.Backbone.Classes = len(test.Scenes.Categories())
	m := gomlxtest.Must(newModel(gomlxtest.Backend(), recipe.withDefaults(), test.Scenes.Categories(), 3))(t)
	defer m.Finalize()
	var want []coco.Detection
	for _, size := range []int{1, 2} {
		m.Recipe.BatchSize = size
		_, got, err := m.Evaluate(test)
		if err != nil {
			t.Fatal(err)
		}
		if size == 1 {
			want = got
			images := map[int64]bool{}
			for _, d := range want {
				images[d.ImageID] = true
			}
			if len(images) != test.Scenes.Len() {
				t.Fatalf("something is found in %d images, want all %d", len(images), test.Scenes.Len())
			}
			continue
		}
		if len(got) != len(want) {
			t.Fatalf("batches of %d: %d detections, want %d", size, len(got), len(want))
		}
		for i, d := range got {
			if w := want[i]; d.ImageID != w.ImageID || d.CategoryID != w.CategoryID || !(math.Abs(d.Score-w.Score) <= 1e-5) {
				t.Errorf("batches of %d: detection %d is %+v, want %+v", size, i, d, w)
			}
		}
	}
}

// A wrong mask with a large box and a small area counts among the small masks, as in cocoapi for results without boxes:
// one of two detections is right, so the precision is 1/2 at every recall.
func TestTheSizeOfAMaskIsItsOwnAndNotThatOfItsBox(t *testing.T) {
	const rows, cols = 60, 70
	filled := func(inside func(row, col int) bool) *detect.Bitmap {
		b := &detect.Bitmap{Rows: rows, Cols: cols, Pixels: make([]bool, rows*cols)}
		for i := range b.Pixels {
			b.Pixels[i] = inside(i/cols, i%cols)
		}
		return b
	}
	square := filled(func(row, col int) bool { return row < 10 && col < 10 })
	diagonal := filled(func(row, col int) bool { return row == col && row >= 12 }) // 48 pixels in a box of 48×48
	mask := coco.Encode(square.Pixels, rows, cols)
	categories := []coco.Category{{ID: 4, Name: "square"}}
	test := Test{
		Annotations: &coco.Dataset{Categories: categories, Images: []coco.Image{{ID: 9, Height: rows, Width: cols}},
			Annotations: []coco.Annotation{{ID: 1, ImageID: 9, CategoryID: 4, Segmentation: mask.Segmentation(), Area: 100,
				Box: mask.Box()}}},
	}
	m := &Model{Categories: categories}
	found := []coco.Detection{
		result(9, 4, detect.Detection{Box: detect.Box{12, 12, 60, 60}, Score: 0.9, Mask: diagonal}),
		result(9, 4, detect.Detection{Box: detect.Box{0, 0, 10, 10}, Score: 0.5, Mask: square}),
	}
	numbers := gomlxtest.Must(m.compare(test, found))(t)
	if got := float64(numbers.Masks["APs"]); !(math.Abs(got-0.5) <= 1e-9) {
		t.Errorf("AP of small masks is %g, want 1/2", got)
	}
	if got := float64(numbers.Boxes["APs"]); !(math.Abs(got-1) <= 1e-9) { // the wrong box has medium size
		t.Errorf("AP of small boxes is %g, want 1", got)
	}
	thin := filled(func(row, col int) bool { return row == col && row < 10 }) // a tenth of the square, in its box
	numbers = gomlxtest.Must(m.compare(test, []coco.Detection{
		result(9, 4, detect.Detection{Box: detect.Box{0, 0, 10, 10}, Score: 0.5, Mask: thin})}))(t)
	if boxes, masks := float64(numbers.Boxes["AP"]), float64(numbers.Masks["AP"]); boxes < 1-1e-9 || masks != 0 {
		t.Errorf("a thin mask in the right box has a box AP of %g and a mask AP of %g, want 1 and 0", boxes, masks)
	}
}

func TestTheSamplesOfAStepDependOnItsIndexAndOnTheSeed(t *testing.T) {
	gomlxtest.OnGo(t)
	anchors := func(seed int64, step int) []float64 {
		run := tinyRun(t)
		run.Seed = seed
		d := gomlxtest.Must(newDetection(gomlxtest.Must(run.prepared())(t)))(t)
		defer d.model.Finalize()
		scene := gomlxtest.Must(run.Train.At(0))(t)
		d.batch.pixels = tensors.FromFlatDataAndDimensions(scene.Image.Pixels, 1, scene.Rows, scene.Cols, 3)
		d.batch.annotations = []detect.Annotations{annotationsOf(scene)}
		return gomlxtest.Values(t, gomlxtest.Must(d.inputs(step))(t).Anchors)
	}
	first := anchors(5, 1)
	if !slices.Equal(first, anchors(5, 1)) {
		t.Error("the same step of the same seed samples other anchors")
	}
	for name, other := range map[string][]float64{"step": anchors(5, 2), "seed": anchors(6, 1)} {
		if slices.Equal(first, other) {
			t.Errorf("another %s samples the same anchors", name)
		}
	}
}

func TestUndefinedMetricsAreLeftOutOfTables(t *testing.T) {
	row := func(seed int64, small report.Number) (r report.Result) {
		r.Recipe, r.Encoding, r.ImageSize, r.Seed = "tiny", "wepe", "32x48", seed
		r.Boxes = map[string]report.Number{"AP": 0.25, "AP50": 0, "APs": small, "APl": -1}
		return r
	}
	table := Table([]report.Result{row(0, -1), row(1, 0.5)})
	got := map[string]string{}
	for i, name := range table.Header {
		got[name] = table.Rows[0][i]
	}
	for name, want := range map[string]string{"n": "2", "box AP": "25.0", "box AP50": "0.0", "box APs": "50.0",
		"box APl": "–", "mask AP": "–"} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	evals := []report.Eval{{Step: 3}, {Step: 5, TrainLoss: 0.125, Found: report.Found{
		Boxes: map[string]report.Number{"AP": 0.5}, Masks: map[string]report.Number{"AP": 0.25}}}}
	want := report.Table{Header: []string{"step", "loss", "box AP %", "mask AP %"}, Numeric: []bool{true, true, true,
		true},
		Rows: [][]string{{"3", "0.000", "–", "–"}, {"5", "0.125", "50.0", "25.0"}}}
	if got := curve(evals); !reflect.DeepEqual(got, want) {
		t.Errorf("evaluations are the table %+v", got)
	}
}

func TestShownAreTheDetectionsOfTheLeastScoreTheBestOnTop(t *testing.T) {
	mask := &detect.Bitmap{Rows: 2, Cols: 3, Pixels: []bool{false, true, true, false, false, true}}
	shown := Shown([]detect.Detection{{Box: detect.Box{1, 2, 4, 7}, Class: 3, Score: 0.75},
		{Box: detect.Box{0, 0, 3, 2}, Class: 1, Score: 0.5, Mask: mask}, {Class: 2, Score: 0.25}}, 0.5)
	if len(shown) != 2 || shown[0].Class != 1 || shown[0].Score != 0.5 || shown[1].Class != 3 || shown[1].Score != 0.75 ||
		shown[1].Box != (coco.Box{1, 2, 3, 5}) || !slices.Equal(shown[0].Mask.Decode(), mask.Pixels) ||
		len(shown[1].Mask.Counts) > 0 {
		t.Errorf("shown are %+v", shown)
	}
}

// Two directories in COCO's layout give their files the same names.
func TestARunOnOtherAnnotationsIsNotResumed(t *testing.T) {
	run := tinyRun(t)
	run.Validation, run.Tests, run.Dir, run.Recipe.Steps, run.Recipe.EvalSteps = nil, nil, t.TempDir(), 1, 1
	folder := func(seed int64) *scenes.Folder {
		dir := t.TempDir()
		instances := filepath.Join(dir, "instances.json")
		if err := scenes.Write(dir, instances, generated(7, seed)); err != nil {
			t.Fatal(err)
		}
		return gomlxtest.Must(scenes.Open(dir, instances))(t)
	}
	run.Train = folder(1)
	finished(t, run)
	run.Train = folder(1) // the same in another place
	finished(t, run)
	run.Train = folder(2)
	_, _, err := run.Do(t.Context())
	refused(t, err, "its data is ")
}

func TestAPartOfAFolderIsEvaluatedWhileTheRestIsTrainedOn(t *testing.T) {
	dir := t.TempDir()
	instances := filepath.Join(dir, "instances.json")
	if err := scenes.Write(dir, instances, generated(7, 1)); err != nil {
		t.Fatal(err)
	}
	run := tinyRun(t)
	run.Validation, run.Tests, run.Dir = nil, nil, t.TempDir()
	run.Train = gomlxtest.Must(scenes.Open(dir, instances))(t)
	run.Recipe.ValidationPart = 1.5
	_, _, err := run.Do(t.Context())
	refused(t, err, "validation_part is 1.5, want 0 <= validation_part < 1")
	run.Recipe.ValidationPart, run.Recipe.Steps, run.Recipe.EvalSteps = 0.4, 2, 1
	_, _, rows := finished(t, run)
	if len(rows.Evals) != 2 || len(rows.Evals[0].Boxes) != 12 || len(rows.Evals[0].Masks) != 12 {
		t.Errorf("evaluations are %+v", rows.Evals)
	}
	best, _, err := checkpoints.Find(run.Dir, "")
	if err != nil || filepath.Base(filepath.Dir(best.Path)) != checkpoints.BestDir {
		t.Errorf("opened is %v (%v), want the best checkpoint", best, err)
	}
}
