// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package coco

import (
	"errors"
	"fmt"
	"math"
)

// RLE is a mask as run lengths down the columns, from the left column to the right: Counts[0] pixels outside, Counts[1]
// inside, Counts[2] outside, and so on. Runs may be of length 0; pixels after the last run are outside.
type RLE struct {
	Height, Width int
	Counts        []uint32
}

// checkSize refuses images whose number of pixels exceeds 31 bits.
func checkSize(height, width int) error {
	if height < 1 || width < 1 || int64(height) > math.MaxInt32/int64(width) {
		return fmt.Errorf("height %d and width %d of a mask, want 1 and more, and less than 2^31 pixels", height, width)
	}
	return nil
}

// check refuses run lengths beyond the mask. (cocoapi writes past its memory there.)
func (r RLE) check() error {
	if err := checkSize(r.Height, r.Width); err != nil {
		return err
	}
	total := uint64(0)
	for _, c := range r.Counts {
		total += uint64(c)
	}
	if pixels := uint64(r.Height) * uint64(r.Width); total > pixels {
		return fmt.Errorf("the run lengths cover %d pixels, the mask has %d×%d = %d", total, r.Height, r.Width, pixels)
	}
	return nil
}

// Encode returns the run lengths of a mask [height, width], row-major; its length must be height·width.
func Encode(mask []bool, height, width int) RLE {
	r := RLE{Height: height, Width: width}
	inside, run := false, uint32(0)
	for x := range width {
		for y := range height {
			if mask[y*width+x] != inside {
				r.Counts = append(r.Counts, run)
				inside, run = !inside, 0
			}
			run++
		}
	}
	r.Counts = append(r.Counts, run)
	return r
}

// Decode returns the mask [Height, Width], row-major.
func (r RLE) Decode() []bool {
	mask := make([]bool, r.Height*r.Width)
	at := 0
	for i, c := range r.Counts {
		if i%2 == 1 {
			x, y := at/r.Height, at%r.Height
			for range c {
				mask[y*r.Width+x] = true
				if y++; y == r.Height {
					x, y = x+1, 0
				}
			}
		}
		at += int(c)
	}
	return mask
}

// Area returns the number of pixels inside.
func (r RLE) Area() int {
	area := 0
	for i := 1; i < len(r.Counts); i += 2 {
		area += int(r.Counts[i])
	}
	return area
}

// Box is the smallest box around the pixels inside, all zero if there are none. Source: rleToBbox of pycocotools
// 2.0.11; cocoapi 8c9bcc3 also counts runs of length 0.
func (r RLE) Box() Box {
	left, top, right, bottom := r.Width, r.Height, -1, -1
	end := 0
	for i, c := range r.Counts {
		begin := end
		end += int(c)
		if i%2 == 0 || c == 0 {
			continue
		}
		first, last := begin/r.Height, (end-1)/r.Height // columns
		left, right = min(left, first), max(right, last)
		if first < last { // it continues from the bottom of one column at the top of the next
			top, bottom = 0, r.Height-1
		} else {
			top, bottom = min(top, begin%r.Height), max(bottom, (end-1)%r.Height)
		}
	}
	if right < 0 {
		return Box{}
	}
	return Box{float64(left), float64(top), float64(right - left + 1), float64(bottom - top + 1)}
}

// unite is the union of masks, as rleMerge of maskApi.c, except that masks of different sizes are an error.
func unite(masks ...RLE) (RLE, error) {
	out := masks[0]
	for _, m := range masks[1:] {
		if m.Height != out.Height || m.Width != out.Width {
			return RLE{}, fmt.Errorf("coco: masks of %d×%d and %d×%d pixels cannot be united", out.Height, out.Width,
				m.Height, m.Width)
		}
		counts, inside := []uint32{0}, false
		together(out, m, func(n int, first, second bool) {
			if (first || second) != inside {
				counts, inside = append(counts, 0), !inside
			}
			counts[len(counts)-1] += uint32(n)
		})
		out.Counts = counts
	}
	return out, nil
}

// together visits the pixels of two masks of one size in pieces, the longest that are inside or outside of each.
func together(a, b RLE, visit func(n int, inA, inB bool)) {
	rest, left, inside := [2][]uint32{a.Counts, b.Counts}, [2]int{}, [2]bool{true, true} // the first run is outside
	for pixels := a.Height * a.Width; pixels > 0; {
		n := pixels
		for k := range rest {
			for left[k] == 0 && len(rest[k]) > 0 {
				left[k], rest[k], inside[k] = int(rest[k][0]), rest[k][1:], !inside[k]
			}
			if left[k] == 0 { // after the last run
				left[k], inside[k] = pixels, false
			}
			n = min(n, left[k])
		}
		visit(n, inside[0], inside[1])
		pixels, left[0], left[1] = pixels-n, left[0]-n, left[1]-n
	}
}

// maskIoU is the intersection over the union of the areas of two masks whose boxes overlap, or over the area of the
// detection if the object is a crowd; -1 for masks of different sizes. Source: rleIou of maskApi.c.
func maskIoU(detection, object RLE, crowd bool) float64 {
	if detection.Height != object.Height || detection.Width != object.Width {
		return -1
	}
	both, either := 0, 0
	together(detection, object, func(n int, inDetection, inObject bool) {
		if inDetection || inObject {
			either += n
		}
		if inDetection && inObject {
			both += n
		}
	})
	if both == 0 {
		return 0
	}
	if crowd {
		either = detection.Area()
	}
	return float64(both) / float64(either)
}

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
