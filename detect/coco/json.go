// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package coco

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Read reads an instances file.
func Read(path string) (*Dataset, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("coco: %w", err)
	}
	defer file.Close()
	hash := sha256.New()
	in := io.TeeReader(bufio.NewReader(file), hash)
	d, err := decodeDataset(in, filepath.Base(path))
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, in); err != nil { // what follows the object
		return nil, fmt.Errorf("coco: %w", err)
	}
	d.SHA256 = hex.EncodeToString(hash.Sum(nil))
	return d, nil
}

// decodeDataset reads the JSON of an instances file, element by element, to store only the fields of Dataset. name is
// the file's name in errors.
//
// Unknown fields are skipped. Fields that training does not need (bbox, area, iscrowd, segmentation, sizes of images)
// may be missing; functions that need them return an error. Annotations and categories may be missing, but not images.
func decodeDataset(r io.Reader, name string) (*Dataset, error) {
	d := &Dataset{Name: name}
	if err := d.decode(json.NewDecoder(r)); err != nil {
		return nil, fmt.Errorf("coco: %s: %w", name, err)
	}
	_, err := d.index()
	return d, err
}

func (d *Dataset) decode(from *json.Decoder) error {
	if err := begins(from, '{'); err != nil {
		return err
	}
	images := false
	for from.More() {
		key, err := from.Token()
		if err != nil {
			return cut(err)
		}
		switch key {
		case "images":
			images = true
			d.Images, err = list(from, "image", readImage)
		case "categories":
			d.Categories, err = list(from, "category", readCategory)
		case "annotations":
			d.Annotations, err = list(from, "annotation", readAnnotation)
		default:
			var skipped json.RawMessage
			err = from.Decode(&skipped)
		}
		if err != nil {
			return cut(err)
		}
	}
	if err := ends(from); err != nil {
		return err
	}
	if !images {
		return errors.New("the file lists no images: it is not an instances file")
	}
	return nil
}

// cut reports a truncated text where the decoder reports EOF.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file is truncated")
	}
	return err
}

// begins reads an opening delimiter.
func begins(from *json.Decoder, delimiter json.Delim) error {
	token, err := from.Token()
	if err != nil {
		return cut(err)
	}
	if token != delimiter {
		return fmt.Errorf("found %v, want %v", token, delimiter)
	}
	return nil
}

// ends reads the closing delimiter, which must be the last of the text.
func ends(from *json.Decoder) error {
	if _, err := from.Token(); err != nil {
		return cut(err)
	}
	if _, err := from.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the file has text after the JSON value")
	}
	return nil
}

// list reads an array; what names its elements in errors.
func list[T, Raw any](from *json.Decoder, what string, read func(Raw) (T, error)) (out []T, err error) {
	if err := begins(from, '['); err != nil {
		return nil, fmt.Errorf("%s list: %w", what, err)
	}
	for from.More() {
		var raw Raw
		if err := from.Decode(&raw); err != nil {
			return nil, fmt.Errorf("%s number %d: %w", what, len(out)+1, cut(err))
		}
		element, err := read(raw)
		if err != nil {
			return nil, fmt.Errorf("%s number %d: %w", what, len(out)+1, err)
		}
		out = append(out, element)
	}
	if _, err := from.Token(); err != nil {
		return nil, cut(err)
	}
	return out, nil
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

func readImage(raw struct {
	ID       *whole `json:"id"`
	FileName string `json:"file_name"`
	Height   whole  `json:"height"`
	Width    whole  `json:"width"`
}) (Image, error) {
	if raw.ID == nil {
		return Image{}, errors.New("no id")
	}
	return Image{int64(*raw.ID), raw.FileName, int(raw.Height), int(raw.Width)}, nil
}

func readCategory(raw struct {
	ID            *whole `json:"id"`
	Name          string `json:"name"`
	Supercategory string `json:"supercategory"`
}) (Category, error) {
	if raw.ID == nil {
		return Category{}, errors.New("no id")
	}
	return Category{int64(*raw.ID), raw.Name, raw.Supercategory}, nil
}

func readAnnotation(raw struct {
	ID           *whole       `json:"id"`
	ImageID      *whole       `json:"image_id"`
	CategoryID   *whole       `json:"category_id"`
	Segmentation Segmentation `json:"segmentation"`
	Area         *float64     `json:"area"`
	Box          []float64    `json:"bbox"`
	Crowd        any          `json:"iscrowd"`
}) (Annotation, error) {
	var a Annotation
	for _, field := range []struct {
		name string
		from *whole
		to   *int64
	}{{"id", raw.ID, &a.ID}, {"image_id", raw.ImageID, &a.ImageID}, {"category_id", raw.CategoryID, &a.CategoryID}} {
		if field.from == nil {
			return a, errors.New("no " + field.name)
		}
		*field.to = int64(*field.from)
	}
	a.Segmentation = raw.Segmentation
	switch len(raw.Box) {
	case 0:
		a.missing |= noBox
	case 4:
		a.Box = Box(raw.Box)
	default:
		return a, fmt.Errorf("id %d: bbox has %d numbers, want x, y, width and height", a.ID, len(raw.Box))
	}
	if raw.Area == nil {
		a.missing |= noArea
	} else {
		a.Area = *raw.Area
	}
	switch crowd := raw.Crowd.(type) {
	case nil:
		a.missing |= noCrowd
	case bool:
		a.Crowd = crowd
	case float64:
		a.Crowd = crowd != 0
	default:
		return a, fmt.Errorf("id %d: iscrowd is %#v, want 0 or 1", a.ID, crowd)
	}
	return a, nil
}

// MarshalJSON implements json.Marshaler.
func (a Annotation) MarshalJSON() ([]byte, error) {
	type plain Annotation
	written := struct {
		plain
		Crowd int `json:"iscrowd"`
	}{plain: plain(a)}
	if a.Crowd {
		written.Crowd = 1
	}
	return json.Marshal(written)
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
	before := "[\n"
	for i, element := range elements {
		line, err := json.Marshal(element)
		if err != nil {
			return fmt.Errorf("coco: element %d to write: %w", i+1, err)
		}
		fmt.Fprintf(out, "%s%s", before, line)
		before = ",\n"
	}
	if len(elements) == 0 {
		fmt.Fprint(out, "[")
	}
	fmt.Fprint(out, "]")
	return nil
}
