// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"fmt"
	"image"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/detect/scenes"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/vit"
)

// tiny trains in a test: images of 32×48 pixels, 4×6 patches in windows of 3, with stochastic depth. The run in
// testdata has it, of other widths.
func tiny() Recipe {
	return Recipe{
		Name: "tiny",
		Detector: Config{
			Backbone: Backbone{Config: vit.Config{ImageRows: 32, ImageCols: 48, PatchSize: 8, Width: 16, Depth: 2, Heads: 2,
				MLPDim: 24, Classes: 3, DropPath: 0.2, Position: "wepe"}, Window: 3, Global: []int{1}},
			Channels: 8,
			RPN: RPN{Convs: 1, Sizes: []float64{7, 11, 17, 25, 35}, Samples: 32, Before: Counts{40, 30},
				After: Counts{20, 10}},
			ROI: ROI{Samples: 12, Size: 3, Convs: []int{8}, Dense: []int{16}, MaskSize: 3, Masks: []int{8}, ScoreThreshold: 0.01,
				MaxDetections: 5},
		},
		Steps: 5, BatchSize: 2, LearningRate: 3e-3, WarmupSteps: 1, EvalEverySteps: 3,
		Optimizer:   engine.Optimizer{WeightDecay: 0.05, ClipNorm: 1, LayerDecay: 0.7},
		ScaleJitter: scenes.Jitter{Low: 0.7, High: 1.5, Flip: 0.5},
	}
}

func generated(t *testing.T, count, rows, cols int, seed int64) *scenes.Set {
	t.Helper()
	return gomlxtest.Must(scenes.Generated{Count: count, Height: rows, Width: cols, Seed: seed}.Set())(t)
}

// picture is a generated image.
func picture(t *testing.T, rows, cols int) image.Image {
	t.Helper()
	return gomlxtest.Must(generated(t, 1, rows, cols, 1).At(0))(t).Image.RGBA()
}

// untrained is a detector with random weights.
func untrained(t *testing.T, r Recipe) *Detector {
	t.Helper()
	r = gomlxtest.Must(r.Resolve())(t)
	d := gomlxtest.Must(newDetector(gomlxtest.Backend(), r, generated(t, 1, 32, 48, 1).Categories, 3))(t)
	t.Cleanup(d.Finalize)
	return d
}

// An image's results do not depend on other images of its batch, on the canvas beyond it, or on graphs of other sizes.
func TestDetector_BatchEqualsImagesOneByOne(t *testing.T) {
	for _, stages := range gomlxtest.InTurn(1, cascadeStages()[:1], cascadeStages()) {
		r := tiny()
		r.Detector.ROI.Stages = stages
		d := untrained(t, r)
		wide, high := picture(t, 33, 77), picture(t, 61, 34)
		both := gomlxtest.Must(d.Detect(wide, high))(t)
		for i, img := range []image.Image{wide, high} {
			alone := gomlxtest.Must(d.Detect(img))(t)[0]
			if len(alone) == 0 || len(alone) > r.Detector.ROI.MaxDetections || len(alone) != len(both[i]) {
				t.Fatalf("image %d: %d detections alone, %d in a batch", i, len(alone), len(both[i]))
			}
			size := img.Bounds().Size()
			for k, one := range alone {
				c := one.Box.Corners()
				if min(c[0], c[1]) < 0 || c[2] > float64(size.X) || c[3] > float64(size.Y) || one.Mask.Height != size.Y ||
					one.Mask.Width != size.X {
					t.Errorf("image %d: box %v and mask of %d×%d pixels in an image of %v", i, one.Box, one.Mask.Height,
						one.Mask.Width, size)
				}
				in := both[i][k]
				gomlxtest.NearAbs(t, "box", in.Box[:], one.Box[:], 1e-3)
				is.Equal(t, fmt.Sprintf("object %d of image %d", k, i), []any{in.Class, in.Mask}, []any{one.Class, one.Mask})
			}
		}
		for _, c := range []struct {
			rows, cols int
			img        image.Image
			valid      bool
		}{{40, 40, wide, true}, {40, 44, wide, false}, {8, 40, wide, false},
			{40, 40, image.NewGray(image.Rect(3, 3, 3, 9)), false}} {
			d.Rows, d.Cols = c.rows, c.cols
			_, err := d.Detect(c.img)
			is.Equal(t, fmt.Sprintf("%v on a canvas of %d×%d: %v", c.img.Bounds(), c.rows, c.cols, err), err == nil, c.valid)
		}
	}
}

