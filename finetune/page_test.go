// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/report"
)

// lost is a dataset that is evaluated and then not readable any more.
type lost struct{ *data.InMemory }

func (lost) Image(context.Context, int) (*data.Image, error) { return nil, os.ErrNotExist }

func TestPage_MistakesWhoseImagesAreLostAreAnErrorAfterTheirNumbers(t *testing.T) {
	set, m := lost{dataset(3, 1)}, &Model{}
	labels := set.Labels
	e := &examination{set: &set.Info, verdicts: []verdict{{class: int(labels[0])}, {class: int(labels[1]+1) % 7},
		{class: int(labels[2])}}}
	m.tested.on, m.tested.by = &set.Info, e
	var page report.RunPage
	if err := showMistakes(&page, m, set); !errors.Is(err, os.ErrNotExist) || len(page.Mistakes) > 0 {
		t.Errorf("%d mistakes, %v", len(page.Mistakes), err)
	}
	if page.Confusion == nil || page.Confusion.Counts[labels[1]][(labels[1]+1)%7] != 1 {
		t.Errorf("confusions %+v", page.Confusion)
	}
}

// The first row of a fine-tuning contains the accuracy of the pretrained model and does not change the training; the
// page has the numbers before and after, and an image of each mistake.
func TestRun_FromAPretrainedModelBeginsWithItsAccuracy(t *testing.T) {
	gomlxtest.OnGo(t)
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
	equal(t, "weights without the look before the first step", other.weights(t, ""), m.weights(t, ""))

	gomlxtest.NoError(t, second.Page(m, row, report.Figure{Title: "A figure", PNG: []byte("bytes")}))
	page := string(gomlxtest.Must(os.ReadFile(filepath.Join(second.Dir, PageFile)))(t))
	_, held, err := m.Recipe.Split(second.Train)
	gomlxtest.NoError(t, err)
	wrong := gomlxtest.Must(m.examine(held))(t).mistakes()
	for _, want := range []string{"A figure", fmt.Sprintf("%.2f", 100*before.Top1), fmt.Sprintf("%.2f",
		100*row.Validation.Top1)} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if got := strings.Count(page, ", predicted "); len(wrong) == 0 || got < min(pageMistakes, len(wrong)) {
		t.Errorf("%d mistakes are shown of %d", got, len(wrong))
	}
	refused(t, "a page without a directory", (Run{}).Page(nil, report.Result{}), "")
}

// A column per image: the first row is the dataset, the others are epochs.
func TestShowAugmentation_DrawsEachEpoch(t *testing.T) {
	set := dataset(11, 3)
	show := func(settings string) image.Image {
		var file bytes.Buffer
		gomlxtest.NoError(t, gomlxtest.Must(tiny().Set(settings))(t).ShowAugmentation(&file, gomlxtest.Backend(), set, 7))
		return gomlxtest.Must(png.Decode(&file))(t)
	}
	plain, flipped := show(""), show("augment.hflip=1")
	size, each := plain.Bounds().Size(), plain.Bounds().Dy()/(1+shownEpochs)
	differ := func(row int) (n int) {
		for i := range each * size.X {
			if x, y := i%size.X, row*each+i/size.X; plain.At(x, y) != flipped.At(x, y) {
				n++
			}
		}
		return n
	}
	if size != flipped.Bounds().Size() || differ(0) > 0 || differ(1) == 0 || differ(shownEpochs) == 0 {
		t.Errorf("of %v pixels %d of the dataset differ, %d and %d of two epochs", size, differ(0), differ(1),
			differ(shownEpochs))
	}
}
