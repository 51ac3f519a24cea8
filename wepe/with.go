// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

// The setters of Config, one for each hyperparameter that a person sets; the constant Param… of the same name is the
// other way to set it. Called before FromScope, a setter sets the default of its hyperparameter; after it, it overrides
// what the scope says. Done checks the values.

// WithPrefix sets the number of tokens in front of the patches (class token, registers); each gets a learned vector of
// its own. Default 0.
func (c *Config) WithPrefix(tokens int) *Config { c.prefix = tokens; return c }

// WithMode sets what ω3′ and the scalars mean: Paper (default) or Release.
func (c *Config) WithMode(mode Mode) *Config { c.mode = mode; return c }

// WithProjection sets the map from features to vectors: Linear (default) or MLP.
func (c *Config) WithProjection(p Projection) *Config { c.projection = p; return c }

// WithDropout sets the dropout rate inside the projection MLP. Default DefaultDropout.
func (c *Config) WithDropout(rate float64) *Config { c.dropout = rate; return c }

// WithDerivative says whether ℘′ joins ℘: twice as many features. Default true.
func (c *Config) WithDerivative(use bool) *Config { c.derivative = use; return c }

// WithHalfPeriods sets ω1 and the initial ω3, with Im ω3 = ω3′; Re ω3 is not 0 on lattices that are not rectangular.
// Default weierstrass.OmegaSquare and i times that.
func (c *Config) WithHalfPeriods(omega1 float64, omega3 complex128) *Config {
	c.omega1, c.omega3Re, c.omega3 = omega1, real(omega3), imag(omega3)
	return c
}

// WithInvariants sets the initial half-periods by the invariants g2 and g3 of the lattice, in place of WithHalfPeriods.
func (c *Config) WithInvariants(g2, g3 float64) *Config { c.g2, c.g3 = g2, g3; return c }

// WithArea scales the initial half-periods to a cell of this area, in cells of the default lattice.
func (c *Config) WithArea(cells float64) *Config { c.area = cells; return c }

// WithLearnedLattice says whether ω3′ and Re ω3 are trained. Default true and false.
func (c *Config) WithLearnedLattice(omega3, omega3Re bool) *Config {
	c.learnLattice, c.learnOblique = omega3, omega3Re
	return c
}

// WithHarmonics sets how many multiples z, 2z, 3z, … have features of their own. Default 1.
func (c *Config) WithHarmonics(n int) *Config { c.harmonics = n; return c }

// WithScales sets the number of lattices of one form, and how much smaller each is than the one before. Default 1 and
// DefaultScaleRatio.
func (c *Config) WithScales(n int, ratio float64) *Config {
	c.scales, c.scaleRatio = n, ratio
	return c
}

// WithSpan sets α_u and α_v, the fractions of the periods 2ω1 and 2ω3 that columns and rows span. Default DefaultSpan,
// on the sphere 1.
func (c *Config) WithSpan(u, v float64) *Config { c.alphaU, c.alphaV = u, v; return c }

// WithOffset sets the corner of the grid in the cell, in periods. Default 0.
func (c *Config) WithOffset(u, v float64) *Config { c.offsetU, c.offsetV = u, v; return c }

// WithShift sets the largest random shift of the grid in a training step, in patches. Default 0.
func (c *Config) WithShift(patches float64) *Config { c.shift = patches; return c }

// WithTrainedGrid sets the rows and columns of patches in training, for a model that is used on a coarser grid.
func (c *Config) WithTrainedGrid(rows, cols int) *Config {
	c.trainedRows, c.trainedCols = rows, cols
	return c
}

// OnSphere makes features of ℘ and ℘′ as points of the Riemann sphere, over the whole cell: CompressSphere, a span of 1
// and an α_scale of 1. The patches are then a subgroup of the torus, shifted by half a step.
func (c *Config) OnSphere() *Config { return c.WithSpan(1, 1).WithCompression(CompressSphere) }

// WithCompression sets what makes features of ℘ and ℘′, CompressTanh (default) or CompressSphere, and the defaults of
// WithAlphaScale and of the error of WithTable that go with it.
func (c *Config) WithCompression(compression Compression) *Config {
	c.compression, c.alphaScale, c.tableError = compression, DefaultAlphaScale, DefaultTableError
	if compression == CompressSphere {
		c.alphaScale, c.tableError = 1, 1e-3 // of features as large as 1, without poles to take off
	}
	return c
}

// WithAlphaScale sets the initial α_scale, a factor on the values before they are compressed, and whether it is
// trained. Default DefaultAlphaScale, on the sphere 1; trained.
func (c *Config) WithAlphaScale(value float64, learn bool) *Config {
	c.alphaScale, c.learnAlphaScale = value, learn
	return c
}

// WithBetaPos sets the initial β_pos, the factor of all rows, and whether it is trained. Default DefaultBetaPos,
// trained.
func (c *Config) WithBetaPos(value float64, learn bool) *Config {
	c.betaPos, c.learnBetaPos = value, learn
	return c
}

// WithEvaluation sets how ℘ is evaluated: EvaluateExact (default in mode Paper), EvaluateSum (in mode Release) or
// EvaluateTable.
func (c *Config) WithEvaluation(evaluation string) *Config { c.evaluation = evaluation; return c }

// WithLatticeSum sets the truncated sum of EvaluateSum. Default DefaultLatticeSum.
func (c *Config) WithLatticeSum(sum LatticeSum) *Config { c.sum = sum; return c }

// WithTable sets the look-up table of EvaluateTable: its kind, the nodes along a side at least, and the largest error
// of a feature. Default Deflated, DefaultTableResolution, DefaultTableError.
func (c *Config) WithTable(kind TableKind, resolution int, maxError float64) *Config {
	c.tableKind, c.tableResolution, c.tableError = kind, resolution, maxError
	return c
}

// WithSurrogate sets the field. Default NamedSurrogate(SurrogatePaper).
func (c *SurrogateConfig) WithSurrogate(s Surrogate) *SurrogateConfig {
	c.surrogate, c.name = s, ""
	return c
}

// WithGate sets the initial λ in [0, 1], and whether it is trained. Default DefaultGate, trained.
func (c *HybridConfig) WithGate(lambda float64, learn bool) *HybridConfig {
	c.gate, c.learn = lambda, learn
	return c
}

// WithStart sets how the encoding starts: StartDrawn, StartCentred or StartFitted. Default DefaultStart.
func (c *HybridConfig) WithStart(start string) *HybridConfig { c.start = start; return c }
