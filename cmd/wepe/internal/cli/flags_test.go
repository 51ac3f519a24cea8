// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string][2]int{"24x32": {24, 32}, "1x7": {1, 7}} {
		if size, err := parseSize(text); err != nil || size != want {
			t.Errorf("%s: %v, %v", text, size, err)
		}
	}
	for _, wrong := range []string{"24", "24x32x1", "24x032", "0x8", "-8x8", "24x32 ", ""} {
		if size, err := parseSize(wrong); err == nil {
			t.Errorf("%q: %v, %v", wrong, size, err)
		}
	}
}
