// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/support/exceptions"
)

// Field is the features of the patches alone, for an encoding that has weights of its own. Build it with
// New(…).Field(). The same settings as for an Encoder apply, but those of the projection, of the prefix vectors and of
// β_pos. Variables, below the scope given to New:
//
//	wepe_field/omega3_raw, alpha_scale_raw    []    on the sphere wepe_field_sphere/…
type Field struct{ lattice }

const scopeField = "wepe_field"

// Field creates the variables of a Field, in place of Done.
func (c *Config) Field() *Field {
	resolved := c.resolve()
	if resolved.evaluation == evaluateTable {
		exceptions.Panicf("wepe: %s = %q: a field is evaluated without a table: want %q or %q", paramEvaluation,
			evaluateTable, evaluateExact, evaluateSum)
	}
	return &Field{newLattice(resolved, c.scope.In("%s", resolved.formScope(scopeField)))}
}

// Len is the number of features of a patch.
func (f *Field) Len() int { return f.config.numFeatures() }

// Features returns the features of all patches, [rows·cols, Len], as Encoder.Features. On a grid coarser than that of
// the training a patch has the mean over the patches of the training that it covers, mathematics.md (6.11).
func (f *Field) Features(g *Graph) *Node {
	grids := f.config.several()
	denser := *f
	denser.config = f.config.denser(grids)
	x, y := denser.config.patches()
	return f.config.means(denser.features(g, x, y), grids)
}
