// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package program is what commands and examples have in common: how they read flags, choose a backend, show progress,
// complain and end.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/wepe-go/wepe/finetune"
)

// Main parses the arguments of a command and runs it. An error is one line on stderr, and the status of the process is
//
//	0        done, or -help
//	1        failed, or the ExitCode of an error that has one
//	2        the arguments make no sense
//	128 + n  signal n ended the work, which was saved
//
// A signal just ends what has nothing to save.
func Main[Options any](name string, parse func(args []string) (Options, error), saves func(Options) bool,
	run func(context.Context, Options) error) {
	o, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		complain(name, err)
		os.Exit(2)
	}
	ctx := context.Background()
	if saves(o) {
		ctx = interruptible()
	}
	code := 0
	err = run(ctx, o)
	if err == nil {
		err = unwritten
	}
	if err != nil {
		complain(who(name), err)
		code = status(ctx, err)
	}
	leave(code)
}

// unwritten is why something could not be printed.
var unwritten error

// Printf prints to standard output what a command was asked for. If that cannot be written, Main says so in the end.
func Printf(format string, args ...any) {
	if _, err := fmt.Printf(format, args...); err != nil && unwritten == nil {
		unwritten = err
	}
}

// Parse reads flags, which are all that a command takes. Errors are one line; -help prints what the command is about
// and its flags, and is flag.ErrHelp.
func Parse(flags *flag.FlagSet, about string, args []string) error {
	flags.SetOutput(io.Discard)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Println(flags.Name(), about, "Flags:")
		flags.SetOutput(os.Stdout)
		flags.PrintDefaults()
		return err
	case err != nil:
		return fmt.Errorf("%w (%s%s -help lists the flags)", err, meant(flags, err), flags.Name())
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q: every option starts with -", flags.Arg(0))
	}
	return nil
}

// meant asks whether a flag that is not defined is one that is, misspelt: but for two letters next to each other.
func meant(flags *flag.FlagSet, err error) (question string) {
	_, said, undefined := strings.Cut(err.Error(), "not defined: -")
	flags.VisitAll(func(f *flag.Flag) {
		begin, end := 0, 0
		for begin < min(len(said), len(f.Name)) && said[begin] == f.Name[begin] {
			begin++
		}
		for end < min(len(said), len(f.Name))-begin && said[len(said)-1-end] == f.Name[len(f.Name)-1-end] {
			end++
		}
		if undefined && question == "" && begin+end > 2 && max(len(said), len(f.Name))-begin-end <= 2 {
			question = "did you mean -" + f.Name + "? "
		}
	})
	return question
}

// Into is what a flag does whose text is read into a value.
func Into[T any](value *T, read func(string) (T, error)) func(string) error {
	return func(text string) (err error) {
		*value, err = read(text)
		return err
	}
}

// complain says what went wrong, in one line.
func complain(name string, err error) {
	Line(name + ": " + strings.ReplaceAll(err.Error(), "\n", "; "))
}

// status is the exit status after an error. Work that a signal ended may say so by the error of the training, of the
// context, or of its cause; any other error is a failure, even after a signal.
func status(ctx context.Context, err error) int {
	var stopped stopped
	var own interface{ ExitCode() int }
	switch {
	case errors.Is(err, finetune.ErrInterrupted) || errors.Is(err, context.Canceled) || errors.As(err, &stopped):
		return max(1, signalStatus(ctx))
	case errors.As(err, &own):
		return own.ExitCode()
	}
	return 1
}
