// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func pageExample() Page {
	c := example()
	result := Result{
		Job:  Job{Recipe: "cifar100-small", Dataset: "cifar100-train", Fraction: 0.25, Encoding: "hybrid", Seed: 3},
		Date: "2026-03-01T12:00:00Z", Commit: "0123abcd", Backend: "go", Cores: 7, ImageSize: "32x48", Parameters: 2712345,
		Steps: 20, Epochs: 2.5, WallSeconds: 3725, ImagesPerSecond: 31.25, Command: "cifar100 -seeds 3",
		Validation: Metrics{Loss: 1.375, Top1: 0.625, Top5: 0.9375, Images: 1600},
		Test:       Metrics{Loss: Number(math.NaN()), Top1: 0.7, Top5: 0.95, Images: 20}}
	evals := withScalars("hybrid", map[string]func(int) float64{"lambda": func(step int) float64 { return 0.125 }})
	for i, top1 := range []Number{0.0625, 0.6875, 0.625} {
		evals[i].Job, evals[i].Top1, evals[i].Images = result.Job, top1, 1600
	}
	return Page{Result: result, Evals: evals, Start: "fine-tuned from a checkpoint", Split: Test, Confusion: &c,
		Data:     []string{"cifar100-train: 50000 images"},
		Settings: map[string]string{"model.width": "192", "epochs": "30"},
		Mistakes: []Mistake{{Image: []byte("not really"), Class: "cat", Predicted: "ape", Probability: 0.978}},
		Figures:  []Figure{{Title: "The position field", Caption: "What it holds.", PNG: []byte("nor this")}},
		Notes:    []string{"something is missing"}}
}

