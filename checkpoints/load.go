// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/pkg/errors"
)

// MismatchError says how a checkpoint and a model differ: the checkpoint is of another one. Variables of our own
// checkpoints go by their paths, those of foreign ones by the names in their files.
type MismatchError struct {
	Path       string   // of the checkpoint
	Missing    []string // variables that only the model has, with their shapes
	Unexpected []string // variables that only the checkpoint has
	Mismatched []string // variables whose type or shape differs, with both
}

// Error lists the first few of each kind.
func (e *MismatchError) Error() string {
	list := func(what string, names []string) string {
		const most = 5
		if len(names) == 0 {
			return ""
		}
		var first []string
		for _, name := range names[:min(most, len(names))] {
			first = append(first, printable(name)) // a stranger's file names its tensors as it likes
		}
		text := fmt.Sprintf("; %d %s: %s", len(names), what, strings.Join(first, ", "))
		if len(names) > most {
			text += ", …"
		}
		return text
	}
	return fmt.Sprintf("checkpoints: %s is of another model", e.Path) +
		list("of other shape", e.Mismatched) +
		list("that it lacks", e.Missing) +
		list("that the model lacks", e.Unexpected)
}

// orNil returns the error with its lists sorted, nil if they are empty.
func (e *MismatchError) orNil() error {
	if len(e.Missing)+len(e.Unexpected)+len(e.Mismatched) == 0 {
		return nil
	}
	slices.Sort(e.Missing)
	slices.Sort(e.Unexpected)
	slices.Sort(e.Mismatched)
	return e
}

// Load puts the variables of the checkpoint into the store, with the flag whether they train, leaving aside paths
// for which omit is true (nil is none); they keep whatever the store has. Hyperparameters are not touched: see Params.
//
// A store without variables (the random generator's state and omitted ones do not count) receives all of them. This
// is the way to resume: load before the first graph is built, and let [Checkpoint.Check] confirm after it that the
// model asked for exactly these. A store that has variables must have the same ones, else the error is a
// [*MismatchError]. On any error the store's variables are as before.
func (c *Checkpoint) Load(store *model.Store, omit func(variable string) bool) error {
	if store.Loader() != nil { // it could answer CreateVariable with a value of its own
		return errors.New("checkpoints: the store has a loader attached: load into one without")
	}
	variables := variablesOf(store, omit)
	named, err := c.read(func(entries []tensorEntry) error {
		if _, hasRNG := variables[rngStatePath]; len(variables) == 0 || (len(variables) == 1 && hasRNG) {
			return nil
		}
		return c.compare(entries, variables, omit)
	}, omit)
	if err != nil {
		return err
	}
	for _, t := range named {
		v := variables[t.name]
		if v == nil {
			v, err = store.CreateVariable(t.name, t.value)
		} else {
			err = v.SetValue(t.value)
		}
		if err != nil {
			return errors.WithMessagef(err, "checkpoints: variable %q", t.name)
		}
		// Loaders of GoMLX leave everything trainable, and an optimizer then rounds the generator's state to float.
		v.SetTrainable(!c.frozen[t.name])
	}
	return nil
}

// Check compares names, types and shapes of the checkpoint's variables with the store's, both ways, leaving aside
// paths for which omit is true. The error is a [*MismatchError].
func (c *Checkpoint) Check(store *model.Store, omit func(variable string) bool) error {
	f, size, err := openRegular(c.variablesFile())
	if err != nil {
		return err
	}
	defer f.Close()
	entries, err := readSafetensorsHeader(bufio.NewReader(f), size, c.variablesFile())
	if err != nil {
		return err
	}
	return c.compare(entries, variablesOf(store, omit), omit)
}

const rngStatePath = model.RootScopePath + model.RNGStateVariableName

func (c *Checkpoint) variablesFile() string { return filepath.Join(c.Path, variablesName) }

// read reads all tensors in one pass, hashing them again, after check has seen the header.
func (c *Checkpoint) read(check func([]tensorEntry) error, omit func(string) bool) ([]namedTensor, error) {
	file := c.variablesFile()
	f, size, err := openRegular(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size != c.variables.Size {
		return nil, c.variables.check(file, size, [sha256.Size]byte{})
	}
	hash := sha256.New()
	r := io.TeeReader(bufio.NewReaderSize(f, 1<<16), hash)
	entries, err := readSafetensorsHeader(r, size, file)
	if err != nil {
		return nil, err
	}
	if err := check(entries); err != nil {
		return nil, err
	}
	var named []namedTensor
	for _, e := range entries {
		if omit != nil && omit(e.name) {
			if _, err := io.CopyN(io.Discard, r, int64(e.end-e.begin)); err != nil {
				return nil, errors.Wrapf(err, "checkpoints: reading %s", file)
			}
			continue
		}
		value, err := readTensor(r, file, e)
		if err != nil {
			return nil, err
		}
		named = append(named, namedTensor{e.name, value})
	}
	if err := c.variables.check(file, size, [sha256.Size]byte(hash.Sum(nil))); err != nil {
		return nil, err
	}
	slices.SortFunc(named, func(a, b namedTensor) int { return strings.Compare(a.name, b.name) })
	return named, nil
}

// compare returns how the entries of a file and the variables of a store differ, nil if they do not.
func (c *Checkpoint) compare(entries []tensorEntry, variables map[string]*model.Variable,
	omit func(string) bool) error {
	mismatch := &MismatchError{Path: c.Path}
	inFile := map[string]bool{}
	describe := func(path string, shape shapes.Shape) string { return path + " " + shape.String() }
	for _, e := range entries {
		if omit != nil && omit(e.name) {
			continue
		}
		inFile[e.name] = true
		v, shape := variables[e.name], e.shape()
		switch {
		case v == nil:
			mismatch.Unexpected = append(mismatch.Unexpected, describe(e.name, shape))
		case !shape.Equal(v.Shape()):
			mismatch.Mismatched = append(mismatch.Mismatched,
				fmt.Sprintf("%s, in the model %s", describe(e.name, shape), v.Shape()))
		}
	}
	for path, v := range variables {
		if !inFile[path] {
			mismatch.Missing = append(mismatch.Missing, describe(path, v.Shape()))
		}
	}
	return mismatch.orNil()
}

// variablesOf returns the variables of a store by path, without the omitted ones.
func variablesOf(store *model.Store, omit func(string) bool) map[string]*model.Variable {
	variables := map[string]*model.Variable{}
	for v := range store.IterVariables() {
		if omit == nil || !omit(v.Path()) {
			variables[v.Path()] = v
		}
	}
	return variables
}
