// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Picture writes what draw draws to the file at path, whose directory is created when absent. The file is whole or, on
// an error, as it was before.
func Picture(path string, draw func(io.Writer) error) (err error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("report: %s is a directory, want the name of a file", path)
	}
	var content bytes.Buffer
	if err := draw(&content); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("report: %s: %w", path, err)
		}
	}()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name()) // nothing is left of that name after the rename
	if err := temporary.Chmod(0o644); err != nil {
		return err
	}
	_, err = temporary.Write(content.Bytes())
	if closeErr := temporary.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}
