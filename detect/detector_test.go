// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"encoding/json"
	"image"
	"image/color"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train/optimizer"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/vit"
)

// tiny is a detector that trains in a test: images of 24×40 pixels, 3×5 patches in windows of 3.
func tiny(position string, stages []Stage) Config {
	return Config{
		Backbone: Backbone{Config: vit.Config{ImageRows: 24, ImageCols: 40, PatchSize: 8, Width: 32, Depth: 2, Heads: 4,
			MLPDim: 48, Classes: 2, Position: position}, Window: 3, Global: []int{1}, Relative: true},
		Channels: 16,
		RPN: RPN{Convs: 1, Sizes: []float64{7, 11, 17, 25, 35}, Samples: 48, Before: Counts{64, 32},
			After: Counts{48, 24}},
		ROI: ROI{Samples: 24, Positive: 0.5, Stages: stages, Size: 5, Convs: []int{16}, Dense: []int{32}, MaskSize: 5,
			Masks: []int{16, 16}, CanonicalSize: 28, Top: 7},
	}.WithDefaults()
}

// scene is an image with a red box, class 0, and a blue disc, class 1, on grey, and its ground truth.
func scene(rows, cols int, box image.Rectangle, centre image.Point, radius int) (image.Image, Annotations) {
	img := image.NewNRGBA(image.Rect(0, 0, cols, rows))
	masks := [2]Bitmap{{rows, cols, make([]bool, rows*cols)}, {rows, cols, make([]bool, rows*cols)}}
	for y := range rows {
		for x := range cols {
			c := color.NRGBA{90, 90, 90, 255}
			if dx, dy := x-centre.X, y-centre.Y; dx*dx+dy*dy < radius*radius {
				c, masks[1].Pixels[y*cols+x] = color.NRGBA{20, 30, 230, 255}, true
			}
			if (image.Point{x, y}).In(box) {
				c, masks[0].Pixels[y*cols+x] = color.NRGBA{220, 30, 20, 255}, true
				masks[1].Pixels[y*cols+x] = false
			}
			img.SetNRGBA(x, y, c)
		}
	}
	return img, Annotations{Rows: rows, Cols: cols, Classes: []int{0, 1}, Masks: []Mask{masks[0], masks[1]}, Boxes: []Box{
		{float32(box.Min.X), float32(box.Min.Y), float32(box.Max.X), float32(box.Max.Y)},
		{float32(centre.X - radius + 1), float32(centre.Y - radius + 1), float32(centre.X + radius),
			float32(centre.Y + radius)},
	}}
}

func scenes() (images []image.Image, annotations []Annotations) {
	for _, s := range []struct {
		box    image.Rectangle
		centre image.Point
		radius int
	}{
		{image.Rect(3, 4, 15, 14), image.Pt(29, 14), 7}, {image.Rect(20, 8, 35, 21), image.Pt(9, 9), 6},
	} {
		img, truth := scene(24, 40, s.box, s.centre, s.radius)
		images, annotations = append(images, img), append(annotations, truth)
	}
	return images, annotations
}

// trained makes steps of Adam on images and returns the losses of the first and the last step.
func trained(t *testing.T, d *Detector, images []image.Image, annotations []Annotations, steps int) (
	first, last float64) {
	t.Helper()
	store := d.scope.Store()
	adam := optimizer.Adam().LearningRate(3e-3).Done()
	step, err := model.NewExec(gomlxtest.Backend(), store, func(root *model.Scope, in []*Node) *Node {
		g := in[0].Graph()
		store.SetTraining(g, true)
		loss := total(d.Config.Losses(root.Store().Scope(d.scope.Scope()), InputsOf(in)))
		adam.UpdateGraph(root, g, loss)
		return loss
	})
	if err != nil {
		t.Fatal(err)
	}
	defer step.Finalize()
	pixels, _, err := canvas(images, d.Rows, d.Cols)
	if err != nil {
		t.Fatal(err)
	}
	for i := range steps {
		in := gomlxtest.Must(d.Inputs(pixels, annotations, int64(i)))(t)
		last = gomlxtest.Values(t, gomlxtest.Must(step.Call(anys(in.List())...))(t)[0])[0]
		if i == 0 {
			first = last
		}
	}
	return first, last
}

// total is the sum of losses.
func total(losses []*Node) *Node {
	sum := losses[0]
	for _, l := range losses[1:] {
		sum = Add(sum, l)
	}
	return sum
}

