// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package checkpoints saves and loads training state, and imports and exports models.
//
// # Models
//
//	info, err := checkpoints.Inspect("vit-base-patch16-224", checkpoints.ImportOptions{})
//	imported, err := checkpoints.Import("vit-base-patch16-224", checkpoints.ImportOptions{})
//	err = imported.Load(scope)
//	report, err := checkpoints.Export("out", backend, scope, imported.Config, checkpoints.ExportOptions{Format: "timm"})
//
// [Import] reads runs of this library and models of Hugging Face, timm and Google's JAX release; docs/models.md lists
// them. [Export] writes the same formats and ONNX. [Resample] resamples position tables to another grid. This package
// makes no network requests; package checkpoints/hub downloads models.
//
// # State of a training
//
// [Saver.Save] writes every variable of a GoMLX store (weights, optimizer moments, weight averages, random generator),
// its hyperparameters and a JSON value of the caller into a directory per checkpoint:
//
//	step-00000123/
//	    variables.safetensors   every variable, by its path in the store
//	    store.json              hyperparameters with their Go types; which variables are not trainable
//	    MANIFEST.json           step, meta, size and SHA-256 of the two files above
//
//	unlock, err := checkpoints.Lock(dir) // one process per run directory
//	saver := checkpoints.Saver{Dir: dir}
//	path, err := saver.Save(store, step, progress)
//	last, skipped, err := checkpoints.Find(dir, checkpoints.Resume)
//	err = last.Load(store, nil)
//
// Files are written under a temporary name and synced, the manifest last; then the directory is renamed. After a kill,
// a full disk or a power cut the directory holds the whole new checkpoint or none of it, and older ones are intact.
// [Find] returns the newest intact checkpoint and why it skipped others; [Checkpoint.Load] verifies the SHA-256.
// Equal states produce equal files. Malformed files are errors: sizes are checked before memory is allocated.
package checkpoints

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/internal/disk"
	"github.com/wepe-go/wepe/internal/strictjson"
)

// Checkpoint is an intact checkpoint on disk, verified by [Find].
type Checkpoint struct {
	Path   string          // its directory
	Kind   string          // BestDir or LastDir of a run; empty for others
	Step   int64           // the step it was saved at
	Meta   json.RawMessage // the meta argument of Save
	Params map[string]any  // hyperparameters by path, with the Go types they had; for store.SetParams
	SHA256 string          // of variables.safetensors

	frozen map[string]bool // paths of the variables that are not trainable
}

// openCheckpoint verifies the checkpoint in directory path, reading all of it once.
func openCheckpoint(path string) (*Checkpoint, error) {
	m, err := readManifest(path)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{Path: path, Step: m.Step, Meta: m.Meta}
	whole, _ := filepath.Abs(path) // path may be "." or end in a slash
	if kind := filepath.Base(filepath.Dir(whole)); kind == BestDir || kind == LastDir {
		c.Kind = kind
	}
	variables, store := m.Files[0], m.Files[1]
	c.SHA256 = variables.SHA256
	if err := variables.verify(c.variablesFile()); err != nil {
		return nil, err
	}
	file := filepath.Join(path, storeName)
	raw, err := readSmall(file)
	if err != nil {
		return nil, err
	}
	if err := store.check(file, int64(len(raw)), sha256.Sum256(raw)); err != nil {
		return nil, err
	}
	if c.Params, c.frozen, err = decodeStore(file, raw); err != nil {
		return nil, err
	}
	return c, nil
}

// verify hashes the file and compares it with its record; a wrong size is found without reading.
func (r fileRecord) verify(file string) error {
	f, size, err := openRegular(file)
	if err != nil {
		return err
	}
	defer f.Close()
	hash := sha256.New()
	if size == r.Size {
		if size, err = io.Copy(hash, f); err != nil {
			return errors.Wrap(err, "checkpoints: reading")
		}
	}
	return r.check(file, size, [sha256.Size]byte(hash.Sum(nil)))
}

// check compares the size and hash of a file with its record.
func (r fileRecord) check(file string, size int64, sum [sha256.Size]byte) error {
	if size != r.Size {
		return &formatError{File: file, Reason: fmt.Sprintf("%d bytes, its manifest says %d", size, r.Size)}
	}
	if hex.EncodeToString(sum[:]) != r.SHA256 {
		return &formatError{File: file, Reason: wrongSum}
	}
	return nil
}

const wrongSum = "the SHA-256 of its content is not the one in its manifest"

// openRegular opens a file for reading and returns its size.
func openRegular(file string) (*os.File, int64, error) {
	f, err := disk.Open(file)
	if err != nil {
		return nil, 0, fileError(file, err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, errors.Wrap(err, "checkpoints")
	}
	return f, info.Size(), nil
}

// maxSmall bounds the JSON files of a checkpoint.
const maxSmall = strictjson.MaxBytes

// readSmall reads a JSON file of at most maxSmall bytes.
func readSmall(file string) ([]byte, error) {
	raw, err := disk.ReadFile(file, maxSmall)
	return raw, fileError(file, err)
}

// fileError is an error of the operating system, or a formatError for a pipe, a directory or a file that is too long.
func fileError(file string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) && !errors.As(path.Err, new(syscall.Errno)) {
		return &formatError{File: file, Reason: path.Err.Error()}
	}
	return errors.Wrap(err, "checkpoints")
}
