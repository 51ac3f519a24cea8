// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// Config is an encoder in the making: start with New, end with Done. What differs from the defaults is set by the
// methods With…, or by hyperparameters of the scope, the constants Param…, which FromScope takes over.
type Config struct {
	scope *model.Scope
	grid
	grids               [][2]int // rows and columns of the grids of EncodeOn; nil: the one above
	mode                Mode
	projection          Projection
	dropout             float64
	derivative          bool
	omega1, omega3      float64 // omega3 = 0: the mode's
	g2, g3              float64 // both 0: the half-periods above
	omega3Re            float64
	area                float64 // 0: as they come
	scales, harmonics   int
	scaleRatio          float64
	alphaU, alphaV      float64
	offsetU, offsetV    float64
	shift               float64 // in patches
	trainedRows         int     // 0: the grid's own
	trainedCols         int
	compression         Compression
	alphaScale, betaPos float64
	learnLattice        bool
	learnAlphaScale     bool
	learnBetaPos        bool
	learnOblique        bool
	evaluation          string // "": the mode's
	sum                 LatticeSum
	tableKind           TableKind
	tableResolution     int
	tableError          float64
	dtype               dtypes.DType // of the encoding and its variables
}

// New starts the encoder of a rows × cols patch grid for tokens of the given width, in Paper mode. Its variables will
// live in scope/wepe.
func New(scope *model.Scope, rows, cols, width int) *Config {
	return &Config{
		scope: scope, grid: grid{rows: rows, cols: cols, width: width},
		mode: Paper, projection: Linear, dropout: DefaultDropout, derivative: true,
		omega1: weierstrass.OmegaSquare, alphaU: DefaultSpan, alphaV: DefaultSpan,
		compression: CompressTanh, alphaScale: DefaultAlphaScale, betaPos: DefaultBetaPos,
		learnLattice: true, learnAlphaScale: true, learnBetaPos: true, scales: 1, scaleRatio: DefaultScaleRatio, harmonics: 1,
		sum: DefaultLatticeSum(), tableKind: Deflated, tableResolution: DefaultTableResolution,
		tableError: DefaultTableError, dtype: dtypes.Float32,
	}
}

// FromScope takes over every hyperparameter that is set in the scope or above it.
func (c *Config) FromScope() *Config {
	if compression := model.GetParamOr(c.scope, ParamCompression, c.compression); compression != c.compression {
		c.WithCompression(compression)
	}
	setting.Read(c.scope, c.settings())
	return c
}

// Refused is why an encoder cannot be: a setting that makes no sense, alone or with the others. Done panics with it,
// and what builds the graph returns it, so that who tries many settings can tell it from a failure.
type Refused string

// Error says why.
func (r Refused) Error() string { return string(r) }

// resolve fills in what depends on the mode and refuses, naming the value, anything that makes no sense.
func (c Config) resolve() Config {
	refuse := func(format string, args ...any) { panic(Refused(fmt.Sprintf("wepe: "+format, args...))) }
	c.grid.validate()
	if err := setting.Check(c.settings()); err != nil {
		refuse("%v", err)
	}
	if c.projection == MLP && c.width%2 != 0 {
		refuse("%s = %q halves the width, which is odd: %d", ParamProjection, MLP, c.width)
	}
	if c.evaluation == "" {
		c.evaluation = map[Mode]string{Paper: EvaluateExact, Release: EvaluateSum}[c.mode]
	}
	c.learnLattice = c.learnLattice && c.evaluation != EvaluateTable
	if err := c.setHalfPeriods(); err != nil {
		refuse("%v", err)
	}
	if lo, hi := c.mode.omega3Bounds(); !(c.omega3 >= lo && c.omega3 <= hi && c.omega1 >= MinOmega3 &&
		c.omega1 <= MaxOmega3) {
		refuse("half-periods ω1 = %g, ω3′ = %g, want ω1 in [%g, %g] and ω3′ in [%g, %g] in mode %q", c.omega1, c.omega3,
			MinOmega3, MaxOmega3, lo, hi, c.mode)
	}
	if c.oblique() && (c.mode != Paper || c.evaluation != EvaluateExact) {
		refuse("%s = %g, %s = %t in mode %q with evaluation %q: only %q and %q know oblique lattices", ParamOmega3Re,
			c.omega3Re, ParamLearnOblique, c.learnOblique, c.mode, c.evaluation, Paper, EvaluateExact)
	}
	if c.compression == CompressSphere && (c.mode != Paper || c.evaluation == EvaluateSum) {
		refuse("%s = %q in mode %q with evaluation %q: only %q, and %q or %q, have a sphere", ParamCompression, c.compression,
			c.mode, c.evaluation, Paper, EvaluateExact, EvaluateTable)
	}
	if c.compression == CompressSphere && c.tableKind == Raw {
		refuse("%s = %q with %s = %q, whose tables hold nothing else", ParamTable, Raw, ParamCompression, c.compression)
	}
	if c.shift > 0 && c.evaluation != EvaluateExact {
		refuse("%s = %g with evaluation %q: only %q knows places off the grid", ParamShift, c.shift, c.evaluation,
			EvaluateExact)
	}
	if c.compression == CompressTanh && c.evaluation == EvaluateTable {
		for _, setting := range []struct {
			name string
			used bool
		}{
			{ParamScales, c.scales > 1}, {ParamHarmonics, c.harmonics > 1}, {ParamOffsetU, c.offsetU != 0},
			{ParamOffsetV, c.offsetV != 0},
		} {
			if setting.used {
				refuse("%s with a table, which holds one lattice, seen from its corner", setting.name)
			}
		}
	}
	return c
}

// setHalfPeriods sets ω1 and the initial ω3 to what the settings ask for.
func (c *Config) setHalfPeriods() error {
	switch {
	case c.mode == Release && c.g3 != 0:
		c.omega1 = 1
	case c.mode == Paper && (c.g2 != 0 || c.g3 != 0):
		omega1, omega3, err := weierstrass.HalfPeriods(c.g2, c.g3)
		if err != nil {
			return fmt.Errorf("%s = %g, %s = %g: %w", ParamG2, c.g2, ParamG3, c.g3, err)
		}
		c.omega1, c.omega3 = omega1, imag(omega3)
		if real(omega3) != 0 {
			c.omega3Re = real(omega3)
		}
	}
	if c.omega3 == 0 {
		c.omega3 = map[Mode]float64{Paper: c.omega1, Release: releaseOmega3}[c.mode]
	}
	if c.area != 0 {
		if c.mode == Release {
			return fmt.Errorf("%s = %g in mode %q, whose lattice is square whatever ω3′: set %s", ParamArea, c.area, Release,
				ParamOmega1)
		}
		scale := weierstrass.OmegaSquare * math.Sqrt(c.area/(c.omega1*c.omega3))
		c.omega1, c.omega3, c.omega3Re = scale*c.omega1, scale*c.omega3, scale*c.omega3Re
	}
	return nil
}

// Done creates the variables and returns the encoder. It panics, naming the setting, on one that makes no sense.
// Call it once per scope and graph, as every layer.
func (c *Config) Done() *Encoder { return newEncoder(c.resolve()) }
