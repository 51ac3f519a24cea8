// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"io"
	"slices"
)

// The decoder of jpegs (ITU-T T.81) exists for one property: samples that are those of libjpeg, to the bit, see
// jpeg_idct.go. It reads sequential and progressive files of 8 bits with one, three or four components; what else there
// is, subsampled ink above all, goes to image/jpeg, which reads it with another rounding or says why it does not.
var errOtherJPEG = errors.New("a jpeg for image/jpeg")

// Markers, T.81, table B.1.
const (
	markerBaseline    = 0xc0 // and extended sequential, 0xc1
	markerProgressive = 0xc2
	markerHuffman     = 0xc4
	markerReserved    = 0xc8
	markerArithmetic  = 0xcc
	markerLastFrame   = 0xcf // of the kinds of jpeg
	markerRestart     = 0xd0 // to 0xd7
	markerStart       = 0xd8
	markerEnd         = 0xd9
	markerScan        = 0xda
	markerQuant       = 0xdb
	markerInterval    = 0xdd
	markerJFIF        = 0xe0
	markerAdobe       = 0xee
)

// maxPasses bounds the work that scans ask for, as a multiple of the picture's blocks: a few bytes are a scan over
// millions of blocks. Encoders write about ten scans.
const maxPasses = 100

type jpegDecoder struct {
	raw           []byte
	at            int
	width, height int
	progressive   bool
	components    []jpegComponent
	h, v          int // the largest of the components'
	across, down  int // units of h×v blocks
	restart       int // units between restart markers
	blocks, work  int // of all components; visited by scans so far
	quant         [4]*[64]int32
	tables        [2][4]*huffman // dc, ac
	jfif          bool
	adobe         int // Adobe's number of the colour space, -1 if none is given
}

// jpegComponent is one colour: a plane of blocks.
type jpegComponent struct {
	id, table          byte
	h, v               int // samples along each axis, in proportion to the other components'
	rows, cols         int // blocks, with those that complete units
	usedRows, usedCols int // blocks with samples of the picture
	plane              []uint8
	coefficients       []int16    // of a progressive jpeg, [rows, cols, 64]
	quant              *[64]int32 // as it was at the first scan
}

func (c *jpegComponent) block(index int) *[64]int16 {
	return (*[64]int16)(c.coefficients[64*index:])
}

func (c *jpegComponent) draw(index int, block *[64]int16) {
	stride := 8 * c.cols
	inverseCosines(c.plane[index/c.cols*8*stride+index%c.cols*8:], stride, block, c.quant)
}

// zigzag is where coefficient k is by rows: along the diagonals, up and down in turn (T.81, figure A.6).
var zigzag = func() (at [64]uint8) {
	k := 0
	for diagonal := range 15 {
		for i := max(0, diagonal-7); i <= min(diagonal, 7); i++ {
			row, col := i, diagonal-i
			if diagonal%2 == 0 {
				row, col = col, row
			}
			at[k] = uint8(8*row + col)
			k++
		}
	}
	return at
}()

