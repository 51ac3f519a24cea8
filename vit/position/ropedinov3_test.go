// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"fmt"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// The first and the last period are those given, of any size, and the others between them geometric.
func TestDINOv3PeriodsAreGeometric(t *testing.T) {
	for n, of := range map[int]struct {
		rope dinoRope
		want []float64
	}{
		1: {dinoRope{shortest: 3, longest: 7}, []float64{3}},
		2: {dinoRope{theta: 49}, []float64{1, 7}}, // the next is θ
		3: {dinoRope{theta: 100, shortest: 0.2, longest: 0.05}, []float64{0.2, 0.1, 0.05}},
	} {
		gomlxtest.NearAbs(t, fmt.Sprint(n), of.rope.periods(n), of.want, 1e-12)
	}
}
