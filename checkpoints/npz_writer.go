// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"archive/zip"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/pkg/errors"
)

// writeNPZ writes the tensors in the order of their names as NumPy's savez does: members that are not compressed, the
// numbers of each at a multiple of 64 bytes. NumPy has no bfloat16; its two bytes come back as dtype V2, for
// .view(ml_dtypes.bfloat16).
func writeNPZ(w io.Writer, out []outTensor) error {
	archive := zip.NewWriter(w)
	out = slices.Clone(out)
	slices.SortFunc(out, func(a, b outTensor) int { return strings.Compare(a.name, b.name) })
	for _, t := range out {
		header, err := npyHeaderOf(t)
		if err != nil {
			return err
		}
		member, err := archive.CreateHeader(&zip.FileHeader{Name: t.name + npySuffix, Method: zip.Store})
		if err != nil {
			return err
		}
		if _, err := member.Write(header); err != nil {
			return err
		}
		if err := t.write(member); err != nil {
			return errors.WithMessagef(err, "tensor %q", t.name)
		}
	}
	return archive.Close()
}

// npyHeaderOf returns what stands before the numbers of an .npy of version 1.
func npyHeaderOf(t outTensor) ([]byte, error) {
	types := map[dtypes.DType]string{dtypes.Float32: "<f4", dtypes.Float16: "<f2", dtypes.BFloat16: "<V2"}
	descr, ok := types[t.shape.DType]
	if !ok {
		return nil, errors.Errorf("tensor %q: NumPy has no type for %s", t.name, t.shape.DType)
	}
	dims := strings.Trim(strings.ReplaceAll(fmt.Sprint(t.shape.Dimensions), " ", ", "), "[]")
	if t.shape.Rank() == 1 {
		dims += ","
	}
	literal := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, dims)
	start := len(npyMagic) + 2 + 2 // magic, version, length
	for (start+len(literal)+1)%64 != 0 {
		literal += " "
	}
	header := append([]byte(npyMagic), 1, 0)
	header = binary.LittleEndian.AppendUint16(header, uint16(len(literal)+1))
	return append(header, literal+"\n"...), nil
}
