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
	"reflect"
	"strings"
	"testing"
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

// decode returns a picture and how often each colour occurs in a part of it.
func decode(t *testing.T, content []byte) (image.Image, func(image.Rectangle) map[color.NRGBA]int) {
	t.Helper()
	picture, err := png.Decode(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
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

// wellFormed fails on text that is no XML and returns the character data of the elements of a name ("" for all).
func wellFormed(t *testing.T, document, name string) (texts []string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(document))
	inside := ""
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		if err != nil {
			t.Fatalf("not well formed: %v in %.300q", err, document)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inside = token.Name.Local
		case xml.EndElement:
			inside = ""
		case xml.CharData:
			if text := strings.TrimSpace(string(token)); text != "" && (name == "" || name == inside) {
				texts = append(texts, text)
			}
		}
	}
}

func TestScalarsDrawsOnePanelPerScalarWithTheEncodingsThatHaveIt(t *testing.T) {
	var out bytes.Buffer
	if err := Scalars(&out, "", scalarsExample()); err != nil {
		t.Fatal(err)
	}
	picture, count := decode(t, out.Bytes())
	// Four panels of 4 by 2.7 inches, two by two.
	const width, height = 4 * dotsPerInch, 27 * dotsPerInch / 10
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
			if got := colours[palette[k]] > 100; got != drawn {
				t.Errorf("panel %d: colour %d covers %d pixels, drawn should be %v", i, k, colours[palette[k]], drawn)
			}
		}
	}
}

func TestScalarsSVGHasTheSymbolsAndTheLastValues(t *testing.T) {
	var out bytes.Buffer
	if err := ScalarsSVG(&out, "a <run> & more", scalarsExample()); err != nil {
		t.Fatal(err)
	}
	texts := wellFormed(t, out.String(), "text")
	for _, want := range []string{"a <run> & more: gate λ", "ω3′", "α_scale", "zeta", "wepe 2.75", "hybrid 0.25"} {
		found := false
		for _, text := range texts {
			found = found || text == want
		}
		if !found {
			t.Errorf("no text %q in %q", want, texts)
		}
	}
}

func TestKnownScalarsComeFirstInTheirOrder(t *testing.T) {
	got := scalarNames(collect(scalarsExample(), Validation))
	if want := []string{"lambda", "omega3", "alpha_scale", "zeta"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestScalarsOfRowsWithoutAnyIsAnError(t *testing.T) {
	if err := Scalars(io.Discard, "", history("learned", 1, 0.1, 0.2)); err == nil {
		t.Error("no error")
	}
}
