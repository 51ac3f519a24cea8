// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

// Form and evaluation, which the name of an encoding in package vit decides, are not hyperparameters. The spans and
// harmonics of a form are defaults if FromScope is called after it. Done checks the values.

// WithPrefix sets the number of tokens in front of the patches (class token, registers); each gets its own learned
// vector, in a Hybrid its pretrained one. Default 0.
func (c *Config) WithPrefix(tokens int) *Config { c.prefix = tokens; return c }

// OnSphere uses ℘ and ℘′ as points of the Riemann sphere, in place of tanh, over the whole cell: the patches are then a
// subgroup of the torus, shifted by half a step. It sets the span to 1.
func (c *Config) OnSphere() *Config {
	c.compression, c.alphaU, c.alphaV = compressSphere, 1, 1
	return c
}

// OnHalfCell is OnSphere on half of the cell along both axes, at z and 2z: a span of ½ and two harmonics, 12 features.
// Opposite edges of the image are then far apart; on the whole cell they are neighbours.
func (c *Config) OnHalfCell() *Config {
	c.OnSphere()
	c.alphaU, c.alphaV, c.harmonics = 0.5, 0.5, 2
	return c
}

// WithSum evaluates ℘ by the truncated sum of the paper (ParamKappa, ParamCLarge), in place of exactly.
func (c *Config) WithSum() *Config { c.evaluation = evaluateSum; return c }

// WithTable evaluates ℘ by a look-up table, with ω3′ held fixed: mathematics.md, section 7.
func (c *Config) WithTable() *Config { c.evaluation = evaluateTable; return c }
