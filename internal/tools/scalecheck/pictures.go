// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	pq "github.com/parquet-go/parquet-go"
)

const (
	classes  = 10
	perShard = 1000 // pictures
	perGroup = 100  // rows of Parquet
)

// containers are the kinds of sets that generate writes, by the names of their directories.
var containers = []string{"folders", "tar", "parquet"}

// jpegOf is picture i of a class: about 48×36 pixels of noise over the class's colour, some 1.5 kB.
func jpegOf(i, class int) []byte {
	r := rand.New(rand.NewPCG(uint64(i), 17))
	img := image.NewRGBA(image.Rect(0, 0, 40+i%17, 32+i%9))
	for y := range img.Rect.Dy() {
		for x := range img.Rect.Dx() {
			noise := r.IntN(60)
			img.SetRGBA(x, y, color.RGBA{uint8(noise + 19*class), uint8(noise + 190 - 19*class), uint8(noise + 2*x), 255})
		}
	}
	var file bytes.Buffer
	if err := jpeg.Encode(&file, img, nil); err != nil {
		panic(err)
	}
	return file.Bytes()
}

// row is a row as the hub's files have them.
type row struct {
	Image picture `parquet:"image,optional"`
	Label int64   `parquet:"label,optional"`
}

type picture struct {
	Bytes []byte `parquet:"bytes,optional"`
	Path  string `parquet:"path,optional"`
}

// generate writes n pictures, class by class, and a fiftieth as many to test on, into dir/folders, dir/tar and
// dir/parquet: the same pictures in the same order.
func generate(dir string, n int) error {
	names := make([]string, classes)
	for class := range names {
		names[class] = fmt.Sprintf("class%d", class)
	}
	number := 0
	for _, part := range []struct {
		name string
		n    int
	}{{"train", n}, {"val", n / 50}} {
		w := &writers{dir: dir, part: part.name}
		for i := range part.n {
			class := i * classes / part.n
			if err := w.add(number, class, names[class]); err != nil {
				return err
			}
			number++
		}
		if err := w.close(); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "tar", "classnames.txt"), []byte(strings.Join(names, "\n")+"\n"), 0o644)
}

// writers write the pictures of one part of a set into all containers.
type writers struct {
	dir, part string
	n         int
	tarFile   *os.File
	tar       *tar.Writer
	rowsFile  *os.File
	rows      *pq.GenericWriter[row]
}

func (w *writers) add(number, class int, name string) (err error) {
	content := jpegOf(number, class)
	folder := filepath.Join(w.dir, "folders", w.part, name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%07d.jpg", number)), content, 0o644); err != nil {
		return err
	}
	if w.n%perShard == 0 {
		if err := w.next(); err != nil {
			return err
		}
	}
	w.n++
	for _, member := range []struct {
		extension string
		content   []byte
	}{{"cls", fmt.Append(nil, class)}, {"jpg", content}} {
		header := &tar.Header{Name: fmt.Sprintf("%07d.%s", number, member.extension), Mode: 0o644,
			Size: int64(len(member.content))}
		if err := w.tar.WriteHeader(header); err != nil {
			return err
		}
		if _, err := w.tar.Write(member.content); err != nil {
			return err
		}
	}
	_, err = w.rows.Write([]row{{picture{content, fmt.Sprintf("%07d.jpg", number)}, int64(class)}})
	return err
}

// next begins new shards.
func (w *writers) next() (err error) {
	if err := w.close(); err != nil {
		return err
	}
	create := func(container string) *os.File {
		path := filepath.Join(w.dir, container, fmt.Sprintf("%s-%05d.%s", w.part, w.n/perShard, container))
		var file *os.File
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o755)
		}
		if err == nil {
			file, err = os.Create(path)
		}
		return file
	}
	w.tarFile, w.rowsFile = create("tar"), create("parquet")
	w.tar = tar.NewWriter(w.tarFile)
	w.rows = pq.NewGenericWriter[row](w.rowsFile, pq.MaxRowsPerRowGroup(perGroup), pq.Compression(&pq.Snappy),
		pq.DataPageVersion(1), pq.PageBufferSize(64<<10), pq.KeyValueMetadata("huggingface", hub()))
	return err
}

// hub is what the hub's library writes about the classes.
func hub() string {
	var names []string
	for class := range classes {
		names = append(names, fmt.Sprintf("%q", fmt.Sprintf("class%d", class)))
	}
	return fmt.Sprintf(`{"info": {"features": {"image": {"_type": "Image"}, `+
		`"label": {"names": [%s], "_type": "ClassLabel"}}}}`,
		strings.Join(names, ", "))
}

// close ends the shards that are open.
func (w *writers) close() error {
	if w.tar == nil {
		return nil
	}
	for _, close := range []func() error{w.tar.Close, w.tarFile.Close, w.rows.Close, w.rowsFile.Close} {
		if err := close(); err != nil {
			return err
		}
	}
	return nil
}
