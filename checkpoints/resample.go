// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/internal/resample"
	"github.com/wepe-go/wepe/vit"
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

// Resamplings lists the kinds of Resample; docs/other-sizes.md describes them.
func Resamplings() []string {
	return []string{resampleTimm, resampleHF, resampleDINOv2, resampleJAX, resampleBilinear}
}

// gridSize is the rows and columns of a grid of patches.
type gridSize [2]int

func gridOf(c vit.Config) gridSize { return gridSize{c.Rows(), c.Cols()} }

// String returns rows and columns, as in 14×24.
func (g gridSize) String() string { return fmt.Sprintf("%d×%d", g[0], g[1]) }

// Resample resamples a table of position embeddings, [prefix+from[0]·from[1], width], from one grid of patches,
// rows and columns, to another, in float64. The prefix rows (class token) are unchanged. The report is one line, as in
//
//	14×14 -> 24×24 (bilinear)
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
	axis, err := resampler(kind)
	if err != nil {
		return nil, "", err
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
		for k, weight := range vertical.Weights {
			for i, x := range old[(vertical.First+k)*len(line):][:len(line)] {
				line[i] += weight * float64(x)
			}
		}
		for col, horizontal := range across {
			clear(sum)
			for k, weight := range horizontal.Weights {
				for i, x := range line[(horizontal.First+k)*width:][:width] {
					sum[i] += weight * x
				}
			}
			for i, x := range sum {
				out[(row*to[1]+col)*width+i] = float32(x)
			}
		}
	}
	return rows, fmt.Sprintf("%s -> %s (%s)", gridSize(from), gridSize(to), kind), nil
}

// resampler returns the taps of a kind, as resamplers.
func resampler(kind string) (taps func(n, m int) []resample.Taps, err error) {
	if taps = resamplers[kind]; taps == nil {
		err = errors.Errorf("checkpoints: unknown resampling %q: want one of %s", kind, strings.Join(Resamplings(), ", "))
	}
	return taps, err
}

// resamplers return, by kind, the taps of each of m new positions along an axis of n.
var resamplers = map[string]func(n, m int) []resample.Taps{
	resampleTimm: func(n, m int) []resample.Taps {
		return resample.Stretched(n, 0, float64(n), m, 0, m, resample.PillowCubic, 2)
	},
	resampleHF: func(n, m int) []resample.Taps { return resample.Clamped(n, m, 0, resample.TorchCubic, 2) },
	resampleDINOv2: func(n, m int) []resample.Taps {
		return resample.Clamped(n, m, 0.1, resample.TorchCubic, 2)
	},
	resampleBilinear: func(n, m int) []resample.Taps { return resample.Clamped(n, m, 0, resample.Linear, 1) },
	resampleJAX:      resample.Corners,
}
