// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package features

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/disk"
	"github.com/wepe-go/wepe/internal/numpy"
)

// The feature vectors to write.
const (
	ofClass = "class"      // the class token
	ofMean  = "mean"       // the mean-pooled patch tokens
	ofBoth  = "class+mean" // both concatenated, as in DINO's linear probes
)

// Job writes the features of a list.
type Job struct {
	Model *finetune.Model
	List  *List
	Of    string // "class" (default), "mean" (default without a class token) or "class+mean"
	JSON  bool   // write the features into images.jsonl
	Dir   string // created if absent

	Progress func(done, all int) // number of images, called at the start and after every batch; may be nil
	Logger   *slog.Logger        // for images that cannot be read; may be nil
}

// Run writes the missing features. An interrupted job resumes with its last batch, and its files end with the same
// bytes as without the interruption (on the go backend; others do not guarantee equal bits). A directory of another
// model or list is refused, also with the same names: the sizes of files and some images are compared, so an image that
// was changed to another of the same size may keep its features.
func (j Job) Run(ctx context.Context) (*Table, error) {
	if j.Logger == nil {
		j.Logger = slog.New(slog.DiscardHandler)
	}
	s, err := j.begin()
	if err != nil {
		return nil, err
	}
	unlock, err := checkpoints.Lock(j.Dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unlock() }()
	switch have, err := readState(j.Dir); {
	case errors.Is(err, fs.ErrNotExist):
		for _, name := range []string{rowsFile, valuesFile} {
			if _, err := os.Stat(filepath.Join(j.Dir, name)); err == nil {
				return nil, fmt.Errorf("features: %s in %s has no %s beside it: use another directory", name, j.Dir, stateFile)
			}
		}
		if err := s.write(j.Dir); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	default:
		done, unread := have.Rows > 0, have.Unread
		same := have.Contents == "" || have.Contents == s.Contents
		have.Rows, have.Unread, have.Contents = 0, nil, s.Contents
		if done { // nothing is computed
			have.Batch = s.Batch
		}
		if fmt.Sprint(have) != fmt.Sprint(s) {
			return nil, fmt.Errorf("features: %s contains features of another model, list, kind or batch (%s of %d images in "+
				"batches of %d): remove it or use another directory", j.Dir, have.Of, have.All, have.Batch)
		}
		if !same {
			return nil, fmt.Errorf("features: %s contains features of other images with the names of %s: remove it or use "+
				"another directory", j.Dir, j.List.Name)
		}
		if done {
			j.logUnread(unread)
			return Read(j.Dir)
		}
	}
	if err := j.write(ctx, &s); err != nil {
		return nil, err
	}
	return Read(j.Dir)
}

// begin returns the state of a new job.
func (j *Job) begin() (s state, err error) {
	c := j.Model.Recipe.Model
	hasClass := c.Prefix() > c.Registers
	if j.Of == "" {
		if j.Of = ofMean; hasClass {
			j.Of = ofClass
		}
	}
	if !slices.Contains([]string{ofClass, ofMean, ofBoth}, j.Of) {
		return s, fmt.Errorf("features: unknown kind of features %q: want %s, %s or %s", j.Of, ofClass, ofMean, ofBoth)
	}
	if !hasClass && j.Of != ofMean {
		return s, fmt.Errorf("features: the model has no class token: use %s", ofMean)
	}
	for _, image := range j.List.Images {
		if !utf8.ValidString(image.File) {
			return s, fmt.Errorf("features: the file name %q is not UTF-8: rename the file", image.File)
		}
	}
	if len(j.List.Images) == 0 {
		return s, fmt.Errorf("features: no images in %s", j.List.Name)
	}
	if _, err := j.Model.Embed(); err != nil { // a refused model leaves no directory
		return s, err
	}
	s = state{Of: j.Of, Width: c.Width, JSON: j.JSON, Batch: j.Model.EvalBatch(), List: j.List.fingerprint(),
		All: len(j.List.Images), Contents: j.List.contents()}
	if j.Of == ofBoth {
		s.Width *= 2
	}
	s.Model, err = j.Model.Fingerprint()
	return s, err
}

func (s state) write(dir string) error {
	return disk.Write(filepath.Join(dir, stateFile), func(w io.Writer) error {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(s)
	})
}

func (j Job) write(ctx context.Context, s *state) error {
	out, next, err := j.resume(*s)
	defer out.close()
	if err != nil {
		return err
	}
	progress := func(done int) {
		if j.Progress != nil {
			j.Progress(done, s.All)
		}
	}
	progress(next)
	first := next
	var rows []line // of a batch, written together
	err = j.Model.EmbedEach(s.All-first, func(i int) string { return j.List.Images[first+i].File },
		func(i int) (*data.Image, error) { return j.List.read[first+i]() },
		func(i int, f finetune.Features, unread error) error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			img := j.List.Images[first+i]
			if unread == nil {
				vector := map[string][]float32{ofClass: f.Class, ofMean: f.Mean, ofBoth: slices.Concat(f.Class, f.Mean)}[j.Of]
				if at := slices.IndexFunc(vector, func(v float32) bool { return v-v != 0 }); at >= 0 {
					return fmt.Errorf("features: number %d of %s is %v: the model diverged", at, img.File, vector[at])
				}
				rows = append(rows, line{img, slices.Clone(vector)}) // a copy, because vector is part of a larger slice
			} else {
				j.Logger.Warn("skipped", "error", unread)
			}
			if next = first + i + 1; (i+1)%s.Batch != 0 && next < s.All {
				return nil
			}
			err := out.add(rows)
			rows = rows[:0]
			progress(next)
			return err
		})
	if err != nil {
		return err
	}
	if out.rows == 0 {
		return fmt.Errorf("features: none of the %d images of %s can be read", s.All, j.List.Name)
	}
	if s.Rows = out.rows; s.Rows < s.All {
		if s.Unread, err = j.unread(); err != nil {
			return err
		}
		j.logUnread(s.Unread)
	}
	if err := out.finish(); err != nil {
		return err
	}
	return s.write(j.Dir)
}

