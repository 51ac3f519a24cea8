// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// stopped is the cause of a context that a signal cancelled.
type stopped struct{ syscall.Signal }

// Error names the signal.
func (s stopped) Error() string { return "stopped by a signal: " + s.String() }

// interruptible returns a context that the first SIGINT or SIGTERM cancels, so that a run can save and return, with
// stopped as its cause; the second ends the process at once.
func interruptible() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2) // both, however fast they come
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		first := (<-signals).(syscall.Signal)
		what := "saving, then ending"
		if world != nil {
			what = "all processes save and end after this step, if all of them still run"
		}
		fmt.Fprintf(os.Stderr, "%v: %s; once more ends at once\n", first, what)
		cancel(stopped{first})
		os.Exit(128 + int((<-signals).(syscall.Signal)))
	}()
	return ctx
}

// signalStatus returns the exit status that says which signal ended a run, as shells have it: 128 and its number, 130
// after SIGINT. It is 0 if no signal cancelled the context.
func signalStatus(ctx context.Context) int {
	var s stopped
	if !errors.As(context.Cause(ctx), &s) {
		return 0
	}
	return 128 + int(s.Signal)
}
