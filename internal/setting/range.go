// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package setting

import "fmt"

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