func newDetector(t *testing.T, c Config) *Detector {
	t.Helper()
	d := gomlxtest.Must(New(gomlxtest.Backend(), gomlxtest.Seeded(t, 3).Scope("/detector"), c))(t)
	t.Cleanup(d.Finalize)
	return d
}

func TestADetectorLearnsBoxesClassesAndMasks(t *testing.T) {
	d := newDetector(t, tiny("", nil))
	images, annotations := scenes()
	first, last := trained(t, d, images, annotations, 150) // 100 may leave half the loss, depending on the processor
	if !(last < first/2) {
		t.Errorf("the loss goes from %g to %g", first, last)
	}
	for i, found := range gomlxtest.Must(d.Detect(images...))(t) {
		for class, truth := range annotations[i].Boxes {
			best := slices.IndexFunc(found, func(one Detection) bool { return one.Class == class })
			if best < 0 {
				t.Errorf("image %d: class %d is not found", i, class)
				continue
			}
			if one := found[best]; one.Score < 0.5 || boxIoU(one.Box, truth) < 0.5 {
				t.Errorf("image %d: class %d is found at %v with %g, it is at %v", i, class, one.Box, one.Score, truth)
			}
			if iou := maskIoU(*found[best].Mask, annotations[i].Masks[class].(Bitmap)); iou < 0.5 {
				t.Errorf("image %d: the mask of class %d has an IoU of %g", i, class, iou)
			}
		}
	}
}

func maskIoU(a, b Bitmap) float64 {
	both, either := 0.0, 0.0
	for i := range a.Pixels {
		if a.Pixels[i] && b.Pixels[i] {
			both++
		}
		if a.Pixels[i] || b.Pixels[i] {
			either++
		}
	}
	return both / either
}

// An image's results do not depend on other images of its batch, on the canvas beyond it, or on graphs of other sizes.
func TestABatchOfImagesIsTheImagesOneByOne(t *testing.T) {
	for _, stages := range gomlxtest.InTurn(1, cascadeStages()[:1], cascadeStages()) {
		c := tiny("grid2d", stages)
		c.ROI.Score = 0.3 // so that untrained heads detect something
		batchIsOneByOne(t, newDetector(t, c))
	}
}

func batchIsOneByOne(t *testing.T, d *Detector) {
	wide, _ := scene(20, 77, image.Rect(10, 3, 40, 18), image.Pt(60, 10), 9)
	high, _ := scene(61, 33, image.Rect(3, 20, 30, 40), image.Pt(20, 50), 8)
	both := gomlxtest.Must(d.Detect(wide, high))(t)
	for i, img := range []image.Image{wide, high} {
		alone := gomlxtest.Must(d.Detect(img))(t)[0]
		if len(alone) == 0 || len(alone) > d.Config.ROI.Top || len(alone) != len(both[i]) {
			t.Fatalf("image %d: %d detections alone, %d in a batch", i, len(alone), len(both[i]))
		}
		size := img.Bounds().Size()
		for k, one := range alone {
			if one.Box.clip(size.Y, size.X) != one.Box || one.Mask.Rows != size.Y || one.Mask.Cols != size.X {
				t.Errorf("image %d: box %v and mask of %d×%d pixels in an image of %v", i, one.Box, one.Mask.Rows,
					one.Mask.Cols, size)
			}
			in := both[i][k]
			gomlxtest.NearAbs(t, "box", in.Box[:], []float64{float64(one.Box[0]), float64(one.Box[1]), float64(one.Box[2]),
				float64(one.Box[3])}, 1e-3)
			if in.Class != one.Class || !slices.Equal(in.Mask.Pixels, one.Mask.Pixels) {
				t.Errorf("image %d: detection %d is another one in a batch", i, k)
			}
		}
	}
	d.Rows, d.Cols = 40, 40 // another canvas
	if _, err := d.Detect(wide); err != nil {
		t.Error(err)
	}
	for _, size := range [][2]int{{40, 44}, {8, 40}} {
		d.Rows, d.Cols = size[0], size[1]
		if _, err := d.Detect(wide); err == nil || !strings.Contains(err.Error(), "want at least two patches of 8") {
			t.Errorf("error %v", err)
		}
	}
}

