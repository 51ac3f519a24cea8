// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
)

// fileOps are the file system operations of saving. Tests replace them by a layer in which any one of them fails,
// writes part of its data or loses it.
type fileOps interface {
	mkdir(path string) error
	create(path string) (file, error) // fails if path exists
	syncDir(path string) error
	rename(from, to string) error
	removeAll(path string) error
}

// file is a file being written.
type file interface {
	io.Writer
	Sync() error
	Close() error
}

// osFiles is the real file system.
type osFiles struct{}

func (osFiles) mkdir(path string) error      { return os.Mkdir(path, 0o755) }
func (osFiles) rename(from, to string) error { return os.Rename(from, to) }
func (osFiles) removeAll(path string) error  { return os.RemoveAll(path) }

func (osFiles) create(path string) (file, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
}

// syncDir makes the names in a directory durable. Windows does so by itself and refuses to sync a directory.
func (osFiles) syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// makeDirs creates dir and its parents, each durable in the one above.
func makeDirs(files fileOps, dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeDirs(files, parent); err != nil {
			return err
		}
	}
	if err := files.mkdir(dir); err != nil && !os.IsExist(err) {
		return err
	}
	return files.syncDir(parent)
}

// publish lets write fill a directory under a temporary name, syncs it and renames it to dir. If it fails before the
// rename, nothing is left. If it fails after it, dir is complete, but its name may not survive a power cut.
func publish(files fileOps, dir string, write func(temporary string) error) (renamed bool, err error) {
	temporary := fmt.Sprintf("%s.tmp-%d", dir, rand.Uint64()) // in a container, every process has the same ID
	if err := files.mkdir(temporary); err != nil {
		return false, err
	}
	if err = write(temporary); err == nil {
		err = files.syncDir(temporary)
	}
	if err == nil {
		err = files.rename(temporary, dir)
	}
	if err != nil {
		_ = files.removeAll(temporary)
		return false, err
	}
	return true, files.syncDir(filepath.Dir(dir))
}

// writeText returns a function that writes a text.
func writeText(text []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}
}

// writeFile creates a file, writes and syncs it, and returns its record. After an error the partly written file stays:
// publish removes its directory.
func writeFile(files fileOps, path string, write func(io.Writer) error) (r fileRecord, err error) {
	f, err := files.create(path)
	if err != nil {
		return r, err
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}()
	sum, size := sha256.New(), counter(0)
	buffered := bufio.NewWriterSize(io.MultiWriter(f, sum, &size), 1<<16)
	if err := write(buffered); err != nil {
		return r, err
	}
	if err := buffered.Flush(); err != nil {
		return r, err
	}
	if err := f.Sync(); err != nil {
		return r, err
	}
	return fileRecord{filepath.Base(path), int64(size), hex.EncodeToString(sum.Sum(nil))}, nil
}

// counter counts the bytes written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
