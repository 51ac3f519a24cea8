// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/vit"
)

// imageFiles are JPEG and PNG files of many sizes and aspects in class folders.
func imageFiles(t *testing.T) *data.Files {
	t.Helper()
	files := map[string][]byte{}
	for i := range 29 {
		height, width := 17+i*7%31, 19+i*11%37
		img := image.NewNRGBA(image.Rect(0, 0, width, height))
		for y := range height {
			for x := range width {
				wave := math.Sin(float64((i+3)*x)/7) * math.Cos(float64((i+2)*y)/5)
				img.Set(x, y, color.NRGBA{uint8(128 + 120*wave), uint8(9 * i), uint8(255 * y / height), 255})
			}
		}
		name := fmt.Sprintf("%c/%02d", 'a'+i%3, i)
		if i%7 == 3 { // of 12 bits
			deep := image.NewGray16(img.Rect)
			for at := range height * width {
				grey := color.Gray16Model.Convert(img.At(at%width, at/width)).(color.Gray16)
				deep.SetGray16(at%width, at/width, color.Gray16{Y: 300 + grey.Y>>5})
			}
			files[name+".png"] = datatest.PNG(deep)
			continue
		}
		if i%2 == 0 {
			files[name+".png"] = datatest.PNG(img)
			continue
		}
		var file bytes.Buffer
		gomlxtest.NoError(t, jpeg.Encode(&file, img, nil))
		files[name+".jpg"] = file.Bytes()
	}
	return gomlxtest.Must(data.Folder(datatest.Tree(t, files)))(t).Train
}

// From the file to the probability, prediction and exported preprocessing equal the evaluation of the same model.
func TestPreprocess_OfPredictionsAndExportsIsEvaluations(t *testing.T) {
	gomlxtest.OnGo(t)
	files := imageFiles(t)
	var paths []string
	for i := range files.Len() {
		paths = append(paths, filepath.Join(files.Dir, files.Where(i)))
	}
	for name, c := range map[string]struct {
		settings string
		size     [2]int
		declared bool
	}{
		"crop":                {"aspect=crop", [2]int{6, 6}, true},
		"crop to no square":   {"aspect=crop", [2]int{4, 6}, false},
		"squash":              {"aspect=squash", [2]int{4, 6}, true},
		"resized in graphs":   {"aspect=squash;augment.size=[8,12]", [2]int{4, 6}, false},
		"no aspect, as cli's": {"", [2]int{6, 6}, true},
		"16-bit grey":         {"aspect=squash;grey16=range", [2]int{6, 6}, false},
	} {
		recipe := gomlxtest.Must(tiny().Set("epochs=1;" + c.settings))(t)
		set := gomlxtest.Must(files.Load(t.Context(), gomlxtest.Must(recipe.Preprocessing(c.size))(t), nil))(t)
		run := saved(t, recipe, 0)
		run.Train = set
		trained, _ := done(t, run)
		want := trained.scores(t, set)
		m := gomlxtest.Must(Open(run.Backend, run.Dir))(t)
		for i, classes := range gomlxtest.Must(m.Predict(paths, 3))(t) {
			m.has(t, name+": "+files.Where(i), classes, want[i])
		}
		dir := filepath.Join(t.TempDir(), "export")
		report := fmt.Sprint(gomlxtest.Must(m.Export(dir, checkpoints.ExportOptions{Format: "hf"}))(t))
		said := strings.Contains(report, `preprocessing: fit "exact" to 4×6 in place of "cover"`)
		is.Equal(t, name+": the export reports "+report, said, !c.declared && c.settings == "aspect=crop")
		if !c.declared {
			continue
		}
		declared := gomlxtest.Must(preprocess.Parse(
			gomlxtest.Must(os.ReadFile(filepath.Join(dir, "preprocessor_config.json")))(t), ""))(t)
		again := m.scores(t, gomlxtest.Must(files.Load(t.Context(), declared, nil))(t))
		for i := range again {
			gomlxtest.NearAbs(t, name+": what the export declares", again[i], want[i], 1e-6)
		}
	}
}

