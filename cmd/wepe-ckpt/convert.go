// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
)

// writes is a command that writes a model in a format, "to" without -to, as it is or folded: a model of ours as an
// ordinary ViT.
func writes(to string, folded bool) subcommand {
	return func(flags *flag.FlagSet, out io.Writer) func([]string) error {
		var from source
		var o checkpoints.ExportOptions
		from.add(flags)
		flags.StringVar(&o.Format, "to", to, "format to write: hf, timm, jax, unfolded or onnx")
		flags.StringVar(&o.DType, "dtype", "float32", "type of the numbers on disk: float32, float16 or bfloat16")
		flags.Float64Var(&o.Epsilon, "epsilon", 0, "epsilon of the norms; timm and jax know 1e-6 alone; default the model's")
		flags.IntVar(&o.Batch, "batch", 1, "images per call of an ONNX file")
		return func(args []string) error {
			if o.Format == "" {
				return fmt.Errorf("-to says which format: hf, timm, jax, unfolded or onnx: %w", errUsage)
			}
			if err := o.Validate(); err != nil {
				return fmt.Errorf("%w: %w", err, errUsage)
			}
			return from.export(args, o, folded, out)
		}
	}
}

// export reads one model and writes it.
func (s source) export(args []string, o checkpoints.ExportOptions, folded bool, out io.Writer) error {
	if err := want(args, "FROM", "TO"); err != nil {
		return err
	}
	m, err := s.read(args[0])
	if err != nil {
		return err
	}
	backend, err := openBackend()
	if err != nil {
		return err
	}
	defer backend.Finalize()
	o.Labels, o.Preprocess = m.Labels, m.Preprocess
	store, c := model.NewStore(), m.Config
	if err := m.Load(store.Scope("/vit")); err != nil {
		return err
	}
	if folded && c.Position != c.Encoding().Folded() {
		if store, c, err = c.Fold(backend, store.Scope("/vit")); err != nil {
			return err
		}
		m.Report = append(m.Report, fmt.Sprintf("positions: %s folded into a table", m.Config.Position))
	}
	report, err := checkpoints.Export(args[1], backend, store.Scope("/vit"), c, o)
	if err != nil {
		return err
	}
	return printLines(out, append(m.Report, report...)...)
}
