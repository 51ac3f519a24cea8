// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build libjpeg

package data

/*
#cgo pkg-config: libjpeg
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jpeglib.h>
#include <jerror.h>

typedef struct {
	struct jpeg_error_mgr base;
	jmp_buf back;
	char *text;
} failure;

static void stop(j_common_ptr c) {
	failure *f = (failure *)c->err;
	c->err->format_message(c, f->text);
	longjmp(f->back, 1);
}

// Warnings report data that decoders guess, but for bytes between markers, another version of JFIF, and the bounds of a
// sequential scan, which every decoder ignores.
static void note(j_common_ptr c, int level) {
	int code = c->err->msg_code;
	if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_JFIF_MAJOR && code != JWRN_NOT_SEQUENTIAL) stop(c);
}

// decode writes the given number of columns and lines, from left and top, at 1/scale to out: 3 bytes per pixel, or 4
// for CMYK. It returns their number, or 0 and the reason in text.
static int decode(const unsigned char *raw, unsigned long size, int height, int width, int scale, int left, int top,
		int columns, int lines, unsigned char *out, char *text) {
	struct jpeg_decompress_struct c;
	failure f;
	unsigned char *volatile line = NULL;
	f.text = text;
	c.err = jpeg_std_error(&f.base);
	f.base.error_exit = stop;
	f.base.emit_message = note;
	if (setjmp(f.back)) {
		jpeg_destroy_decompress(&c);
		free(line);
		return 0;
	}
	jpeg_create_decompress(&c);
	jpeg_mem_src(&c, raw, size);
	jpeg_read_header(&c, TRUE);
	if (c.image_height != height || c.image_width != width) {
		snprintf(text, JMSG_LENGTH_MAX, "%dx%d pixels to one decoder, %ux%u to another", width, height, c.image_width,
			c.image_height);
		jpeg_destroy_decompress(&c);
		return 0;
	}
	c.out_color_space = c.num_components == 4 ? JCS_CMYK : JCS_RGB;
	c.scale_denom = scale;
	jpeg_start_decompress(&c);
	// Chroma is not interpolated at the border of the decoded part, so a few more columns are decoded on both sides.
	JDIMENSION from = left < 4 ? 0 : left - 4, length = left + columns + 4 - from;
	if (length > c.output_width - from) length = c.output_width - from;
	if (length < c.output_width) jpeg_crop_scanline(&c, &from, &length);
	line = malloc((size_t)length * c.output_components);
	if (line == NULL) {
		strcpy(text, "no memory");
		jpeg_destroy_decompress(&c);
		return 0;
	}
	if (top > 0) jpeg_skip_scanlines(&c, top);
	size_t pixel = c.output_components;
	for (int y = 0; y < lines; y++) {
		unsigned char *row = line;
		jpeg_read_scanlines(&c, &row, 1);
		memcpy(out + y * pixel * columns, row + pixel * (left - from), pixel * columns);
	}
	if (c.output_scanline == c.output_height) jpeg_finish_decompress(&c);
	jpeg_destroy_decompress(&c);
	free(line);
	return pixel;
}
*/
import "C"

import (
	"errors"
	"image"
	"unsafe"
)

// libjpeg reports whether libjpeg decodes JPEG files; tests of exact bits depend on it.
const libjpeg = true

// jpegScales are the reductions at which a jpeg can be decoded, the smallest result first: libjpeg's inverse cosine
// transforms of 1, 2, 4 and 8 samples a side.
var jpegScales = []int{8, 4, 2, 1}

// decodeJPEGPart decodes with libjpeg-turbo (Debian: libjpeg62-turbo-dev), Pillow's own decoder, so that images equal
// Pillow's in every bit. Columns outside the part are not transformed, rows below it are not read.
func (e Encoded) decodeJPEGPart(scale int, part image.Rectangle) (*Image, error) {
	p := &Image{Height: part.Dy(), Width: part.Dx()}
	pixels := make([]uint8, 4*p.Height*p.Width)
	var text [C.JMSG_LENGTH_MAX]C.char
	samples := C.decode((*C.uchar)(&e.raw[0]), C.ulong(len(e.raw)), C.int(e.height), C.int(e.width), C.int(scale),
		C.int(part.Min.X), C.int(part.Min.Y), C.int(p.Width), C.int(p.Height), (*C.uchar)(unsafe.Pointer(&pixels[0])),
		&text[0])
	switch samples {
	case 0:
		return nil, errors.New(C.GoString(&text[0]))
	case 3:
		p.Pixels = pixels[:3*p.Height*p.Width]
		return p, nil
	}
	for i, v := range pixels { // CMYK is stored inverted, as by Adobe
		pixels[i] = 255 - v
	}
	p.Pixels = make([]uint8, 3*p.Height*p.Width)
	p.cmyk(&image.CMYK{Pix: pixels, Stride: 4 * p.Width})
	return p, nil
}
