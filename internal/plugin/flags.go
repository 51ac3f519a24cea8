// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"bytes"
	"io"
	"os"
	"strings"
)

// The CPU plugin of jaxlib 0.11.2 fuses reductions into YNNPACK kernels. Their iotas read beyond a shorter iota of an
// earlier kernel, so sums over an axis of x − iota are wrong, without an error (docs/evidence/upstream.md,
// backend.Check).
// Element-wise fusions, off by default, have the same defect. Both kinds, and fusions around products, stay off;
// kernels for single products and convolutions stay on, because they have no iota.
const (
	// FusionFlag selects the fusions.
	FusionFlag = "xla_cpu_experimental_ynn_fusion_type"
	noFusions  = "--" + FusionFlag + "=-LIBRARY_FUSION_TYPE_REDUCE,-LIBRARY_FUSION_TYPE_ELTWISE,-LIBRARY_FUSION_TYPE_DOT"
)

// withoutFusions adds noFusions to the user's XLA_FLAGS, or removes it again for a plugin without this flag: XLA ends
// the process at an unknown one. XLA reads flags from left to right, so the last one wins.
//
// XLA treats a value that does not begin with a dash as the name of a file of flags.
func withoutFusions(user string, known bool) (flags, note string) {
	flags = strings.TrimSpace(strings.ReplaceAll(user, noFusions, ""))
	if !known {
		return flags, ""
	}
	if flags != "" && !strings.HasPrefix(flags, "-") {
		content, _ := os.ReadFile(flags) // XLA ignores a file that cannot be read, too
		flags = strings.TrimSpace(string(content))
	}
	note = "; YNNPACK fusions off"
	if strings.Contains(flags, FusionFlag) {
		note += ", whatever XLA_FLAGS says: they compute wrong sums"
	}
	return strings.TrimSpace(flags + " " + noFusions), note
}

// Contains searches a stream for a text.
func Contains(r io.Reader, text string) (bool, error) {
	buffer := make([]byte, 1<<20)
	kept := 0 // end of the last read, in which the text may begin
	for {
		n, err := io.ReadFull(r, buffer[kept:])
		n += kept
		if bytes.Contains(buffer[:n], []byte(text)) {
			return true, nil
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return false, nil
		default:
			return false, err
		}
		kept = copy(buffer, buffer[n-len(text)+1:n])
	}
}