// Every micro-batch is mixed by its own draws, those of an epoch from mixup_switch_epoch on with their own α:
// Beta(α, α) is nearly 0 or 1 for a small α, nearly ½ for a large one.
func TestPlan_IsOfTheSeedTheEpochAndThePart(t *testing.T) {
	gomlxtest.OnGo(t)
	seen := map[float32]string{}
	for _, seed := range []int64{1, 2} {
		run := tinyRun(t, "grad_accum_steps=2;augment.mixup_alpha=0.05;mixup_switch_epoch=1;late_mixup_alpha=1e4", 40)
		run.Seed = seed
		c := begun(t, run)
		for step := range 2 * c.PerPass {
			gomlxtest.NoError(t, c.Fetch(step))
			for part := range 2 {
				name := fmt.Sprintf("seed %d, step %d, part %d", seed, step, part)
				plan, _ := c.plan(step, part)
				again, _ := c.plan(step, part)
				lambda := plan.Mix[5]
				is.Equal(t, name+": when it is asked again", again.Mix, plan.Mix)
				if other, known := seen[lambda]; known && lambda > 1e-6 && lambda < 1-1e-6 {
					t.Errorf("%s is mixed as %s", name, other)
				}
				half := math.Abs(float64(lambda)-0.5) < 0.05
				is.Equal(t, fmt.Sprint(name, ": mixed by ", lambda), half, step >= c.PerPass)
				seen[lambda] = name
			}
		}
	}
}

func TestProbabilities_FollowScores(t *testing.T) {
	logits := []float32{0, 1, -2}
	total := 1 + math.E + math.Exp(-2)
	softmax := []float64{1 / total, math.E / total, math.Exp(-2) / total}
	for scores, want := range map[string][]float64{
		"": softmax, "softmax": softmax,
		"sigmoid": {0.5, math.E / (1 + math.E), 1 / (1 + math.Exp(2))},
		"none":    {0, 1, -2},
	} {
		m := &Model{Activation: scores, Classes: make([]string, len(logits))}
		gomlxtest.Near(t, "scores "+scores, m.probabilities(logits), want, 1e-12)
		is.Equal(t, "classes of at most -1", len(m.TopK(logits, -1)), 0)
	}
}

// Runs of one seed begin with the same backbone, whatever their encodings; runs of other seeds do not.
func TestSeed_DrawsTheInitialWeights(t *testing.T) {
	gomlxtest.OnGo(t)
	initial := func(position string, seed int64) []float64 {
		run := tinyRun(t, "learning_rate=1e-30;model.position="+position, 40) // a step that changes nothing
		run.Seed = seed
		c := begun(t, run)
		advanced(t, c, 1)
		return c.model.weights(t, "")["block_00/mlp/hidden/weights"]
	}
	first := initial("learned", 3)
	if len(first) != 12*20 || !slices.Equal(initial("sincos2d", 3), first) || slices.Equal(initial("learned", 5), first) {
		t.Errorf("%d weights: not the same for every encoding, or the same for every seed", len(first))
	}
}

// keeping is tiny for images that keep their aspect ratio, on a grid of 4×3 patches.
func keeping(t *testing.T, settings string) Recipe {
	t.Helper()
	r := tiny()
	r.Model.PatchSize, r.Augment.Size, r.Aspect, r.Epochs = 4, [2]int{16, 12}, AspectKeep, 2
	return gomlxtest.Must(r.Set(settings))(t)
}

// ofAspects returns shapes in images of several aspect ratios, resized for a recipe.
func ofAspects(t *testing.T, r Recipe) (train, test *data.InMemory) {
	t.Helper()
	train, test, err := data.ShapesOfAspects("shape", 31, 17, 16, 2,
		gomlxtest.Must(r.Preprocessing([2]int{16, 12}))(t))
	gomlxtest.NoError(t, err)
	return train, test
}

