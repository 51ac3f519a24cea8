// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis_test

import (
	"context"
	"fmt"

	"github.com/janpfeifer/must"

	"github.com/wepe-go/wepe/analysis"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/study"
)

// The similarity of the position vectors of a pretrained model.
func Example() {
	_, images := must.M2(data.Shapes("where", 10, 5, 24, 1))
	c := analysis.Comparison{Backend: gomlxtest.Backend(), Images: analysis.Same(images, nil),
		Analyses: must.M1(analysis.Choose([]string{"similarity"})),
		Models:   []analysis.Model{{Name: "demo", Path: "../examples/cifar100/demo/vit"}}}
	rows, _ := must.M2(c.Run(context.Background()))
	table := analysis.Table(rows, "similarity")
	fmt.Println(table.Rows[0][:2])
	// Output: [variance explained by principal components first 1]
}

// The parameters of ViT-Ti/16 with 100 classes: with a learned table timm's 5,717,416 for 1,000 classes minus
// 900·193, without positions 197·192 less.
func ExampleCost() {
	cost := analysis.Cost{Sizes: []string{"Ti/16"}, Sides: []int{224}, Variants: study.Variants("learned", "none")}
	for _, row := range must.M1(cost.Run(context.Background())) {
		if row.Measure == "parameters" {
			fmt.Printf("%s %.0f\n", row.Model, row.Value)
		}
	}
	// Output:
	// learned 5543716
	// none 5505892
}
