// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package features writes the features of images, one vector per image, and computes kNN classification, linear probes,
// PCA and nearest neighbours from them.
//
//	list, err := features.Folder("photos")
//	job := features.Job{Model: m, List: list, Dir: "runs/photos"}
//	table, err := job.Run(ctx)              // the same call resumes an interrupted run
//	classified, err := table.KNN(20, 0.07)  // k and temperature
//
// The directory contains
//
//	features.npy     float32 [n, width], for numpy.load
//	images.jsonl     a line per row: {"file": "cat/1.jpg", "class": "cat"}; with Job.JSON also "features", and no
//	                 features.npy
//	features.json    fingerprints of model and list; at the end the number of rows and the images that could not be read
//
// The command is wepe features.
package features

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/wepe-go/wepe/internal/numpy"
)

// Names of the files.
const (
	valuesFile = "features.npy"
	rowsFile   = "images.jsonl"
	stateFile  = "features.json"
)

// Parts of a list that comes with a split.
const (
	trainPart      = "train"
	validationPart = "validation" // beside a test split: classifiers use neither its images nor its labels
	testPart       = "test"
)

// Image is the image of a row.
type Image struct {
	File  string `json:"file"`
	Class string `json:"class,omitempty"`
	Part  string `json:"part,omitempty"` // "train", "validation", "test", or empty if there is no split
}

// Table holds the features of images.
type Table struct {
	Name   string
	Images []Image // [n]
	Width  int
	Values []float32 // [n, Width]
	Model  string    // finetune.Model.Fingerprint of the model that computed them
	Of     string    // as in Job
}

// Vector is row i: a view, not a copy.
func (t *Table) Vector(i int) []float32 { return t.Values[i*t.Width : (i+1)*t.Width] }

// rows returns the vectors of some images, one after the other.
func (t *Table) rows(which []int) []float32 {
	out := make([]float32, 0, len(which)*t.Width)
	for _, i := range which {
		out = append(out, t.Vector(i)...)
	}
	return out
}

// line is one line of images.jsonl.
type line struct {
	Image
	Features []float32 `json:"features,omitempty"`
}

// state is features.json: the origin of the features, and at the end Rows.
type state struct {
	Model  string   `json:"model"` // fingerprint of the weights
	Of     string   `json:"of"`
	Width  int      `json:"width"`
	JSON   bool     `json:"json,omitempty"`
	Batch  int      `json:"batch"`  // a job resumes only with the same: other batches give other bits
	List   string   `json:"list"`   // SHA-256 of the names of all images, in order
	All    int      `json:"images"` // number of images in the list
	Rows   int      `json:"rows,omitempty"`
	Unread []string `json:"unread,omitempty"` // images without a row

	Contents string `json:"contents,omitempty"` // see List.contents; earlier versions lack it
}

func readState(dir string) (s state, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil {
		err = fmt.Errorf("features: %s: %w", filepath.Join(dir, stateFile), err)
	}
	return s, err
}

// Read reads the features that a finished Job wrote to a directory.
func Read(dir string) (*Table, error) {
	s, err := readState(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("features: no features in %s: write them with wepe features", dir)
	}
	if err != nil {
		return nil, err
	}
	if s.Rows == 0 {
		return nil, fmt.Errorf("features: the features in %s are incomplete: repeat the command that wrote them", dir)
	}
	t := &Table{Name: filepath.Base(dir), Width: s.Width, Model: s.Model, Of: s.Of}
	if err := readLines(filepath.Join(dir, rowsFile), func(l line, _ int64) error {
		t.Images, t.Values = append(t.Images, l.Image), append(t.Values, l.Features...)
		return nil
	}); err != nil {
		return nil, err
	}
	if !s.JSON {
		if err := t.readValues(filepath.Join(dir, valuesFile)); err != nil {
			return nil, err
		}
	}
	if len(t.Images) != s.Rows || len(t.Values) != s.Rows*s.Width {
		return nil, fmt.Errorf("features: %s has %d images and %d numbers, want %d and %d: remove it and run wepe features "+
			"again", dir, len(t.Images), len(t.Values), s.Rows, s.Rows*s.Width)
	}
	return t, nil
}

func (t *Table) readValues(path string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("features: %s: %w", path, err)
		}
	}()
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	a, err := numpy.Open(bufio.NewReader(file), info.Size())
	if err != nil {
		return err
	}
	if a.Type != "<f4" || len(a.Shape) != 2 || a.Shape[1] != t.Width {
		return fmt.Errorf("type %s, shape %v, want <f4 [n, %d]", a.Type, a.Shape, t.Width)
	}
	t.Values = make([]float32, a.Shape[0]*t.Width)
	return binary.Read(a, binary.LittleEndian, t.Values)
}

// readLines calls see with each complete line of images.jsonl and its end. An incomplete last line was being written
// when a process ended, and is ignored.
func readLines(path string, see func(l line, end int64) error) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("features: %w", err)
	}
	defer file.Close()
	reader, end := bufio.NewReader(file), int64(0)
	for n := 1; ; n++ {
		raw, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		var l line
		if err == nil {
			end += int64(len(raw))
			err = json.Unmarshal(raw, &l)
		}
		if err == nil {
			err = see(l, end)
		}
		if err != nil {
			return fmt.Errorf("features: %s:%d: %w", path, n, err)
		}
	}
}
