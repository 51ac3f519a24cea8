// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

// maxNames bounds the total length of names.
const maxNames = 1<<32 - 1

// names stores the names of many files in one text, so that millions of names take little more than their bytes.
type names struct {
	text []byte
	ends []uint32 // of each name in text
}

// add appends a name. All names together have less than 4 GiB.
func (n *names) add(name string) {
	n.text = append(n.text, name...)
	n.ends = append(n.ends, uint32(len(n.text)))
}

func (n *names) len() int { return len(n.ends) }

// at returns name i.
func (n *names) at(i int) string {
	var start uint32
	if i > 0 {
		start = n.ends[i-1]
	}
	return string(n.text[start:n.ends[i]])
}
