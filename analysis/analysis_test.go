// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/vit"
)

// testImages returns images of 12×20 pixels in 3 classes; a class is a colour behind noise.
func testImages(n int) *data.Memory {
	r := rand.New(rand.NewPCG(5, 0))
	s := &data.Memory{
		Info: data.Info{Name: "pictures", Height: 12, Width: 20, Channels: 3, Classes: strings.Fields("a b c")},
	}
	for range n {
		label := r.IntN(3)
		s.Labels = append(s.Labels, int32(label))
		for k := range 12 * 20 * 3 {
			s.Pixels = append(s.Pixels, uint8(r.IntN(249)+7*(label>>(k%3)&1)))
		}
	}
	return s
}

// trained trains a model on a grid of 3×5 and returns the run's directory.
func trained(t *testing.T, position string, seed int64, change func(*finetune.Recipe)) string {
	t.Helper()
	recipe := finetune.Recipe{Name: "tiny", Model: vit.Config{PatchSize: 4, Width: 12, Depth: 2, Heads: 3, MLPDim: 20,
		Position: position}, Epochs: 1, BatchSize: 10, LearningRate: 0.01, EvalBatchSize: 7}
	if change != nil {
		change(&recipe)
	}
	run := finetune.Run{Backend: gomlxtest.PureGo(), Recipe: recipe, Seed: seed, Train: testImages(40), Dir: t.TempDir()}
	m, _, err := run.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m.Finalize()
	return run.Dir
}

func rowsOf(rows []Row, figure, model string) (of []Row) {
	for _, r := range rows {
		if r.Analysis == figure && r.Model == model {
			of = append(of, r)
		}
	}
	return of
}

func value(t *testing.T, rows []Row, figure, model, measure, at string) float64 {
	t.Helper()
	for _, r := range rowsOf(rows, figure, model) {
		if r.Measure == measure && r.At == at {
			return float64(r.Value)
		}
	}
	t.Fatalf("no %s %s of %s in %s", measure, at, model, figure)
	return 0
}

// measures are the numbers of rows of a model of two layers of three heads, on 23 images and 3×5 patches.
var measures = map[string]map[string]int{
	"similarity": {"variance explained by principal components": 3},
	"directions": {"norm, root mean square": 1, "principal components that explain": 2, "explained variance": 6},
	"decay": {"correlation with distance, all pairs": 2, "correlation with distance, bin means": 2, "decay, %": 2,
		"decreasing bins, %": 2}, // without and with noise
	"probe": {"MSE, patches²": 3, "MAE, patches": 2, "RMSE, patches": 2}, // without and with positions, and of chance
	"sensitivity": {"correlation of distance and 1 − cosine (detail)": 24, "mean modulus of the features (detail)": 24,
		"variation of the correlation of distance and 1 − cosine": 4, "variation of the mean modulus of the features": 4},
	"maps":    {"correlation of attention weight and distance, from the centre": 1},
	"rollout": {"coefficient of variation of the map": 1},
	"distance": {"attention distance, patches": 2, "attention distance, patches (detail)": 6,
		"correlation of attention weight and distance": 2, "weight by distance (detail)": 24},
	"entropy": {"entropy, nats": 2, "entropy, nats (detail)": 6},
	"range":   {"effective range, patches": 2, "effective range, patches (detail)": 6},
	"depth":   {"R² of row and column, linear": 3, "attention variance due to position, %": 2},
	"tsne": {"silhouette by quadrant, features": 1, "R² of row and column, 5 nearest neighbours": 1,
		"silhouette by quadrant, t-SNE": 1, "divergence, nats (detail)": 1},
	"cka": {"unbiased linear CKA with the first model": 2},
	"masks": {"IoU at half of the range": 3, "IoU at the median": 3, "IoU at the 90th percentile": 3,
		"point-biserial correlation": 3}, // mean, deviation, difference to the first model
	"separation": {"mean separation, patches": 1, "correlation of separation and error, images": 1,
		"correlation of separation and error rate, bins of at least 10 images": 1, "error rate (detail)": 20,
		"images (detail)": 20},
	"occlusion":  {"top-1 accuracy, %": 4, "retained accuracy, %": 3},
	"geometry":   {"top-1 accuracy, %": 9, "retained accuracy, %": 8},
	"resolution": {"top-1 accuracy, %": 10},
	"shuffle":    {"top-1 accuracy, %": 2, "retained accuracy, %": 1},
}

