// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package setting

import (
	"fmt"
	"strings"
)

// RangeError means that a number of a recipe is out of its range.
type RangeError struct {
	Field string // the name of its setting
	Value float64
	Want  string
}

// Error names the setting, its value and what it must be.
func (e *RangeError) Error() string {
	return fmt.Sprintf("%s is %g, want %s", e.Field, e.Value, e.Want)
}

// In returns a *RangeError unless a number is ok.
func In[T int | float64](field string, value T, ok bool, want string) error {
	if ok {
		return nil
	}
	return &RangeError{field, float64(value), want}
}

// UnknownError is the error for a word that is none of the known names. A command adds what was probably meant.
type UnknownError struct {
	What, Word string
	Names      []string
}

// Error implements error.
func (e *UnknownError) Error() string {
	if len(e.Names) > 12 {
		return fmt.Sprintf("unknown %s %q", e.What, e.Word)
	}
	return fmt.Sprintf("unknown %s %q: want one of %s", e.What, e.Word, strings.Join(e.Names, ", "))
}

// Unknown returns an UnknownError.
func Unknown(what, word string, names []string) error { return &UnknownError{what, word, names} }
