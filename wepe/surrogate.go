// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/wepe/internal/elliptic"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// surrogate describes the bounded field that replaces ℘ and ℘′ when a pretrained model is fine-tuned, mathematics.md
// (8.1) to (8.9). namedSurrogate returns the known ones.
//
// ω3′, β and γ are learned as bound + softplus(raw); s, σ, m, a and b are unbounded. The values here are the initial
// ones; Learn names those that training changes.
type surrogate struct {
	// Channels is 4 (Re p, Im p, Re p′, Im p′) or 6: with √(u²+v²) third and |Re p′| last.
	Channels int

	Omega1    float64 // ω1, never learned
	Omega3    float64 // ω3′
	MinOmega3 float64 // its lower bound
	Beta      float64 // β softens the pole
	MinBeta   float64
	Gamma     float64 // γ scales A and B
	MinGamma  float64
	Strength  float64 // σ scales the pole terms M and M′

	A        []float64 // a_1 … a_K of C
	B        []float64 // b_1 … b_K′ of C′
	Eta      float64   // η, share of C in Im p
	EtaPrime float64   // η′, share of C′ in Im p′

	EpsilonU  float64 // ε_u sin(φπu) perturbs Re z
	EpsilonV  float64 // ε_v cos(φπv) perturbs Im z
	Frequency float64 // φ
	MinRadius float64

	Scale      float64   // s of tanh(s·m·x)
	Modulation []float64 // m, one for each channel

	Dropout [2]float64 // after the two hidden layers of the projection

	// Learn names the trainable values, some of "omega3", "beta", "gamma", "strength", "scale", "modulation", "a", "b".
	// The projection is always trained.
	Learn []string
}

// maxSurrogate bounds the learned values of a surrogate: far above useful values, far below a float32 overflow.
const maxSurrogate = 1e3

// Names of surrogates: the paper's field, the six channels of the released code, and the field of the paper's
// sensitivity study.
const (
	surrogatePaper = "paper"
	surrogateSVHN  = "svhn"
	surrogateSweep = "sweep"
)

// namedSurrogate returns one of the surrogates above. "paper" is the paper's field of four channels with the numbers of
// the released CIFAR-100 script; "svhn" is the release's other form, six channels. "sweep" is "paper" with a_k = b_k =
// 1/k², K = K′ = 3 and fixed β and γ: the paper's study sets both to 0.01, 0.05, 0.1, 0.2 and 0.5. Sources: the paper;
// official scripts weierstrass_vit_experiment2.py and vit_wef_svhn_1k.py at 3c27aecdfd06. The scripts of other data
// sets differ from these in constants alone.
func namedSurrogate(name string) surrogate {
	s := surrogate{
		Channels: 4, Omega1: weierstrass.OmegaSquare,
		Omega3: 0.1 + hostSoftplus(0.5), MinOmega3: 0.1,
		Beta: 0.01 + hostSoftplus(0.1), MinBeta: 0.01, Gamma: 1, Strength: 1,
		A: powers(3, 0.05, 1), B: powers(2, 0.03, 1), Eta: 0.5, EtaPrime: 0.3,
		EpsilonU: 0.01, EpsilonV: 0.01, Frequency: 2, MinRadius: 1e-6,
		Scale: 0.05, Modulation: []float64{1, 1, 1, 1},
		Dropout: [2]float64{0.1, 0},
		Learn:   []string{"omega3", "beta", "scale"},
	}
	switch name {
	case surrogatePaper:
		return s
	case surrogateSweep:
		s.A, s.B, s.Learn = powers(3, 1, 2), powers(3, 1, 2), []string{"omega3", "scale"}
		s.Beta, s.MinBeta, s.Gamma = 0.1, 1e-4, 0.1
		return s
	}
	s.Channels, s.Modulation = 6, []float64{1, 0.8, 1, 1, 1, 1}
	s.Learn = append(s.Learn, "modulation", "gamma")
	s.Gamma, s.MinGamma = 0.1+hostSoftplus(0.2), 0.1
	s.A, s.B, s.Eta, s.EtaPrime = powers(3, 1, 2), powers(2, 1, 2), 0.7, 0.5
	s.EpsilonU, s.EpsilonV, s.Frequency = 0.02, 0.02, 3
	s.Scale, s.Dropout = 0.03, [2]float64{0.1, 0.05}
	return s
}

// powers returns amplitude/k^exponent for k = 1 … n.
func powers(n int, amplitude, exponent float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = amplitude / math.Pow(float64(i+1), exponent)
	}
	return out
}

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

// smooth returns C = γ·Σ a_k [cos(kπu′) e^{-δkπ|v′|} + sin(kπv′) e^{-δkπ|u′|}], (8.4), with δ = 1: [N].
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

// waves returns k = 1 … n [1, n], kπw and e^{-|kπw|}, the latter two for real and imaginary part apart, [N, n].
func (f surrogateField) waves(w ComplexNode, n int) (k *Node, phase, fade ComplexNode) {
	k = InsertAxes(elliptic.Multiples(w.Re.Graph(), w.Re.DType(), 1, n), 0)
	phase = w.Expand().Times(MulScalar(k, math.Pi))
	decay := func(x *Node) *Node { return Exp(Neg(Abs(x))) }
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