func TestAspectKeep_TrainsOpensAndPredicts(t *testing.T) {
	gomlxtest.OnGo(t)
	for _, position := range gomlxtest.InTurn(1, "learned", "wepe-sphere", "rope-axial+alibi2d") {
		recipe := keeping(t, "model.position="+position)
		train, test := ofAspects(t, recipe)
		run := Run{Backend: gomlxtest.Backend(), Recipe: recipe, Train: train, Test: test, Dir: t.TempDir()}
		m, row := done(t, run)
		gomlxtest.NoError(t, errors.Join(run.Page(m, row), data.Check(t.Context(), train, true)))
		opened := gomlxtest.Must(Open(run.Backend, run.Dir))(t)
		is.Equal(t, position, opened.Preprocess, m.Preprocess)
		is.Equal(t, position, m.Preprocess.Resize, preprocess.ResizePatches)
		if position == "wepe-sphere" { // folds
			said := gomlxtest.Must(opened.Export(filepath.Join(t.TempDir(), "hf"), checkpoints.ExportOptions{}))(t)
			is.Said(t, "the export", strings.Join(said, "\n"), `fit "exact" to 16×12 in place of "patches"`)
		}
		want := opened.scores(t, test)
		for i := range 5 {
			file := pngFile(t, test.RGBA(i)) // of whole patches: it is not resized
			opened.has(t, fmt.Sprint(position, test.Grids[i]), gomlxtest.Must(opened.predictOne(file, 3))(t), want[i])
		}
	}
}

func TestAspectKeep_OfSquaresIsTrainingOnImages(t *testing.T) {
	gomlxtest.OnGo(t)
	images, _, err := data.Shapes("where", 31, 17, 16, 2)
	gomlxtest.NoError(t, err)
	keep := preprocess.Settings{Resize: preprocess.ResizePatches, Size: [2]int{16, 16}, Patch: 4}
	strips := &data.InMemory{
		Info: data.Info{Name: "strips", Labels: images.Labels, Height: 64, Width: 4, Channels: 3, Classes: images.Classes},
	}
	for i := range images.Len() {
		strip := gomlxtest.Must(data.FromImage(images.RGBA(i)).Preprocess(keep))(t)
		strips.Pixels, strips.Grids = append(strips.Pixels, strip.Pixels...), append(strips.Grids, strip.Grid)
	}
	weights := map[string]map[string][]float64{}
	for aspect, set := range map[string]*data.InMemory{"": images, AspectKeep: strips} {
		r := keeping(t, "model.position=wepe+rope-mixed;augment.size=[16,16]")
		r.Aspect = aspect
		m, _ := done(t, Run{Backend: gomlxtest.Backend(), Recipe: r, Train: set})
		weights[aspect] = m.weights(t, "")
	}
	for path, want := range weights[""] {
		gomlxtest.Near(t, path, weights[AspectKeep][path], want, 2e-3) // Adam divides small by small
	}
}

func TestAspectKeep_Refuses(t *testing.T) {
	good := keeping(t, "")
	strips, _ := ofAspects(t, good)
	images, _, err := data.Shapes("where", 31, 17, 16, 2)
	gomlxtest.NoError(t, err)
	for words, c := range map[string]struct {
		settings string
		set      *data.InMemory
	}{
		"augmentation":                        {"augment.hflip=0.5", strips},
		"position hybrid":                     {"model.position=hybrid", strips},
		"needs images in patches of 4 pixels": {"", images},
		"needs images in patches of 2 pixels": {"model.patch_size=2", strips},
		"aspect keep needs":                   {"aspect=squash", strips},
		"augment.size":                        {"augment.size=[16,16]", strips},
	} {
		run := Run{Backend: gomlxtest.Backend(), Recipe: keeping(t, c.settings), Train: c.set}
		is.Refused(t, c.settings, is.ErrorOf(run.prepared()), words)
	}
	big := Recipe{Name: "big", Aspect: AspectKeep}
	is.Refused(t, "no patch size", is.ErrorOf(big.Preprocessing([2]int{16, 12})), "set model.patch_size")
	good, _ = good.Resolve() // the data complete it
	m := gomlxtest.Must(newModel(gomlxtest.Backend(), good, strips.Classes, 0))(t)
	is.Refused(t, "Embed", is.ErrorOf(m.embedImages(strips.RGBA(0))), "Embed needs images of one size")
	err = m.Activations(strips, 1, func(*vit.Trace) []*Node { return nil }, nil)
	is.Refused(t, "Look", err, "inspection needs images of one size")
}

// From an image to vectors, as in Hugging Face's processors and models; DINOv3's resizes floating-point numbers, the
// others bytes.
func TestEmbed_IsTheModelOfItsFiles(t *testing.T) { fixtures.Each(t, testEmbedIsTheModelOfItsFiles) }

