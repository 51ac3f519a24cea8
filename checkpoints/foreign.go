// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/float16"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/pkg/errors"
)

// foreignTensor is one tensor of a foreign checkpoint; its dimensions are proven by the bytes of its file.
type foreignTensor struct {
	file  string
	dtype dtypes.DType
	dims  []int
	open  func() (io.ReadCloser, error) // at its first number
}

// foreign is an open checkpoint of other software: one file or several.
type foreign struct {
	path    string
	tensors map[string]foreignTensor
	config  string // the path of its config.json, which may not exist
	files   []*os.File
	packed  bool // an .npz, whose tensors may be larger than the file
}

// Names of files in the directory of a checkpoint.
const (
	foreignWeights = "model.safetensors"
	foreignIndex   = "model.safetensors.index.json"
	foreignConfig  = "config.json"
	indexSuffix    = ".index.json"
)

// openForeign opens a file, the index of a sharded checkpoint, or a directory that holds one of them.
func openForeign(path string) (*foreign, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, errors.Wrap(err, "checkpoints")
	}
	file := path
	if info.IsDir() {
		if file, err = weightsIn(path); err != nil {
			return nil, err
		}
	}
	config := filepath.Join(filepath.Dir(file), foreignConfig)
	f := &foreign{path: path, tensors: map[string]foreignTensor{}, config: config}
	if strings.HasSuffix(file, indexSuffix) {
		err = f.addShards(file)
	} else {
		err = f.add(file)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// weightsIn picks the weights in a directory: the names of Hugging Face's, else the only .npz.
func weightsIn(dir string) (string, error) {
	for _, name := range []string{foreignWeights, foreignIndex} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && !info.IsDir() {
			return filepath.Join(dir, name), nil
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", errors.Wrap(err, "checkpoints")
	}
	var found []string
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) == ".npz" {
			found = append(found, entry.Name())
		}
	}
	if len(found) != 1 {
		return "", errors.Errorf("checkpoints: %s holds no %s, no %s and %d .npz files, want one of them: name the file "+
			"(pickles such as pytorch_model.bin are never read: save as safetensors)", dir, foreignWeights, foreignIndex,
			len(found))
	}
	return filepath.Join(dir, found[0]), nil
}

// Close closes the files; tensors can no longer be read.
func (f *foreign) Close() {
	for _, file := range f.files {
		file.Close()
	}
}

// add adds the tensors of one file, whose kind its first bytes tell.
func (f *foreign) add(file string) error {
	opened, size, err := openRegular(file)
	if err != nil {
		return err
	}
	f.files = append(f.files, opened)
	var magic [4]byte
	if _, err := opened.ReadAt(magic[:], 0); err == nil && string(magic[:]) == "PK\x03\x04" {
		return f.addNPZ(opened, size, file)
	}
	return f.addSafetensors(opened, size, file)
}

// addSafetensors adds the tensors of a safetensors file.
func (f *foreign) addSafetensors(r io.ReaderAt, size int64, file string) error {
	entries, err := readSafetensorsHeader(io.NewSectionReader(r, 0, size), size, file)
	if err != nil {
		return err
	}
	data := size // where the tensors begin: they cover the rest of the file
	if len(entries) > 0 {
		data -= int64(entries[len(entries)-1].end)
	}
	for _, e := range entries {
		if _, twice := f.tensors[e.name]; twice {
			return &FormatError{File: file, Tensor: e.name, Reason: "also in another file of the checkpoint"}
		}
		open := func() (io.ReadCloser, error) {
			return io.NopCloser(io.NewSectionReader(r, data+int64(e.begin), int64(e.end-e.begin))), nil
		}
		f.tensors[e.name] = foreignTensor{file, e.dtype, e.dims, open}
	}
	return nil
}

// addShards adds the files that an index names; index and files must agree on every tensor.
func (f *foreign) addShards(index string) error {
	shards, err := readIndex(index)
	if err != nil {
		return err
	}
	for _, name := range distinct(shards) {
		if err := f.add(filepath.Join(filepath.Dir(index), name)); err != nil {
			return err
		}
	}
	for name, t := range f.tensors {
		if shards[name] != filepath.Base(t.file) {
			return &FormatError{File: t.file, Tensor: name, Reason: "not where the index says"}
		}
		delete(shards, name)
	}
	for name, shard := range shards {
		return &FormatError{File: index, Tensor: name, Reason: fmt.Sprintf("it is not in %s", shard)}
	}
	return nil
}

// Shards returns the names of the files that the index of a sharded checkpoint (model.safetensors.index.json) speaks
// of, sorted; they lie beside it.
func Shards(index string) ([]string, error) {
	shards, err := readIndex(index)
	return distinct(shards), err
}

