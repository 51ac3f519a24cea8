// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/janpfeifer/must"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/vit/position"
)

// Flags adds flags to a command, in the order of its help. Those that several subcommands share have one name and
// meaning.
type Flags struct {
	*pflag.FlagSet
	command *cobra.Command
}

// FlagsOf returns the flags of a command.
func FlagsOf(c *cobra.Command) Flags {
	c.Flags().SortFlags, c.Annotations = false, map[string]string{}
	return Flags{c.Flags(), c}
}

// Section begins a section of the help.
func (f Flags) Section(title string) {
	n := 0
	f.VisitAll(func(*pflag.Flag) { n++ })
	f.command.Annotations[strconv.Itoa(n)] = title // by the number of its first flag, see usages
}

// optional matches how pflag describes a flag whose value may be left out: --stream auto|true|false[=true].
var optional = regexp.MustCompile(`(--\S+) (\S+)\[=\w+\]`)

// usages is the help of a command's flags.
func usages(c *cobra.Command) (text string) {
	var titles []string
	var sections []*pflag.FlagSet
	begin := func(title string) {
		titles, sections = append(titles, title), append(sections, pflag.NewFlagSet("", pflag.ContinueOnError))
		sections[len(sections)-1].SortFlags = false
	}
	begin("Flags")
	n := 0
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if title, begins := c.Annotations[strconv.Itoa(n)]; begins {
			begin(title)
		}
		if n++; slices.Contains([]string{"help", "json", "tta"}, f.Name) { // of the command, wherever they are added
			sections[0].AddFlag(f)
		} else {
			sections[len(sections)-1].AddFlag(f)
		}
	})
	for i, title := range titles {
		text += title + ":\n" + sections[i].FlagUsagesWrapped(120) + "\n"
	}
	text = optional.ReplaceAllStringFunc(text, func(flag string) string { // in as many letters
		return fmt.Sprintf("%-*s", len(flag), optional.ReplaceAllString(flag, "$1[=$2]"))
	})
	return strings.TrimRight(text, "\n")
}

// DataForms lists the forms of --data.
const DataForms = "shapes[:TASK], cifar100:DIR-or-archive, vtab:TASK:DIR, or a directory with a folder per class, " +
	"tar shards or Parquet files"

// Out adds --out.
func (f Flags) Out(value *string, about string) { f.StringVar(value, "out", "", "`directory` "+about) }

// Checkpoint adds --checkpoint.
func (f Flags) Checkpoint(value *string, about string) {
	f.Choice(value, "checkpoint", about+": best on its validation split, or last", checkpoints.BestDir,
		checkpoints.LastDir)
}

// Backend adds --backend.
func (f Flags) Backend(value *string) {
	f.StringVar(value, "backend", "", "GoMLX backend, overrides GOMLX_BACKEND: xla:cuda, xla:cpu, onnx:cpu, or go, for "+
		"go:ops_sequential")
}

// Size adds --size.
func (f Flags) Size(value *[2]int) {
	f.Func("size", "image size of the model, `HxW` in pixels, or N; default its own", func(text string) (err error) {
		*value, err = parseSize(text)
		return err
	})
}

// parseSize reads a height and a width, "24x32", or the side of a square, "24".
func parseSize(text string) (size [2]int, err error) {
	if !strings.Contains(text, "x") {
		text += "x" + text
	}
	_, err = fmt.Sscanf(text, "%dx%d", &size[0], &size[1])
	if err != nil || min(size[0], size[1]) < 1 || text != fmt.Sprintf("%dx%d", size[0], size[1]) {
		return size, fmt.Errorf("size %q: want HEIGHTxWIDTH, as 224x224, or the side of a square", text)
	}
	return size, nil
}

// Sizes adds --sizes.
func (f Flags) Sizes(values *[][2]int, about string) {
	f.Func("sizes", about, func(list string) error {
		*values = nil
		for text := range strings.SplitSeq(list, ",") {
			size, err := parseSize(text)
			if err == nil && slices.Contains(*values, size) {
				err = fmt.Errorf("%s is there twice", text)
			}
			if err != nil {
				return err
			}
			*values = append(*values, size)
		}
		return nil
	})
}

// Positions adds --positions, with a list of encodings.
func (f Flags) Positions(values *[]string, about string) {
	f.StringSliceVar(values, "positions", nil, about+" (wepe list positions)")
	f.Completion("positions", position.Names()...)
}

