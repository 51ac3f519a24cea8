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
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/internal/numpy"
)

// rawFile concatenates a header and data in the format.
func rawFile(header string, data []byte) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), data...)
}

// written returns the file that holds the tensors.
func written(named map[string]*tensors.Tensor) ([]byte, error) {
	var out []outTensor
	for name, value := range named { // in the random order of maps: the file must not depend on it
		out = append(out, asIs(name, value))
	}
	var raw bytes.Buffer
	err := writeSafetensors(&raw, "", out)
	return raw.Bytes(), err
}

// readAll reads a whole file from memory.
func readAll(raw []byte) (map[string]*tensors.Tensor, error) {
	w := &weights{tensors: map[string]storedTensor{}}
	if err := w.addSafetensors(bytes.NewReader(raw), int64(len(raw)), "x.safetensors"); err != nil {
		return nil, err
	}
	out := map[string]*tensors.Tensor{}
	for name, t := range w.tensors {
		var err error
		if out[name], err = t.readAsIs(name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// The longest names, the most tensors and the longest header that are written are also read.
func TestSafetensors_LimitsOfWritingAreThoseOfReading(t *testing.T) {
	tensor := func(name string, dims ...int) outTensor {
		return outTensor{name, shapes.Make(dtypes.Uint8, dims...), func(io.Writer) error { return nil }}
	}
	many := make([]outTensor, maxTensors+1)
	for i := range many {
		many[i] = tensor(fmt.Sprint(i), 0)
	}
	ranks := make([]int, maxRank+1) // zeros
	const longest, one = maxName / 6, 636 + len(`"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},`)
	n := (maxHeader - 1) / one
	left := maxHeader - (n*one + 1) // of the last comma and both braces
	header := func(more int) []outTensor {
		out := make([]outTensor, n)
		for i := range out {
			add := min(more, 40)
			out[i] = tensor(fmt.Sprintf("%0636d", i)+strings.Repeat("b", add), 0)
			more -= add
		}
		return out
	}
	for name, c := range map[string]struct {
		out []outTensor
		ok  bool
	}{
		"rank 16": {[]outTensor{tensor("a", ranks[:maxRank]...)}, true}, "rank 17": {[]outTensor{tensor("a", ranks...)},
			false},
		"name":        {[]outTensor{tensor(strings.Repeat("a", longest), 0)}, true},
		"longer name": {[]outTensor{tensor(strings.Repeat("a", longest+1), 0)}, false},
		"not UTF-8":   {[]outTensor{tensor("a\xff", 0)}, false},
		"many":        {many[:maxTensors], true}, "too many": {many, false},
		"complex": {[]outTensor{asIs("c", tensors.FromValue(complex64(1)))}, false},
		"header":  {header(left), true}, "longer header": {header(left + 1), false},
	} {
		var raw strings.Builder
		err := writeSafetensors(&raw, "", c.out)
		if is.Equal(t, name, err == nil, c.ok); err == nil {
			is.Equal(t, name, len(gomlxtest.Must(readAll([]byte(raw.String())))(t)), len(c.out))
		}
	}
}

// A pointer of git-lfs (https://git-lfs.com), a page in place of a file, a pickle of protocol 2, anything else.
func TestOpen_FileOfAnotherKindIsNamed(t *testing.T) {
	for begin, want := range map[string]string{
		"version https://git-lfs.github.com/spec/v1\n": "git-lfs", "<!DOCTYPE html>": "page", "\x80\x02}q\x00.....": "pickle",
		"{\"a\": 1, \"b\": 2}": "JSON", "\x89PNG\r\n\x1a\n....": "image", "PK is no zip.....": "no safetensors file",
	} {
		refuses(t, begin, is.ErrorOf(readAll([]byte(begin+strings.Repeat(" ", 99)))), inFile, want)
	}
	whole := string(withShape("2"))
	for _, n := range []int{3, 20} { // a file that becomes shorter while it is read
		_, err := readSafetensorsHeader(strings.NewReader(whole[:n]), int64(len(whole)), "x")
		check(t, errors.Is(err, io.ErrUnexpectedEOF), "%d bytes: %v", n, err)
	}
}

// f32 is the header entry of two float32 at the beginning.
const f32 = `"dtype":"F32","shape":[2],"data_offsets":[0,8]`

// malformed is a file that must be refused.
type malformed struct {
	name string
	raw  []byte
	want string // in the error
}

// malformedFiles are one or more files for each rule of the format. Each has 8 bytes of data unless its name states
// otherwise.
var malformedFiles = []malformed{
	{"empty file", nil, "too few"},
	{"header of 1", rawFile("{", nil), "header of 1"},
	{"header bomb", []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, "header of"},
	{"header longer than the file", append([]byte{10, 0, 0, 0, 0, 0, 0, 0}, "{}       "...), "header of 10"},
	{"leading space", rawFile(` {}`, nil), "begin with {"},
	{"newline after", rawFile("{}\n", nil), "end with }"},
	{"not UTF-8", rawFile("{\"\xff\":{"+f32+"}}", make([]byte, 8)), "UTF-8"},
	{"unpaired surrogate", rawFile(`{"\ud800":{`+f32+`}}`, make([]byte, 8)), "surrogate"},
	{"long name", rawFile(`{"`+strings.Repeat("a", maxName+1)+`":{`+f32+`}}`, make([]byte, 8)), "more than"},
	{"duplicate name", rawFile(`{"a":{`+f32+`},"a":{`+f32+`}}`, make([]byte, 8)), "twice"},
	{"metadata not string", rawFile(`{"__metadata__":{"a":1}}`, nil), "want"},
	{"metadata null", rawFile(`{"__metadata__":null}`, nil), "want"},
	{"too much metadata", rawFile(manyKeys(maxMetadata+1), nil), "at most 4096 strings"},
	{"unknown field", rawFile(`{"a":{`+f32+`,"x":1}}`, make([]byte, 8)), "fields other than"},
	{"second of two", rawFile(`{"good":{`+f32+`},"bad":{"dtype":"F32","shape":[1e3],"data_offsets":[8,12]}}`,
		make([]byte, 12)), `tensor "bad": shape`},
	{"missing field", rawFile(`{"a":{"dtype":"F32","shape":[2]}}`, make([]byte, 8)), "data_offsets is missing"},
	{"unknown dtype", rawFile(`{"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}}`, make([]byte, 8)), "F31"},
	{"negative dimension", withShape("-2"), "plain integers"},
	{"exponent", withShape("2e0"), "want"},
	{"null", withShape("null,2"), "plain integers"},
	{"dimension above 2^48", withShape("281474976710657"), "up to 2^48"},
	{"dimension 2^64+2", withShape("18446744073709551618"), "plain integers"},
	{"product 2^63+2, four bytes each", withShape("10,5581,8681,49477,384773"), "bytes for"},
	{"rank 17", withShape("2" + strings.Repeat(",1", 16)), "at most 16"},
	{"zero dimension with bytes", withShape("0"), "8 bytes for"},
	{"begin after end", withOffsets("8,0"), "bytes 8 to 0"},
	{"offsets near 2^63", withOffsets("9223372036854775800,9223372036854775808"), "of 8"},
	{"one offset", withOffsets("8"), "two numbers"},
	{"three offsets", withOffsets("0,8,8"), "two numbers"},
	{"overlap", rawFile(`{"a":{`+f32+`},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, make([]byte, 8)),
		"begins at byte 4"},
	{"hole in front", rawFile(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, make([]byte, 8)), "at byte 4"},
	{"hole between, 20 bytes", rawFile(`{"a":{`+f32+`},"b":{"dtype":"F32","shape":[2],"data_offsets":[12,20]}}`,
		make([]byte, 20)), "begins at byte 12"},
	{"data after the tensors, 9 bytes", rawFile(`{"a":{`+f32+`}}`, make([]byte, 9)), "its tensors hold 8"},
	{"data cut, 7 bytes", rawFile(`{"a":{`+f32+`}}`, make([]byte, 7)), "bytes 0 to 8 of 7"},
	{"data but no tensor", rawFile(`{}`, make([]byte, 8)), "its tensors hold 0"},
	{"bool of 2", rawFile(`{"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}}`, []byte{1, 2}),
		"bool has the value 2"},
	{"million brackets", rawFile(`{"a":`+strings.Repeat("[", 1_000_000)+"}", nil), "levels"},
	{"too many tensors", manyTensors("0", maxTensors+2), "more than 65536"},
	{"ten-megabyte name", rawFile(`{"`+strings.Repeat("a", 10_000_000)+`":{`+f32+"}}", make([]byte, 8)), "more than"},
}

func manyKeys(n int) string {
	var b strings.Builder
	b.WriteString(`{"__metadata__":{"k":""`)
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, `,"%d":""`, i)
	}
	return b.String() + "}}"
}

func withShape(dims string) []byte {
	return rawFile(`{"a":{"dtype":"F32","shape":[`+dims+`],"data_offsets":[0,8]}}`, make([]byte, 8))
}

func withOffsets(offsets string) []byte {
	return rawFile(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[`+offsets+`]}}`, make([]byte, 8))
}

// Allocations are bounded in proportion to the header of safetensors, where headers of several megabytes are parsed
// before they are refused, without a time limit.
func TestWeights_MalformedFilesTakeLittleMemory(t *testing.T) {
	limit := func(raw []byte) uint64 { return uint64(100*len(raw) + 1<<16) } // 75 without the race detector
	for _, dims := range []string{"0" + strings.Repeat(",1", maxRank-1), "0"} {
		var err error
		good := manyTensors(dims, maxTensors/8)
		used, _ := campaign.Cost(func() { _, err = readAll(good) })
		check(t, err == nil && used <= limit(good), "a good file of %d bytes: %v, %d bytes allocated", len(good), err, used)
	}
	for file, attacks := range map[string][]malformed{"x.safetensors": malformedFiles, "x.npz": hostileNPZ(t)} {
		for _, m := range attacks {
			var used uint64
			read, bound := func() (err error) { _, err = readAll(m.raw); return err }, limit(m.raw)
			if file == "x.npz" {
				read, bound = func() (err error) { _, err = readNPZ(t, m.raw); return err }, uint64(3*len(m.raw)+16<<20)
			}
			err := error(nil)
			if len(m.raw) > 2<<20 && file != "x.npz" {
				used, _ = campaign.Cost(func() { err = read() })
			} else {
				used, err = campaign.Malformed(t, read)
			}
			format := (*formatError)(nil)
			check(t, errors.As(err, &format) && strings.Contains(err.Error(), m.want) && format.File == file && used <= bound,
				"%s: %v, want a formatError with %q; %d bytes allocated, at most %d", m.name, err, m.want, used, bound)
		}
	}
}

// manyTensors returns a file of tensors without elements.
func manyTensors(dims string, n int) []byte {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"%d":{"dtype":"U8","shape":[%s],"data_offsets":[0,0]}`, i, dims)
	}
	return rawFile("{"+b.String()[1:]+"}", nil)
}

