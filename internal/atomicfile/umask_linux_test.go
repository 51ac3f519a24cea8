// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package atomicfile

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestAFileHasThePermissionsOfTheUmask(t *testing.T) {
	for umask, want := range map[int]os.FileMode{0o077: 0o600, 0o002: 0o664} {
		path := filepath.Join(t.TempDir(), "file")
		before := syscall.Umask(umask)
		err := Write(path, func(io.Writer) error { return nil })
		syscall.Umask(before)
		if info, _ := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("umask %o: %v, want permissions %o", umask, err, want)
		}
	}
}
