// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
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
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/checkpoints/internal/index"
)

// storedTensor is one tensor in a file of weights; its dimensions are checked against the bytes of the file.
type storedTensor struct {
	file  string
	dtype dtypes.DType
	dims  []int
	open  func() (io.ReadCloser, error) // at its first element
}

// weights are the tensors of an open checkpoint, in one or several files.
type weights struct {
	path    string
	dir     string // of the JSON files beside the weights, which may be missing
	graph   string // an ONNX file in place of tensors
	tensors map[string]storedTensor
	files   []*os.File
	packed  bool // an .npz, whose tensors may be larger than the file

	run      *Checkpoint                // if it is a checkpoint of a training run
	skipped  []error                    // damaged newer checkpoints
	adapters map[string][2]storedTensor // low-rank factors of a run, by the path of their matrix
}

// Names of files in the directory of a model.
const (
	foreignWeights      = "model.safetensors"
	foreignHalf         = "model.fp16.safetensors" // transformers' variant "fp16"
	foreignIndex        = "model.safetensors.index.json"
	foreignConfig       = "config.json"
	foreignPreprocessor = "preprocessor_config.json" // describes the training images
	foreignProcessor    = "processor_config.json"    // of transformers 5: the same inside image_processor, read first
	indexSuffix         = ".index.json"
)

// openWeights opens a file, the index of a sharded checkpoint, a checkpoint of a training run, or a directory that
// contains one of them; which is the argument of Find. With graphs it may be an ONNX file.
func openWeights(path, which string, graphs bool) (*weights, error) {
	w := &weights{path: path, tensors: map[string]storedTensor{}}
	if err := w.open(which, graphs); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

func (w *weights) open(which string, graphs bool) (err error) {
	info, err := os.Stat(w.path)
	if err != nil {
		return errors.Wrap(err, "checkpoints")
	}
	file := w.path
	if w.run, w.skipped, err = Find(w.path, which); err != nil {
		return err
	}
	if w.run != nil {
		file = w.run.variablesFile()
	} else if info.IsDir() {
		if file, err = weightsIn(w.path); err != nil {
			return err
		}
	}
	if filepath.Ext(file) == ".onnx" {
		if graphs {
			return w.addGraph(file)
		}
		return errors.Errorf("checkpoints: %s is an ONNX file, which has no weights to open: use the model that it was "+
			"exported from; wepe verify MODEL %[1]s compares them", file)
	}
	w.dir = filepath.Dir(file)
	if strings.HasSuffix(file, indexSuffix) {
		return w.addShards(file)
	}
	return w.add(file)
}

// weightsIn finds the weights in a directory: by Hugging Face's names, otherwise the only .npz.
func weightsIn(dir string) (string, error) {
	for _, name := range []string{foreignWeights, foreignIndex, foreignHalf} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && !info.IsDir() {
			return filepath.Join(dir, name), nil
		}
	}
	found, _ := fs.Glob(os.DirFS(dir), "*.npz") // the pattern is valid
	if graph := filepath.Join(dir, graphName); len(found) == 0 && fileExists(graph) {
		return graph, nil // its reader says what it is
	}
	if len(found) == 0 {
		return "", errors.Errorf("checkpoints: %s contains no run and no weights: want %s, %s or an .npz file (pickles such "+
			"as pytorch_model.bin are not read: save them as safetensors)", dir, foreignWeights, foreignIndex)
	}
	if len(found) > 1 {
		return "", errors.Errorf("checkpoints: %s contains neither %s nor %s, and %d .npz files: name the file of "+
			"weights", dir, foreignWeights, foreignIndex, len(found))
	}
	return filepath.Join(dir, found[0]), nil
}

// Sum returns the SHA-256 of the weights at a path, as Imported.SHA256, without reading the model.
func Sum(path string) (string, error) {
	w, err := openWeights(path, "", false)
	if err != nil {
		return "", err
	}
	defer w.Close()
	if w.run != nil { // verified by Find
		return w.run.SHA256, nil
	}
	return w.sum()
}

// sum returns the SHA-256 of the weights: of their file, or of all shards one after the other, by name.
func (w *weights) sum() (string, error) {
	hash := sha256.New()
	for _, file := range w.files {
		if _, err := io.Copy(hash, io.NewSectionReader(file, 0, math.MaxInt64)); err != nil {
			return "", errors.Wrapf(err, "checkpoints: reading %s", file.Name())
		}
	}
	sum := hex.EncodeToString(hash.Sum(nil))
	if w.run != nil && sum != w.run.SHA256 { // changed since it was verified
		return "", &formatError{File: w.run.variablesFile(), Reason: wrongSum}
	}
	return sum, nil
}

// Close closes the files; tensors can no longer be read.
func (w *weights) Close() {
	for _, file := range w.files {
		file.Close()
	}
}

// add adds the tensors of one file, whose format its first bytes determine.
func (w *weights) add(file string) error {
	opened, size, err := openRegular(file)
	if err != nil {
		return err
	}
	w.files = append(w.files, opened)
	var magic [4]byte
	if _, err := opened.ReadAt(magic[:], 0); err == nil && string(magic[:]) == "PK\x03\x04" {
		return w.addNPZ(opened, size, file)
	}
	return w.addSafetensors(opened, size, file)
}

