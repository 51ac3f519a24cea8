// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
)

// field holds the values of a surrogate as nodes of one dtype.
type field struct {
	Surrogate
	omega3, beta, gamma, strength, scale *Node // scalars
	modulation                           *Node // [channels]
	a, b                                 *Node // [K], [K′]
}

// coordinates returns z of the patches at u, v, mathematics.md (8.1). All but ω3′ is known on the host.
func (f field) coordinates(u, v []float64) ComplexNode {
	g, dtype := f.omega3.Graph(), f.omega3.DType()
	x, sway := make([]float64, len(u)), make([]float64, len(u))
	for i := range u {
		x[i] = u[i]*f.Omega1 + f.EpsilonU*math.Sin(math.Pi*f.Frequency*u[i])
		sway[i] = f.EpsilonV * math.Cos(math.Pi*f.Frequency*v[i])
	}
	y := Add(Mul(ConstAsDType(g, dtype, v), f.omega3), ConstAsDType(g, dtype, sway))
	return ComplexNode{ConstAsDType(g, dtype, x), y}
}

// tinyRadius keeps the direction of z = 0 and its gradient finite.
const tinyRadius = 1e-12

// values returns p and p′ at z, mathematics.md (8.2) to (8.7).
func (f field) values(z ComplexNode) (p, pPrime ComplexNode) {
	// The direction e^{iθ} is z/|z|: no Atan2, which has no gradient.
	r := Sqrt(MaxScalar(z.norm2(), tinyRadius*tinyRadius)) // [N]
	direction := ComplexNode{Div(z.Re, r), Div(z.Im, r)}
	r = MaxScalar(r, f.MinRadius)
	r2 := Square(r)
	pole := Div(f.strength, Add(r2, f.beta))                           // σM [N]
	polePrime := MulScalar(Div(f.strength, Add(Mul(r2, r), f.beta)), -2) // σM′ [N]

	w := ComplexNode{MulScalar(z.Re, 1/f.Omega1), Div(z.Im, f.omega3)} // u′ + iv′ [N]
	c, _ := f.harmonics(w, f.a)
	_, cPrime := f.harmonics(w, f.b)
	p, pPrime = direction.times(pole), direction.times(polePrime)
	p = p.add(ComplexNode{c, MulScalar(c, f.Eta)})
	pPrime = pPrime.add(ComplexNode{cPrime, MulScalar(cPrime, f.EtaPrime)})
	return p, pPrime
}

// harmonics returns the two sums over k = 1 … n of (8.4) and (8.5) with the given amplitudes [n], each [N].
func (f field) harmonics(w ComplexNode, amplitudes *Node) (even, odd *Node) {
	n := amplitudes.Shape().Dim(0)
	k, weight := make([]float64, n), make([]float64, n)
	for i := range k {
		k[i], weight[i] = math.Pi*float64(i+1), float64(i+1)
	}
	g, dtype := amplitudes.Graph(), amplitudes.DType()
	kPi := InsertAxes(ConstAsDType(g, dtype, k), 0) // [1, n]
	phase := w.expand().times(kPi)                  // [N, n]
	fade := func(x *Node) *Node { return Exp(MulScalar(Abs(x), -f.Decay)) }
	fadeU, fadeV := fade(phase.Re), fade(phase.Im)
	amplitudes = InsertAxes(Mul(amplitudes, f.gamma), 0) // [1, n]

	even = Add(Mul(Cos(phase.Re), fadeV), Mul(Sin(phase.Im), fadeU))
	odd = Sub(Mul(Cos(phase.Im), fadeU), Mul(Sin(phase.Re), fadeV))
	odd = Mul(odd, InsertAxes(ConstAsDType(g, dtype, weight), 0))
	return ReduceSum(Mul(even, amplitudes), -1), ReduceSum(Mul(odd, amplitudes), -1)
}

// features returns tanh(s·m·x) of the channels x, mathematics.md (8.8) and (8.9): [N, channels].
func (f field) features(u, v []float64) *Node {
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
