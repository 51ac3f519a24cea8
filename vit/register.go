// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"fmt"
	"slices"
	"strings"
)

// Register adds a position encoding of another module to the table, so that Config.Position can name it: in training,
// comparisons, analyses, checkpoints and exports it is then one of ours. It needs a Name and one constructor, which
// decides its kind; all other fields are optional. Call it from an init function or before the first model is built.
// It panics on a row that contradicts itself or the table.
//
// vittest.Laws checks the properties that the rest of the library relies on. An encoding keeps its variables in the
// scope that its constructor gets, under names of its own.
func Register(p Position) {
	if err := p.fits(); err != nil {
		panic(err)
	}
	positions = append(positions, p)
}

// fits checks a row that joins the table.
func (p Position) fits() error {
	constructors := 0
	for _, has := range []bool{p.Additive != nil, p.Rotary != nil, p.Relative != nil} {
		if has {
			constructors++
		}
	}
	switch {
	case p.Name == "" || strings.ContainsAny(p.Name, "+,; \n|"):
		return fmt.Errorf("vit: register: name %q: want one word without any of + , ; |", p.Name)
	case slices.Contains(PositionNames(), p.Name):
		return fmt.Errorf("vit: register: there is a position encoding %q already", p.Name)
	case constructors != 1:
		return fmt.Errorf("vit: register %s: %d constructors, want one of Additive, Rotary and Relative", p.Name,
			constructors)
	case p.Pretrained && p.Additive == nil:
		return fmt.Errorf("vit: register %s: only an additive encoding begins with a pretrained table", p.Name)
	}
	for _, own := range p.Variables {
		for _, q := range positions {
			if (Encoding{q}).Owns(own) && (!p.Pretrained || own != learnedName) {
				return fmt.Errorf("vit: register %s: variable %q is one of %s", p.Name, own, q.Name)
			}
		}
	}
	return nil
}
