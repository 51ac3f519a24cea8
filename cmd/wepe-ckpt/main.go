// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command wepe-ckpt looks into files of models, converts, folds and compares them. See wepe-ckpt help.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/finetune/backend"
)

const usage = `wepe-ckpt looks into files of Vision Transformers, converts, folds and compares them.

    wepe-ckpt inspect PATH            what it is: format, model, grid, head, types; -tensors, -json
    wepe-ckpt convert -to F FROM TO   any format to any other; other image sizes, classes and types on the way
    wepe-ckpt fold FROM TO            a model of ours as an ordinary ViT: the encoding becomes a table
    wepe-ckpt verify PATH             sums and structure of files, of all checkpoints of a run
    wepe-ckpt verify A B              the logits of two models on random images

A PATH, FROM, A or B is a .safetensors or .npz file, a directory with model.safetensors or its shards, a directory that
convert wrote, the directory of a training run or of one of its checkpoints, or hf://owner/name, a model of the Hugging
Face hub. TO is a new directory. The formats are

    hf         Hugging Face's ViTForImageClassification
    timm       timm's VisionTransformer
    jax        Google's vision_transformer, .npz
    unfolded   this library's variables, with any position encoding
    onnx       a graph for ONNX Runtime, written only; the program needs -tags=onnx

Examples:

    wepe-ckpt inspect vit-base-patch16-224
    wepe-ckpt convert -to timm -epsilon 1e-6 vit-base-patch16-224 out/timm
    wepe-ckpt convert -to hf -image-size 384 -resample bilinear -assume-square B_16.npz out/b16-384
    wepe-ckpt convert -to hf -dtype bfloat16 runs/first out/first
    wepe-ckpt convert -to unfolded -image-size 384 hf://google/vit-base-patch16-224 out/vit-384
    wepe-ckpt fold -to timm runs/first out/first-timm
    wepe-ckpt verify runs/first out/first-timm
    wepe-ckpt verify -onnx out/first-onnx/model.onnx runs/first

Every command explains its flags: wepe-ckpt convert -help. The exit status is 0, 1 for a failure or a difference, 2 for
a command that makes no sense.
`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// subcommand adds its flags and returns what is to be done when they are parsed.
type subcommand func(flags *flag.FlagSet, out io.Writer) func(args []string) error

// commands are what the first argument names.
var commands = map[string]subcommand{
	"inspect": inspect,
	"convert": writes("", false),
	"fold":    writes(checkpoints.FormatHF, true),
	"verify":  verify,
}

// errUsage marks errors of the command line.
var errUsage = errors.New("see wepe-ckpt help")

// run is the program; what it returns is its exit status.
func run(args []string, out, complaints io.Writer) int {
	complain := func(status int, err error) int {
		fmt.Fprintf(complaints, "wepe-ckpt: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
		return status
	}
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "-help" || args[0] == "--help" {
		fmt.Fprint(out, usage)
		return 0
	}
	command, ok := commands[args[0]]
	if !ok {
		return complain(2, fmt.Errorf("unknown command %q: %w", args[0], errUsage))
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard) // an error is one line; -help prints the flags
	do := command(flags, out)
	if err := flags.Parse(args[1:]); errors.Is(err, flag.ErrHelp) {
		var text bytes.Buffer
		flags.SetOutput(&text)
		flags.PrintDefaults()
		fmt.Fprintf(out, "flags of wepe-ckpt %s:\n%s", args[0], text.String())
		return 0
	} else if err != nil {
		return complain(2, fmt.Errorf("%s: %w", args[0], err))
	}
	var err error
	if panicked := exceptions.TryCatch[error](func() { err = do(flags.Args()) }); panicked != nil {
		err = panicked // graph code refuses by a panic
	}
	switch {
	case errors.Is(err, errUsage):
		return complain(2, fmt.Errorf("%s: %w", args[0], err))
	case err != nil:
		return complain(1, err)
	}
	return 0
}

// printLines writes a line for each value.
func printLines[T any](out io.Writer, values ...T) error {
	for _, value := range values {
		if _, err := fmt.Fprintln(out, value); err != nil {
			return err
		}
	}
	return nil
}

// want checks the number of arguments.
func want(args []string, names ...string) error {
	if len(args) != len(names) {
		return fmt.Errorf("%d arguments, want %s after the flags: %w", len(args), strings.Join(names, " "), errUsage)
	}
	return nil
}

// openBackend opens what GOMLX_BACKEND names, else pure Go: conversions are small, and it is always there.
func openBackend() (compute.Backend, error) {
	if os.Getenv(compute.ConfigEnvVar) == "" {
		return compute.NewWithConfig("go:ops_sequential")
	}
	return backend.Open()
}
