// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/study"
)

func TestCodeOf_IsTheCauseUnderAllThatIsSaidOfIt(t *testing.T) {
	terminated, cancel := context.WithCancelCause(context.Background())
	cancel(stopped{syscall.SIGTERM})
	for cause, want := range map[error]int{
		errors.New("any"): 1, Usagef("--top 0"): 2, &engine.OtherRunError{Field: "seed"}: 3, engine.ErrDiverged: 4,
		checkpoints.ErrInUse: 75, study.ErrPending: 75, engine.ErrInterrupted: 143, context.Canceled: 143,
	} {
		is.Equal(t, cause, codeOf(errors.Join(fmt.Errorf("in run 7: %w", cause), nil), terminated), want)
	}
	is.Equal(t, "cancelled by no signal", codeOf(context.Canceled, context.Background()), 1)
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string][2]int{"24x32": {24, 32}, "1x7": {1, 7}, "23": {23, 23}} {
		is.Equal(t, text, gomlxtest.Must(parseSize(text))(t), want)
	}
	for _, wrong := range []string{"24x", "-8", "024", "24x32x1", "24x032", "0x8", "-8x8", "24x32 ", ""} {
		is.Refused(t, wrong, is.ErrorOf(parseSize(wrong)), "size")
	}
}
