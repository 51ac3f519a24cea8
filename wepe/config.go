// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/wepe/internal/elliptic"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// Config builds an encoder: start with [New], end with Build, Bias, Field, Surrogate or Hybrid. Options are
// hyperparameters of the scope, which FromScope reads and Params lists. Form and evaluation, which the name of an
// encoding in package vit decides, are not: OnSphere, OnHalfCell, WithSum and WithTable set them. Hyperparameters
// take precedence over the spans and harmonics of a form, in any order of the calls.
type Config struct {
	scope     *model.Scope
	fromScope bool // the scope's hyperparameters count
	grid
	mode                mode
	projection          string
	dropout             float64
	derivative          bool
	omega1, omega3      float64 // omega3 = 0: the mode's
	g2, g3              float64 // both 0: the half-periods above
	omega3Re            float64
	area                float64 // 0: not rescaled
	scales, harmonics   int
	alphaU, alphaV      float64
	offsetU, offsetV    float64
	shift               float64 // in patches
	trainedRows         int     // 0: the grid's own
	trainedCols         int
	compression         compression
	alphaScale, betaPos float64 // alphaScale = 0: the compression's
	learnLattice        bool
	learnAlphaScale     bool
	learnBetaPos        bool
	evaluation          evaluation // "": the mode's
	sum                 elliptic.Sum
	surrogate           string  // "": surrogatePaper
	beta, gamma         float64 // of the surrogate; 0: its own
	gate                float64
	learnGate           bool
	start               string
}

// New starts the encoder of a rows × cols patch grid for tokens of the given width. Its variables are created in
// scope/wepe.
func New(scope *model.Scope, rows, cols, width int) *Config {
	return &Config{
		scope: scope, grid: grid{rows: rows, cols: cols, width: width},
		mode: paper, projection: linear, dropout: defaultDropout, derivative: true,
		omega1: weierstrass.OmegaSquare, alphaU: defaultSpan, alphaV: defaultSpan,
		compression: compressTanh, betaPos: defaultBetaPos,
		learnLattice: true, learnAlphaScale: true, learnBetaPos: true, scales: 1, harmonics: 1, sum: elliptic.ReleasedSum,
		gate: defaultGate, learnGate: true, start: defaultStart,
	}
}

// FromScope reads every hyperparameter that is set in the scope or above it.
func (c *Config) FromScope() *Config {
	c.fromScope = true
	return c.read()
}

// read applies the hyperparameters again after a form has set its defaults.
func (c *Config) read() *Config {
	if c.fromScope {
		setting.Read(c.scope, c.settings())
	}
	return c
}

// WithPrefix sets the number of tokens in front of the patches (class token, registers); each gets its own learned
// vector, in a Hybrid its pretrained one. Default 0.
func (c *Config) WithPrefix(tokens int) *Config { c.prefix = tokens; return c }

// OnSphere uses ℘ and ℘′ as points of the Riemann sphere, in place of tanh, over the whole cell: the patches are then a
// subgroup of the torus, shifted by half a step. It sets the span to 1.
func (c *Config) OnSphere() *Config {
	c.compression, c.alphaU, c.alphaV = compressSphere, 1, 1
	return c.read()
}

// OnHalfCell is OnSphere on half of the cell along both axes, at z and 2z: a span of ½ and two harmonics, 12 features.
// Opposite edges of the image are then far apart; on the whole cell they are neighbours.
func (c *Config) OnHalfCell() *Config {
	c.OnSphere()
	c.alphaU, c.alphaV, c.harmonics = 0.5, 0.5, 2
	return c.read()
}

// WithSum evaluates ℘ by the truncated sum of the paper (ParamKappa, ParamPoleValue), in place of exactly.
func (c *Config) WithSum() *Config { c.evaluation = evaluateSum; return c }

// WithTable evaluates ℘ by a look-up table, with ω3′ held fixed: mathematics.md, section 7.
func (c *Config) WithTable() *Config { c.evaluation = evaluateTable; return c }

// ConfigError is the error for invalid settings, not for those of another type. Build panics with it and the graph
// executor returns it, so that a search over settings can distinguish it from other failures.
type ConfigError struct {
	Param  string // the hyperparameter with the invalid value; "" if it is none alone
	Reason string
}

// Error returns the reason.
func (e ConfigError) Error() string { return "wepe: " + e.Reason }

func refuse(param, format string, args ...any) {
	panic(ConfigError{Param: param, Reason: fmt.Sprintf(format, args...)})
}

// check refuses sizes and settings that are invalid on their own.
func (c *Config) check() {
	if c.rows < 1 || c.cols < 1 || c.width < 1 || c.prefix < 0 {
		refuse("", "grid %d×%d, width %d, prefix %d: want at least 1×1, 1, 0", c.rows, c.cols, c.width, c.prefix)
	}
	for _, row := range c.settings() {
		if err := setting.Check([]setting.Row{row}); err != nil {
			refuse(row.Name, "%v", err)
		}
	}
	if n := max(c.trainedRows, c.rows) * max(c.trainedCols, c.cols); n > max(maxTrained, c.rows*c.cols) {
		refuse(ParamRows, "%s = %d, %s = %d: a training grid of %d patches, want at most %d: take a smaller one", ParamRows,
			c.trainedRows, ParamCols, c.trainedCols, n, maxTrained)
	}
}