// distinct lists every file once.
func distinct(shards map[string]string) []string {
	return slices.Compact(slices.Sorted(maps.Values(shards)))
}

// readIndex returns the file of each tensor.
func readIndex(index string) (map[string]string, error) {
	raw, err := readSmall(index)
	if err != nil {
		return nil, err
	}
	return parseIndex(index, raw)
}

// parseIndex reads {"metadata": …, "weight_map": {"tensor": "file", …}}; the files lie beside the index.
func parseIndex(file string, raw []byte) (map[string]string, error) {
	refuse := func(tensor, format string, args ...any) (map[string]string, error) {
		return nil, &FormatError{File: file, Tensor: tensor, Reason: fmt.Sprintf(format, args...)}
	}
	fields, err := jsonObject(raw)
	if err != nil {
		return refuse("", "%v", err)
	}
	var shards map[string]string
	err = json.Unmarshal(fields["weight_map"], &shards)
	if err != nil || len(shards) == 0 || len(shards) > maxTensors {
		return refuse("", "no weight_map of tensors and files in it")
	}
	for tensor, name := range shards {
		if name != filepath.Base(name) || !filepath.IsLocal(name) || strings.ContainsAny(name, `/\`) ||
			filepath.Ext(name) != ".safetensors" {
			return refuse(tensor, "file %q is no .safetensors file beside the index", name)
		}
	}
	return shards, nil
}

// floatReader reads tensors as float32 through buffers that it keeps.
type floatReader struct {
	raw    [1 << 16]byte
	floats []float32
}

// read returns the numbers of t, until the next call. It goes on to the end of the data, where a zip's checksum is
// found wrong, and its memory grows with what has been read: a size that a header only claims costs nothing.
func (b *floatReader) read(name string, t foreignTensor) ([]float32, error) {
	size := t.dtype.Size()
	if !t.dtype.IsFloat() || size > 4 {
		return nil, &FormatError{File: t.file, Tensor: name,
			Reason: fmt.Sprintf("type %s, want float32, float16 or bfloat16", t.dtype)}
	}
	r, err := t.open()
	if err != nil {
		return nil, asFormatError(err, t.file, name)
	}
	defer r.Close()
	left := size // in bytes
	for _, dim := range t.dims {
		left *= dim
	}
	b.floats = b.floats[:0]
	for left > 0 {
		chunk := b.raw[:min(left, len(b.raw))]
		if _, err := io.ReadFull(r, chunk); err != nil {
			return nil, asFormatError(err, t.file, name)
		}
		b.floats = appendFloats(b.floats, chunk, t.dtype)
		left -= len(chunk)
	}
	if n, err := io.ReadFull(r, b.raw[:1]); n != 0 || err != io.EOF {
		return nil, asFormatError(err, t.file, name)
	}
	return b.floats, nil
}

// readAsIs returns t in its own type.
func (t foreignTensor) readAsIs(name string) (*tensors.Tensor, error) {
	r, err := t.open()
	if err != nil {
		return nil, asFormatError(err, t.file, name)
	}
	defer r.Close()
	e := tensorEntry{name: name, dtype: t.dtype, dims: t.dims}
	size, _ := e.byteSize() // proven when the file was opened
	e.end = size
	return readTensor(r, t.file, e)
}

// skim reads the data of t to its end and drops it.
func (t foreignTensor) skim(name string) error {
	r, err := t.open()
	if err != nil {
		return asFormatError(err, t.file, name)
	}
	defer r.Close()
	if _, err := io.Copy(io.Discard, r); err != nil {
		return asFormatError(err, t.file, name)
	}
	return nil
}

// appendFloats widens the little-endian numbers in raw, which is exact.
func appendFloats(to []float32, raw []byte, dtype dtypes.DType) []float32 {
	le := binary.LittleEndian
	switch dtype {
	case dtypes.Float32:
		for ; len(raw) >= 4; raw = raw[4:] {
			to = append(to, math.Float32frombits(le.Uint32(raw)))
		}
	case dtypes.Float16:
		for ; len(raw) >= 2; raw = raw[2:] {
			to = append(to, float16.FromBits(le.Uint16(raw)).Float32())
		}
	case dtypes.BFloat16:
		for ; len(raw) >= 2; raw = raw[2:] {
			to = append(to, math.Float32frombits(uint32(le.Uint16(raw))<<16))
		}
	}
	return to
}

// asFormatError tells a file that is wrong from one that cannot be read.
func asFormatError(err error, file, tensor string) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return errors.Wrapf(err, "checkpoints: reading tensor %q of %s", tensor, file)
	}
	if err == nil {
		err = errors.New("more data than its shape asks for")
	}
	return &FormatError{File: file, Tensor: tensor, Reason: err.Error()}
}