// FuzzSafetensors checks three properties for any bytes: no panic; an accepted file, read in memory proportional to its
// length, is unchanged after writing and reading again; and the written one aligns each type, in an order of its own.
func FuzzSafetensors(f *testing.F) {
	var seeds [][]byte
	for _, attack := range malformedFiles {
		if len(attack.raw) < 1000 {
			seeds = append(seeds, attack.raw)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	small := gomlxtest.Must(written(map[string]*tensors.Tensor{
		"/a": randomTensor(rng, dtypes.Float32, 2, 3), "/b": randomTensor(rng, dtypes.Bool, 5),
		"/c": randomTensor(rng, dtypes.Uint64, 0), "/d\"": randomTensor(rng, dtypes.BFloat16),
	}))(f)
	every := map[string]*tensors.Tensor{}
	for v := range newStore(f, 1).IterVariables() {
		every[v.Path()] = v.MustValue()
	}
	seeds = append(seeds, gomlxtest.Must(written(every))(f), small, rawFile(`{"__metadata__":{"format":"pt"},
		"b\u00e9":{"shape":[2],"data_offsets":[8,10],"dtype":"BOOL"},
		"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"s":{"dtype":"BF16","shape":[],"data_offsets":[10,12]}}   `,
		[]byte("eight...\x01\x00\x80\x3f")))
	campaign.Fuzz(f, seeds, func(t *testing.T, raw []byte) {
		var got map[string]*tensors.Tensor
		var err error
		if used, _ := campaign.Cost(func() { got, err = readAll(raw) }); used > uint64(100*len(raw)+1<<20) {
			t.Fatalf("%d bytes allocated for %d", used, len(raw))
		}
		if err != nil {
			return
		}
		again, err := written(got)
		if err != nil {
			return // a name too long to write
		}
		back, err := readAll(again)
		if other, _ := written(got); err != nil || len(back) != len(got) || !bytes.Equal(other, again) ||
			binary.LittleEndian.Uint64(again)%8 != 0 {
			t.Fatalf("written again: %v, or in another order, or with an odd header", err)
		}
		entries, _ := readSafetensorsHeader(bytes.NewReader(again), int64(len(again)), "x")
		for _, e := range entries {
			if e.begin%uint64(e.dtype.Size()) != 0 {
				t.Fatalf("%q of type %s begins at byte %d of the data", e.name, e.dtype, e.begin)
			}
		}
		if len(got) > 0 {
			same(t, "read again", &Imported{Variables: back}, &Imported{Variables: got})
		}
	})
}

// Every float16 against its definition, (-1)^s · 2^(e-15) · 1.f and 2^-14 · 0.f; every bfloat16 as a cut float32.
func TestAppendFloats_WidensExactly(t *testing.T) {
	for bits := range 1 << 16 {
		raw := []byte{byte(bits), byte(bits >> 8)}
		sign, exponent, fraction := 1-2*float64(bits>>15), bits>>10&31, float64(bits&1023)/1024
		want := sign * math.Ldexp(1+fraction, exponent-15)
		switch exponent {
		case 0:
			want = math.Copysign(math.Ldexp(fraction, -14), sign)
		case 31:
			want = math.Inf(int(sign))
		}
		got := float64(appendFloats(nil, raw, dtypes.Float16)[0])
		nan := exponent == 31 && fraction != 0
		if math.Float64bits(got) != math.Float64bits(want) && !nan || nan && got == got {
			t.Fatalf("float16 %#04x is %g, want %g", bits, got, want)
		}
		is.Equal(t, "bfloat16", math.Float32bits(appendFloats(nil, raw, dtypes.BFloat16)[0]), uint32(bits)<<16)
	}
}

// The 16-bit numbers in order are the bits 0, 1, … with a separate sign. For each of them and its successor: the number
// itself is preserved, the midpoint rounds to the even one, and its float32 neighbours to the nearer one.
func TestHalf_RoundsTiesToEven(t *testing.T) {
	for _, c := range []struct {
		dtype    dtypes.DType
		bits     func(float32) uint16
		infinity int
	}{{dtypes.Float16, float16Bits, 0x7c00}, {dtypes.BFloat16, bfloat16Bits, 0x7f80}} {
		widened := func(bits int) float32 {
			return appendFloats(nil, []byte{byte(bits), byte(bits >> 8)}, c.dtype)[0]
		}
		next := func(x, towards float32) float32 { return math.Nextafter32(x, towards) }
		for sign := range 2 {
			for low := range c.infinity {
				bits := sign<<15 | low
				x, above := widened(bits), widened(bits+1)
				if low == c.infinity-1 { // as if there were a next number: half a step above the last one
					above = x + (x - widened(bits-1))
				}
				middle := float32((float64(x) + float64(above)) / 2)
				if low == c.infinity-1 && c.dtype == dtypes.BFloat16 { // 2^128 is not a float32
					middle = float32(math.Copysign(math.Ldexp(511, 119), float64(x)))
				}
				even := bits + bits&1
				for _, want := range []struct {
					x    float32
					bits int
				}{{x, bits}, {middle, even}, {next(middle, x), bits}, {next(middle, above), bits + 1}} {
					is.Equal(t, fmt.Sprint(c.dtype, " of ", want.x), int(c.bits(want.x)), want.bits)
				}
			}
			for low := c.infinity; low <= 0x7fff; low++ {
				got, x := c.bits(widened(sign<<15|low)), widened(sign<<15|low)
				if back := widened(int(got)); low == c.infinity && back != x || low > c.infinity && back == back {
					t.Fatalf("%s: %#04x, %g, becomes %#04x", c.dtype, sign<<15|low, x, got)
				}
			}
		}
		got := widened(int(c.bits(math.Float32frombits(0x7f800001))))
		check(t, got != got, "%s: a NaN of low bits becomes %g", c.dtype, got)
	}
}

func TestAppendRaw_NumbersBeyondTheType(t *testing.T) {
	for _, c := range []struct {
		dtype dtypes.DType
		x     float32
		ok    bool
	}{
		{dtypes.Float16, 65519, true}, {dtypes.Float16, 65520, false}, {dtypes.Float16, -1e30, false},
		{dtypes.Float16, float32(math.Inf(-1)), true}, {dtypes.Float16, float32(math.NaN()), true},
		{dtypes.BFloat16, 3.38e38, true}, {dtypes.BFloat16, math.MaxFloat32, false},
		{dtypes.BFloat16, float32(math.Inf(1)), true}, {dtypes.Float32, math.MaxFloat32, true},
		{dtypes.Float64, 1, false},
	} {
		_, err := appendRaw(nil, []float32{0, c.x}, c.dtype)
		check(t, (err == nil) == c.ok && (err == nil || strings.Contains(err.Error(), "loat")),
			"%s %g: %v", c.dtype, c.x, err)
	}
}

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

func f4(values ...float32) []byte {
	raw, _ := binary.Append(nil, binary.LittleEndian, values)
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
			var deflated bytes.Buffer
			w := gomlxtest.Must(flate.NewWriter(&deflated, flate.DefaultCompression))(t)
			gomlxtest.Must(w.Write(m.content))(t)
			gomlxtest.NoError(t, w.Close())
			h.Method, packed = zip.Deflate, deflated.Bytes()
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
		out[name] = slices.Clone(flat)
		is.Equal(t, "numbers of "+name, len(flat), shapes.Make(x.dtype, x.dims...).Size())
	}
	return out, nil
}

func TestNPZ_WrittenByHand(t *testing.T) {
	v2 := npy("<f4", "(2,)", f4(7, 8))
	v2 = slices.Concat([]byte("\x93NUMPY"), []byte{2, 0}, v2[8:10], []byte{0, 0}, v2[10:])
	var members []zipMember
	want := map[string][]float32{}
	for _, c := range []struct {
		name    string
		content []byte
		want    []float32
	}{
		{"a/b", npy("<f4", "(1, 3)", f4(1, -2, 3.5)), []float32{1, -2, 3.5}},
		{"scalar", npyOf(`{"shape": (), "fortran_order":False,"descr":"<f4"}`, f4(4)), []float32{4}},
		{"zip", npy("<f4", "(1000,)", f4(make([]float32, 1000)...)), make([]float32, 1000)},
		{"half", npy("<f2", "(2,)", []byte{0, 0x3c, 0, 0xc0}), []float32{1, -2}},
		{"brain", npy("|V2", "(1,)", []byte{0x80, 0x3f}), []float32{1}}, {"v2", v2, []float32{7, 8}},
		{"none", npy("<f4", "(0, 5)", nil), nil},
	} {
		members = append(members, zipMember{name: c.name + ".npy", content: c.content, deflate: c.name == "zip"})
		want[c.name] = c.want
	}
	got := gomlxtest.Must(readNPZ(t, zipOf(t, members...)))(t)
	check(t, maps.EqualFunc(got, want, slices.Equal[[]float32]), "%v, want %v", got, want)
}

func TestOpen_FindsWeightsByTheirNames(t *testing.T) {
	dir := t.TempDir()
	gomlxtest.NoError(t, os.Mkdir(filepath.Join(dir, foreignWeights), 0o755))
	for _, step := range []struct{ file, want string }{
		{"", ""}, {"a.npz", "a.npz"}, {"b.npz", ""}, {foreignHalf, foreignHalf}, {foreignIndex, foreignIndex},
		{foreignWeights, foreignWeights},
	} {
		if step.file != "" {
			putFile(t, filepath.Join(dir, step.file), nil)
		}
		path, err := weightsIn(dir)
		check(t, (err == nil) == (step.want != "") && (err != nil || filepath.Base(path) == step.want),
			"with %q: %s, %v, want %s", step.file, path, err, step.want)
	}
}

func TestNPZ_WhatCannotBeWrittenIsAnError(t *testing.T) {
	failing := outTensor{"x", shapes.Make(dtypes.Float32, 2), func(io.Writer) error { return io.ErrClosedPipe }}
	is.Error(t, "a closed pipe", writeNPZ(io.Discard, []outTensor{failing}), io.ErrClosedPipe)
	integers := []outTensor{asIs("n", tensors.FromValue([]int64{1, 2}))}
	check(t, writeNPZ(io.Discard, integers) != nil, "integers were written")
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
	noise := make([]byte, 60_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	return zipMember{name + ".npy", npyOf("{'descr': '<f4', 'fortran_order': False, 'shape': (15000000,)}",
		noise), true, func(h *zip.FileHeader) { h.UncompressedSize64 = 128 + 60_000_000 }}
}

func hostileNPZ(t testing.TB) []malformed {
	one := func(content []byte) []byte { return zipOf(t, zipMember{name: "w.npy", content: content}) }
	two := f4(1, 2)
	lie := func(deflate bool, change func(*zip.FileHeader)) []byte {
		return zipOf(t, zipMember{"w.npy", npy("<f4", "(2,)", two), deflate, change})
	}
	literal := func(text string) []byte { return one(npyOf(text, two)) }
	return []malformed{
		{"pickled array", one(npy("|O", "(2,)", two)), "pickled Python objects are never read"},
		{"PyTorch pickle", zipOf(t, zipMember{name: "archive/data.pkl", content: two}), "a pickle, which is never read"},
		{"structured", literal("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }"), "structured and"},
		{"big-endian", one(npy(">f4", "(2,)", two)), `dtype ">f4"`},
		{"integers", one(npy("<i4", "(2,)", two)), `dtype "<i4"`},
		{"doubles", one(npy("<f8", "(1,)", two)), "want float32, float16 or bfloat16"},
		{"Fortran", literal("{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }"), "Fortran order"},
		{"key twice", literal("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False}"), "appears twice"},
		{"million", one(npy("<f4", "(1000000, 1000000)", two)), `tensor "w": 8 bytes for`},
		{"too large", one(npy("<f4", "(281474976710657,)", two)), "plain integers"},
		{"rank 17", one(npy("<f4", "("+strings.Repeat("1,", 17)+")", two)), "plain integers"},
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
		check(t, err == nil || errors.As(err, &format), "%T: %v", err, err)
		// Deflate may expand a thousand times, and appending allocates five times that.
		check(t, used <= uint64(6*numpy.MaxRatio*len(raw)+16<<20), "%d bytes allocated for %d", used, len(raw))
	})
}
