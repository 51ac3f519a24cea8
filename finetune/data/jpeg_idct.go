// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

// The inverse cosine transform decides the last bit of a jpeg, and T.81 leaves its rounding open. Pillow's libjpeg
// takes the method it calls islow: columns, then rows, each by the eight-point transform of Loeffler, Ligtenberg and
// Moschytz (ICASSP 1989), √8 times too large so that sums need no product, in integers with constants of 13 bits.
// Columns keep 2 bits more than a level; rows drop those, the 13 of the constants and the 3 of (√8)². Both round a half
// up. Between the two roundings all is exact, so that only the constants, not the order of operations, matter.
const (
	constantBits = 13
	columnBits   = constantBits - 2     // dropped after the columns
	rowBits      = constantBits + 2 + 3 // dropped after the rows
)

// The constants in units of 2⁻¹³, each rounded for itself; c is √2·cos(kπ/16).
const (
	c6      = 4433  // 0.541196100
	c2m6    = 6270  // c2 − c6 = 0.765366865
	c2p6    = 15137 // c2 + c6 = 1.847759065
	c3      = 9633  // 1.175875602
	c3m5    = 3196  // c3 − c5 = 0.390180644
	c3p5    = 16069 // c3 + c5 = 1.961570560
	c3m7    = 7373  // c3 − c7 = 0.899976223
	c1p3    = 20995 // c1 + c3 = 2.562915447
	oddOne  = 12299 // c1 + c3 − c5 − c7 = 1.501321110
	oddTwo  = 25172 // c1 + c3 + c5 − c7 = 3.072711026
	oddFour = 16819 // c1 + c3 − c5 + c7 = 2.053119869
	oddLast = 2446  // −c1 + c3 + c5 − c7 = 0.298631336
)

// cosines is the eight-point transform, 2¹³ times too large. even0 is input 0 with that factor already and half the
// unit of the rounding that follows; even4 is input 4 with that factor.
func cosines(even0, s1, s2, s3, even4, s5, s6, s7 int32) (o0, o1, o2, o3, o4, o5, o6, o7 int32) {
	turn := c6 * (s2 + s6)
	outer, inner := turn+c2m6*s2, turn-c2p6*s6
	sum, difference := even0+even4, even0-even4
	e0, e1, e2, e3 := sum+outer, difference+inner, difference-inner, sum-outer

	z := c3 * (s1 + s3 + s5 + s7)
	near, far := -c3m7*(s1+s7), -c1p3*(s3+s5)
	z15, z37 := z-c3m5*(s1+s5), z-c3p5*(s3+s7)
	d0 := oddOne*s1 + near + z15
	d1 := oddTwo*s3 + far + z37
	d2 := oddFour*s5 + far + z15
	d3 := oddLast*s7 + near + z37
	return e0 + d0, e1 + d1, e2 + d2, e3 + d3, e3 - d3, e2 - d2, e1 - d1, e0 - d0
}

// inverseCosines writes the 8×8 samples of a block into a plane. Both block and quant are by rows, not in zigzag order.
func inverseCosines(out []uint8, stride int, block *[64]int16, quant *[64]int32) {
	const half, level = 1 << (columnBits - 1), 128
	var work [64]int32
	flat := true // no coefficient but the mean
	for x := range 8 {
		at := func(y int) int32 { return int32(block[8*y+x]) * quant[8*y+x] }
		if block[8+x]|block[16+x]|block[24+x]|block[32+x]|block[40+x]|block[48+x]|block[56+x] == 0 {
			if block[x] == 0 {
				continue
			}
			flat = flat && x == 0
			mean := at(0) << (constantBits - columnBits)
			for y := range 8 {
				work[8*y+x] = mean
			}
			continue
		}
		flat = false
		o0, o1, o2, o3, o4, o5, o6, o7 := cosines(at(0)<<constantBits+half, at(1), at(2), at(3),
			at(4)<<constantBits, at(5), at(6), at(7))
		work[x], work[8+x], work[16+x], work[24+x] = o0>>columnBits, o1>>columnBits, o2>>columnBits, o3>>columnBits
		work[32+x], work[40+x], work[48+x], work[56+x] = o4>>columnBits, o5>>columnBits, o6>>columnBits, o7>>columnBits
	}
	const offset = level<<rowBits + 1<<(rowBits-1)
	if flat {
		v := clip8(int((work[0]<<constantBits + offset) >> rowBits))
		for y := range 8 {
			row := out[y*stride:][:8]
			for x := range row {
				row[x] = v
			}
		}
		return
	}
	for y := range 8 {
		w, row := work[8*y:][:8], out[y*stride:][:8]
		o0, o1, o2, o3, o4, o5, o6, o7 := cosines(w[0]<<constantBits+offset, w[1], w[2], w[3],
			w[4]<<constantBits, w[5], w[6], w[7])
		row[0], row[1] = clip8(int(o0>>rowBits)), clip8(int(o1>>rowBits))
		row[2], row[3] = clip8(int(o2>>rowBits)), clip8(int(o3>>rowBits))
		row[4], row[5] = clip8(int(o4>>rowBits)), clip8(int(o5>>rowBits))
		row[6], row[7] = clip8(int(o6>>rowBits)), clip8(int(o7>>rowBits))
	}
}
