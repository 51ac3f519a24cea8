// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"strings"
	"testing"
)

// A repeated scan takes few bytes in the file, and a pass over the image each time.
func TestScansOfAJPEGAreLimited(t *testing.T) {
	raw := goldenFiles(t)["progressive.jpg"]
	scan, tables := []byte{0xff, markerScan}, []byte{0xff, 0xc4}
	first := bytes.Index(raw, scan)
	second := first + 2 + bytes.Index(raw[first+2:], tables)
	for _, c := range []struct {
		more int
		ok   bool
	}{{0, true}, {maxScans, false}} {
		file := append(bytes.Clone(raw[:first]), bytes.Repeat(raw[first:second], c.more)...)
		_, err := Decode(bytes.NewReader(append(file, raw[first:]...)), 0)
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "at most 100") {
			t.Errorf("%d more scans: %v", c.more, err)
		}
	}
}
