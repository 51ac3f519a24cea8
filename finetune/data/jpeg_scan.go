// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// bits reads entropy-coded data up to the next marker. Beyond its end it reads zeros and n is negative, which is looked
// at once a block.
type bits struct {
	data  []byte // not read yet
	ended bool   // a marker or the end of the file is next
	bad   bool   // a code was met that no symbol has
	next  uint64 // the next n bits, at the top
	n     int
}

func (b *bits) fill() {
	for b.n <= 32 && !b.ended {
		if len(b.data) >= 4 {
			v := binary.BigEndian.Uint32(b.data)
			if (^v-0x01010101)&v&0x80808080 == 0 { // no byte is 0xff
				b.next |= uint64(v) << (32 - b.n)
				b.n, b.data = b.n+32, b.data[4:]
				continue
			}
		}
		b.fillByte()
	}
}

func (b *bits) fillByte() {
	if len(b.data) == 0 {
		b.ended = true
		return
	}
	v, size := b.data[0], 1
	if v == 0xff { // stands with a zero after it, lest it be a marker
		size = 2
		if len(b.data) < 2 || b.data[1] != 0 {
			b.ended = true
			return
		}
	}
	b.next |= uint64(v) << (56 - b.n)
	b.n, b.data = b.n+8, b.data[size:]
}

// take reads at most 16 bits.
func (b *bits) take(count int) int32 {
	if b.n < count {
		b.fill()
	}
	v := int32(b.next >> (64 - count))
	b.next <<= count
	b.n -= count
	return v
}

// number reads a signed number of a size in bits: those that begin with 0 are negative, from −2^size + 1 (T.81, F.12).
func (b *bits) number(size int) int32 {
	negative := int32(b.next>>63) - 1 // all ones if so; symbol left enough bits
	return b.take(size) + negative&(1-1<<size)
}

// symbol reads a Huffman code and leaves at least 16 bits to read without fill.
func (b *bits) symbol(h *huffman) int {
	if b.n < 32 {
		b.fill()
	}
	if e := h.short[b.next>>(64-shortCode)]; e != 0 {
		b.next <<= e >> 8
		b.n -= int(e >> 8)
		return int(e & 0xff)
	}
	code := int32(b.next >> 48)
	for length := shortCode + 1; length <= 16; length++ {
		if code < h.end[length] {
			b.next <<= length
			b.n -= length
			return int(h.symbols[code>>(16-length)+h.first[length]])
		}
	}
	b.bad = true
	return 0
}

func (b *bits) err() error {
	switch {
	case b.bad:
		return errors.New("bits that are no Huffman code")
	case b.n < 0 && len(b.data) < 2:
		return io.ErrUnexpectedEOF
	case b.n < 0:
		return errors.New("a scan ends before its last block")
	}
	return nil
}

// huffman is a table of codes of up to 16 bits; those of a length are consecutive, and follow the shorter (T.81, C).
type huffman struct {
	short   [1 << shortCode]uint16 // by the next bits: length and symbol of a short code, 0 for longer ones
	symbols []byte                 // by code
	first   [17]int32              // by length: index of its first symbol minus its first code
	end     [17]int32              // by length: the code after its last, with zeros to 16 bits
}

const shortCode = 9

func newHuffman(counts, symbols []byte) (*huffman, error) {
	h := &huffman{symbols: symbols}
	code, index := 0, 0
	for length := 1; length <= 16; length++ {
		h.first[length] = int32(index - code)
		for range counts[length-1] {
			if code >= 1<<length {
				return nil, errors.New("a Huffman table with too many codes")
			}
			if spare := shortCode - length; spare >= 0 {
				for i := code << spare; i < (code+1)<<spare; i++ {
					h.short[i] = uint16(length)<<8 | uint16(symbols[index])
				}
			}
			code, index = code+1, index+1
		}
		h.end[length] = int32(code << (16 - length))
		code <<= 1
	}
	return h, nil
}

// scan is what the header of a scan says, and the state of its decoding.
type scan struct {
	bits
	parts       []scanPart
	first, last int // of the band of coefficients
	high, low   int // bit planes: the last one known before, the last one known after
	endOfBand   int // blocks to come that have no more coefficients
}

// scanPart is a component in a scan.
type scanPart struct {
	*jpegComponent
	dc, ac *huffman
	mean   int32 // of the block before
}

