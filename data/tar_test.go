// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/regular"
)

func TestTarFindsSamplesBetweenOtherMembers(t *testing.T) {
	long := strings.Repeat("folder/", 40) // a name that needs a separate header
	var global bytes.Buffer
	w := tar.NewWriter(&global)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "global",
		PAXRecords: map[string]string{"comment": strings.Repeat("x", 700)}}); err != nil {
		t.Fatal(err)
	}
	// Some programs write the size of a directory's entries or of a link's target, which has no content here.
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "a/", Mode: 0o755, Size: 4096}); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	content := [][]byte{plain(7, 2, 3), plain(8, 2, 3), plain(9, 2, 3)}
	dir := datatest.Tree(t, map[string][]byte{
		"one.tar": append(global.Bytes(), datatest.Tar(
			[2]string{"./a/0.cls", "2\n"}, [2]string{"./a/0.jpg", string(content[0])}, [2]string{"a/0.txt", "words"},
			[2]string{"a/._0.jpg", "resource fork"}, [2]string{".hidden.jpg", "x"},
			[2]string{long + "1.seg.jpg", "no image of a sample"}, [2]string{long + "1.jpg", string(content[1])},
			[2]string{long + "1.cls", "0"})...),
		"two.tar":   datatest.Tar([2]string{"b.webp", string(content[2])}, [2]string{"b.cls", " 1 "}),
		"empty.tar": datatest.Tar(),
	})
	paths := []string{filepath.Join(dir, "one.tar"), filepath.Join(dir, "empty.tar"), filepath.Join(dir, "two.tar")}
	f, err := Tar(dir, paths, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(f.Labels, []int32{2, 0, 1}) || !slices.Equal(f.Classes, []string{"0", "1", "2"}) {
		t.Errorf("labels %v of %q", f.Labels, f.Classes)
	}
	for i, want := range content {
		if got, err := f.read(i); err != nil || !bytes.Equal(got, want) {
			t.Errorf("image %d: %v", i, err)
		}
	}
	if got, want := f.In.Where(1), paths[0]+": "+long+"1.jpg"; got != want {
		t.Errorf("image 1 is %s, want %s", got, want)
	}
	if f, err = Tar(dir, paths, []string{"x", "y", "z"}); err != nil || f.Classes[2] != "z" {
		t.Error(f, err)
	}
}

