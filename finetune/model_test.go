// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"gonum.org/v1/gonum/floats"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

// trained returns a model with some accuracy on the dataset.
func trained(t *testing.T) *Model {
	t.Helper()
	m, _ := done(t, tinyRun(t, "model.dropout=0.1;model.drop_path=0.1", 100)) // disabled in all that follows
	return m
}

// The logits are of the network alone, on images that are normalized on the host.
func TestEvaluate_IsTheNaiveCountOverLogits(t *testing.T) {
	gomlxtest.OnGo(t)
	m, all := trained(t), dataset(29, 3)
	mean, std := []float64{0.5, 0.4, 0.3}, []float64{0.2, 0.3, 0.4} // of tiny
	images := make([]float32, len(all.Pixels))
	for i, p := range all.Pixels {
		images[i] = float32((float64(p)/255 - mean[i%3]) / std[i%3])
	}
	logits := gomlxtest.RunModel(t, m.store, func(s *model.Scope, in []*Node) []*Node {
		return []*Node{m.Recipe.Model.Logits(s.In("vit"), in[0])}
	}, tensors.FromFlatDataAndDimensions(images, all.Len(), all.Height, all.Width, 3))[0]
	for _, n := range []int{1, 4, 11, 29} { // batches of 4: the last one is full or not
		set := dataset(n, 3) // the first images of 29
		want, loss := report.Metrics{Images: n}, 0.0
		for i := range set.Labels {
			label, row := i%7, logits[7*i:][:7] // mostly wrong, so that labels have all ranks
			set.Labels[i] = int32(label)
			sum, larger := 0.0, 0
			for _, v := range row {
				if sum += math.Exp(v); v > row[label] {
					larger++
				}
			}
			loss -= math.Log(math.Exp(row[label])/sum) / float64(n)
			if larger < 1 {
				want.Top1++
			}
			if larger < 5 {
				want.Top5++
			}
		}
		got := gomlxtest.Must(m.Evaluate(set))(t)
		near(t, fmt.Sprint(n, " images"), float64(got.Loss), loss, 1e-5)
		want.Loss, want.Top1, want.Top5 = got.Loss, want.Top1/report.JSONFloat(n), want.Top5/report.JSONFloat(n)
		equal(t, fmt.Sprint(n, " images"), got, want)
	}
}

// By hand: top-1 and top-5 of each row count the label as the last among its equals.
func TestJudge_ATieIsIncorrect(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		logits     []float32
		label      int
		top1, top5 report.JSONFloat
	}{
		{[]float32{0, 0, 0, 0, 0, 0, 0}, 3, 0, 0}, // an untrained head
		{[]float32{2, 1, 0, 0, 0, 0, 0}, 0, 1, 1},
		{[]float32{2, 2, 0, 0, 0, 0, 0}, 0, 0, 1},
		{[]float32{2, 2, 0, 0, 0, 0, 0}, 1, 0, 1},
		{[]float32{7, 6, 5, 4, 3, 2, 1}, 4, 0, 1}, // the fifth
		{[]float32{7, 6, 5, 4, 3, 2, 1}, 5, 0, 0}, // the sixth
		{[]float32{7, 6, 5, 4, 3, 3, 1}, 4, 0, 0}, // fifth or sixth
		{[]float32{7, 6, 5, 5, 5, 2, 1}, 2, 0, 1}, // third, fourth or fifth
		{[]float32{7, 6, 5, 5, 5, 5, 1}, 2, 0, 0},
		{[]float32{0, 0, 0, 0, 0}, 2, 0, 1}, // with five classes each is in the top 5
		{[]float32{0}, 0, 1, 1},
		{[]float32{2, nan, 0, 0, 0, 0, 0}, 0, 0, 1},
		{[]float32{9, nan, nan, nan, nan, 0, 0}, 0, 0, 1},
		{[]float32{9, nan, nan, nan, nan, nan, 0}, 0, 0, 0},
		{[]float32{nan, 0, 0, 0, 0, 0, 0}, 0, 0, 0},
		{[]float32{nan, 0}, 0, 0, 0}, // in the top 5, but not a valid logit
		{[]float32{inf, 0, 0, 0, 0, 0, 0}, 0, 1, 1},
		{[]float32{inf, inf, 0, 0, 0, 0, 0}, 0, 0, 1},
		{[]float32{5, inf, inf, inf, inf, 0, 0}, 0, 0, 1},
		{[]float32{-inf, -inf, 0, 0, 0, 0, 0}, 0, 0, 0},
		{[]float32{0, -inf, -inf, -inf, -inf, -inf, -inf}, 0, 1, 1},
	} {
		e := examination{&data.Info{Classes: make([]string, len(c.logits))}, []verdict{judge(c.logits, int32(c.label))}}
		got := e.metrics()
		equal(t, fmt.Sprint(c.logits, ", label ", c.label), [2]report.JSONFloat{got.Top1, got.Top5},
			[2]report.JSONFloat{c.top1, c.top5})
	}
}

