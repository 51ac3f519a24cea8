// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/mpi"
)

// stopped is the cause of a context that a signal cancelled.
type stopped struct{ syscall.Signal }

// Error names the signal.
func (s stopped) Error() string { return "stopped by signal: " + s.String() }

// Interruptible returns a context that the first SIGINT, SIGTERM or SIGHUP cancels, for commands that save their state
// or finish requests; the second signal ends the process. Other commands end at the first.
func Interruptible(c *cobra.Command) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	c.Root().SetContext(ctx)
	c.SetContext(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // which a terminal that closes sends, and nohup ignores
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		first := (<-signals).(syscall.Signal)
		what := "finishing what is in flight, then stopping"
		if world != nil {
			what = "all processes save and stop after this step"
		}
		fmt.Fprintf(os.Stderr, "%v: %s; a second signal stops at once\n", first, what)
		cancel(stopped{first})
		os.Exit(128 + int((<-signals).(syscall.Signal)))
	}()
	return ctx
}

// signalStatus is the exit code for the signal that cancelled a context, as in shells, or 0.
func signalStatus(ctx context.Context) int {
	var s stopped
	if ctx == nil || !errors.As(context.Cause(ctx), &s) {
		return 0
	}
	return 128 + int(s.Signal)
}

// world is the MPI job of this process, nil outside one.
var world mpi.World

// Join makes this process part of the MPI job that mpirun or srun started; way is how gradients are summed, "" for no
// MPI.
func Join(way string) (group engine.Group, err error) {
	if way == "" {
		return nil, nil
	}
	if err = mpi.Validate(way); err == nil {
		world, err = mpi.Start(way)
	}
	if err != nil {
		return nil, Usagef("--mpi: %w", err)
	}
	return world, nil
}

// leave ends the process. A failed process of an MPI job aborts the others, which would wait for it.
func leave(status int) {
	if world != nil {
		if status != 0 && status < 128 {
			world.Abort(status)
		}
		world.End()
	}
	os.Exit(status)
}
