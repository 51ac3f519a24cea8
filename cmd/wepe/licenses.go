// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"compress/gzip"
	"embed"
	"errors"
	"io"
	"io/fs"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
)

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
		if err != nil {
			return err
		}
		texts, err := gzip.NewReader(file)
		if err != nil {
			return err
		}
		raw, err := io.ReadAll(texts)
		out.Print("\n" + string(raw))
		return err
	}
	return c
}
