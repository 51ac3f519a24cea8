// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/report"
)

func TestPageOfARun(t *testing.T) {
	gomlxtest.OnGo(t)
	run := tinyRun(t, "epochs=1;model.position=wepe", 40)
	test := dataset(29, 2)
	test.Name = "images-test"
	run.Dir, run.Test = t.TempDir(), test
	m, row := done(t, run)
	figure := report.Figure{Title: "A figure", Caption: "Of nothing.", PNG: []byte("bytes")}
	if err := run.Page(m, row, figure); err != nil {
		t.Fatal(err)
	}
	text := string(gomlxtest.Must(os.ReadFile(filepath.Join(run.Dir, PageFile)))(t))
	for _, want := range []string{
		"from scratch", "images, 40 images of 4×6 pixels", "images-test, 29 images of 4×6 pixels", "A figure",
		fmt.Sprintf("<b>%.2f</b> %%", 100*row.Test.Top1), fmt.Sprintf("<b>%.2f</b> %%", 100*row.Validation.Top1),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}

	var curves bytes.Buffer
	rows := gomlxtest.Must(report.ReadFiles(filepath.Join(run.Dir, engine.RowsFile)))(t)
	if err := report.Curves(&curves, "tiny on images, seed 0", rows.Evals); err != nil {
		t.Fatal(err)
	}
	if got := gomlxtest.Must(os.ReadFile(filepath.Join(run.Dir, "curves.png")))(t); !bytes.Equal(got, curves.Bytes()) {
		t.Errorf("curves.png has other %d bytes than the %d of its rows", len(got), curves.Len())
	}

	// The first image is the most confident mistake, pixel by pixel.
	answers := gomlxtest.Must(m.examine(run.Test))(t).verdicts
	surest := -1
	for i, a := range answers {
		if a.class != int(test.Labels[i]) && (surest < 0 || a.probability > answers[surest].probability) {
			surest = i
		}
	}
	if surest < 0 {
		t.Fatal("a model after 6 steps makes no mistake")
	}
	encoded := regexp.MustCompile(`data:image/png;base64,([^"]*)" alt="., predicted`).FindStringSubmatch(text)
	content := gomlxtest.Must(base64.StdEncoding.DecodeString(html.UnescapeString(encoded[1])))(t)
	img := gomlxtest.Must(png.Decode(bytes.NewReader(content)))(t)
	if size := img.Bounds().Size(); size != image.Pt(6, 4) {
		t.Fatalf("an image of %v, want 6 by 4", size)
	}
	for p, at := 0, test.Row(surest); p < 24; p++ {
		want := color.NRGBA{R: at[3*p], G: at[3*p+1], B: at[3*p+2], A: 0xff}
		if got := color.NRGBAModel.Convert(img.At(p%6, p/6)); got != want {
			t.Fatalf("pixel %d is %v, want %v", p, got, want)
		}
	}

	if err := (Run{}).Page(nil, report.Result{}); err == nil || !strings.Contains(err.Error(), "Dir") {
		t.Errorf("without a directory: %v, want an error that names Dir", err)
	}
	if left, err := filepath.Glob(filepath.Join(run.Dir, "*.tmp-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

// lost is a dataset that is evaluated and then not readable any more.
type lost struct{ *data.Memory }

func (lost) Load(context.Context, []int) (*data.Memory, error) { return nil, os.ErrNotExist }

func TestMistakesWhoseImagesAreLostAreAnErrorAfterTheirNumbers(t *testing.T) {
	set, m := lost{dataset(3, 1)}, &Model{}
	labels := set.Labels
	e := &examination{set: &set.Info, verdicts: []verdict{{class: int(labels[0])}, {class: int(labels[1]+1) % 7},
		{class: int(labels[2])}}}
	m.examined.source, m.examined.result = set, e
	var page report.RunPage
	if err := showMistakes(&page, m, set); !errors.Is(err, os.ErrNotExist) || len(page.Mistakes) > 0 {
		t.Errorf("%d mistakes, %v", len(page.Mistakes), err)
	}
	if page.Confusion == nil || page.Confusion.Counts[labels[1]][(labels[1]+1)%7] != 1 {
		t.Errorf("confusions %+v", page.Confusion)
	}
}

// A large grey image, dark at the left and light at the right, keeps its shape and its ends.
func TestThumbnailOfALargeGreyImageIsSmaller(t *testing.T) {
	set := &data.Memory{
		Info:   data.Info{Height: 150, Width: 300, Channels: 1, Labels: []int32{0, 0}},
		Pixels: make([]uint8, 2*150*300),
	}
	for i := range 150 * 300 {
		set.Pixels[150*300+i] = uint8(40 + 170*(i%300/150))
	}
	got := thumbnail(set, 1)
	if size := got.Bounds().Size(); size != image.Pt(128, 64) {
		t.Fatalf("size %v, want 128 by 64", size)
	}
	for x, want := range map[int]uint8{0: 40, 50: 40, 80: 210, 127: 210} {
		if got := color.NRGBAModel.Convert(got.At(x, 30)); got != (color.NRGBA{R: want, G: want, B: want, A: 0xff}) {
			t.Errorf("column %d is %v, want grey %d", x, got, want)
		}
	}
}

// The first row of a fine-tuning contains the accuracy of the pretrained model, as Evaluate computes it, and does not
// change the training.
func TestARunFromAPretrainedModelBeginsWithItsAccuracy(t *testing.T) {
	first, second := tinyRun(t, "model.position=learned", 60), tinyRun(t, "model.position=hybrid", 50)
	first.Dir, second.Dir = t.TempDir(), t.TempDir()
	second.From, second.Weights = first.Dir, checkpoints.LastDir
	done(t, first)
	m, row := done(t, second)
	rows := gomlxtest.Must(report.ReadFiles(filepath.Join(second.Dir, engine.RowsFile)))(t)
	before := rows.Evals[0]
	if before.Step != 0 || rows.Evals[1].Step == 0 {
		t.Fatalf("steps %d and %d, want one row before the first step", before.Step, rows.Evals[1].Step)
	}
	if initial := float64(before.Scalars["lambda"]); !(initial > 0 && initial < 1) {
		t.Errorf("λ is %g before the first step", initial)
	}

	unseen := second
	unseen.Dir = "" // nothing is recorded, so nothing is evaluated first
	other, _ := done(t, unseen)
	if want := other.weights(t, ""); !reflect.DeepEqual(m.weights(t, ""), want) {
		t.Error("the look before the first step changed the weights after the last")
	}

	if err := second.Page(m, row); err != nil {
		t.Fatal(err)
	}
	page := gomlxtest.Must(os.ReadFile(filepath.Join(second.Dir, PageFile)))(t)
	for _, want := range []string{"fine-tuned from " + filepath.Base(first.Dir), "before the first step",
		fmt.Sprintf("%.2f → </span><b>%.2f</b>", 100*before.Top1, 100*row.Validation.Top1)} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
