// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
	"github.com/wepe-go/wepe/cmd/wepe/internal/run"
	"github.com/wepe-go/wepe/internal/printable"
)

func inspect() *cobra.Command {
	var weights string
	var tensors, asJSON bool
	var options checkpoints.ImportOptions
	c := &cobra.Command{Use: "inspect MODEL", Args: cobra.ExactArgs(1),
		Short: "Print format, architecture, grid, encoding, head and types of a model"}
	f := cli.FlagsOf(c)
	f.BoolVar(&tensors, "tensors", false, "list every tensor with its type and shape")
	f.Checkpoint(&weights, "checkpoint of a run")
	f.Import(&options.Hints)
	f.JSON(&asJSON)
	c.RunE = func(c *cobra.Command, args []string) error {
		chosen, line, err := run.Weights(c.Context(), args[0], weights)
		if err != nil {
			return err
		}
		info, err := checkpoints.Inspect(chosen, options)
		if err != nil {
			return err
		}
		if asJSON {
			return cli.JSON(c.OutOrStdout(), info)
		}
		out := cli.Output(c)
		out.Print(info.String())
		if line != "" {
			out.Printf("%-10s %s\n", "weights", line)
		}
		for _, t := range info.Tensors {
			if tensors {
				out.Printf("%s %s %v\n", printable.Name(t.Name), t.DType, t.Shape)
			}
		}
		return nil
	}
	return c
}
