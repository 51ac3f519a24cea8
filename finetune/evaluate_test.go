// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/backend"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/report"
)

func TestJudge_IsTheLargestLogitWithItsSoftmax(t *testing.T) {
	ln2, ln3 := float32(math.Log(2)), float32(math.Log(3))
	for _, c := range []struct {
		logits      []float32
		label       int32
		class       int
		probability float64
	}{
		{[]float32{0, ln3, 0}, 0, 1, 3. / 5}, {[]float32{ln2, ln3, 0}, 1, 1, 3. / 6},
		{[]float32{0, 0, -ln2}, 1, 0, 1 / 2.5}, // of two equal classes the wrong one
		{[]float32{0, 0, -ln2}, 0, 1, 1 / 2.5},
		{[]float32{0, 0, -ln2}, 2, 0, 1 / 2.5}, // of two wrong ones the first
		{[]float32{-1e30, 1e30}, 0, 1, 1},
	} {
		got, what := answerOf(c.logits, c.label), fmt.Sprint(c.logits, ", label ", c.label)
		is.Equal(t, what, got.class, c.class)
		is.Near(t, what, got.probability, c.probability, 1e-6)
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		e := evaluation{&data.Info{Name: "diverged"}, []answer{{}, answerOf([]float32{0, float32(bad), 1}, 1)}}
		is.Refused(t, fmt.Sprint("a logit of ", bad), e.answered(), "image 1 of diverged")
	}
}

func TestExamination_ConfusionMistakesAndMeans(t *testing.T) {
	set := &data.InMemory{Info: data.Info{Classes: []string{"a", "b", "c"}, Labels: []int32{0, 2, 1, 2, 0, 2, 2}}}
	e := evaluation{set: &set.Info}
	for i, class := range []int{0, 1, 1, 0, 2, 2, 1} {
		e.answers = append(e.answers, answer{class: class, probability: []float64{.9, .6, .5, .7, .6, .99, .8}[i]})
	}
	want := report.Confusion{Classes: set.Classes, Counts: [][]int{{1, 0, 1}, {0, 1, 0}, {1, 2, 1}}}
	is.Equal(t, "confusion", e.confusion(), want)
	is.Equal(t, "mistakes, the surest first, then in the set's order", e.mistakes(), []int{6, 3, 1, 4})
	e = evaluation{&data.Info{Classes: make([]string, 7)}, []answer{{loss: 1}, {loss: 50, class: damagedImage},
		{loss: 4, rank: 2}}}
	is.Equal(t, "without the damaged image", e.metrics(), report.Metrics{Loss: 2.5, Top1: 0.5, Top5: 1, Images: 2})
}

func nearLogits(t *testing.T, what string, got, want [][]float32) {
	t.Helper()
	wide := func(logits [][]float32) []float64 { return fixtures.Float64s(slices.Concat(logits...)) }
	gomlxtest.Near(t, what+": logits", wide(got), wide(want), 1e-5)
}

// The mean score of an image and its equal mirror image is the image's, and of others the mean of both.
func TestModel_AverageFlipsMeansTheScores(t *testing.T) {
	gomlxtest.OnGo(t)
	m := trained(t)
	same := dataset(5, 4) // [image, row, column, channel], 6 columns of 3 channels
	mirror, set := dataset(5, 4), dataset(5, 4)
	for i := range same.Pixels {
		from := i - i%18 + 15 - i%18/3*3 + i%3
		mirror.Pixels[i] = set.Pixels[from]
		if from < i {
			same.Pixels[i] = same.Pixels[from]
		}
	}
	for _, scores := range []string{"", "softmax", "sigmoid", "none"} {
		m.Activation = scores
		m.eval = gomlxtest.Must(m.logitsProgram())(t)
		one, mirrored, plain := m.scores(t, same), m.scores(t, mirror), m.scores(t, set)
		gomlxtest.NoError(t, m.AverageFlips())
		two, both := m.scores(t, same), m.scores(t, set)
		for i := range one {
			gomlxtest.NearAbs(t, scores+": a symmetric image", two[i], one[i], 2e-6)
			for k := range plain[i] {
				plain[i][k] = (plain[i][k] + mirrored[i][k]) / 2
			}
			gomlxtest.NearAbs(t, scores+": mean", both[i], plain[i], 2e-6)
		}
	}

	m.Activation = ""
	loss := 0.0
	for i, p := range m.scores(t, set) {
		loss -= math.Log(p[set.Labels[i]]) / float64(set.Len())
	}
	is.Near(t, "loss", float64(gomlxtest.Must(m.Evaluate(set))(t).Loss), loss, 1e-5)
	m.Recipe.Aspect = AspectKeep
	is.Refused(t, "images with grids of their own", m.AverageFlips())
}