// Patches of 14 pixels, as in DINOv2: cells of the finest map are 3.5 wide.
func TestAPatchNeedNotDivideByFour(t *testing.T) {
	gomlxtest.OnGo(t)
	c := tiny("rope-axial", nil)
	c.Backbone.PatchSize, c.Backbone.ImageRows, c.Backbone.ImageCols = 14, 42, 70
	c.ROI.Score = 0.3
	img, _ := scene(42, 70, image.Rect(9, 9, 30, 30), image.Pt(50, 20), 12)
	if found := gomlxtest.Must(newDetector(t, c).Detect(img))(t); len(found[0]) == 0 {
		t.Error("nothing is found")
	}
	anchors, ends := c.anchors(42, 70) // 3×5 patches
	if want := []int{12 * 20 * 3, 6*10*3 + 720, 3*5*3 + 900, 1*2*3 + 945, 1*1*3 + 951}; !slices.Equal(ends, want) {
		t.Errorf("anchors end at %v, want %v", ends, want)
	}
	if x := anchors[3][0] + anchors[3][2]; !(math.Abs(float64(x)-2*3.5) <= 1e-5) {
		t.Errorf("the second place is centred at %g, want 3.5", x/2)
	}
}

func TestADetectorMayHaveNoMasksOrOneDetection(t *testing.T) {
	gomlxtest.OnGo(t)
	c := tiny("none", nil)
	c.ROI.Score, c.ROI.Top = 0.1, 1
	images, _ := scenes()
	d := newDetector(t, c)
	for i, found := range gomlxtest.Must(d.Detect(images...))(t) {
		if len(found) != 1 || found[0].Mask == nil {
			t.Errorf("image %d: %d detections, want one with a mask", i, len(found))
		}
	}
	if found, err := d.Detect(); found != nil || err != nil {
		t.Errorf("without images: %v, %v", found, err)
	}
	c.ROI.NoMasks, c.ROI.Top = true, 3
	bare := newDetector(t, c)
	for i, found := range gomlxtest.Must(bare.Detect(images...))(t) {
		for _, one := range found {
			if one.Mask != nil {
				t.Errorf("image %d has a mask", i)
			}
		}
	}
	bare.Finalize()
	var err error
	if thrown := exceptions.TryCatch[error](func() { _, err = bare.Detect(images...) }); thrown == nil && err == nil {
		t.Error("a detector detects after its end")
	}
}

