// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/wepe-go/wepe/vit"
)

// ParsePositions reads names of encodings, "none,learned,wepe".
func ParsePositions(list string) ([]string, error) {
	chosen := Split(list)
	if len(chosen) == 0 {
		return nil, fmt.Errorf("it names no encoding: want some of %s", strings.Join(vit.PositionNames(), ","))
	}
	for i, p := range chosen {
		if _, err := vit.EncodingNamed(p); err != nil {
			return nil, err
		}
		if slices.Contains(chosen[:i], p) {
			return nil, fmt.Errorf("it names %s twice", p)
		}
	}
	return chosen, nil
}

// ParseSizes reads sizes of pictures, height before width, "24x24,32x48".
func ParseSizes(list string) (sizes [][2]int, err error) {
	for _, text := range Split(list) {
		rows, cols, _ := strings.Cut(text, "x")
		height, errHeight := strconv.Atoi(rows)
		width, errWidth := strconv.Atoi(cols)
		size := [2]int{height, width}
		if errHeight != nil || errWidth != nil || height < 1 || width < 1 || slices.Contains(sizes, size) {
			return nil, fmt.Errorf("%q: want different sizes of the form HEIGHTxWIDTH, as 24x24,32x48", text)
		}
		sizes = append(sizes, size)
	}
	if sizes == nil {
		return nil, errors.New("it names none: want some, as 24x24,32x48")
	}
	return sizes, nil
}

// ParseFractions reads parts of a whole, "0.2,0.4".
func ParseFractions(list string) (fractions []float64, err error) {
	for _, text := range Split(list) {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || !(f > 0 && f <= 1) || slices.Contains(fractions, f) {
			return nil, fmt.Errorf("%q: want different numbers with 0 < fraction <= 1", text)
		}
		fractions = append(fractions, f)
	}
	if fractions == nil {
		return nil, errors.New("it names none: want some, as 0.2,0.4")
	}
	return fractions, nil
}

// Split reads a list with commas.
func Split(list string) []string {
	return strings.FieldsFunc(list, func(c rune) bool { return c == ',' })
}
