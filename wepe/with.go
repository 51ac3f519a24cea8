// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import "cmp"

// The setters of Config; the name of the hyperparameter stands in parentheses. Called before FromScope, a setter sets
// the default; after it, it overrides the value of the scope. Done checks the values.

// WithPrefix sets the number of tokens in front of the patches (class token, registers); each gets its own learned
// vector, in a Hybrid its pretrained one. Default 0.
func (c *Config) WithPrefix(tokens int) *Config { c.prefix = tokens; return c }

// AsReleased selects the encoding of the released code (wepe_mode "release"); the default follows the paper ("paper"):
// the lattice stays square and ω3′ = clamp(softplus(raw), 0.02, 8) only stretches Im z; α_scale = clamp(exp(raw),
// 0.002, 0.8); ℘ is a truncated sum (wepe_evaluation "sum").
func (c *Config) AsReleased() *Config { c.mode = release; return c }

// WithMLP makes the projection a dense layer to width/2, LayerNorm, exact GELU, dropout, a dense layer to width and
// LayerNorm (wepe_projection "mlp", wepe_dropout); the release uses dropout 0.05. The default is "linear": one dense
// layer and LayerNorm.
func (c *Config) WithMLP(dropout float64) *Config {
	c.projection, c.dropout = mlp, dropout
	return c
}

// WithHalfPeriods sets ω1 and the initial ω3 (wepe_omega1, wepe_omega3, wepe_omega3_re), with Im ω3 = ω3′; Re ω3 = 0
// gives a rectangular lattice. Default weierstrass.OmegaSquare and i times that.
func (c *Config) WithHalfPeriods(omega1 float64, omega3 complex128) *Config {
	c.omega1, c.omega3Re, c.omega3 = omega1, real(omega3), imag(omega3)
	return c
}

// WithLearnedLattice sets whether ω3′ and Re ω3 are trained (wepe_learn_lattice, wepe_learn_oblique). Default true and
// false.
func (c *Config) WithLearnedLattice(omega3, omega3Re bool) *Config {
	c.learnLattice, c.learnOblique = omega3, omega3Re
	return c
}

// WithHarmonics sets the number of multiples z, 2z, 3z, … at which features are computed (wepe_harmonics). Default 1.
func (c *Config) WithHarmonics(n int) *Config { c.harmonics = n; return c }

// WithSpan sets α_u and α_v (wepe_alpha_u, wepe_alpha_v), the fractions of the periods 2ω1 and 2ω3 that columns and
// rows span. Default 0.4, on the sphere 1.
func (c *Config) WithSpan(u, v float64) *Config { c.alphaU, c.alphaV = u, v; return c }

// TrainedGrid returns the hyperparameters for using a model on a coarser grid: the rows and columns of patches that it
// was trained on. Without them the training grid is the grid itself.
func TrainedGrid(rows, cols int) map[string]any {
	return map[string]any{paramRows: rows, paramCols: cols}
}

// OnSphere uses ℘ and ℘′ as points of the Riemann sphere (wepe_compression "sphere"; default "tanh") over the whole
// cell: the patches are then a subgroup of the torus, shifted by half a step. It sets the span to 1.
func (c *Config) OnSphere() *Config { c.compression = compressSphere; return c.WithSpan(1, 1) }

// OnHalfCell is OnSphere on half of the cell along both axes, at z and 2z: a span of ½ and two harmonics, 12 features.
// Opposite edges of the image are then far apart; on the whole cell they are neighbours.
func (c *Config) OnHalfCell() *Config { return c.OnSphere().WithSpan(0.5, 0.5).WithHarmonics(2) }

// WithAlphaScale sets the initial α_scale, a factor of the values before compression, and whether it is trained
// (wepe_alpha_scale, wepe_learn_alpha_scale). Default 0: 0.15, on the sphere 1; trained.
func (c *Config) WithAlphaScale(value float64, learn bool) *Config {
	c.alphaScale, c.learnAlphaScale = value, learn
	return c
}

// WithBetaPos sets the initial β_pos, the factor of all added vectors, and whether it is trained (wepe_beta_pos,
// wepe_learn_beta_pos). Default 0.8, trained.
func (c *Config) WithBetaPos(value float64, learn bool) *Config {
	c.betaPos, c.learnBetaPos = value, learn
	return c
}

// WithTable evaluates ℘ by a look-up table, with ω3′ held fixed (wepe_evaluation "table", wepe_table_resolution,
// wepe_table_error): at least nodes × nodes, and more where a feature's error would exceed maxError. 0 means 256 nodes
// and an error of 1e-5, on the sphere 1e-3.
func (c *Config) WithTable(nodes int, maxError float64) *Config {
	c.evaluation = evaluateTable
	c.tableResolution, c.tableError = cmp.Or(nodes, defaultTableResolution), cmp.Or(maxError, c.tableError)
	return c
}

// WithSurrogate sets the surrogate field by name (wepe_surrogate): "paper", the default, "cifar100", "svhn", "dmlab",
// "resisc45" or "sweep"; and the initial β and γ (wepe_surrogate_beta, wepe_surrogate_gamma), 0 for its defaults.
func (c *Config) WithSurrogate(name string, beta, gamma float64) *Config {
	c.surrogate, c.beta, c.gamma = name, beta, gamma
	return c
}

// WithGate sets the initial λ in [0, 1], and whether it is trained (wepe_gate, wepe_learn_gate). Default 0.12, trained.
func (c *Config) WithGate(lambda float64, learn bool) *Config {
	c.gate, c.learnGate = lambda, learn
	return c
}

// WithStart sets how the encoding starts (wepe_start): "drawn", the default, "centred" or "fitted", see [Hybrid.Start].
func (c *Config) WithStart(start string) *Config { c.start = start; return c }
