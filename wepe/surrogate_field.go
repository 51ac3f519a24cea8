// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/wepe/internal/elliptic"
)

// surrogateField holds the values of a surrogate as nodes of one dtype.
type surrogateField struct {
	surrogate
	omega3, beta, gamma, strength, scale *Node // scalars
	modulation                           *Node // [channels]
	a, b                                 *Node // [K], [K′]
}

// coordinates returns z of the patches at u, v, mathematics.md (8.1). All factors except ω3′ are constants.
func (f surrogateField) coordinates(u, v []float64) ComplexNode {
	g, dtype := f.omega3.Graph(), f.omega3.DType()
	x, offset := make([]float64, len(u)), make([]float64, len(u))
	for i := range u {
		x[i] = u[i]*f.Omega1 + f.EpsilonU*math.Sin(math.Pi*f.Frequency*u[i])
		offset[i] = f.EpsilonV * math.Cos(math.Pi*f.Frequency*v[i])
	}
	y := Add(Mul(ConstAsDType(g, dtype, v), f.omega3), ConstAsDType(g, dtype, offset))
	return ComplexNode{Re: ConstAsDType(g, dtype, x), Im: y}
}

// tinyRadius keeps the direction of z = 0 and its gradient finite.
const tinyRadius = 1e-12

// values returns p and p′ at z, mathematics.md (8.2) to (8.7).
func (f surrogateField) values(z ComplexNode) (p, pPrime ComplexNode) {
	// The direction e^{iθ} is z/|z|: no Atan2, which has no gradient.
	r := Sqrt(MaxScalar(z.Norm2(), tinyRadius*tinyRadius)) // [N]
	direction := ComplexNode{Re: Div(z.Re, r), Im: Div(z.Im, r)}
	r = MaxScalar(r, f.MinRadius)
	r2 := Square(r)
	pole := Div(f.strength, Add(r2, f.beta))                             // σM [N]
	polePrime := MulScalar(Div(f.strength, Add(Mul(r2, r), f.beta)), -2) // σM′ [N]

	w := ComplexNode{Re: MulScalar(z.Re, 1/f.Omega1), Im: Div(z.Im, f.omega3)} // u′ + iv′ [N]
	c, cPrime := f.smooth(w), f.smoothPrime(w)
	p = direction.Times(pole).Add(ComplexNode{Re: c, Im: MulScalar(c, f.Eta)})
	pPrime = direction.Times(polePrime).Add(ComplexNode{Re: cPrime, Im: MulScalar(cPrime, f.EtaPrime)})
	return p, pPrime
}

// smooth returns C = γ·Σ a_k [cos(kπu′) e^{-δkπ|v′|} + sin(kπv′) e^{-δkπ|u′|}], (8.4): [N].
func (f surrogateField) smooth(w ComplexNode) *Node {
	_, phase, fade := f.waves(w, f.a.Shape().Dim(0))
	terms := Add(Mul(Cos(phase.Re), fade.Im), Mul(Sin(phase.Im), fade.Re)) // [N, K]
	return Mul(f.gamma, ReduceSum(Mul(terms, InsertAxes(f.a, 0)), -1))
}

// smoothPrime returns C′ = γ·Σ b_k k [-sin(kπu′) e^{-δkπ|v′|} + cos(kπv′) e^{-δkπ|u′|}], (8.5): [N].
func (f surrogateField) smoothPrime(w ComplexNode) *Node {
	k, phase, fade := f.waves(w, f.b.Shape().Dim(0))
	terms := Mul(k, Sub(Mul(Cos(phase.Im), fade.Re), Mul(Sin(phase.Re), fade.Im))) // [N, K′]
	return Mul(f.gamma, ReduceSum(Mul(terms, InsertAxes(f.b, 0)), -1))
}

// waves returns k = 1 … n [1, n], kπw and e^{-δ|kπw|}, the latter two for real and imaginary part apart, [N, n].
func (f surrogateField) waves(w ComplexNode, n int) (k *Node, phase, fade ComplexNode) {
	k = InsertAxes(elliptic.Multiples(w.Re.Graph(), w.Re.DType(), 1, n), 0)
	phase = w.Expand().Times(MulScalar(k, math.Pi))
	decay := func(x *Node) *Node { return Exp(MulScalar(Abs(x), -f.Decay)) }
	return k, phase, ComplexNode{Re: decay(phase.Re), Im: decay(phase.Im)}
}

// features returns tanh(s·m·x) of the channels x, mathematics.md (8.8) and (8.9): [N, channels].
func (f surrogateField) features(u, v []float64) *Node {
	p, pPrime := f.values(f.coordinates(u, v))
	channels := []*Node{p.Re, p.Im, pPrime.Re, pPrime.Im}
	if f.Channels == 6 {
		distance := make([]float64, len(u))
		for i := range u {
			distance[i] = math.Hypot(u[i], v[i])
		}
		channels = []*Node{p.Re, p.Im, ConstAsDType(p.Re.Graph(), p.Re.DType(), distance),
			pPrime.Re, pPrime.Im, Abs(pPrime.Re)}
	}
	return Tanh(Mul(Stack(channels, -1), InsertAxes(Mul(f.modulation, f.scale), 0)))
}
