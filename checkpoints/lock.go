// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
	"github.com/pkg/errors"
)

// lockName is the lock file of a run directory. Unlocking does not remove it: otherwise two processes could lock two
// files of the same name.
const lockName = ".lock"

// ErrInUse means that another process has locked a run directory.
var ErrInUse = errors.New("in use by another process")

// Lock locks the run directory, created when absent, until unlock is called or the process ends. It does not wait: a
// directory in use is an error.
func Lock(dir string) (unlock func() error, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, errors.Wrap(err, "checkpoints: run directory")
	}
	lock := flock.New(filepath.Join(dir, lockName))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, errors.Wrapf(err, "checkpoints: locking %s", dir)
	}
	if !locked {
		return nil, fmt.Errorf("checkpoints: run directory %s is %w: stop that one or choose another directory", dir,
			ErrInUse)
	}
	return lock.Unlock, nil
}
