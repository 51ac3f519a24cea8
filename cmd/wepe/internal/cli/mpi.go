// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/mpi"
)

// world is the MPI job of this process, nil outside one.
var world *mpi.World

// Join makes this process one of those that mpirun or srun started; way is how gradients are summed, "" for no MPI.
func Join(way string) (group finetune.Group, err error) {
	if way == "" {
		return nil, nil
	}
	if err = mpi.Validate(way); err == nil {
		world, err = mpi.Start(way)
	}
	if err != nil {
		return nil, Usagef("--mpi: %w", err)
	}
	return world, nil
}

// leave ends the process. A failed process of an MPI job aborts the others, which would wait for it.
func leave(status int) {
	if world != nil {
		if status != 0 && status < 128 {
			world.Abort(status)
		}
		world.End()
	}
	os.Exit(status)
}

// who is the name of a program, with the process of an MPI job.
func who(name string) string {
	if world == nil {
		return name
	}
	return fmt.Sprintf("%s: process %d of %d", name, world.Rank(), world.Size())
}
