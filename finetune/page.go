// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"path/filepath"
	"strings"

	"golang.org/x/image/draw"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/disk"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/report"
)

// PageFile is the HTML report of a run, in its directory.
const PageFile = "report.html"

const (
	pageMistakes = 12
	pagePixels   = 128 // longer side of an image of a mistake; smaller ones are not enlarged
)

// Page writes PageFile for a finished run, from the results of [Run.Do]: settings, results, curves, the learned
// encoding, and errors on the test images or, without them, the validation split. Figures are appended.
func (run Run) Page(m *Model, row report.Result, figures ...report.Figure) error {
	if run.Dir == "" {
		return errors.New("finetune: a page needs a run with a directory: set Dir")
	}
	rows, err := report.ReadFiles(filepath.Join(run.Dir, engine.RowsFile))
	if err != nil {
		return err
	}
	settings, err := setting.Values(m.Recipe)
	if err != nil {
		return err
	}
	for name, value := range settings {
		settings[name] = strings.Trim(value, `"`)
	}
	run.Recipe = m.Recipe // with its defaults
	train, validation, err := run.split()
	if err != nil {
		return err
	}
	page := report.RunPage{Result: row, Evals: rows.Evals, Settings: settings, Figures: figures,
		Data: []string{"training: " + describe(train.Describe())}}
	for _, skipped := range rows.Skipped {
		page.Notes = append(page.Notes, strings.TrimPrefix(skipped, run.Dir+string(filepath.Separator)))
	}
	if run.From != "" {
		page.From = ModelName(run.From)
	}
	if validation != nil {
		page.Data = append(page.Data, fmt.Sprintf("validation: %d images", validation.Len()))
	}
	set := validation
	page.Split = report.Validation
	if run.Test != nil {
		page.Data = append(page.Data, "test: "+describe(run.Test.Describe()))
		set, page.Split = run.Test, report.Test
	}
	if set != nil {
		if err := showMistakes(&page, m, set); err != nil {
			page.Notes = append(page.Notes, "No mistakes are shown: "+err.Error())
		}
	}
	return disk.Write(filepath.Join(run.Dir, PageFile), page.HTML)
}

func describe(set *data.Info) string {
	sizes := fmt.Sprintf("%d×%d pixels", set.Height, set.Width)
	if set.Grids != nil {
		sizes = fmt.Sprintf("up to %d patches of %d×%d pixels", set.Height/set.Width, set.Width, set.Width)
	}
	return fmt.Sprintf("%s, %d images of %s, %d channels, %d classes", set.Name, set.Len(), sizes, set.Channels,
		len(set.Classes))
}

// showMistakes adds the wrong predictions on a dataset.
func showMistakes(page *report.RunPage, m *Model, set data.Dataset) error {
	e, err := m.tested.by, error(nil)
	if m.tested.by = nil; e == nil || m.tested.on != set.Describe() {
		e, err = m.evaluate(set)
	}
	if err == nil {
		err = e.answered()
	}
	if err != nil {
		return err
	}
	info, c, wrong := e.set, e.confusion(), e.mistakes()
	page.Confusion = &c
	if wrong = wrong[:min(pageMistakes, len(wrong))]; len(wrong) == 0 {
		return nil
	}
	shown, err := data.Load(context.Background(), set, wrong)
	if err != nil {
		return err
	}
	for k, i := range wrong {
		title := info.Classes[info.Labels[i]] + ", predicted as " + info.Classes[e.answers[i].class]
		mistake, err := report.NewFigure(title, fmt.Sprintf("(%.0f\u00a0%%)", 100*e.answers[i].probability),
			func(w io.Writer) error { return png.Encode(w, thumbnail(shown, k)) })
		if err != nil {
			return err
		}
		page.Mistakes = append(page.Mistakes, mistake)
	}
	return nil
}

// thumbnail is an image of a dataset, with sides of at most pagePixels.
func thumbnail(set *data.InMemory, i int) image.Image {
	whole := set.RGBA(i)
	width, height := whole.Bounds().Dx(), whole.Bounds().Dy()
	longer := max(width, height)
	if longer <= pagePixels {
		return whole
	}
	small := image.NewRGBA(image.Rect(0, 0, max(1, width*pagePixels/longer), max(1, height*pagePixels/longer)))
	draw.CatmullRom.Scale(small, small.Bounds(), whole, whole.Bounds(), draw.Src, nil)
	return small
}
