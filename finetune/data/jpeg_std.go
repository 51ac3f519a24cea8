// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build !libjpeg

package data

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
)

// libjpeg says which decoder reads jpegs, for the tests that compare their bits.
const libjpeg = false

// decodeWholeJPEG is that of the standard library. Its planes are those of libjpeg but for the rounding in the inverse
// cosine transform, a level in 3 % of the samples; what makes RGB of them is libjpeg's way, see chroma.go.
func decodeWholeJPEG(raw []byte) (image.Image, error) {
	img, err := jpeg.Decode(bytes.NewReader(raw))
	if err != nil { // some kinds it does not know, such as restart markers in a progressive jpeg
		err = fmt.Errorf("%w (if other programs show it: save it anew, or build with -tags libjpeg)", err)
	}
	return img, err
}
