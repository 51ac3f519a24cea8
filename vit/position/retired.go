// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import "fmt"

// retired are the hyperparameters of earlier versions, with the value that is constant now, printed.
var retired = map[string]string{
	"as2drope_rotate_class": "true",
	"cpe_blocks":            "1",
	"factorized_aspect":     "false",
	"fope_dim":              "0",
	"fope_gain":             "0.3",
	"fope_ignore_zero":      "true",
	"fope_learn":            "false",
	"fope_separate_basis":   "true",
	"fope_separate_head":    "true",
	"liere_first_layer":     "false",
	"liere_shared":          "false",
	"lookhere_distance":     "linear",
	"lookhere_fill":         "hidden",
	"lookhere_first":        "1.5",
	"lookhere_last":         "0.5",
	"lookhere_slope":        "1",
	"sincos2d_variant":      "mae",
}

// Retired reports whether a hyperparameter is one of an earlier version. A file may set it to the value that the
// encoding has now; another value is an error, because the model would not be the one that was trained.
func Retired(name string, value any) (bool, error) {
	want, known := retired[name]
	if known && fmt.Sprint(value) != want {
		return true, fmt.Errorf("position: %s is %v, which is always %s now: leave it out", name, value, want)
	}
	return known, nil
}
