// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"io"
)

// Figure is a PNG with a title and a caption.
type Figure struct {
	Title, Caption string
	PNG            []byte
}

// NewFigure returns a figure with the PNG from draw.
func NewFigure(title, caption string, draw func(io.Writer) error) (Figure, error) {
	var content bytes.Buffer
	err := draw(&content)
	return Figure{title, caption, content.Bytes()}, err
}
