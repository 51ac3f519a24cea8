// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"

	"github.com/wepe-go/wepe/finetune/engine"
)

// Ten steps of warm-up, then a half cosine: at the middle of it the rate is half of its peak.
func ExampleSchedule() {
	s := engine.Schedule{Peak: 1, Warmup: 10, Steps: 100}
	for _, step := range []int{0, 5, 10, 55, 100} {
		fmt.Printf("%.2f ", s.At(step))
	}
	// Output: 0.00 0.50 1.00 0.50 0.00
}
