// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/internal/printable"
	"github.com/wepe-go/wepe/internal/weight"
)

// MismatchError lists the differences between a checkpoint and a model: variables by their paths, or in imported
// formats by their names in the file.
type MismatchError struct {
	Path       string   // of the checkpoint
	Missing    []string // variables that only the model has, with their shapes
	Unexpected []string // variables that only the checkpoint has
	Mismatched []string // variables whose type or shape differs, with both
}

// Error lists the first few of each kind.
func (e *MismatchError) Error() string {
	list := func(what string, names []string) string {
		if len(names) == 0 {
			return ""
		}
		return fmt.Sprintf("; %d %s: %s", len(names), what, listed(names))
	}
	return fmt.Sprintf("checkpoints: %s is of another model", e.Path) + list("of other shape", e.Mismatched) +
		list("that it lacks", e.Missing) + list("that the model lacks", e.Unexpected)
}

// listed returns the first few names of many.
func listed(names []string) string {
	const most = 5
	var first []string
	for _, name := range names[:min(most, len(names))] {
		first = append(first, printable.Name(name))
	}
	if len(names) > most {
		first = append(first, fmt.Sprintf("… (%d)", len(names)))
	}
	return strings.Join(first, ", ")
}

// compare returns how a checkpoint differs from a model, nil if it does not; has and wants are their shapes by name.
func compare(path string, has, wants map[string]string) error {
	e := &MismatchError{Path: path}
	for name, want := range wants {
		switch shape, ok := has[name]; {
		case !ok:
			e.Missing = append(e.Missing, name+" "+want)
		case shape != want:
			e.Mismatched = append(e.Mismatched, name+" "+shape+", in the model "+want)
		}
	}
	for name, shape := range has {
		if _, ok := wants[name]; !ok {
			e.Unexpected = append(e.Unexpected, name+" "+shape)
		}
	}
	if len(e.Missing)+len(e.Unexpected)+len(e.Mismatched) == 0 {
		return nil
	}
	slices.Sort(e.Missing)
	slices.Sort(e.Unexpected)
	slices.Sort(e.Mismatched)
	return e
}

// Load sets the variables of the store, with their trainable flags, except for paths for which omit is true (nil is
// none). It does not set hyperparameters: see Params.
//
// A store without variables (the random generator's state and omitted ones do not count) receives all of them. This is
// the way to resume: load before the first graph is built, and then confirm with [Checkpoint.Check] that the model uses
// exactly these. A store that has variables must have the same ones, else the error is a [*MismatchError]. On any error
// the store's variables are as before.
func (c *Checkpoint) Load(store *model.Store, omit func(variable string) bool) error {
	if store.Loader() != nil {
		return weight.ErrLoader
	}
	variables := variablesOf(store, omit)
	w, err := c.open(omit)
	if err != nil {
		return err
	}
	defer w.Close()
	if _, hasRNG := variables[rngStatePath]; len(variables) > 1 || len(variables) == 1 && !hasRNG {
		if err := w.compare(variables); err != nil {
			return err
		}
	}
	names := slices.Sorted(maps.Keys(w.tensors))
	values := make([]*tensors.Tensor, len(names))
	for i, name := range names {
		if values[i], err = w.tensors[name].readAsIs(name); err != nil {
			return err
		}
	}
	if _, err := w.sum(); err != nil {
		return err
	}
	for i, name := range names {
		v := variables[name]
		if v == nil {
			v, err = store.CreateVariable(name, values[i])
		} else {
			err = v.SetValue(values[i])
		}
		if err != nil {
			return errors.WithMessagef(err, "checkpoints: variable %q", name)
		}
		// GoMLX's loaders make all variables trainable, and an optimizer would round the generator's state to float.
		v.SetTrainable(!c.frozen[name])
	}
	return nil
}

// Check compares names, types and shapes of the checkpoint's variables with the store's, both ways, leaving aside
// paths for which omit is true. The error is a [*MismatchError].
func (c *Checkpoint) Check(store *model.Store, omit func(variable string) bool) error {
	w, err := c.open(omit)
	if err != nil {
		return err
	}
	defer w.Close()
	return w.compare(variablesOf(store, omit))
}

const rngStatePath = model.RootScopePath + model.RNGStateVariableName

func (c *Checkpoint) variablesFile() string { return filepath.Join(c.Path, variablesName) }

// open opens the variables, without the omitted ones.
func (c *Checkpoint) open(omit func(string) bool) (*weights, error) {
	w := &weights{path: c.Path, tensors: map[string]storedTensor{}, run: c}
	if err := w.add(c.variablesFile()); err != nil {
		w.Close()
		return nil, err
	}
	if omit != nil {
		maps.DeleteFunc(w.tensors, func(name string, _ storedTensor) bool { return omit(name) })
	}
	return w, nil
}

// compare returns how the tensors and the variables of a store differ, nil if they do not.
func (w *weights) compare(variables map[string]*model.Variable) error {
	has, wants := map[string]string{}, map[string]string{}
	for name, t := range w.tensors {
		has[name] = shapes.Make(t.dtype, t.dims...).String()
	}
	for path, v := range variables {
		wants[path] = v.Shape().String()
	}
	return compare(w.path, has, wants)
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
