// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package features

import (
	"math"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func TestAProbeOfOneTrainingImagePerClassIsRefused(t *testing.T) {
	single := table(21, 7, 0, false)
	for i := range single.Images {
		if single.Images[i].Part = testPart; i < 7 {
			single.Images[i].Part = trainPart
		}
	}
	if _, _, err := probe(single, 0); err == nil || !strings.Contains(err.Error(), "too few images") {
		t.Error(err)
	}
}

// ±1000 and the next float32 differ only by rounding; 1 and 3 millionths differ from their mean by one millionth.
func TestOnlyFeaturesThatDifferByMoreThanRoundingAreScaled(t *testing.T) {
	made := &Table{Width: 4, Values: []float32{1000, 1e-6, -1000, 0,
		math.Nextafter32(1000, 2000), 3e-6, -math.Nextafter32(1000, 2000), 0}}
	gomlxtest.NearAbs(t, "scaled", made.scale([]int{0, 1}).apply(made.Values), []float64{0, -1, 0, 0, 0, 1, 0, 0}, 1e-6)
}
