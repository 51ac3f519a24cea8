// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package checkpoints saves and loads the whole state of a training run: every variable of a GoMLX store (weights,
// optimizer moments, steps, averages, the random generator), its hyperparameters, and a free JSON value of the
// caller (recipe, epoch, best metric, fingerprint of the data).
//
// A run directory holds one directory per checkpoint:
//
//	step-00000123/
//	    variables.safetensors   every variable, by its path in the store
//	    store.json              hyperparameters with their Go types; which variables do not train
//	    MANIFEST.json           step, meta, and the size and SHA-256 of the two files above
//
// A checkpoint is written under a temporary name, each file synced, the manifest last; then the directory is renamed.
// A kill, a full disk or a power cut at any point therefore leaves either the whole new checkpoint or none of it, and
// never touches an older one. [Latest] takes the newest checkpoint that is whole and says why it skipped the others;
// [Checkpoint.Load] verifies the SHA-256 once more. The bytes depend on the state alone (no times, no host names), so
// two runs in the same state write equal files.
//
//	unlock, err := checkpoints.Lock(dir) // one process per run directory
//	saver := checkpoints.Saver{Dir: dir, Keep: 2}
//	path, err := saver.Save(store, step, progress)
//	…
//	last, skipped, err := checkpoints.Latest(dir)
//	if last != nil {
//		err = json.Unmarshal(last.Meta, &progress)
//		store.SetParams(last.Params)
//		err = last.Load(store, nil)
//	}
//
// [Import] reads models, those of trainings and those of other software, whose names and layouts it knows: Hugging
// Face, timm and Google's JAX release. [Export] writes ours in the same formats, [Inspect] says what a file is, and
// [Resample] brings position tables to another grid. wepe export, inspect and verify do all this with files. Package
// hub, below this one, downloads models of the Hugging Face hub; this package does not use the network.
//
// The tensors are in the safetensors format (https://github.com/huggingface/safetensors), which other tools read; it
// is little-endian, as is every platform that GoMLX runs on. The reader trusts nothing in a file: see [FormatError].
package checkpoints

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/internal/strictjson"
)

// Checkpoint is one whole checkpoint on disk, as [Open] and [Latest] verified it.
type Checkpoint struct {
	Path   string          // its directory
	Step   int64           // the step it was saved at
	Meta   json.RawMessage // what the caller gave to Save
	Params map[string]any  // hyperparameters by path, with the Go types they had; for store.SetParams
	SHA256 string          // of the file of its variables

	frozen map[string]bool // paths of the variables that do not train
}

// Open verifies the checkpoint in directory path, reading all of it once.
func Open(path string) (*Checkpoint, error) {
	m, err := readManifest(path)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{Path: path, Step: m.Step, Meta: m.Meta}
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

// check compares what was read of a file with its record.
func (r fileRecord) check(file string, size int64, sum [sha256.Size]byte) error {
	if size != r.Size {
		return &FormatError{File: file, Reason: fmt.Sprintf("%d bytes, its manifest says %d", size, r.Size)}
	}
	if hex.EncodeToString(sum[:]) != r.SHA256 {
		return &FormatError{File: file, Reason: wrongSum}
	}
	return nil
}

const wrongSum = "the SHA-256 of its content is not the one in its manifest"

// openRegular opens a file for reading and returns its size. Pipes and devices are refused before they are opened,
// since opening one may block for ever.
func openRegular(file string) (*os.File, int64, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, 0, errors.Wrap(err, "checkpoints")
	}
	if !info.Mode().IsRegular() {
		return nil, 0, &FormatError{File: file, Reason: "not a regular file"}
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, 0, errors.Wrap(err, "checkpoints")
	}
	if info, err = f.Stat(); err != nil { // of what was opened, in case the name changed hands
		f.Close()
		return nil, 0, errors.Wrap(err, "checkpoints")
	}
	return f, info.Size(), nil
}

// maxSmall bounds the JSON files of a checkpoint.
const maxSmall = strictjson.MaxBytes

// readSmall reads a JSON file whole, at most maxSmall bytes of it.
func readSmall(file string) ([]byte, error) {
	f, size, err := openRegular(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > maxSmall {
		return nil, &FormatError{File: file, Reason: fmt.Sprintf("%d bytes, at most %d are read", size, maxSmall)}
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxSmall))
	return raw, errors.Wrap(err, "checkpoints: reading")
}
