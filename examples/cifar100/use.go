// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/examples/internal/backends"
	"github.com/wepe-go/wepe/examples/internal/progress"
	"github.com/wepe-go/wepe/finetune"
)

// withModel opens the first trained model for use.
func (o options) withModel(use func(*finetune.Model) error) error {
	backend, err := backends.Open()
	if err != nil {
		return err
	}
	defer backend.Finalize()
	model, err := finetune.Open(backend, o.dir(o.units()[0]))
	if err != nil {
		return err
	}
	return use(model)
}

// predictWith names what a model sees in image files.
func (o options) predictWith(model *finetune.Model) error {
	for _, file := range o.predict {
		classes, err := model.Predict(file, o.top)
		if err != nil {
			return err
		}
		fmt.Println(file)
		for _, c := range classes {
			fmt.Printf("  %5.1f %%  %s\n", 100*c.Probability, c.Name)
		}
	}
	return nil
}

// exportFrom writes a model for other software.
func (o options) exportFrom(model *finetune.Model) error {
	lines, err := model.Export(o.export, checkpoints.ExportOptions{Format: o.format})
	for _, line := range lines {
		progress.Line(line)
	}
	return err
}
