// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

const end = "<!-- end -->"

// region replaces what stands between the line marker and the next line "<!-- end -->", wherever the marker stands.
func region(markdown, marker string, content func() (string, error)) (string, error) {
	var out strings.Builder
	inside := false
	for line := range strings.Lines(markdown) {
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == marker && inside:
			return "", fmt.Errorf("%q has no %q before the next one", marker, end)
		case trimmed == marker:
			text, err := content()
			if err != nil {
				return "", err
			}
			out.WriteString(line + "\n" + text + "\n")
			inside = true
		case trimmed == end && inside:
			out.WriteString(line)
			inside = false
		case !inside:
			out.WriteString(line)
		}
	}
	if inside {
		return "", fmt.Errorf("%q has no %q", marker, end)
	}
	return out.String(), nil
}