func TestOpen_RefusesACheckpointThatLacksAVariable(t *testing.T) {
	gomlxtest.OnGo(t)
	run := saved(t, tiny(), 41)
	model, _ := done(t, run)
	last := latest(t, run.Dir, checkpoints.BestDir)
	const lost = "/vit/block_01/norm2/gain"
	saver := checkpoints.Saver{Dir: filepath.Join(run.Dir, checkpoints.BestDir),
		Omit: func(path string) bool { return path == lost }}
	gomlxtest.Must(saver.Save(model.store, last.Step+1000, last.Meta))(t)
	opened := gomlxtest.Must(Open(run.Backend, run.Dir))(t)
	for range 2 { // again: the first program has drawn it
		_, err := opened.Evaluate(dataset(7, 2))
		var mismatch *checkpoints.MismatchError
		if !errors.As(err, &mismatch) || len(mismatch.Missing) != 1 || !strings.Contains(mismatch.Missing[0], lost) {
			t.Errorf("evaluating gave %v, want a mismatch that names %s", err, lost)
		}
	}
}

func TestOpen_RefusesWhatIsNoCheckpointOfAModel(t *testing.T) {
	dir := t.TempDir()
	refused(t, "an empty directory", errorOf(Open(gomlxtest.Backend(), dir)), dir)
	recipe := gomlxtest.Must(tiny().fit(dataset(9, 1).Describe()))(t)
	saver := checkpoints.Saver{Dir: filepath.Join(dir, checkpoints.LastDir)}
	for want, meta := range map[string]any{
		"1 names for 7 classes": state{Recipe: recipe, Classes: []string{"a"}},
		"epochs is 0":           state{},
		"cannot unmarshal":      7,
		`unknown field "new"`:   map[string]any{"recipe": map[string]any{"model": map[string]any{"new": 1}}},
		"of a detector":         map[string]any{"recipe": map[string]any{"detector": struct{}{}}, "from": "a1"}, // a text
	} {
		path := gomlxtest.Must(saver.Save(model.NewStore(), 1, meta))(t)
		refused(t, want, errorOf(Open(gomlxtest.Backend(), dir)), want, path)
	}
}

// where is a dataset of dark 4×4 images with one bright quarter, which is the class: a bag of patches of 2×2 pixels
// without positions contains no information about it.
func where(n int, seed uint64) *data.InMemory {
	r := rand.New(rand.NewPCG(seed, 1))
	s := &data.InMemory{Info: data.Info{Name: "where", Height: 4, Width: 4, Channels: 3,
		Classes: []string{"top left", "top right", "bottom left", "bottom right"}}}
	for range n {
		label := r.IntN(4)
		s.Labels = append(s.Labels, int32(label))
		for k := range 4 * 4 * 3 {
			v := r.IntN(30)
			if row, col := k/3/4, k/3%4; row/2*2+col/2 == label {
				v += 200
			}
			s.Pixels = append(s.Pixels, uint8(v))
		}
	}
	return s
}

