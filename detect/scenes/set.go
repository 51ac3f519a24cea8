// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"fmt"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/detect/coco"
)

// Set returns the scenes as labelled pictures for a classifier, and which pixels of each are an object's: [Height,
// Width], row-major, all objects together. The label is the kind of the object of which most is seen, the first of
// equal ones; so whoever answers has to look at objects, and attention can be held to the masks.
func (g Generated) Set() (set *data.Memory, mask func(i int) []bool, err error) {
	if err := g.Validate(); err != nil {
		return nil, nil, err
	}
	set = &data.Memory{Info: data.Info{Name: fmt.Sprintf("scenes-%d", g.Seed), Height: g.Height, Width: g.Width, Channels: 3}}
	for _, c := range categories {
		set.Classes = append(set.Classes, c.Name)
	}
	var unions []coco.RLE
	for i := range g.Count {
		s, err := g.At(i)
		if err != nil {
			return nil, nil, err
		}
		union := coco.RLE{Height: g.Height, Width: g.Width}
		label, most := 0, 0
		for _, o := range s.Objects {
			if union, err = coco.Union(union, o.Mask); err != nil {
				return nil, nil, err
			}
			if area := o.Mask.Area(); area > most {
				label, most = o.Class, area
			}
		}
		set.Pixels, set.Labels = append(set.Pixels, s.Picture.Pixels...), append(set.Labels, int32(label))
		unions = append(unions, union)
	}
	return set, func(i int) []bool { return unions[i].Decode() }, nil
}
