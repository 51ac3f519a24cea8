// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/wepe-go/wepe/internal/disk"
)

// imageExtensions are the extensions of files that Folder reads, in lower or upper case.
var imageExtensions = []string{".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp", ".tif", ".tiff"}

// isImage reports whether Folder reads a file, by its name.
func isImage(file string) bool {
	return slices.Contains(imageExtensions, strings.ToLower(path.Ext(file)))
}

// Folder finds images in class folders: dir/cat/1.jpg, dir/cat/more/2.png, dir/dog/…; the names of the folders,
// sorted, are the classes. If dir instead contains the folder train (or training) and folders
// of held-out splits, val (or valid, validation, dev) and test (or testing, eval), in upper or lower case, each with
// class folders, these are the splits; otherwise all images are for training. Another folder with images beside those
// of splits, two folders for one split, or none for training, is an error that wraps [ErrSplits]; without folders of
// splits, a directory whose folders are no classes is one that wraps [ErrUnlabelled]. Images outside of class folders
// are ignored.
//
// Images come class by class, sorted by path. Only jpg, jpeg, png, gif, webp, bmp and tiff files are read, see
// Files.Ignored; names that begin with a dot, and __MACOSX, are skipped. Links to images and folders are followed, also
// out of dir, as in torchvision; a link to a folder that contains it is an error.
func Folder(dir string) (parts Parts, err error) {
	defer func() {
		if err != nil {
			parts, err = Parts{}, fmt.Errorf("data: %w", err)
		}
	}()
	var all tree
	if err := all.walk(dir, "", nil); err != nil {
		return parts, err
	}
	top := all.below("")
	folders, err := top.splits(dir)
	if err != nil {
		return parts, err
	}
	if folders == [3]string{} {
		if parts.Train, err = top.classFolders(dir, nil); err != nil {
			err = fmt.Errorf("%w: %w", ErrUnlabelled, err)
		}
		return parts, err
	}
	var classes []string
	for i, to := range parts.each() {
		if folders[i] == "" {
			continue
		}
		in := all.below(folders[i] + "/")
		if i == 0 {
			in.images[""] = append(in.images[""], top.images[""]...)
		}
		if len(in.folders) == 0 {
			return Parts{}, fmt.Errorf("%s has no class folders: put the images of each class in a folder of its name, or "+
				"rename it to .%s, which is skipped", filepath.Join(dir, folders[i]), folders[i])
		}
		if *to, err = in.classFolders(filepath.Join(dir, folders[i]), classes); err != nil {
			return parts, err
		}
		(*to).Name = filepath.Base(dir) + [3]string{"-train", "-validation", "-test"}[i]
		classes = parts.Train.Classes
	}
	return parts, nil
}

// hidden reports whether a name is skipped; archives of macOS have __MACOSX.
func hidden(name string) bool { return strings.HasPrefix(name, ".") || name == "__MACOSX" }

// classFolders lists the images of all class folders of a directory.
func (in found) classFolders(dir string, classes []string) (*Files, error) {
	if len(in.folders) == 0 {
		return nil, fmt.Errorf("%s has no class folders: put the images of each class in a folder of its name", dir)
	}
	if classes == nil {
		classes = in.folders
	}
	for _, file := range in.images[""] {
		in.others[strings.ToLower(path.Ext(file))+" outside of class folders"]++
	}
	for _, name := range in.folders { // a split need not have every class
		switch {
		case !utf8.ValidString(name): // JSON would have another name
			return nil, fmt.Errorf("%s: class folder %q is not UTF-8: rename it", dir, name)
		case in.images[name] == nil:
			return nil, fmt.Errorf("%s: class folder %s has no images (%s)%s: remove it, or rename it to .%s, which is skipped",
				dir, name, strings.Join(imageExtensions, ", "), in.besides(), name)
		case !slices.Contains(classes, name):
			return nil, fmt.Errorf("%s: folder %s is none of the %d classes", dir, name, len(classes))
		}
	}
	return in.files(dir, classes), nil
}

// files are the images of the given top folders, each a class.
func (in found) files(dir string, classes []string) *Files {
	f, images := &Files{Name: filepath.Base(dir), Dir: dir, Classes: classes, Ignored: in.others}, &directory{dir: dir}
	for label, class := range classes {
		images.names = append(images.names, in.images[class]...)
		f.Labels = append(f.Labels, slices.Repeat([]int32{int32(label)}, len(in.images[class]))...)
	}
	f.In = images
	return f
}

