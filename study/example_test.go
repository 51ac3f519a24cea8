// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/study"
)

// Two encodings, two steps each. A result needs three seeds or more and all steps of a recipe.
func Example() {
	train, test, err := data.Shapes(data.TaskWhere, 60, 20, 32, 1)
	if err != nil {
		log.Fatal(err)
	}
	recipe, err := finetune.Named("shapes")
	if err != nil {
		log.Fatal(err)
	}
	recipe.Epochs, recipe.WarmupEpochs, recipe.Steps, recipe.EvalSteps = 0, 0, 2, 2
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s := study.Study{Dir: dir, Variants: study.Each("learned", "wepe-sphere"), Seeds: 1, Backend: gomlxtest.Backend(),
		Tasks: []study.Task{{Recipe: recipe, Images: study.Sets(train, test)}}}
	if err := s.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
	table, err := s.Table()
	if err != nil {
		log.Fatal(err)
	}
	for _, line := range table.Rows {
		fmt.Println(line[0])
	}
	// Output:
	// learned
	// wepe-sphere
}
