// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/shapes"

	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/numpy"
)

// npy returns an .npy of version 1 as NumPy writes it: the numbers begin at a multiple of 64 bytes.
func npy(descr, shape string, data []byte) []byte {
	return npyOf(fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape), data)
}

func npyOf(literal string, data []byte) []byte {
	literal += strings.Repeat(" ", 63-(10+len(literal))%64) + "\n"
	out := append([]byte("\x93NUMPY"), 1, 0)
	out = binary.LittleEndian.AppendUint16(out, uint16(len(literal)))
	return append(append(out, literal...), data...)
}

func f4(values ...float32) (raw []byte) {
	for _, x := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return raw
}

// zipMember is a member with a false header.
type zipMember struct {
	name    string
	content []byte
	deflate bool
	lie     func(*zip.FileHeader)
}

func zipOf(t testing.TB, members ...zipMember) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, m := range members {
		h := &zip.FileHeader{Name: m.name, CRC32: crc32.ChecksumIEEE(m.content), UncompressedSize64: uint64(len(m.content))}
		packed := m.content
		if m.deflate {
			h.Method, packed = zip.Deflate, deflated(t, m.content)
		}
		h.CompressedSize64 = uint64(len(packed))
		if m.lie != nil {
			m.lie(h)
		}
		gomlxtest.Must(gomlxtest.Must(w.CreateRaw(h))(t).Write(packed))(t)
	}
	gomlxtest.NoError(t, w.Close())
	return out.Bytes()
}

func deflated(t testing.TB, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gomlxtest.Must(flate.NewWriter(&out, flate.DefaultCompression))(t)
	gomlxtest.Must(w.Write(content))(t)
	gomlxtest.NoError(t, w.Close())
	return out.Bytes()
}

// readNPZ reads all numbers of an .npz in memory, as many as the shapes require.
func readNPZ(t testing.TB, raw []byte) (map[string][]float32, error) {
	f := &weights{tensors: map[string]storedTensor{}}
	if err := f.addNPZ(bytes.NewReader(raw), int64(len(raw)), "x.npz"); err != nil {
		return nil, err
	}
	out := map[string][]float32{}
	var reader floatReader
	for name, x := range f.tensors {
		flat, err := reader.read(name, x)
		if err != nil {
			return nil, err
		}
		if out[name] = slices.Clone(flat); len(flat) != shapes.Make(x.dtype, x.dims...).Size() {
			t.Errorf("%q: %d numbers for %v", name, len(flat), x.dims)
		}
	}
	return out, nil
}

