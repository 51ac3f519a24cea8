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

	pq "github.com/parquet-go/parquet-go"

	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/disk"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// training is the training split of a directory of shards.
func training(dir string) (*Files, error) {
	parts, _, err := Find(dir)
	return parts.Train, err
}

// one is a shard of one sample of class 0.
func one() []byte { return datatest.Tar([2]string{"0.jpg", "an image"}, [2]string{"0.cls", "0"}) }

func TestFind_TarSamplesBetweenOtherMembers(t *testing.T) {
	long := strings.Repeat("folder/", 40) // a name that needs a separate header
	var global, folders bytes.Buffer      // git archive begins with a global header
	g, w := tar.NewWriter(&global), tar.NewWriter(&folders)
	// Some programs write the size of a directory's entries or of a link's target, which has no content here.
	gomlxtest.NoError(t, errors.Join(g.WriteHeader(&tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "global",
		PAXRecords: map[string]string{"comment": strings.Repeat("x", 700)}}), g.Flush(),
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "a/", Mode: 0o755, Size: 4096}), w.Flush()))
	content := [][]byte{plain(7, 2, 3), plain(8, 2, 3), plain(9, 2, 3)}
	dir := datatest.Tree(t, map[string][]byte{
		"a.tar": append(folders.Bytes(), datatest.Tar(
			[2]string{"./a/0.cls", "2\n"}, [2]string{"./a/0.jpg", string(content[0])}, [2]string{"a/0.txt", "words"},
			[2]string{"a/._0.jpg", "resource fork"}, [2]string{".hidden.jpg", "x"},
			[2]string{long + "1.seg.jpg", "no image of a sample"}, [2]string{long + "1.jpg", string(content[1])},
			[2]string{long + "1.cls", "0"})...),
		"b.tar": datatest.Tar(),
		"c.tar": append(global.Bytes(), datatest.Tar([2]string{"b.webp", string(content[2])},
			[2]string{"b.cls", strings.Repeat(" ", 63) + "1"})...),
	})
	f := gomlxtest.Must(training(dir))(t)
	equal(t, "labels and classes", fmt.Sprintf("%v %q", f.Labels, f.Classes), `[2 0 1] ["0" "1" "2"]`)
	for i, want := range content {
		if got, err := f.head(i, maxFileBytes); err != nil || !bytes.Equal(got, want) {
			t.Errorf("image %d: %v", i, err)
		}
	}
	equal(t, "image 1", f.Where(1), filepath.Join(dir, "a.tar")+": "+long+"1.jpg")
	gomlxtest.NoError(t, os.WriteFile(filepath.Join(dir, classNamesFile), []byte("\ufeffx\r\ny\nz\n"), 0o600))
	equal(t, "classes", gomlxtest.Must(training(dir))(t).Classes, []string{"x", "y", "z"})
}

// Each is refused in one line that names the directory, and the member if there is one.
func TestFind_RefusesTars(t *testing.T) {
	sums := func(raw []byte) []byte { // the checksum of a changed header
		copy(raw[148:], "        ")
		sum := 0
		for _, b := range raw[:512] {
			sum += int(b)
		}
		copy(raw[148:], fmt.Sprintf("%06o\x00", sum))
		return raw
	}
	linked := func(kind byte) []byte { // to another file of the machine
		raw := datatest.Tar([2]string{"0.jpg", ""})
		raw[156] = kind
		copy(raw[157:], "/etc/hostname")
		return sums(raw)
	}
	large := one()
	copy(large[124:], "77777777777\x00") // the size of 0.jpg: 8 GiB less a byte
	labelled := func(label string) []byte {
		return datatest.Tar([2]string{"d/0.cls", label}, [2]string{"d/0.jpg", "x"})
	}
	for name, c := range map[string]struct {
		content []byte
		want    string
	}{
		"no label": {datatest.Tar([2]string{"0.jpg", "x"}), "0.cls"},
		"no image": {datatest.Tar([2]string{"0.cls", "1"}, [2]string{"1.cls", "1"}), "0 has"},
		"text":     {labelled("cat"), "d/0.cls"}, "below 0": {labelled("-1"), "d/0.cls"},
		"a million": {labelled("1000000"), "d/0.cls"}, "65 bytes": {labelled(strings.Repeat(" ", 64) + "7"), "d/0.cls"},
		"gaps":         {labelled("999999"), "999999"},
		"two images":   {datatest.Tar([2]string{"0.jpg", "x"}, [2]string{"0.png", "x"}), "0 has"},
		"two labels":   {datatest.Tar([2]string{"0.jpg", "x"}, [2]string{"0.cls", "0"}, [2]string{"0.cls", "1"}), "0 has"},
		"dotted names": {datatest.Tar([2]string{"d/img.00.png", "x"}, [2]string{"d/img.00.cls", "1"}), "d/img.00.png"},
		"nothing":      {datatest.Tar([2]string{"readme", "x"}), "no images"},
		"no tar":       {bytes.Repeat([]byte("hello"), 300), "a.tar"},
		"cut":          {one()[:515], "0.jpg"}, "cut in headers": {one()[:1300], "a.tar"},
		"a huge size": {sums(large), "0.jpg"},
		"a symlink":   {linked(tar.TypeSymlink), "no images"}, "a hard link": {linked(tar.TypeLink), "no images"},
		"a device": {linked(tar.TypeBlock), "no images"},
	} {
		dir := datatest.Tree(t, map[string][]byte{"a.tar": c.content})
		_, err := campaign.Malformed(t, func() error { _, err := training(dir); return err })
		oneLine(t, name, err, dir, c.want)
	}
	dir := datatest.Tree(t, map[string][]byte{"a.tar": one()})
	f := gomlxtest.Must(training(dir))(t)
	gomlxtest.NoError(t, os.Truncate(filepath.Join(dir, "a.tar"), 515)) // after it was indexed
	_, err := f.head(0, maxFileBytes)
	oneLine(t, "a truncated shard", err)
}

