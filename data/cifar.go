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
	parts := cifarParts{sets: map[string]*InMemory{}}
	for _, d := range []string{dir, filepath.Join(dir, cifarDir)} {
		if _, err := os.Stat(filepath.Join(d, cifarTrain)); err == nil {
			return parts.join(d, parts.readDir(d))
		}
	}
	for _, file := range []string{dir, filepath.Join(dir, cifarArchive)} {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			f, err := disk.Open(file)
			if err != nil {
				return nil, nil, err
			}
			defer f.Close()
			return parts.join(file, parts.readArchive(file, bufio.NewReaderSize(f, 1<<20)))
		}
	}
	return nil, nil, fmt.Errorf("no train.bin, %s/train.bin or %s in %s: give the directory that contains one of them: %w",
		cifarDir, cifarArchive, dir, fs.ErrNotExist)
}

// cifarParts are the files read from a directory or an archive.
type cifarParts struct {
	names []string
	sets  map[string]*InMemory // by the name of the file
}

func (p *cifarParts) readDir(dir string) error {
	for _, name := range []string{cifarNames, cifarTrain, cifarTest} {
		f, err := disk.Open(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		err = p.read(name, f.Name(), f)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// readArchive reads the three files from a gzip-compressed tar stream, by name, in any directory.
func (p *cifarParts) readArchive(file string, r io.Reader) error {
	unzipped, err := gzip.NewReader(r)
	if err != nil {
		return fmt.Errorf("%s: %w: not a gzip archive", file, err)
	}
	// The whole stream is bounded, so that skipped members cannot expand without limit.
	archive := tar.NewReader(io.LimitReader(unzipped, 2*cifarMaxBytes))
	for p.names == nil || len(p.sets) < 2 {
		member, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%s: %w: the archive is damaged or truncated: download it again", file, err)
		}
		if member.Typeflag != tar.TypeReg {
			continue
		}
		if err := p.read(path.Base(member.Name), file+":"+member.Name, archive); err != nil {
			return err
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

// read reads one file if it is one of the three; where is its name in errors.
func (p *cifarParts) read(name, where string, r io.Reader) (err error) {
	switch {
	case name == cifarNames && p.names != nil || p.sets[name] != nil:
		return fmt.Errorf("%s: %s appears twice", where, name)
	case name == cifarNames:
		p.names, err = cifarReadNames(where, r)
	case name == cifarTrain || name == cifarTest:
		p.sets[name], err = cifarReadRecords(where, r)
	}
	return err
}

// join combines the parts into the two datasets, unless reading them failed.
func (p *cifarParts) join(where string, err error) (train, test *InMemory, _ error) {
	if err != nil {
		return nil, nil, err
	}
	train, test = p.sets[cifarTrain], p.sets[cifarTest]
	if p.names == nil || train == nil || test == nil {
		return nil, nil, fmt.Errorf("%s lacks %s, %s or %s", where, cifarTrain, cifarTest, cifarNames)
	}
	for _, set := range []*InMemory{train, test} {
		if label := slices.Max(set.Labels); int(label) >= len(p.names) {
			return nil, nil, fmt.Errorf("%s has label %d, but %s %d names", where, label, cifarNames, len(p.names))
		}
		set.Classes = p.names
	}
	train.Name, test.Name = "cifar100-train", "cifar100-test"
	return train, test, nil
}

func cifarReadNames(where string, r io.Reader) ([]string, error) {
	raw, err := io.ReadAll(io.LimitReader(r, 1<<16))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	names := strings.Fields(string(raw))
	if len(names) < 2 || len(names) > cifarClasses {
		return nil, fmt.Errorf("%s: %d class names, want %d, one a line, or fewer for a subset", where, len(names),
			cifarClasses)
	}
	return names, nil
}

// cifarReadRecords reads records to the end of r.
func cifarReadRecords(where string, r io.Reader) (*InMemory, error) {
	s := &InMemory{Info: Info{Height: cifarSide, Width: cifarSide, Channels: 3}}
	in := bufio.NewReaderSize(r, 1<<16)
	record := make([]byte, cifarRecord)
	for n := 0; ; n++ {
		read, err := io.ReadFull(in, record)
		switch {
		case n*cifarRecord == cifarMaxBytes && err == nil:
			return nil, fmt.Errorf("%s has more than %d bytes", where, cifarMaxBytes)
		case err == io.EOF && n > 0:
			return s, nil
		case err == io.EOF:
			return nil, fmt.Errorf("%s: the file is empty, want records of %d bytes", where, cifarRecord)
		case errors.Is(err, io.ErrUnexpectedEOF):
			return nil, fmt.Errorf("%s: record %d has %d of %d bytes: the file is truncated: copy or download it again",
				where, n, read, cifarRecord)
		case err != nil:
			return nil, fmt.Errorf("%s: record %d: %w", where, n, err)
		}
		coarse, fine := record[0], record[1]
		if coarse >= cifarCoarse || fine >= cifarClasses {
			return nil, fmt.Errorf("%s: record %d: coarse label %d (0 to %d), fine label %d (0 to %d): "+
				"the file is damaged or not CIFAR-100: download it again",
				where, n, coarse, cifarCoarse-1, fine, cifarClasses-1)
		}
		s.Labels = append(s.Labels, int32(fine))
		red, green, blue := record[2:2+cifarPlane], record[2+cifarPlane:2+2*cifarPlane], record[2+2*cifarPlane:]
		for i := range cifarPlane { // planes to interleaved
			s.Pixels = append(s.Pixels, red[i], green[i], blue[i])
		}
	}
}