func TestRun_LearnsWhereSomethingIsFromTheEncodingAlone(t *testing.T) {
	recipe := Recipe{
		Name: "where", Model: vit.Config{PatchSize: 2, Width: 16, Depth: 1, Heads: 2, Pool: "mean"},
		BatchSize: 16, LearningRate: 0.01, WarmupEpochs: 1, Optimizer: engine.Optimizer{ClipNorm: 1},
		EvalBatchSize: 64, EvalEveryEpochs: 100, ValFraction: -1,
		Augment: data.Augment{Mean: [3]float64{0.1, 0.1, 0.1}, Std: [3]float64{0.2, 0.2, 0.2}},
	}
	chance := math.Log(4)
	positions := position.Names()
	if gomlxtest.OnXLA() {
		positions = []string{"none", "wepe-sphere", "rope-mixed"}
	}
	for _, position := range positions {
		// Distances alone are the same from each of the four corners.
		learns := position != "none" && position != "alibi2d"
		recipe.Model.Position, recipe.Epochs = position, 6
		if slices.Contains([]string{"wepe-bias", "lookhere", "relative-table"}, position) {
			recipe.Epochs = 40 // it learns through the attention weights; 20 epochs are too few for some orders of summation
		}
		run := Run{Backend: gomlxtest.Backend(), Recipe: recipe, Train: where(320, 1), Test: where(256, 2)}
		_, row := done(t, run)
		loss := float64(row.Test.Loss)
		t.Logf("%s: test loss %.3f, chance %.3f, top-1 %.3f", position, loss, chance, float64(row.Test.Top1))
		if learns && loss > chance/3 || !learns && loss < 0.97*chance {
			t.Errorf("%s: test loss %.3f where chance is %.3f", position, loss, chance)
		}
	}
}

func TestEncoding_OfAModulationIsItsFactorsLess1(t *testing.T) {
	gomlxtest.OnGo(t)
	for position, parts := range map[string][]string{"wepe-qkv": {"query", "key", "value"},
		"fourier-qkv": {"query", "key", "value"}, "wepe-v": {"value"}, "fourier-v": {"value"}} {
		trainer := begun(t, tinyRun(t, "model.position="+position, 30))
		advanced(t, trainer, 1)
		c, weights := trainer.Recipe.Model, trainer.model.weights(t, "")
		features, names, vectors, err := trainer.model.Encoding()
		n, patches := len(names), c.Rows()*c.Cols()
		if err != nil || n != 12 || len(features) != patches*n || len(vectors) != patches*c.Depth*len(parts)*c.Width {
			t.Fatalf("%s: %v, features %q, %d values, %d vectors", position, err, names, len(features), len(vectors))
		}
		var want []float64
		for patch := range patches {
			f := features[patch*n:][:n]
			if length := floats.Norm(f, 2); !(math.Abs(length-2) <= 1e-5) { // of four points of a sphere, or six waves
				t.Errorf("%s: features of length %g", position, length)
			}
			for block := range c.Depth {
				for _, of := range parts {
					m := weights[fmt.Sprintf("position/%s/block_%02d/%s", strings.ReplaceAll(position, "-", "_"), block, of)]
					for channel := range c.Width {
						sum := 0.0
						for k := range n {
							sum += f[k] * m[k*c.Width+channel]
						}
						want = append(want, sum)
					}
				}
			}
		}
		gomlxtest.NearAbs(t, position, vectors, want, 1e-5)
	}
}

func TestScalars_AreWhatAnEncodingLearns(t *testing.T) {
	gomlxtest.OnGo(t)
	for position, want := range map[string][]string{
		"none": nil, "learned": nil, "sincos2d": nil,
		"wepe":        {"alpha_scale", "beta_pos", "omega3"},
		"wepe-sphere": {"alpha_scale", "beta_pos", "omega3"},
		"hybrid":      {"beta", "gamma", "lambda", "omega3", "scale", "strength"},
		"wepe-bias":   {"alpha_scale", "omega3"},
		"wepe-qkv":    {"alpha_scale", "omega3"}, "fourier-qkv": nil,
		"wepe-v": {"alpha_scale", "omega3"}, "fourier-v": nil,
	} {
		trainer := begun(t, tinyRun(t, "wepe_gate=0.3;model.position="+position, 30))
		advanced(t, trainer, 1)
		scalars := gomlxtest.Must(trainer.model.scalars())(t)
		equal(t, position, slices.Sorted(maps.Keys(scalars)), want)
		if lambda := float64(scalars["lambda"]); position == "hybrid" && (lambda == 0.3 || !(math.Abs(lambda-0.3) <= 0.01)) {
			t.Errorf("λ is %g after one step from 0.3", lambda)
		}
	}
}