// CheckPositions refuses an unknown encoding of a flag, with a suggestion, and one that is there twice.
func CheckPositions(flag string, positions ...string) {
	for i, name := range positions {
		if slices.Contains(positions[:i], name) {
			must.M(Usagef("--%s names %s twice", flag, name))
		}
		for part := range strings.SplitSeq(name, "+") {
			if !slices.Contains(position.Names(), part) {
				must.M(Usagef("--%s: %w", flag, setting.Unknown("position", part, position.Names())))
			}
		}
		if _, err := position.Parse(name); err != nil {
			must.M(Usagef("--%s: %w", flag, err))
		}
	}
}

// TestTime adds --tta.
func (f Flags) TestTime(value *string) {
	f.Choice(value, "tta", "flip: average the probabilities of each image and its mirror image (test-time augmentation)",
		"none", "flip")
}

// settable is the annotation of a command that has --set: the names of its settings.
const settable = "settable"

// Settings adds --set for the settings of a recipe.
func (f Flags) Settings(value *[]string, recipe any) {
	names := setting.FieldNames(reflect.TypeOf(recipe))
	f.command.Annotations[settable] = strings.Join(names, " ")
	f.Func("set", "recipe setting, `KEY=VALUE`, as learning_rate=0.001 (wepe list settings); repeatable",
		func(text string) error {
			*value = append(*value, text)
			return nil
		})
}

// JSON adds --json.
func (f Flags) JSON(value *bool) { f.BoolVar(value, "json", false, "print one JSON object") }

// Epochs adds --epochs; 0 is the default, which the flag refuses.
func (f Flags) Epochs(value *int, about string) { f.Int(value, "epochs", 0, 1, math.MaxInt, about) }

// Seeds adds --seeds.
func (f Flags) Seeds(value *int, about string) {
	f.Int(value, "seeds", 1, 1, 1000, "training runs of each encoding, paired by seed"+about)
}

// Int adds a flag with a whole number in a range.
func (f Flags) Int(value *int, name string, byDefault, least, most int, about string) {
	*value = byDefault
	text := func() string { return strconv.Itoa(*value) }
	f.Var(checked{"int", text, func(text string) error {
		n, err := strconv.Atoi(text)
		switch {
		case err == nil && n >= least && n <= most:
			*value = n
			return nil
		case most == math.MaxInt:
			return fmt.Errorf("want a whole number of %d or more", least)
		}
		return fmt.Errorf("want a whole number, %d to %d", least, most)
	}}, name, about)
}

// checked is the value of a flag that refuses some texts.
type checked struct {
	kind string // as the help names it
	text func() string
	set  func(text string) error
}

func (c checked) Type() string          { return c.kind }
func (c checked) String() string        { return c.text() }
func (c checked) Set(text string) error { return c.set(text) }

// Import adds the flags for what files of timm and Google lack.
func (f Flags) Import(o *checkpoints.Hints) {
	f.Section("What the files of a model lack")
	f.Func("grid", "rows and columns of the position table, `RxC`", func(text string) (err error) {
		o.Grid, err = parseSize(text)
		return err
	})
	f.BoolVar(&o.AssumeSquare, "assume-square", false, "position tables of Google's files have a square grid")
	f.StringVar(&o.Architecture, "architecture", "", "timm's name of the architecture, without a config.json")
	f.Completion("architecture", checkpoints.ArchitectureNames()...)
}

// Unread refuses flags that have no effect in this case, as "without --knn".
func Unread(c *cobra.Command, where string, flags ...string) {
	for _, name := range flags {
		if c.Flags().Changed(name) {
			must.M(Usagef("--%s has no effect %s: leave it out", name, where))
		}
	}
}

// Choice adds a flag with a few values, the first the default.
func (f Flags) Choice(value *string, name, about string, words ...string) {
	*value = words[0]
	named := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == "" })
	f.Var(checked{strings.Join(named, "|"), func() string { return *value }, func(word string) error {
		if !slices.Contains(words, word) {
			return setting.Unknown("value", word, named)
		}
		*value = word
		return nil
	}}, name, about)
	f.Completion(name, words...)
}

// Completion completes a flag in the shell by some words.
func (f Flags) Completion(flag string, words ...string) {
	_ = f.command.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}
