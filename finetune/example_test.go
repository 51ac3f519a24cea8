// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune_test

import (
	"context"
	"fmt"
	"log"

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/data"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// A whole training. Without an expected output this is compiled and not run: it takes minutes and CIFAR-100.
//
//nolint:ineffassign,wastedassign // the README shows it without its checks
func ExampleRun() {
	ctx, backend := context.Background(), gomlxtest.Backend()
	recipe, err := finetune.Named("cifar100-small")
	train, test, err := data.CIFAR100("cifar-100-binary")
	run := finetune.Run{Backend: backend, Recipe: recipe, Train: train, Test: test, Dir: "runs/first"}
	trained, row, err := run.Do(ctx) // interrupted? the same call goes on where it stopped
	if err != nil {
		log.Fatal(err)
	}
	defer trained.Finalize()
	fmt.Println(row.Test.Top1)
}
