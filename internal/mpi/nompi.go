// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build !mpi

package mpi

import "errors"

// Start is an error here.
func Start(string) (World, error) {
	return nil, errors.New("this program was built without MPI: CC=mpicc go build -tags=mpi")
}
