// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64 && onnx

package onnx

import (
	"bytes"
	"testing"
)

// A file is refused, or its inputs and outputs have a batch size afterwards and fixing it again changes nothing.
func FuzzFixBatch(f *testing.F) {
	f.Add([]byte("\x3a\x14\x5a\x12\x0a\x01x\x12\x0d\x0a\x0b\x08\x01\x12\x07\x0a\x05\x12\x03bat"), 2)
	f.Add([]byte("\x3a\x0e\x5a\x0c\x0a\x01x\x12\x07\x0a\x05\x08\x01\x12\x01\x0a"), 1)
	f.Fuzz(func(t *testing.T, raw []byte, size int) {
		fixed, err := fixBatch(raw, size)
		if err != nil || size <= 0 {
			return
		}
		if again, err := fixBatch(fixed, size+1); err != nil || !bytes.Equal(again, fixed) {
			t.Errorf("a second time: %v", err)
		}
	})
}
