// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/ml/model"
	"github.com/pkg/errors"
)

// Saver writes checkpoints into one run directory. No other process may write there: see [Lock].
type Saver struct {
	Dir  string                     // the run directory, created when absent
	Omit func(variable string) bool // paths to leave out, such as a dataset on the device; nil is none

	files fileOps // nil is the file system
}

// Save writes the state of the store as the checkpoint of a step, with meta as JSON, and then removes older
// checkpoints. It returns the directory of the new checkpoint.
//
// On an error with an empty path nothing was saved, what was written is removed and every earlier checkpoint is
// untouched. On an error with a path the checkpoint is complete, but may not survive a power cut, or an older one could
// not be removed.
func (s Saver) Save(store *model.Store, step int64, meta any) (path string, err error) {
	files := cmp.Or[fileOps](s.files, osFiles{})
	if step < 0 || step >= 1e18 {
		return "", errors.Errorf("checkpoints: step %d", step)
	}
	metaJSON, err := json.Marshal(meta)
	if err != nil {
		return "", errors.Wrap(err, "checkpoints: meta")
	}
	out, frozen, err := s.collect(store)
	if err != nil {
		return "", err
	}
	storeJSON, err := encodeStore(store, frozen)
	if err != nil {
		return "", err
	}

	dir := filepath.Clean(s.Dir)
	if err := makeDirs(files, dir); err != nil {
		return "", errors.Wrap(err, "checkpoints: run directory")
	}
	names, leftovers, err := listNames(dir)
	if err != nil {
		return "", err
	}
	for _, leftover := range leftovers {
		_ = files.removeAll(leftover) // left by a killed process; if it stays, Find reports it
	}
	name := dirName{step: step}
	for _, path := range names { // of this step the newest: another one may have been removed
		if n, _ := parseName(filepath.Base(path)); n.step == step {
			name.attempt = max(name.attempt, n.attempt+1)
		}
	}
	final := filepath.Join(dir, name.String())
	m := manifest{Format: formatName, Version: formatVersion, Step: step, Meta: metaJSON}
	renamed, err := publish(files, final, func(temporary string) error {
		return writeCheckpoint(files, temporary, m, out, storeJSON)
	})
	if err != nil {
		err = errors.Wrapf(err, "checkpoints: saving %s", final)
	}
	switch {
	case !renamed:
		return "", err
	case err != nil:
		return final, err
	}
	return final, s.removeOld(files, name)
}

// collect returns the variables to save and the paths of those that are not trainable.
func (s Saver) collect(store *model.Store) (out []outTensor, frozen []string, err error) {
	for v := range store.IterVariables() {
		if s.Omit != nil && s.Omit(v.Path()) {
			continue
		}
		if !v.HasValue() {
			return nil, nil, errors.Errorf("checkpoints: variable %q has no value yet: save after the first step, "+
				"or omit it", v.Path())
		}
		value, err := v.Value()
		if err != nil {
			return nil, nil, errors.WithMessagef(err, "checkpoints: variable %q", v.Path())
		}
		out = append(out, asIs(v.Path(), value))
		if !v.Trainable {
			frozen = append(frozen, v.Path())
		}
	}
	slices.Sort(frozen)
	return out, frozen, nil
}

// writeCheckpoint writes and syncs the files of a checkpoint, the manifest last.
func writeCheckpoint(files fileOps, dir string, m manifest, out []outTensor, storeJSON []byte) error {
	variables, err := writeFile(files, filepath.Join(dir, variablesName), func(w io.Writer) error {
		return writeSafetensors(w, "", out)
	})
	if err != nil {
		return err
	}
	store, err := writeFile(files, filepath.Join(dir, storeName), writeText(storeJSON))
	if err != nil {
		return err
	}
	m.Files = []fileRecord{variables, store}
	raw, err := m.seal()
	if err != nil {
		return err
	}
	_, err = writeFile(files, filepath.Join(dir, manifestName), writeText(raw))
	return err
}

// removeOld removes the checkpoints before the one just saved if their manifests are intact: the seal proves that Save
// wrote them. Damaged ones stay for inspection.
func (s Saver) removeOld(files fileOps, saved dirName) error {
	dir := filepath.Clean(s.Dir)
	names, _, err := listNames(dir)
	if err != nil {
		return err
	}
	at := slices.Index(names, filepath.Join(dir, saved.String()))
	if at < 0 {
		return errors.Errorf("checkpoints: %s was removed by someone else while it was saved", saved)
	}
	var failed []string
	for _, path := range names[at+1:] {
		if _, err := readManifest(path); err != nil {
			continue
		}
		if err := files.removeAll(path); err != nil {
			failed = append(failed, err.Error())
		}
	}
	if len(failed) > 0 {
		return errors.Errorf("checkpoints: removing old ones: %s", strings.Join(failed, "; "))
	}
	return nil
}

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

const temporaryMark = ".tmp-" // then 20 digits

// publish lets write fill a directory under a temporary name, syncs it and renames it to dir. If it fails before the
// rename, nothing is left. If it fails after it, dir is complete, but its name may not survive a power cut.
func publish(files fileOps, dir string, write func(temporary string) error) (renamed bool, err error) {
	temporary := fmt.Sprintf("%s%s%020d", dir, temporaryMark, rand.Uint64()) // in a container every process has one ID
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
