// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study_test

import (
	"context"
	"fmt"
	"os"

	"github.com/janpfeifer/must"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/study"
)

// Two encodings, two steps each. A result needs three seeds or more and all steps of a recipe.
func Example() {
	train, test := must.M2(data.Shapes("where", 60, 20, 32, 1))
	recipe := must.M1(finetune.RecipeByName("shapes"))
	recipe.Epochs, recipe.WarmupEpochs, recipe.Steps, recipe.EvalEverySteps = 0, 0, 2, 2
	dir := must.M1(os.MkdirTemp("", ""))
	defer os.RemoveAll(dir)
	s := study.Study{Dir: dir, Variants: study.Variants("learned", "wepe-sphere"), Seeds: 1, Backend: gomlxtest.Backend(),
		Tasks: []study.Task{{Recipe: recipe, Images: study.Sets(train, test)}}}
	must.M(s.Run(context.Background()))
	table := must.M1(s.Table())
	for _, line := range table.Rows {
		fmt.Println(line[0])
	}
	// Output:
	// learned
	// wepe-sphere
}

// Task 2 of a Slurm job array of four runs every fourth training run.
func ExampleParseShard() {
	slurm := map[string]string{"SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_TASK_MIN": "0", "SLURM_ARRAY_TASK_MAX": "3",
		"SLURM_ARRAY_TASK_COUNT": "4", "SLURM_ARRAY_TASK_STEP": "1"}
	lookup := func(name string) (string, bool) { value, ok := slurm[name]; return value, ok } // or os.LookupEnv
	shard := must.M1(study.ParseShard("", lookup, 0))
	fmt.Printf("%d/%d\n", shard.Index, shard.Of)
	// Output: 2/4
}
