// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/suggest"
	"github.com/wepe-go/wepe/vit"
)

// Flags adds the flags that several subcommands have, with one name and one meaning.
type Flags struct{ *cobra.Command }

// Data adds --data.
func (f Flags) Data(value *string, byDefault, about string) {
	f.Command.Flags().StringVar(value, "data", byDefault, about)
}

// DataForms lists the forms of --data.
const DataForms = "shapes[:TASK], cifar100:DIR-or-archive, vtab:TASK:DIR, or a directory with a folder per class, " +
	"tar shards or Parquet files"

// Out adds --out.
func (f Flags) Out(value *string, about string) { f.Command.Flags().StringVar(value, "out", "", about) }

// Weights adds --weights.
func (f Flags) Weights(value *string) {
	f.Command.Flags().Var(choice{value, []string{checkpoints.BestDir, checkpoints.LastDir}}, "weights",
		"weights of a run: best on its validation split, or last")
	*value = checkpoints.BestDir
	f.completion("weights", checkpoints.BestDir, checkpoints.LastDir)
}

// Backend adds --backend.
func (f Flags) Backend(value *string) {
	f.Command.Flags().
		StringVar(value, "backend", "", "as GOMLX_BACKEND, which it overrides: xla:cuda, xla:cpu, onnx:cpu, go")
}

// Size adds --size.
func (f Flags) Size(value *[2]int) {
	f.Command.Flags().Var((*size)(value), "size", "image size of the model, height x width in pixels; default its own")
}

// Position adds --position.
func (f Flags) Position(value *string, about string) {
	f.Command.Flags().StringVar(value, "position", "", about+" (wepe list positions)")
	f.completion("position", vit.PositionNames()...)
}

// Aspect adds --aspect.
func (f Flags) Aspect(value *string) {
	f.Command.Flags().StringVar(value, "aspect", "", "images of another aspect ratio than the model's: crop (default), "+
		"squash, or keep, a grid of its own for each")
	f.completion("aspect", finetune.Aspects()...)
}

// TestTime adds --tta.
func (f Flags) TestTime(value *string) {
	f.Choice(value, "tta", "average the probabilities of several views of each image (test-time augmentation): the image "+
		"and its mirror image, or ten crops", "none", "flip", "ten-crop")
}

// Set adds --set.
func (f Flags) Set(value *[]string, about string) {
	f.Command.Flags().StringArrayVar(value, "set", nil, about)
}

// JSON adds --json.
func (f Flags) JSON(value *bool) {
	f.Command.Flags().BoolVar(value, "json", false, "print one JSON object")
}

// Import adds what files of timm and Google leave open.
func (f Flags) Import(o *checkpoints.ImportOptions) {
	f.Command.Flags().
		Var(grid{&o.Grid}, "grid", "patches of the position table, as 14x14, where the model's files lack it")
	f.Command.Flags().BoolVar(&o.AssumeSquare, "assume-square", false, "that grid is square")
	f.Command.Flags().StringVar(&o.Architecture, "architecture", "", "of timm, where the model has no config.json")
}

// grid is a flag of patches.
type grid struct{ *checkpoints.Grid }

func (grid) Type() string { return "RxC" }

func (f Flags) completion(flag string, words ...string) {
	_ = f.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// size is a flag of a height and a width.
type size [2]int

func (s *size) String() string {
	if *s == (size{}) {
		return ""
	}
	return fmt.Sprintf("%dx%d", s[0], s[1])
}

func (*size) Type() string { return "HxW" }

func (s *size) Set(text string) error {
	read, err := ParseSize(text)
	*s = read
	return err
}

// ParseSize reads a height and a width, as "224x224".
func ParseSize(text string) (out [2]int, err error) {
	var rest string
	n, _ := fmt.Sscanf(text+" ", "%dx%d%1s", &out[0], &out[1], &rest)
	if n != 2 || out[0] < 1 || out[1] < 1 {
		return out, fmt.Errorf("want HEIGHTxWIDTH, as 224x224")
	}
	return out, nil
}

// choice is a flag of a few words.
type choice struct {
	value *string
	words []string
}

func (c choice) String() string {
	if c.value == nil {
		return ""
	}
	return *c.value
}

func (c choice) Type() string { return strings.Join(c.words, "|") }

func (c choice) Set(word string) error {
	for _, w := range c.words {
		if w == word {
			*c.value = word
			return nil
		}
	}
	return suggest.Unknown("value", word, c.words)
}

// Choice adds a flag of a few words, the first the default.
func (f Flags) Choice(value *string, name, about string, words ...string) {
	*value = words[0]
	f.Command.Flags().Var(choice{value, words}, name, about)
	f.completion(name, words...)
}