func rendered(t *testing.T, p Page) string {
	t.Helper()
	var out bytes.Buffer
	if err := p.HTML(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestPageShowsTheRunAndItsResults(t *testing.T) {
	document := rendered(t, pageExample())
	texts := wellFormed(t, document)
	for _, want := range []string{
		"cifar100-small on cifar100-train", "hybrid", "25 %", "32x48", "2,712,345", "20 (2.5 epochs)", "0123abcd",
		"cifar100 -seeds 3", "1h2m5s", "31.2 images/s on go", "cifar100-train: 50000 images", "something is missing",
		"6.25 →", "62.50", "+56.25 points in 20 steps", "5 classes: chance is 20.0 %",
		"before the first step", "6.25", "best, step 10", "68.75", "93.75", "1.375", "1,600",
		"70.00", "95.00", "–", // of the test split, whose loss is not finite
		"cat", "50.0", "(98\u00a0%), is", "The position field", "What it holds.", "model.width", "192",
	} {
		if !slices.Contains(texts, want) {
			t.Errorf("no text %q", want)
		}
	}
	for _, content := range []string{"not really", "nor this"} {
		if want := "data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte(content)); !strings.Contains(
			document, `src="`+want+`"`) {
			t.Errorf("no figure %q", content)
		}
	}
}

// The page is HTML by hand.
func TestAPageHasWhatItsFieldsHave(t *testing.T) {
	p := pageExample()
	img := func(alt string, content []byte) string {
		return `<img src="data:image/png;base64,` + base64.StdEncoding.EncodeToString(content) + `" alt="` + alt + `">`
	}
	card := func(alt, caption string, draw func(io.Writer) error) string {
		return `<figure class="card bitmap">` + img(alt, gomlxtest.Must(NewFigure("", "", draw))(t).PNG) +
			`<figcaption>` + caption + `</figcaption></figure>`
	}
	named := func(pairs ...string) (out string) {
		for pair := range slices.Chunk(pairs, 2) {
			out += `<div><dt>` + pair[0] + `</dt><dd>` + pair[1] + `</dd></div>`
		}
		return out
	}
	table := func(numeric string, lines ...string) string { // numeric has an n for each column of numbers
		row := func(line, tag string) (out string) {
			for i, text := range strings.Split(line, "|") {
				out += `<` + tag + map[byte]string{'n': ` class="right"`}[numeric[i]] + `>` + text + `</` + tag + `>`
			}
			return `<tr>` + out + `</tr>`
		}
		out := `<div class="scroll"><table><thead>` + row(lines[0], "th") + `</thead><tbody>`
		for _, line := range lines[1:] {
			out += row(line, "td")
		}
		return out + `</tbody></table></div>`
	}
	want := strings.Join([]string{
		`<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" `,
		`content="width=device-width, initial-scale=1"><meta http-equiv="Content-Security-Policy" `,
		`content="default-src &#39;none&#39;; style-src &#39;unsafe-inline&#39;; img-src data:">`,
		`<title>cifar100-small on cifar100-train: hybrid, seed 3</title><style>`, style, `</style></head><body>`,
		`<header><h1>cifar100-small on cifar100-train</h1><p class="quiet">position encoding <b>hybrid</b>, seed 3, `,
		`fine-tuned from a checkpoint</p></header>`,
		`<div class="tiles"><div class="tile"><div class="quiet">top-1 accuracy, test</div><div class="number"><b>70.00`,
		`</b> %</div><div class="quiet">5 classes: chance is 20.0 %</div></div>`,
		`<div class="tile"><div class="quiet">top-1 accuracy, validation</div><div class="number"><span class="quiet">`,
		`6.25 → </span><b>62.50</b> %</div><div class="quiet">+56.25 points in 20 steps</div></div>`,
		`<div class="tile"><div class="quiet">time</div><div class="number"><b>1h2m5s</b></div>`,
		`<div class="quiet">31.2 images/s on go</div></div></div>`,
		`<h2>Run</h2><div class="card"><dl>`,
		named("recipe", "cifar100-small", "position encoding", "hybrid", "seed", "3", "data", "cifar100-train",
			"share of the training images", "25 %", "image size", "32x48", "parameters", "2,712,345", "steps",
			"20 (2.5 epochs)", "backend", "go", "cores", "7", "ended", "2026-03-01T12:00:00Z", "commit", "0123abcd"),
		`</dl><dl class="wide">`,
		named("datasets", "cifar100-train: 50000 images", "command", "<code>cifar100 -seeds 3</code>"), `</dl></div>`,
		`<h2>Results</h2><div class="card">`,
		table("ttnnnn", "split|weights|top-1 %|top-5 %|loss|images",
			"validation|before the first step|6.25|0.00|2.900|1,600", "validation|best, step 10|68.75|0.00|2.600|1,600",
			"validation|last|62.50|93.75|1.375|1,600", "test|last|70.00|95.00|–|20"), `</div>`,
		`<h2>Training</h2>`, card("loss and accuracy", "Loss in nats per image and top-1 accuracy on the validation split. "+
			"Dashed: training loss, with the augmentation and label smoothing of the recipe.",
			func(w io.Writer) error { return Curves(w, "", p.Evals) }),
		`<h2>Learned scalars of the encoding</h2>`, card("learned scalars", "Scalars of the position encoding over the "+
			"steps, after softplus or another constraint.", func(w io.Writer) error { return Scalars(w, p.Evals) }),
		`<h2>Errors on the test split</h2>`, card("confusion matrix", "Percentage of the images of each class, in its "+
			"row, that were predicted as each other class. Recall is next to the name; the diagonal is left out.",
			p.Confusion.draw),
		`<div class="pair"><div class="card"><h3>Most confused</h3>`,
		table("ttnn", "class|predicted|images|% of class", "cat|ape|2|50.0", "ape|cat|2|25.0", "bee|dog|1|25.0",
			"cat|elk|1|25.0"),
		`</div><div class="card"><h3>Lowest F1</h3>`,
		table("tnnnnt", "class|images|precision %|recall %|F1 %|mistaken for", "cat|4|33.3|25.0|28.6|ape",
			"ape|8|75.0|75.0|75.0|cat", "bee|4|100.0|75.0|85.7|dog", "dog|4|80.0|100.0|88.9|–"), `</div></div>`,
		`<h2>Misclassified images of highest confidence</h2><div class="card mistakes"><figure>`,
		img("cat, predicted as ape", []byte("not really")), "predicted <b>ape</b> (98\u00a0%), is <b>cat</b></figure></div>",
		`<h2>The position field</h2><figure class="card bitmap">`, img("The position field", []byte("nor this")),
		`<figcaption>What it holds.</figcaption></figure>`,
		`<h2>Settings</h2><div class="card settings"><div><code>epochs</code><code>30</code></div>`,
		`<div><code>model.width</code><code>192</code></div></div><h2>Notes</h2><p>something is missing</p></body></html>`,
	}, "")
	if got := rendered(t, p); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPageHasNoNetworkRequestsAndNoScript(t *testing.T) {
	document := regexp.MustCompile(`data:image/png;base64,[^"]*`).ReplaceAllString(rendered(t, pageExample()), "")
	for _, bad := range []string{"http:", "https:", "//", "<script", "<link", "@import", "url(", "javascript:"} {
		if at := strings.Index(document, bad); at >= 0 {
			t.Errorf("the page has %q: %.80q", bad, document[max(0, at-30):])
		}
	}
}

// Every string of a page is hostile; none must become markup, and all must be readable.
func TestPageEscapesItsFields(t *testing.T) {
	const hostile = `</td></style><script>alert("1")</script><img src=x onerror='alert(2)'>&copy;]]>`
	p := pageExample()
	var given []string
	evil := func(name string) string {
		given = append(given, hostile+name)
		return hostile + name
	}
	p.Result.Job = Job{Recipe: evil("recipe"), Dataset: evil("data set"), Encoding: evil("encoding"), Fraction: 1}
	p.Result.Date, p.Result.Commit, p.Result.Backend = evil("date"), evil("commit"), evil("backend")
	p.Result.ImageSize, p.Result.Command, p.Result.Failed = evil("size"), evil("command"), evil("failed")
	p.Start, p.Split, p.Data, p.Notes = evil("start"), evil("split"), []string{evil("data")}, []string{evil("note")}
	p.Settings = map[string]string{evil("setting"): evil("value")}
	for i := range p.Evals {
		p.Evals[i].Job = p.Result.Job
	}
	p.Confusion.Classes = []string{evil("ape"), hostile, evil("cat"), hostile, hostile}
	p.Mistakes[0].Class, p.Mistakes[0].Predicted = evil("mistake"), evil("answer")
	p.Figures[0].Title, p.Figures[0].Caption = evil("title"), evil("caption")

	document := rendered(t, p)
	for _, markup := range []string{"<script", "<img src=x", "&copy;"} {
		if at := strings.Index(document, markup); at >= 0 {
			t.Errorf("%s became markup: %.80q", markup, document[max(0, at-40):])
		}
	}
	all := strings.Join(wellFormed(t, document), "\n")
	for _, text := range given {
		if !strings.Contains(all, text) {
			t.Errorf("%q cannot be read in the page", text)
		}
	}
}

func TestPageOfAFailedRunWithoutRowsShowsTheKnownFields(t *testing.T) {
	document := rendered(t, Page{Result: Result{Job: Job{Recipe: "shapes", Dataset: "shapes", Encoding: "none"},
		Failed: "the loss became NaN"}})
	_, got, _ := strings.Cut(document, "<body>")
	want := `<header><h1>shapes on shapes</h1><p class="quiet">position encoding <b>none</b>, seed 0, from scratch</p>` +
		`<p class="failed">The run failed: the loss became NaN</p></header><h2>Run</h2><div class="card"><dl>`
	for _, f := range [][2]string{{"recipe", "shapes"}, {"position encoding", "none"}, {"seed", "0"}, {"data", "shapes"},
		{"steps", "0 (0 epochs)"}} {
		want += `<div><dt>` + f[0] + `</dt><dd>` + f[1] + `</dd></div>`
	}
	if want += `</dl><dl class="wide"></dl></div></body></html>`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPageWithoutARowBeforeTheFirstStepShowsTheSource(t *testing.T) {
	p := pageExample()
	p.Evals = p.Evals[1:]
	texts := wellFormed(t, rendered(t, p))
	if !slices.Contains(texts, ", seed 3, fine-tuned from a checkpoint") || slices.Contains(texts,
		"before the first step") {
		t.Errorf("got %q", texts)
	}
	p.Evals[1].Top1, p.Result.Steps = p.Evals[0].Top1, 30 // as good as the first
	if _, table := p.results(); table.Rows[0][1] != "best, step 10" {
		t.Errorf("got %q", table.Rows)
	}
	p.Result.Weights = Weights{Name: "best", Step: 10} // whose validation metrics are the result's
	if _, table := p.results(); len(table.Rows) != 2 || table.Rows[0][1] != "best, step 10" {
		t.Errorf("got %q", table.Rows)
	}
}

// An evaluation without images is none.
func TestAResultOfOneImageIsShown(t *testing.T) {
	at := func(step int, top1 Number, images int) Eval {
		return Eval{Step: step, Split: Validation, Metrics: Metrics{Top1: top1, Images: images}}
	}
	p := Page{Result: Result{Steps: 30, Validation: Metrics{Top1: 0.5, Images: 1}, Test: Metrics{Top1: 0.25, Images: 1}},
		Evals: []Eval{at(0, 0.125, 1), at(10, 0.75, 1), at(20, 1, 0)}}
	tiles, table := p.results()
	var lines []string
	for _, row := range table.Rows {
		lines = append(lines, strings.Join(row[:3], " "))
	}
	for _, tile := range tiles {
		lines = append(lines, tile.Before+" "+tile.After+" "+tile.Note)
	}
	if want := []string{"validation before the first step 12.50", "validation best, step 10 75.00",
		"validation last 50.00", "test last 25.00", " 25.00 ", "12.50 50.00 +37.50 points in 30 steps",
	}; !slices.Equal(lines, want) {
		t.Errorf("got %q, want %q", lines, want)
	}
	// The best step is in the last line already.
	for steps, weights := range map[int]Weights{10: {}, 30: {Name: "best", Step: 10}} {
		p.Result.Steps, p.Result.Weights = steps, weights
		if _, table := p.results(); len(table.Rows) != 3 {
			t.Errorf("%d steps, weights %v: %q", steps, weights, table.Rows)
		}
	}
}

func TestFactsWithoutAValueAreLeftOut(t *testing.T) {
	for seed, want := range map[int64]string{0: "0", 23: "23", -17: "-17"} {
		got := Page{Result: Result{Job: Job{Recipe: "r", Seed: seed}}}.facts()
		if all := []fact{{"recipe", "r"}, {"seed", want}, {"steps", "0 (0 epochs)"}}; !slices.Equal(got, all) {
			t.Errorf("seed %d: facts %v, want %v", seed, got, all)
		}
	}
	for perSecond, want := range map[float64]string{3384.6: "3,385", 100.4: "100", 99.94: "99.9", 3.384: "3.38"} {
		if got := rate(perSecond); got != want {
			t.Errorf("%g images per second are written %q, want %q", perSecond, got, want)
		}
	}
}

func TestAPageThatCannotBeDrawnIsAnErrorAndEmpty(t *testing.T) {
	var out bytes.Buffer
	err := Page{Evals: []Eval{{Split: "train"}}}.HTML(&out)
	if err == nil || !strings.Contains(err.Error(), "no rows of split") || out.Len() > 0 {
		t.Errorf("rows of neither split: %v, %d bytes", err, out.Len())
	}
}

func TestPageHasNoShareOfAllImagesAndNoTileWithoutANumber(t *testing.T) {
	p := pageExample()
	p.Result.WallSeconds = 0.54
	var tiles []string
	all, _ := p.results()
	for _, t := range all {
		tiles = append(tiles, t.Name+" "+t.After+t.Unit)
	}
	if got := strings.Join(tiles, ", "); got !=
		"top-1 accuracy, test 70.00%, top-1 accuracy, validation 62.50%, time 500ms" {
		t.Errorf("tiles %s", got)
	}
	p.Result.Validation, p.Result.Test, p.Result.WallSeconds = Metrics{}, Metrics{}, 0
	for share, want := range map[float64]string{0: "", 1: "", 0.125: "12.5 %"} {
		p.Result.Fraction = share
		for _, f := range p.facts() {
			if f.Name == "share of the training images" && f.Value != want {
				t.Errorf("a share of %g is written %q", share, f.Value)
			}
		}
	}
	none, table := p.results()
	if len(none) != 0 || len(table.Rows) != 2 || strings.Contains(rendered(t, p), `class="tiles"`) {
		t.Errorf("without images at the end: %+v, %+v", none, table.Rows)
	}
	for i := range p.Evals {
		p.Evals[i].Scalars, p.Evals[i].Job = nil, p.Result.Job
	}
	if texts := wellFormed(t, rendered(t, p)); slices.Contains(texts, "Learned scalars of the encoding") ||
		!slices.Contains(texts, "Training") {
		t.Errorf("without scalars: %q", texts)
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", -123456: "-123,456",
		-1234: "-1,234", 1234567: "1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("%d is written %q", n, got)
		}
	}
}

// The page is HTML by hand.
func TestAComparisonHasWhatItsSectionsHave(t *testing.T) {
	table := Table{Header: []string{"name", "n"}, Numeric: []bool{false, true}, Rows: [][]string{{"a", "7"}},
		Notes: []string{"of the table"}}
	figure := func(name string) Figure { return Figure{name, "about " + name, []byte(name)} }
	c := Comparison{Title: "two", Lines: []string{"a line"}, Sections: []Section{{Title: "full",
		Text: []string{"in words"}, Table: table, Images: []Figure{figure("small")}, Shared: []Figure{figure("shared")},
		Columns: [][]Figure{{figure("left")}, {figure("right"), figure("below")}}}, {Title: "bare"}}}
	var out bytes.Buffer
	if err := c.HTML(&out); err != nil {
		t.Fatal(err)
	}
	head, got, _ := strings.Cut(out.String(), "<body>")
	if !strings.Contains(head, "<title>two</title><style>"+style+wide+"</style>") {
		t.Errorf("the page begins with %s", head)
	}
	img := func(name string) string {
		return `<img src="data:image/png;base64,` + base64.StdEncoding.EncodeToString([]byte(name)) + `" alt="` + name + `">`
	}
	card := func(name, before string) string {
		return `<figure class="card bitmap">` + img(name) + `<figcaption>` + before + `about ` + name +
			`</figcaption></figure>`
	}
	of := func(name string) string { return card(name, "<b>"+name+"</b> ") }
	want := `<header><h1>two</h1><p class="quiet">a line</p><nav><a href="#s0">full</a>
<a href="#s1">bare</a>
</nav></header><h2 id="s0">full</h2><p>in words</p><div class="card"><div class="scroll"><table><thead><tr>` +
		`<th>name</th><th class="right">n</th></tr></thead><tbody><tr><td>a</td><td class="right">7</td></tr></tbody>` +
		`</table></div></div>` +
		`<p class="quiet">of the table</p><div class="card mistakes"><figure>` + img("small") +
		`<b>small</b> about small</figure></div>` + card("shared", "") + `<div class="columns"><div>` + of("left") +
		`</div><div>` + of("right") + of("below") + `</div></div><h2 id="s1">bare</h2></body></html>`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPageLeavesOutRowsOfOtherJobs(t *testing.T) {
	p := pageExample()
	others := history("wepe", 1, 0.9, 0.95)
	if got, want := rendered(t, Page{Result: p.Result, Evals: append(others, p.Evals...)}),
		rendered(t, Page{Result: p.Result, Evals: p.Evals}); got != want {
		t.Error("rows of another encoding changed the page")
	}
}

// shortDisk is a disk that is full after some bytes.
type shortDisk int

func (s *shortDisk) Write(p []byte) (int, error) {
	if *s -= shortDisk(len(p)); *s < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

func TestWriteErrorsAreReturnedInOneLine(t *testing.T) {
	c := example()
	for name, draw := range map[string]func(io.Writer) error{
		"page":       func(w io.Writer) error { return pageExample().HTML(w) },
		"comparison": func(w io.Writer) error { return Comparison{Title: strings.Repeat("long", 30)}.HTML(w) },
		"png":        func(w io.Writer) error { return c.draw(w) },
	} {
		disk := shortDisk(100)
		if err := draw(&disk); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line", name, err)
		}
	}
}
