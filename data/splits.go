// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Parts are the splits of a dataset; a split that it does not have is nil.
type Parts[T any] struct{ Train, Validation, Test T }

func (p *Parts[T]) each() [3]*T { return [3]*T{&p.Train, &p.Validation, &p.Test} }

// ErrSplits is wrapped by errors of directories that may be read in two ways, as splits or as classes.
var ErrSplits = errors.New("folders of splits")

// splitNames are the names of the splits in Parts, in lower case.
var splitNames = [3][]string{
	{"train", "training"}, {"val", "valid", "validation", "dev"}, {"test", "testing", "eval"},
}

// splitOf returns the index of the split with a name in any case, -1 if there is none.
func splitOf(name string) int {
	return slices.IndexFunc(splitNames[:], func(names []string) bool {
		return slices.Contains(names, strings.ToLower(name))
	})
}

// splitFolders returns the folders of the splits of a directory, "" for those that it does not have, and for all if its
// folders are classes. Folders are splits if they have such names and train is among them, or if one with such a name
// contains folders with images and no image beside them: a class may be called test.
func splitFolders(dir string) (folders [3]string, err error) {
	named, others, err := foldersOf(dir)
	if err != nil || len(named) == 0 {
		return folders, err
	}
	train := slices.ContainsFunc(named, func(name string) bool { return splitOf(name) == 0 })
	found := train && len(others) == 0
	for i := 0; i < len(named) && !found && err == nil; i++ {
		found, err = holdsClasses(filepath.Join(dir, named[i]))
	}
	if err != nil || !found {
		return folders, err
	}
	for _, other := range others {
		switch some, err := hasImages(filepath.Join(dir, other)); {
		case err != nil:
			return folders, err
		case some:
			return folders, fmt.Errorf("%s: %w: %s has images beside %s and is no split: move it out of the directory, or "+
				"rename it, for example to .%s, which is ignored", dir, ErrSplits, other, strings.Join(named, ", "), other)
		}
	}
	for _, name := range named {
		split := splitOf(name)
		if folders[split] != "" {
			return folders, fmt.Errorf("%s: %w: %s and %s are both for %s: move the images of one into the other, or one "+
				"out of the directory", dir, ErrSplits, folders[split], name, splitNames[split][0])
		}
		folders[split] = name
	}
	if !train {
		return folders, fmt.Errorf("%s: %w: %s without train: name the folder for training train, or use one of these "+
			"folders as the directory", dir, ErrSplits, strings.Join(named, ", "))
	}
	return folders, nil
}

// foldersOf returns the folders of a directory: those named as splits, and the others.
func foldersOf(dir string) (named, others []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, entry := range entries {
		name := entry.Name()
		switch {
		case hidden(name) || !leadsToFolder(dir, entry):
		case splitOf(name) >= 0:
			named = append(named, name)
		default:
			others = append(others, name)
		}
	}
	return named, others, nil
}

// holdsClasses reports whether a directory contains folders with images, and no image itself.
func holdsClasses(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if !hidden(entry.Name()) && isImage(entry.Name()) && !leadsToFolder(dir, entry) {
			return false, nil
		}
	}
	if err != nil {
		return false, err
	}
	return hasImages(dir)
}

// hasImages reports whether there is an image in a directory or below.
func hasImages(dir string) (bool, error) {
	found := errors.New("found")
	err := walk(dir, "", nil, func(file string, isDir bool) error {
		if !isDir && isImage(file) {
			return found
		}
		return nil
	})
	if errors.Is(err, found) {
		return true, nil
	}
	return false, err
}