// An object without a mask, or in a detector without masks, has the target -1.
func TestInputsNameWhatIsWrongAndNeedNoMasks(t *testing.T) {
	gomlxtest.OnGo(t)
	c := tiny("none", nil)
	d := newDetector(t, c)
	images, annotations := scenes()
	pixels, _, err := canvas(images, d.Rows, d.Cols)
	if err != nil {
		t.Fatal(err)
	}
	masks := func(d *Detector, annotations []Annotations) (known int) {
		in := gomlxtest.Must(d.Inputs(pixels, annotations, 1))(t)
		for _, x := range gomlxtest.Values(t, in.Masks) {
			if x >= 0 {
				known++
			}
		}
		return known
	}
	bare := slices.Clone(annotations)
	bare[0].Masks, bare[1].Masks = nil, []Mask{nil, annotations[1].Masks[1]}
	c.ROI.NoMasks = true
	all, some, none := masks(d, annotations), masks(d, bare), masks(newDetector(t, c), annotations)
	if all <= some || some <= 0 || none != 0 {
		t.Errorf("%d cells of masks are known of all objects, %d of one, %d without masks", all, some, none)
	}
	bare[1].Masks = []Mask{Bitmap{Rows: 3, Cols: 5}, Bitmap{Rows: 3, Cols: 5}}
	wrong := slices.Clone(annotations)
	wrong[1].Classes = []int{0, 2}
	flat := func(dims ...int) *tensors.Tensor {
		size := 1
		for _, n := range dims {
			size *= n
		}
		return tensors.FromFlatDataAndDimensions(make([]uint8, size), dims...)
	}
	for want, of := range map[string]struct {
		pixels      *tensors.Tensor
		annotations []Annotations
	}{
		"detect: the mask of 3×5 pixels contains 0 pixels":              {pixels, bare},
		"image 1 of the batch: detect: object 1 has class 2":            {pixels, wrong},
		"detect: pixels are (Uint8)[2, 24, 40] for 2 annotations, want": {flat(2, 24, 40), annotations},
		"detect: pixels are (Uint8)[2, 24, 40, 4] for 2 annotations":    {flat(2, 24, 40, 4), annotations},
	} {
		if _, err := d.Inputs(of.pixels, of.annotations, 1); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestLossesHaveNames(t *testing.T) {
	gomlxtest.OnGo(t)
	c := tiny("none", cascadeStages())
	d := newDetector(t, c)
	images, annotations := scenes()
	annotations[1] = Annotations{Rows: 24, Cols: 40} // nothing
	pixels, _, err := canvas(images, d.Rows, d.Cols)
	if err != nil {
		t.Fatal(err)
	}
	in := gomlxtest.Must(d.Inputs(pixels, annotations, 7))(t)
	again := gomlxtest.Must(d.Inputs(pixels, annotations, 7))(t)
	for i, x := range in.List() {
		if !x.Equal(again.List()[i]) {
			t.Errorf("input %d is drawn differently by the same seed", i)
		}
	}
	if got, want := c.LossNames(), []string{"rpn_class", "rpn_box", "class_0", "box_0", "class_1", "box_1", "class_2",
		"box_2", "mask"}; !slices.Equal(got, want) {
		t.Errorf("losses are %v, want %v", got, want)
	}
	losses := gomlxtest.RunModel(t, d.scope.Store(), func(root *model.Scope, nodes []*Node) []*Node {
		root.Store().SetTraining(nodes[0].Graph(), true)
		return c.Losses(root.Store().Scope("/detector"), InputsOf(nodes))
	}, anys(in.List())...)
	if len(losses) != len(c.LossNames()) {
		t.Errorf("%d losses, want one for each of %v", len(losses), c.LossNames())
	}

	if _, err := d.Inputs(pixels, annotations[:1], 1); err == nil || !strings.Contains(err.Error(), "for 1 annotations") {
		t.Errorf("error %v", err)
	}
	narrow := tensors.FromFlatDataAndDimensions(make([]uint8, 8*40*3), 1, 8, 40, 3)
	if _, err := d.Inputs(narrow, annotations[1:], 1); err == nil ||
		!strings.Contains(err.Error(), "want at least two patches of 8") {
		t.Errorf("error %v", err)
	}
	if _, err := d.Detect(image.NewGray(image.Rect(3, 3, 3, 9))); err == nil ||
		!strings.Contains(err.Error(), "image 0 has no pixels") {
		t.Errorf("error %v", err)
	}
}

// Each program has variables of its own.
func TestVariablesOfAnotherModelAreAnErrorOfEveryProgram(t *testing.T) {
	gomlxtest.OnGo(t)
	c := tiny("none", nil)
	c.ROI.Score = 0.1 // so that there are masks to predict
	images, annotations := scenes()
	pixels, _, err := canvas(images, 24, 40)
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range []string{"rpn/objects", "roi/stage_0/classes", "roi/mask/classes"} {
		d := newDetector(t, c)
		weight.Float32(d.scope.Store().Scope("/detector/"+path), "biases", weight.Constant(0), 17)
		if _, err := d.Detect(images...); err == nil || !strings.HasPrefix(err.Error(), "detect: ") ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: detections have the error %v", path, err)
		}
		_, err := d.Inputs(pixels, annotations, 1)
		if proposes := i == 0; proposes != (err != nil) || err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("%s: inputs have the error %v", path, err)
		}
	}
}

// A ViT without a class token computes the same as a backbone without windows that has loaded its variables.
func TestTheBackboneLoadsTheWeightsOfAViT(t *testing.T) {
	for _, position := range []string{"learned", "learned+rope-mixed", "wepe", "factorized+alibi2d", "learned+cpe"} {
		v := gomlxtest.Resolved(vit.Config{ImageRows: 24, ImageCols: 40, PatchSize: 8, Width: 32, Depth: 2, Heads: 4, MLPDim: 48, Classes: 3,
			Pool: "mean", Position: position})
		store := gomlxtest.Seeded(t, 11)
		images := gomlxtest.Noise(2, 24, 40, 3)
		want := gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) []*Node {
			trace := v.Trace(s.In("vit"), in[0], false)
			return []*Node{trace.Blocks[1].Output, trace.Logits}
		}, images)[0]
		c := tiny("", nil)
		c.Backbone = FromViT(v, 24, 40)
		c.Backbone.Global = []int{0, 1}
		d := newDetector(t, c)
		if err := d.LoadBackbone(v, nil, below(t, store, "/vit/")); err != nil {
			t.Fatal(err)
		}
		got := gomlxtest.RunModel(t, d.scope.Store(), func(s *model.Scope, in []*Node) []*Node {
			return []*Node{d.Config.Backbone.trace(s.At("detector").At(backboneScope), in[0], false).Output}
		}, images)[0]
		gomlxtest.Near(t, position, got, want, 1e-6)
	}
}

