// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
)

func runExample() RunPage {
	c := example()
	result := Result{
		Job:  Job{Recipe: "cifar100-small", Dataset: "cifar100-train", Fraction: 0.25, Encoding: "hybrid", Seed: 3},
		Date: "2026-03-01T12:00:00Z", Commit: "0123abcd", Backend: "go", Cores: 7, ImageSize: "32x48", Parameters: 2712345,
		Steps: 20, Epochs: 2.5, WallSeconds: 3725, ImagesPerSecond: 31.25, Command: "cifar100 -seeds 3",
		Validation: Metrics{Loss: 1.375, Top1: 0.625, Top5: 0.9375, Images: 1600},
		Test:       Metrics{Loss: JSONFloat(math.NaN()), Top1: 0.7, Top5: 0.95, Images: 20}}
	evals := history("hybrid", 3, 0.0625, 0.6875, 0.625)
	for i := range evals {
		evals[i].Job, evals[i].Images = result.Job, 1600
	}
	return RunPage{Result: result, Evals: evals, From: "vit-pets", Split: Test, Confusion: &c,
		Data:     []string{"cifar100-train: 50000 images"},
		Settings: map[string]string{"model.width": "192", "epochs": "30"},
		Mistakes: []Figure{{PNG: []byte("not really"), Title: "cat, predicted as ape"}},
		Figures:  []Figure{{Title: "The position field", Caption: "What it holds.", PNG: []byte("nor this")}},
		Notes:    []string{"something is missing"}}
}

// rendered returns the page and its texts; it fails on unclosed elements.
func rendered(t *testing.T, p interface{ HTML(io.Writer) error }) (document string, texts []string) {
	t.Helper()
	var out bytes.Buffer
	gomlxtest.NoError(t, p.HTML(&out))
	decoder := xml.NewDecoder(strings.NewReader(out.String()))
	decoder.Strict, decoder.AutoClose = false, xml.HTMLAutoClose // HTML does not close meta and img
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return out.String(), texts
		}
		if err != nil {
			t.Fatalf("not well formed: %v in %.300q", err, out.String())
		}
		if token, ok := token.(xml.CharData); ok {
			if text := strings.TrimSpace(string(token)); text != "" {
				texts = append(texts, text)
			}
		}
	}
}

// The page needs no network, shows its figures, and no rows of other runs.
func TestRunPage(t *testing.T) {
	document, texts := rendered(t, runExample())
	for _, want := range []string{"25 %", "2,712,345", "20 (2.5 epochs)", "1h2m5s, 31.2 images/s", "best, step 10",
		"validation top-1 62.50 %, top-5 93.75 %, loss 1.3750", "model.width", "vit-pets: cifar100-small on cifar100-train"} {
		is.Equal(t, "the page has "+want, slices.Contains(texts, want), true)
	}
	for _, content := range []string{"not really", "nor this"} {
		source := `src="data:image/png;base64,` + base64.StdEncoding.EncodeToString([]byte(content)) + `"`
		is.Equal(t, "the page has the figure "+content, strings.Contains(document, source), true)
	}
	images := regexp.MustCompile(`data:image/png;base64,[^"]*`)
	document = images.ReplaceAllString(document, "")
	outside := regexp.MustCompile(`https?:|//|<script|<link|@import|url\(|javascript:`)
	is.Equal(t, "what the page loads", outside.FindString(document), "")
	p := runExample()
	p.Evals = append(history("wepe", 1, 0.9, 0.95), p.Evals...)
	with, _ := rendered(t, p)
	is.Equal(t, "the page with rows of another encoding", images.ReplaceAllString(with, ""), document)
}