// Patches of 14 pixels, as in DINOv2: cells of the finest map are 3.5 wide.
func TestDetector_PatchNeedNotDivideByFour(t *testing.T) {
	gomlxtest.OnGo(t)
	r := tiny()
	r.Detector.Backbone.PatchSize, r.Detector.Backbone.ImageRows, r.Detector.Backbone.ImageCols = 14, 42, 70
	d := untrained(t, r)
	if found := gomlxtest.Must(d.Detect(picture(t, 42, 70)))(t); len(found[0]) == 0 {
		t.Error("nothing is found")
	}
	anchors, ends := d.Recipe.Detector.anchors(42, 70) // 3×5 patches
	is.Equal(t, "ends of anchors", ends, []int{12 * 20 * 3, 6*10*3 + 720, 3*5*3 + 900, 1*2*3 + 945, 1*1*3 + 951})
	gomlxtest.NearAbs(t, "centre of the second", []float32{(anchors[3][0] + anchors[3][2]) / 2}, []float64{3.5}, 5e-6)
	for stride, want := range map[float64]int{3.5: 2, 4: 2, 7: 3, 14: 4, 16: 4, 5: 2, 6: 3} {
		is.Equal(t, fmt.Sprint("stride ", stride), levelNumber(stride), want)
	}
}

func TestDetector_MayHaveNoMasksOrOneDetection(t *testing.T) {
	gomlxtest.OnGo(t)
	r := tiny()
	for _, noMasks := range []bool{false, true} {
		r.Detector.ROI.MaxDetections, r.Detector.ROI.NoMasks = 1, noMasks
		d := untrained(t, r)
		for i, found := range gomlxtest.Must(d.Detect(picture(t, 32, 48), picture(t, 48, 32)))(t) {
			is.Equal(t, fmt.Sprintf("objects of image %d", i), len(found), 1)
			is.Equal(t, "without masks", found[0].Mask.Height == 0, noMasks)
		}
		is.Equal(t, "without images", gomlxtest.Must(d.Detect())(t), nil)
		for n := 0; n < 33 && noMasks; n++ { // more graphs than GoMLX keeps by default
			gomlxtest.Must(d.detect(16, 16+8*n, picture(t, 32, 48)))(t)
		}
	}
}

// Each program has variables of its own.
func TestDetector_VariablesOfAnotherModelAreAnErrorOfEveryProgram(t *testing.T) {
	gomlxtest.OnGo(t)
	for i, path := range []string{"rpn/objects", "roi/stage_0/classes", "roi/mask/classes"} {
		d := untrained(t, tiny())
		weight.Float32(d.store.Scope(detectorScope+"/"+path), "biases", weight.Constant(0), 17)
		is.Refused(t, "a refusal", is.ErrorOf(d.Detect(picture(t, 32, 48))), path)
		pixels := tensors.FromFlatDataAndDimensions(make([]uint8, 32*48*3), 1, 32, 48, 3)
		if _, err := d.inputs(pixels, []truth{{size: [2]int{32, 48}}}, 1); i == 0 { // proposes
			is.Refused(t, "a refusal", err, path)
		} else {
			gomlxtest.NoError(t, err)
		}
	}
}

