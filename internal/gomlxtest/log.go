// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package gomlxtest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
)

// Logger writes log records, one per line: the message, then its attributes as key=value.
func Logger(w io.Writer) *slog.Logger { return slog.New(lines{slog.DiscardHandler, w}) }

type lines struct {
	slog.Handler
	w io.Writer
}

func (l lines) Enabled(context.Context, slog.Level) bool { return true }

func (l lines) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	_, err := fmt.Fprintln(l.w, text)
	return err
}
