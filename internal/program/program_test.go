// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/wepe-go/wepe/finetune"
)

type waits struct{}

func (waits) Error() string { return "waits" }
func (waits) ExitCode() int { return 75 }

func TestTheStatusTellsASignalFromAFailure(t *testing.T) {
	running := context.Background()
	ended, cancel := context.WithCancelCause(running)
	cancel(stopped{syscall.SIGTERM})
	cancelled, cancelOther := context.WithCancel(running) // not by a signal
	cancelOther()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want int
	}{
		{running, errors.New("no data"), 1},
		{running, fmt.Errorf("%w before it began", finetune.ErrInterrupted), 1},
		{cancelled, fmt.Errorf("%w at step 7", finetune.ErrInterrupted), 1},
		{running, fmt.Errorf("a shard %w", waits{}), 75},
		{ended, fmt.Errorf("%w at step 7", finetune.ErrInterrupted), 143},
		{ended, fmt.Errorf("reading: %w", context.Canceled), 143},
		{ended, fmt.Errorf("reading: %w", context.Cause(ended)), 143},
		{ended, errors.New("no space left on device"), 1},
	} {
		if got := status(c.ctx, c.err); got != c.want {
			t.Errorf("%v: status %d, want %d", c.err, got, c.want)
		}
	}
}
