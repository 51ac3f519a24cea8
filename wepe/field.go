// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// Field computes the features of the patches without a projection. Build it with New(…).Field(). The settings of an
// Encoder apply, except projection, prefix and β_pos. Variables, below the scope given to New:
//
//	wepe_field/omega3_raw, alpha_scale_raw    []    on the sphere wepe_field_sphere/…
type Field struct{ lattice }

const scopeField = "wepe_field"

// Field creates the variables of a Field, in place of Done.
func (c *Config) Field() *Field {
	resolved := c.resolve()
	if resolved.evaluation == evaluateTable {
		refuse("", "a field is evaluated without a table")
	}
	return &Field{newLattice(resolved, c.scope.In("%s", resolved.formScope(scopeField)))}
}

// Features returns the features of all patches, [rows·cols, features], as Encoder.Features. On a grid coarser than the
// training grid a patch gets the mean over the training patches that it covers, mathematics.md (6.11).
func (f *Field) Features(g *Graph) *Node {
	grids := f.config.several()
	denser := *f
	denser.config = f.config.denser(grids)
	x, y := denser.config.patches()
	return f.config.means(denser.features(g, x, y), grids)
}
