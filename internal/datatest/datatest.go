// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package datatest writes dataset files in their original formats, for tests.
package datatest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/janpfeifer/must"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/numpy"
)

// Tree writes files by their paths, with slashes, below a new directory, which it returns.
func Tree[T string | []byte](t testing.TB, files map[string]T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		gomlxtest.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		gomlxtest.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return dir
}

// Tar returns a tar file of members, each a name and its content, in order.
func Tar(members ...[2]string) []byte {
	var file bytes.Buffer
	w := tar.NewWriter(&file)
	for _, m := range members {
		must.M(w.WriteHeader(&tar.Header{Name: m[0], Mode: 0o644, Size: int64(len(m[1]))}))
		must.M1(io.WriteString(w, m[1]))
	}
	must.M(w.Close())
	return file.Bytes()
}

// PNG returns the PNG file of an image.
func PNG(img image.Image) []byte {
	var file bytes.Buffer
	must.M(png.Encode(&file, img))
	return file.Bytes()
}

// CIFAR100 returns the files of CIFAR-100's binary version with the given numbers of distinct records: a coarse and a
// fine label, 7 times the record's number, and three planes of 32×32 pixels.
func CIFAR100(train, test int) map[string][]byte {
	files := map[string][]byte{}
	for name, n := range map[string]int{"train.bin": train, "test.bin": test} {
		for k := range n {
			files[name] = append(files[name], byte(k%20), byte(7*k%100))
			for c := range 3 {
				for i := range 32 * 32 {
					files[name] = append(files[name], byte(31*k+101*c+7*(i/32)+3*(i%32)))
				}
			}
		}
	}
	for k := range 100 {
		files["fine_label_names.txt"] = fmt.Appendf(files["fine_label_names.txt"], "class_%d\n", k)
	}
	return files
}

// DSprites returns the members of a file like dSprites' own with n images. The first row of pixels of image k is its
// number, the lowest bit first; its factors are SpriteFactors.
func DSprites(n int) map[string][]byte {
	images, factors := make([]byte, n*64*64), []byte{}
	for k := range n {
		for bit := range 64 {
			images[k*64*64+bit] = byte(k >> bit & 1)
		}
		for _, v := range SpriteFactors(k) {
			factors = binary.LittleEndian.AppendUint64(factors, uint64(v))
		}
	}
	return map[string][]byte{
		"imgs.npy":            NPY("|u1", images, n, 64, 64),
		"latents_classes.npy": NPY("<i8", factors, n, 6),
		"metadata.npy":        NPY("|O", []byte("a pickle")),
	}
}

// SpriteFactors are colour, shape, scale, orientation, x and y of image k.
func SpriteFactors(k int) [6]int {
	return [6]int{0, k % 3, k % 6, 7 * k % 40, 5 * k % 32, 11 * k % 32}
}

// NPY returns an array file as NumPy writes it.
func NPY(dtype string, content []byte, shape ...int) []byte {
	return append(numpy.Header(dtype, shape...), content...)
}

// NPZ writes a file of arrays and returns its path; members without content are omitted.
func NPZ(t testing.TB, members map[string][]byte) (file string) {
	t.Helper()
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for name, content := range members {
		if content != nil {
			must.M1(must.M1(archive.Create(name)).Write(content))
		}
	}
	must.M(archive.Close())
	return filepath.Join(Tree(t, map[string][]byte{"arrays.npz": out.Bytes()}), "arrays.npz")
}

func segment(marker byte, content ...byte) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{0xff, marker}, uint16(len(content)+2)), content...)
}

// ProgressiveJPEG has a single scan, of the constant coefficients of 8-bit inks, all of them zero: a bit for a block.
// exif is a TIFF structure; it may be nil.
func ProgressiveJPEG(height, width int, inks byte, exif []byte) []byte {
	frame := []byte{8, byte(height >> 8), byte(height), byte(width >> 8), byte(width), inks}
	scan := []byte{inks}
	for i := range inks {
		frame = append(frame, i+1, 0x11, 0)
		scan = append(scan, i+1, 0)
	}
	blocks := int(inks) * ((height + 7) / 8) * ((width + 7) / 8)
	out := []byte{0xff, 0xd8}
	if exif != nil {
		out = append(out, segment(0xe1, append([]byte("Exif\x00\x00"), exif...)...)...)
	}
	out = append(out, segment(0xee, append([]byte("Adobe\x00d"), 0, 0, 0, 0, 0)...)...) // inks without a transform
	out = append(out, segment(0xdb, append([]byte{0}, bytes.Repeat([]byte{1}, 64)...)...)...)
	out = append(out, segment(0xc2, frame...)...)
	// One code, of one bit, for the symbol 0: no difference to the block before.
	out = append(out, segment(0xc4, append([]byte{0, 1}, make([]byte, 16)...)...)...)
	out = append(out, segment(0xda, append(scan, 0, 0, 0)...)...)
	out = append(out, make([]byte, blocks/8)...)
	return append(out, byte(0xff>>(blocks%8)), 0, 0xff, 0xd9)
}
