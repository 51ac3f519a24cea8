// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package coco

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Read reads an instances file.
func Read(path string) (*Dataset, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("coco: %w", err)
	}
	d, err := decodeDataset(raw, filepath.Base(path))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	d.SHA256 = hex.EncodeToString(sum[:])
	return d, nil
}

// decodeDataset reads the JSON of an instances file. name is the file's name in errors.
//
// Unknown fields are skipped. Fields that training does not need (bbox, area, iscrowd, segmentation, sizes of images)
// may be missing; functions that need them return an error. Annotations and categories may be missing, but not images.
func decodeDataset(raw []byte, name string) (d *Dataset, err error) {
	var file struct {
		Images *[]struct {
			Image
			ID     *whole `json:"id"`
			Height whole  `json:"height"`
			Width  whole  `json:"width"`
		} `json:"images"`
		Categories []struct {
			Category
			ID *whole `json:"id"`
		} `json:"categories"`
		Annotations []struct {
			Annotation
			ID         *whole    `json:"id"`
			ImageID    *whole    `json:"image_id"`
			CategoryID *whole    `json:"category_id"`
			Box        []float64 `json:"bbox"`
			Crowd      any       `json:"iscrowd"`
		} `json:"annotations"`
	}
	if err := unmarshal(raw, &file, name); err != nil {
		return nil, err
	}
	if file.Images == nil {
		return nil, fmt.Errorf("coco: %s: the file lists no images: it is not an instances file", name)
	}
	wrong := func(kind string, i int, err error) error {
		return fmt.Errorf("coco: %s: %s number %d: %w", name, kind, i+1, err)
	}
	d = &Dataset{Name: name}
	for i, x := range *file.Images {
		x.Image.Height, x.Image.Width = int(x.Height), int(x.Width)
		if err := x.ID.into(&x.Image.ID, "id"); err != nil {
			return nil, wrong("image", i, err)
		}
		d.Images = append(d.Images, x.Image)
	}
	for i, x := range file.Categories {
		if err := x.ID.into(&x.Category.ID, "id"); err != nil {
			return nil, wrong("category", i, err)
		}
		d.Categories = append(d.Categories, x.Category)
	}
	for i, x := range file.Annotations {
		a := &x.Annotation
		err := cmp.Or(x.ID.into(&a.ID, "id"), x.ImageID.into(&a.ImageID, "image_id"),
			x.CategoryID.into(&a.CategoryID, "category_id"))
		switch len(x.Box) {
		case 0:
		case 4:
			a.Box = (*Box)(x.Box)
		default:
			err = cmp.Or(err, fmt.Errorf("id %d: bbox has %d numbers, want x, y, width and height", a.ID, len(x.Box)))
		}
		switch crowd := x.Crowd.(type) {
		case nil:
		case bool, float64:
			if a.Crowd = new(1); crowd == false || crowd == 0.0 {
				*a.Crowd = 0
			}
		default:
			err = cmp.Or(err, fmt.Errorf("id %d: iscrowd is %#v, want 0 or 1", a.ID, crowd))
		}
		if err != nil {
			return nil, wrong("annotation", i, err)
		}
		d.Annotations = append(d.Annotations, *a)
	}
	_, err = d.index()
	return d, err
}

// capitals matches keys that encoding/json would take for those of fields here, which have small letters, as Area for
// area. ſ and the Kelvin sign count as s and k.
var capitals = regexp.MustCompile(`"[a-z_]*[A-Z\x{17f}\x{212a}][A-Za-z_\x{17f}\x{212a}]*"\s*:`)

// unmarshal decodes a file; its errors say where they are in it.
func unmarshal(raw []byte, into any, name string) error {
	keys := capitals.FindAllIndex(raw, -1)
	if len(keys) > 0 {
		raw = bytes.Clone(raw)
	}
	for _, key := range keys {
		raw[key[0]+1] = '-' // as no field: the key is unknown, as to pycocotools
	}
	err, at := json.Unmarshal(raw, into), int64(0)
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		at = syntax.Offset
	case errors.As(err, &mismatch):
		at = mismatch.Offset
	}
	if err != nil {
		return fmt.Errorf("coco: %s: %w, at byte %d", name, err, at)
	}
	return nil
}

// whole is an integer, which may be written as 3.0.
type whole int64

// UnmarshalJSON implements json.Unmarshaler.
func (n *whole) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, (*int64)(n)) == nil {
		return nil
	}
	var x float64
	if json.Unmarshal(raw, &x) != nil || x != float64(int64(x)) || x > 1<<53 || x < -1<<53 {
		return fmt.Errorf("%.40s, want an integer", strings.Join(strings.Fields(string(raw)), " ")) // in one line
	}
	*n = whole(x)
	return nil
}

// into sets a field; a missing number is an error.
func (n *whole) into(to *int64, name string) error {
	if n == nil {
		return errors.New("no " + name)
	}
	*to = int64(*n)
	return nil
}

// Write writes an instances file, one element per line.
func (d *Dataset) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprint(out, `{"images":`)
	err := writeList(out, d.Images)
	fmt.Fprint(out, `,"categories":`)
	err = errors.Join(err, writeList(out, d.Categories))
	fmt.Fprint(out, `,"annotations":`)
	err = errors.Join(err, writeList(out, d.Annotations))
	fmt.Fprintln(out, "}")
	return errors.Join(err, out.Flush())
}

// writeList writes an array, one element per line. Flush returns write errors.
func writeList[T any](out *bufio.Writer, elements []T) error {
	fmt.Fprint(out, "[")
	before := "\n"
	for i, element := range elements {
		line, err := json.Marshal(element)
		if err != nil {
			return fmt.Errorf("coco: element %d to write: %w", i+1, err)
		}
		fmt.Fprintf(out, "%s%s", before, line)
		before = ",\n"
	}
	fmt.Fprint(out, "]")
	return nil
}
