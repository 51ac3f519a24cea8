// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package cli contains what the subcommands of wepe share at the terminal: exit codes, one-line errors, common flags,
// output and progress.
package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/janpfeifer/must"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/printable"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/study"
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
		RunE: help}
	c.AddCommand(subcommands...)
	return c
}

// help prints the help of a command that has subcommands, and refuses the name of none.
func help(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return c.Help()
	}
	var names []string
	for _, sub := range c.Commands() {
		names = append(names, sub.Name())
	}
	return Usage(setting.Unknown("command", args[0], names))
}

// packages are the names with which errors of the library begin: users of the command do not know them.
var packages = regexp.MustCompile(
	`(: |error )(wepe|vit|checkpoints|preprocess|hub|data|finetune|engine|report|study|analysis|features|detect|` +
		`scenes|coco|serve): `)

// causes are the exit codes of errors, the first that fits; 1 is any other failure.
var causes = []struct {
	code  int
	about string
	is    func(error) bool
}{
	{2, "wrong usage", func(err error) bool { return errors.As(err, new(usageError)) }},
	{3, "the directory holds another run", func(err error) bool { return errors.As(err, new(*engine.OtherRunError)) }},
	{4, "a training diverged", func(err error) bool { return errors.Is(err, engine.ErrDiverged) }},
	{75, "later the same command can succeed: another process uses the directory, or shards wait for others",
		func(err error) bool {
			return errors.Is(err, checkpoints.ErrInUse) || errors.Is(err, study.ErrPending)
		}},
}

// ExitCodes describes the exit codes, a line each.
func ExitCodes() string {
	text := "  0    done\n  1    failed\n"
	for _, c := range causes {
		text += fmt.Sprintf("  %-3d  %s\n", c.code, c.about)
	}
	return text + "  128 + n  signal n interrupted the work, which is saved"
}

// Main runs the command tree and ends the process. An error is one line on standard error.
func Main(root *cobra.Command) {
	code, err := Run(root, os.Args[1:])
	if err != nil {
		text := strings.TrimSuffix(err.Error(), ": "+context.Canceled.Error()) // the signal was printed
		Line(strings.ReplaceAll(text, "\n", "; "))
	}
	leave(code)
}

// ownUsage is cobra's usage with the flags of a command in sections. It is no template: with one in a program the
// linker keeps every exported method of every type.
func ownUsage(print func(*cobra.Command) error) func(*cobra.Command) error {
	return func(c *cobra.Command) error {
		var text bytes.Buffer
		out := c.OutOrStderr()
		c.SetOut(&text)
		err := print(c)
		c.SetOut(out)
		flags := "Flags:\n" + strings.TrimRight(c.LocalFlags().FlagUsages(), " \n")
		_, failed := io.WriteString(out, strings.Replace(text.String(), flags, usages(c), 1))
		return cmp.Or(err, failed)
	}
}

func init() {
	must.M = func(err error) { // a command panics with the error that ends it: Run returns it
		if err != nil {
			panic(err)
		}
	}
}

// Run executes the command tree and returns the exit code, with an error that names the command.
func Run(root *cobra.Command, args []string) (code int, err error) {
	out := &output{Writer: root.OutOrStdout()}
	root.SetArgs(args)
	root.SetOut(out)
	root.SetUsageFunc(ownUsage(root.UsageFunc()))
	root.SetFlagErrorFunc(flagError)
	var c, begun *cobra.Command
	root.PersistentPreRun = func(c *cobra.Command, _ []string) { begun = c }
	if panicked := exceptions.TryCatch[error](func() { c, err = root.ExecuteC() }); panicked != nil {
		c, err = begun, panicked // of the commands, by must.M; and graph code panics with its errors
	}
	if err = cmp.Or(err, out.err); err == nil {
		return 0, nil
	}
	name := root.Name()
	if c != nil {
		name = c.CommandPath()
		if wrongCount.MatchString(err.Error()) {
			err = Usagef("%s: want %s", strings.Replace(err.Error(), "arg(s)", "arguments", 1), c.UseLine())
		}
	}
	if begun == nil && out.err == nil {
		err = Usage(err)
	}
	if world != nil {
		name = fmt.Sprintf("%s: process %d of %d", name, world.Rank(), world.Size())
	}
	return codeOf(err, root.Context()), fmt.Errorf("%s: %w", name, known(err))
}

// codeOf returns the exit code of an error.
func codeOf(err error, ctx context.Context) int {
	if errors.Is(err, engine.ErrInterrupted) || errors.Is(err, context.Canceled) || errors.As(err, new(stopped)) {
		return max(1, signalStatus(ctx))
	}
	for _, c := range causes {
		if c.is(err) {
			return c.code
		}
	}
	return 1
}