func below(t *testing.T, store *model.Store, scope string) map[string]*tensors.Tensor {
	variables := map[string]*tensors.Tensor{}
	for v := range store.IterVariables() {
		if path, ok := strings.CutPrefix(v.Path(), scope); ok {
			variables[path] = gomlxtest.Must(v.MustValue().LocalClone())(t)
		}
	}
	return variables
}

// The windows of 2 extend beyond the 3×5 grid: tokens without a position fill them.
func TestABackboneOfADistilledViTHasPositionsForItsPatchesOnly(t *testing.T) {
	gomlxtest.OnGo(t)
	v := gomlxtest.Resolved(vit.Config{ImageRows: 24, ImageCols: 40, PatchSize: 8, Width: 32, Depth: 2, Heads: 4, MLPDim: 48, Classes: 3,
		Position: "learned", Pool: "class+register", ClassToken: true, Registers: 1, RegisterPositions: true})
	store := gomlxtest.Seeded(t, 11)
	gomlxtest.Build(t, store, func(s *model.Scope, in []*Node) []*Node {
		return []*Node{v.Logits(s.In("vit"), in[0])}
	}, gomlxtest.Noise(1, 24, 40, 3))
	variables := below(t, store, "/vit/")
	table := gomlxtest.Must(tensors.CopyFlatData[float32](variables[learnedTable]))(t)
	c := tiny("", nil)
	c.Backbone = FromViT(v, 24, 40)
	c.Backbone.Window, c.Backbone.Global = 2, []int{1}
	d := newDetector(t, c)
	if err := d.LoadBackbone(v, nil, variables); err != nil {
		t.Fatal(err)
	}
	gomlxtest.RunModel(t, d.scope.Store(), func(s *model.Scope, in []*Node) []*Node {
		return []*Node{d.Config.Backbone.trace(s.At("detector").At(backboneScope), in[0], false).Output}
	}, gomlxtest.Noise(2, 24, 40, 3))
	for v := range d.scope.Store().IterVariables() {
		if path, ok := strings.CutPrefix(v.Path(), "/detector/backbone/position/"); ok && path != "grid2d/table" {
			t.Errorf("the backbone has the variable %s", path)
		}
	}
	loaded := gomlxtest.Must(d.scope.Store().GetVariable("/detector/backbone/" + grid2dTable).MustValue().LocalClone())(t)
	if got := gomlxtest.Must(tensors.CopyFlatData[float32](loaded))(t); len(table) != 17*32 ||
		!slices.Equal(got, table[2*32:]) {
		t.Errorf("%d numbers, want the %d of 15 patches", len(got), 15*32)
	}
}

// The vector of the class token has no place in the backbone; the hyperparameters of the encoding have.
func TestTheBackboneLoadsAnEncodingWithItsHyperparametersButNoClassToken(t *testing.T) {
	v := gomlxtest.Resolved(vit.Config{ImageRows: 24, ImageCols: 40, PatchSize: 8, Width: 32, Depth: 2, Heads: 4, MLPDim: 48, Classes: 3,
		Position: "wepe", LayerScale: 0.5})
	params := map[string]any{"wepe_alpha_u": 0.25}
	store := gomlxtest.Seeded(t, 11)
	store.SetParams(params)
	gomlxtest.Build(t, store, func(s *model.Scope, in []*Node) []*Node {
		return []*Node{v.Logits(s.In("vit"), in[0])}
	}, gomlxtest.Noise(1, 24, 40, 3))
	c := tiny("", nil)
	c.Backbone = FromViT(v, 24, 40)
	d := newDetector(t, c)
	variables := below(t, store, "/vit/")
	if err := d.LoadBackbone(v, params, variables); err != nil {
		t.Fatal(err)
	}
	if value, _ := d.scope.At(backboneScope).GetParam("wepe_alpha_u"); value != 0.25 {
		t.Errorf("the hyperparameter is %v", value)
	}
	for path := range variables {
		loaded := d.scope.Store().GetVariable("/detector/backbone/"+path) != nil
		if want := strings.HasPrefix(path, "patch/") || strings.HasPrefix(path, "block_") ||
			strings.HasPrefix(path, "position/") && path != "position/wepe/prefix"; loaded != want {
			t.Errorf("%s: loaded %v", path, loaded)
		}
	}
	v.LayerScale = 0
	if err := newDetector(t, c).LoadBackbone(v, params, variables); err == nil || !strings.Contains(err.Error(),
		"the ViT has layer_scale false, the backbone true") {
		t.Errorf("without LayerScale: %v", err)
	}
}