// Splits are named by the words of paths. Shards in no split, two names of one, and two kinds of datasets are refused.
func TestFind_SplitsOfShards(t *testing.T) {
	for _, c := range []struct{ files, train, validation, test string }{
		{"data/train-00000-of-2.tar data/train-00001-of-2.tar data/validation-0.tar data/test-0.tar",
			"data/train-00000-of-2.tar data/train-00001-of-2.tar", "data/validation-0.tar", "data/test-0.tar"},
		{"train/0.tar train/1.tar val/0.tar x.txt .git/train.tar train/deep/train.tar",
			"train/0.tar train/1.tar", "val/0.tar", ""},
		{"train-000.tar val-000.tar test-000.tar", "train-000.tar", "val-000.tar", "test-000.tar"},
		{"Train/a-val.tar TESTING/0.tar Dev-0.tar", "Train/a-val.tar", "Dev-0.tar", "TESTING/0.tar"},
		{"imagenet1k-train-0000.tar imagenet1k-validation-00.tar", "imagenet1k-train-0000.tar",
			"imagenet1k-validation-00.tar", ""},
		{"b.tar trainset.tar a.tar", "a.tar b.tar trainset.tar", "", ""},
	} {
		files := map[string][]byte{}
		for _, file := range strings.Fields(c.files) {
			files[file] = one()
		}
		dir := datatest.Tree(t, files)
		parts, format, err := Find(dir)
		var got [3][]string
		n := 0
		for i, f := range parts.each() {
			for row := 0; *f != nil && row < (*f).Len(); row++ {
				path, _, _ := strings.Cut(strings.TrimPrefix((*f).Where(row), dir+"/"), ":")
				got[i], n = append(got[i], path), n+1
			}
		}
		want := [3][]string{strings.Fields(c.train), strings.Fields(c.validation), strings.Fields(c.test)}
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) || format != fmt.Sprint(n, " tar shards") {
			t.Errorf("%s: %v, %s, %v", c.files, got, format, err)
		}
	}
	for files, want := range map[string]error{
		"train-0.tar val-0.tar data/validation-0.tar": ErrSplits, "extra-0.tar train-0.tar": ErrSplits,
		"val-0.tar images-0.tar": ErrSplits, "a.tar b.parquet": ErrKinds, "a.tar cat/1.png": ErrKinds,
		"a.parquet train/cat/1.png other/1.png": ErrKinds,
	} {
		if parts, _, err := Find(named(t, strings.Fields(files)...)); !errors.Is(err, want) || parts.Train != nil {
			t.Errorf("%s: %v, want %v", files, err, want)
		}
	}
	if _, _, err := Find(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an absent directory: %v", err)
	}
}

