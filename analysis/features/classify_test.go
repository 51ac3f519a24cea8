// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package features

import (
	"strings"
	"testing"
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
