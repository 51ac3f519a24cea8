// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

// The setters of Config. Those that name a hyperparameter set its default if they are called before FromScope, and
// override the value of the scope after it. Form and evaluation, which the name of an encoding in package vit decides,
// are not hyperparameters. Done checks the values.

// WithPrefix sets the number of tokens in front of the patches (class token, registers); each gets its own learned
// vector, in a Hybrid its pretrained one. Default 0.
func (c *Config) WithPrefix(tokens int) *Config { c.prefix = tokens; return c }

// WithHarmonics sets ParamHarmonics, the number of multiples z, 2z, 3z, … at which features are computed. Default 1.
func (c *Config) WithHarmonics(n int) *Config { c.harmonics = n; return c }

// WithSpan sets ParamAlphaU and ParamAlphaV, the fractions α_u and α_v of the periods 2ω1 and 2ω3 that columns and rows
// span. Default 0.4, on the sphere 1.
func (c *Config) WithSpan(u, v float64) *Config { c.alphaU, c.alphaV = u, v; return c }

// OnSphere uses ℘ and ℘′ as points of the Riemann sphere, in place of tanh, over the whole cell: the patches are then a
// subgroup of the torus, shifted by half a step. It sets the span to 1.
func (c *Config) OnSphere() *Config { c.compression = compressSphere; return c.WithSpan(1, 1) }

// OnHalfCell is OnSphere on half of the cell along both axes, at z and 2z: a span of ½ and two harmonics, 12 features.
// Opposite edges of the image are then far apart; on the whole cell they are neighbours.
func (c *Config) OnHalfCell() *Config { return c.OnSphere().WithSpan(0.5, 0.5).WithHarmonics(2) }

// WithSum evaluates ℘ by the truncated sum of the paper (ParamKappa, ParamCLarge), in place of exactly.
func (c *Config) WithSum() *Config { c.evaluation = evaluateSum; return c }

// WithTable evaluates ℘ by a look-up table, with ω3′ held fixed: mathematics.md, section 7.
func (c *Config) WithTable() *Config { c.evaluation = evaluateTable; return c }