func TestEveryAnalysisMeasuresEveryModelOrGivesTheReason(t *testing.T) {
	gomlxtest.OnGo(t)
	models := []Model{
		{Name: "none", Path: trained(t, "none", 1, func(r *finetune.Recipe) { r.Model.Pool = "mean" })},
		{Name: "learned", Path: trained(t, "learned", 1, nil)},
		{Name: "learned", Path: trained(t, "learned", 2, nil)},
		{Name: "wepe", Path: trained(t, "wepe", 1, nil)},
		{Name: "rope-axial", Path: trained(t, "rope-axial", 1, nil)},
		{Name: "dhvt", Path: trained(t, "none", 1, func(r *finetune.Recipe) { r.Architecture = finetune.DHVT })},
	}
	models = append(models, Model{Name: "wepe at start", Path: models[3].Path, Start: true})
	images := testImages(23)
	comparison := Comparison{
		Backend:  gomlxtest.Backend(),
		Models:   models,
		Analyses: All,
		Images:   images,
		Pairs:    200,
		Seed:     3,
		Mask: func(i int) []bool {
			mask := make([]bool, 12*20)
			for k := range 60 + i {
				mask[k] = true
			}
			return mask
		},
	}
	found := gomlxtest.Must(comparison.Run(t.Context()))(t)
	for _, f := range All {
		if f.Title == "" || f.About == "" {
			t.Errorf("%s lacks a title or what it is about", f.Name)
		}
		for _, m := range models {
			rows := rowsOf(found.Rows, f.Name, m.Name)
			if len(rows) == 0 {
				t.Errorf("%s says nothing of %s", f.Name, m.Name)
			}
			for _, r := range rows {
				if (r.Measure == "") == (r.Note == "") {
					t.Errorf("%s of %s: a row with measure %q and note %q", f.Name, m.Name, r.Measure, r.Note)
				}
			}
		}
		for _, line := range Table(found.Rows, f.Name).Rows {
			if len(line) > 0 && (strings.Contains(strings.Join(line, " "), "NaN") || strings.Contains(line[0], "Inf")) {
				t.Errorf("%s: %q", f.Name, line)
			}
		}
	}
	for name, want := range measures {
		count := map[string]int{}
		for _, r := range rowsOf(found.Rows, name, "wepe") {
			if r.Detail {
				r.Measure += " (detail)"
			}
			count[r.Measure]++
		}
		if !reflect.DeepEqual(count, want) {
			t.Errorf("%s has %v, want %v", name, count, want)
		}
	}
	for figure, model := range map[string]string{"similarity": "rope-axial", "decay": "none", "masks": "dhvt",
		"sensitivity": "none", "occlusion": "wepe at start"} {
		if rows := rowsOf(found.Rows, figure, model); len(rows) != 1 || rows[0].Note == "" {
			t.Errorf("%s of %s: %+v, want a reason", figure, model, rows)
		}
	}
	var names []string // the paper's, in its order
	for _, r := range rowsOf(found.Rows, "geometry", "wepe") {
		if r.Measure == "retained accuracy, %" {
			names = append(names, r.At)
		}
	}
	if got := strings.Join(names, ", "); got != "rotated by 5°, rotated by 10°, rotated by 15°, rotated by 30°, "+
		"scaled by 0.9, scaled by 1.1, translated by 5/224, sheared by 5°" {
		t.Errorf("images are %s", got)
	}
	for _, r := range found.Rows {
		if r.Measure == "retained accuracy, %" {
			whole := value(t, found.Rows, r.Analysis, r.Model, "top-1 accuracy, %", "original images")
			left := value(t, found.Rows, r.Analysis, r.Model, "top-1 accuracy, %", r.At)
			if r.Model != "learned" && !(math.Abs(float64(r.Value)-100*left/whole) <= 1e-9) { // two models have that name
				t.Errorf("%s of %s, %s: %g %% are kept, want %g of %g", r.Analysis, r.Model, r.At, r.Value, left, whole)
			}
		}
	}
	for _, m := range models[:5] { // all but the first are compared with it
		compared := 0
		for _, r := range rowsOf(found.Rows, "masks", m.Name) {
			if r.At == "p of the paired t-test against the first model" {
				compared++
			}
		}
		if want := map[string]int{"none": 0, "learned": 8}[m.Name]; m.Name != "none" && want == 0 && compared != 4 ||
			want > 0 && compared != want || m.Name == "none" && compared != 0 {
			t.Errorf("masks of %s: %d measures are compared with the first model's", m.Name, compared)
		}
	}
	// A bag of patches has no positions to lose, and the training size is the same size.
	const top1 = "top-1 accuracy, %"
	if a, b := value(t, found.Rows, "shuffle", "none", top1, "original images"),
		value(t, found.Rows, "shuffle", "none", top1, "patches shuffled"); a != b {
		t.Errorf("without positions %g %% of whole pictures and %g %% of shuffled ones", a, b)
	}
	for _, m := range models[:5] {
		if a, b := value(t, found.Rows, "occlusion", m.Name, top1, "original images"),
			value(t, found.Rows, "resolution", m.Name, top1, "1 × 1 training size"); a != b {
			t.Errorf("%s: %g %% at its size, %g %% as measured elsewhere", m.Name, a, b)
		} else if a == 100 || a == 0 {
			t.Errorf("%s: %g %% says nothing", m.Name, a)
		}
	}
	if like := value(t, found.Rows, "cka", "none", "unbiased linear CKA with the first model",
		"layer 2"); like < 0.999 {
		t.Errorf("a model is like itself by %g", like)
	}

	var page bytes.Buffer
	if err := found.Page.HTML(&page); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	decoder := xml.NewDecoder(strings.NewReader(text))
	decoder.Strict, decoder.AutoClose = false, xml.HTMLAutoClose // HTML does not close meta and img
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	text = regexp.MustCompile("base64,[^\"]*").ReplaceAllString(text, "")
	for _, never := range []string{"<script", "src=\"http", "NaN"} {
		if strings.Contains(text, never) {
			t.Errorf("the page has %q", never)
		}
	}
	if n := strings.Count(text, ">learned: perturbed images<"); n != 3 { // of occlusion, geometry and shuffle
		t.Errorf("two models of one name are shown %d times", n)
	}
	for _, want := range []string{"accuracy of the same weights at other sizes",
		"error rate by distance of the 5 strongest"} {
		if !strings.Contains(text, want) {
			t.Errorf("no plot %q", want)
		}
	}
	for _, of := range [][4]string{{"distance", "weight by distance", "layer 1 at 1"},
		{"distance", "weight by distance", "layer 2 at 1"}, {"distance", "attention distance, patches", "layer 2 head 3"},
		{"tsne", "divergence, nats", ""}} {
		if v := value(t, found.Rows, of[0], "learned", of[1], of[2]); !(v > 0 && v < 10) {
			t.Errorf("%v: %g", of, v)
		}
	}
	for _, want := range []string{"rope-axial: principal components", "learned: perturbed images", "dhvt: the attention"} {
		if present := strings.Contains(text, want); present != (want[0] != 'r') {
			t.Errorf("%q on the page: %v", want, present)
		}
	}

	path := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := Write(path, found.Rows); err != nil {
		t.Fatal(err)
	}
	read, err := Read(path)
	if err != nil || len(read) != len(found.Rows) {
		t.Fatalf("%d rows of %d are read, %v", len(read), len(found.Rows), err)
	}
	if read[0].Commit != report.Commit() || read[0].Commit == "" {
		t.Errorf("rows of commit %q, want %q", read[0].Commit, report.Commit())
	}
}

