// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
)

// TSNE is exact t-SNE in two dimensions (van der Maaten and Hinton 2008), with the optimiser of scikit-learn 1.2. Zero
// fields mean the defaults beside them.
type TSNE struct {
	Perplexity   float64 // 30, at most a third of the points
	LearningRate float64 // points/exaggeration/4, at least 50: scikit-learn's "auto"
	Exaggeration float64 // 12: what p is multiplied by in the first phase
	Exploration  int     // 250: steps of that phase
	Steps        int     // 1000: of both phases
	Seed         uint64  // of the initial positions, normal with deviation 1e-4
}

const (
	tsneEpsilon  = 2.220446049250313e-16 // least p and q
	tsneCheck    = 50                    // steps between looks at whether to stop
	tsneNoGain   = 300                   // steps without progress after which to stop
	tsneGradient = 1e-7                  // or where the gradient is no longer than this
)

func (t TSNE) withDefaults(n int) TSNE {
	set := func(field *float64, value float64) {
		if *field == 0 {
			*field = value
		}
	}
	set(&t.Perplexity, min(30, float64(n-1)/3))
	set(&t.Exaggeration, 12)
	set(&t.LearningRate, max(50, float64(n)/t.Exaggeration/4))
	if t.Exploration == 0 {
		t.Exploration = 250
	}
	if t.Steps == 0 {
		t.Steps = 1000
	}
	return t
}

// Embed places points [n, width] in the plane: positions [n, 2], and the Kullback-Leibler divergence of the placing in
// nats. It takes n² memory and time per step.
func (t TSNE) Embed(points []float64, n int) (positions []float64, divergence float64, err error) {
	if n < 4 || len(points) == 0 || len(points)%n != 0 {
		return nil, 0, fmt.Errorf("analysis: t-SNE of %d points with %d values, want four or more", n, len(points))
	}
	t = t.withDefaults(n)
	r := rand.New(rand.NewPCG(t.Seed, 0))
	positions = make([]float64, 2*n)
	for i := range positions {
		positions[i] = 1e-4 * r.NormFloat64()
	}
	p := Affinities(points, n, t.Perplexity)
	return positions, t.Optimise(p, positions), nil
}

// Affinities returns the joint probabilities p [n, n]: of each point a Gaussian over the squared distances to the
// others, as wide as makes exp(entropy) the perplexity, then p_ij = (p_j|i + p_i|j)/2n.
func Affinities(points []float64, n int, perplexity float64) []float64 {
	squared := squaredDistances(points, n)
	p, row := make([]float64, n*n), make([]float64, n)
	for i := range n {
		low, high, beta := 0.0, math.Inf(1), 1.0
		nearest := math.Inf(1) // taken off all distances, so that no sum underflows
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

// Optimise moves positions [n, 2], by gradient descent with momentum and gains for each coordinate, and returns the
// divergence before the last step.
func (t TSNE) Optimise(p, positions []float64) (divergence float64) {
	t = t.withDefaults(len(positions) / 2)
	exaggerated := make([]float64, len(p))
	floats.ScaleTo(exaggerated, t.Exaggeration, p)
	divergence = t.descend(exaggerated, positions, 0, min(t.Exploration, t.Steps), 0.5)
	if t.Steps > t.Exploration {
		divergence = t.descend(p, positions, t.Exploration, t.Steps, 0.8)
	}
	return divergence
}

func (t TSNE) descend(p, y []float64, begin, end int, momentum float64) (divergence float64) {
	update, gains, gradient := make([]float64, len(y)), make([]float64, len(y)), make([]float64, len(y))
	for i := range gains {
		gains[i] = 1
	}
	kernel := make([]float64, len(p))
	best, bestStep := math.Inf(1), begin
	for step := begin; step < end; step++ {
		check := (step+1)%tsneCheck == 0
		if now := tsneStep(p, y, gradient, kernel, check || step == end-1); !math.IsNaN(now) {
			divergence = now
		}
		length := floats.Norm(gradient, 2)
		for i, g := range gradient {
			if update[i]*g < 0 {
				gains[i] += 0.2
			} else {
				gains[i] *= 0.8
			}
			gains[i] = max(gains[i], 0.01)
			update[i] = momentum*update[i] - t.LearningRate*gains[i]*g
			y[i] += update[i]
		}
		if check {
			if divergence < best {
				best, bestStep = divergence, step
			} else if step-bestStep > tsneNoGain {
				break
			}
			if length <= tsneGradient {
				break
			}
		}
	}
	return divergence
}

// tsneStep writes the gradient 4 Σ_j (p_ij − q_ij) k_ij (y_i − y_j) at positions y [n, 2], where q_ij = k_ij/Σk and
// k = 1/(1 + |y_i − y_j|²), which kernel [n, n] has room for. It returns the divergence Σ p ln(p/q), or NaN unasked.
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
		divergence = math.NaN()
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

// squaredDistances are those between points [n, width], [n, n].
func squaredDistances(points []float64, n int) []float64 {
	width := len(points) / n
	out := make([]float64, n*n)
	for i := range n {
		for j := range i {
			sum := 0.0
			for c := range width {
				d := points[i*width+c] - points[j*width+c]
				sum += d * d
			}
			out[i*n+j], out[j*n+i] = sum, sum
		}
	}
	return out
}
