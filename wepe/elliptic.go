// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/wepe/internal/elliptic"
)

// ComplexNode is a complex tensor as two real tensors of equal shape. The pure-Go and ONNX backends have no complex
// numbers, and a pair is differentiated like any real tensors.
type ComplexNode = elliptic.ComplexNode

// P returns ℘(z) and ℘′(z) for the lattice {2mω1 + 2inω3′}, at any z, exact to the precision of the dtype (float32 or
// float64) and differentiable with respect to z and both half-periods.
//
// z may have any shape; omega1 and omega3p (ω3′, the modulus of the imaginary half-period) are positive scalars of z's
// dtype. The results have z's shape and are finite everywhere, poles included.
func P(z ComplexNode, omega1, omega3p *Node) (p, pPrime ComplexNode) {
	return elliptic.P(z, elliptic.Rectangle(omega1, omega3p))
}

// Sphere returns S(α_scale·w) and S(α_scale·w′), ℘ and ℘′ of the lattice {2mω1 + 2inω3′} as points of the Riemann
// sphere, mathematics.md section 14. With w = (℘ - e2)/√((e1-e2)(e2-e3)) and w′ = ℘′·(3/|Δ|)^¼,
//
//	S(w) = [2 Re w, 2 Im w, |w|² - 1]/(|w|² + 1),   S(∞) = (0, 0, 1)
//
// z may have any shape; omega1, omega3p and alphaScale are positive scalars of its dtype. The results are
// [z's shape..., 3], of norm 1, finite and differentiable at every z, poles included, and for every lattice.
func Sphere(z ComplexNode, omega1, omega3p, alphaScale *Node) (point, prime *Node) {
	return elliptic.Sphere(z, elliptic.Rectangle(omega1, omega3p), alphaScale)
}