func TestATableHasMeansRangesAndUndefinedValues(t *testing.T) {
	undefinedRow := Row{Analysis: "decay", Model: "a", Measure: "ρ", Value: report.Number(undefined)}
	rows := []Row{
		{Analysis: "decay", Model: "a", Measure: "n", Value: 2}, {Analysis: "decay", Model: "a", Measure: "n", Value: 4},
		{Analysis: "decay", Model: "b", Measure: "n", Value: 0.5}, undefinedRow, undefinedRow,
		{Analysis: "decay", Model: "b", Measure: "m", Value: 100},
		{Analysis: "decay", Model: "a", Measure: "hidden", Value: 1, Detail: true},
		{Analysis: "other", Model: "c", Measure: "n"},
		{Analysis: "decay", Model: "c", Value: report.Number(undefined), Note: "why"},
	}
	table := Table(rows, "decay")
	want := [][]string{{"n", "", "3.00 (2.00 … 4.00)", "0.500"}, {"ρ", "", "undefined", "–"}, {"m", "", "–", "100"}}
	if !slices.EqualFunc(table.Rows, want, slices.Equal[[]string]) || !slices.Equal(table.Notes, []string{"c: why"}) {
		t.Errorf("%q, notes %q", table.Rows, table.Notes)
	}
	if !slices.Equal(table.Header, []string{"", "", "a", "b"}) ||
		!slices.Equal(table.Numeric, []bool{false, false, true, true}) {
		t.Errorf("columns %q, numbers in %v", table.Header, table.Numeric)
	}
}

