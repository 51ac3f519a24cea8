// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"encoding/json"
	"io"
	"path/filepath"
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
	files := s.files
	if files == nil {
		files = osFiles{}
	}
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
