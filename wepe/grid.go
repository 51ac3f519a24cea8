// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import "github.com/gomlx/gomlx/support/exceptions"

// grid is the tokens that an encoder serves: prefix tokens, then patches row by row, each a vector of the given width.
type grid struct{ rows, cols, prefix, width int }

// validate panics, naming the sizes, on a grid without patches.
func (l grid) validate() {
	if l.rows < 1 || l.cols < 1 || l.width < 1 || l.prefix < 0 {
		exceptions.Panicf("wepe: grid %d×%d, width %d, prefix %d: want at least 1×1, 1, 0", l.rows, l.cols, l.width,
			l.prefix)
	}
}

// positions is the length of the sequence.
func (l grid) positions() int { return l.prefix + l.rows*l.cols }

// centre returns the centre of patch k in (0, 1)², mathematics.md (6.1).
func (l grid) centre(k int) (u, v float64) {
	return (float64(k%l.cols) + 0.5) / float64(l.cols), (float64(k/l.cols) + 0.5) / float64(l.rows)
}
