// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// Logger prints what a library logs by Line: the message and its attributes, behind "run: " where the logger names one.
func Logger() *slog.Logger { return slog.New(lines{}) }

// lines is the handler of Logger.
type lines struct{ run, attributes string }

func (l lines) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (l lines) WithGroup(string) slog.Handler                    { return l }

func (l lines) WithAttrs(attributes []slog.Attr) slog.Handler {
	for _, a := range attributes {
		if a.Key == "run" {
			l.run = a.Value.String() + ": "
		} else {
			l.attributes += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		}
	}
	return l
}

func (l lines) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(l.run + r.Message + l.attributes)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		return true
	})
	Line(b.String())
	return nil
}