func TestTarRefusesInOneLine(t *testing.T) {
	img := string(plain(1, 2, 3))
	whole := datatest.Tar([2]string{"0.jpg", img}, [2]string{"0.cls", "0"})
	large := bytes.Clone(whole)
	copy(large[124:], "77777777777\x00") // the size of 0.jpg: 8 GiB less a byte
	copy(large[148:], "        ")
	sum := 0
	for _, b := range large[:512] {
		sum += int(b)
	}
	copy(large[148:], []byte{'0' + byte(sum>>12&7), '0' + byte(sum>>9&7), '0' + byte(sum>>6&7), '0' + byte(sum>>3&7),
		'0' + byte(sum&7), 0})
	linked := func(kind byte) []byte { // a link to another file of the machine
		raw := datatest.Tar([2]string{"0.jpg", ""})
		raw[156] = kind
		copy(raw[157:], "/etc/hostname")
		copy(raw[148:], "        ")
		sum := 0
		for _, b := range raw[:512] {
			sum += int(b)
		}
		copy(raw[148:], fmt.Sprintf("%06o\x00", sum))
		return raw
	}
	for name, c := range map[string]struct {
		content []byte
		want    string
	}{
		"no label":      {datatest.Tar([2]string{"0.jpg", img}), "0 has an image but no label: add 0.cls"},
		"no image":      {datatest.Tar([2]string{"0.cls", "1"}, [2]string{"1.cls", "1"}), "0 has a label but no image"},
		"a wrong label": {datatest.Tar([2]string{"d/0.cls", "cat"}, [2]string{"d/0.jpg", img}), `d/0.cls: label "cat"`},
		"below a label": {datatest.Tar([2]string{"0.cls", "-1"}, [2]string{"0.jpg", img}), "0 to 999999"},
		"a large label": {datatest.Tar([2]string{"0.cls", "1000000"}, [2]string{"0.jpg", img}), "0 to 999999"},
		"two images":    {datatest.Tar([2]string{"0.jpg", img}, [2]string{"0.png", img}), "0 has two images"},
		"dotted names": {datatest.Tar([2]string{"d/img.0000.png", img}, [2]string{"d/img.0000.cls", "1"}),
			"d/img.0000.png"},
		"labels with gaps": {datatest.Tar([2]string{"0.jpg", img}, [2]string{"0.cls", "999999"}), "largest label is 999999"},
		"nothing":          {datatest.Tar([2]string{"readme", "x"}), "the 1 shards contain no images"},
		"no tar":           {bytes.Repeat([]byte("hello"), 300), "invalid tar header"},
		"cut in a file":    {whole[:530], "0.jpg: the file is truncated"},
		"cut in headers":   {whole[:1300], "the file is truncated"},
		"a huge size":      {large, "the file is truncated"},
		"a symlink":        {linked(tar.TypeSymlink), "the 1 shards contain no images"},
		"a hard link":      {linked(tar.TypeLink), "the 1 shards contain no images"},
		"a device":         {linked(tar.TypeBlock), "the 1 shards contain no images"},
	} {
		dir := datatest.Tree(t, map[string][]byte{"a.tar": c.content})
		_, err := campaign.Malformed(t, func() error {
			_, err := Tar(dir, []string{filepath.Join(dir, "a.tar")}, nil)
			return err
		})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") ||
			!strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	dir := datatest.Tree(t, map[string][]byte{"a.tar": whole, classNamesFile: []byte("only\n")})
	if f, err := Tar(dir, []string{filepath.Join(dir, "a.tar")}, nil); err != nil || f.Classes[0] != "only" {
		t.Error(f, err)
	}
	// A shard that is truncated after indexing is an error of the image.
	f, err := Tar(dir, []string{filepath.Join(dir, "a.tar")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "a.tar"), 530); err != nil {
		t.Fatal(err)
	}
	if _, err := f.read(0); err == nil || !strings.Contains(err.Error(), "truncated") {
		t.Error(err)
	}
}

func TestShardsAreSplitByTheWordsOfTheirPaths(t *testing.T) {
	for name, c := range map[string]struct{ files, train, validation, test string }{
		"names of the hub": {"data/train-00000-of-2.tar data/train-00001-of-2.tar data/validation-0.tar data/test-0.tar",
			"data/train-00000-of-2.tar data/train-00001-of-2.tar", "data/validation-0.tar", "data/test-0.tar"},
		"folders": {"train/0.tar train/1.tar val/0.tar x.txt .git/train.tar train/deep/train.tar",
			"train/0.tar train/1.tar", "val/0.tar", ""},
		"three folders":   {"train/000.tar val/000.tar test/000.tar", "train/000.tar", "val/000.tar", "test/000.tar"},
		"three names":     {"train-000.tar val-000.tar test-000.tar", "train-000.tar", "val-000.tar", "test-000.tar"},
		"upper case":      {"Train/a-val.tar TESTING/0.tar Dev-0.tar", "Train/a-val.tar", "Dev-0.tar", "TESTING/0.tar"},
		"a test and none": {"train-0.tar test-0.tar", "train-0.tar", "", "test-0.tar"},
		"WebDataset": {"imagenet1k-train-0000.tar imagenet1k-validation-00.tar",
			"imagenet1k-train-0000.tar", "imagenet1k-validation-00.tar", ""},
		"no such words": {"b.tar trainset.tar a.tar", "a.tar b.tar trainset.tar", "", ""},
	} {
		files := map[string][]byte{}
		for _, file := range strings.Fields(c.files) {
			files[file] = nil
		}
		dir := datatest.Tree(t, files)
		relative := func(paths []string) string {
			var names []string
			for _, path := range paths {
				names = append(names, gomlxtest.Must(filepath.Rel(dir, path))(t))
			}
			return strings.Join(names, " ")
		}
		parts, err := Shards(dir, ".tar")
		if got := [3]string{relative(parts.Train), relative(parts.Validation), relative(parts.Test)}; err != nil ||
			got != [3]string{c.train, c.validation, c.test} {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	dir := datatest.Tree(t, map[string][]byte{"train-0.tar": nil, "val-0.tar": nil, "data/validation-0.tar": nil})
	if _, err := Shards(dir, ".tar"); !errors.Is(err, ErrSplits) || !strings.Contains(err.Error(),
		"named val and shards named validation") {
		t.Errorf("two names of a split: %v", err)
	}
	for other, want := range map[string]string{"extra-0.tar train-0.tar": "extra-0.tar is in no split",
		"val-0.tar images-0.tar": "none is named train"} {
		files := map[string][]byte{}
		for _, file := range strings.Fields(other) {
			files[file] = nil
		}
		_, err := Shards(datatest.Tree(t, files), ".tar")
		if !errors.Is(err, ErrSplits) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", other, err, want)
		}
	}
	if _, err := Shards(filepath.Join(dir, "none"), ".tar"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an absent directory: %v", err)
	}
}

// FuzzTar: a shard gives a one-line error, or its images are parts of it, each with a label.
// A pipe named as a shard or as its class names is an error: opening it would wait for its other end. Class names are
// read up to a limit.
func TestTar_PipesAndLongClassNames(t *testing.T) {
	whole := datatest.Tar([2]string{"0.jpg", string(plain(1, 2, 3))}, [2]string{"0.cls", "0"})
	dir := datatest.Tree(t, map[string][]byte{"a.tar": whole})
	pipe, names := filepath.Join(dir, "b.tar"), filepath.Join(dir, classNamesFile)
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), syscall.Mkfifo(names, 0o600)); err != nil {
		t.Skip(err)
	}
	for _, shard := range []string{pipe, filepath.Join(dir, "a.tar")} {
		if _, err := Tar(dir, []string{shard}, nil); !errors.Is(err, regular.ErrIrregular) {
			t.Errorf("%s: %v", shard, err)
		}
	}
	if err := errors.Join(os.Remove(names), os.WriteFile(names, make([]byte, maxClassNames+1), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := Tar(dir, []string{filepath.Join(dir, "a.tar")}, nil); !errors.As(err, new(*fs.PathError)) {
		t.Errorf("long class names: %v", err)
	}
}

// FuzzClassNames: names of classes are one for each line, and each label has one.
func FuzzClassNames(f *testing.F) {
	shard := filepath.Join(f.TempDir(), "0.tar")
	if err := os.WriteFile(shard, datatest.Tar([2]string{"0.jpg", "x"}, [2]string{"0.cls", "2"}), 0o600); err != nil {
		f.Fatal(err)
	}
	campaign.Fuzz(f, []string{"a\nb\nc\n", "a\r\nb", ""}, func(t *testing.T, text string) {
		names := filepath.Join(filepath.Dir(shard), classNamesFile)
		if err := os.WriteFile(names, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		files, err := Tar(filepath.Dir(shard), []string{shard}, nil)
		if lines := strings.Count(strings.TrimSpace(text), "\n") + 1; (err == nil) != (lines > 2) ||
			err == nil && len(files.Classes) != lines {
			t.Errorf("%d lines: %v, %v", lines, files, err)
		}
	})
}

func FuzzTar(f *testing.F) {
	seeds := [][]byte{datatest.Tar([2]string{"0.cls", "2\n"}, [2]string{"0.jpg", "an image"},
		[2]string{"1.png", "another"}, [2]string{"1.cls", "0"}),
		datatest.Tar([2]string{"../0.jpg", "x"}, [2]string{"../0.cls", "1"}), datatest.Tar()}
	shard := filepath.Join(f.TempDir(), "0.tar")
	campaign.Fuzz(f, seeds, func(t *testing.T, raw []byte) {
		if err := os.WriteFile(shard, raw, 0o644); err != nil {
			t.Fatal(err)
		}
		files, err := Tar(filepath.Dir(shard), []string{shard}, nil)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q", err)
			}
			return
		}
		for i, label := range files.Labels {
			content, err := files.read(i)
			if label < 0 || err == nil && !bytes.Contains(raw, content) {
				t.Errorf("image %d of class %d: %q", i, label, content)
			}
		}
	})
}