// ImageFiles finds all images below a directory, sorted by path. The class of an image is its top-level folder, or ""
// outside of folders.
func ImageFiles(dir string) (*Files, error) {
	var all tree
	if err := all.walk(dir, "", nil); err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	in := all.below("")
	if len(in.images) == 0 {
		return nil, fmt.Errorf("data: no images in %s (%s)%s", dir, strings.Join(imageExtensions, ", "), in.besides())
	}
	for _, file := range all { // in Folder those at the top may be lists of classes and such
		if !strings.Contains(file, "/") && !isImage(file) {
			in.others[strings.ToLower(path.Ext(file))]++
		}
	}
	return in.files(dir, slices.Sorted(maps.Keys(in.images))), nil
}

// found is what a directory contains.
type found struct {
	folders []string            // at the top, sorted
	images  map[string][]string // by top folder, "" outside of folders
	others  map[string]int      // files in folders that are not images, by extension
}

// besides names the others in an error.
func (in found) besides() string {
	if len(in.others) == 0 {
		return ""
	}
	return ", only files that are not read: " + disk.Extensions(in.others)
}

// tree are the files and folders below a directory, see walk.
type tree []string

// below returns what is in a folder of the tree, given with a slash at its end, or "" for all.
func (t tree) below(top string) found {
	in := found{images: map[string][]string{}, others: map[string]int{}}
	for _, file := range t {
		file, here := strings.CutPrefix(file, top)
		folder, rest, below := strings.Cut(file, "/")
		switch {
		case !here || file == "":
		case below && rest == "":
			in.folders = append(in.folders, folder)
		case strings.HasSuffix(file, "/"):
		case isImage(file):
			if !below {
				folder = ""
			}
			in.images[folder] = append(in.images[folder], file)
		case below:
			in.others[strings.ToLower(path.Ext(file))]++
		}
	}
	return in
}

// walk appends the files and folders below a directory in the order of their names, slash-separated, without hidden
// ones; the names of folders end with a slash. It follows links; a dangling one is a file if it has an extension. above
// are the folders that contain the directory.
func (t *tree) walk(dir, below string, above []fs.FileInfo) error {
	here := filepath.Join(dir, filepath.FromSlash(below))
	self, err := os.Stat(here)
	if err != nil {
		return err
	}
	for _, parent := range above {
		if os.SameFile(parent, self) {
			return fmt.Errorf("%s is a link to a folder that contains it: remove the link", here)
		}
	}
	entries, err := os.ReadDir(here)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if hidden(entry.Name()) {
			continue
		}
		file, folder := path.Join(below, entry.Name()), entry.IsDir()
		if entry.Type()&fs.ModeSymlink != 0 {
			info, err := os.Stat(filepath.Join(here, entry.Name()))
			if folder = err == nil && info.IsDir(); err != nil && path.Ext(file) == "" { // maybe a class or a split
				return fmt.Errorf("%w: make the link's target available, or remove the link", err)
			}
		}
		if !folder {
			*t = append(*t, file)
			continue
		}
		*t = append(*t, file+"/")
		if err := t.walk(dir, file, append(above[:len(above):len(above)], self)); err != nil {
			return err
		}
	}
	return nil
}

// Split splits the files as a function of the seed, by the SHA-256 of the text SEED/CLASS/PATH: an image is held out
// if the first 8 bytes, as a share of 2⁶⁴, are below share. PATH is relative to the class folder, or for shards
// "SHARD: NAME" relative to Dir. So an image's part depends on no other image, and adding images moves none, except in
// a class so small that the rule would put all into one part.
//
// At least one image of each class is for training, and of two or more at least one is held out: the one with the
// largest or the smallest hash, if the rule would put all into the other part.
func (f *Files) Split(share float64, seed int64) (train, heldOut *Files, err error) {
	classes, hashes := make([][]int, len(f.Classes)), make([]uint64, f.Len())
	for row, label := range f.Labels {
		classes[label], hashes[row] = append(classes[label], row), f.splitHash(row, seed)
	}
	var trained, held []int
	for _, rows := range classes {
		slices.SortFunc(rows, func(a, b int) int { return cmp.Compare(hashes[a], hashes[b]) })
		n := 0
		for n < len(rows) && float64(hashes[rows[n]]>>11)/(1<<53) < share {
			n++
		}
		n = max(0, min(max(n, 1), len(rows)-1))
		held, trained = append(held, rows[:n]...), append(trained, rows[n:]...)
	}
	slices.Sort(held)
	slices.Sort(trained)
	if len(held) == 0 {
		return nil, nil, fmt.Errorf("data: %s: every class has a single image, so none can be held out: add images", f.Dir)
	}
	train, heldOut = f.Subset(trained), f.Subset(held)
	train.Name, heldOut.Name = f.Name+"-train", f.Name+"-held"
	return train, heldOut, nil
}

