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
	"fmt"
	"image"
	"image/jpeg"
	"strings"
)

// libjpeg says which decoder reads jpegs, for the tests that compare their bits.
const libjpeg = true

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
	info, err := jpeg.DecodeConfig(bytes.NewReader(raw)) // what the limits were held to
	if err != nil || info.Width != int(width) || info.Height != int(height) {
		return nil, fmt.Errorf("%d×%d pixels to one decoder, %d×%d to another", width, height, info.Width, info.Height)
	}
	img, format := image.NewRGBA(image.Rect(0, 0, info.Width, info.Height)), C.int(C.TJPF_RGBA)
	inks := space == C.TJCS_CMYK || space == C.TJCS_YCCK // four bytes a pixel as well
	if inks {
		format = C.TJPF_CMYK
	}
	if C.tjDecompress2(decoder, file, size, (*C.uchar)(&img.Pix[0]), width, 0, height, format, 0) != 0 {
		message := C.GoString(C.tjGetErrorStr2(decoder))
		if C.tjGetErrorCode(decoder) != C.TJERR_WARNING || !strings.Contains(message, "extraneous bytes") {
			return nil, errors.New(message)
		} // every decoder skips bytes between markers
	}
	if !inks {
		return img, nil
	}
	for i, v := range img.Pix { // stored inverted, as Adobe began it
		img.Pix[i] = 255 - v
	}
	return &image.CMYK{Pix: img.Pix, Stride: img.Stride, Rect: img.Rect}, nil
}
