// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/backend"
	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
)

// fields writes the line about the backend as the field "backend".
type fields struct{}

func (fields) Write(text []byte) (int, error) {
	line := strings.TrimSpace(string(text))
	cli.Field("backend", "%s", strings.TrimPrefix(line, "backend: "))
	return len(text), nil
}

// openBackend opens the backend of --backend or GOMLX_BACKEND, or the fastest installed one.
func openBackend(config string, devices int) (compute.Backend, error) {
	return backend.Open(backend.Config(config), backend.Devices(devices), backend.Log(fields{}))
}