// read decodes the blocks of all parts, in units of h×v blocks of each, or block by block if there is one part.
func (s *scan) read(d *jpegDecoder) error {
	across, down := d.across, d.down
	single := len(s.parts) == 1
	if single {
		across, down = s.parts[0].usedCols, s.parts[0].usedRows
	}
	read := s.kind(d.progressive)
	s.data = d.raw[d.at:]
	unit := 0
	for row := range down {
		for col := range across {
			if d.restart > 0 && unit > 0 && unit%d.restart == 0 {
				if err := s.begin(d, byte(unit/d.restart-1)%8); err != nil {
					return err
				}
			}
			unit++
			for i := range s.parts {
				p := &s.parts[i]
				if single {
					read(s, p, row*p.cols+col)
				} else {
					for k := range p.h * p.v {
						read(s, p, (row*p.v+k/p.h)*p.cols+col*p.h+k%p.h)
					}
				}
				if s.bad || s.n < 0 {
					return s.err()
				}
			}
		}
	}
	d.at = len(d.raw) - len(s.data)
	return nil
}

// begin goes on after a restart marker of the given number.
func (s *scan) begin(d *jpegDecoder, number byte) error {
	d.at = len(d.raw) - len(s.data)
	marker, err := d.marker()
	if err != nil {
		return err
	}
	if marker != markerRestart+number {
		return fmt.Errorf("marker %#x where restart %d is due", marker, number)
	}
	s.bits, s.endOfBand = bits{data: d.raw[d.at:]}, 0
	for i := range s.parts {
		s.parts[i].mean = 0
	}
	return nil
}

// kind selects how the blocks of a scan are coded.
func (s *scan) kind(progressive bool) func(s *scan, p *scanPart, block int) {
	switch {
	case !progressive:
		return (*scan).whole
	case s.first == 0 && s.high == 0:
		return (*scan).firstMean
	case s.first == 0:
		return (*scan).nextMean
	case s.high == 0:
		return (*scan).firstBand
	}
	return (*scan).nextBand
}

// whole decodes a block of a sequential jpeg, which is then complete (T.81, F.2.2).
func (s *scan) whole(p *scanPart, index int) {
	var block [64]int16
	p.mean += s.number(s.symbol(p.dc))
	block[0] = int16(p.mean)
	for k := 1; k < 64; k++ {
		code := s.symbol(p.ac)
		run, size := code>>4, code&15
		if size == 0 && run < 15 {
			break
		}
		if k += run; k > 63 {
			s.bad = size > 0 // zeros may end the block
			break
		}
		block[zigzag[k]] = int16(s.number(size))
	}
	p.draw(index, &block)
}

// The four kinds of progressive scans are T.81, G.1.2.1 to G.1.2.3.
func (s *scan) firstMean(p *scanPart, index int) {
	p.mean += s.number(s.symbol(p.dc))
	p.block(index)[0] = int16(p.mean << s.low)
}

func (s *scan) nextMean(p *scanPart, index int) {
	p.block(index)[0] |= int16(s.take(1) << s.low)
}

func (s *scan) firstBand(p *scanPart, index int) {
	if s.endOfBand > 0 {
		s.endOfBand--
		return
	}
	block := p.block(index)
	for k := s.first; k <= s.last; k++ {
		code := s.symbol(p.ac)
		run, size := code>>4, code&15
		if size == 0 && run < 15 {
			s.endOfBand = 1<<run + int(s.take(run)) - 1
			return
		}
		if k += run; k > s.last {
			s.bad = size > 0
			return
		}
		block[zigzag[k]] = int16(s.number(size) << s.low)
	}
}

func (s *scan) nextBand(p *scanPart, index int) {
	block, k := p.block(index), s.first
	for s.endOfBand == 0 && k <= s.last {
		code := s.symbol(p.ac)
		run, size := code>>4, code&15
		if size == 0 && run < 15 {
			s.endOfBand = 1<<run + int(s.take(run))
			break
		}
		var v int16
		if size > 0 {
			v = int16(2*s.take(1)-1) << s.low
		}
		if k = s.refine(block, k, run); k > s.last {
			s.bad = size > 0
			return
		}
		block[zigzag[k]] = v
		k++
	}
	if s.endOfBand > 0 {
		s.refine(block, k, 64)
		s.endOfBand--
	}
}

// refine reads one more bit of each coefficient that is not zero, from k to the first zero after the given number.
func (s *scan) refine(block *[64]int16, k, zeros int) int {
	for ; k <= s.last; k++ {
		v := &block[zigzag[k]]
		switch {
		case *v == 0 && zeros == 0:
			return k
		case *v == 0:
			zeros--
		case s.take(1) == 0:
		case *v > 0:
			*v += 1 << s.low
		default:
			*v -= 1 << s.low
		}
	}
	return k
}
