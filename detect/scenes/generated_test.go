// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"math"
	"slices"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/random"
)

func at(t *testing.T, g Generated, index int) *Scene {
	t.Helper()
	return gomlxtest.Must(gomlxtest.Must(g.Set())(t).At(index))(t)
}

func TestGenerated_IsAFunctionOfSeedAndIndex(t *testing.T) {
	g := Generated{Count: 40, Height: 53, Width: 71, Seed: 5}
	more, seed := g, g
	more.Count, seed.Seed = 9000, 6
	scene := at(t, g, 7)
	equal(t, "the same again", at(t, g, 7), scene)
	equal(t, "the same among more", at(t, more, 7), scene)
	if slices.Equal(scene.Image.Pixels, at(t, seed, 7).Image.Pixels) ||
		slices.Equal(scene.Image.Pixels, at(t, g, 8).Image.Pixels) {
		t.Error("scenes of other seeds or indices are the same")
	}
	for most, name := range map[int]string{0: "shapes-5", 6: "shapes-5", 1: "shapes-5-most-1"} { // as in old rows
		g.Most = most
		s := gomlxtest.Must(g.Set())(t)
		if s.Name != name || gomlxtest.Must(s.Annotated())(t).Name != name || s.Training() != s {
			t.Errorf("at most %d shapes: %s, want %s", most, s.Name, name)
		}
	}
	for _, bad := range []Generated{{}, {Count: 40, Height: 31, Width: 64}, {Count: 40, Height: 64, Width: 5000},
		{Count: 40, Height: 64, Width: 64, Most: 7}} {
		if _, err := bad.Set(); err == nil {
			t.Errorf("%+v is a set", bad)
		}
	}
}

// A pixel wholly within a shape has exactly its colour, which no other shape has. So the pixels of the most frequent
// colour of a mask are all within that mask, and other colours are on its outline, whose length the box bounds.
func TestGenerated_MasksAreTheVisibleParts(t *testing.T) {
	kinds, numbers := map[int]int{}, map[int]int{}
	for _, size := range [][2]int{{53, 71}, {97, 41}, {64, 128}} {
		g := Generated{Count: 40, Height: size[0], Width: size[1], Seed: 3}
		for i := range g.Count {
			s := at(t, g, i)
			numbers[len(s.Objects)]++
			owner, colours := make([]int, size[0]*size[1]), map[[3]uint8]int{}
			for k, o := range s.Objects {
				kinds[o.Class]++
				count := map[[3]uint8]int{}
				most, colour := 0, [3]uint8{}
				for p, inside := range o.Mask.Decode() {
					if !inside {
						continue
					}
					if owner[p] != 0 {
						t.Fatalf("scene %d of %v: pixel %d has two owners", i, size, p)
					}
					owner[p] = k + 1
					c := [3]uint8(s.Image.Pixels[3*p:])
					if count[c]++; count[c] > most {
						most, colour = count[c], c
					}
				}
				if rim := o.Mask.Area() - most; o.Box != o.Mask.Box() || float64(rim) > 3*(o.Box[2]+o.Box[3]) {
					t.Errorf("scene %d of %v: box %v, %d pixels of object %d are of other colours", i, size, o.Box, rim, k)
				}
				if most > 1 {
					colours[colour] = k + 1
				}
			}
			for p, k := range owner {
				if want := colours[[3]uint8(s.Image.Pixels[3*p:])]; want != 0 && k != want {
					t.Errorf("scene %d of %v: pixel %d has the colour of object %d, the mask of %d", i, size, p, want, k)
				}
			}
		}
	}
	if len(kinds) != 3 || numbers[0] > 0 || numbers[1] == 0 || numbers[mostShapes] == 0 || numbers[mostShapes+1] > 0 {
		t.Errorf("objects of classes %v, scenes with so many objects %v", kinds, numbers)
	}
}

// Areas at scale 1: squares 0.32², ellipses π·0.23·0.14, hearts 0.19²·3.662 (data).
func TestSizesSpanTwoOctavesEvenly(t *testing.T) {
	g := Generated{Count: 300, Height: 120, Width: 90, Seed: 2}
	var logs []float64
	for i := range g.Count {
		s := at(t, g, i)
		if len(s.Objects) > 1 {
			continue
		}
		o := s.Objects[0]
		whole := []float64{0.32 * 0.32, math.Pi * 0.23 * 0.14, 0.19 * 0.19 * 3.662}[o.Class]
		scale := math.Sqrt(float64(o.Mask.Area())/whole) / 90
		if scale < 0.97*0.3 || scale > 1.03*1.2 {
			t.Errorf("scene %d: class %d of scale %g", i, o.Class, scale)
		}
		logs = append(logs, math.Log2(scale/0.3)) // uniform from 0 to 2
	}
	slices.Sort(logs)
	for k, quantile := range []float64{0.25, 0.5, 0.75} {
		if got := logs[int(quantile*float64(len(logs)))]; len(logs) < 30 || !(math.Abs(got-2*quantile) <= 0.3) {
			t.Errorf("quartile %d of %d sizes lies at %.2f octaves, want %.2f", k+1, len(logs), got, 2*quantile)
		}
	}
	sizes := g.areas()
	if low := 0.11 * math.Pow(0.3*math.Exp2(2.0/3)*90, 2); !(math.Abs(sizes[1][1]-low) <= 1e-9) ||
		!(math.Abs(sizes[3][0]/sizes[1][1]-math.Exp2(4.0/3)) <= 1e-9) || sizes[2][0] != sizes[1][1] ||
		sizes[2][1] != sizes[3][0] || sizes[0] != [2]float64{0, 1e10} || sizes[3][1] != 1e10 {
		t.Errorf("sizes %+v", sizes)
	}
}

// A mask of the pixels of which at least half is visible has the visible area on average, over many shapes.
func TestAThirdOfEveryShapeIsVisibleAndItsMaskAsLarge(t *testing.T) {
	g := Generated{Count: 100, Height: 64, Width: 64, Seed: 1}
	hidden, growth, rim := 0, 0.0, 0.0
	for i := range g.Count {
		shapes, seen := g.arrange(random.Draw("scene", g.Seed, 0, i))
		objects := at(t, g, i).Objects
		left := make([]int, len(shapes))
		for _, k := range seen {
			if k != background {
				left[k]++
			}
		}
		for k, s := range shapes {
			whole := len(g.covered(s))
			if 3*left[k] < whole {
				t.Errorf("scene %d: of shape %d %d samples of %d are seen", i, k, left[k], whole)
			}
			if left[k] < whole {
				hidden++
			}
			o := objects[k]
			growth += float64(o.Mask.Area()) - float64(left[k])/(samples*samples)
			rim += 2 * (o.Box[2] + o.Box[3])
		}
	}
	gomlxtest.NearAbs(t, "pixels of masks beyond what is seen", []float64{growth}, []float64{0}, 0.03*rim)
	if hidden < 20 {
		t.Errorf("%d shapes lie under others", hidden)
	}
}