// The validation split has the classes of the training split.
func TestFind_Parquet(t *testing.T) {
	type content struct {
		Bytes []byte `parquet:"bytes"`
	}
	type row struct {
		Image content `parquet:"image"`
		Label int64   `parquet:"label"`
	}
	dir := datatest.Tree(t, map[string][]byte{classNamesFile: []byte("a\nb\nc\n")})
	for split, labels := range map[string][]int64{"train": {1, 0, 2}, "test": {1}} {
		var rows []row
		for i, label := range labels {
			rows = append(rows, row{content{plain(i, 2, 3)}, label})
		}
		gomlxtest.NoError(t, pq.WriteFile(filepath.Join(dir, split+".parquet"), rows))
	}
	parts, format, err := Find(dir)
	if err != nil || format != "2 Parquet files" || !slices.Equal(parts.Train.Labels, []int32{1, 0, 2}) ||
		!slices.Equal(numbersOf(t, parts.Train), []int{0, 1, 2}) || len(parts.Test.Classes) != 3 {
		t.Errorf("%+v, %s, %v", parts, format, err)
	}
	// A split may have no names, but no others: neither in its files nor for its labels.
	for names, valid := range map[string]bool{`"a", "b", "c"`: true, `"b", "a", "c"`: false} {
		gomlxtest.NoError(t, pq.WriteFile(filepath.Join(dir, "test.parquet"), []row{{content{plain(0, 2, 3)}, 1}},
			pq.KeyValueMetadata("huggingface", `{"info": {"features": {"label": {"names": [`+names+`]}}}}`)))
		_, _, err := Find(dir)
		equal(t, fmt.Sprint(names, err), err == nil, valid)
	}
	gomlxtest.NoError(t, pq.WriteFile(filepath.Join(dir, "test.parquet"), []row{{content{plain(0, 2, 3)}, 3}}))
	_, _, err = Find(dir)
	oneLine(t, "a label without a name", err, "test.parquet: row 0", "label 3", classNamesFile)
}

// A pipe named as a shard or as its class names is an error: opening it would wait for its other end. Class names are
// read up to a limit.
func TestFind_PipesAndLongClassNames(t *testing.T) {
	dir := datatest.Tree(t, map[string][]byte{"b.tar": one()})
	pipe, names := filepath.Join(dir, "a.tar"), filepath.Join(dir, classNamesFile)
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), syscall.Mkfifo(names, 0o600)); err != nil {
		t.Skip(err)
	}
	for range 2 { // the shard, then the names
		if _, err := training(dir); !errors.Is(err, disk.ErrIrregular) {
			t.Error(err)
		}
		_ = os.Remove(pipe)
	}
	gomlxtest.NoError(t, errors.Join(os.Remove(names), os.WriteFile(names, make([]byte, maxClassNames+1), 0o600)))
	if _, err := training(dir); !errors.As(err, new(*fs.PathError)) {
		t.Errorf("long class names: %v", err)
	}
}

// FuzzClassNames: names of classes are one for each line, none empty, and each label has one.
func FuzzClassNames(f *testing.F) {
	dir := f.TempDir()
	shard := datatest.Tar([2]string{"0.jpg", "x"}, [2]string{"0.cls", "2"})
	gomlxtest.NoError(f, os.WriteFile(filepath.Join(dir, "0.tar"), shard, 0o600))
	campaign.Fuzz(f, []string{"a\nb\nc\n", "a\r\nb", "", "\ufeffa\n\nb\nc"}, func(t *testing.T, text string) {
		gomlxtest.NoError(t, os.WriteFile(filepath.Join(dir, classNamesFile), []byte(text), 0o600))
		files, err := training(dir)
		lines := strings.Split(strings.TrimSpace(strings.TrimPrefix(text, "\ufeff")), "\n")
		named := len(lines) > 2 && !slices.Contains(lines, "") && !slices.Contains(lines, "\r")
		if (err == nil) != named || named && len(files.Classes) != len(lines) {
			t.Errorf("%q: %v, %v", lines, files, err)
		}
	})
}

// FuzzTar: a shard gives a one-line error, or its images are parts of it, each with a label.
func FuzzTar(f *testing.F) {
	seeds := [][]byte{datatest.Tar([2]string{"0.cls", "2\n"}, [2]string{"0.jpg", "an image"},
		[2]string{"1.png", "another"}, [2]string{"1.cls", "0"}),
		datatest.Tar([2]string{"../0.jpg", "x"}, [2]string{"../0.cls", "1"}), datatest.Tar()}
	dir := f.TempDir()
	campaign.Fuzz(f, seeds, func(t *testing.T, raw []byte) {
		gomlxtest.NoError(t, os.WriteFile(filepath.Join(dir, "0.tar"), raw, 0o644))
		files, err := training(dir)
		if err != nil {
			oneLine(t, "a shard", err)
			return
		}
		for i, label := range files.Labels {
			content, err := files.head(i, maxFileBytes)
			if label < 0 || err == nil && !bytes.Contains(raw, content) {
				t.Errorf("image %d of class %d: %q", i, label, content)
			}
		}
	})
}
