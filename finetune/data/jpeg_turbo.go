// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build libjpeg

package data

/*
#cgo pkg-config: libturbojpeg
#include <turbojpeg.h>
*/
import "C"

import (
	"bytes"
	"errors"
	"image"
	"image/jpeg"
	"strings"
	"unsafe"
)

// decodeWholeJPEG is that of libjpeg-turbo, through its TurboJPEG interface (Debian: libturbojpeg0-dev): Pillow's own
// decoder, so that pictures are Pillow's in every bit, in a fifth of the time.
func decodeWholeJPEG(raw []byte) (image.Image, error) {
	decoder := C.tjInitDecompress()
	if decoder == nil {
		return nil, errors.New("libjpeg-turbo cannot start")
	}
	defer C.tjDestroy(decoder)
	file, size := (*C.uchar)(&raw[0]), C.ulong(len(raw))
	var width, height, subsampling, space C.int
	if C.tjDecompressHeader3(decoder, file, size, &width, &height, &subsampling, &space) != 0 {
		return jpeg.Decode(bytes.NewReader(raw)) // rare ratios of luma to chroma have no name in TurboJPEG
	}
	rect := image.Rect(0, 0, int(width), int(height))
	rgb, ink := image.NewRGBA(rect), image.NewCMYK(image.Rectangle{})
	pixels, format := rgb.Pix, C.int(C.TJPF_RGBA)
	if space == C.TJCS_CMYK || space == C.TJCS_YCCK {
		ink = &image.CMYK{Pix: rgb.Pix, Stride: rgb.Stride, Rect: rect}
		format = C.TJPF_CMYK
	}
	if C.tjDecompress2(decoder, file, size, (*C.uchar)(unsafe.Pointer(&pixels[0])), width, 0, height, format, 0) != 0 {
		message := C.GoString(C.tjGetErrorStr2(decoder))
		if C.tjGetErrorCode(decoder) != C.TJERR_WARNING || !strings.Contains(message, "extraneous bytes") {
			return nil, errors.New(message)
		} // bytes between markers are read over by all
	}
	if format == C.TJPF_CMYK {
		for i, v := range ink.Pix { // stored inverted, as Adobe began it
			ink.Pix[i] = 255 - v
		}
		return ink, nil
	}
	return rgb, nil
}