// decodeJPEG returns the planes of a jpeg that jpeg.DecodeConfig accepts.
func decodeJPEG(r io.Reader) (image.Image, error) {
	raw, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	info, err := jpeg.DecodeConfig(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	d := &jpegDecoder{raw: raw, at: 2, width: info.Width, height: info.Height, adobe: -1}
	var img image.Image
	if err = d.read(); err == nil {
		img, err = d.image()
	}
	if errors.Is(err, errOtherJPEG) {
		return jpeg.Decode(bytes.NewReader(raw))
	}
	return img, err
}

// marker goes behind the next marker. Before it may be fill bytes, or anything.
func (d *jpegDecoder) marker() (byte, error) {
	for ; d.at+1 < len(d.raw); d.at++ {
		if m := d.raw[d.at+1]; d.raw[d.at] == 0xff && m != 0 && m != 0xff {
			d.at += 2
			return m, nil
		}
	}
	return 0, io.ErrUnexpectedEOF
}

func (d *jpegDecoder) read() error {
	for {
		marker, err := d.marker()
		switch {
		case err != nil:
			return err
		case marker == markerEnd:
			return d.finish()
		case marker >= markerRestart && marker <= markerStart || marker == 1: // these have no content
			continue
		case len(d.raw)-d.at < 2:
			return io.ErrUnexpectedEOF
		}
		length := int(binary.BigEndian.Uint16(d.raw[d.at:]))
		if length < 2 {
			return fmt.Errorf("marker %#x has length %d", marker, length)
		}
		if length > len(d.raw)-d.at {
			return io.ErrUnexpectedEOF
		}
		body := d.raw[d.at+2 : d.at+length]
		d.at += length
		switch {
		case marker == markerHuffman:
			err = d.readHuffman(body)
		case marker >= markerBaseline && marker <= markerLastFrame && marker != markerReserved &&
			marker != markerArithmetic:
			err = d.readFrame(marker, body)
		case marker == markerQuant:
			err = d.readQuant(body)
		case marker == markerInterval && len(body) == 2:
			d.restart = int(binary.BigEndian.Uint16(body))
		case marker == markerJFIF && bytes.HasPrefix(body, []byte("JFIF\x00")):
			d.jfif = true
		case marker == markerAdobe && bytes.HasPrefix(body, []byte("Adobe")) && len(body) >= 12:
			d.adobe = int(body[11])
		case marker == markerScan:
			err = d.readScan(body)
		}
		if err != nil {
			return err
		}
	}
}

// readFrame reads sizes and components (T.81, B.2.2).
func (d *jpegDecoder) readFrame(marker byte, body []byte) error {
	if d.components != nil {
		return errors.New("a second frame")
	}
	if len(body) < 6 || len(body) != 6+3*int(body[5]) {
		return errors.New("a frame header of the wrong length")
	}
	height, width := int(binary.BigEndian.Uint16(body[1:])), int(binary.BigEndian.Uint16(body[3:]))
	if marker > markerProgressive || body[0] != 8 || height != d.height || width != d.width {
		return errOtherJPEG
	}
	d.progressive = marker == markerProgressive
	for body = body[6:]; len(body) > 0; body = body[3:] {
		c := jpegComponent{id: body[0], h: int(body[1] >> 4), v: int(body[1] & 15), table: body[2]}
		if c.h < 1 || c.h > 4 || c.v < 1 || c.v > 4 || c.table > 3 {
			return fmt.Errorf("component %d has sampling %d×%d and table %d", c.id, c.h, c.v, c.table)
		}
		d.h, d.v = max(d.h, c.h), max(d.v, c.v)
		d.components = append(d.components, c)
	}
	if _, err := d.ratio(); err != nil {
		return err
	}
	d.across, d.down = ceilDiv(width, 8*d.h), ceilDiv(height, 8*d.v)
	for i := range d.components {
		c := &d.components[i]
		c.rows, c.cols = d.down*c.v, d.across*c.h
		c.usedRows, c.usedCols = ceilDiv(ceilDiv(height*c.v, d.v), 8), ceilDiv(ceilDiv(width*c.h, d.h), 8)
		c.plane = make([]uint8, 64*c.rows*c.cols)
		if d.progressive {
			c.coefficients = make([]int16, 64*c.rows*c.cols)
		}
		d.blocks += c.rows * c.cols
	}
	return nil
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// ratio is that of the first component's samples to the second's and third's.
func (d *jpegDecoder) ratio() (image.YCbCrSubsampleRatio, error) {
	c := d.components
	for i := range c {
		if i > 0 && (c[i].h != c[1].h || c[i].v != c[1].v) || len(c) == 4 && (c[i].h != d.h || c[i].v != d.v) {
			return 0, errOtherJPEG
		}
	}
	if len(c) == 1 {
		return image.YCbCrSubsampleRatio444, nil
	}
	if len(c) == 2 || len(c) > 4 || c[0].h != d.h || c[0].v != d.v || d.h%c[1].h != 0 || d.v%c[1].v != 0 {
		return 0, errOtherJPEG
	}
	ratio, ok := jpegRatios[[2]int{d.h / c[1].h, d.v / c[1].v}]
	if !ok {
		return 0, errOtherJPEG
	}
	return ratio, nil
}

// jpegRatios are those of columns and rows that chroma.go interpolates.
var jpegRatios = map[[2]int]image.YCbCrSubsampleRatio{
	{1, 1}: image.YCbCrSubsampleRatio444, {2, 1}: image.YCbCrSubsampleRatio422, {2, 2}: image.YCbCrSubsampleRatio420,
	{1, 2}: image.YCbCrSubsampleRatio440, {4, 1}: image.YCbCrSubsampleRatio411, {4, 2}: image.YCbCrSubsampleRatio410,
}

// readQuant reads steps of 8 or 16 bits (T.81, B.2.4.1).
func (d *jpegDecoder) readQuant(body []byte) error {
	for len(body) > 0 {
		wide, number := int(body[0]>>4), body[0]&15
		if wide > 1 || number > 3 || len(body) < 1+64<<wide {
			return errors.New("a damaged quantisation table")
		}
		q := new([64]int32)
		for k := range 64 {
			if wide == 1 {
				q[zigzag[k]] = int32(binary.BigEndian.Uint16(body[1+2*k:]))
			} else {
				q[zigzag[k]] = int32(body[1+k])
			}
		}
		d.quant[number], body = q, body[1+64<<wide:]
	}
	return nil
}

// readHuffman reads how many codes there are of each length, and their symbols (T.81, B.2.4.2).
func (d *jpegDecoder) readHuffman(body []byte) (err error) {
	for len(body) > 0 {
		class, number := body[0]>>4, body[0]&15
		if class > 1 || number > 3 || len(body) < 17 {
			return errors.New("a damaged Huffman table")
		}
		counts, total := body[1:17], 0
		for _, n := range counts {
			total += int(n)
		}
		if total > 256 || len(body) < 17+total {
			return errors.New("a damaged Huffman table")
		}
		symbols := body[17 : 17+total]
		if class == 0 && total > 0 && slices.Max(symbols) > 15 {
			return errors.New("a Huffman table with differences of more than 15 bits")
		}
		if d.tables[class][number], err = newHuffman(counts, symbols); err != nil {
			return err
		}
		body = body[17+total:]
	}
	return nil
}

// readScan reads the header of a scan (T.81, B.2.3) and the scan.
func (d *jpegDecoder) readScan(body []byte) error {
	if len(body) < 1 || len(body) != 4+2*int(body[0]) || body[0] < 1 || int(body[0]) > len(d.components) {
		return errors.New("a damaged scan header")
	}
	count, tail := int(body[0]), body[1+2*int(body[0]):]
	s := &scan{first: int(tail[0]), last: int(tail[1]), high: int(tail[2] >> 4), low: int(tail[2] & 15)}
	if d.progressive {
		if s.last > 63 || s.first > s.last || s.low > 13 || s.high > 0 && s.high != s.low+1 ||
			s.first == 0 && s.last > 0 || s.first > 0 && count > 1 {
			return fmt.Errorf("a scan of coefficients %d to %d, bits %d to %d, of %d components", s.first, s.last, s.high,
				s.low, count)
		}
	} else {
		s.first, s.last, s.high, s.low = 0, 63, 0, 0 // whatever the header says
	}
	for i := range count {
		selector, tables := body[1+2*i], body[2+2*i]
		at := slices.IndexFunc(d.components, func(c jpegComponent) bool { return c.id == selector })
		if at < 0 || slices.ContainsFunc(s.parts, func(p scanPart) bool { return p.id == selector }) || tables&0xcc != 0 {
			return errors.New("a damaged scan header")
		}
		c := &d.components[at]
		p := scanPart{jpegComponent: c, dc: d.tables[0][tables>>4], ac: d.tables[1][tables&15]}
		if c.quant == nil {
			c.quant = d.quant[c.table]
		}
		if c.quant == nil || p.dc == nil && s.first == 0 && s.high == 0 || p.ac == nil && s.last > 0 {
			return errors.New("a scan without its tables")
		}
		s.parts = append(s.parts, p)
		d.work += c.rows * c.cols
	}
	if d.work > maxPasses*d.blocks {
		return fmt.Errorf("scans go over the picture more than %d times", maxPasses)
	}
	return s.read(d)
}

// finish draws what is drawn only when all is known.
func (d *jpegDecoder) finish() error {
	if d.components == nil {
		return errors.New("no frame")
	}
	for i := range d.components {
		c := &d.components[i]
		if c.quant == nil {
			return fmt.Errorf("component %d is missing", c.id)
		}
		if d.progressive {
			for index := range c.rows * c.cols {
				c.draw(index, c.block(index))
			}
		}
	}
	return nil
}

// image gives the planes the type that says what they mean, by libjpeg's rules: JFIF is YCbCr, then Adobe's marker
// counts, then the components' names. Adobe's inks are stored inverted; ink that nothing explains is not read.
func (d *jpegDecoder) image() (image.Image, error) {
	c, rect := d.components, image.Rect(0, 0, d.width, d.height)
	stride := 8 * c[0].cols
	if len(c) == 1 {
		return &image.Gray{Pix: c[0].plane, Stride: stride, Rect: rect}, nil
	}
	ratio, err := d.ratio()
	if err != nil {
		return nil, err
	}
	switch named := string([]byte{c[0].id, c[1].id, c[2].id}) == "RGB"; {
	case len(c) == 4 && d.adobe < 0:
		return nil, errOtherJPEG
	case len(c) == 4:
		return d.ink(), nil
	case d.jfif || d.adobe > 0 || d.adobe < 0 && !named:
		return &image.YCbCr{Y: c[0].plane, Cb: c[1].plane, Cr: c[2].plane, YStride: stride, CStride: 8 * c[1].cols,
			SubsampleRatio: ratio, Rect: rect}, nil
	}
	img := image.NewRGBA(rect)
	for i := range d.width * d.height {
		for k := range c { // the nearest sample
			y, x := i/d.width*c[k].v/d.v, i%d.width*c[k].h/d.h
			img.Pix[4*i+k] = c[k].plane[8*c[k].cols*y+x]
		}
	}
	return img, nil
}

func (d *jpegDecoder) ink() *image.CMYK {
	img, c := image.NewCMYK(image.Rect(0, 0, d.width, d.height)), d.components
	for i := range d.width * d.height {
		at := 8*c[0].cols*(i/d.width) + i%d.width
		cyan, magenta, yellow := int(c[0].plane[at]), int(c[1].plane[at]), int(c[2].plane[at])
		if d.adobe == 0 {
			cyan, magenta, yellow = 255-cyan, 255-magenta, 255-yellow
		} else { // YCbCr of inverted ink, inverted
			cyan, magenta, yellow = jpegRGB(cyan, magenta, yellow)
		}
		copy(img.Pix[4*i:], []uint8{clip8(cyan), clip8(magenta), clip8(yellow), 255 - c[3].plane[at]})
	}
	return img
}
