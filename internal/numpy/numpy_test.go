// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package numpy

import (
	"fmt"
	"strings"
	"testing"
)

// The tests of whole archives, good and hostile, are those of the readers: package checkpoints and finetune/data.

// FuzzHeader: what is accepted is what NumPy would write for it, up to white space, quotes and order.
func FuzzHeader(f *testing.F) {
	f.Add("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n")
	f.Add(`{"shape":(),"descr":"|V2","fortran_order":False}`)
	f.Add("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }")
	f.Add("{'descr': '<f4', 'fortran_order': True, 'shape': (281474976710657, 01), }")
	f.Add("{'descr': '<f2', 'fortran_order': False, 'shape': (2), }")
	f.Fuzz(func(t *testing.T, text string) {
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