// pretrained is a ViT with random weights, as a model to start from, and the output of its last block.
func pretrained(t *testing.T, change func(*vit.Config), params map[string]any) (*checkpoints.Imported, []float64) {
	t.Helper()
	v := vit.Config{ImageRows: 32, ImageCols: 48, PatchSize: 8, Width: 16, Depth: 2, Heads: 2, MLPDim: 24, Classes: 5,
		Position: "learned"}
	change(&v)
	m := &checkpoints.Imported{Config: gomlxtest.Resolved(v), Params: params, Variables: map[string]*tensors.Tensor{}}
	store := gomlxtest.Seeded(t, 11)
	store.SetParams(params)
	values := gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) []*Node {
		m.Config.Logits(s.In("vit"), in[0]) // creates the variables
		return []*Node{m.Config.Trace(s.At("vit"), in[0], false).Blocks[1].Output}
	}, gomlxtest.Noise(2, 32, 48, 3))[0]
	for v := range store.IterVariables() {
		if path, ok := strings.CutPrefix(v.Path(), "/vit/"); ok {
			m.Variables[path] = gomlxtest.Must(v.MustValue().LocalClone())(t)
		}
	}
	return m, values
}

// adopting is a detector whose backbone adopts the configuration of a model.
func adopting(t *testing.T, m *checkpoints.Imported, change func(*Backbone)) (*Detector, error) {
	t.Helper()
	r := tiny()
	r.Detector.Backbone = Backbone{Config: vit.Config{ImageRows: 32, ImageCols: 48, Classes: 3}, Window: 3,
		Global: []int{1}}
	change(&r.Detector.Backbone)
	r, err := r.adopt(m, "it")
	if err != nil {
		return nil, err
	}
	d := untrained(t, r)
	return d, d.loadBackbone(m)
}

// features is the output of a detector's backbone.
func (d *Detector) features(t *testing.T) []float64 {
	return gomlxtest.RunModel(t, d.store, func(s *model.Scope, in []*Node) []*Node {
		backbone := s.Store().Scope(detectorScope).At(backboneScope)
		return []*Node{d.Recipe.Detector.Backbone.trace(backbone, in[0], false).Output}
	}, gomlxtest.Noise(2, 32, 48, 3))[0]
}

// A ViT without a class token computes the same as a backbone without windows that has loaded its variables.
func TestBackbone_LoadsTheWeightsOfAViT(t *testing.T) {
	for _, position := range []string{"learned", "learned+rope-mixed", "wepe", "factorized+alibi2d", "cpe", "rope-axial"} {
		m, want := pretrained(t, func(v *vit.Config) { v.Pool, v.Position = "mean", position },
			map[string]any{"rope_theta": 3.0, "wepe_alpha_u": 0.25})
		d := gomlxtest.Must(adopting(t, m, func(b *Backbone) { b.Global = []int{0, 1} }))(t)
		gomlxtest.Near(t, position, d.features(t), want, 1e-6)
	}
}

// The vector of the class token has no place in the backbone; the hyperparameters of the encoding have. Windows of 4
// extend beyond the 4×6 grid: tokens without a position fill them.
func TestBackbone_LoadsPositionsForItsPatchesOnly(t *testing.T) {
	gomlxtest.OnGo(t)
	wide := func(b *Backbone) { b.Window = 4 }
	m, _ := pretrained(t, func(v *vit.Config) {
		v.Pool, v.ClassToken, v.Registers, v.RegisterPositions = "class+register", true, 1, true
	}, nil)
	d := gomlxtest.Must(adopting(t, m, wide))(t)
	d.features(t)
	for v := range d.store.IterVariables() {
		if path, ok := strings.CutPrefix(v.Path(), "/detector/backbone/position/"); ok && path != "grid2d/table" {
			t.Errorf("the backbone has the variable %s", path)
		}
	}
	table := gomlxtest.Values(t, m.Variables[learnedTable])
	loaded := gomlxtest.Values(t, d.store.GetVariable("/detector/backbone/"+grid2dTable).MustValue())
	gomlxtest.NearAbs(t, "table", loaded, table[2*16:], 0)

	m, _ = pretrained(t, func(v *vit.Config) { v.Position, v.LayerScale = "wepe", 0.5 },
		map[string]any{"wepe_alpha_u": 0.25, "rope_theta": 3.0})
	d = gomlxtest.Must(adopting(t, m, wide))(t)
	is.Equal(t, "hyperparameters", d.Recipe.Params, map[string]any{"wepe_alpha_u": 0.25})
	for path := range m.Variables {
		want := strings.HasPrefix(path, "patch/") || strings.HasPrefix(path, "block_") ||
			strings.HasPrefix(path, "position/") && path != "position/wepe/prefix"
		is.Equal(t, path+" is loaded", d.store.GetVariable("/detector/backbone/"+path) != nil, want)
	}
}

