// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/datatest"
)

// tarred is the archive with the official layout, before compression.
func tarred(t testing.TB, files map[string][]byte, names ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	write := func(h *tar.Header, raw []byte) {
		if err := archive.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write(raw); err != nil {
			t.Fatal(err)
		}
	}
	write(&tar.Header{Name: "cifar-100-binary/", Typeflag: tar.TypeDir, Mode: 0o755}, nil)
	for _, name := range names {
		write(&tar.Header{Name: "cifar-100-binary/" + name, Typeflag: tar.TypeReg, Mode: 0o644,
			Size: int64(len(files[name]))}, files[name])
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func compressed(raw []byte, level int) []byte {
	var out bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&out, level)
	if err != nil {
		panic(err)
	}
	if _, err := zipped.Write(raw); err != nil {
		panic(err)
	}
	if err := zipped.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// packed is the archive as downloaded.
func packed(t testing.TB, files map[string][]byte, names ...string) []byte {
	t.Helper()
	return compressed(tarred(t, files, names...), gzip.BestSpeed)
}

var allNames = []string{"fine_label_names.txt", "train.bin", "test.bin"}

func TestCIFAR100ReadsTheSameFromDirectorySubdirectoryAndArchive(t *testing.T) {
	files := datatest.CIFAR100(5, 3)
	all := map[string][]byte{
		"archive/cifar-100-binary.tar.gz": packed(t, files, "test.bin", "fine_label_names.txt", "train.bin"),
	}
	for name, raw := range files {
		all["plain/"+name], all["nested/cifar-100-binary/"+name] = raw, raw
	}
	root := datatest.Tree(t, all)
	for _, dir := range []string{"plain", "nested", "archive", "archive/cifar-100-binary.tar.gz"} {
		train, test, err := CIFAR100(filepath.Join(root, dir))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(train.Check(t.Context(), true), test.Check(t.Context(), true)); err != nil {
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

// The demo's 400 and 200 images are of ten classes of CIFAR-100.
func TestTheDemoOfCIFAR100IsBalancedAndNearTheStatisticsOfAllImages(t *testing.T) {
	train, test, err := CIFAR100(filepath.Join("..", "examples", "cifar100", "demo"))
	if err != nil {
		t.Fatal(err)
	}
	for set, each := range map[*Memory]int{train: 40, test: 20} {
		if err := set.Check(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		counts := map[int32]int{}
		for _, label := range set.Labels {
			counts[label]++
		}
		for label, n := range counts {
			if n != each || len(counts) != 10 {
				t.Errorf("%s: class %d of %d has %d images, want %d", set.Name, label, len(counts), n, each)
			}
		}
	}
	// Statistics of all 50,000 images; ten classes differ from them more than a random sample of that size.
	for c := range 3 {
		var sum, square float64
		for i := c; i < len(train.Pixels); i += 3 {
			v := float64(train.Pixels[i]) / 255
			sum, square = sum+v, square+v*v
		}
		n := float64(len(train.Pixels) / 3)
		mean := sum / n
		std := math.Sqrt(square/n - mean*mean)
		if !(math.Abs(mean-CIFAR100Mean[c]) <= 0.04) || !(math.Abs(std-CIFAR100Std[c]) <= 0.04) {
			t.Errorf("channel %d: mean %.4f, std %.4f, want %.4f and %.4f",
				c, mean, std, CIFAR100Mean[c], CIFAR100Std[c])
		}
	}
}

func TestCIFAR100RefusesDamageInOneLineNamingFileAndRecord(t *testing.T) {
	files := datatest.CIFAR100(5, 3)
	without := func(name string) map[string][]byte {
		out := datatest.CIFAR100(5, 3)
		delete(out, name)
		return out
	}
	with := func(name string, change func([]byte) []byte) map[string][]byte {
		out := datatest.CIFAR100(5, 3)
		out[name] = change(out[name])
		return out
	}
	archive := func(raw []byte) map[string][]byte { return map[string][]byte{cifarArchive: raw} }
	whole := packed(t, files, allNames...)
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-6] ^= 1 // in gzip's checksum

	cut := func(b []byte) []byte { return b[:3*cifarRecord+17] }
	set := func(at int, v byte) func([]byte) []byte { return func(b []byte) []byte { b[at] = v; return b } }
	for name, c := range map[string]struct {
		files map[string][]byte
		want  []string
	}{
		"missing_test":   {without("test.bin"), []string{"test.bin", "no such file"}},
		"missing_names":  {without(cifarNames), []string{cifarNames}},
		"cut":            {with("train.bin", cut), []string{"train.bin", "record 3", "17 of 3074"}},
		"empty":          {with("test.bin", func(b []byte) []byte { return nil }), []string{"test.bin", "empty"}},
		"label":          {with("train.bin", set(2*cifarRecord+1, 100)), []string{"record 2", "fine label 100"}},
		"coarse":         {with("train.bin", set(4*cifarRecord, 20)), []string{"record 4", "coarse label 20"}},
		"names":          {with(cifarNames, func(b []byte) []byte { return b[:50] }), []string{cifarNames, "has label"}},
		"one_name":       {with(cifarNames, func(b []byte) []byte { return b[:8] }), []string{cifarNames, "want 100"}},
		"archive_cut":    {archive(whole[:len(whole)/2]), []string{cifarArchive}},
		"archive_no_zip": {archive([]byte("<html>404</html>")), []string{cifarArchive, "not a gzip"}},
		"archive_lacks":  {archive(packed(t, files, "train.bin", cifarNames)), []string{cifarArchive, "lacks"}},
		"archive_twice":  {archive(packed(t, files, "train.bin", "train.bin")), []string{cifarArchive, "twice"}},
		"archive_crc":    {archive(flipped), []string{cifarArchive, "damaged"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := datatest.Tree(t, c.files)
			_, err := campaign.Malformed(t, func() error {
				_, _, err := CIFAR100(dir)
				return err
			})
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q has more than one line", err)
			}
		})
	}
	if _, _, err := CIFAR100(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty directory gives %v, want fs.ErrNotExist", err)
	}
}

func TestAnArchiveOfZerosIsRefusedAfterABoundedRead(t *testing.T) {
	var header bytes.Buffer
	archive := tar.NewWriter(&header)
	const size = 1 << 40
	if err := archive.WriteHeader(&tar.Header{Name: "bomb", Typeflag: tar.TypeReg, Size: size}); err != nil {
		t.Fatal(err)
	}
	// gzip streams concatenate: a gibibyte, more than the limit, in one megabyte.
	zeros := compressed(make([]byte, 1<<20), gzip.BestCompression)
	bomb := append(compressed(header.Bytes(), gzip.BestSpeed), bytes.Repeat(zeros, 1<<10)...)
	start := time.Now()
	_, _, err := CIFAR100(datatest.Tree(t, map[string][]byte{cifarArchive: bomb}))
	if err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("error %v after %v, want the archive refused", err, time.Since(start))
	}
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
		if err := set.Check(t.Context(), true); err != nil || set.Len()*cifarRecord != len(raw) {
			t.Fatalf("%d bytes became %d images: %v", len(raw), set.Len(), err)
		}
	})
}

// FuzzCIFAR100Archive checks for any bytes inside the compression: an error or complete datasets. Mutations would
// hardly ever pass the compression's checksum.
func FuzzCIFAR100Archive(f *testing.F) {
	files := datatest.CIFAR100(2, 1)
	seeds := [][]byte{tarred(f, files, allNames...), tarred(f, files, "train.bin"), {}}
	var file bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&file, gzip.NoCompression)
	if err != nil {
		f.Fatal(err)
	}
	campaign.Fuzz(f, seeds, func(t *testing.T, raw []byte) {
		file.Reset()
		zipped.Reset(&file)
		if _, err := zipped.Write(raw); err != nil {
			t.Fatal(err)
		}
		if err := zipped.Close(); err != nil {
			t.Fatal(err)
		}
		parts := cifarParts{sets: map[string]*Memory{}}
		train, test, err := parts.join("fuzz", parts.readArchive("fuzz", &file))
		if err != nil {
			return
		}
		if err := errors.Join(train.Check(t.Context(), true), test.Check(t.Context(), true)); err != nil {
			t.Fatal(err)
		}
	})
}
