// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
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

// softmaxOf returns the probabilities of a dataset's images.
func softmaxOf(t *testing.T, m *Model, set *data.InMemory) (all [][]float64) {
	t.Helper()
	for _, logits := range gomlxtest.Must(m.logitsOf(set))(t) {
		total, p := logSumExp(logits), make([]float64, len(logits))
		for k, v := range logits {
			p[k] = math.Exp(float64(v) - total)
		}
		all = append(all, p)
	}
	return all
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
		want := softmaxOf(t, trained, set)
		m := gomlxtest.Must(Open(run.Backend, run.Dir))(t)
		for i, classes := range gomlxtest.Must(m.Predict(paths, 3))(t) {
			m.has(t, name+": "+files.Where(i), classes, want[i])
		}
		dir := filepath.Join(t.TempDir(), "export")
		report := fmt.Sprint(gomlxtest.Must(m.Export(dir, checkpoints.ExportOptions{Format: "hf"}))(t))
		said := strings.Contains(report, `preprocessing: fit "exact" to 4×6 in place of "cover"`)
		equal(t, name+": the export reports "+report, said, !c.declared && c.settings == "aspect=crop")
		if !c.declared {
			continue
		}
		declared := gomlxtest.Must(preprocess.Parse(
			gomlxtest.Must(os.ReadFile(filepath.Join(dir, "preprocessor_config.json")))(t)))(t)
		again := softmaxOf(t, m, gomlxtest.Must(files.Load(t.Context(), declared, nil))(t))
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
				equal(t, name+": when it is asked again", again.Mix, plan.Mix)
				if other, known := seen[lambda]; known && lambda > 1e-6 && lambda < 1-1e-6 {
					t.Errorf("%s is mixed as %s", name, other)
				}
				half := math.Abs(float64(lambda)-0.5) < 0.05
				equal(t, fmt.Sprint(name, ": mixed by ", lambda), half, step >= c.PerPass)
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
		equal(t, "classes of at most -1", len(m.TopK(logits, -1)), 0)
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
