// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/wepe-go/wepe/internal/numeric"
)

// Exact t-SNE in two dimensions (van der Maaten and Hinton 2008), with the optimizer and the defaults of scikit-learn
// 1.2. The initial positions are normal with deviation 1e-4.
const (
	tsnePerplexity   = 30                    // at most a third of the points
	tsneExaggeration = 12                    // factor of p in the first phase
	tsneExploration  = 250                   // steps of that phase
	tsneSteps        = 1000                  // of both phases
	tsneEpsilon      = 2.220446049250313e-16 // minimum of p and q
	tsneCheck        = 50                    // steps between tests for convergence
	tsneNoGain       = 300                   // steps without progress after which to stop
	tsneGradient     = 1e-7                  // or when the gradient is at most this long
)

// embed embeds n > 3 points [n, width] in the plane: positions [n, 2], and the Kullback-Leibler divergence in nats. It
// takes n² memory and time per step.
func embed(points []float64, n int, seed uint64) (positions []float64, divergence float64) {
	positions = start(n, seed)
	perplexity, rate := tsneSettings(n)
	p := affinities(points, n, perplexity)
	return positions, descendTwice(p, positions, rate, tsneExaggeration, tsneExploration, tsneSteps)
}

// tsneSettings are the perplexity of n points and the learning rate, scikit-learn's "auto".
func tsneSettings(n int) (perplexity, rate float64) {
	return min(tsnePerplexity, float64(n-1)/3), max(50, float64(n)/tsneExaggeration/4)
}

// start returns Gaussian positions [n, 2] of standard deviation 1e-4, scikit-learn's init="random".
func start(n int, seed uint64) []float64 {
	r := rand.New(rand.NewPCG(seed, 0))
	positions := make([]float64, 2*n)
	for i := range positions {
		positions[i] = 1e-4 * r.NormFloat64()
	}
	return positions
}

// affinities returns the joint probabilities p [n, n]: for each point a Gaussian over the squared distances to the
// others, with the width that makes exp(entropy) the perplexity, then p_ij = (p_j|i + p_i|j)/2n.
func affinities(points []float64, n int, perplexity float64) []float64 {
	squared := numeric.SquaredDistances(points, n)
	p, row := make([]float64, n*n), make([]float64, n)
	for i := range n {
		low, high, beta := 0.0, math.Inf(1), 1.0
		nearest := math.Inf(1) // subtracted from all distances, so that no sum underflows
		for j := range n {
			if j != i {
				nearest = min(nearest, squared[i*n+j])
			}
		}
		for range 200 {
			sum, mean := 0.0, 0.0
			for j := range n {
				row[j] = 0
				if j != i {
					d := squared[i*n+j] - nearest
					row[j] = math.Exp(-d * beta)
					sum, mean = sum+row[j], mean+d*row[j]
				}
			}
			floats.Scale(1/sum, row)
			off := math.Log(sum) + beta*mean/sum - math.Log(perplexity) // of the entropy
			if math.Abs(off) < 1e-10 {
				break
			}
			if off > 0 {
				low = beta
			} else {
				high = beta
			}
			if beta = (low + high) / 2; math.IsInf(high, 1) {
				beta = 2 * low
			}
		}
		for j, v := range row {
			p[i*n+j] += v / float64(2*n)
			p[j*n+i] += v / float64(2*n)
		}
	}
	return p
}

// descendTwice moves positions [n, 2] by gradient descent with momentum and gains for each coordinate, p multiplied by
// the exaggeration in the first exploration steps, and returns the divergence before the last step.
func descendTwice(p, positions []float64, rate, exaggeration float64, exploration, steps int) (divergence float64) {
	exaggerated := make([]float64, len(p))
	floats.ScaleTo(exaggerated, exaggeration, p)
	divergence, done := descend(exaggerated, positions, rate, 0, min(exploration, steps), 0.5)
	if steps > exploration {
		divergence, _ = descend(p, positions, rate, done, steps, 0.8)
	}
	return divergence
}

func descend(p, y []float64, rate float64, begin, end int, momentum float64) (divergence float64, done int) {
	update, gains, gradient := make([]float64, len(y)), make([]float64, len(y)), make([]float64, len(y))
	for i := range gains {
		gains[i] = 1
	}
	kernel := make([]float64, len(p))
	best, bestStep := math.Inf(1), begin
	for step := begin; step < end; step++ {
		done = step + 1
		check := done%tsneCheck == 0
		if now := tsneStep(p, y, gradient, kernel, check || step == end-1); !math.IsNaN(now) {
			divergence = now
		}
		for i, g := range gradient {
			if update[i]*g < 0 {
				gains[i] += 0.2
			} else {
				gains[i] *= 0.8
			}
			gains[i] = max(gains[i], 0.01)
			gradient[i] *= gains[i]
			update[i] = momentum*update[i] - rate*gradient[i]
			y[i] += update[i]
		}
		if check {
			if divergence < best {
				best, bestStep = divergence, step
			} else if step-bestStep > tsneNoGain {
				break
			}
			if floats.Norm(gradient, 2) <= tsneGradient { // with the gains
				break
			}
		}
	}
	return divergence, done
}

// tsneStep writes the gradient 4 Σ_j (p_ij − q_ij) k_ij (y_i − y_j) at positions y [n, 2], where q_ij = k_ij/Σk and
// k = 1/(1 + |y_i − y_j|²), in the scratch space kernel [n, n]. It returns the divergence Σ p ln(p/q), NaN unless
// diverges.
func tsneStep(p, y, gradient, kernel []float64, diverges bool) (divergence float64) {
	n := len(y) / 2
	total := 0.0
	for i := range n {
		for j := range i {
			dx, dy := y[2*i]-y[2*j], y[2*i+1]-y[2*j+1]
			k := 1 / (1 + dx*dx + dy*dy)
			kernel[i*n+j] = k
			total += 2 * k
		}
	}
	clear(gradient)
	if !diverges {
		divergence = undefined
	}
	for i := range n {
		for j := range i {
			k := kernel[i*n+j]
			q := max(k/total, tsneEpsilon)
			if diverges {
				divergence += 2 * p[i*n+j] * math.Log(max(p[i*n+j], tsneEpsilon)/q)
			}
			pull := 4 * (p[i*n+j] - q) * k
			gx, gy := pull*(y[2*i]-y[2*j]), pull*(y[2*i+1]-y[2*j+1])
			gradient[2*i] += gx
			gradient[2*i+1] += gy
			gradient[2*j] -= gx
			gradient[2*j+1] -= gy
		}
	}
	return divergence
}
