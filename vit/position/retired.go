// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/wepe/weierstrass"
)

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
	"wepe_compression":      "tanh",
	"wepe_evaluation":       "exact",
	"wepe_final_clip":       "10000",
	"wepe_learn_oblique":    "false",
	"wepe_omega1":           fmt.Sprint(weierstrass.OmegaSquare),
	"wepe_scale_ratio":      "2",
	"wepe_sum_cut":          "12",
	"wepe_table":            "deflated",
	"wepe_table_error":      "0",
	"wepe_table_resolution": "256",
	"wepe_term_clip":        "5000",
}

// Retired reports whether a hyperparameter is one of an earlier version. A file may set it to the value that the
// encoding has always now; another value is an error, because the model would not be the one that was trained.
func Retired(position, name string, value any) (bool, error) {
	if _, known := retired[name]; !known {
		return false, nil
	}
	parts := slices.DeleteFunc(strings.Split(position, "+"), func(part string) bool { // that read settings of ℘
		return part != "hybrid" && !strings.HasPrefix(part, "wepe")
	})
	if len(parts) == 0 {
		parts = []string{position}
	}
	for _, part := range parts {
		want := constant(name, part)
		if fmt.Sprint(value) == want {
			continue
		}
		family, _, _ := strings.Cut(name, "_")
		remedy := "leave it out"
		if others := slices.DeleteFunc(Names(), func(other string) bool {
			return !strings.HasPrefix(other, family) || fmt.Sprint(value) != constant(name, other)
		}); len(others) > 0 {
			remedy += ", or use one of " + strings.Join(others, ", ")
		}
		return true, fmt.Errorf("position: %s is %v, which is always %s now with position %q: %s", name, value, want, part,
			remedy)
	}
	return true, nil
}

// constant is the value of a retired hyperparameter in an encoding, whose name decides.
func constant(name, part string) string {
	switch {
	case name == "wepe_compression" && (strings.HasPrefix(part, "wepe-sphere") || part == "wepe-qkv" || part == "wepe-v"):
		return "sphere"
	case name == "wepe_evaluation" && strings.HasSuffix(part, "-lut"):
		return "table"
	case name == "wepe_evaluation" && part == "wepe-sum":
		return "sum"
	}
	return retired[name]
}
