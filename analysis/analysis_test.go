// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/vit"
)

// testImages returns images of 12×20 pixels in 3 classes; a class is a colour behind noise.
func testImages(n int) *data.InMemory {
	r := rand.New(rand.NewPCG(5, 0))
	s := &data.InMemory{
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
	gomlxtest.NoError(t, err)
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

// applies requires rows of an analysis of a model, or one with the reason if it does not apply to it.
func applies(t *testing.T, rows []Row, figure, model string, does bool) {
	t.Helper()
	of := rowsOf(rows, figure, model)
	if len(of) == 0 || (of[0].Note == "") != does || !does && len(of) > 1 {
		t.Errorf("%s of %s: %+v", figure, model, of)
	}
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

// Models without vectors, without attention to read, and of two seeds; images of which each has an object.
func TestComparison_EveryAnalysisMeasuresEveryModelOrGivesTheReason(t *testing.T) {
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
	comparison := Comparison{
		Backend: gomlxtest.Backend(), Models: models, Analyses: All, Pairs: 200, Seed: 3,
		Images: Same(testImages(23), func(i int) []bool {
			return append(slices.Repeat([]bool{true}, 60+i), make([]bool, 12*20-60-i)...)
		}),
	}
	found, page, err := comparison.Run(t.Context())
	gomlxtest.NoError(t, err)
	for _, f := range All {
		for _, m := range models {
			rows := rowsOf(found, f.Name, m.Name)
			measured := len(rows) > 0 && (m.Name != "wepe" || rows[0].Note == "") // all apply to it
			is.Equal(t, f.Name+" of "+m.Name, measured, true)
			for _, r := range rows {
				if (r.Measure == "") == (r.Note == "") {
					t.Errorf("%s of %s: a row with measure %q and note %q", f.Name, m.Name, r.Measure, r.Note)
				}
			}
		}
	}
	for figure, model := range map[string]string{"similarity": "rope-axial", "decay": "none", "masks": "dhvt",
		"entropy": "dhvt", "sensitivity": "none", "occlusion": "wepe at start"} {
		applies(t, found, figure, model, false)
	}
	for _, r := range found {
		if r.Measure == "retained accuracy, %" && r.Model != "learned" { // two models have that name
			whole := value(t, found, r.Analysis, r.Model, "top-1 accuracy, %", "original images")
			left := value(t, found, r.Analysis, r.Model, "top-1 accuracy, %", r.At)
			is.Near(t, r.Model+r.At, float64(r.Value), 100*left/whole, 1e-9)
		}
	}
	// Both seeds of a column would have the same probe without positions, so only the first has it.
	is.Equal(t, "rows of the probe of two seeds", len(rowsOf(found, "probe", "learned")), 1+6+6)
	for name, want := range map[string]int{"none": 0, "learned": 8, "wepe": 4} { // all but the first are compared with it
		compared := 0
		for _, r := range rowsOf(found, "masks", name) {
			if strings.HasPrefix(r.At, "p of") {
				compared++
			}
		}
		is.Equal(t, "measures compared with the first model's masks", compared, want)
	}
	// A bag of patches has no positions to lose, and the training size is the same size.
	const top1 = "top-1 accuracy, %"
	is.Equal(t, "without positions", value(t, found, "shuffle", "none", top1, "patches shuffled"),
		value(t, found, "shuffle", "none", top1, "original images"))
	for _, m := range models[:5] {
		if a, b := value(t, found, "occlusion", m.Name, top1, "original images"),
			value(t, found, "resolution", m.Name, top1, "1 × 1 training size, 12x20"); a != b || a == 100 || a == 0 {
			t.Errorf("%s: %g %% at its size, %g %% as measured elsewhere", m.Name, a, b)
		}
	}
	for i, section := range page.Sections { // of two models of one name the first is shown
		if columns := section.Columns; All[i].Group == robustness && All[i].Name != "resolution" &&
			(len(columns) != 6 || len(columns[1]) != 1) {
			t.Errorf("%s: columns %v", section.Title, columns)
		}
	}
	gomlxtest.NoError(t, page.HTML(io.Discard))
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	gomlxtest.NoError(t, Write(path, found))
	read := gomlxtest.Must(Read(path))(t)
	is.Equal(t, "rows that are read", len(read), len(found))
	is.Equal(t, "commit", []any{read[0].Commit, read[0].Commit == ""}, []any{report.Commit(), false})
}

func TestTable_HasMeansRangesAndUndefinedValues(t *testing.T) {
	nan := report.JSONFloat(undefined)
	var rows []Row
	for _, v := range []report.JSONFloat{2, 4, nan} {
		rows = append(rows, Row{Analysis: "decay", Model: "a", Measure: "n", Value: v})
	}
	rows = append(rows, Row{Analysis: "decay", Model: "b", Measure: "n", Value: 0.5},
		Row{Analysis: "decay", Model: "a", Measure: "ρ", Value: nan},
		Row{Analysis: "decay", Model: "b", Measure: "m", Value: 1234.5},
		Row{Analysis: "decay", Model: "a", Measure: "hidden", Value: 1, Detail: true},
		Row{Analysis: "other", Model: "c", Measure: "n"}, Row{Analysis: "decay", Model: "c", Value: nan, Note: "why"})
	table := Table(rows, "decay")
	is.Equal(t, "rows", table.Rows, [][]string{{"n", "", "3.00 (2.00 … 4.00), 1 undefined", "0.500"},
		{"ρ", "", "undefined", "–"}, {"m", "", "–", "1234"}})
	is.Equal(t, "notes and columns of text", [2]int{len(table.Notes), table.TextColumns}, [2]int{1, 2})
	is.Equal(t, "columns", table.Header, []string{"", "", "a", "b"})
	for v, want := range map[float64]string{0: "0", 99.94: "99.9", 0.01: "0.010", 0.00123: "0.0012", -12.34: "-12.3"} {
		is.Equal(t, fmt.Sprint(v), number(v), want)
	}
}

func TestChoose_NamesAndGroups(t *testing.T) {
	for what, want := range map[string]int{"robustness decay": 5, "all": len(All), "decay": 1, "decy": 0} {
		chosen, err := Choose(strings.Fields(what))
		if len(chosen) != want || (err == nil) != (want > 0) || want == 5 && chosen[0].Name != "decay" {
			t.Errorf("%s: %d analyses, %v", what, len(chosen), err)
		}
	}
	for _, c := range []Comparison{{Models: []Model{{}}}, {Analyses: All}} {
		_, _, err := c.Run(t.Context())
		is.Equal(t, "a comparison of nothing", err == nil, false)
	}
}

// The images of the second model cannot be read, the third has none, the fourth does not exist; an analysis of the
// first fails, and the context ends with the fifth.
func TestComparison_FailuresAffectNoOther(t *testing.T) {
	gomlxtest.OnGo(t)
	path, gone, full := trained(t, "learned", 1, nil), errors.New("the disk is gone"), errors.New("the disk is full")
	answers := []struct {
		images *data.InMemory
		err    error
	}{{testImages(2), nil}, {nil, gone}, {&data.InMemory{}, nil}, {testImages(3), nil}}
	var opened []*finetune.Model
	var fingerprints []string
	ctx, cancel := context.WithCancel(t.Context())
	models := slices.Repeat([]Model{{Name: "a", Path: path}}, 6)
	models[3].Path = filepath.Join(path, "nowhere")
	comparison := Comparison{
		Backend: gomlxtest.Backend(), Models: models,
		Analyses: []Analysis{
			{Name: "broken", do: func(s *subject) error {
				if s.Images.Len() == 3 {
					cancel()
				}
				return full
			}},
			{Name: "count", do: func(s *subject) error {
				s.measured("images", "", float64(s.Images.Len()))
				return nil
			}},
		},
		Images: func(_ context.Context, m *finetune.Model) (*data.InMemory, func(int) []bool, error) {
			answer := answers[len(opened)]
			opened, fingerprints = append(opened, m), append(fingerprints, gomlxtest.Must(m.Fingerprint())(t))
			return answer.images, nil, answer.err
		},
	}
	found, page, err := comparison.Run(ctx)
	for _, want := range []error{gone, full, fs.ErrNotExist, context.Canceled} {
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if rows := rowsOf(found, "count", "a"); len(rows) != 1 || rows[0].Value != 2 || len(page.Sections) != 2 {
		t.Errorf("%+v, want the two images of the first", rows)
	}
	if rows := rowsOf(found, "broken", "a"); len(rows) != 2 || rows[0].Note == "" {
		t.Errorf("%+v", rows)
	}
	for i, m := range opened {
		now, err := m.Fingerprint()
		is.Equal(t, fmt.Sprintf("model %d still has its weights", i), err == nil && now == fingerprints[i], false)
	}
	comparison.Models = models[3:4]
	if found, _, err = comparison.Run(t.Context()); err == nil || found != nil || comparison.Pairs != 8000 {
		t.Errorf("no model: %+v, %v", found, err)
	}
}
