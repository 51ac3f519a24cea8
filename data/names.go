// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import "iter"

// maxNames bounds the text of Names.
const maxNames = 1<<32 - 1

// Names are the names of many files as one text, so that a set of millions takes little more than the letters.
type Names struct {
	text []byte
	ends []uint32 // of each name in the text
}

// NamesOf returns a list as Names.
func NamesOf(names ...string) (n Names) {
	for _, name := range names {
		n.Add(name)
	}
	return n
}

// Add appends a name. All together have less than 4 GiB.
func (n *Names) Add(name string) {
	n.text = append(n.text, name...)
	n.ends = append(n.ends, uint32(len(n.text)))
}

// Len returns how many there are.
func (n *Names) Len() int { return len(n.ends) }

// At returns name i.
func (n *Names) At(i int) string {
	var start uint32
	if i > 0 {
		start = n.ends[i-1]
	}
	return string(n.text[start:n.ends[i]])
}

// All yields the names and their places.
func (n *Names) All() iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for i := range n.ends {
			if !yield(i, n.At(i)) {
				return
			}
		}
	}
}
