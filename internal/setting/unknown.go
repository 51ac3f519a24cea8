// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package setting

import (
	"fmt"
	"strings"
)

// UnknownError is the error for a word that is none of the known names. A command adds what was probably meant.
type UnknownError struct {
	What, Word string
	Names      []string
}

// Error implements error.
func (e *UnknownError) Error() string {
	if len(e.Names) > 12 {
		return fmt.Sprintf("unknown %s %q: none of %d names", e.What, e.Word, len(e.Names))
	}
	return fmt.Sprintf("unknown %s %q: want one of %s", e.What, e.Word, strings.Join(e.Names, ", "))
}

// Unknown returns an UnknownError.
func Unknown(what, word string, names []string) error { return &UnknownError{what, word, names} }