// Training resizes images on the host by the recipe's kernel, evaluation too.
func TestEvaluate_ResizesAsTraining(t *testing.T) {
	gomlxtest.OnGo(t)
	small := dataset(7, 2)
	m := gomlxtest.Must(newModel(gomlxtest.Backend(), gomlxtest.Must(gomlxtest.Must(
		tiny().Set("augment.size=[8,12];augment.interpolation=bicubic"))(t).fit(small.Describe()))(t), small.Classes, 1))(t)
	large := dataset(7, 2)
	large.Height, large.Width, large.Pixels = 8, 12, nil
	for row := range small.Labels {
		img := &data.Image{Height: 4, Width: 6, Pixels: small.Row(row)}
		large.Pixels = append(large.Pixels, img.Resize(8, 12, preprocess.Bicubic).Pixels...)
	}
	got, want := gomlxtest.Must(m.logitsOf(small))(t), gomlxtest.Must(m.logitsOf(large))(t)
	equal(t, "logits of images that are resized, or were before", got, want)
	m.infersAs(t, small, want)
}

// The expected classes are from each file alone; TestPreprocess compares them with evaluations.
func TestPredict_ManyFilesAsEachByItself(t *testing.T) {
	gomlxtest.OnGo(t)
	m := begun(t, Run{Backend: gomlxtest.Backend(), Recipe: tiny(), Train: dataset(30, 1)}).model // of batches of 4
	dir := t.TempDir()
	var files []string
	for i, name := range strings.Fields("a.png b.png c.png missing.png d.png e.png cut.png f.png . h.png k.png") {
		if file := filepath.Join(dir, name); name == "missing.png" || name == "." {
			files = append(files, file)
		} else {
			files = append(files, written(t, dir, name, 3+i, 11-i/2))
		}
	}
	content := gomlxtest.Must(os.ReadFile(files[6]))(t)
	gomlxtest.NoError(t, os.WriteFile(files[6], content[:len(content)/2], 0o644))
	answers, err := m.Predict(files, 3)
	unread := ReadErrors{}
	if !errors.As(err, &unread) || !slices.Equal(slices.Sorted(maps.Keys(unread)), []int{3, 6, 8}) {
		t.Fatalf("%v", err)
	}
	if !strings.Contains(err.Error(), files[3]) || !strings.Contains(err.Error(), "; 2 more images") ||
		!strings.Contains(unread[8].Error(), "is a directory: name its images") {
		t.Errorf("%v", err)
	}
	for i, got := range answers {
		want, err := m.predictOne(files[i], 3)
		if unread[i] != nil {
			if got != nil || err == nil || err.Error() != unread[i].Error() {
				t.Errorf("%s: %v, alone %v", files[i], unread[i], err)
			}
			continue
		}
		if err != nil || len(got) != 3 {
			t.Fatalf("%s: %v, alone %v, %v", files[i], got, want, err)
		}
		for k := range want {
			equal(t, files[i], got[k].Name, want[k].Name)
			near(t, files[i], got[k].Probability, want[k].Probability, 1e-6)
		}
	}
	sorted := gomlxtest.Must(m.predictOne(files[0], 99))(t)
	falling := func(a, b Class) int { return cmp.Compare(b.Probability, a.Probability) }
	if len(sorted) != 7 || !slices.IsSortedFunc(sorted, falling) {
		t.Errorf("answers %v", sorted)
	}
	equal(t, "the first two", gomlxtest.Must(m.predictOne(files[0], 2))(t), sorted[:2])
	diverge(t, m)
	refused(t, "a model that diverged", errorOf(m.predictOne(files[0], 1)), files[0], "the model diverged")
}
