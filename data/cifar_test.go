// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/datatest"
)

// tarred is the archive with the official layout, before compression.
func tarred(files map[string][]byte, names ...string) []byte {
	members := [][2]string{{"cifar-100-binary/"}} // a directory
	for _, name := range names {
		members = append(members, [2]string{"cifar-100-binary/" + name, string(files[name])})
	}
	return datatest.Tar(members...)
}

func compressed(raw []byte, level int) []byte {
	var out bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&out, level)
	if err == nil {
		_, err = zipped.Write(raw)
		err = errors.Join(err, zipped.Close())
	}
	if err != nil {
		panic(err)
	}
	return out.Bytes()
}

// packed is the archive as downloaded.
func packed(files map[string][]byte, names ...string) []byte {
	return compressed(tarred(files, names...), gzip.BestSpeed)
}

var allNames = []string{"fine_label_names.txt", "train.bin", "test.bin"}

func TestCIFAR100_ReadsTheSameFromDirectorySubdirectoryAndArchive(t *testing.T) {
	files := datatest.CIFAR100(5, 3)
	all := map[string][]byte{
		"archive/cifar-100-binary.tar.gz": packed(files, "test.bin", "fine_label_names.txt", "train.bin"),
	}
	for name, raw := range files {
		all["plain/"+name], all["nested/cifar-100-binary/"+name] = raw, raw
	}
	root := datatest.Tree(t, all)
	for _, dir := range []string{"plain", "nested", "archive", "archive/cifar-100-binary.tar.gz"} {
		train, test, err := CIFAR100(filepath.Join(root, dir))
		if err == nil {
			err = errors.Join(train.check(), test.check())
		}
		if err != nil {
			t.Fatal(err)
		}
		if train.Len() != 5 || test.Len() != 3 || train.Classes[42] != "class_42" {
			t.Fatalf("%s: %d and %d images, class 42 is %q", dir, train.Len(), test.Len(), train.Classes[42])
		}
		for k := range 5 {
			if train.Labels[k] != int32(7*k) {
				t.Errorf("%s: record %d has label %d, want %d", dir, k, train.Labels[k], 7*k)
			}
			for i, v := range train.Row(k) { // interleaved against planes
				if want := files[cifarTrain][k*cifarRecord+2+i%3*1024+i/3]; v != want {
					t.Fatalf("%s: record %d, byte %d is %d, want %d", dir, k, i, v, want)
				}
			}
		}
	}
}

// Each is refused with the file, and the record if one is wrong.
func TestCIFAR100_Refuses(t *testing.T) {
	files := datatest.CIFAR100(5, 3)
	with := func(name string, content []byte) map[string][]byte {
		out := datatest.CIFAR100(5, 3)
		if out[name] = content; content == nil {
			delete(out, name)
		}
		return out
	}
	set := func(at int, v byte) []byte { raw := bytes.Clone(files[cifarTrain]); raw[at] = v; return raw }
	archive := func(raw []byte) map[string][]byte { return map[string][]byte{cifarArchive: raw} }
	whole := packed(files, allNames...)
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-6] ^= 1 // in gzip's checksum
	for name, c := range map[string]struct {
		files map[string][]byte
		want  []string
	}{
		"no test images": {with(cifarTest, nil), []string{cifarTest}},
		"no names":       {with(cifarNames, nil), []string{cifarNames}},
		"cut":            {with(cifarTrain, files[cifarTrain][:3*cifarRecord+17]), []string{cifarTrain, "record 3"}},
		"empty":          {with(cifarTest, []byte{}), []string{cifarTest}},
		"fine label":     {with(cifarTrain, set(2*cifarRecord+1, 100)), []string{cifarTrain, "record 2", "100"}},
		"coarse label":   {with(cifarTrain, set(4*cifarRecord, 20)), []string{cifarTrain, "record 4", "20"}},
		"few names":      {with(cifarNames, files[cifarNames][:50]), []string{cifarNames}},
		"one name":       {with(cifarNames, files[cifarNames][:8]), []string{cifarNames}},
		"archive: cut":   {archive(whole[:len(whole)/2]), []string{cifarArchive}},
		"archive: text":  {archive([]byte("<html>404</html>")), []string{cifarArchive}},
		"archive: lacks": {archive(packed(files, cifarTrain, cifarNames)), []string{cifarArchive, cifarTest}},
		"archive: twice": {archive(packed(files, cifarTrain, cifarTrain)), []string{cifarArchive, cifarTrain}},
		"archive: sum":   {archive(flipped), []string{cifarArchive}},
	} {
		dir := datatest.Tree(t, c.files)
		_, err := campaign.Malformed(t, func() error { _, _, err := CIFAR100(dir); return err })
		oneLine(t, name, err, c.want...)
	}
	if _, _, err := CIFAR100(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty directory gives %v, want fs.ErrNotExist", err)
	}
}

func TestCIFAR100_AnArchiveOfZerosIsRefusedAfterABoundedRead(t *testing.T) {
	var header bytes.Buffer
	archive := tar.NewWriter(&header)
	const size = 1 << 40
	if err := archive.WriteHeader(&tar.Header{Name: "bomb", Typeflag: tar.TypeReg, Size: size}); err != nil {
		t.Fatal(err)
	}
	// gzip streams concatenate: a gibibyte, more than the limit, in one megabyte.
	zeros := compressed(make([]byte, 1<<20), gzip.BestCompression)
	bomb := append(compressed(header.Bytes(), gzip.BestSpeed), bytes.Repeat(zeros, 1<<10)...)
	_, _, err := CIFAR100(datatest.Tree(t, map[string][]byte{cifarArchive: bomb}))
	oneLine(t, "a bomb", err, cifarArchive)
}

// FuzzCIFAR100Records checks for any bytes: an error, or exactly the records of the file.
func FuzzCIFAR100Records(f *testing.F) {
	record := datatest.CIFAR100(2, 1)["train.bin"]
	seeds := [][]byte{record, record[:cifarRecord], record[:cifarRecord+1], {}}
	campaign.Fuzz(f, seeds, func(t *testing.T, raw []byte) {
		set, err := cifarReadRecords("fuzz", bytes.NewReader(raw))
		if err != nil {
			return
		}
		set.Classes = make([]string, 100)
		if err := set.check(); err != nil || set.Len()*cifarRecord != len(raw) {
			t.Fatalf("%d bytes became %d images: %v", len(raw), set.Len(), err)
		}
	})
}

// FuzzCIFAR100Archive checks for any bytes inside the compression: an error or complete datasets. Mutations would
// hardly ever pass the compression's checksum.
func FuzzCIFAR100Archive(f *testing.F) {
	files := datatest.CIFAR100(2, 1)
	seeds := [][]byte{tarred(files, allNames...), tarred(files, "train.bin"), {}}
	campaign.Fuzz(f, seeds, func(t *testing.T, raw []byte) {
		file := bytes.NewReader(compressed(raw, gzip.NoCompression))
		parts := cifarParts{sets: map[string]*InMemory{}}
		train, test, err := parts.join("fuzz", parts.readArchive("fuzz", file))
		if err != nil {
			return
		}
		if err := errors.Join(train.check(), test.check()); err != nil {
			t.Fatal(err)
		}
	})
}
