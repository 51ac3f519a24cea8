// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package cli contains what the subcommands of wepe share at the terminal: exit codes, one-line errors, common flags,
// output and progress.
package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/printable"
	"github.com/wepe-go/wepe/internal/setting"
)

// usageError is an error of the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage marks an error of the command line: exit code 2.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// Usagef is Usage for a text.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// Group returns a command that only has subcommands, and suggests one for a misspelt word.
func Group(use, short string, subcommands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, SilenceErrors: true, SilenceUsage: true,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			var names []string
			for _, sub := range c.Commands() {
				names = append(names, sub.Name())
			}
			return Usage(setting.Unknown("command", args[0], names))
		}}
	c.AddCommand(subcommands...)
	return c
}

// packages are the names with which errors of the library begin: users of the command do not know them.
var packages = regexp.MustCompile(
	`: (wepe|vit|checkpoints|preprocess|hub|data|finetune|engine|report|study|analysis|features|detect|scenes|coco|` +
		`serve): `)

// Main runs the command tree and ends the process. An error is one line on standard error. The exit code is
//
//	0        done
//	1        failed, or the ExitCode of an error that has one
//	2        wrong usage
//	128 + n  signal n interrupted the work, which was saved
func Main(root *cobra.Command) {
	code, err := Run(root, os.Args[1:])
	if err != nil {
		Line(packages.ReplaceAllString(strings.ReplaceAll(err.Error(), "\n", "; "), ": "))
	}
	leave(code)
}

// Run executes the command tree and returns the exit code, with an error that names the command.
func Run(root *cobra.Command, args []string) (code int, err error) {
	root.SetArgs(args)
	root.SetFlagErrorFunc(flagError)
	started := false
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	var c *cobra.Command
	if panicked := exceptions.TryCatch[error](func() { c, err = root.ExecuteC() }); panicked != nil {
		err = panicked // graph code panics with its errors
	}
	if err == nil {
		return 0, nil
	}
	name := root.Name()
	if c != nil {
		name = c.CommandPath()
		if wrongCount.MatchString(err.Error()) {
			err = Usagef("%s: want %s", strings.Replace(err.Error(), "arg(s)", "arguments", 1), c.UseLine())
		}
	}
	var own interface{ ExitCode() int }
	var stopped stopped
	switch ctx := root.Context(); {
	case !started || errors.As(err, new(usageError)):
		code = 2
	case errors.Is(err, finetune.ErrInterrupted), errors.Is(err, context.Canceled), errors.As(err, &stopped):
		code = max(1, signalStatus(ctx))
	case errors.As(err, &own):
		code = own.ExitCode()
	default:
		code = 1
	}
	return code, fmt.Errorf("%s: %w", who(name), known(err))
}

// known completes the error for an unknown word: what was meant, or where all names are.
func known(err error) error {
	var unknown *setting.UnknownError
	if !errors.As(err, &unknown) {
		return err
	}
	switch name := Similar(unknown.Word, unknown.Names); {
	case name != "":
		return fmt.Errorf("%w: did you mean %s?", err, name)
	case unknown.What == "setting" || unknown.What == "hyperparameter":
		return fmt.Errorf("%w: wepe list settings prints all", err)
	case len(unknown.Names) > 12:
		return fmt.Errorf("%w: %s", err, strings.Join(unknown.Names, ", "))
	}
	return err
}

// Similar returns the name that cobra suggests for a misspelt word, or "".
func Similar(word string, names []string) string {
	c := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, name := range names {
		c.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	if similar := c.SuggestionsFor(word); len(similar) > 0 {
		return similar[0]
	}
	return ""
}

// wrongCount matches cobra's errors about missing or superfluous arguments.
var wrongCount = regexp.MustCompile(`^(accepts .*|requires at least .*)arg\(s\)|^required flag\(s\)`)

// flagError suggests a flag for a misspelt one.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return Usage(err)
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	word := "--" + unknown.GetSpecifiedName()
	if unknown.GetSpecifiedShortnames() != "" {
		return Usagef("unknown flag -%s: %s --help lists the flags, which begin with --", unknown.GetSpecifiedName(),
			c.CommandPath())
	}
	if name := Similar(unknown.GetSpecifiedName(), names); name != "" {
		return Usagef("unknown flag %s: did you mean --%s?", word, name)
	}
	return Usagef("unknown flag %s: %s --help lists the flags", word, c.CommandPath())
}

// One returns an error unless a word is one of the names.
func One(flag, word string, names []string) error {
	if slices.Contains(names, word) {
		return nil
	}
	return Usage(setting.Unknown(flag, word, names))
}

// JSON prints one object.
func JSON(w io.Writer, value any) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := w.Write(printable.JSON(b.Bytes()))
	return err
}

// Printer prints a command's results and remembers the first error.
type Printer struct {
	w   io.Writer
	err error
}

// Output is the printer of a command.
func Output(c *cobra.Command) *Printer { return &Printer{w: c.OutOrStdout()} }

// Printf prints; an argument that is a text is one line.
func (p *Printer) Printf(format string, args ...any) {
	p.Print(fmt.Sprintf(format, printable.Args(args)...))
}

// Print prints a text of several lines.
func (p *Printer) Print(text string) {
	if _, err := io.WriteString(p.w, printable.Text(text)); err != nil && p.err == nil {
		p.err = err
	}
}

// Field prints a named line, as in "model     ViT-S/16".
func (p *Printer) Field(name, format string, args ...any) {
	p.Printf("%-9s "+format+"\n", append([]any{name}, args...)...)
}

// Err is the first error.
func (p *Printer) Err() error { return p.err }