// Every string of a page is hostile; none must become markup, and all must be readable.
func TestPage_EscapesItsFields(t *testing.T) {
	const hostile = `</td></style><script>alert("1")</script><img src=x onerror='alert(2)'>&copy;]]>`
	var given []string
	evil := func(name string) string {
		given = append(given, hostile+name)
		return hostile + name
	}
	table := func(name string) (t Table) {
		t.Header, t.TextColumns = []string{evil(name + " header")}, 1
		t.Rows, t.Notes = [][]string{{evil(name + " cell")}}, []string{evil(name + " note")}
		return t
	}
	figure := func(name string) []Figure { return []Figure{{Title: evil(name), Caption: evil(name + " caption")}} }
	p := Page{Title: evil("title"), Lines: []string{evil("line")}, Failed: evil("failed"),
		Sections: []Section{{Title: evil("section"), Text: []string{evil("text")},
			Code: evil("code"), Table: table("table"), Images: figure("image"), Columns: [][]Figure{figure("column")}}}}
	document, texts := rendered(t, p)
	for _, markup := range []string{"<script", "<img src=x", "&copy;"} {
		if at := strings.Index(document, markup); at >= 0 {
			t.Errorf("%s became markup: %.80q", markup, document[max(0, at-40):])
		}
	}
	all := strings.Join(texts, "\n")
	for _, text := range given {
		is.Equal(t, "the page shows "+text, strings.Contains(all, text), true)
	}
}

func TestRunPage_Results(t *testing.T) {
	at := func(step int, top1 JSONFloat, images int) Eval {
		return Eval{Step: step, Split: Validation, Metrics: Metrics{Top1: top1, Top5: 1, Images: images}}
	}
	r := RunPage{Result: Result{Steps: 30, Validation: Metrics{Top1: 0.5, Top5: 1, Images: 1},
		Test: Metrics{Top1: 0.25, Top5: 1, Images: 1}},
		Evals: []Eval{at(0, 0.125, 1), at(10, 0.75, 1), at(20, 1, 0), at(30, 0.75, 1)}}
	before, best, test := "validation before the first step 12.50 0.000 1", "validation best, step 10 75.00 0.000 1",
		"test last 25.00 0.000 1"
	for name, c := range map[string]struct {
		change func(*RunPage)
		want   []string
	}{
		// An evaluation without images is none; the first of equals is the best; top-5 of 100 % is left out.
		"last weights": {func(*RunPage) {}, []string{before, best, "validation last 50.00 0.000 1", test}},
		"best is last": {func(r *RunPage) { r.Result.Steps = 10 }, []string{before, "validation last 50.00 0.000 1", test}},
		"best weights": {func(r *RunPage) { r.Result.Weights, r.Result.Test = Weights{"best", 10}, Metrics{} },
			[]string{before, "validation best, step 10 50.00 0.000 1"}},
		"not evaluated before": {func(r *RunPage) { r.Evals = nil }, []string{"validation last 50.00 0.000 1", test}},
		"a top-5": {func(r *RunPage) { r.Evals, r.Result.Test.Top5 = nil, 0.875 }, []string{
			"validation last 50.00 100.00 0.000 1", "test last 25.00 87.50 0.000 1"}},
		"no images": {func(r *RunPage) { r.Evals, r.Result = nil, Result{} }, nil},
	} {
		r := r
		c.change(&r)
		var got []string
		for _, row := range r.results().Rows {
			got = append(got, strings.Join(row, " "))
		}
		is.Equal(t, name, got, c.want)
	}
}

func TestPage_AnErrorLeavesNoPartialPage(t *testing.T) {
	var out bytes.Buffer
	if err := (RunPage{Evals: []Eval{{Split: "train"}}}).HTML(&out); err == nil || out.Len() > 0 {
		t.Errorf("rows of neither split: %v, %d bytes", err, out.Len())
	}
	c := example()
	reader, disk := io.Pipe()
	_ = reader.Close() // no byte can be written
	for name, draw := range map[string]func(io.Writer) error{"page": runExample().HTML, "png": c.draw} {
		if err := draw(disk); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line", name, err)
		}
	}
}

