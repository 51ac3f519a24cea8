// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func writing(text string, err error) func(io.Writer) error {
	return func(w io.Writer) error {
		_, failed := io.WriteString(w, text)
		return errors.Join(failed, err)
	}
}

func TestWrite_IsWholeOrNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	path := filepath.Join(dir, "file.txt")
	full := errors.New("disk full")
	for _, c := range []struct {
		text string
		err  error
		want string
	}{{"first", nil, "first"}, {"half of the sec", full, "first"}, {"third", nil, "third"}} {
		err := Write(path, writing(c.text, c.err))
		if got, _ := os.ReadFile(path); !errors.Is(err, c.err) || string(got) != c.want {
			t.Errorf("after %q the file has %q, %v", c.text, got, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("there are %v, %v", entries, err)
	}
	for _, at := range []string{dir, path + "/below"} {
		if err := Write(at, writing("text", nil)); err == nil || !strings.Contains(err.Error(), at) {
			t.Errorf("%s: %v, want an error that names it", at, err)
		}
	}
	for umask, want := range map[int]os.FileMode{0o077: 0o600, 0o002: 0o664} {
		path := filepath.Join(t.TempDir(), "file")
		before := syscall.Umask(umask)
		err := Write(path, writing("", nil))
		syscall.Umask(before)
		if info, _ := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("umask %o: %v, want permissions %o", umask, err, want)
		}
	}
}

// What is there stays: a link to the file, its permissions. A name may be as long as the system allows.
func TestWrite_ReplacesTheContentAlone(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	long := filepath.Join(dir, strings.Repeat("a", 255))
	gomlxtest.NoError(t, errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink("file", link)))
	for _, path := range []string{link, long} {
		gomlxtest.NoError(t, Write(path, writing("new", nil)))
	}
	raw, _ := os.ReadFile(file)
	is, _ := os.Stat(file)
	if to, err := os.Readlink(link); string(raw) != "new" || is.Mode().Perm() != 0o600 || to != "file" || err != nil {
		t.Errorf("%q with %v; the link leads to %q, %v", raw, is.Mode(), to, err)
	}
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	gomlxtest.NoError(t, errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(file, []byte("seven b"), 0o600)))
	if raw, err := ReadFile(file, 7); string(raw) != "seven b" || err != nil {
		t.Errorf("%q, %v", raw, err)
	}
	if _, err := ReadFile(file, 6); err == nil {
		t.Error("a file longer than the limit is read")
	}
	for path, want := range map[string]error{pipe: ErrIrregular, dir: ErrIrregular,
		filepath.Join(dir, "none"): fs.ErrNotExist} {
		if _, err := ReadFile(path, 6); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
}

func TestReadLines(t *testing.T) {
	path, long := filepath.Join(t.TempDir(), "rows.jsonl"), strings.Repeat("a", 1<<17)
	for content, valid := range map[string]bool{`"` + long + "\"\n\"b\"": true, "\"a\"\n{\n": false} {
		gomlxtest.NoError(t, os.WriteFile(path, []byte(content), 0o644))
		got, err := ReadLines[string](path)
		if valid && (err != nil || !slices.Equal(got, []string{long, "b"})) || !valid && (err == nil ||
			!strings.HasPrefix(err.Error(), path+":2: ")) {
			t.Errorf("%d values, %v", len(got), err)
		}
	}
}
