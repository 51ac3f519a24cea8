// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAFileIsWholeOrAsItWasBefore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	path := filepath.Join(dir, "file.txt")
	writing := func(text string, err error) func(io.Writer) error {
		return func(w io.Writer) error {
			_, writing := io.WriteString(w, text)
			return errors.Join(writing, err)
		}
	}
	full := errors.New("disk full")
	for _, c := range []struct {
		text string
		err  error
		want string
	}{{"first", nil, "first"}, {"half of the sec", full, "first"}, {"third", nil, "third"}} {
		if err := Write(path, writing(c.text, c.err)); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", c.text, err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != c.want {
			t.Errorf("after %q the file has %q, %v", c.text, got, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("there are %v, %v", entries, err)
	}
	for at, want := range map[string]string{dir: "is a directory, want the name of a file",
		path + "/below": path + ": "} {
		if err := Write(at, writing("text", nil)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", at, err, want)
		}
	}
}
