// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package features

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/wepe-go/wepe/data"
)

// List is a list of images, not yet read.
type List struct {
	Name    string
	Images  []Image
	Ignored []map[string]int // by extension

	read  []func() (*data.Image, error) // of each image
	brief []func(h io.Writer)           // of each image, writes what contents hashes without decoding
}

// Folder lists the images of a directory. If it contains train and val or test, each with class folders, these are
// parts; a validation split without a test split is the part testPart. Otherwise there is one part, of train alone or
// of all images, whose classes are the top-level folders. Splits that [data.Folder] refuses are an error.
func Folder(dir string) (*List, error) {
	l := &List{Name: filepath.Base(dir)}
	parts, err := data.Folder(dir)
	if held := cmp.Or(parts.Test, parts.Validation); err == nil && parts.Train.Dir != dir {
		l.AddFiles(trainPart, parts.Train)
		if held == nil {
			for i := range l.Images {
				l.Images[i].Part = ""
			}
			return l, nil
		}
		if held != parts.Validation && parts.Validation != nil {
			l.AddFiles(validationPart, parts.Validation)
		}
		l.AddFiles(testPart, held)
		return l, nil
	}
	if err != nil && !errors.Is(err, data.ErrUnlabelled) { // the names of splits would be the classes
		return nil, err
	}
	all, err := data.ImageFiles(dir)
	if err != nil {
		return nil, err
	}
	l.AddFiles("", all)
	return l, nil
}

// AddFiles adds image files as a part; "" is no part.
func (l *List) AddFiles(part string, f *data.Files) {
	l.Ignored = append(l.Ignored, f.Ignored)
	for i := range f.Len() {
		file := f.Where(i)
		if part != "" {
			file = path.Join(filepath.Base(f.Dir), file)
		}
		l.Images = append(l.Images, Image{File: file, Class: f.Classes[f.Labels[i]], Part: part})
		l.read = append(l.read, func() (*data.Image, error) { return f.Read(i) })
		l.brief = append(l.brief, func(h io.Writer) {
			size := int64(-1)
			if info, err := os.Stat(filepath.Join(f.Dir, filepath.FromSlash(f.Where(i)))); err == nil {
				size = info.Size()
			}
			fmt.Fprintln(h, size)
		})
	}
}

// AddSet adds the images of a dataset, named by their indices.
func (l *List) AddSet(part string, s *data.InMemory) {
	for i := range s.Len() {
		l.Images = append(l.Images, Image{File: fmt.Sprintf("%s/%05d", s.Name, i), Class: s.Classes[s.Labels[i]],
			Part: part})
		l.read = append(l.read, func() (*data.Image, error) { return data.FromImage(s.RGBA(i)), nil })
		l.brief = append(l.brief, func(h io.Writer) { _, _ = h.Write(s.Row(i)) }) // a hash never fails
	}
}

// Sample returns at most n images of each part, spread evenly.
func (l *List) Sample(n int) *List {
	rows := map[string][]int{}
	for i, p := range l.Images {
		rows[p.Part] = append(rows[p.Part], i)
	}
	out, seen := &List{Name: l.Name}, map[string]int{}
	for i, p := range l.Images {
		all := rows[p.Part]
		kept := min(n, len(all))
		if k := seen[p.Part]; k < kept && i == all[k*len(all)/kept] {
			seen[p.Part]++
			out.Images, out.read, out.brief = append(out.Images, p), append(out.read, l.read[i]), append(out.brief, l.brief[i])
		}
	}
	return out
}

// byFile returns the index of each file in the list.
func (l *List) byFile() map[string]int {
	at := make(map[string]int, len(l.Images))
	for i := len(l.Images) - 1; i >= 0; i-- {
		at[l.Images[i].File] = i
	}
	return at
}

// fingerprint is the SHA-256 of the list's names.
func (l *List) fingerprint() string {
	h := sha256.New()
	for _, p := range l.Images {
		fmt.Fprintf(h, "%q %q %q\n", p.File, p.Class, p.Part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// contents is the SHA-256 of the sizes of files and of some images, or of the pixels of datasets in memory: enough to
// tell apart directories with the same names without reading every file.
func (l *List) contents() string {
	const decoded = 16
	h := sha256.New()
	for _, write := range l.brief {
		write(h)
	}
	for k := range min(decoded, len(l.read)) {
		img, err := l.read[k*(len(l.read)-1)/max(1, min(decoded, len(l.read))-1)]()
		if err == nil { // the job reports the error
			h.Write(img.Pixels)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
