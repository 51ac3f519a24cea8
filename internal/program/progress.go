// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package program

import (
	"fmt"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"

	"github.com/wepe-go/wepe/finetune"
)

// Progress returns a function for finetune.Run.Progress that shows on stderr how far a training has come: a bar with
// speed and remaining time on a terminal, a line per evaluation elsewhere. The title names the run.
func Progress(title string) func(finetune.Progress) {
	if !isatty.IsTerminal(os.Stderr.Fd()) {
		return func(p finetune.Progress) {
			if p.Eval != nil {
				fmt.Fprintln(os.Stderr, progressLine(title, p))
			}
		}
	}
	var bar *progressbar.ProgressBar
	return func(p finetune.Progress) {
		if bar == nil {
			bar = progressbar.NewOptions(p.Steps, progressbar.OptionSetWriter(os.Stderr),
				progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetWidth(30),
				progressbar.OptionSetPredictTime(false), progressbar.OptionClearOnFinish())
		}
		if p.Eval != nil {
			_ = bar.Clear()
			fmt.Fprintln(os.Stderr, progressLine(title, p))
		}
		bar.Describe(fmt.Sprintf("%s  loss %.3f  %.0f images/s  %s left", title, p.Loss, p.ImagesPerSecond,
			p.Left.Round(time.Second)))
		_ = bar.Set(p.Step)
	}
}

// countEvery is the time between lines of Count where there is no terminal.
const countEvery = 10 * time.Second

// Count returns a function that shows on stderr how many images are done, with speed and remaining time: a line that
// changes on a terminal, a line now and then elsewhere. What its first call counts was done before.
func Count(title string) func(done, all int) {
	var begun, shown time.Time
	before, terminal := 0, isatty.IsTerminal(os.Stderr.Fd())
	return func(done, all int) {
		now := time.Now()
		if begun.IsZero() {
			begun, before = now, done
		}
		if done < all && done > before && !terminal && now.Sub(shown) < countEvery {
			return
		}
		text := fmt.Sprintf("%s  %d of %d images", title, done, all)
		if done > before {
			each := now.Sub(begun) / time.Duration(done-before)
			left := each * time.Duration(all-done)
			text += fmt.Sprintf("  %.0f images/s  %s left", 1/each.Seconds(), left.Round(time.Second))
			shown = now
		}
		if terminal && done < all {
			fmt.Fprint(os.Stderr, "\r\x1b[K"+text)
		} else {
			Line(text)
		}
	}
}

// Line prints a line on stderr, in place of a bar that is on the terminal.
func Line(text string) {
	if isatty.IsTerminal(os.Stderr.Fd()) {
		text = "\r\x1b[K" + text // to the first column, and clear to the end
	}
	fmt.Fprintln(os.Stderr, text)
}

func progressLine(title string, p finetune.Progress) string {
	validation := "" // where nothing is held out
	if p.Eval.Images > 0 {
		validation = fmt.Sprintf("validation top-1 %.1f %%  ", 100*float64(p.Eval.Top1))
	}
	if boxes := p.Eval.Boxes; boxes != nil {
		validation = fmt.Sprintf("validation AP of boxes %.1f  ", 100*float64(boxes["AP"]))
		if masks := p.Eval.Masks; masks != nil {
			validation += fmt.Sprintf("of masks %.1f  ", 100*float64(masks["AP"]))
		}
	}
	return fmt.Sprintf("%s  step %d/%d  loss %.3f  %s%.0f images/s  %s left", title, p.Step, p.Steps,
		float64(p.Eval.TrainLoss), validation, p.ImagesPerSecond, p.Left.Round(time.Second))
}
