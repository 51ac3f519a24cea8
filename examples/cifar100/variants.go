// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/vit"
)

// variant is one line of a comparison: an encoding, and what the recipe changes for it.
type variant struct {
	position string
	label    string // of the encoding in rows and tables
	settings string // for Recipe.Set
}

// named is a comparison of the paper, by name.
type named struct {
	name, about string
	pretrained  bool // makes sense with -from only
	variants    []variant
	aspects     [][2]int // rows : cols of the pictures, all of about the recipe's area
}

// named studies. The lattices, β, γ and λ that the paper does not print are ours.
var studies = []named{
	{
		name: "encodings", about: "every encoding that trains from scratch",
		variants: each(fromScratch()),
	},
	{
		name: "ablation", about: "what each part of WePE is worth",
		variants: []variant{
			{"wepe", "wepe", ""},
			{"wepe", "wepe without ℘′", "wepe_derivative=false"},
			{"wepe", "wepe, lattice fixed", "wepe_learn_lattice=false"},
			{"wepe", "wepe, α_scale fixed", "wepe_learn_alpha_scale=false"},
			{"wepe", "wepe, β_pos = 1 fixed", "wepe_learn_beta_pos=false;wepe_beta_pos=1"},
			{"wepe", "wepe, g2 = 1, g3 = 0.1", "wepe_g2=1;wepe_g3=0.1"}, // not lemniscatic, and rectangular
			{"wepe", "wepe, MLP projection", "wepe_projection=mlp"},
			{"none", "none", ""},
		},
	},
	{
		name:    "aspect",
		about:   "-position's encodings on pictures squeezed to 1:1, 2:1, 1:2, 1:3 and 4:1, height before width",
		aspects: [][2]int{{1, 1}, {2, 1}, {1, 2}, {1, 3}, {4, 1}},
	},
	{
		name: "gate", about: "where the gate λ and the encoding that it blends should start, against the pretrained table " +
			"kept and replaced",
		pretrained: true,
		variants: slices.Concat(each([]string{"learned", "wepe"}),
			gates("hybrid", "wepe_start=drawn", 0.02, 0.12, 0.5, 1),
			gates("hybrid centred", "wepe_start=centred", 0.12, 0.5, 1),
			gates("hybrid fitted", "wepe_start=fitted", 0.12, 0.5, 1),
			gates("hybrid over ℘", "wepe_blend=exact;wepe_start=drawn", 0.12, 0.5, 1)),
	},
	{
		name: "beta-gamma", about: "where β and γ of the surrogate should start", pretrained: true,
		variants: slices.Concat(each([]string{"learned"}),
			grid("hybrid", "β = %g, γ = %g", "wepe_surrogate_beta=%g;wepe_surrogate_gamma=%g",
				[]float64{0.2, 0.75, 2}, []float64{0.5, 1, 2})),
	},
}

// fromScratch lists the encodings that do not want a pretrained model.
func fromScratch() (names []string) {
	for _, p := range vit.Positions() {
		if !p.Pretrained {
			names = append(names, p.Name)
		}
	}
	return names
}

// each makes a variant of every encoding as it is.
func each(positions []string) []variant {
	out := make([]variant, len(positions))
	for i, p := range positions {
		out[i] = variant{position: p, label: p}
	}
	return out
}

// gates makes a variant of "hybrid" for every initial λ. At 1, which has no gradient, λ is fixed: the encoding alone.
func gates(label, settings string, lambdas ...float64) (out []variant) {
	for _, lambda := range lambdas {
		v := variant{"hybrid", fmt.Sprintf("%s λ = %g", label, lambda), fmt.Sprintf("%s;wepe_gate=%g", settings, lambda)}
		if lambda == 1 {
			v.label, v.settings = v.label+" fixed", v.settings+";wepe_learn_gate=false"
		}
		out = append(out, v)
	}
	return out
}

// grid makes a variant of one encoding for every combination of values.
func grid(position, label, settings string, values ...[]float64) (out []variant) {
	combinations := [][]any{nil}
	for _, axis := range values {
		var longer [][]any
		for _, c := range combinations {
			for _, v := range axis {
				longer = append(longer, append(slices.Clone(c), v))
			}
		}
		combinations = longer
	}
	for _, c := range combinations {
		out = append(out, variant{position, position + " " + fmt.Sprintf(label, c...), fmt.Sprintf(settings, c...)})
	}
	return out
}

// studyNamed returns the study of that name.
func studyNamed(name string) (named, error) {
	var known []string
	for _, s := range studies {
		if s.name == name {
			return s, nil
		}
		known = append(known, s.name)
	}
	return named{}, fmt.Errorf("-study: unknown study %q: want one of %s", name, strings.Join(known, ", "))
}

// published are top-1 accuracies on CIFAR-100 from scratch that the paper prints, by encoding or variant; conditions
// says of what.
var published = map[string]float64{
	"learned": 56.46, "wepe": 63.78, "wepe, g2 = 1, g3 = 0.1": 63.20,
}

const conditions = "the paper: ViT-Ti/16 at 224×224, 120 epochs, best test epoch of one seed; its other lattice is " +
	"lemniscatic all the same (docs/deviations.md)"

// publishedDHVT are those of DHVT.
var publishedDHVT = map[string]float64{"none": 74.78, "wepe": 76.53}

const conditionsDHVT = "the paper: DHVT-T, and a DHVT with WePE that is wider in the released script, 300 epochs at " +
	"224×224, best test epoch of one seed"
