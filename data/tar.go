// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/internal/disk"
)

// tarShards are images in tar files. An image is identified by the position of its header: archive/tar reads from
// there, so that names and sizes need not be stored.
type tarShards struct {
	files  []*os.File // open while they are in use
	images []member
	dotted string // an image that is none by WebDataset's rule: its extension begins at the first dot
}

// member is the position of an image: its shard, and the block of 512 bytes at which its header begins.
type member struct{ shard, block uint32 }

const tarBlock = 512

// indexTar reads the headers of tar files. Memory holds an index of 12 bytes per image.
func indexTar(paths []string) (in container, labels []int32, classes []string, err error) {
	s := &tarShards{}
	for _, shard := range paths {
		if err := s.index(&labels, shard); err != nil {
			return nil, nil, nil, fmt.Errorf("%s: %w", shard, err)
		}
	}
	if len(labels) == 0 && s.dotted != "" {
		stem, extension, _ := strings.Cut(path.Base(s.dotted), ".")
		return nil, nil, nil, fmt.Errorf("the %d shards contain no samples: the name of a sample ends at its first dot, so "+
			"%s is %q of sample %s: rename the members without other dots", len(paths), s.dotted, extension, stem)
	}
	return s, labels, nil, nil
}

// index adds the images of a shard.
func (s *tarShards) index(labels *[]int32, shardPath string) error {
	file, err := disk.Open(shardPath)
	if err != nil {
		return err
	}
	s.files = append(s.files, file)
	shard := uint32(len(s.files) - 1)
	var key string // of the current sample
	var img *member
	label := int32(-1)
	end := func() error { // of a sample
		switch {
		case img == nil && label < 0:
		case img == nil:
			return fmt.Errorf("%s has a label but no image (%s)", key, strings.Join(imageExtensions, ", "))
		case label < 0:
			return fmt.Errorf("%s has an image but no label: add %s.cls to the archive", key, key)
		default:
			s.images, *labels = append(s.images, *img), append(*labels, label)
		}
		img, label = nil, -1
		return nil
	}
	err = eachMember(file, func(at int64, header *tar.Header, content io.Reader) (err error) {
		name := path.Clean(header.Name)
		base := path.Base(name)
		if header.Typeflag != tar.TypeReg || hidden(base) {
			return nil
		}
		stem, extension, _ := strings.Cut(base, ".")
		if sample := path.Join(path.Dir(name), stem); sample != key {
			if err := end(); err != nil {
				return err
			}
			key = sample
		}
		extension = "." + strings.ToLower(extension)
		switch known := slices.Contains(imageExtensions, extension); {
		case extension == ".cls":
			if label, err = parseLabel(content); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		case known && img != nil:
			return fmt.Errorf("%s has two images", key)
		case known && header.Size > maxFileBytes:
			return fmt.Errorf("%s: %d bytes, want at most %d", name, header.Size, maxFileBytes)
		case known:
			img = &member{shard, uint32(at / tarBlock)}
		case isImage(base):
			s.dotted = name
		}
		return nil
	})
	if err != nil {
		return err
	}
	return end()
}

// eachMember calls do for the members of a tar file with the positions of their headers.
func eachMember(file *os.File, do func(at int64, header *tar.Header, content io.Reader) error) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Size()/tarBlock > math.MaxUint32 {
		return fmt.Errorf("%d bytes, want less than 2 TiB", info.Size())
	}
	section := io.NewSectionReader(file, 0, info.Size())
	reader := tar.NewReader(section)
	for at := int64(0); ; {
		header, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return asDamage(err)
		case slices.ContainsFunc(slices.Collect(maps.Keys(header.PAXRecords)), func(record string) bool {
			return strings.HasPrefix(record, "GNU.sparse.")
		}) || header.Typeflag == tar.TypeGNUSparse:
			return fmt.Errorf("%s is a sparse file: create the archive again without sparse files", header.Name)
		}
		size := header.Size
		if slices.Contains(withoutContent, header.Typeflag) {
			size = 0
		}
		begins, err := section.Seek(0, io.SeekCurrent) // position of the content: nothing is read ahead
		if err != nil {
			return err
		}
		if size > info.Size()-begins {
			return fmt.Errorf("%s: the file is truncated", header.Name)
		}
		if err := do(at, header, reader); err != nil {
			return err
		}
		at = begins + (size+tarBlock-1)/tarBlock*tarBlock
	}
}

// withoutContent are the types of members without content, even if their headers declare some.
var withoutContent = []byte{tar.TypeLink, tar.TypeSymlink, tar.TypeChar, tar.TypeBlock, tar.TypeDir, tar.TypeFifo}

// header returns the header and the content of an image.
func (s *tarShards) header(part int) (header *tar.Header, content io.Reader, err error) {
	m := s.images[part]
	from := int64(m.block) * tarBlock
	reader := tar.NewReader(io.NewSectionReader(s.files[m.shard], from, math.MaxInt64-from))
	if header, err = reader.Next(); err != nil {
		return nil, nil, asDamage(err)
	}
	return header, reader, nil
}

// Open implements container.
func (s *tarShards) Open(part int) (io.ReadCloser, error) {
	_, content, err := s.header(part)
	return io.NopCloser(content), err
}

// Where implements container: the shard, and the name of the image in it.
func (s *tarShards) Where(part int) string {
	m := s.images[part]
	header, _, err := s.header(part)
	if err != nil { // the shard has changed
		return fmt.Sprintf("%s, at byte %d", s.files[m.shard].Name(), int64(m.block)*tarBlock)
	}
	return fmt.Sprintf("%s: %s", s.files[m.shard].Name(), header.Name)
}
