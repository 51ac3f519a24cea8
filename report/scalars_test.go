// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image"
	"image/color"
	"image/png"
	"io"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/figure"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// withScalars is a history of rows whose scalars are the given functions of the step.
func withScalars(encoding string, scalars map[string]func(step int) float64) []Eval {
	evals := history(encoding, 1, 0.1, 0.4, 0.6)
	for i := range evals {
		evals[i].Scalars = make(map[string]Number)
		for name, f := range scalars {
			evals[i].Scalars[name] = Number(f(evals[i].Step))
		}
	}
	return evals
}

func scalarsExample() []Eval {
	rising := func(step int) float64 { return 1.5 + float64(step)/16 } // 2.75 at the end, step 20
	falling := func(step int) float64 { return 0.875 - float64(step)/32 }
	evals := withScalars("wepe", map[string]func(int) float64{"omega3": rising, "alpha_scale": falling, "zeta": rising})
	evals = append(evals, withScalars("hybrid", map[string]func(int) float64{"omega3": falling, "lambda": rising})...)
	return append(evals, history("learned", 1, 0.2, 0.3, 0.5)...)
}

func TestEmptyPlotsAreErrors(t *testing.T) {
	plain := history("learned", 1, 0.1, 0.2)
	if err := Scalars(io.Discard, plain); err == nil {
		t.Error("scalars of rows without any: no error")
	}
	if hasScalars(plain) || !hasScalars(scalarsExample()) {
		t.Error("hasScalars: want false for rows without scalars, true where some have them")
	}
	if err := Curves(io.Discard, "empty", nil); err == nil {
		t.Error("curves of nothing: no error")
	}
}

// decode returns the drawn image, and a function that counts a colour in a part of it.
func decode(t *testing.T, draw func(io.Writer) error) (image.Image, func(image.Rectangle) map[color.NRGBA]int) {
	t.Helper()
	content := gomlxtest.Must(NewFigure("", "", draw))(t).PNG
	picture := gomlxtest.Must(png.Decode(bytes.NewReader(content)))(t)
	return picture, func(part image.Rectangle) map[color.NRGBA]int {
		count := make(map[color.NRGBA]int)
		for y := part.Min.Y; y < part.Max.Y; y++ {
			for x := part.Min.X; x < part.Max.X; x++ {
				count[color.NRGBAModel.Convert(picture.At(x, y)).(color.NRGBA)]++
			}
		}
		return count
	}
}

// wellFormed fails on unclosed elements and returns the character data.
func wellFormed(t *testing.T, document string) (texts []string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(document))
	decoder.Strict, decoder.AutoClose = false, xml.HTMLAutoClose // HTML does not close meta and img
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		if err != nil {
			t.Fatalf("not well formed: %v in %.300q", err, document)
		}
		if token, ok := token.(xml.CharData); ok {
			if text := strings.TrimSpace(string(token)); text != "" {
				texts = append(texts, text)
			}
		}
	}
}

func TestScalarsDrawsOnePanelPerScalarWithTheEncodingsThatHaveIt(t *testing.T) {
	picture, count := decode(t, func(w io.Writer) error { return Scalars(w, scalarsExample()) })
	// Four panels of 4 by 2.7 inches, two by two.
	const width, height = 4 * figure.DotsPerInch, 27 * figure.DotsPerInch / 10
	if size := picture.Bounds().Size(); size != (image.Point{X: 2 * width, Y: 2 * height}) {
		t.Fatalf("size %v, want %d by %d", size, 2*width, 2*height)
	}
	for i, want := range [][]bool{ // by panel: wepe, hybrid, learned
		{false, true, false}, // lambda
		{true, true, false},  // omega3
		{true, false, false}, // alpha_scale
		{true, false, false}, // zeta
	} {
		corner := image.Pt(i%2*width, i/2*height)
		colours := count(image.Rectangle{Min: corner, Max: corner.Add(image.Pt(width, height))})
		for k, drawn := range want {
			if got := colours[figure.Palette[k]] > 100; got != drawn {
				t.Errorf("panel %d: colour %d covers %d pixels, drawn should be %v", i, k, colours[figure.Palette[k]], drawn)
			}
		}
	}
}