// splitHash is the number by which Split chooses. It is the same wherever the directory is.
func (f *Files) splitHash(row int, seed int64) uint64 {
	class, name := f.Classes[f.Labels[row]], filepath.ToSlash(f.Where(row))
	if f.shards != "" { // the names of shards begin with their directory
		name = strings.TrimPrefix(name, filepath.ToSlash(filepath.Clean(f.Dir))+"/")
	} else {
		name = strings.TrimPrefix(name, class+"/")
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/%s/%s", seed, class, name))
	return binary.BigEndian.Uint64(sum[:8])
}

// Parts are the splits of a dataset; a split that it does not have is nil.
type Parts struct{ Train, Validation, Test *Files }

func (p *Parts) each() [3]**Files { return [3]**Files{&p.Train, &p.Validation, &p.Test} }

// ErrSplits is wrapped by errors of directories that may be read in two ways, as splits or as classes.
var ErrSplits = errors.New("folders of splits")

// ErrUnlabelled is wrapped by errors of directories that [ImageFiles] may read instead: no split would become a class.
var ErrUnlabelled = errors.New("neither splits nor a folder per class")

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

// splits returns the folders of the splits of a directory, "" for those that it does not have, and for all if its
// folders are classes. Folders are splits if they have such names and train is among them, or if one with such a name
// contains folders with images and no image beside them: a class may be called test. With two such names, train among
// them, images beside the folders make no class of it.
func (in found) splits(dir string) (folders [3]string, err error) {
	named, train, nested, deep := map[string]string{}, false, false, false
	var others []string
	for _, name := range in.folders {
		split := splitOf(name)
		if split < 0 {
			others = append(others, name)
			continue
		}
		beside := func(file string) bool { return strings.Count(file, "/") == 1 }
		below := func(file string) bool { return !beside(file) }
		deep = deep || slices.ContainsFunc(in.images[name], below)
		named[name], train = name, train || split == 0
		nested = nested || in.images[name] != nil && !slices.ContainsFunc(in.images[name], beside)
	}
	if nested = nested || deep && train && len(named) > 1; !nested && (!train || len(others) > 0) {
		return folders, in.likeSplits(dir)
	}
	others = slices.DeleteFunc(others, func(name string) bool { return in.images[name] == nil })
	return bySplit(dir, "folders", named, others)
}

// likeSplits refuses folders if most have names with words for splits, as train_images and test_images, or train
// and test1: their classes would be the splits.
func (in found) likeSplits(dir string) error {
	like, words := map[int]string{}, false
	folders := slices.DeleteFunc(slices.Clone(in.folders), func(name string) bool { return in.images[name] == nil })
	for _, name := range folders {
		for _, word := range strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) }) {
			if split := splitOf(word); split >= 0 {
				like[split], words = name, words || splitOf(name) < 0
			}
		}
	}
	if !words || like[0] == "" || len(like) < 2 || 2*len(like) <= len(folders) {
		return nil
	}
	names := slices.Sorted(maps.Values(like))
	return fmt.Errorf("%s: %w: %s would be classes: name them train, val and test, with a folder for each class in "+
		"them, or move what is no class out of the directory", dir, ErrSplits, strings.Join(names, " and "))
}

// bySplit returns what a directory has of a kind for each split, by names of splits; others have no such name.
func bySplit[T any](dir, kind string, named map[string]T, others []string) (parts [3]T, err error) {
	var names [3]string
	for _, name := range slices.Sorted(maps.Keys(named)) {
		split := splitOf(name)
		if names[split] != "" {
			return parts, fmt.Errorf("%s: %w: %s named %s and %s are both for %s: give them one name, or move one out of the "+
				"directory", dir, ErrSplits, kind, names[split], name, splitNames[split][0])
		}
		names[split], parts[split] = name, named[name]
	}
	all := strings.Join(slices.Sorted(maps.Keys(named)), ", ")
	switch {
	case len(others) > 0:
		other := filepath.Base(others[0])
		return parts, fmt.Errorf("%s: %w: beside %s named %s, %s is in no split: rename it, for example to .%s, which is "+
			"ignored, or move it out of the directory", dir, ErrSplits, kind, all, other, other)
	case names[0] == "":
		return parts, fmt.Errorf("%s: %w: %s named %s, but none named train: rename those for training, or use a directory "+
			"with one split alone", dir, ErrSplits, kind, all)
	}
	return parts, nil
}