func TestNPZ_WrittenByHand(t *testing.T) {
	v2 := npy("<f4", "(2,)", f4(7, 8))
	v2 = slices.Concat([]byte("\x93NUMPY"), []byte{2, 0}, v2[8:10], []byte{0, 0}, v2[10:])
	got, err := readNPZ(t, zipOf(t,
		zipMember{name: "a/b.npy", content: npy("<f4", "(1, 3)", f4(1, -2, 3.5))},
		zipMember{name: "scalar.npy", content: npyOf(`{"shape": (), "fortran_order":False,"descr":"<f4"}`, f4(4))},
		zipMember{name: "zip.npy", content: npy("<f4", "(1000,)", f4(make([]float32, 1000)...)), deflate: true},
		zipMember{name: "half.npy", content: npy("<f2", "(2,)", []byte{0, 0x3c, 0, 0xc0})},
		zipMember{name: "brain.npy", content: npy("|V2", "(1,)", []byte{0x80, 0x3f})},
		zipMember{name: "v2.npy", content: v2},
		zipMember{name: "none.npy", content: npy("<f4", "(0, 5)", nil)},
	))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]float32{
		"a/b": {1, -2, 3.5}, "scalar": {4}, "zip": make([]float32, 1000), "half": {1, -2}, "brain": {1}, "v2": {7, 8},
		"none": {},
	} {
		if !slices.Equal(got[name], want) {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

// overlapping returns a zip whose list names one member of 10,000 bytes a hundred times.
func overlapping(t testing.TB) []byte {
	raw := zipOf(t, zipMember{name: "aa.npy", content: npy("<f4", "(2484,)", make([]byte, 4*2484))})
	end := bytes.LastIndex(raw, []byte("PK\x05\x06"))
	list := int(binary.LittleEndian.Uint32(raw[end+16:]))
	entry, tail := raw[list:end], bytes.Clone(raw[end:])
	out := bytes.Clone(raw[:list])
	for i := range 100 {
		next := bytes.Replace(entry, []byte("aa"), fmt.Appendf(nil, "%02d", i), 1)
		out = append(out, next...)
	}
	binary.LittleEndian.PutUint16(tail[8:], 100)
	binary.LittleEndian.PutUint16(tail[10:], 100)
	binary.LittleEndian.PutUint32(tail[12:], uint32(100*len(entry)))
	return append(out, tail...)
}

func longList(t testing.TB) []byte {
	members := make([]zipMember, 200)
	for i := range members {
		name := fmt.Sprintf("%d%s.npy", i, strings.Repeat("n", 15000))
		members[i] = zipMember{name: name, content: npy("<f4", "()", f4(1))}
	}
	return zipOf(t, members...)
}

func claims60MB(name string) zipMember {
	return zipMember{name + ".npy", npyOf("{'descr': '<f4', 'fortran_order': False, 'shape': (15000000,)}",
		pseudorandom(60_000)), true, func(h *zip.FileHeader) { h.UncompressedSize64 = 128 + 60_000_000 }}
}

func hostileNPZ(t testing.TB) []malformed {
	one := func(content []byte) []byte { return zipOf(t, zipMember{name: "w.npy", content: content}) }
	two := f4(1, 2)
	lie := func(deflate bool, change func(*zip.FileHeader)) []byte {
		return zipOf(t, zipMember{"w.npy", npy("<f4", "(2,)", two), deflate, change})
	}
	literal := func(text string) []byte { return one(npyOf(text, two)) }
	whole := lie(false, nil)
	flipped := bytes.Clone(whole)
	flipped[bytes.Index(flipped, two)] ^= 1
	return []malformed{
		{"pickled array", one(npy("|O", "(2,)", two)), "pickled Python objects are never read"},
		{"PyTorch pickle", zipOf(t, zipMember{name: "archive/data.pkl", content: two}), "a pickle, which is never read"},
		{"structured", literal("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }"), "structured and"},
		{"big-endian", one(npy(">f4", "(2,)", two)), `dtype ">f4"`},
		{"integers", one(npy("<i4", "(2,)", two)), `dtype "<i4"`},
		{"doubles", one(npy("<f8", "(1,)", two)), "want float32, float16 or bfloat16"},
		{"Fortran", literal("{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }"), "Fortran order"},
		{"key twice", literal("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"), "nothing else"},
		{"unknown key", literal("{'descr': '<f4', 'x': 1, 'fortran_order': False, 'shape': (2,), }"), "nothing else"},
		{"no shape", literal("{'descr': '<f4', 'fortran_order': False, }"), "want descr, fortran_order, shape"},
		{"call", literal("__import__('os')"), "nothing else"},
		{"million", one(npy("<f4", "(1000000, 1000000)", two)), "8 bytes for"},
		{"too large", one(npy("<f4", "(281474976710657,)", two)), "plain integers"},
		{"rank 17", one(npy("<f4", "("+strings.Repeat("1,", 17)+")", two)), "plain integers"},
		{"too little data", one(npy("<f4", "(3,)", two)), `tensor "w": 8 bytes for`},
		{"version 4", one(append([]byte("\x93NUMPY\x04\x00"), make([]byte, 99)...)), "version 4"},
		{"header bomb", one(append([]byte("\x93NUMPY\x02\x00\xff\xff\xff\xff"), make([]byte, 99)...)), "more than 65536"},
		{"cut header", one(append([]byte("\x93NUMPY\x01\x00\xff\x00"), make([]byte, 9)...)), "EOF"},
		{"directory", zipOf(t, zipMember{name: "w/"}), "no NAME.npy"},
		{"twice", zipOf(t, zipMember{name: "w.npy", content: npy("<f4", "(2,)", two)},
			zipMember{name: "w.npy", content: npy("<f4", "(2,)", two)}), "named twice"},
		{"method 12", lie(false, func(h *zip.FileHeader) { h.Method = 12 }), "zip method 12"},
		{"encrypted", lie(false, func(h *zip.FileHeader) { h.Flags |= 1 }), "encrypted"},
		{"no checksum", lie(false, func(h *zip.FileHeader) { h.CRC32 = 0 }), "no checksum"},
		{"wrong checksum", lie(false, func(h *zip.FileHeader) { h.CRC32++ }), "checksum error"},
		{"flipped bit", flipped, "checksum error"},
		{"stored, other size", lie(false, func(h *zip.FileHeader) { h.UncompressedSize64++ }), "bytes out of"},
		{"packed beyond the file", lie(true, func(h *zip.FileHeader) { h.CompressedSize64 = 1 << 40 }), "more than the"},
		{"ratio 1033", zipOf(t, zipMember{"w.npy", npy("<f4", "(2,)", two), true, func(h *zip.FileHeader) {
			h.UncompressedSize64 = 1033 * h.CompressedSize64
		}}), "bytes out of"},
		{"claims 60 MB", zipOf(t, claims60MB("w")), "EOF"},
		{"claims 120 MB", zipOf(t, claims60MB("w"), claims60MB("v")), "its arrays have more than 67"},
		{"gives more than it claims", zipOf(t, zipMember{"w.npy", npy("<f4", "(2,)", f4(1, 2, 3)), true,
			func(h *zip.FileHeader) { h.UncompressedSize64 -= 4 }}), "not a valid zip"},
		{"a hundred names for one member", overlapping(t), "more than the"},
		{"three megabytes of names", longList(t), "the list of members"},
		{"no zip", []byte("PK\x03\x04 and no more"), "x.npz: not an .npz file, or truncated: download it again (zip: not a " +
			"valid"},
	}
}

func pseudorandom(n int) []byte {
	out, x := make([]byte, n), uint32(1)
	for i := range out {
		x = x*1664525 + 1013904223
		out[i] = byte(x >> 24)
	}
	return out
}

func TestNPZ_HostileFilesTakeLittleMemory(t *testing.T) {
	for _, attack := range hostileNPZ(t) {
		used, err := campaign.Malformed(t, func() error {
			_, err := readNPZ(t, attack.raw)
			return err
		})
		var format *formatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), attack.want) || format.File != "x.npz" {
			t.Errorf("%s: %v, want a formatError with %q", attack.name, err, attack.want)
		}
		if limit := uint64(3*len(attack.raw) + 16<<20); used > limit {
			t.Errorf("%s: %d bytes allocated, at most %d", attack.name, used, limit)
		}
	}
}

// FuzzNPZ: any bytes give a formatError or as many numbers as the shapes require, in little memory.
func FuzzNPZ(f *testing.F) {
	var seeds [][]byte
	for _, attack := range hostileNPZ(f) {
		if len(attack.raw) < 2000 {
			seeds = append(seeds, attack.raw)
		}
	}
	campaign.Fuzz(f, seeds, func(t *testing.T, raw []byte) {
		var err error
		used, _ := campaign.Cost(func() { _, err = readNPZ(t, raw) })
		var format *formatError
		if err != nil && !errors.As(err, &format) {
			t.Errorf("%T: %v", err, err)
		}
		// Deflate may expand a thousand times, and appending allocates five times that.
		if used > uint64(6*numpy.MaxRatio*len(raw)+16<<20) {
			t.Errorf("%d bytes allocated for %d", used, len(raw))
		}
	})
}