// known completes the error for an unknown word: what was meant, or where all names are.
func known(err error) error {
	if o := (*checkpoints.OptionError)(nil); errors.As(err, &o) && optionFlags[o.Option] != "" {
		return fmt.Errorf("%w (%s)", err, optionFlags[o.Option])
	}
	var unknown *setting.UnknownError
	if !errors.As(err, &unknown) {
		return err
	}
	switch hint := didYouMean(Similar(unknown.Word, unknown.Names)); {
	case hint != "":
		return fmt.Errorf("%w: %s", err, hint)
	case unknown.What == "setting" || unknown.What == "hyperparameter":
		return fmt.Errorf("%w: wepe list settings prints all", err)
	case len(unknown.Names) > 12:
		return fmt.Errorf("%w: %s", err, strings.Join(unknown.Names, ", "))
	}
	return err
}

// optionFlags are the flags for options of package checkpoints.
var optionFlags = map[string]string{"Classes": "--classes N", "Architecture": "--architecture NAME",
	"Grid or AssumeSquare": "--grid ROWSxCOLS, --assume-square", "Grid": "--grid ROWSxCOLS",
	"Epsilon": "--epsilon 1e-6", "Headless": "--no-head"}

// wrongCount matches cobra's errors about missing or superfluous arguments.
var wrongCount = regexp.MustCompile(`^(accepts .*|requires at least .*)arg\(s\)|^required flag\(s\)`)

// renamed are the flags that had another name.
var renamed = map[string]string{"check": "verify-images", "completions": "num-shards", "damaged": "on-damaged",
	"of": "pool", "position": "positions", "score": "score-threshold", "shown": "num-images", "start": "include-init",
	"subsets": "resample-images", "variants": "filter", "weights": "checkpoint", "what": "analyses",
	"window": "batch-timeout", "write": "export-coco"}

// flagError names the new name of a renamed flag, and suggests a flag or a setting for an unknown one.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return Usage(err)
	}
	name, lists := unknown.GetSpecifiedName(), c.CommandPath()+" --help lists the flags"
	if unknown.GetSpecifiedShortnames() != "" {
		return Usagef("unknown flag -%s: %s, which begin with --", name, lists)
	}
	if now := renamed[name]; c.Flags().Lookup(now) != nil {
		return Usagef("--%s is now --%s", name, now)
	}
	shown := map[string]string{} // what stands for a name
	if strings.Contains(c.Use, "MODEL") {
		shown[argument] = argument
	}
	for key := range strings.FieldsSeq(c.Annotations[settable]) {
		shown[key] = "--set " + key + "=X"
	}
	c.Flags().VisitAll(func(f *pflag.Flag) { shown[f.Name] = "--" + f.Name })
	hints := Similar(name, slices.Sorted(maps.Keys(shown)))
	for i, hint := range hints {
		hints[i] = cmp.Or(shown[hint], "--"+hint)
		if several := shown[name+"s"]; several != "" && strings.HasPrefix(hints[i], "--set ") { // --sizes, --aspects
			hints[i] = several
		}
	}
	return Usagef("unknown flag --%s: %s", name, cmp.Or(didYouMean(hints), lists))
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

// output is the standard output of a command. Its first error becomes that of the command, see Run.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	o.err = cmp.Or(o.err, err)
	return n, err
}

// Skipped prints that an image, which its error names, cannot be read, and returns the reason.
func Skipped(err error) string {
	reason := packages.ReplaceAllString(": "+err.Error(), "$1")
	Line("skipped" + reason)
	return reason[len(": "):]
}

// Unreadable is the error of a command that has skipped images.
func Unreadable(n, all int) error {
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d images cannot be read: repair or remove them", n, all)
}

// Printer prints a command's results.
type Printer struct{ w io.Writer }

// Output is the printer of a command.
func Output(c *cobra.Command) Printer { return Printer{c.OutOrStdout()} }

// Answer prints what a command has found, with --json as one object.
func Answer(c *cobra.Command, asJSON bool, value any, text func(out Printer)) error {
	if asJSON {
		return JSON(c.OutOrStdout(), value)
	}
	text(Output(c))
	return nil
}

// Printf prints; an argument that is a text is one line.
func (p Printer) Printf(format string, args ...any) {
	p.Print(fmt.Sprintf(format, printable.Args(args)...))
}

// Print prints a text of several lines.
func (p Printer) Print(text string) { _, _ = io.WriteString(p.w, printable.Text(text)) }

// Field prints a named line, as in "model     ViT-S/16".
func (p Printer) Field(name, format string, args ...any) {
	p.Printf("%-9s "+format+"\n", append([]any{name}, args...)...)
}
