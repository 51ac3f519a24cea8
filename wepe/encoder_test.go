// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// float64Runs says whether the test backend evaluates P in float64.
func float64Runs(t *testing.T) bool {
	t.Helper()
	err := exceptions.TryCatch[error](func() {
		exec := MustNewExec(gomlxtest.Backend(), derivativesOf)
		exec.MustCall(0.3, 0.7, 2.0, 3.0)
	})
	return err == nil
}