// addGraph opens an ONNX file, which may be anything that ONNX can express.
func (w *weights) addGraph(file string) error {
	opened, _, err := openRegular(file)
	if err != nil {
		return err
	}
	w.files, w.dir, w.graph = append(w.files, opened), filepath.Dir(file), file
	var first [1]byte // of protobuf, as all writers start it: field 1, the version
	if _, err := opened.ReadAt(first[:], 0); err != nil || first[0] != 8 {
		return &formatError{File: file, Reason: "no ONNX file, or a damaged one"}
	}
	return nil
}

// addSafetensors adds the tensors of a safetensors file.
func (w *weights) addSafetensors(r io.ReaderAt, size int64, file string) error {
	entries, err := readSafetensorsHeader(io.NewSectionReader(r, 0, size), size, file)
	if err != nil {
		return err
	}
	data := size // start of the tensors, which cover the rest of the file
	if len(entries) > 0 {
		data -= int64(entries[len(entries)-1].end)
	}
	for _, e := range entries {
		if _, twice := w.tensors[e.name]; twice {
			return &formatError{File: file, Tensor: e.name, Reason: "also in another file of the checkpoint"}
		}
		open := func() (io.ReadCloser, error) {
			return io.NopCloser(io.NewSectionReader(r, data+int64(e.begin), int64(e.end-e.begin))), nil
		}
		w.tensors[e.name] = storedTensor{file, e.dtype, e.dims, open}
	}
	return nil
}

// addShards adds the files that an index names; index and files must match in every tensor.
func (w *weights) addShards(file string) error {
	raw, err := readSmall(file)
	if err != nil {
		return err
	}
	shards, err := index.Parse(raw)
	if err != nil {
		return &formatError{File: file, Reason: err.Error()}
	}
	for _, name := range shards.Files() {
		if err := w.add(filepath.Join(filepath.Dir(file), name)); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.tensors)) {
		if t := w.tensors[name]; shards[name] != filepath.Base(t.file) {
			return &formatError{File: t.file, Tensor: name, Reason: "not where the index says"}
		}
		delete(shards, name)
	}
	if len(shards) > 0 {
		name := slices.Min(slices.Collect(maps.Keys(shards)))
		return &formatError{File: file, Tensor: name, Reason: fmt.Sprintf("it is not in %s", shards[name])}
	}
	return nil
}

// floatReader reads tensors as float32 through reused buffers.
type floatReader struct {
	raw    [1 << 16]byte
	floats []float32
}

// read returns the numbers of t, valid until the next call. It reads to the end of the data, where a zip's checksum is
// verified. Memory grows with the data read: a false size in a header allocates nothing.
func (b *floatReader) read(name string, t storedTensor) ([]float32, error) {
	if err := t.isFloat(name); err != nil {
		return nil, err
	}
	left := t.dtype.Size() // in bytes
	for _, dim := range t.dims {
		left *= dim
	}
	b.floats = b.floats[:0]
	err := t.use(name, func(r io.Reader) error {
		for left > 0 {
			chunk := b.raw[:min(left, len(b.raw))]
			if _, err := io.ReadFull(r, chunk); err != nil {
				return err
			}
			b.floats = appendFloats(b.floats, chunk, t.dtype)
			left -= len(chunk)
		}
		switch n, err := io.ReadFull(r, b.raw[:1]); {
		case n != 0:
			return errors.New("it has more data than its shape requires")
		case err != io.EOF:
			return err
		}
		return nil
	})
	return b.floats, err
}

// isFloat refuses numbers that the model does not compute with.
func (t storedTensor) isFloat(name string) error {
	if t.dtype.IsFloat() && t.dtype.Size() <= 4 {
		return nil
	}
	return &formatError{File: t.file, Tensor: name, Reason: fmt.Sprintf("type %s, want float32, float16 or bfloat16: "+
		"save the model in one of these (model.float() in PyTorch)", t.dtype)}
}

// readAsIs returns t in its own type. Its size was checked when the file was opened.
func (t storedTensor) readAsIs(name string) (*tensors.Tensor, error) {
	value := tensors.FromShape(shapes.Make(t.dtype, t.dims...))
	err := t.use(name, func(r io.Reader) (err error) {
		if value.Size() == 0 {
			return nil
		}
		dataErr := value.MutableBytes(func(data []byte) {
			_, err = io.ReadFull(r, data)
			other := func(b byte) bool { return b > 1 } // undefined in a Go bool
			if at := slices.IndexFunc(data, other); err == nil && t.dtype == dtypes.Bool && at >= 0 {
				err = errors.Errorf("a bool has the value %d", data[at])
			}
		})
		if err == nil {
			err = dataErr
		}
		return err
	})
	return value, err
}

// use opens t for one reader.
func (t storedTensor) use(name string, read func(io.Reader) error) error {
	r, err := t.open()
	if err == nil {
		defer r.Close()
		err = read(r)
	}
	if err != nil {
		return asFormatError(err, t.file, name)
	}
	return nil
}

// appendFloats widens the little-endian numbers in raw exactly.
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

// asFormatError distinguishes an invalid file from one that cannot be read.
func asFormatError(err error, file, tensor string) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return errors.Wrapf(err, "checkpoints: reading tensor %q of %s", tensor, file)
	}
	return &formatError{File: file, Tensor: tensor, Reason: err.Error()}
}
