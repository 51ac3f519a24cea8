// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/internal/disk"
)

// CIFAR-100: Krizhevsky, "Learning Multiple Layers of Features from Tiny Images" (2009). The binary version holds
// train.bin and test.bin, records without a header: coarse label, fine label, then 32×32 red, green and blue planes.
const (
	cifarDir     = "cifar-100-binary"
	cifarArchive = cifarDir + ".tar.gz"
	cifarSide    = 32
	cifarClasses = 100
	cifarCoarse  = 20
	cifarPlane   = cifarSide * cifarSide
	cifarRecord  = 2 + 3*cifarPlane
	cifarTrain   = "train.bin"
	cifarTest    = "test.bin"
	cifarNames   = "fine_label_names.txt"
	// cifarMaxBytes bounds a file: somewhat more than the 50,000 training images.
	cifarMaxBytes = 64_000 * cifarRecord
)

// CIFAR100 reads the training and test sets with their 100 fine classes from a directory that holds train.bin, test.bin
// and fine_label_names.txt, or a cifar-100-binary directory with them, or the official archive cifar-100-binary.tar.gz;
// dir may also be that archive. A subset is accepted: any whole number of records, and fewer names if no label is
// beyond them. The archive is read as a stream. If no file is found the error is fs.ErrNotExist.
func CIFAR100(dir string) (train, test *InMemory, err error) {
	train, test, err = cifarFrom(dir)
	if err != nil {
		err = fmt.Errorf("data: CIFAR-100: %w", err)
	}
	return train, test, err
}

func cifarFrom(dir string) (train, test *InMemory, err error) {
	files := cifarFiles{}
	for _, d := range []string{dir, filepath.Join(dir, cifarDir)} {
		if _, err := os.Stat(filepath.Join(d, cifarTrain)); err == nil {
			return files.parse(d, files.readDir(d))
		}
	}
	for _, file := range []string{dir, filepath.Join(dir, cifarArchive)} {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			f, err := disk.Open(file)
			if err != nil {
				return nil, nil, err
			}
			defer f.Close()
			return files.parse(file, files.readArchive(file, bufio.NewReaderSize(f, 1<<20)))
		}
	}
	return nil, nil, fmt.Errorf("no train.bin, %s/train.bin or %s in %s: give the directory that contains one of them: %w",
		cifarDir, cifarArchive, dir, fs.ErrNotExist)
}

// cifarFiles are the contents of the three files, by name.
type cifarFiles map[string][]byte

var cifarParts = []string{cifarNames, cifarTrain, cifarTest}

func (c cifarFiles) readDir(dir string) (err error) {
	for _, name := range cifarParts {
		if c[name], err = disk.ReadFile(filepath.Join(dir, name), cifarMaxBytes); err != nil {
			return err
		}
	}
	return nil
}

// readArchive reads the three files from a gzip-compressed tar stream, by name, in any directory.
func (c cifarFiles) readArchive(file string, r io.Reader) error {
	unzipped, err := gzip.NewReader(r)
	if err != nil {
		return fmt.Errorf("%s: %w: not a gzip archive", file, err)
	}
	// The whole stream is bounded, so that members cannot expand without limit.
	archive := tar.NewReader(io.LimitReader(unzipped, 2*cifarMaxBytes))
	for len(c) < len(cifarParts) {
		member, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && member.Typeflag == tar.TypeReg && slices.Contains(cifarParts, path.Base(member.Name)) {
			name := path.Base(member.Name)
			if c[name] != nil {
				return fmt.Errorf("%s: %s appears twice", file, name)
			}
			c[name], err = io.ReadAll(archive)
		}
		if err != nil {
			return fmt.Errorf("%s: %w: the archive is damaged or truncated: download it again", file, err)
		}
	}
	// Reading to the end verifies gzip's checksum.
	n, err := io.Copy(io.Discard, io.LimitReader(unzipped, cifarMaxBytes))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w: the archive is damaged: download it again", file, err)
	case n == cifarMaxBytes:
		return fmt.Errorf("%s has more than %d bytes after its last file: it is not CIFAR-100", file, n)
	}
	return nil
}

// parse returns the two datasets, unless reading the files failed.
func (c cifarFiles) parse(where string, err error) (train, test *InMemory, _ error) {
	if err != nil {
		return nil, nil, err
	}
	if len(c) < len(cifarParts) {
		return nil, nil, fmt.Errorf("%s lacks %s, %s or %s", where, cifarTrain, cifarTest, cifarNames)
	}
	names := strings.Fields(string(c[cifarNames]))
	if len(names) < 2 || len(names) > cifarClasses {
		return nil, nil, fmt.Errorf("%s: %s: %d class names, want %d, one a line, or fewer for a subset", where, cifarNames,
			len(names), cifarClasses)
	}
	for file, to := range map[string]**InMemory{cifarTrain: &train, cifarTest: &test} {
		set, err := cifarRecords(c[file])
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %s: %w", where, file, err)
		}
		if label := slices.Max(set.Labels); int(label) >= len(names) {
			return nil, nil, fmt.Errorf("%s has label %d, but %s %d names", where, label, cifarNames, len(names))
		}
		set.Name, set.Classes, *to = "cifar100-"+strings.TrimSuffix(file, ".bin"), names, set
	}
	return train, test, nil
}

// cifarRecords reads the records of a file.
func cifarRecords(raw []byte) (*InMemory, error) {
	n := len(raw) / cifarRecord
	switch {
	case len(raw) == 0:
		return nil, fmt.Errorf("the file is empty, want records of %d bytes", cifarRecord)
	case len(raw)%cifarRecord != 0:
		return nil, fmt.Errorf("record %d has %d of %d bytes: the file is truncated: copy or download it again", n,
			len(raw)%cifarRecord, cifarRecord)
	}
	s := &InMemory{Info: Info{Height: cifarSide, Width: cifarSide, Channels: 3}, Pixels: make([]uint8, 0, n*3*cifarPlane)}
	for record := range slices.Chunk(raw, cifarRecord) {
		coarse, fine := record[0], record[1]
		if coarse >= cifarCoarse || fine >= cifarClasses {
			return nil, fmt.Errorf("record %d: coarse label %d (0 to %d), fine label %d (0 to %d): "+
				"the file is damaged or not CIFAR-100: download it again",
				len(s.Labels), coarse, cifarCoarse-1, fine, cifarClasses-1)
		}
		s.Labels = append(s.Labels, int32(fine))
		red, green, blue := record[2:2+cifarPlane], record[2+cifarPlane:2+2*cifarPlane], record[2+2*cifarPlane:]
		for i := range cifarPlane { // planes to interleaved
			s.Pixels = append(s.Pixels, red[i], green[i], blue[i])
		}
	}
	return s, nil
}
