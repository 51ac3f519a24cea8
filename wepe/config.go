// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// Config builds an encoder: start with [New], end with Done, Bias, Field, Surrogate or Hybrid. Options are
// hyperparameters of the scope, which FromScope reads and Params lists; the With… methods set the common ones.
type Config struct {
	scope *model.Scope
	grid
	grids               [][2]int // rows and columns of the grids of EncodeOn; nil: the one above
	undivided           [][2]int // of a denser Config: the grids before; otherwise nil
	mode                mode
	projection          string
	dropout             float64
	derivative          bool
	omega1, omega3      float64 // omega3 = 0: the mode's
	g2, g3              float64 // both 0: the half-periods above
	omega3Re            float64
	area                float64 // 0: not rescaled
	scales, harmonics   int
	scaleRatio          float64
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
	learnOblique        bool
	evaluation          string // "": the mode's
	sum                 latticeSum
	tableKind           tableKind
	tableResolution     int
	tableError          float64 // 0: the compression's
	surrogate           string  // "": surrogatePaper
	beta, gamma         float64 // of the surrogate; 0: its own
	gate                float64
	learnGate           bool
	start               string
	dtype               dtypes.DType // of the encoding and its variables
}

// New starts the encoder of a rows × cols patch grid for tokens of the given width. Its variables are created in
// scope/wepe.
func New(scope *model.Scope, rows, cols, width int) *Config {
	return &Config{
		scope: scope, grid: grid{rows: rows, cols: cols, width: width},
		mode: paper, projection: linear, dropout: defaultDropout, derivative: true,
		omega1: weierstrass.OmegaSquare, alphaU: defaultSpan, alphaV: defaultSpan,
		compression: compressTanh, betaPos: defaultBetaPos,
		learnLattice: true, learnAlphaScale: true, learnBetaPos: true, scales: 1, scaleRatio: defaultScaleRatio, harmonics: 1,
		sum: releasedSum, tableKind: deflatedTable, tableResolution: defaultTableResolution,
		gate: defaultGate, learnGate: true, start: defaultStart, dtype: dtypes.Float32,
	}
}

// FromScope reads every hyperparameter that is set in the scope or above it.
func (c *Config) FromScope() *Config {
	setting.Read(c.scope, c.settings())
	return c
}

// Refused is the error for invalid settings. Done panics with it and the graph executor returns it, so that a search
// over settings can distinguish it from other failures.
type Refused string

// Error returns the reason.
func (r Refused) Error() string { return string(r) }

func refuse(format string, args ...any) { panic(Refused(fmt.Sprintf("wepe: "+format, args...))) }

// check refuses sizes and settings that are invalid on their own.
func (c *Config) check() {
	if c.rows < 1 || c.cols < 1 || c.width < 1 || c.prefix < 0 {
		exceptions.Panicf("wepe: grid %d×%d, width %d, prefix %d: want at least 1×1, 1, 0", c.rows, c.cols, c.width, c.prefix)
	}
	if err := setting.Check(c.settings()); err != nil {
		refuse("%v", err)
	}
}

