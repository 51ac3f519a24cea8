// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
	"github.com/wepe-go/wepe/cmd/wepe/internal/run"
	"github.com/wepe-go/wepe/finetune"
)

// opening are the flags for opening MODEL.
type opening struct {
	backend, weights string
	size             [2]int
	files            checkpoints.ImportOptions
}

func (o *opening) flags(f cli.Flags) {
	f.Weights(&o.weights)
	f.Size(&o.size)
	f.Import(&o.files)
	f.Backend(&o.backend)
}

// with opens the backend and MODEL for a function.
func (o *opening) with(c *cobra.Command, path string, do func(m *finetune.Model) error) error {
	b, err := openBackend(o.backend, 0)
	if err != nil {
		return err
	}
	defer b.Finalize()
	m, err := run.Open(c.Context(), b, path, o.weights, o.size, o.files)
	if err != nil {
		return err
	}
	defer m.Finalize()
	m.Logger = cli.Logger()
	return do(m)
}

func predict() *cobra.Command {
	var o opening
	var top int
	var asJSON bool
	var tta string
	c := &cobra.Command{Use: "predict MODEL IMAGE...", Short: "Print labels and probabilities of images",
		Args: cobra.MinimumNArgs(2), Example: "  wepe predict runs/finetune-pets cat.jpg dog.png --top 3"}
	f := cli.Flags{Command: c}
	c.Flags().IntVar(&top, "top", 5, "classes per image")
	o.flags(f)
	f.TestTime(&tta)
	f.JSON(&asJSON)
	c.RunE = func(c *cobra.Command, args []string) error {
		if top < 1 {
			return cli.Usagef("--top %d: want 1 or more", top)
		}
		return o.with(c, args[0], func(m *finetune.Model) error {
			if err := m.AverageViews(tta); err != nil {
				return err
			}
			return printPredictions(c, m, args[1:], top, asJSON)
		})
	}
	return c
}

// prediction is the JSON of an image.
type prediction struct {
	Image   string           `json:"image"`
	Error   string           `json:"error,omitempty"`
	Classes []finetune.Class `json:"classes,omitempty"`
}

func printPredictions(c *cobra.Command, m *finetune.Model, images []string, top int, asJSON bool) error {
	answers, failed := m.Predict(images, top)
	var unread finetune.Unread
	if failed != nil && !errors.As(failed, &unread) {
		return failed
	}
	out, list := cli.Output(c), []prediction{}
	for i, image := range images {
		p := prediction{Image: image, Classes: answers[i]}
		if err := unread[i]; err != nil {
			p.Error = err.Error()
		}
		if list = append(list, p); asJSON || p.Classes == nil {
			continue
		}
		out.Printf("%s\n", image)
		for _, a := range p.Classes {
			if m.Scores == "none" { // outputs of a regression
				out.Printf("  %9.5g  %s\n", a.Probability, a.Name)
			} else {
				out.Printf("  %5.1f %%  %s\n", 100*a.Probability, a.Name)
			}
		}
	}
	if asJSON {
		return errors.Join(cli.JSON(c.OutOrStdout(), map[string]any{"predictions": list}), failed)
	}
	return errors.Join(out.Err(), failed)
}