// resolve sets the defaults that depend on mode and compression, and refuses invalid settings.
func (c Config) resolve() Config {
	c.check()
	if c.evaluation == "" {
		c.evaluation = map[mode]evaluation{paper: evaluateExact, release: evaluateSum}[c.mode]
	}
	c.learnLattice = c.learnLattice && c.evaluation != evaluateTable
	c.setHalfPeriods()
	form, size := ParamOmega3Re, ParamOmega3 // what gave the lattice
	switch {
	case c.mode == paper && c.g3 != 0:
		form, size = ParamG3, ParamG3
	case c.mode == paper && c.g2 != 0:
		form, size = ParamG2, ParamG2
	}
	if c.area != 0 {
		size = ParamArea
	}
	if lo, hi := c.mode.omega3Bounds(); !(c.omega3 >= lo && c.omega3 <= hi && c.omega1 >= minOmega3 &&
		c.omega1 <= maxOmega3) {
		refuse(size, "%s: half-periods ω1 = %g, ω3′ = %g, want ω1 in [%g, %g] and ω3′ in [%g, %g] in mode %q", size, c.omega1,
			c.omega3, minOmega3, maxOmega3, lo, hi, c.mode)
	}
	onSphere, exact := c.compression == compressSphere, c.evaluation == evaluateExact
	if onSphere && (c.mode != paper || c.evaluation == evaluateSum) {
		refuse(ParamMode, "the sphere in mode %q with evaluation %q: only mode %q, exact or by a table, has one", c.mode,
			c.evaluation, paper)
	}
	oneCell := !onSphere && c.evaluation == evaluateTable // a deflated table
	for _, unsupported := range []struct {
		param string
		is    bool
		why   string
	}{
		{form, c.omega3Re != 0 && (c.mode != paper || !exact), "only exact evaluation supports oblique lattices"},
		{ParamShift, c.shift > 0 && !exact, "only exact evaluation supports positions off the grid"},
		{ParamScales, c.scales > 1 && oneCell, "a table has one lattice"},
		{ParamHarmonics, c.harmonics > 1 && oneCell, "a table has one lattice"},
		{ParamOffsetU, c.offsetU != 0 && oneCell, "a table starts at its corner"},
		{ParamOffsetV, c.offsetV != 0 && oneCell, "a table starts at its corner"},
	} {
		if unsupported.is {
			refuse(unsupported.param, "%s in mode %q with evaluation %q: %s", unsupported.param, c.mode, c.evaluation,
				unsupported.why)
		}
	}
	c.alphaScale = cmp.Or(c.alphaScale, map[compression]float64{compressTanh: defaultAlphaScale,
		compressSphere: 1}[c.compression])
	if lo, hi := c.mode.alphaScaleBounds(); !(c.alphaScale >= lo && c.alphaScale <= hi) {
		refuse(ParamAlphaScale, "%s = %g, want %g to %g in mode %q", ParamAlphaScale, c.alphaScale, lo, hi, c.mode)
	}
	return c
}

// setHalfPeriods sets ω1 and the initial ω3 from the settings.
func (c *Config) setHalfPeriods() {
	switch {
	case c.mode == release && c.g3 != 0:
		c.omega1 = 1
	case c.mode == paper && (c.g2 != 0 || c.g3 != 0):
		omega1, omega3, err := weierstrass.HalfPeriods(c.g2, c.g3)
		if err != nil {
			refuse(ParamG3, "%s = %g, %s = %g: %v", ParamG2, c.g2, ParamG3, c.g3, err)
		}
		c.omega1, c.omega3, c.omega3Re = omega1, imag(omega3), real(omega3)
	}
	if c.omega3 == 0 {
		c.omega3 = map[mode]float64{paper: c.omega1, release: releaseOmega3}[c.mode]
	}
	if c.area != 0 {
		if c.mode == release {
			refuse(ParamArea, "%s = %g in mode %q, whose lattice is square whatever ω3′", ParamArea, c.area, release)
		}
		scale := weierstrass.OmegaSquare * math.Sqrt(c.area/(c.omega1*c.omega3))
		c.omega1, c.omega3, c.omega3Re = scale*c.omega1, scale*c.omega3, scale*c.omega3Re
	}
}

// grid is the sequence of an encoder: prefix tokens, then patches row by row, each a vector of the given width.
type grid struct{ rows, cols, prefix, width int }

// positions is the length of the sequence.
func (l grid) positions() int { return l.prefix + l.rows*l.cols }

// centres returns the centres of the patches in (0, 1)², mathematics.md (6.1).
func (l grid) centres() (u, v []float64) {
	for k := range l.rows * l.cols {
		u = append(u, (float64(k%l.cols)+0.5)/float64(l.cols))
		v = append(v, (float64(k/l.cols)+0.5)/float64(l.rows))
	}
	return u, v
}
