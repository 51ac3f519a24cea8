// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/wepe-go/wepe/internal/setting"
)

// Row is a line of a record: an Eval or a Result.
type Row interface{ kind() string }

func (Eval) kind() string   { return "eval" }
func (Result) kind() string { return "run" }

// line encodes the kind of a row, then its fields in the order of the struct, so that records can be compared with
// diff.
func line(row Row) ([]byte, error) {
	fields, err := json.Marshal(row)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"kind":%q,%s`, row.kind(), fields[1:]), nil
}

// Append adds one row to the record at path, which is created if absent, and syncs it to disk.
//
// The line is written by a single call in append mode, so several processes can share a record. If the file ends with
// an incomplete line, because an earlier writer was killed, that line is ended first; no other row is lost.
func Append(path string, row Row) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("report: a row for %s: %w", path, err)
		}
	}()
	text, err := line(row)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	torn, err := endsMidLine(file)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	if torn {
		text = append([]byte{'\n'}, text...)
	}
	_, err = file.Write(append(text, '\n'))
	return cmp.Or(err, file.Sync(), file.Close())
}

// endsMidLine reports whether a file ends without a newline.
func endsMidLine(file *os.File) (bool, error) {
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return false, err
	}
	var last [1]byte
	_, err = file.ReadAt(last[:], info.Size()-1)
	return last[0] != '\n', err
}

// Rows is the content of one or several records, each kind in the order of its lines.
type Rows struct {
	Evals   []Eval
	Results []Result
	Skipped []string // one sentence per invalid line: file, line and error
}

// ReadFiles reads the records at the given paths, one after the other.
func ReadFiles(paths ...string) (Rows, error) {
	var all Rows
	for _, path := range paths {
		if err := all.read(path); err != nil {
			return Rows{}, fmt.Errorf("report: %w", err)
		}
	}
	return all, nil
}

func (rows *Rows) read(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewReader(file)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n') // of any length
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := rows.add(line); err != nil {
				rows.Skipped = append(rows.Skipped, fmt.Sprintf("%s:%d: line skipped: %v", path, number, err))
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
}

func (rows *Rows) add(line []byte) error {
	var head struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return err
	}
	var e Eval
	var r Result
	switch head.Kind {
	case e.kind():
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		rows.Evals = append(rows.Evals, e)
	case r.kind():
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		r.Settings = setting.Current(r.Settings)
		rows.Results = append(rows.Results, r)
	default:
		return fmt.Errorf("kind is %q, want %q or %q", head.Kind, e.kind(), r.kind())
	}
	return nil
}