// example has five classes of unequal size, the last without images.
func example() Confusion {
	return Confusion{Classes: strings.Fields("ape bee cat dog elk"), Counts: [][]int{
		{6, 0, 2, 0, 0}, // 8
		{0, 3, 0, 1, 0}, // 4
		{2, 0, 1, 0, 1}, // 4
		{0, 0, 0, 4, 0}, // 4
		{0, 0, 0, 0, 0},
	}}
}

func TestConfusion_MistakesAreOrderedByImagesThenShare(t *testing.T) {
	want := [][]string{{"cat", "ape", "2", "50.0"}, {"ape", "cat", "2", "25.0"}, {"bee", "dog", "1", "25.0"},
		{"cat", "elk", "1", "25.0"}}
	for k := 1; k < 6; k++ {
		is.Equal(t, "mistakes", example().mistakes(k).Rows, want[:min(k, 4)])
	}
}

func TestConfusion_WorstStartsWithTheLowestF1(t *testing.T) {
	want := [][]string{{"cat", "ape", "4", "33.3", "25.0", "28.6"}, {"ape", "cat", "8", "75.0", "75.0", "75.0"},
		{"bee", "dog", "4", "100.0", "75.0", "85.7"}, {"dog", "–", "4", "80.0", "100.0", "88.9"}}
	for _, k := range []int{2, 9} {
		is.Equal(t, "worst", example().Worst(k).Rows, want[:min(k, 4)])
	}
	c := example()
	c.Worst(4)
	is.Equal(t, "the counts afterwards", c, example())
	never := Confusion{Classes: []string{"ant", "bug"}, Counts: [][]int{{0, 1}, {0, 3}}}.Worst(1) // ant is never predicted
	is.Equal(t, "worst", never.Rows, [][]string{{"ant", "bug", "1", "–", "0.0", "0.0"}})
}

// With its diagonal, each row of one scale; of a class without images nothing is known.
func TestConfusion_MapHasAllSharesOfEachClass(t *testing.T) {
	h := example().heatMap()
	nan := math.NaN()
	want := [][]float64{{.75, 0, .25, 0, 0}, {0, .75, 0, .25, 0}, {.5, 0, .25, 0, .25}, {0, 0, 0, 1, 0},
		slices.Repeat([]float64{nan}, 5)}
	is.Equal(t, "shares", fmt.Sprint(h.Values), fmt.Sprint(want))
	is.Equal(t, "limit", h.Limit, 1)
}

// The numbers are scikit-learn's classification_report by hand: a found 3 of 4, b 1 of 3 with a's one miss, c none.
func TestConfusion_ScoresArePrecisionRecallAndF1(t *testing.T) {
	nan := math.NaN()
	c := Confusion{Classes: []string{"a", "b", "c", "d"},
		Counts: [][]int{{3, 1, 0, 0}, {2, 1, 0, 0}, {0, 2, 0, 0}, {0, 0, 0, 0}}}
	want := [][3]float64{{3. / 5, 3. / 4, 2. / 3}, {1. / 4, 1. / 3, 2. / 7}, {nan, 0, 0}, {nan, nan, nan}}
	for i, s := range c.Scores() {
		for k, got := range []JSONFloat{s.Precision, s.Recall, s.F1} {
			if w := want[i][k]; math.IsNaN(w) != math.IsNaN(float64(got)) || math.Abs(float64(got)-w) > 1e-15 {
				t.Errorf("class %s: score %d is %v, want %v", s.Class, k, got, w)
			}
		}
	}
	if got := float64(c.MacroF1()); !(math.Abs(got-(2./3+2./7)/3) <= 1e-15) {
		t.Errorf("macro F1 %v", got)
	}
	right := Confusion{Classes: []string{"a", "b"}, Counts: [][]int{{1, 0}, {0, 1}}}
	is.Equal(t, "macro F1 of one right image for each class", right.MacroF1(), 1)
}
