// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package disk writes files atomically and reads regular files.
package disk

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// Write writes the output of write to the file at path, whose directory is created if absent. After an error, also of
// power, the file has its old content.
func Write(path string, write func(io.Writer) error) (err error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a directory, want the name of a file", path)
	}
	var content bytes.Buffer
	if err := write(&content); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	// Not os.CreateTemp, whose files are private: these have the permissions of the umask.
	name := fmt.Sprintf("%s.tmp-%d", path, rand.Uint64())
	temporary, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name()) // no longer exists after the rename
	_, err = content.WriteTo(temporary)
	if err := cmp.Or(err, temporary.Sync(), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}
