// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package regular_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/wepe-go/wepe/internal/regular"
)

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(file, []byte("seven b"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if raw, err := regular.ReadFile(file, 7); string(raw) != "seven b" || err != nil {
		t.Errorf("%q, %v", raw, err)
	}
	if _, err := regular.ReadFile(file, 6); err == nil {
		t.Error("a file longer than the limit is read")
	}
	for path, want := range map[string]error{pipe: regular.ErrIrregular, dir: regular.ErrIrregular,
		filepath.Join(dir, "none"): fs.ErrNotExist} {
		if _, err := regular.ReadFile(path, 6); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
}
