// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/internal/resample"
)

// Kinds of resampling: how code bases adapt the table of learned position embeddings to another grid of patches. With n
// old and m new positions along an axis and the new position i = 0 … m-1,
//
//	timm      bicubic, a = -0.5, stretched by max(1, n/m) (antialias), weights outside the grid dropped and the
//	          rest rescaled to sum 1, around (i+½)·n/m; also differs from plain bicubic when m > n
//	hf        bicubic, a = -0.75, the four neighbours of (i+½)·n/m - ½, positions outside clamped to the border
//	dinov2    as hf, around (i+½)·n/(m+0.1) - ½: DINOv2's own code. Hugging Face resamples its models by hf, and those
//	          with registers by timm
//	jax       linear between the corners, at i·(n-1)/(m-1) (scipy.ndimage.zoom of order 1)
//	bilinear  the two neighbours of (i+½)·n/m - ½, clamped (the WePE paper; timm when it loads Google's files)
const (
	resampleTimm     = "timm"
	resampleHF       = "hf"
	resampleDINOv2   = "dinov2"
	resampleJAX      = "jax"
	resampleBilinear = "bilinear"
)

// Resamplings lists the kinds of Resample; docs/models.md describes them.
func Resamplings() []string {
	return []string{resampleTimm, resampleHF, resampleDINOv2, resampleJAX, resampleBilinear}
}

// gridSize is the rows and columns of a grid of patches.
type gridSize [2]int

// String returns rows, "x" and columns, as in 14x24.
func (g gridSize) String() string { return fmt.Sprintf("%dx%d", g[0], g[1]) }

// Resample resamples a table of position embeddings, [prefix+from[0]·from[1], width], from one grid of patches,
// rows and columns, to another, in float64. The prefix rows (class token) are unchanged. The report is one line, as in
//
//	14x14 -> 24x24 (bilinear)
//
// An equal grid gives an exact copy; grids of equal area but other sides are resampled.
func Resample(table []float32, width, prefix int, from, to [2]int, kind string) (
	rows []float32, report string, err error,
) {
	const most = 1 << 14 // patches along a side
	if width < 1 || prefix < 0 || min(from[0], from[1], to[0], to[1]) < 1 ||
		max(from[0], from[1], to[0], to[1]) > most || to[0]*to[1] > 1<<20 {
		return nil, "", errors.Errorf("checkpoints: resampling %s to %s, width %d, prefix %d: want grids of 1x1 and "+
			"more, at most 2^20 patches, width at least 1, prefix at least 0", gridSize(from), gridSize(to), width, prefix)
	}
	if len(table)%width != 0 || len(table)/width-prefix != from[0]*from[1] {
		return nil, "", errors.Errorf("checkpoints: a position table of %d numbers is not the %d+%s rows of width %d",
			len(table), prefix, gridSize(from), width)
	}
	axis, ok := resamplers[kind]
	if !ok {
		return nil, "", errors.Errorf("checkpoints: unknown resampling %q: want one of %s", kind,
			strings.Join(Resamplings(), ", "))
	}
	if from == to {
		return slices.Clone(table), fmt.Sprintf("%s -> %s (copy)", gridSize(from), gridSize(to)), nil
	}
	down, across := axis(from[0], to[0]), axis(from[1], to[1])
	rows = make([]float32, (prefix+to[0]*to[1])*width)
	copy(rows, table[:prefix*width])
	old, out := table[prefix*width:], rows[prefix*width:]
	line := make([]float64, from[1]*width) // one new row of patches, still with the old columns
	sum := make([]float64, width)
	for row, vertical := range down {
		clear(line)
		for _, t := range vertical {
			for i, x := range old[t.place*len(line) : (t.place+1)*len(line)] {
				line[i] += t.weight * float64(x)
			}
		}
		for col, horizontal := range across {
			clear(sum)
			for _, t := range horizontal {
				for i, x := range line[t.place*width : (t.place+1)*width] {
					sum[i] += t.weight * x
				}
			}
			for i, x := range sum {
				out[(row*to[1]+col)*width+i] = float32(x)
			}
		}
	}
	return rows, fmt.Sprintf("%s -> %s (%s)", gridSize(from), gridSize(to), kind), nil
}

// tap is the weight of an old position in a new one.
type tap struct {
	place  int
	weight float64
}

// resamplers return, by kind, the taps of each of m new positions along an axis of n.
var resamplers = map[string]func(n, m int) [][]tap{
	resampleTimm: stretchedTaps,
	resampleHF: func(n, m int) [][]tap {
		return clampedTaps(n, m, 0, -1, 2, torchCubic)
	},
	resampleDINOv2: func(n, m int) [][]tap {
		return clampedTaps(n, m, 0.1, -1, 2, torchCubic)
	},
	resampleBilinear: func(n, m int) [][]tap {
		return clampedTaps(n, m, 0, 0, 1, func(x float64) float64 { return 1 - math.Abs(x) })
	},
	resampleJAX: cornerTaps,
}

func torchCubic(x float64) float64 { return resample.Cubic(x, -0.75) }

// clampedTaps weights the positions first … last around floor(centre) by their distance from it. The spacing of the new
// positions is n/(m+offset).
func clampedTaps(n, m int, offset float64, first, last int, kernel func(float64) float64) [][]tap {
	taps := make([][]tap, m)
	for i := range taps {
		centre := (float64(i)+0.5)*float64(n)/(float64(m)+offset) - 0.5
		floor := math.Floor(centre)
		for k := first; k <= last; k++ {
			place := min(max(int(floor)+k, 0), n-1)
			taps[i] = append(taps[i], tap{place, kernel(centre - floor - float64(k))})
		}
	}
	return taps
}

// stretchedTaps are Pillow's: the kernel is stretched by scale, so that every old position contributes.
func stretchedTaps(n, m int) [][]tap {
	taps := make([][]tap, m)
	ratio := float64(n) / float64(m)
	scale := max(1, ratio)
	for i := range taps {
		centre := (float64(i) + 0.5) * ratio // in positions whose own centres are at ½, 1½, …
		first, end := max(int(centre-2*scale+0.5), 0), min(int(centre+2*scale+0.5), n)
		total := 0.0
		for place := first; place < end; place++ {
			weight := resample.Cubic((float64(place)+0.5-centre)/scale, -0.5)
			total += weight
			taps[i] = append(taps[i], tap{place, weight})
		}
		for k := range taps[i] {
			taps[i][k].weight /= total
		}
	}
	return taps
}

func cornerTaps(n, m int) [][]tap {
	taps := make([][]tap, m)
	for i := range taps {
		at := 0.0
		if m > 1 {
			at = float64(i) * float64(n-1) / float64(m-1)
		}
		place := min(int(at), max(n-2, 0))
		taps[i] = []tap{{place, 1 - (at - float64(place))}}
		if n > 1 {
			taps[i] = append(taps[i], tap{place + 1, at - float64(place)})
		}
	}
	return taps
}
