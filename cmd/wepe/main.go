// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command wepe trains, fine-tunes, evaluates, compares, imports, exports and analyzes Vision Transformers. Run wepe
// --help.
//
// Every subcommand has its own file; they share internal/cli (terminal, flags, exit codes), internal/dataset (--data)
// and internal/run (a run's directory, MODEL).
package main

import (
	"github.com/spf13/cobra"

	"github.com/wepe-go/wepe/backend"
	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
)

func main() {
	backend.Tune()
	cli.Main(command())
}

// command is the tree of subcommands.
func command() *cobra.Command {
	root := cli.Group("wepe", "Vision Transformers with Weierstrass elliptic positional encoding, in GoMLX",
		train(), resume(), evaluate(), predict(), compare(), export(), inspect(), verify(), extract(), analyze(), detect(),
		serveModel(), list(), doctor(), licenses(), version())
	root.Version = versionLine()
	root.Long = root.Short + `.

  wepe train                                      an example without data of your own, seconds
  wepe train --data DIR                           train on a folder per class
  wepe train hf://owner/name --data DIR           fine-tune a pretrained model
  wepe predict runs/finetune-DIR cat.jpg

MODEL is a run's directory, one of its checkpoints, a file or directory of Hugging Face, timm or Google, or
hf://owner/name[@revision].

Exit codes:
` + cli.ExitCodes()
	root.CompletionOptions.HiddenDefaultCmd = false
	return root
}
