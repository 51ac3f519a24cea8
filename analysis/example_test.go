// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis_test

import (
	"context"
	"fmt"
	"log"

	"github.com/wepe-go/wepe/analysis"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// The similarity of the position vectors of a pretrained model.
func Example() {
	_, images, err := data.Shapes(data.TaskWhere, 10, 5, 24, 1)
	if err != nil {
		log.Fatal(err)
	}
	analyses, err := analysis.Choose([]string{"similarity"})
	if err != nil {
		log.Fatal(err)
	}
	c := analysis.Comparison{Backend: gomlxtest.Backend(), Images: images, Analyses: analyses,
		Models: []analysis.Model{{Name: "demo", Path: "../examples/cifar100/demo/vit"}}}
	results, err := c.Run(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	table := analysis.Table(results.Rows, "similarity")
	fmt.Println(table.Rows[0][:2])
	// Output: [variance that principal axes explain first 1]
}
