// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"math"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// releaseTable describes the table of the authors' wef_pe_lut.py, which is none of ours: α = 1, nodes that hold
// features already compressed, axes (u, v), ω3′ nowhere, and queries half a node off: node i is at u = i/(R-1) but is
// looked for at u = (i+½)/R.
type releaseTable struct {
	AlphaU     float64 `json:"alpha_u"`
	AlphaV     float64 `json:"alpha_v"`
	AlphaScale float64 `json:"alpha_scale"`
	Omega1     float64 `json:"omega1"`
}

// features are what the release means to store at u, v: in mode "pretraining" those of the truncated sum, in mode
// "finetuning" a surrogate of its own.
func (r releaseTable) features(t *testing.T, mode string, u, v float64) [4]float64 {
	t.Helper()
	z := complex(float64(float32(r.AlphaU*u*2*r.Omega1)), float64(float32(r.AlphaV*v*2*r.Omega1)))
	var p, pPrime complex128
	switch mode {
	case "pretraining":
		p, pPrime = 1/(z*z), -2/(z*z*z)
		cut := releasedSum.Cut
		for m := -cut; m <= cut; m++ {
			for n := -cut; n <= cut; n++ {
				if m != 0 || n != 0 {
					w := complex(2*r.Omega1*float64(m), 2*r.Omega1*float64(n))
					inverse := 1 / (z - w)
					p, pPrime = p+inverse*inverse-1/(w*w), pPrime-2*inverse*inverse*inverse
				}
			}
		}
	case "finetuning":
		norm2 := real(z)*real(z) + imag(z)*imag(z) + 0.1
		sum := 1 / norm2
		for k := 1.0; k <= 10; k++ {
			sum += math.Cos(k*math.Pi*real(z)/r.Omega1) * math.Exp(-k*math.Pi*math.Abs(imag(z))/r.Omega1) / (k * k)
		}
		p, pPrime = complex(sum, 0), -2*z/complex(norm2*norm2, 0)
	default:
		t.Fatalf("no mode %q", mode)
	}
	var f [4]float64
	for i, x := range []float64{real(p), imag(p), real(pPrime), imag(pPrime)} {
		f[i] = math.Tanh(r.AlphaScale * x)
	}
	return f
}

func TestRelease_table_and_its_queries_come_out_of_the_same_gather_under_its_conventions(t *testing.T) {
	fixtures.Each(t, testRelease_table_and_its_queries_come_out_of_the_same_gather_under_its_conventions)
}

func testRelease_table_and_its_queries_come_out_of_the_same_gather_under_its_conventions(t *testing.T) {
	const set = "official_lut"
	var release releaseTable
	fixtures.JSON(t, set, "meta.json", &release)
	tensors := fixtures.Tensors(t, set, "tensors.safetensors")
	check := func(name string, got, want []float64, tol float64) {
		t.Helper()
		if worst := distance(got, want); !(worst <= tol) {
			t.Errorf("%s: features off by %.3g, want at most %.3g", name, worst, tol)
		}
	}
	rounded := func(x []float64) []float32 { return fixtures.Tensor{Data: x}.Float32() }
	tables := make(map[string][]float64)
	queries := 0
	for _, mode := range []string{"pretraining", "finetuning"} {
		for name, want := range tensors {
			var resolution, rows, cols int
			if n, _ := fmt.Sscanf(name, mode+".r%d.query.%dx%d", &resolution, &rows, &cols); n != 3 {
				continue
			}
			queries++
			table := fmt.Sprintf("%s.r%d.lut", mode, resolution)
			tol := 2e-5
			if stored, ok := tensors[table]; ok {
				tables[table] = stored.Data
			} else {
				tol = 1e-4 // the interior of a table that is not stored, computed here
				if tables[table] == nil {
					tables[table] = release.table(t, mode, resolution)
				}
			}
			var x, y, direct []float64 // first axis the column, as in the release
			v, u := grid{rows: cols, cols: rows}.centres()
			for i := range u {
				y, x = append(y, u[i]*float64(resolution)-0.5), append(x, v[i]*float64(resolution)-0.5)
				f := release.features(t, mode, u[i], v[i])
				direct = append(direct, f[:]...)
			}
			got := gomlxtest.Run(t, func(in []*Node) []*Node {
				return []*Node{bilinear(Reshape(in[0], resolution, resolution, 4), x, y)}
			}, rounded(tables[table]))
			check(name, got[0], want.Data, tol)
			name = fmt.Sprintf("%s.r%d.direct.%dx%d", mode, resolution, rows, cols)
			if want, ok := tensors[name]; ok {
				check(name, direct, want.Data, 1e-4)
			}
		}
	}
	if queries == 0 {
		t.Fatalf("no query in %s", set)
	}
	for name, want := range tensors {
		for _, mode := range []string{"pretraining", "finetuning"} {
			resolution := want.Shape[0]
			if name != fmt.Sprintf("%s.r%d.lut", mode, resolution) {
				continue
			}
			got := release.table(t, mode, resolution)
			for i := range got {
				col, row := i/4/resolution, i/4%resolution
				tol := 1e-4
				border := func(k int) bool { return k == 0 || k == resolution-1 }
				switch {
				case border(col) && border(row): // a rounding accident of the release at a pole
					continue
				case border(col) || border(row): // on a line of poles the float32 z decides what should vanish
					tol = 1e-2
				}
				if !(math.Abs(got[i]-want.Data[i]) <= tol) {
					t.Fatalf("%s: u %d, v %d, feature %d: got %g, want %g", name, col, row, i%4, got[i], want.Data[i])
				}
			}
		}
	}
}

// table is [resolution, resolution, 4], u slowest; what it has at the corners, which are poles, no query reads.
func (r releaseTable) table(t *testing.T, mode string, resolution int) (values []float64) {
	t.Helper()
	last := float64(resolution - 1)
	for col := range resolution {
		for row := range resolution {
			f := r.features(t, mode, float64(col)/last, float64(row)/last)
			for _, x := range f {
				if math.IsNaN(x) || math.IsInf(x, 0) {
					x = 0
				}
				values = append(values, x)
			}
		}
	}
	return values
}