func testEmbedIsTheModelOfItsFiles(t *testing.T) {
	const tolerance = 1e-4
	for _, set := range gomlxtest.InTurn(1, "dinov2_tiny", "dinov2_reg_tiny", "dinov3_vit_tiny",
		"dinov3_vit_tiny_swiglu") {
		dir := fixtures.Dir(t, set)
		all := fixtures.Tensors(t, set, "tensors.safetensors")
		imported := gomlxtest.Must(checkpoints.Import(dir, checkpoints.ImportOptions{Classes: 2}))(t)
		c := imported.Config
		store := model.NewStore()
		gomlxtest.NoError(t, imported.Load(store.Scope("/model")))
		input := all["preprocess.pixel_values_nhwc_out"]
		input.Shape = append([]int{1}, input.Shape...)
		want := gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) []*Node {
			trace := c.Trace(s.Store().Scope("/model"), in[0], false)
			return []*Node{trace.Encoded, trace.Logits}
		}, gomlxtest.Input(input))[0]

		x := all["preprocess.image_u8"] // [H, W, RGB]
		img := image.NewNRGBA(image.Rect(0, 0, x.Shape[1], x.Shape[0]))
		for i := range x.Shape[0] * x.Shape[1] {
			p := x.Data[3*i:]
			img.Set(i%x.Shape[1], i/x.Shape[1], color.NRGBA{uint8(p[0]), uint8(p[1]), uint8(p[2]), 255})
		}
		file := pngFile(t, img)
		m := gomlxtest.Must(Open(gomlxtest.Backend(), dir))(t)
		got := gomlxtest.Must(m.Embed(file, file, file))(t)
		again := gomlxtest.Must(m.embedImages(img))(t)
		patches := want[c.Prefix()*c.Width:]
		mean := make([]float64, c.Width)
		for i, v := range patches {
			mean[i%c.Width] += v / float64(c.Rows()*c.Cols())
		}
		for _, g := range append(got, again...) {
			gomlxtest.NearAbs(t, set+" class", g.Class, want[:c.Width], tolerance)
			gomlxtest.NearAbs(t, set+" mean", g.Mean, mean, tolerance)
			gomlxtest.NearAbs(t, set+" patches", g.Patches, patches, tolerance)
		}
		is.Equal(t, set, [2]int{len(got), len(again)}, [2]int{3, 1})
		m.Finalize()
	}
}

// GoMLX caches 32 programs and refuses another, see SetMaxCache of graph.Exec.
func TestEmbed_AnyNumberAndSize(t *testing.T) {
	gomlxtest.OnGo(t)
	m := begun(t, tinyRun(t, "eval_batch_size=64", 30)).model
	img := image.NewGray(image.Rect(0, 0, 5, 3))
	want := gomlxtest.Must(m.embedImages(img))(t)[0].Class
	for n := 2; n <= 37; n++ {
		got := gomlxtest.Must(m.embedImages(slices.Repeat([]image.Image{img}, n)...))(t)
		is.Equal(t, "features", len(got), n)
		nearLogits(t, "the last", [][]float32{got[n-1].Class}, [][]float32{want})
	}
	m.Preprocess = preprocess.Settings{Resize: preprocess.ResizeShortest, Size: [2]int{4, 4}} // without crop
	drawn := image.NewGray(image.Rect(0, 0, 9, 5))
	for i := range drawn.Pix {
		drawn.Pix[i] = uint8(53 * i)
	}
	for _, kernel := range []preprocess.Resample{preprocess.Bicubic, preprocess.Nearest} {
		m.Preprocess.Resample = kernel // to 4×7, then to the model's 4×6
		want := data.FromImage(drawn).Resize(4, 7, kernel).Resize(4, 6, kernel)
		is.Equal(t, string(kernel), gomlxtest.Must(m.PreprocessImage(data.FromImage(drawn)))(t).Pixels, want.Pixels)
	}
	for _, empty := range []*data.Image{{Height: 1}, {Width: 1}} {
		is.Refused(t, "an image without pixels", is.ErrorOf(m.PreprocessImage(empty)), "the image has no pixels")
	}
	for n := range 37 {
		gomlxtest.Must(m.embedImages(image.NewGray(image.Rect(0, 0, 5+n, 5))))(t)
	}
	m.Recipe.Model.Channels = 1
	is.Refused(t, "a model of one channel", is.ErrorOf(m.PreprocessImage(data.FromImage(drawn))),
		"the model takes 1 channels")
}

