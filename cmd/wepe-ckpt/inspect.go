// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"

	"github.com/wepe-go/wepe/checkpoints"
)

// inspect says what files are.
func inspect(flags *flag.FlagSet, out io.Writer) func([]string) error {
	tensors := flags.Bool("tensors", false, "list every tensor with its type and shape")
	asJSON := flags.Bool("json", false, "write one JSON object, tensors included")
	return func(args []string) error {
		if err := want(args, "PATH"); err != nil {
			return err
		}
		path, err := local(args[0])
		if err != nil {
			return err
		}
		info, err := checkpoints.Inspect(path)
		if err != nil {
			return err
		}
		if *asJSON {
			encoder := json.NewEncoder(out)
			encoder.SetIndent("", "  ")
			return encoder.Encode(info)
		}
		if _, err := fmt.Fprint(out, info); err != nil || !*tensors {
			return err
		}
		return printLines(out, info.Tensors...)
	}
}
