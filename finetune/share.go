// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"fmt"

	"github.com/wepe-go/wepe/finetune/engine"
)

// share sets what a group requires of a recipe, and refuses a recipe that it cannot share.
func (r Recipe) share(g engine.Group) (Recipe, error) {
	r.GradAccumSteps = cmp.Or(r.GradAccumSteps, g.Size())
	switch {
	case g.Size() == 1:
		return r, nil
	case r.GradAccumSteps%g.Size() != 0:
		return r, fmt.Errorf("training: %d processes cannot share %d micro-batches: set grad_accum_steps to a multiple of %d",
			g.Size(), r.GradAccumSteps, g.Size())
	case r.Architecture == DHVT:
		return r, fmt.Errorf("training: recipe %s normalizes by batches: their running statistics would differ between the "+
			"%d processes of a group: use one process", r.Name, g.Size())
	}
	return r, nil
}