// logUnread logs the first images that have no row.
func (j Job) logUnread(unread []string) {
	const shown = 10
	if n := len(unread); n > 0 {
		text := strings.Join(unread[:min(n, shown)], ", ")
		if n > shown {
			text += fmt.Sprintf(" and %d more, see %s", n-shown, filepath.Join(j.Dir, stateFile))
		}
		j.Logger.Warn(fmt.Sprintf("skipped %d of %d images of %s: %s", n, len(j.List.Images), j.List.Name, text))
	}
}

// unread returns the images of the list that have no row.
func (j Job) unread() (files []string, err error) {
	at := 0
	err = readLines(filepath.Join(j.Dir, rowsFile), func(l line, _ int64) error {
		for ; j.List.Images[at] != l.Image; at++ {
			files = append(files, j.List.Images[at].File)
		}
		at++
		return nil
	})
	for _, p := range j.List.Images[at:] {
		files = append(files, p.File)
	}
	return files, err
}

// output is the files, which grow batch by batch.
type output struct {
	lines, values *os.File // values is nil if the numbers go into lines
	width, rows   int
}

// resume opens the files and removes the incomplete batch of a stopped process. next is the first image to read. The
// output is to be closed after an error, too.
func (j Job) resume(s state) (o *output, next int, err error) {
	o = &output{width: s.Width}
	open := func(name string) (*os.File, error) {
		return os.OpenFile(filepath.Join(j.Dir, name), os.O_RDWR|os.O_CREATE, 0o644)
	}
	if o.lines, err = open(rowsFile); err != nil {
		return o, next, err
	}
	whole := math.MaxInt // rows whose numbers exist
	if !s.JSON {
		if o.values, err = open(valuesFile); err != nil {
			return o, next, err
		}
		info, err := o.values.Stat()
		if err != nil {
			return o, next, err
		}
		whole = int(info.Size()-numpy.HeaderSize) / (4 * s.Width)
	}
	var places []int // index in the list, of each row
	var ends []int64 // of its line
	at := 0
	err = readLines(o.lines.Name(), func(l line, end int64) error {
		for ; at < s.All && j.List.Images[at] != l.Image; at++ {
		}
		if at == s.All {
			return fmt.Errorf("%s is not in the list or does not exist: remove %s", l.File, j.Dir)
		}
		if len(places) < whole {
			places, ends = append(places, at), append(ends, end)
		}
		at++
		return nil
	})
	if err != nil {
		return o, next, err
	}
	if len(places) > 0 {
		next = (places[len(places)-1] + 1) / s.Batch * s.Batch
		if places[len(places)-1] == s.All-1 {
			next = s.All
		}
	}
	o.rows, _ = slices.BinarySearch(places, next)
	length := int64(0)
	if o.rows > 0 {
		length = ends[o.rows-1]
	}
	if err := cut(o.lines, length); err != nil || o.values == nil {
		return o, next, err
	}
	_, err = o.values.WriteAt(numpy.Header("<f4", 0, o.width), 0)
	return o, next, errors.Join(err, cut(o.values, numpy.HeaderSize+4*int64(o.rows)*int64(o.width)))
}

// cut truncates a file and seeks to its end.
func cut(file *os.File, length int64) error {
	if err := file.Truncate(length); err != nil {
		return err
	}
	_, err := file.Seek(length, io.SeekStart)
	return err
}

// add writes rows: first the numbers, then the lines that make them valid.
func (o *output) add(rows []line) error {
	var values, lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, l := range rows {
		if o.values != nil {
			_ = binary.Write(&values, binary.LittleEndian, l.Features) // a buffer never fails
			l.Features = nil
		}
		if err := encoder.Encode(l); err != nil {
			return err
		}
	}
	if o.values != nil {
		if _, err := o.values.Write(values.Bytes()); err != nil {
			return err
		}
		if err := o.values.Sync(); err != nil {
			return err
		}
	}
	o.rows += len(rows)
	_, err := o.lines.Write(lines.Bytes())
	return err
}

// finish writes the number of rows.
func (o *output) finish() error {
	if o.values != nil {
		if _, err := o.values.WriteAt(numpy.Header("<f4", o.rows, o.width), 0); err != nil {
			return err
		}
		if err := o.values.Sync(); err != nil {
			return err
		}
	}
	return o.lines.Sync()
}

func (o *output) close() {
	for _, file := range []*os.File{o.lines, o.values} {
		_ = file.Close() // already synced; nil if it was not opened
	}
}
