// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package coco

import (
	"errors"
	"fmt"
	"math"
)

// The string of a mask encodes one number per run: the run's length, from the fourth run on minus the length of the run
// two before it. Each number is split into groups of five bits, the lowest first, written as the character 48 + bits,
// plus 32 if more follow; the highest bit of the last group is the sign. Source: rleToString and rleFrString of
// maskApi.c.
const (
	packBits  = 5
	packMore  = 1 << packBits
	packSign  = packMore / 2
	packFirst = '0'
	packMost  = 7 // characters for 33 bits
)

// pack returns the counts as COCO's string.
func (r RLE) pack() string {
	var out []byte
	for i, c := range r.Counts {
		x := int64(c)
		if i > 2 {
			x -= int64(r.Counts[i-2])
		}
		for more := true; more; {
			bits := byte(x & (packMore - 1))
			x >>= packBits
			if more = x != 0; bits&packSign != 0 {
				more = x != -1
			}
			if more {
				bits |= packMore
			}
			out = append(out, packFirst+bits)
		}
	}
	return string(out)
}

// unpack reads COCO's string of a mask of the given size.
func unpack(packed string, height, width int) (RLE, error) {
	r := RLE{Height: height, Width: width}
	for at := 0; at < len(packed); {
		x, shift := int64(0), 0
		for more := true; more; at++ {
			if at == len(packed) {
				return RLE{}, errors.New("the string of a mask ends within a number")
			}
			bits := packed[at] - packFirst
			if bits >= 2*packMore {
				return RLE{}, fmt.Errorf("%q at %d in the string of a mask, want characters from '0' to 'o'", packed[at], at)
			}
			x |= int64(bits&(packMore-1)) << shift
			shift += packBits
			if more = bits&packMore != 0; !more && bits&packSign != 0 {
				x |= -1 << shift
			} else if more && shift == packMost*packBits {
				return RLE{}, fmt.Errorf("a number in the string of a mask has more than %d characters", packMost)
			}
		}
		if n := len(r.Counts); n > 2 {
			x += int64(r.Counts[n-2])
		}
		if x < 0 || x > math.MaxInt32 {
			return RLE{}, fmt.Errorf("the string of a mask has a run of %d pixels", x)
		}
		r.Counts = append(r.Counts, uint32(x))
	}
	return r, r.check()
}
