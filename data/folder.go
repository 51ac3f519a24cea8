// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// pictureExtensions are the endings of files that Folder takes, in any case.
var pictureExtensions = []string{".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp"}

// The folders of a data set that comes with its own split, in the order they are looked for.
const trainFolder = "train"

var heldFolders = []string{"val", "valid", "validation", "test"}

// Folder finds pictures in class folders: dir/cat/1.jpg, dir/cat/more/2.png, dir/dog/…; the names of the folders,
// sorted, are the classes, unless classes gives others or another order. Where dir holds nothing but the folders train
// and val (or valid, validation, test), each with class folders, these are the two parts. Otherwise the share held of
// each class, rounded and less than all of it, is held out as a function of the seed; with held == 0 the second part is
// nil.
//
// Pictures come class by class, sorted by path. Names that begin with a dot are ignored and so are files with other
// endings than jpg, jpeg, png, gif, webp and bmp; links to pictures within dir are followed, all others are errors.
func Folder(dir string, classes []string, held float64, seed int64) (train, heldOut *Files, err error) {
	defer func() {
		if err != nil {
			train, heldOut, err = nil, nil, fmt.Errorf("data: %w", err)
		}
	}()
	if !(held >= 0 && held < 1) {
		return nil, nil, fmt.Errorf("%s: share %g held out, want 0 or more and less than 1", dir, held)
	}
	part, err := ownSplit(dir)
	if err != nil {
		return nil, nil, err
	}
	if part != "" {
		if train, err = classFolders(filepath.Join(dir, trainFolder), classes); err != nil {
			return nil, nil, err
		}
		heldOut, err = classFolders(filepath.Join(dir, part), train.Classes)
		return train, heldOut, err
	}
	all, err := classFolders(dir, classes)
	if err != nil || held == 0 {
		return all, nil, err
	}
	return all.holdOut(held, seed)
}

// ownSplit returns the folder of the part held out if a directory is that of a data set with its own split.
func ownSplit(dir string) (held string, err error) {
	entries, err := os.ReadDir(dir)
	train := false
	for _, entry := range entries {
		switch name := entry.Name(); {
		case hidden(name) || !entry.IsDir():
		case name == trainFolder:
			train = true
		case !slices.Contains(heldFolders, name):
			return "", nil
		case held == "" || slices.Index(heldFolders, name) < slices.Index(heldFolders, held):
			held = name
		}
	}
	if !train {
		held = ""
	}
	return held, err
}

func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// classFolders lists the pictures of all class folders of a directory.
func classFolders(dir string, classes []string) (*Files, error) {
	folders, pictures, err := scan(dir)
	if err != nil {
		return nil, err
	}
	if len(folders) == 0 {
		return nil, fmt.Errorf("%s has no class folders: put the pictures of each class in a folder of its name", dir)
	}
	if classes == nil {
		classes = folders
	}
	f := &Files{Name: filepath.Base(dir), Dir: dir, Classes: classes}
	letters, total := 0, 0
	for _, paths := range pictures {
		letters, total = letters+len(paths.text), total+paths.Len()
	}
	f.Paths, f.Labels = Names{make([]byte, 0, letters), make([]uint32, 0, total)}, make([]int32, 0, total)
	known := map[string]bool{}
	for label, class := range classes {
		known[class] = true
		if slices.Contains(folders, class) && pictures[class] == nil { // a part need not have every class
			return nil, fmt.Errorf("%s: class folder %s has no pictures (%s)", dir, class,
				strings.Join(pictureExtensions, ", "))
		}
		if pictures[class] == nil {
			continue
		}
		for _, path := range pictures[class].All() {
			f.add(path, int32(label))
		}
	}
	for _, name := range folders {
		if !known[name] {
			return nil, fmt.Errorf("%s: folder %s is none of the %d classes", dir, name, len(classes))
		}
	}
	return f, nil
}

// Pictures finds all pictures in a directory, whatever its folders, sorted by path. The class of a picture is the
// folder on top of it; of those beside the folders it is "".
func Pictures(dir string) (*Files, error) {
	_, pictures, err := scan(dir)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	f := &Files{Name: filepath.Base(dir), Dir: dir}
	for label, folder := range slices.Sorted(maps.Keys(pictures)) {
		f.Classes = append(f.Classes, folder)
		for _, path := range pictures[folder].All() {
			f.add(path, int32(label))
		}
	}
	if f.Len() == 0 {
		return nil, fmt.Errorf("data: no pictures in %s (%s)", dir, strings.Join(pictureExtensions, ", "))
	}
	return f, nil
}

// scan returns the folders of a directory, sorted, and the pictures below each, those beside them as of folder "".
func scan(dir string) (folders []string, pictures map[string]*Names, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	pictures = map[string]*Names{}
	letters := 0
	err = fs.WalkDir(root.FS(), ".", func(file string, entry fs.DirEntry, err error) error {
		folder, _, below := strings.Cut(file, "/")
		switch {
		case err != nil || file == ".":
			return err
		case hidden(entry.Name()) && entry.IsDir():
			return fs.SkipDir
		case hidden(entry.Name()):
			return nil
		case entry.IsDir() && !below:
			folders = append(folders, folder)
		}
		if entry.Type()&fs.ModeSymlink != 0 {
			where := filepath.Join(dir, filepath.FromSlash(file))
			info, err := os.Stat(where)
			if err == nil && info.IsDir() {
				return fmt.Errorf("%s is a link to a folder, which is not followed: put the folder itself there", where)
			}
			// A dangling link is a damaged picture.
			if _, err := root.Stat(file); below && err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s is a link out of %s: put the picture itself there", where, dir)
			}
		}
		if !below {
			folder = ""
		}
		if !entry.IsDir() && slices.Contains(pictureExtensions, strings.ToLower(path.Ext(file))) {
			if letters += len(file); letters > maxNames {
				return fmt.Errorf("%s: the names of its pictures take more than 4 GiB: pack them into tar shards", dir)
			}
			if pictures[folder] == nil {
				pictures[folder] = &Names{}
			}
			pictures[folder].Add(file)
		}
		return nil
	})
	return folders, pictures, err
}

// holdOut splits the files by class.
func (f *Files) holdOut(share float64, seed int64) (train, heldOut *Files, err error) {
	byClass := make([][]int, len(f.Classes))
	for row, label := range f.Labels {
		byClass[label] = append(byClass[label], row)
	}
	var trained, held []int
	for label, rows := range byClass {
		n := min(len(rows)-1, int(math.Round(share*float64(len(rows)))))
		for k, i := range draw(streamSplit, seed, 0, label).Perm(len(rows)) {
			if k < n {
				held = append(held, rows[i])
			} else {
				trained = append(trained, rows[i])
			}
		}
	}
	if len(held) == 0 {
		return nil, nil, fmt.Errorf("%s: a share of %g of each class is no picture at all: hold out more", f.Dir, share)
	}
	slices.Sort(trained)
	slices.Sort(held)
	train, heldOut = f.Subset(trained), f.Subset(held)
	train.Name, heldOut.Name = f.Name+"-train", f.Name+"-held"
	return train, heldOut, nil
}