func TestAverageOf_SigmoidsKeepTheDigitsOfLargeLogits(t *testing.T) {
	got := gomlxtest.Run(t, func(in []*Node) []*Node { return []*Node{averageOf(in[0], "sigmoid")} },
		tensors.FromValue([][][]float32{{{30, -30, 0, 90}}, {{30, -30, 2, -90}}}))
	p := (0.5 + 1/(1+math.Exp(-2))) / 2
	gomlxtest.NearAbs(t, "logits", got[0], []float64{30, -30, math.Log(p / (1 - p)), 0}, 1e-5)
}

// A program of evaluation that was compiled before a step must use the weights after it, as one that is compiled after
// it does: GoMLX v0.28.16 compiles them in as constants on go and onnx.
func TestEvaluate_AfterAStepUsesItsWeights(t *testing.T) {
	for _, name := range []string{"go", "xla:cpu", "onnx:cpu"} {
		t.Run(name, func(t *testing.T) {
			if set := os.Getenv(compute.ConfigEnvVar); cmp.Or(set, "go") != "go" && set != name {
				t.Skipf("%s is tested", set)
			}
			b, err := backend.Open(backend.Config(name), backend.Log(io.Discard))
			if err != nil {
				t.Skip(err)
			}
			defer b.Finalize()
			run := tinyRun(t, "model.position=wepe;grad_accum_steps=2;ema_decay=0.5;warmup_epochs=0", 31)
			run.Backend = b
			trainer := begun(t, run)
			set := dataset(11, 5)
			var before [][]float32
			for step := range 3 {
				got := gomlxtest.Must(trainer.model.logitsOf(set))(t)
				fresh := *trainer.model
				fresh.eval = gomlxtest.Must(trainer.model.logitsProgram())(t)
				want := gomlxtest.Must(fresh.logitsOf(set))(t)
				fresh.eval.Finalize()
				is.Equal(t, fmt.Sprintf("step %d, as of a fresh program", step), got, want)
				is.Equal(t, fmt.Sprintf("step %d changed nothing", step), before != nil && slices.Equal(before[0], got[0]), false)
				before = got
				advanced(t, trainer, 1)
			}
		})
	}
}

// The same images with their classes in another order have the same accuracy, loss and confusion.
func TestLabelled_MatchesClassesByName(t *testing.T) {
	gomlxtest.OnGo(t)
	m := trained(t)
	set, permuted := dataset(29, 3), dataset(29, 3)
	permuted.Classes = strings.Fields("g c a f b e d")
	for i, label := range set.Labels {
		permuted.Labels[i] = int32(slices.Index(permuted.Classes, set.Classes[label]))
	}
	is.Refused(t, "no images", is.ErrorOf(m.Evaluate(data.Subset(set, nil))))
	want, wantConfusion, err := m.EvaluateWithConfusion(set)
	if err != nil || want.Top1 == 0 {
		t.Fatal(want, err)
	}
	got, confusion, err := m.EvaluateWithConfusion(permuted)
	gomlxtest.NoError(t, err)
	is.Equal(t, "permuted classes", got, want)
	is.Equal(t, "permuted classes", confusion, wantConfusion)
	permuted.Classes = strings.Fields("g c a f b e x")
	is.Refused(t, "one other name", is.ErrorOf(m.Evaluate(permuted)), "6 of the model's 7 classes",
		"class 0 is a in the model and g in the data")
}

