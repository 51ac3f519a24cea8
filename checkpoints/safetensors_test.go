// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/strictjson"
)

// rawFile puts a header and data together as the format asks for.
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

func TestWrittenTensorsAreAlignedWhateverTheirOrder(t *testing.T) {
	named := map[string]*tensors.Tensor{}
	for v := range newStore(t, 1).IterVariables() {
		named[v.Path()] = v.MustValue()
	}
	raw, err := written(named)
	again, errAgain := written(named)
	if err != nil || errAgain != nil || !bytes.Equal(raw, again) {
		t.Fatalf("the order of the tensors changes the file (%v, %v)", err, errAgain)
	}
	length := binary.LittleEndian.Uint64(raw)
	entries, err := readSafetensorsHeader(bytes.NewReader(raw), int64(len(raw)), "x")
	if err != nil || length%8 != 0 {
		t.Errorf("%v, data begins at byte %d", err, 8+length)
	}
	for _, e := range entries {
		if e.begin%uint64(e.dtype.Size()) != 0 {
			t.Errorf("%q of type %s begins at byte %d", e.name, e.dtype, e.begin)
		}
	}
}

func TestFilesOfThePythonWriterAreRead(t *testing.T) {
	root := fixtures.Dir(t, ".")
	files := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".safetensors" {
			return err
		}
		files++
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		got, err := readAll(raw)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return nil
		}
		set, _ := filepath.Rel(root, filepath.Dir(path))
		want := fixtures.Tensors(t, set, filepath.Base(path))
		if len(got) != len(want) {
			t.Errorf("%s: %d tensors, want %d", path, len(got), len(want))
		}
		for name, w := range want {
			if g := got[name]; g == nil || !slices.Equal(g.Shape().Dimensions, w.Shape) {
				t.Errorf("%s: %q is %v, want %v", path, name, g, w.Shape)
			} else if g.DType() == dtypes.Float32 || g.DType() == dtypes.Float64 {
				// Bit by bit: the reference has NaN where it found nothing.
				if !slices.EqualFunc(gomlxtest.Values(t, g), w.Data, func(a, b float64) bool {
					return math.Float64bits(a) == math.Float64bits(b)
				}) {
					t.Errorf("%s: %q has other numbers", path, name)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Skip("no safetensors files among the fixtures")
	}
}

// f32 is the header entry of two float32 at the beginning.
const f32 = `"dtype":"F32","shape":[2],"data_offsets":[0,8]`

// attacks are files that must be refused: one or more for each rule of the format. Each has 8 bytes of data unless
// its name says otherwise.
var attacks = []struct {
	name string
	raw  []byte
	want string // in the error
}{
	{"empty file", nil, "too few"},
	{"seven bytes", []byte("1234567"), "too few"},
	{"header of 0", rawFile("", nil), "header of 0"},
	{"header of 1", rawFile("{", nil), "header of 1"},
	{"header bomb", []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, "header of"},
	{"header of 2^64-1", []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, "header of"},
	{"header longer than the file", append([]byte{10, 0, 0, 0, 0, 0, 0, 0}, "{}       "...), "header of 10"},
	{"leading space", rawFile(` {}`, nil), "begin with {"},
	{"array", rawFile(`[]`, nil), "begin with {"},
	{"text after", rawFile(`{}{}`, nil), "after the header"},
	{"newline after", rawFile("{}\n", nil), "after the header"},
	{"NUL after", rawFile("{}\x00", nil), "after the header"},
	{"not UTF-8", rawFile("{\"\xff\":{"+f32+"}}", make([]byte, 8)), "UTF-8"},
	{"unfinished", rawFile(`{"a":{`+f32, make([]byte, 8)), "want"},
	{"unfinished string", rawFile(`{"a`, make([]byte, 8)), "inside a string"},
	{"unfinished escape", rawFile(`{"a\`, make([]byte, 8)), "inside a string"},
	{"trailing comma", rawFile(`{"a":{`+f32+`},}`, make([]byte, 8)), "want"},
	{"control character", rawFile("{\"a\n\":{"+f32+"}}", make([]byte, 8)), "control"},
	{"wrong escape", rawFile(`{"\x":{`+f32+`}}`, make([]byte, 8)), "escape"},
	{"unpaired surrogate", rawFile(`{"\ud800":{`+f32+`}}`, make([]byte, 8)), "surrogate"},
	{"long name", rawFile(`{"`+strings.Repeat("a", maxName+1)+`":{`+f32+`}}`, make([]byte, 8)), "more than"},
	{"duplicate name", rawFile(`{"a":{`+f32+`},"a":{`+f32+`}}`, make([]byte, 8)), "twice"},
	{"duplicate escaped name", rawFile(`{"a":{`+f32+`},"\u0061":{`+f32+`}}`, make([]byte, 8)), "twice"},
	{"duplicate field", rawFile(`{"a":{`+f32+`,"shape":[2]}}`, make([]byte, 8)), "twice"},
	{"duplicate metadata", rawFile(`{"__metadata__":{},"__metadata__":{}}`, nil), "twice"},
	{"duplicate key in metadata", rawFile(`{"__metadata__":{"a":"1","a":"2"}}`, nil), "twice"},
	{"metadata not string", rawFile(`{"__metadata__":{"a":1}}`, nil), "want"},
	{"metadata null", rawFile(`{"__metadata__":null}`, nil), "want"},
	{"metadata nested", rawFile(`{"__metadata__":{"a":{}}}`, nil), "want"},
	{"too much metadata", rawFile(manyKeys(maxMetadata+1), nil), "more than"},
	{"unknown field", rawFile(`{"a":{`+f32+`,"x":1}}`, make([]byte, 8)), "unknown field"},
	{"second of two", rawFile(`{"good":{`+f32+`},"bad":{"dtype":"F32","shape":[1e3],"data_offsets":[8,12]}}`,
		make([]byte, 12)), `tensor "bad": shape`},
	{"missing field", rawFile(`{"a":{"dtype":"F32","shape":[2]}}`, make([]byte, 8)), "no data_offsets"},
	{"unknown dtype", rawFile(`{"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}}`, make([]byte, 8)), "F31"},
	{"lower-case dtype", rawFile(`{"a":{"dtype":"f32","shape":[2],"data_offsets":[0,8]}}`, make([]byte, 8)), "f32"},
	{"dtype of no string", rawFile(`{"a":{"dtype":1,"shape":[2],"data_offsets":[0,8]}}`, make([]byte, 8)), "want"},
	{"negative dimension", withShape("-2"), "integer"},
	{"exponent", withShape("2e0"), "want"},
	{"fraction", withShape("2.0"), "want"},
	{"leading zero", withShape("02"), "integer"},
	{"plus", withShape("+2"), "integer"},
	{"no number", withShape(`"2"`), "integer"},
	{"dimension above 2^48", withShape("281474976710657"), "above"},
	{"dimension of 30 digits", withShape(strings.Repeat("9", 30)), "above"},
	{"dimension 2^64+2", withShape("18446744073709551618"), "above"},
	{"product over 2^64", withShape("281474976710656,281474976710656"), "bytes for"},
	{"product 2^64+2", withShape("2,4294967296,4294967297"), "bytes for"},
	{"rank 17", withShape("2" + strings.Repeat(",1", 16)), "more than 16"},
	{"shape too small", withShape("1"), "8 bytes for"},
	{"shape too large", withShape("3"), "8 bytes for"},
	{"zero dimension with bytes", withShape("0"), "8 bytes for"},
	{"begin after end", withOffsets("8,0"), "bytes 8 to 0"},
	{"end after data", withOffsets("1,9"), "bytes 1 to 9"},
	{"offsets near 2^63", withOffsets("9223372036854775800,9223372036854775808"), "of 8"},
	{"offset above 2^63", withOffsets("0,9223372036854775809"), "above"},
	{"one offset", withOffsets("8"), "want 2"},
	{"three offsets", withOffsets("0,4,8"), "more than 2"},
	{"no offsets", withOffsets(""), "want 2"},
	{"overlap", rawFile(`{"a":{`+f32+`},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, make([]byte, 8)),
		"begins at byte 4"},
	{"same bytes twice", rawFile(`{"a":{`+f32+`},"b":{`+f32+`}}`, make([]byte, 8)), "begins"},
	{"hole in front", withOffsets("4,12"), "of 8"},
	{"hole between, 20 bytes", rawFile(`{"a":{`+f32+`},"b":{"dtype":"F32","shape":[2],"data_offsets":[12,20]}}`,
		make([]byte, 20)), "begins at byte 12"},
	{"data after the tensors, 9 bytes", rawFile(`{"a":{`+f32+`}}`, make([]byte, 9)), "its tensors hold 8"},
	{"data cut, 7 bytes", rawFile(`{"a":{`+f32+`}}`, make([]byte, 7)), "bytes 0 to 8 of 7"},
	{"data but no tensor", rawFile(`{}`, make([]byte, 8)), "its tensors hold 0"},
	{"bool of 2", rawFile(`{"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}}`, []byte{1, 2}), "bool of value 2"},
	{"million brackets", rawFile(`{"a":`+strings.Repeat("[", 1_000_000), nil), "want"},
	{"million braces", rawFile(strings.Repeat(`{"a":`, 200_000), nil), "unknown field"},
	{"a million times dtype", rawFile("{"+strings.Repeat(`"dtype"`, 1_000_000), nil), "want"},
	{"too many tensors", rawFile("{"+strings.Repeat(`"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},`,
		maxTensors+1), nil), "more than"},
	{"ten-megabyte name", rawFile(`{"`+strings.Repeat("a", 10_000_000), nil), "more than"},
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

func TestEveryAttackIsRefusedSoonAndInLittleMemory(t *testing.T) {
	measured := func(read func() error) (used uint64, fastest time.Duration, err error) {
		fastest = time.Hour
		for range 3 {
			before, start := totalAlloc(), time.Now()
			err = read()
			fastest, used = min(fastest, time.Since(start)), totalAlloc()-before
		}
		return used, fastest, err
	}
	var good time.Duration // of files of some megabytes, as the longest attacks are
	for _, dims := range []string{"0" + strings.Repeat(",1", maxRank-1), "0"} {
		raw := manyTensors(dims)
		used, took, err := measured(func() error {
			_, err := readSafetensorsHeader(bytes.NewReader(raw), int64(len(raw)), "x")
			return err
		})
		if limit := uint64(3*len(raw) + 16<<20); err != nil || used > limit {
			t.Errorf("dimensions %q: %v, %d bytes allocated for a file of %d, at most %d", dims, err, used, len(raw), limit)
		}
		good = took
	}
	for _, attack := range attacks {
		used, took, err := measured(func() error {
			_, err := readAll(attack.raw)
			return err
		})
		var format *FormatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), attack.want) ||
			!strings.Contains(err.Error(), "x.safetensors") {
			t.Errorf("%s: %v, want a FormatError with %q", attack.name, err, attack.want)
		}
		if limit := uint64(3*len(attack.raw) + 16<<20); used > limit {
			t.Errorf("%s: %d bytes allocated, at most %d", attack.name, used, limit)
		}
		if len(attack.raw) < 9 && used > 1<<16 {
			t.Errorf("%s: %d bytes allocated for %d", attack.name, used, len(attack.raw))
		}
		if took > 10*good {
			t.Errorf("%s: took %v, a good file of megabytes takes %v", attack.name, took, good)
		}
	}
}

// manyTensors is a file of as many tensors as fit, none of which has a number.
func manyTensors(dims string) []byte {
	var b strings.Builder
	for i := range maxTensors {
		fmt.Fprintf(&b, `,"%d":{"dtype":"U8","shape":[%s],"data_offsets":[0,0]}`, i, dims)
	}
	return rawFile("{"+b.String()[1:]+"}", nil)
}

// totalAlloc is what was ever allocated: an upper bound of what was held at once.
func totalAlloc() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// FuzzSafetensors holds the reader to three properties on any bytes: no panic; accepted only if a plain JSON decoder
// and the rules, applied by other code, accept it too; and what it accepted survives being written and read again.
func FuzzSafetensors(f *testing.F) {
	for _, attack := range attacks {
		if len(attack.raw) < 1000 {
			f.Add(attack.raw)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	small, err := written(map[string]*tensors.Tensor{
		"/a": randomTensor(rng, dtypes.Float32, 2, 3), "/b": randomTensor(rng, dtypes.Bool, 5),
		"/c": randomTensor(rng, dtypes.Uint64, 0), "/d\"": randomTensor(rng, dtypes.BFloat16),
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(small)
	f.Add(rawFile(`{"__metadata__":{"format":"pt"},
		"b\u00e9":{"shape":[2],"data_offsets":[8,10],"dtype":"BOOL"},
		"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"s":{"dtype":"BF16","shape":[],"data_offsets":[10,12]}}   `,
		[]byte("eight...\x01\x00\x80\x3f")))
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := totalAlloc()
		got, err := readAll(raw)
		if used, limit := totalAlloc()-before, uint64(100*len(raw)+1<<20); used > limit {
			t.Fatalf("%d bytes allocated for %d", used, len(raw))
		}
		want, ok := plainRead(raw)
		if (err == nil) != ok && !onlyOurs(err) {
			t.Fatalf("reader says %v, plain checker says %t", err, ok)
		}
		if err != nil {
			return
		}
		for name, value := range got {
			if w := want[name]; value.Shape().String() != w.shape || !bytes.Equal(bytesOf(t, value), w.data) {
				t.Fatalf("%q: %s %x, want %s %x", name, value.Shape(), bytesOf(t, value), w.shape, w.data)
			}
		}
		again, err := written(got)
		if err != nil {
			t.Skip(err) // a name too long to write
		}
		back, err := readAll(again)
		if err != nil || len(back) != len(got) {
			t.Fatalf("written again: %v", err)
		}
		for name, value := range got {
			if b := back[name]; b == nil || !b.Shape().Equal(value.Shape()) ||
				!bytes.Equal(bytesOf(t, b), bytesOf(t, value)) {
				t.Fatalf("%q changed: %v", name, b)
			}
		}
	})
}

// onlyOurs tells refusals that the plain checker cannot repeat: limits of size, and what encoding/json hides.
func onlyOurs(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "more than") || strings.Contains(err.Error(), "surrogate"))
}

// plainTensor is a tensor as plainRead finds it.
type plainTensor struct {
	shape string // as shapes.Shape prints it
	data  []byte
}

// plainTypes are the format's types: GoMLX's names and the bytes of a number.
var plainTypes = map[string]struct {
	name string
	size uint64
}{
	"F64": {"Float64", 8}, "I64": {"Int64", 8}, "U64": {"Uint64", 8}, "F32": {"Float32", 4}, "I32": {"Int32", 4},
	"U32": {"Uint32", 4}, "F16": {"Float16", 2}, "BF16": {"BFloat16", 2}, "I16": {"Int16", 2}, "U16": {"Uint16", 2},
	"I8": {"Int8", 1}, "U8": {"Uint8", 1}, "BOOL": {"Bool", 1},
}

// plainRead applies the rules of the format with encoding/json, wasting as much memory as it likes.
func plainRead(raw []byte) (map[string]plainTensor, bool) {
	if len(raw) < 10 {
		return nil, false
	}
	length := binary.LittleEndian.Uint64(raw)
	if length < 2 || length > uint64(len(raw)-8) {
		return nil, false
	}
	text, data := bytes.TrimRight(raw[8:8+length], " "), raw[8+length:]
	tree, err := strictjson.ParseObject(text)
	if err != nil || text[0] != '{' || text[len(text)-1] != '}' {
		return nil, false
	}
	out := map[string]plainTensor{}
	covered := make([]int, len(data))
	for name, value := range tree {
		fields, err := strictjson.ParseObject(value)
		if err != nil {
			return nil, false
		}
		if name == "__metadata__" {
			for key := range fields {
				if text, err := fields.Text(key); err != nil || text == "" && string(fields[key]) != `""` {
					return nil, false
				}
			}
			continue
		}
		text, _ := fields.Text("dtype")
		dtype := plainTypes[text]
		dims, ok := plainIntegers(fields["shape"])
		offsets, ok2 := plainIntegers(fields["data_offsets"])
		if !ok || !ok2 || len(fields) != 3 || dtype.size == 0 || len(offsets) != 2 {
			return nil, false
		}
		want := dtype.size
		for _, dim := range dims {
			if dim > 1<<48 || (dim > 0 && want > math.MaxUint64/dim) {
				return nil, false
			}
			want *= dim
		}
		begin, end := offsets[0], offsets[1]
		if begin > end || end > uint64(len(data)) || end-begin != want {
			return nil, false
		}
		for i := begin; i < end; i++ {
			covered[i]++
			if text == "BOOL" && data[i] > 1 {
				return nil, false
			}
		}
		shape := "(" + dtype.name + ")"
		if len(dims) > 0 {
			shape += strings.ReplaceAll(fmt.Sprint(dims), " ", ", ")
		}
		out[name] = plainTensor{shape, data[begin:end]}
	}
	return out, !slices.ContainsFunc(covered, func(n int) bool { return n != 1 })
}

// plainIntegers reads a list of numbers in digits alone.
func plainIntegers(raw json.RawMessage) ([]uint64, bool) {
	var list []uint64 // encoding/json takes neither signs, fractions nor exponents for these
	err := json.Unmarshal(raw, &list)
	return list, err == nil && list != nil && !bytes.Contains(raw, []byte("null"))
}