func TestAViTThatDoesNotFitIsRefused(t *testing.T) {
	gomlxtest.OnGo(t)
	v := gomlxtest.Resolved(vit.Config{ImageRows: 24, ImageCols: 40, PatchSize: 8, Width: 32, Depth: 2, Heads: 4, MLPDim: 48, Classes: 3,
		Position: "learned"}) // with a class token
	store := gomlxtest.Seeded(t, 11)
	gomlxtest.Build(t, store, func(s *model.Scope, in []*Node) []*Node {
		return []*Node{v.Logits(s.In("vit"), in[0])}
	}, gomlxtest.Noise(1, 24, 40, 3))
	variables := below(t, store, "/vit/")
	fitting := tiny("", nil)
	fitting.Backbone = FromViT(v, 32, 48)
	for _, c := range []struct {
		config func(*Config)
		from   func(*vit.Config)
		drop   string
		want   string
	}{
		{func(c *Config) { c.Backbone.MLPDim = 50 }, nil, "", "mlp_dim 48, the backbone 50"},
		{func(c *Config) { c.Backbone.PositionRows = 4 }, nil, "", "positions are of 3×5 patches, the backbone's of 4×5"},
		{nil, nil, "block_01/attention/query/weights", "lack block_01/attention/query/weights"},
		{nil, func(v *vit.Config) { v.ImageCols = 48 }, "", "the position table has 512 numbers"},
	} {
		config, from, own := fitting, v, maps.Clone(variables)
		if c.config != nil {
			c.config(&config)
		}
		if c.from != nil {
			c.from(&from)
		}
		delete(own, c.drop)
		err := newDetector(t, config).LoadBackbone(from, nil, own)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
	double := maps.Clone(variables)
	double["position/embedding"] = tensors.FromFlatDataAndDimensions(make([]float64, 16*32), 16, 32)
	if err := newDetector(t, fitting).LoadBackbone(v, nil, double); err == nil || !strings.HasPrefix(err.Error(),
		"detect: table of positions: ") {
		t.Errorf("a table of float64: error %v", err)
	}
	d := newDetector(t, fitting)
	if err := d.LoadBackbone(v, nil, variables); err != nil {
		t.Fatal(err)
	}
	table := d.scope.Store().GetVariable("/detector/backbone/position/grid2d/table").MustValue()
	gomlxtest.NearAbs(t, "table", tensors.MustCopyFlatData[float32](table),
		gomlxtest.Values(t, variables["position/embedding"])[v.Width:], 0)
	if err := d.LoadBackbone(v, nil, variables); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("loading twice: error %v", err)
	}
	img, _ := scene(32, 48, image.Rect(1, 1, 9, 9), image.Pt(30, 9), 5)
	if _, err := d.Detect(img); err != nil {
		t.Error(err)
	}
}

