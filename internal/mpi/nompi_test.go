// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build !mpi

package mpi

import (
	"strings"
	"testing"
)

func TestAProgramWithoutMPIReportsHowToBuildOne(t *testing.T) {
	if _, err := Start(Allreduce); err == nil || !strings.Contains(err.Error(), "CC=mpicc go build -tags=mpi") {
		t.Errorf("got %v", err)
	}
}
