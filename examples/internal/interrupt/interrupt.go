// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package interrupt lets a program end in order when it is interrupted: the first SIGINT or SIGTERM cancels a
// context, so that a run can save and return; the second ends the process at once.
//
//	ctx, stop := interrupt.Context(context.Background())
//	defer stop()
//	err := run(ctx)
//	if code := interrupt.Code(ctx); code != 0 {
//		os.Exit(code) // 130 after SIGINT, 143 after SIGTERM
//	}
package interrupt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Signal is the cause of a context that a signal cancelled.
type Signal struct{ syscall.Signal }

// Error names the signal.
func (s Signal) Error() string { return "stopped by a signal: " + s.String() }

// Context returns a child of parent that the first SIGINT or SIGTERM cancels, with a [Signal] as its cause. After
// stop, or once parent is done, signals act as they did before.
func Context(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2) // both, however fast they come
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	stopped, stopWaiting := context.WithCancel(parent)
	go func() {
		defer signal.Stop(signals)
		select {
		case s := <-signals:
			fmt.Fprintf(os.Stderr, "%v: saving, then ending; once more ends at once\n", s)
			cancel(Signal{s.(syscall.Signal)})
		case <-stopped.Done():
			return
		}
		select {
		case s := <-signals:
			os.Exit(status(s.(syscall.Signal)))
		case <-stopped.Done():
		}
	}()
	return ctx, func() {
		stopWaiting()
		cancel(context.Canceled)
	}
}

// Code returns the exit status that says which signal ended a run, as shells have it: 128 and its number. It is 0 if
// no signal cancelled the context.
func Code(ctx context.Context) int {
	var s Signal
	if !errors.As(context.Cause(ctx), &s) {
		return 0
	}
	return status(s.Signal)
}

func status(s syscall.Signal) int { return 128 + int(s) }
