// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build !cgo || noxla || !((linux && (amd64 || arm64)) || (darwin && arm64) || (windows && amd64))

package plugin

import (
	"errors"

	"github.com/gomlx/compute"
)

func All() []Plugin { return nil }

func Open(Plugin, string, int) (compute.Backend, string, error) {
	return nil, "", errors.New("this program was built without XLA")
}