func TestAnInvalidConfigurationIsRefusedByName(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Channels = -1 }, "channels is -1"},
		{func(c *Config) { c.Backbone.Channels = 1 }, "backbone.channels is 1, images give 3"},
		{func(c *Config) { c.Backbone.ImageRows = 8 }, "a canvas of 8×40 pixels: want at least two patches of 8"},
		{func(c *Config) { c.RPN.Low = 0.8 }, "rpn.low is 0.8, above rpn.high, 0.7"},
		{func(c *Config) { c.RPN.Overlap = 2 }, "rpn.overlap is 2"},
		{func(c *Config) { c.RPN.Sizes = []float64{32} }, "rpn.sizes are [32], want 5"},
		{func(c *Config) { c.RPN.Ratios = []float64{-1} }, "rpn.ratios are [-1]"},
		{func(c *Config) { c.ROI.Dense = []int{0} }, "dense [0]"},
		{func(c *Config) { c.ROI.Stages = []Stage{{}} }, "stage 0 has iou 0"},
		{func(c *Config) { c.ROI.Samples = -2 }, "roi.samples is -2"},
		{func(c *Config) { c.Std[1] = -1 }, "std [0.229 -1 0.225]"},
		{func(c *Config) { c.Backbone.Window = -1 }, "window is -1"},
		{func(c *Config) { c.Backbone.Width, c.Backbone.Heads = 30, 5 }, "backbone.width is 30"},
		{func(c *Config) { c.Backbone.DType = "bfloat16" }, `backbone.dtype is "bfloat16"`},
		{func(c *Config) { c.RPN.Sizes[2] = 0 }, "rpn.sizes are [7 11 0 25 35]"},
		{func(c *Config) { c.RPN.Sizes[2] = 1e9 }, "rpn.sizes are [7 11 1e+09 25 35]"},
		{func(c *Config) { c.RPN.Ratios = []float64{} }, "rpn.ratios are []"},
		{func(c *Config) { c.ROI.CanonicalSize = -1 }, "roi.canonical_size is -1"},
		{func(c *Config) { c.ROI.Convs = []int{1<<20 + 1} }, "roi.convs are [1048577]"},
		{func(c *Config) { c.ROI.Masks = []int{3, 0} }, "masks [3 0]"},
		{func(c *Config) { c.ROI.Masks = []int{} }, "masks []"},
		{func(c *Config) { c.ROI.Stages = []Stage{} }, "roi.stages is empty"},
		{func(c *Config) { c.ROI.Stages = []Stage{{IoU: 1.5, Weights: [4]float64{1, 1, 1, 1}}} }, "stage 0 has iou 1.5"},
		{func(c *Config) { c.ROI.Stages = []Stage{{IoU: 0, Weights: [4]float64{1, 1, 1, 1}}} }, "stage 0 has iou 0"},
		{func(c *Config) {
			c.ROI.Stages = []Stage{cascadeStages()[0], {IoU: 0.5, Weights: [4]float64{1, 1, 0, 1}}}
		}, "stage 1 has iou 0.5 and weights [1 1 0 1]"},
		{func(c *Config) {}, ""}, {func(c *Config) { c.Backbone.ImageRows = 16 }, ""},
		{func(c *Config) { c.RPN.Ratios, c.RPN.Sizes[2], c.ROI.CanonicalSize = []float64{0.25}, 0.5, 0.125 }, ""},
		{func(c *Config) { c.ROI.Convs, c.ROI.Dense, c.ROI.Masks = []int{}, []int{}, []int{1, 1 << 20} }, ""},
		{func(c *Config) {
			c.ROI.Stages = []Stage{{IoU: 1, Weights: [4]float64{0.5, 1, 2, 1}}, {0.25, [4]float64{1, 1, 1, 1}}}
		},
			""},
	} {
		config := tiny("none", nil)
		config.RPN.Sizes = slices.Clone(config.RPN.Sizes)
		c.change(&config)
		err := config.Validate()
		if c.want != "" {
			_, err = New(gomlxtest.Backend(), model.NewStore().RootScope(), config)
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
	if _, err := ViTDet("Z/16", 80, false); err == nil || !strings.Contains(err.Error(), `unknown model "Z/16"`) {
		t.Errorf("an unknown size: %v", err)
	}
	if _, err := ViTDet("H/14", 80, false); err == nil || !strings.Contains(err.Error(), "does not divide into patches") {
		t.Errorf("1024 pixels in patches of 14: %v", err)
	}
	c := gomlxtest.Must(ViTDet("B/8", 7, false))(t)
	if b := c.Backbone; b.PositionRows != 28 || b.PositionCols != 28 || !b.Relative || b.Classes != 7 || // 224/8
		len(c.ROI.Stages) != 1 {
		t.Errorf("B/8: %+v", c)
	}
	for _, variant := range []string{"B/16", "L/16"} {
		c := gomlxtest.Must(ViTDet(variant, 80, true))(t)
		if c.Backbone.PositionRows != 14 || c.Backbone.PositionCols != 14 { // patches of MAE's 224²
			t.Errorf("%s: positions of %d×%d patches", variant, c.Backbone.PositionRows, c.Backbone.PositionCols)
		}
		raw := gomlxtest.Must(json.Marshal(c))(t)
		var again Config
		if err := json.Unmarshal(raw, &again); err != nil || !reflect.DeepEqual(c, again) {
			t.Errorf("%s is read back as another one: %v, %s", variant, err, raw)
		}
	}
}