func TestBackbone_RefusesAViTThatDoesNotFit(t *testing.T) {
	gomlxtest.OnGo(t)
	m, _ := pretrained(t, func(*vit.Config) {}, nil)
	table := func(x *tensors.Tensor) func(*Backbone, *checkpoints.Imported) {
		return func(_ *Backbone, m *checkpoints.Imported) { m.Variables[learnedTable] = x }
	}
	for want, change := range map[string]func(*Backbone, *checkpoints.Imported){
		"mlp_dim":       func(b *Backbone, _ *checkpoints.Imported) { b.MLPDim = 50 },
		"position_rows": func(b *Backbone, _ *checkpoints.Imported) { b.PositionRows = 3 },
		"block_01/attention/query/weights": func(_ *Backbone, m *checkpoints.Imported) {
			delete(m.Variables, "block_01/attention/query/weights")
		},
		"position table has 16 numbers": table(tensors.FromFlatDataAndDimensions(make([]float32, 16), 1, 16)),
		"detect: table of positions: ":  table(tensors.FromFlatDataAndDimensions(make([]float64, 25*16), 25, 16)),
	} {
		own := *m
		own.Variables = maps.Clone(m.Variables)
		is.Refused(t, "a refusal", is.ErrorOf(adopting(t, &own, func(b *Backbone) { change(b, &own) })), want)
	}
}

// A checkpoint of Hugging Face becomes a backbone for images of another size: the graph resamples its table of
// positions as package checkpoints does. It also sets the constants of the network and of normalization.
func TestRun_StartsFromAPretrainedModel(t *testing.T) {
	fixtures.Each(t, func(t *testing.T) {
		run := tinyRun(t)
		run.From = fixtures.Dir(t, "hf_vit")
		m := gomlxtest.Must(checkpoints.Import(run.From, checkpoints.ImportOptions{}))(t)
		rows, cols := 6*m.Config.PatchSize, 5*m.Config.PatchSize
		resampled := gomlxtest.Must(checkpoints.Import(run.From, checkpoints.ImportOptions{ImageRows: rows, ImageCols: cols,
			Resample: "hf"}))(t)
		run.Recipe = gomlxtest.Must(RecipeByName(Photographs))(t)
		run.Recipe.Detector.Backbone.ImageRows, run.Recipe.Detector.Backbone.ImageCols = rows, cols
		prepared, err := run.prepared()
		if m.Config.Width%4 != 0 { // the pyramid halves the width twice
			is.Refused(t, "a refusal", err, "width")
			return
		}
		task := gomlxtest.Must(newTask(gomlxtest.Must(prepared, err)(t)))(t)
		defer task.detector.Finalize()
		if err := task.Start(); err != nil || task.state.From != m.SHA256 || m.SHA256 == "" {
			t.Fatalf("a run from %q, want %q: %v", task.state.From, m.SHA256, err)
		}
		c := task.Recipe.Detector
		is.Equal(t, "constants", [3]float64{c.Backbone.Epsilon, c.Mean[0], c.Std[1]},
			[3]float64{m.Config.Epsilon, m.Mean[0], m.Std[1]})
		got := gomlxtest.RunModel(t, task.detector.store, func(s *model.Scope, in []*Node) []*Node {
			trace := c.Backbone.trace(s.Store().Scope(detectorScope).At(backboneScope), in[0], false)
			return []*Node{Sub(trace.Tokens, trace.Patches)}
		}, gomlxtest.Noise(1, rows, cols, 3))
		want := gomlxtest.Values(t, resampled.Variables["position/embedding"])[m.Config.Width:]
		gomlxtest.NearAbs(t, "positions", got[0], want, 1e-5)

		run.From = filepath.Join(fixtures.Dir(t, "families"), "ViTMAEModel") // without a head
		headless := gomlxtest.Must(run.prepared())(t)
		is.Equal(t, "width", headless.Recipe.Detector.Backbone.Width, headless.source.Config.Width)
		run.Recipe.Detector.Backbone.Width = 4
		is.Refused(t, "a refusal", is.ErrorOf(run.prepared()), "width")
	})
}

