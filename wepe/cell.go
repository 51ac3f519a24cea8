// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/internal/kernel"
)

// cell is ℘ and ℘′ in the upper half of the cell around 0 of a lattice with rows along the real axis, and what their
// gradients are made of.
type cell struct {
	z                ComplexNode
	rowHalf, gapHalf *Node // A, B
	k, gap           *Node // π/(2A), 2kB
	rows             rowTerms
	pole             principal
	p, pPrime        ComplexNode // less pole.p, pole.pPrime
	slopes           []slope     // of ℘ and ℘′, once they are asked for
}

// slope holds the derivatives of ℘ or ℘′.
type slope struct{ byZ, byRowHalf, byGapHalf ComplexNode }

// inCell returns ℘ and ℘′ at |Re z| <= rowHalf, 0 <= Im z <= gapHalf, by (2.2) and (2.3). Their gradients are written
// out: autodiff makes three times as many operations of them, each too small to be worth its start.
func inCell(z ComplexNode, rowHalf, gapHalf *Node) (p, pPrime ComplexNode) {
	c := cell{z: z, rowHalf: rowHalf, gapHalf: gapHalf}
	values := kernel.Several([]*Node{z.Re, z.Im, rowHalf, gapHalf}, 4, func() []*Node {
		c.evaluate()
		p, pPrime := c.p.add(c.pole.p), c.pPrime.add(c.pole.pPrime)
		return []*Node{p.Re, p.Im, pPrime.Re, pPrime.Im}
	}, c.gradient)
	return ComplexNode{values[0], values[1]}, ComplexNode{values[2], values[3]}
}

func (c *cell) evaluate() {
	pairs := rowPairs(c.z.Re.DType())
	c.k = MulScalar(Inverse(c.rowHalf), math.Pi/2)
	a := c.z.times(c.k)                       // |Re a| <= π/2, 0 <= Im a <= gap/2
	c.gap = MulScalar(Mul(c.k, c.gapHalf), 2) // >= π
	c.pole = principalPart(c.z, a, c.k)
	c.rows = newRows(a, c.gap, nil, c.pole.near, pairs)
	csc2, csc2cot := c.rows.sums()
	csc2.Re = Add(csc2.Re, constant(c.gap, pairs))
	k2 := Square(c.k)
	c.p = csc2.add(c.pole.smooth).times(k2)
	c.pPrime = csc2cot.scale(-2).add(c.pole.smoothPrime).times(Mul(k2, c.k))
}

// gradient takes that of value i, in the order of inCell, to those of z, rowHalf and gapHalf, by (3.1).
func (c *cell) gradient(i int, dy *Node) []*Node {
	if c.slopes == nil {
		c.slopes = c.differentiate()
	}
	s := c.slopes[i/2]
	if i%2 == 0 { // of a real part
		return []*Node{Mul(dy, s.byZ.Re), Neg(Mul(dy, s.byZ.Im)), ReduceAllSum(Mul(dy, s.byRowHalf.Re)),
			ReduceAllSum(Mul(dy, s.byGapHalf.Re))}
	}
	return []*Node{Mul(dy, s.byZ.Im), Mul(dy, s.byZ.Re), ReduceAllSum(Mul(dy, s.byRowHalf.Im)),
		ReduceAllSum(Mul(dy, s.byGapHalf.Im))}
}

// differentiate returns the derivatives of ℘ and ℘′: by z, by B after (3.2) and (3.3), and by A from the other two,
// because ℘ and ℘′ are homogeneous of degrees -2 and -3, (3.13). The pole drops out of both sums there, so that none of
// its digits is lost.
func (c *cell) differentiate() []slope {
	g, dtype := c.gap.Graph(), c.gap.DType()
	pairs := rowPairs(dtype)
	n := make([]float64, 2*pairs+1)
	for i := range n {
		n[i] = float64(i - pairs)
	}
	index := alongLast(ConstAsDType(g, dtype, n), c.z.Re.Rank()+1)
	k3 := Mul(Square(c.k), c.k)
	k4 := Square(Square(c.k))

	// csc² a (2 - 3 csc² a) is -8 of these, and (csc² a)″ is 16.
	bent := c.rows.csc2.add(c.rows.csc2.square().scale(6))
	second := bent.sumLast().scale(16).add(c.pole.smoothSecond()).times(k4) // ℘″ less 6/z⁴

	pByGap := c.rows.csc2cot.times(index).sumLast().scale(-16)
	pByGap.Re = Sub(pByGap.Re, constantSlope(c.gap, pairs))
	pByGap = pByGap.times(k3)
	primeByGap := bent.times(index).sumLast().timesI().times(MulScalar(k4, -32))

	byRow := func(degree float64, f, byZ, byGap ComplexNode) ComplexNode {
		sum := f.scale(degree).sub(c.z.mul(byZ)).sub(byGap.times(c.gapHalf))
		return sum.times(Inverse(c.rowHalf))
	}
	return []slope{
		{c.pPrime.add(c.pole.pPrime), byRow(-2, c.p, c.pPrime, pByGap), pByGap},
		{second.add(c.pole.p.square().scale(6)), byRow(-3, c.pPrime, second, primeByGap), primeByGap},
	}
}

// constantSlope is 8 Σ n csch² h_n coth h_n, h_n = n·gap: what constant contributes to (3.2).
func constantSlope(gap *Node, pairs int) *Node {
	n := multiples(gap.Graph(), gap.DType(), 1, pairs)
	q := Exp(MulScalar(Mul(n, gap), -2)) // [pairs]
	one := OneMinus(q)
	term := Div(Mul(q, AddScalar(q, 1)), Mul(Square(one), one)) // csch² coth/4
	return MulScalar(ReduceAllSum(Mul(n, term)), 32)
}
