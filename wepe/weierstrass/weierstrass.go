// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weierstrass

import (
	"math"
	"math/cmplx"
)

// Method
//
// Equation numbers are those of docs/mathematics.md.
//
// 1. Reduction. z is moved to |Re z| ≤ ω1, |Im z| ≤ ω3′ by an exact remainder on each axis (1.13).
//
// 2. Direction. If ω3′ < ω1 the axes are swapped, ℘(z; ω1, ω3′) = −℘(−iz; ω3′, ω1) (1.11) and
//    ℘′(z; ω1, ω3′) = i℘′(−iz; ω3′, ω1) (1.12), so that rows run along the shorter period, 2A, and lie 2B ≥ 2A apart.
//
// 3. Rows. A whole row of the lattice sums in closed form, and with k = π/(2A), a_n = k(z − 2inB), h_n = 2nkB
//
//	℘  = k² [ −1/3 + Σ_{|n|≤N} csc² a_n + 2 Σ_{1≤n≤N} csch² h_n ]    (2.2), DLMF 23.8.3 and 23.8.5
//	℘′ = −2k³ Σ_{|n|≤N} csc² a_n cot a_n                             (2.3)
//
//    The rows left out contribute less than 4 exp(−π(2N+1)B/A) of max(|℘|, e1−e3); N = 6 at B = A, falling to
//    0 at B > 12A, brings that below 2⁻⁵³ (2.5). Far rows are added first, the row nearest to z last.
//
// 4. csc² and cot. With E = exp(−|b|), S and C the hyperbolic sine and cosine of b times E (S through expm1),
//    D = sin²a E² + S², p = sin a C/D, q = −cos a S/D:
//
//	csc²(a+ib) = E² [(p−q)(p+q) + 2ipq]                              (2.8)
//	cot(a+ib)  = [sin a cos a E² − iSC] / D                          (2.9)
//
//    Nothing overflows in far rows, and no two large numbers are subtracted: p−q and p+q are where csc² vanishes, and
//    D is a sum of squares, so all digits survive next to the pole a = b = 0.
//
// Error: at most 7·2⁻⁵³ (|℘| + e1 − e3) for ℘ and 7·2⁻⁵³ (|℘′| + (e1−e3)^{3/2}) for ℘′ on the 432 reference points
// (periods ratio 1/4 to 4, down to 1e-6 from poles, up to 5 cells away). The floor is needed because ℘ has zeros and
// ℘′ vanishes at half-periods.

// roundoff is ε, the unit roundoff of float64.
const roundoff = 1.0 / (1 << 53)

// Eval returns ℘(z), DLMF 23.2.4, and its derivative ℘′(z).
//
// Special cases are:
//
//	℘ = Inf for z in L, and so near to it (|z−w| < 1e-154) that the value overflows; ℘′ where |z−w| < 1e-102
//	℘ = ℘′ = NaN if a component of z is NaN or infinite
func (l Lattice) Eval(z complex128) (p, pp complex128) {
	z, _, _ = l.Reduce(z)
	if cmplx.IsNaN(z) {
		return cmplx.NaN(), cmplx.NaN()
	}
	if l.swapped {
		p, pp = l.rows.eval(complex(imag(z), -real(z)))
		p, pp = -p, complex(-imag(pp), real(pp))
	} else {
		p, pp = l.rows.eval(z)
	}
	return poleAsInf(p), poleAsInf(pp)
}

// poleAsInf replaces what overflow leaves of a value at a pole (NaN or Inf in some component) by complex infinity.
func poleAsInf(v complex128) complex128 {
	if cmplx.IsNaN(v) || cmplx.IsInf(v) {
		return cmplx.Inf()
	}
	return v
}

// rowPairs returns N, the number of row pairs that leave a truncation error below epsilon relative to max(|℘|, e1−e3),
// mathematics.md (2.5). ratio is ω3′/ω1; rows are taken along the shorter period, so 1/ratio gives the same.
func rowPairs(ratio, epsilon float64) int {
	t := max(ratio, 1/ratio)
	return max(0, int(math.Ceil((math.Log(4/epsilon)/(math.Pi*t)-1)/2)))
}

// rows are 2·pairs+1 rows along the real axis of the lattice with half-periods A along the rows and iB across.
type rows struct {
	k        float64 // π/(2A)
	step     float64 // h_1 = πB/A, the distance of neighbouring rows in units of 1/k
	pairs    int     // N
	constant float64 // −1/3 + 2 Σ csch² h_n, which is −η1/(k²A), (4.8)
}

func newRows(a, b float64, pairs int) rows {
	r := rows{k: math.Pi / (2 * a), step: math.Pi * (b / a), pairs: pairs, constant: -1.0 / 3}
	for n := pairs; n >= 1; n-- {
		sinh := math.Sinh(float64(n) * r.step)
		r.constant += 2 / (sinh * sinh)
	}
	return r
}

// eval returns (2.2) and (2.3) for z in the cell centred at 0.
func (r rows) eval(z complex128) (p, pp complex128) {
	a, b := r.k*real(z), r.k*imag(z)
	sin, cos := math.Sincos(a)
	sum := complex(r.constant, 0)
	var slope complex128
	for n := r.pairs; n >= 1; n-- {
		h := float64(n) * r.step
		csc2Above, cotAbove := csc2Cot(sin, cos, b-h)
		csc2Below, cotBelow := csc2Cot(sin, cos, b+h)
		sum += csc2Above + csc2Below
		slope += csc2Above*cotAbove + csc2Below*cotBelow
	}
	csc2, cot := csc2Cot(sin, cos, b)
	sum += csc2
	slope += csc2 * cot
	return scale(r.k*r.k, sum), scale(-2*r.k*r.k*r.k, slope)
}

// csc2Cot returns csc²(a+ib) and cot(a+ib) from sin a, cos a and b, (2.6) to (2.9). It needs |a| ≤ π/2.
func csc2Cot(sin, cos, b float64) (csc2, cot complex128) {
	abs := math.Abs(b)
	e := math.Exp(-abs)
	e2 := e * e
	s := math.Copysign(-math.Expm1(-2*abs)/2, b)
	c := (1 + e2) / 2
	d := sin*sin*e2 + s*s
	p, q := sin*c/d, -cos*s/d
	csc2 = complex(e2*((p-q)*(p+q)), e2*(2*p*q))
	cot = complex(sin*cos*e2/d, -s*c/d)
	return csc2, cot
}

// scale multiplies by a real factor: complex multiplication would turn Inf into NaN.
func scale(factor float64, v complex128) complex128 {
	return complex(factor*real(v), factor*imag(v))
}