// begun is the task of a run, with the scenes of its first step.
func begun(t *testing.T, run Run) *task {
	t.Helper()
	task := gomlxtest.Must(newTask(gomlxtest.Must(run.prepared())(t)))(t)
	t.Cleanup(task.detector.Finalize)
	gomlxtest.NoError(t, task.Fetch(0))
	return task
}

// stepInputs are the inputs of the step of a run on the scenes of its first step.
func stepInputs(t *testing.T, run Run, step int, change func(*task)) inputs[*tensors.Tensor] {
	t.Helper()
	task := begun(t, run)
	change(task)
	return gomlxtest.Must(task.inputs(step))(t)
}

// An object without a mask, or in a detector without masks, has the target -1.
func TestInputs_DependOnSeedStepAndKnownMasks(t *testing.T) {
	gomlxtest.OnGo(t)
	run := tinyRun(t)
	run.Recipe.ScaleJitter = scenes.Jitter{}
	same := func(*task) {}
	first := stepInputs(t, run, 1, same)
	for i, x := range stepInputs(t, run, 1, same).list() {
		is.Equal(t, fmt.Sprintf("input %d of the same seed is the same", i), x.Equal(first.list()[i]), true)
	}
	for name, other := range map[string]inputs[*tensors.Tensor]{
		"step": stepInputs(t, run, 2, same), "seed": stepInputs(t, run, 1, func(t *task) { t.Seed++ }),
	} {
		is.Equal(t, "another "+name+" samples the same anchors", other.Anchors.Equal(first.Anchors), false)
	}
	known := func(run Run, change func(*task)) (n int) {
		for _, x := range gomlxtest.Values(t, stepInputs(t, run, 1, change).Masks) {
			if x >= 0 {
				n++
			}
		}
		return n
	}
	all, some := known(run, same), known(run, func(t *task) { clear(t.truths[0].masks) })
	run.Recipe.Detector.ROI.NoMasks = true
	if none := known(run, same); all <= some || some <= 0 || none != 0 {
		t.Errorf("%d cells of masks are known of all objects, %d of one image, %d without masks", all, some, none)
	}
}

func TestTruth_LeavesOutCrowdsAndRefusesClasses(t *testing.T) {
	s := &scenes.Scene{Rows: 20, Cols: 30, Objects: []scenes.Object{
		{Class: 1, Box: coco.Box{3, 4, 5, 6}, Crowd: true},
		{Class: 2, Box: coco.Box{2, 3, 7, 11}, Polygons: [][]float64{{2, 3, 9, 3, 9, 14}}},
		{Class: 0, Box: coco.Box{1, 1, 0, 5}}, // an empty box
		{Class: 0, Box: coco.Box{4, 5, 6, 7}},
	}}
	got := gomlxtest.Must(truthOf(s, 3))(t)
	is.Equal(t, "truth", fmt.Sprint(got.size, got.boxes, got.classes), "[20 30] [[2 3 9 14] [4 5 10 12]] [2 0]")
	is.Equal(t, "masks", [2]bool{got.masks[0] != nil, got.masks[1] != nil}, [2]bool{true, false})
	is.Refused(t, "a refusal", is.ErrorOf(truthOf(s, 2)), "")
}
