// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/wepe-go/wepe/finetune/engine"
)

// After the first step of a resumed run the time left is unknown.
func TestOnlyAKnownTimeLeftIsPrinted(t *testing.T) {
	for want, p := range map[string]engine.Progress{
		"step 6/405  loss 2.500  137 images/s": {Step: 6, Steps: 405, Loss: 2.5, ImagesPerSecond: 137},
		"step 7/405  loss 2.500  137 images/s  1m7s left": {Step: 7, Steps: 405, Loss: 2.5, ImagesPerSecond: 137,
			Left: 67 * time.Second},
		"step 405/405  loss 2.500  137 images/s  0s left": {Step: 405, Steps: 405, Loss: 2.5, ImagesPerSecond: 137},
	} {
		if got := progressLine("a", p); !strings.HasSuffix(got, want) || !strings.HasPrefix(got, "a  step") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