func TestFiguresAreChosenByNameAndGroup(t *testing.T) {
	chosen, err := Choose([]string{"robustness", "decay"})
	if err != nil || len(chosen) != 5 || chosen[0].Name != "decay" {
		t.Errorf("%d figures, %v", len(chosen), err)
	}
	if all, _ := Choose([]string{"all"}); len(all) != len(All) {
		t.Errorf("all are %d of %d", len(all), len(All))
	}
	if _, err := Choose([]string{"decy"}); err == nil ||
		!strings.Contains(err.Error(), `unknown analysis "decy"`) || !strings.Contains(err.Error(), "robustness (") {
		t.Errorf("a figure that does not exist: %v", err)
	}
	const few = "give at least one model and one analysis"
	for _, c := range []struct {
		comparison Comparison
		want       string
	}{
		{Comparison{Models: []Model{{}}}, few}, {Comparison{Analyses: All}, few},
		{Comparison{Models: []Model{{}}, Analyses: All}, "no images"},
		{Comparison{Models: []Model{{}}, Analyses: All, Images: &data.Memory{}}, "no images"},
	} {
		if _, err := c.comparison.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func TestEveryModelIsClosedWhateverBecomesOfItsImages(t *testing.T) {
	gomlxtest.OnGo(t)
	path := trained(t, "learned", 1, nil)
	answers := []struct {
		images *data.Memory
		err    error
	}{{testImages(2), nil}, {nil, errors.New("the disk is gone")}, {&data.Memory{}, nil}}
	var opened []*finetune.Model
	var fingerprints []string
	comparison := Comparison{
		Backend: gomlxtest.Backend(), Models: slices.Repeat([]Model{{Name: "a", Path: path}}, len(answers)),
		Analyses: []Analysis{{Name: "count", do: func(s *subject) error {
			s.measured("images", "", float64(s.Images.Len()))
			return nil
		}}},
		ImagesFor: func(_ context.Context, m *finetune.Model) (*data.Memory, func(int) []bool, error) {
			answer := answers[len(opened)]
			opened, fingerprints = append(opened, m), append(fingerprints, gomlxtest.Must(m.Fingerprint())(t))
			return answer.images, nil, answer.err
		},
	}
	found, err := comparison.Run(t.Context())
	for _, want := range []string{"images for " + path + ": the disk is gone",
		"images for " + path + ": analysis: no images"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if rows := rowsOf(found.Rows, "count", "a"); len(rows) != 1 || rows[0].Value != 2 {
		t.Errorf("%+v, want the two images of the first", rows)
	}
	for i, m := range opened {
		if now, err := m.Fingerprint(); err == nil && now == fingerprints[i] {
			t.Errorf("model %d still has its weights", i)
		}
	}
}

// At each size the images are read again. Sizes are squares: of 12×20 pixels, in
// patches of 4, 16×16 and 32×32.
func TestOtherSizesHaveTheirOwnImages(t *testing.T) {
	gomlxtest.OnGo(t)
	path := trained(t, "learned", 1, nil)
	images := func(m *finetune.Model) *data.Memory {
		if m.Recipe.Model.ImageRows == 32 {
			return testImages(7)
		}
		return testImages(11)
	}
	comparison := Comparison{Backend: gomlxtest.Backend(), Models: []Model{{Name: "a", Path: path}},
		Analyses: gomlxtest.Must(Choose([]string{"resolution"}))(t),
		ImagesFor: func(_ context.Context, m *finetune.Model) (*data.Memory, func(int) []bool, error) {
			return images(m), nil, nil
		}}
	rows := gomlxtest.Must(comparison.Run(t.Context()))(t).Rows
	for side, at := range map[int]string{16: "1 × 1 training size", 32: "2 × 2 training size"} {
		m := gomlxtest.Must(finetune.Opening{Size: [2]int{side, side}}.Open(gomlxtest.Backend(), path))(t)
		want := 100 * float64(gomlxtest.Must(m.Evaluate(images(m)))(t).Top1)
		if got := value(t, rows, "resolution", "a", "top-1 accuracy, %", at); got != want {
			t.Errorf("%s: %g, want %g", at, got, want)
		}
	}
}

func TestAComparisonEndsWithItsContext(t *testing.T) {
	gomlxtest.OnGo(t)
	ctx, cancel := context.WithCancel(t.Context())
	var log strings.Builder
	model := Model{Name: "a", Path: trained(t, "learned", 1, nil)}
	comparison := Comparison{
		Backend: gomlxtest.Backend(), Models: []Model{model, model}, Images: testImages(2),
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Analyses: []Analysis{
			{Name: "first", do: func(s *subject) error {
				cancel()
				s.measured("images", "", 2)
				return nil
			}},
			{Name: "second", do: func(*subject) error {
				t.Error("an analysis begins after the end")
				return nil
			}},
		},
	}
	found, err := comparison.Run(ctx) // returns the finished part
	if !errors.Is(err, context.Canceled) || len(found.Rows) != 1 || found.Rows[0].Value != 2 ||
		len(found.Page.Sections) != 2 {
		t.Errorf("%+v, %v", found, err)
	}
	if strings.Count(log.String(), "msg=first model=a") != 1 || comparison.Pairs != 8000 {
		t.Errorf("%d pairs, logged %s", comparison.Pairs, &log)
	}
	comparison.Models = []Model{{Name: "a", Path: "nowhere"}, {Name: "b", Path: "gone"}}
	if found, err = comparison.Run(t.Context()); err == nil || found != nil ||
		!strings.Contains(err.Error(), "nowhere") || !strings.Contains(err.Error(), "gone") {
		t.Errorf("no model: %+v, %v", found, err)
	}
}

func TestAccuracyNeedsTheClassesOfTheModel(t *testing.T) {
	for _, c := range []struct {
		model, dataset string
		want           string
	}{
		{"a b c", "a d", "finetune: dataset  has 2 classes, the model 3: use a dataset with the model's classes"},
		{"a", "a", "the model has 1 classes, the dataset 1"},
	} {
		m := &finetune.Model{Classes: strings.Fields(c.model)}
		m.Recipe.Model.Classes = len(m.Classes)
		s := &subject{model: m, Images: &data.Memory{Info: data.Info{Classes: strings.Fields(c.dataset)}}}
		if err := s.predicts(); !errors.As(err, new(notApplicable)) || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

func TestAFailedAnalysisAffectsNoOther(t *testing.T) {
	gomlxtest.OnGo(t)
	broken := Analysis{Name: "broken", do: func(*subject) error { return errors.New("the disk is full") }}
	decay := gomlxtest.Must(Choose([]string{"decay"}))(t)
	comparison := Comparison{
		Backend:  gomlxtest.Backend(),
		Models:   []Model{{Name: "gone", Path: "nowhere"}, {Name: "a", Path: trained(t, "learned", 1, nil)}},
		Analyses: append([]Analysis{broken}, decay...),
		Images:   testImages(2),
	}
	found, err := comparison.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "broken of") || !strings.Contains(err.Error(), "nowhere") ||
		found == nil {
		t.Fatalf("%v, found %v", err, found)
	}
	if rows := rowsOf(found.Rows, "broken", "a"); len(rows) != 1 || rows[0].Note != "failed: the disk is full" {
		t.Errorf("%+v", rows)
	}
	if len(rowsOf(found.Rows, "decay", "a")) < 4 {
		t.Error("the other figure is lost")
	}
}

func TestAModelWhoseClassesTieIsWrongAboutAllImages(t *testing.T) {
	gomlxtest.OnGo(t)
	dir := trained(t, "learned", 1, func(r *finetune.Recipe) { r.ZeroHead, r.Freeze = true, "head" })
	bins := 0
	for _, r := range asked(t, "separation", testImages(23), Model{Name: "tie", Path: dir}) {
		if r.Measure == "error rate" && !math.IsNaN(float64(r.Value)) {
			if bins++; r.Value != 1 {
				t.Errorf("error rate %g at %s, want 1", float64(r.Value), r.At)
			}
		}
	}
	if bins == 0 {
		t.Error("no error rates")
	}
}
