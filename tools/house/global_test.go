// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package house

import (
	"reflect"
	"runtime"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	_ "github.com/wepe-go/wepe/analysis"
	_ "github.com/wepe-go/wepe/detect"
	_ "github.com/wepe-go/wepe/vit/dhvt"
)

// Importing this library changes no global state: every registered gradient of GoMLX is GoMLX's own.
func TestImports_LeaveTheGradientsOfGoMLX(t *testing.T) {
	for kind, vjp := range VJPRegistration {
		name := runtime.FuncForPC(reflect.ValueOf(vjp).Pointer()).Name()
		if !strings.HasPrefix(name, "github.com/gomlx/gomlx/core/graph.") {
			t.Errorf("the gradient of %s is %s", kind, name)
		}
	}
}
