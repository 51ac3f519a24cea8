// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package program

import (
	"fmt"
	"os"

	"github.com/wepe-go/wepe/internal/mpi"
)

// world is the MPI job that this process is of, nil where it is none: a process joins one, once.
var world *mpi.World

// leave ends the process. In an MPI job all that were interrupted end together; one that failed ends the others, which
// would wait for it.
func leave(status int) {
	if world != nil {
		if status != 0 && status < 128 {
			world.Abort(status)
		}
		world.End()
	}
	os.Exit(status)
}

// who is the name of a program, and which process of a job this is.
func who(name string) string {
	if world == nil {
		return name
	}
	return fmt.Sprintf("%s: process %d of %d", name, world.Rank(), world.Size())
}
