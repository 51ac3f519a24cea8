// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"fmt"
	"strings"
	"testing"
)

// With fewer than four heads both axes come before both directions.
func TestFewHeadsOfLookHereSeeUpThenLeftThenDown(t *testing.T) {
	for n, want := range map[int]string{1: "[up]", 2: "[up] [left]", 3: "[up] [left] [down]",
		4: "[up] [down] [left] [right]"} {
		var views []string
		for _, h := range lookHereHeads("halves", n) {
			views = append(views, fmt.Sprint(h.views))
		}
		if got := strings.Join(views, " "); got != want {
			t.Errorf("%d heads see %s, want %s", n, got, want)
		}
	}
}
