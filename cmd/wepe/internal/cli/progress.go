// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/printable"
)

const (
	terminalInterval = 100 * time.Millisecond // between updates of the progress line of a terminal
	logInterval      = 10 * time.Second       // between progress lines in a log
	clearedLine      = "\r\x1b[K"             // to the first column, and clear the line
)

var isTerminal = sync.OnceValue(func() bool { return isatty.IsTerminal(os.Stderr.Fd()) })

// Line prints a line on standard error, replacing the progress line of a terminal.
func Line(text string) {
	text = printable.Line(packages.ReplaceAllString(text, "$1"))
	if isTerminal() {
		text = clearedLine + text
	}
	fmt.Fprintln(os.Stderr, text)
}

// Field prints a named line on standard error.
func Field(name, format string, args ...any) {
	Line(fmt.Sprintf("%-9s "+format, append([]any{name}, args...)...))
}

// Logger prints a library's log records with Line: the message and its attributes in parentheses, after "run: " if the
// logger names a run, and "warning" if it is one.
func Logger() *slog.Logger { return slog.New(lines{}) }

// lines is the handler of Logger.
type lines struct {
	run        string
	attributes []string
}

func (l lines) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (l lines) WithGroup(string) slog.Handler                    { return l }

func (l lines) WithAttrs(attributes []slog.Attr) slog.Handler {
	for _, a := range attributes {
		if a.Key == "run" {
			l.run = a.Value.String() + ": "
		} else {
			l.attributes = append(slices.Clone(l.attributes), attribute(a))
		}
	}
	return l
}

func attribute(a slog.Attr) string { return a.Key + " " + printable.Name(fmt.Sprint(a.Value)) }

func (l lines) Handle(_ context.Context, r slog.Record) error {
	attributes := slices.Clone(l.attributes)
	r.Attrs(func(a slog.Attr) bool {
		attributes = append(attributes, attribute(a))
		return true
	})
	text := l.run + r.Message
	if len(attributes) > 0 {
		text += " (" + strings.Join(attributes, ", ") + ")"
	}
	if r.Level >= slog.LevelWarn {
		text = "warning   " + text
	}
	Line(text)
	return nil
}

// renewing is a line that is redrawn on a terminal, or printed from time to time in a log.
type renewing struct{ shown time.Time }

// show prints a line if one is due, or if it is the last.
func (r *renewing) show(last bool, text func() string) {
	now, every := time.Now(), logInterval
	if isTerminal() {
		every = terminalInterval
	}
	if !last && now.Sub(r.shown) < every {
		return
	}
	r.shown = now
	if isTerminal() && !last {
		fmt.Fprint(os.Stderr, clearedLine+printable.Line(text()))
	} else {
		Line(text())
	}
}

// Progress returns a function for finetune.Run.Progress: speed and remaining time, and a line for each evaluation.
func Progress(title string) func(engine.Progress) {
	line, loss := renewing{shown: time.Now()}, 0.0
	return func(p engine.Progress) {
		if p.Eval == nil && p.ImagesPerSecond <= 0 {
			return
		}
		line.show(p.Eval != nil, func() string {
			if p.Loss == loss && !isTerminal() { // it was not read again since the line before
				p.Loss = 0
			} else {
				loss = p.Loss
			}
			return title + "  " + p.String()
		})
	}
}

// Count returns a function that shows how many of a unit are done, with speed and remaining time. The count of its
// first call was done before.
func Count(title, unit string) func(done, all int) {
	var begun time.Time
	var line renewing
	before := 0
	return func(done, all int) {
		if begun.IsZero() {
			begun, before, line.shown = time.Now(), done, time.Now()
		}
		line.show(done == all, func() string {
			text := fmt.Sprintf("%s  %d of %d %s", title, done, all, unit)
			if done > before {
				each := time.Since(begun) / time.Duration(done-before)
				text += fmt.Sprintf("  %.0f %s/s  %s left", 1/each.Seconds(), unit,
					(each * time.Duration(all-done)).Round(time.Second))
			}
			return text
		})
	}
}
