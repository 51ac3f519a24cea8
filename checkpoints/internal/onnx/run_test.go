// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64 && onnx

package onnx

import (
	"bytes"
	"testing"

	"github.com/wepe-go/wepe/internal/campaign"
)

// A file is refused, or its inputs and outputs have a batch size afterwards and fixing it again changes nothing.
func FuzzFixBatch(f *testing.F) {
	seeds := []string{"\x3a\x14\x5a\x12\x0a\x01x\x12\x0d\x0a\x0b\x08\x01\x12\x07\x0a\x05\x12\x03bat",
		"\x3a\x0e\x5a\x0c\x0a\x01x\x12\x07\x0a\x05\x08\x01\x12\x01\x0a"}
	campaign.Fuzz(f, seeds, func(t *testing.T, raw string) {
		fixed, err := fixBatch([]byte(raw), 2)
		if err != nil {
			return
		}
		if again, err := fixBatch(fixed, 3); err != nil || !bytes.Equal(again, fixed) {
			t.Errorf("a second time: %v", err)
		}
	})
}
