// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package is has the assertions of the tests: a failed one is reported, and the test goes on.
package is

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

// Equal fails the test unless two values are deeply equal.
func Equal[T any](t testing.TB, what any, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v: got %+v, want %+v", what, got, want)
	}
}

// Near fails the test unless two numbers differ by at most a tolerance.
func Near(t testing.TB, what any, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%v: got %g, want %g within %g", what, got, want, tolerance)
	}
}

// Error fails the test unless an error is, or wraps, another.
func Error(t testing.TB, what any, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%v: got error %v, want %v", what, err, want)
	}
}

// Refused fails the test unless there is an error, of one line with the given words.
func Refused(t testing.TB, what any, err error, words ...string) {
	t.Helper()
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v: got %v, want an error of one line with %q", what, err, words)
		return
	}
	Said(t, what, err.Error(), words...)
}

// Said fails the test unless a text has the given words.
func Said(t testing.TB, what any, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%v: want %q in %s", what, word, text)
		}
	}
}

// ErrorOf is the error of a call with one more result.
func ErrorOf[T any](_ T, err error) error { return err }
