// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import "image"

// Interpolation of subsampled chroma planes. The nearest sample, which Go's At returns, is wrong by tens of levels at
// coloured edges, and a lossy webp has another range of values (16…235) than a jpeg (0…255). Both reference decoders,
// libjpeg ("fancy upsampling") and libwebp, weight the four nearest samples 9:3:3:1, which is bilinear interpolation
// between the centres of samples; the last sample is repeated beyond the border. They differ in rounding and in the
// conversion to RGB.

// chroma interpolates the samples of a subsampled plane.
type chroma struct {
	rows, cols         int       // samples within the image
	rowShift, colShift int       // log2 of the pixels per sample along each axis
	smooth             bool      // false repeats the nearest sample
	bias               [2][2]int // added before division by 16, by parity of the pixel's row and column
	sums               []int     // [cols], of one line
	near, beside       []int     // of each pixel of a line, its two samples
}

// libjpeg interpolates if one or both axes have half of the samples, and alternates the rounding from pixel to pixel
// where its intermediate sums would lose a half.
var (
	jpegChroma = map[image.YCbCrSubsampleRatio]chroma{
		image.YCbCrSubsampleRatio420: {rowShift: 1, colShift: 1, smooth: true, bias: [2][2]int{{8, 7}, {8, 7}}},
		image.YCbCrSubsampleRatio422: {colShift: 1, smooth: true, bias: [2][2]int{{4, 8}, {4, 8}}},
		image.YCbCrSubsampleRatio440: {rowShift: 1, smooth: true, bias: [2][2]int{{4, 4}, {8, 8}}},
		image.YCbCrSubsampleRatio411: {colShift: 2},
		image.YCbCrSubsampleRatio410: {rowShift: 1, colShift: 2},
	}
	webpChroma = chroma{rowShift: 1, colShift: 1, smooth: true, bias: [2][2]int{{8, 8}, {8, 8}}}
)

// row computes pixels of a line of a plane, starting at a column:
//
//	(9·near + 3·beside + 3·above or below + diagonal + bias)/16
func (c chroma) row(out, plane []uint8, stride, y, column int) {
	near, next := c.samples(y, c.rowShift, c.rows)
	a, b := plane[near*stride:], plane[next*stride:]
	for j := c.near[0] - min(1, c.near[0]); j < min(c.cols, c.near[len(out)-1]+2); j++ { // the samples of these pixels
		c.sums[j] = 3*int(a[j]) + int(b[j])
	}
	bias := c.bias[y&1]
	for i := range out {
		out[i] = uint8((3*c.sums[c.near[i]] + c.sums[c.beside[i]] + bias[(column+i)&1]) >> 4)
	}
}

// samples returns the two samples, of n, around a pixel; twice the nearer one at a border or without subsampling.
func (c chroma) samples(pixel, shift, n int) (near, next int) {
	near = pixel >> shift
	if !c.smooth || shift != 1 {
		return near, near
	}
	return near, min(max(0, near+2*(pixel&1)-1), n-1)
}

// jpeg converts the part of a decoded jpeg that starts at a line and a column.
func (p *Image) jpeg(m *image.YCbCr, line, column int) {
	c := jpegChroma[m.SubsampleRatio]
	if c.colShift == 1 && m.Rect.Dx() <= 4 { // libjpeg does not interpolate two columns of samples
		c.smooth = false
	}
	p.convert(m, line, column, c, true)
}

// convert converts a part of an image to RGB by the formulas of JFIF or of WebP.
func (p *Image) convert(m *image.YCbCr, line, column int, c chroma, jfif bool) {
	c.rows = (m.Rect.Dy() + 1<<c.rowShift - 1) >> c.rowShift
	c.cols = (m.Rect.Dx() + 1<<c.colShift - 1) >> c.colShift
	c.sums, c.near, c.beside = make([]int, c.cols), make([]int, p.Width), make([]int, p.Width)
	for i := range p.Width {
		c.near[i], c.beside[i] = c.samples(column+i, c.colShift, c.cols)
	}
	cb, cr := make([]uint8, p.Width), make([]uint8, p.Width)
	out := p.Pixels
	for y := line; y < line+p.Height; y++ {
		c.row(cb, m.Cb, m.CStride, y, column)
		c.row(cr, m.Cr, m.CStride, y, column)
		for x, luma := range m.Y[y*m.YStride+column:][:p.Width] {
			var r, g, b int
			if jfif {
				r, g, b = jpegRGB(int(luma), int(cb[x]), int(cr[x]))
			} else {
				r, g, b = webpRGB(int(luma), int(cb[x]), int(cr[x]))
			}
			out[0], out[1], out[2] = clip8(r), clip8(g), clip8(b)
			out = out[3:]
		}
	}
}

// jpegRGB is the conversion of JFIF (ITU-T T.871) in libjpeg's 16-bit fixed point:
// R = Y + 1.402 Cr, G = Y − 0.34414 Cb − 0.71414 Cr, B = Y + 1.772 Cb, with Cb and Cr around 128.
func jpegRGB(y, cb, cr int) (r, g, b int) {
	const half = 1 << 15
	cb, cr = cb-128, cr-128
	return y + (91881*cr+half)>>16, y + (-22554*cb-46802*cr+half)>>16, y + (116130*cb+half)>>16
}

// webpRGB is ITU-R BT.601 with luma in 16…235 and chroma in 16…240, R = 1.164 (Y−16) + 1.596 (V−128) and so on, in
// libwebp's 14-bit fixed point, which drops 8 bits of each product.
func webpRGB(y, u, v int) (r, g, b int) {
	luma := y * 19077 >> 8
	return (luma + v*26149>>8 - 14234) >> 6, (luma - u*6419>>8 - v*13320>>8 + 8708) >> 6, (luma + u*33050>>8 - 17685) >> 6
}

func clip8(v int) uint8 { return uint8(min(max(v, 0), 255)) }
