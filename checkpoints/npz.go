// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"archive/zip"
	"io"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/internal/numpy"
)

// The members may have at most maxRatio times the bytes of the file and largeMembers more: weights compress less.
const (
	largeMembers = 64 << 20 // bytes
	maxRatio     = 4
)

// npyTypes are the types of weights. NumPy has no bfloat16 and writes its two bytes as void, to be read with
// .view(ml_dtypes.bfloat16).
var npyTypes = []namedDType{
	{"<f4", dtypes.Float32}, {"<f2", dtypes.Float16}, {"<V2", dtypes.BFloat16}, {"|V2", dtypes.BFloat16},
	{"<f8", dtypes.Float64},
}

// addNPZ adds the members of an .npz file.
func (w *weights) addNPZ(r io.ReaderAt, size int64, file string) error {
	members, err := numpy.List(r, size)
	w.packed = true
	limit, total := maxRatio*uint64(size)+largeMembers, uint64(0)
	for _, m := range members {
		if total += m.Size; err == nil && total > limit {
			err = errors.Errorf("its arrays have more than %d bytes, too many for a file of %d", limit, size)
		}
		if err == nil {
			w.tensors[m.Name], err = npyTensor(m, file)
		}
	}
	return npyError(err, file)
}

func npyError(err error, file string) error {
	var of *numpy.Error
	if errors.As(err, &of) {
		return asFormatError(of.Err, file, of.Member)
	}
	if errors.Is(err, zip.ErrFormat) {
		err = errors.Errorf("not an .npz file, or truncated: download it again (%v)", err)
	}
	if err != nil {
		return asFormatError(err, file, "")
	}
	return nil
}

// npyTensor reads the header of a member.
func npyTensor(m *numpy.Member, file string) (storedTensor, error) {
	a, err := m.Open()
	if err != nil {
		return storedTensor{}, err
	}
	defer a.Close()
	at := slices.IndexFunc(npyTypes, func(t namedDType) bool { return t.name == a.Type })
	if at < 0 {
		return storedTensor{}, &numpy.Error{Member: m.Name, Err: errors.Errorf("dtype %q, want little-endian floats", a.Type)}
	}
	return storedTensor{file, npyTypes[at].dtype, a.Shape, func() (io.ReadCloser, error) { return m.Open() }}, nil
}

// writeNPZ writes the tensors in the order of their names as NumPy's savez does: uncompressed members, the numbers of
// each at a multiple of 64 bytes after the member's own header.
func writeNPZ(w io.Writer, out []outTensor) error {
	archive := zip.NewWriter(w)
	out = slices.Clone(out)
	slices.SortFunc(out, func(a, b outTensor) int { return strings.Compare(a.name, b.name) })
	for _, t := range out {
		at := slices.IndexFunc(npyTypes, func(known namedDType) bool { return known.dtype == t.shape.DType })
		if at < 0 {
			return errors.Errorf("tensor %q: NumPy has no type for %s", t.name, t.shape.DType)
		}
		member, err := archive.CreateHeader(&zip.FileHeader{Name: t.name + ".npy", Method: zip.Store})
		if err != nil {
			return err
		}
		if _, err := member.Write(numpy.Header(npyTypes[at].name, t.shape.Dimensions...)); err != nil {
			return err
		}
		if err := t.write(member); err != nil {
			return errors.WithMessagef(err, "tensor %q", t.name)
		}
	}
	return archive.Close()
}