// resolve sets the defaults that depend on mode and compression, and refuses invalid settings by name.
func (c Config) resolve() Config {
	c.check()
	if c.projection == mlp && c.width%2 != 0 {
		refuse("%s = %q halves the width, which is odd: %d", paramProjection, mlp, c.width)
	}
	if c.evaluation == "" {
		c.evaluation = map[mode]string{paper: evaluateExact, release: evaluateSum}[c.mode]
	}
	c.learnLattice = c.learnLattice && c.evaluation != evaluateTable
	if err := c.setHalfPeriods(); err != nil {
		refuse("%v", err)
	}
	if lo, hi := c.mode.omega3Bounds(); !(c.omega3 >= lo && c.omega3 <= hi && c.omega1 >= minOmega3 &&
		c.omega1 <= maxOmega3) {
		refuse("half-periods ω1 = %g, ω3′ = %g, want ω1 in [%g, %g] and ω3′ in [%g, %g] in mode %q", c.omega1, c.omega3,
			minOmega3, maxOmega3, lo, hi, c.mode)
	}
	if c.oblique() && (c.mode != paper || c.evaluation != evaluateExact) {
		refuse("%s = %g, %s = %t in mode %q with evaluation %q: only %q and %q support oblique lattices", paramOmega3Re,
			c.omega3Re, paramLearnOblique, c.learnOblique, c.mode, c.evaluation, paper, evaluateExact)
	}
	if c.compression == compressSphere && (c.mode != paper || c.evaluation == evaluateSum) {
		refuse("%s = %q in mode %q with evaluation %q: only %q, and %q or %q, have a sphere", paramCompression, c.compression,
			c.mode, c.evaluation, paper, evaluateExact, evaluateTable)
	}
	if c.compression == compressSphere && c.tableKind == rawTable {
		refuse("%s = %q with %s = %q, whose tables store nothing else", paramTable, rawTable, paramCompression, c.compression)
	}
	if c.shift > 0 && c.evaluation != evaluateExact {
		refuse("%s = %g with evaluation %q: only %q evaluates positions off the grid", paramShift, c.shift, c.evaluation,
			evaluateExact)
	}
	if c.compression == compressTanh && c.evaluation == evaluateTable {
		for _, setting := range []struct {
			name string
			used bool
		}{
			{paramScales, c.scales > 1}, {paramHarmonics, c.harmonics > 1}, {paramOffsetU, c.offsetU != 0},
			{paramOffsetV, c.offsetV != 0},
		} {
			if setting.used {
				refuse("%s with a table: it has one lattice and starts at its corner", setting.name)
			}
		}
	}
	c.setByCompression()
	return c
}

// setByCompression sets the defaults that depend on the compression, and checks those settings.
func (c *Config) setByCompression() {
	if c.compression == compressSphere { // features have size 1 and no principal parts
		c.alphaScale, c.tableError = cmp.Or(c.alphaScale, 1), cmp.Or(c.tableError, 1e-3)
	}
	c.alphaScale, c.tableError = cmp.Or(c.alphaScale, defaultAlphaScale), cmp.Or(c.tableError, defaultTableError)
	if lo, hi := c.mode.alphaScaleBounds(); !(c.alphaScale >= lo && c.alphaScale <= hi) {
		refuse("%s = %g, want %g to %g in mode %q", paramAlphaScale, c.alphaScale, lo, hi, c.mode)
	}
	if c.tableError < minTableError {
		refuse("%s = %g, want 0 or %g at least", paramTableError, c.tableError, minTableError)
	}
}

// setHalfPeriods sets ω1 and the initial ω3 from the settings.
func (c *Config) setHalfPeriods() error {
	switch {
	case c.mode == release && c.g3 != 0:
		c.omega1 = 1
	case c.mode == paper && (c.g2 != 0 || c.g3 != 0):
		omega1, omega3, err := weierstrass.HalfPeriods(c.g2, c.g3)
		if err != nil {
			return fmt.Errorf("%s = %g, %s = %g: %w", paramG2, c.g2, paramG3, c.g3, err)
		}
		c.omega1, c.omega3, c.omega3Re = omega1, imag(omega3), real(omega3)
	}
	if c.omega3 == 0 {
		c.omega3 = map[mode]float64{paper: c.omega1, release: releaseOmega3}[c.mode]
	}
	if c.area != 0 {
		if c.mode == release {
			return fmt.Errorf("%s = %g in mode %q, whose lattice is square whatever ω3′: set %s", paramArea, c.area, release,
				paramOmega1)
		}
		scale := weierstrass.OmegaSquare * math.Sqrt(c.area/(c.omega1*c.omega3))
		c.omega1, c.omega3, c.omega3Re = scale*c.omega1, scale*c.omega3, scale*c.omega3Re
	}
	return nil
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
