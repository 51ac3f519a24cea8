// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package program

import "testing"

func TestADownloadTellsAFewLines(t *testing.T) {
	for _, c := range []struct {
		size, total int64
		want        int // lines
		last        string
	}{
		{330 << 20, 330 << 20, 11, "model.safetensors, 100 % of 330 MB"},
		{330 << 20, -1, 6, "model.safetensors, 320 MB"}, // the hub does not say
		{0, 0, 1, "model.safetensors, 0 MB"},
	} {
		lines := map[string]bool{}
		last := ""
		for done := int64(0); done <= c.size; done += 1 << 17 { // as many as are read at a time
			last = tell("model.safetensors", done, c.total)
			lines[last] = true
		}
		if len(lines) != c.want || last != c.last {
			t.Errorf("%d bytes of %d: %d lines, want %d; the last is %q, want %q", c.size, c.total, len(lines), c.want, last,
				c.last)
		}
	}
}
