// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command wepe trains, fine-tunes, evaluates, compares, imports, exports and analyzes Vision Transformers. Run wepe
// --help.
//
// A file holds one subcommand, or a few that belong together; they share internal/cli (terminal, flags, exit codes),
// internal/dataset (--data) and internal/run (a run's directory, MODEL). A step of a command that fails ends it by
// must.M: cli.Run returns the error.
package main

import (
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/gomlx/compute"
	"github.com/janpfeifer/must"
	"github.com/spf13/cobra"

	"github.com/wepe-go/wepe/backend"
	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
	"github.com/wepe-go/wepe/report"
)

func main() {
	backend.Tune()
	cli.Main(command())
}

// command is the tree of subcommands.
func command() *cobra.Command {
	root := cli.Group("wepe", "Position encodings for Vision Transformers, in GoMLX",
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

// fields writes the line about the backend as the field "backend".
type fields struct{}

func (fields) Write(text []byte) (int, error) {
	line := strings.TrimSpace(string(text))
	cli.Field("backend", "%s", strings.TrimPrefix(line, "backend: "))
	return len(text), nil
}

// openBackend opens the backend of --backend or GOMLX_BACKEND, or the fastest installed one.
func openBackend(config string, devices int) compute.Backend {
	return must.M1(backend.Open(backend.Config(config), backend.Devices(devices), backend.Log(fields{})))
}

// versionLine is the version and commit of the program, from its build information, and the platform.
func versionLine() string {
	version := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	return fmt.Sprintf("%s, commit %s, %s %s/%s", version, report.Commit(), runtime.Version(), runtime.GOOS,
		runtime.GOARCH)
}

func version() *cobra.Command {
	return &cobra.Command{Use: "version", Args: cobra.NoArgs, Short: "Print version, commit and platform of this program",
		Run: func(c *cobra.Command, _ []string) { cli.Output(c).Printf("wepe %s\n", versionLine()) }}
}

//go:embed licenses
var licenseTexts embed.FS

func licenses() *cobra.Command {
	c := &cobra.Command{Use: "licenses", Args: cobra.NoArgs,
		Short: "Print the modules in this program, and their licences where the build has them (make static)"}
	c.RunE = func(c *cobra.Command, _ []string) error {
		out := cli.Output(c)
		out.Printf("wepe: Apache-2.0\n")
		if info, ok := debug.ReadBuildInfo(); ok {
			for _, m := range info.Deps {
				out.Printf("%s %s\n", m.Path, m.Version)
			}
		}
		file, err := licenseTexts.Open("licenses/third-party.txt.gz")
		if errors.Is(err, fs.ErrNotExist) {
			out.Printf("\nThis build has no licence texts; each module contains its own.\n")
			return nil
		}
		must.M(err)
		raw, err := io.ReadAll(must.M1(gzip.NewReader(file)))
		out.Print("\n" + string(raw))
		return err
	}
	return c
}
