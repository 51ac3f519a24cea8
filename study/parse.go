// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/vit"
)

// ParsePositions reads names of encodings, "none,learned,wepe".
func ParsePositions(list string) ([]string, error) {
	return parse(list, "encoding: want some of "+strings.Join(vit.PositionNames(), ","), func(name string) (string,
		error) {
		_, err := vit.EncodingNamed(name)
		return name, err
	})
}

// ParseSizes reads sizes of pictures, height before width, "24x24,32x48".
func ParseSizes(list string) ([][2]int, error) {
	const want = "size: want some of the form HEIGHTxWIDTH, as 24x24,32x48"
	return parse(list, want, func(text string) (size [2]int, err error) {
		for i, side := range strings.SplitN(text+"x", "x", 3)[:2] {
			if size[i], err = strconv.Atoi(side); err != nil || size[i] < 1 {
				return size, fmt.Errorf("%q is no %s", text, want)
			}
		}
		if text != sizeName(size) {
			return size, fmt.Errorf("%q is no %s", text, want)
		}
		return size, nil
	})
}

// ParseAspects reads what becomes of pictures of other aspects, "crop,keep".
func ParseAspects(list string) ([]string, error) {
	want := "aspect: want some of " + strings.Join(finetune.Aspects(), ",")
	return parse(list, want, func(name string) (string, error) {
		if !slices.Contains(finetune.Aspects(), name) {
			return "", fmt.Errorf("%q is no %s", name, want)
		}
		return name, nil
	})
}

// ParseFractions reads parts of a whole, "0.2,0.4".
func ParseFractions(list string) ([]float64, error) {
	const want = "fraction: want numbers with 0 < fraction <= 1, as 0.2,0.4"
	return parse(list, want, func(text string) (float64, error) {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || !(f > 0 && f <= 1) {
			return 0, fmt.Errorf("%q is no %s", text, want)
		}
		return f, nil
	})
}

// parse reads a list of different things, at least one.
func parse[T comparable](list, want string, read func(string) (T, error)) (out []T, err error) {
	for _, text := range Split(list) {
		one, err := read(text)
		if err != nil {
			return nil, err
		}
		if slices.Contains(out, one) {
			return nil, fmt.Errorf("%s is there twice", text)
		}
		out = append(out, one)
	}
	if out == nil {
		return nil, fmt.Errorf("the list names no %s", want)
	}
	return out, nil
}

// Split reads a list with commas.
func Split(list string) []string {
	return strings.FieldsFunc(list, func(c rune) bool { return c == ',' })
}
