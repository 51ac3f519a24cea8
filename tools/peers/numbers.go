// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/gomlx/compute"
)

// numbers are the fields of requests that compute something other than a model.
type numbers struct{}

// compute answers the requests of numbers.py.
func (r request) compute(compute.Backend) (answer, error) {
	return answer{}, fmt.Errorf("unknown operation %q", r.Op)
}