func TestFingerprint_CoversAllThatFeaturesDependOn(t *testing.T) {
	gomlxtest.OnGo(t)
	run := saved(t, tiny(), 30)
	done(t, run)
	of := func(change func(*Model)) string {
		m := gomlxtest.Must(Open(run.Backend, run.Dir))(t)
		defer m.Finalize()
		change(m)
		return gomlxtest.Must(m.Fingerprint())(t)
	}
	none := func(*Model) {}
	own := of(none)
	set := func(head bool) func(*Model) { // a bit of a weight
		return func(m *Model) {
			for _, v := range m.variables() {
				if strings.HasPrefix(below(v.Path()), headPath) != head {
					continue
				}
				gomlxtest.NoError(t, v.MustValue().MutableBytes(func(raw []byte) { raw[2] ^= 1 }))
				return
			}
		}
	}
	used := func(m *Model) { gomlxtest.Must(m.embedImages(image.NewGray(image.Rect(0, 0, 5, 3))))(t) }
	for name, c := range map[string]struct {
		change func(*Model)
		same   bool
	}{
		"the same again": {none, true}, "after use": {used, true}, "another head": {set(true), true},
		"another weight": {set(false), false},
		"another resize": {func(m *Model) { m.Preprocess.Size[0]++ }, false},
		"another aspect": {func(m *Model) { m.Recipe.Aspect = AspectKeep }, false},
		"another mean":   {func(m *Model) { m.Recipe.Augment.Mean[1]++ }, false},
		"another size":   {func(m *Model) { m.Recipe.Model.ImageRows++ }, false},
	} {
		is.Equal(t, name+": the same as before", of(c.change) == own, c.same)
	}
}

// The expected classes are from each file alone; TestPreprocess compares them with evaluations.
func TestPredict_ManyFilesAsEachByItself(t *testing.T) {
	gomlxtest.OnGo(t)
	m := begun(t, Run{Backend: gomlxtest.Backend(), Recipe: tiny(), Train: dataset(30, 1)}).model // of batches of 4
	dir := t.TempDir()
	var files []string
	for i, name := range strings.Fields("a.png b.png c.png missing.png d.png e.png cut.png f.png . h.png k.png") {
		files = append(files, filepath.Join(dir, name))
		if name != "missing.png" && name != "." {
			img := image.NewNRGBA(image.Rect(0, 0, 11-i/2, 3+i))
			for k := range img.Pix {
				img.Pix[k] = uint8(k*(3+i) + 11 - i/2)
			}
			gomlxtest.NoError(t, os.WriteFile(files[i], datatest.PNG(img), 0o600))
		}
	}
	content := gomlxtest.Must(os.ReadFile(files[6]))(t)
	gomlxtest.NoError(t, os.WriteFile(files[6], content[:len(content)/2], 0o644))
	answers, err := m.Predict(files, 3)
	unread := ReadErrors{}
	if !errors.As(err, &unread) || !slices.Equal(slices.Sorted(maps.Keys(unread)), []int{3, 6, 8}) {
		t.Fatalf("%v", err)
	}
	is.Said(t, "unread", err.Error(), files[3], "; 2 more images")
	is.Said(t, "unread", unread[8].Error(), "is a directory: name its images")
	for i, got := range answers {
		want, err := m.predictOne(files[i], 3)
		if unread[i] != nil {
			if got != nil || err == nil || err.Error() != unread[i].Error() {
				t.Errorf("%s: %v, alone %v", files[i], unread[i], err)
			}
			continue
		}
		gomlxtest.NoError(t, err)
		is.Equal(t, files[i], len(got), 3)
		for k := range want {
			is.Equal(t, files[i], got[k].Name, want[k].Name)
			is.Near(t, files[i], got[k].Probability, want[k].Probability, 1e-6)
		}
	}
	sorted := gomlxtest.Must(m.predictOne(files[0], 99))(t)
	falling := func(a, b Class) int { return cmp.Compare(b.Probability, a.Probability) }
	if len(sorted) != 7 || !slices.IsSortedFunc(sorted, falling) {
		t.Errorf("answers %v", sorted)
	}
	is.Equal(t, "the first two", gomlxtest.Must(m.predictOne(files[0], 2))(t), sorted[:2])
	diverge(t, m)
	is.Refused(t, "a model that diverged", is.ErrorOf(m.predictOne(files[0], 1)), files[0], "the model diverged")
}
