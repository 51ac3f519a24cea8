// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package numpy

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/campaign"
)

// The readers' packages, checkpoints and data, test whole archives, valid and malformed.

// FuzzHeader: an accepted header equals NumPy's for it, up to white space, quotes and order.
func FuzzHeader(f *testing.F) {
	seeds := []string{"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n",
		`{"shape":(),"descr":"|V2","fortran_order":False}`,
		"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }",
		"{'descr': '<f4', 'fortran_order': True, 'shape': (281474976710657, 01), }",
		"{'descr': '<f2', 'fortran_order': False, 'shape': (2), }"}
	campaign.Fuzz(f, seeds, func(t *testing.T, text string) {
		kind, dims, err := parseHeader(text)
		if err != nil {
			return
		}
		shape := strings.Trim(strings.ReplaceAll(fmt.Sprint(dims), " ", ","), "[]")
		if len(dims) == 1 {
			shape += ","
		}
		plain := strings.NewReplacer(" ", "", "\n", "", `"`, "'").Replace(text)
		for _, part := range []string{"'fortran_order':False", "'shape':(" + shape, "'descr':'" + kind + "'"} {
			if !strings.Contains(plain, part) {
				t.Errorf("%q was read as %s%v", text, kind, dims)
			}
		}
	})
}

// FuzzNPY: an accepted file has as many numbers as its shape requires, to its last byte.
func FuzzNPY(f *testing.F) {
	whole := append(Header("<f4", 3, 5), make([]byte, 60)...)
	second := slices.Concat(whole[:6], []byte{2, 0, 0x76, 0, 0, 0}, whole[10:])
	campaign.Fuzz(f, [][]byte{whole, second, whole[:70]}, func(t *testing.T, raw []byte) {
		a, err := Open(bytes.NewReader(raw), int64(len(raw)))
		if err != nil {
			return
		}
		numbers, err := io.ReadAll(a)
		size, _ := strconv.Atoi(strings.TrimLeft(a.Type, "<|fiuVbc"))
		for _, dim := range a.Shape {
			size *= dim
		}
		if err != nil || len(numbers) != size || !bytes.HasSuffix(raw, numbers) {
			t.Errorf("%d bytes of numbers for %s%v, %v", len(numbers), a.Type, a.Shape, err)
		}
	})
}

// The literal is NumPy's own (format.py, ARRAY_ALIGN): one number is a tuple, too. The length of two axes is fixed.
func TestHeader_IsNumPys(t *testing.T) {
	for tuple, shape := range map[string][]int{"()": {}, "(7,)": {7}, "(0, 7)": {0, 7},
		"(140737488355328, 123456)":                       {1 << 47, 123456},
		"(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)": {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}} {
		header := string(Header("<f2", shape...))
		want := "\x93NUMPY\x01\x00" + string([]byte{byte(len(header) - 10), 0}) +
			"{'descr': '<f2', 'fortran_order': False, 'shape': " + tuple + ", }"
		if strings.TrimRight(header, " \n") != want || len(header)%64 != 0 || len(header)-len(want) > 64 ||
			header[len(header)-1] != '\n' || len(shape) == 2 && len(header) != HeaderSize {
			t.Errorf("%v: %d bytes, %q, want %q", shape, len(header), header, want)
		}
	}
	file := string(Header("<f4", 3, 5)) + strings.Repeat("\x00\x00\x80\x3f", 15)
	a, err := Open(strings.NewReader(file), int64(len(file)))
	if err != nil || a.Type != "<f4" || !slices.Equal(a.Shape, []int{3, 5}) {
		t.Errorf("%+v, %v", a, err)
	}
	for name, broken := range map[string]string{"cut": file[:len(file)-1], "too long": file + "x",
		"header alone": file[:90], "empty": "", "other magic": "x" + file[1:]} {
		if a, err := Open(strings.NewReader(broken), int64(len(broken))); err == nil {
			t.Errorf("%s: %+v", name, a)
		}
	}
}
