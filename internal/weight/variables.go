// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weight

import (
	"cmp"
	"slices"

	"github.com/gomlx/gomlx/ml/model"
)

// Variables returns the variables that keep holds for, by path: the store's order depends on creation and changes after
// a resume, and the last bit of a sum over all depends on the order.
func Variables(store *model.Store, keep func(v *model.Variable) bool) (kept []*model.Variable) {
	for v := range store.IterVariables() {
		if keep(v) {
			kept = append(kept, v)
		}
	}
	slices.SortFunc(kept, func(a, b *model.Variable) int { return cmp.Compare(a.Path(), b.Path()) })
	return kept
}