// Labels 1 and 0 of a dataset in the model's classes; nil where the classes do not match.
func TestLabelled_OtherNames(t *testing.T) {
	for _, c := range []struct {
		model, set string
		labels     []int32
		warns      bool
	}{
		{"cat dog eel", "cat dog eel", []int32{1, 0}, false},
		{"cat dog eel", "dog_y eel_x zcat", []int32{1, 0}, true},
		{"cat dog eel", "cat dog fox", nil, false}, {"cat dog eel", "dog cat fox", nil, false},
		{"cat dog eel", "0 1 2", []int32{1, 0}, true},
		{"10 20 30", "20 30 40", nil, false},                // degrees are names
		{"class_0 class_1", "cat dog", []int32{1, 0}, true}, // names that somebody chose
		{"LABEL_0 LABEL_1 LABEL_2", "cat dog eel", []int32{1, 0}, false},
		{"0 1 2", "LABEL_0 LABEL_1 LABEL_2", []int32{1, 0}, false},
		{"crane crane eel", "crane eel crane", nil, false}, // of ImageNet
		// A part of the classes.
		{"cat dog eel", "eel cat", []int32{0, 2}, true}, {"cat dog eel", "eel fox", nil, false},
		{"cat dog eel", "eel eel", nil, false}, {"cat dog eel", "eel", nil, false}, {"cat dog eel", "0 1", nil, false},
		{"10 20 30", "20 30", []int32{2, 1}, true}, {"crane eel crane dog", "crane eel", nil, false}, // which crane?
		{"crane crane eel", "crane fox", nil, false},
		// By the numbers in names, which folders sort as text.
		{"cat dog eel", "10 2 3", []int32{0, 2}, true}, {"LABEL_0 LABEL_1 LABEL_2", "10 2 3", []int32{0, 2}, true},
		{"LABEL_2 LABEL_10 LABEL_1", "10 2 3", []int32{2, 1}, true}, {"2 10", "10 2", []int32{0, 1}, false},
	} {
		m := Model{Classes: strings.Fields(c.model)}
		m.Recipe.Model.Classes = len(m.Classes)
		set := &data.Info{Name: "B", Classes: strings.Fields(c.set), Labels: []int32{1, 0}}
		labelled, warning, err := m.Labelled(set)
		if c.labels == nil {
			is.Refused(t, c.model+", "+c.set, err, "dataset B", "classes")
		} else if err != nil || !slices.Equal(labelled.Labels, c.labels) || (warning != "") != c.warns {
			t.Errorf("%s, %s: labels %v, want %v; %q, %v", c.model, c.set, labelled, c.labels, warning, err)
		}
	}
	m := Model{Classes: []string{"class 0", "class 1"}} // of Open
	m.Recipe.Model.Classes = 2
	_, warning, err := m.Labelled(&data.Info{Classes: []string{"cat", "dog"}})
	gomlxtest.NoError(t, err)
	is.Equal(t, "warning", warning, "")
}

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
		is.Near(t, fmt.Sprint(n, " images"), float64(got.Loss), loss, 1e-5)
		want.Loss, want.Top1, want.Top5 = got.Loss, want.Top1/report.JSONFloat(n), want.Top5/report.JSONFloat(n)
		is.Equal(t, fmt.Sprint(n, " images"), got, want)
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
		{[]float32{2, 1, 0, 0, 0, 0, 0}, 0, 1, 1}, {[]float32{2, 2, 0, 0, 0, 0, 0}, 0, 0, 1},
		{[]float32{2, 2, 0, 0, 0, 0, 0}, 1, 0, 1},
		{[]float32{7, 6, 5, 4, 3, 2, 1}, 4, 0, 1}, // the fifth
		{[]float32{7, 6, 5, 4, 3, 2, 1}, 5, 0, 0}, // the sixth
		{[]float32{7, 6, 5, 4, 3, 3, 1}, 4, 0, 0}, // fifth or sixth
		{[]float32{7, 6, 5, 5, 5, 2, 1}, 2, 0, 1}, // third, fourth or fifth
		{[]float32{7, 6, 5, 5, 5, 5, 1}, 2, 0, 0},
		{[]float32{0, 0, 0, 0, 0}, 2, 0, 1}, // with five classes each is in the top 5
		{[]float32{0}, 0, 1, 1}, {[]float32{2, nan, 0, 0, 0, 0, 0}, 0, 0, 1},
		{[]float32{9, nan, nan, nan, nan, 0, 0}, 0, 0, 1}, {[]float32{9, nan, nan, nan, nan, nan, 0}, 0, 0, 0},
		{[]float32{nan, 0, 0, 0, 0, 0, 0}, 0, 0, 0},
		{[]float32{nan, 0}, 0, 0, 0}, // in the top 5, but not a valid logit
		{[]float32{inf, 0, 0, 0, 0, 0, 0}, 0, 1, 1}, {[]float32{inf, inf, 0, 0, 0, 0, 0}, 0, 0, 1},
		{[]float32{5, inf, inf, inf, inf, 0, 0}, 0, 0, 1}, {[]float32{-inf, -inf, 0, 0, 0, 0, 0}, 0, 0, 0},
		{[]float32{0, -inf, -inf, -inf, -inf, -inf, -inf}, 0, 1, 1},
	} {
		e := evaluation{&data.Info{Classes: make([]string, len(c.logits))}, []answer{answerOf(c.logits, int32(c.label))}}
		got := e.metrics()
		is.Equal(t, fmt.Sprint(c.logits, ", label ", c.label), [2]report.JSONFloat{got.Top1, got.Top5},
			[2]report.JSONFloat{c.top1, c.top5})
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
	is.Equal(t, "logits of images that are resized, or were before", got, want)
	m.infersAs(t, small, want)
}
