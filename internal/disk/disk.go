// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package disk writes files atomically and reads regular files.
package disk

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Write writes the output of write to the file at path, through links, whose directory is created if absent. After an
// error, also of power, the file has its old content; it keeps its permissions.
func Write(path string, write func(io.Writer) error) (err error) {
	info, _ := os.Stat(path)
	if info != nil && info.IsDir() {
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
	target := path
	if real, err := filepath.EvalSymlinks(path); err == nil {
		target = real
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	// Not os.CreateTemp, whose files are private: these have the permissions of the umask. path may have a long name.
	name := filepath.Join(filepath.Dir(target), fmt.Sprintf(".tmp-%d", rand.Uint64()))
	temporary, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name()) // no longer exists after the rename
	if _, err = content.WriteTo(temporary); info != nil {
		err = cmp.Or(err, temporary.Chmod(info.Mode().Perm()))
	}
	if err := cmp.Or(err, temporary.Sync(), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), target)
}

// ErrIrregular is wrapped by errors of pipes, devices, sockets and directories.
var ErrIrregular = errors.New("not a regular file")

// Open opens a regular file for reading, through links, after looking at it: opening a pipe would wait for its other
// end, and reading a device would not end.
func Open(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: ErrIrregular}
	}
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

// ReadFile reads a regular file of at most the given number of bytes.
func ReadFile(path string, most int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(raw)) > most {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("more than %d bytes", most)}
	}
	return raw, err
}

// ReadLines returns the values of a file with one JSON value per line, of any length. Errors name file and line.
func ReadLines[T any](path string) (values []T, err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	n := 0
	for line := range bytes.Lines(raw) {
		n++
		var value T
		if err := json.Unmarshal(line, &value); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		values = append(values, value)
	}
	return values, nil
}

// Damage reports a truncated file if a decoder returns the end of its file.
func Damage(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file is truncated")
	}
	return err
}

// Recover turns, deferred, a decoder's panic on a damaged file into an error.
func Recover(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("damaged: %v", r)
	}
}

// Extensions lists numbers of files by extension, of several directories together; "" for none.
func Extensions(parts ...map[string]int) string {
	total := map[string]int{}
	for _, files := range parts {
		for extension, n := range files {
			total[extension] += n
		}
	}
	var text []string
	for _, extension := range slices.Sorted(maps.Keys(total)) {
		text = append(text, fmt.Sprintf("%s (%d)", cmp.Or(extension, "no extension"), total[extension]))
	}
	return strings.Join(text, ", ")
}
