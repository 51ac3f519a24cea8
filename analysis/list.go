// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"slices"
	"strings"
)

// Analysis is a measurement of models.
type Analysis struct {
	Name, Group string
	Title       string
	do          func(*subject) error
	About       string // what is measured, with its units
	Claim       string // what the paper reports
}

// Groups of analyses.
const (
	positions  = "positions"
	attentions = "attention"
	robustness = "robustness"
)

var groups = []string{positions, attentions, robustness}

// All are the analyses, in the order of the page.
var All = []Analysis{
	{"similarity", positions, "Similarity of positions", similarity,
		"Cosine similarity of the vectors that are added to patches, and their principal axes: 1 is all of the variance.",
		"WePE's first two axes lay the grid out as a smooth surface, a learned table's do not."},
	{"directions", positions, "Functions of the position in the vectors", directions,
		"Length of the vectors that are added to patches, how many principal axes they have, and R² of a linear fit by " +
			"features of the position: 1 is all of the variance.", ""},
	{"decay", positions, "Decay of similarity with distance", decay,
		"Over all pairs of patches: distance in percent of the largest, cosine similarity mapped to 6 … 20, in 79 " +
			"bins. The paper's number is that of the means of bins, of encoding plus noise: averaging leaves little but the " +
			"trend.",
		"ρ = −0.966, from 16.5 to 13.8 (16.4 %), 87.5 % of the bins fall, of an untrained model and one draw of noise."},
	{"probe", positions, "Distance of two patches, read from their vectors", probe,
		"An MLP of 128 and 64 learns (columns, rows) between two patches from content and position of both, with " +
			"8,000 pairs balanced over distance; errors of 2,000 pairs of other images, the two coordinates added.",
		"MSE 0.90, MAE 0.90, RMSE 0.95 against 6.69, 2.83, 2.59 of a learned table, measured on the training pairs."},
	{"sensitivity", positions, "Sensitivity to hyperparameters", sensitivity,
		"Deviation over mean, across the values of each study, of the features' decay with distance and of their " +
			"modulus; encodings as drawn, on the grid of the model. Of the surrogate in hybrid it is the grid of β and γ.",
		"0 for κ and C_large, whose guard no patch ever reaches; α and α_scale change more."},
	{"maps", attentions, "Attention maps of three patches", maps,
		"Attention from the centre and two corners in the first and the last layer.",
		"before any training a WePE model's first layer attends around the query, a learned table's evenly."},
	{"rollout", attentions, "Attention rollout of the prediction", rollout,
		"The class token's row (the mean of all rows where there is no class token), of the last layer and rolled " +
			"out through all layers (mean over heads, nothing discarded).",
		"WePE's maps follow objects."},
	{"distance", attentions, "Attention distance", distance,
		"Mean distance of a query to what it attends to, patches alone, rows divided by their sums; multiply by " +
			"the patch size for pixels.", ""},
	{"entropy", attentions, "Attention entropy",
		byLayer("entropy, nats", "entropy (nats)", func(s headSpread) float64 { return s.Entropy }),
		"−Σ A ln A of patch queries over patch keys, mean over queries and heads; ln N of even attention.",
		"4.6 to 4.9 in early layers against 5.1 to 5.3 of a learned table, where ln 196 = 5.28."},
	{"range", attentions, "Radius of 90 % of the attention",
		byLayer("effective range, patches", "radius (patches)", func(s headSpread) float64 { return s.Range }),
		"The smallest radius around the query that holds 90 % of its weight, mean over queries and heads.",
		"10.0 against 11.5 patches in layer 1."},
	{"tsne", attentions, "Position in the features", tsne,
		"Patch features of the last block by exact t-SNE; silhouette by quarter of the image (1 is apart, 0 is " +
			"mixed), and R² of row and column from the 5 nearest features, which needs no image.",
		"WePE's features group by position."},
	{"likeness", attentions, "Similarity of the features of two models", likeness,
		"Unbiased linear CKA of the mean-pooled patch features, of the same layer on the same images: 1 is equal up to " +
			"rotation and scale.", ""},
	{"masks", attentions, "Rollout against object masks", masks,
		"Rollout enlarged to pixels, against the pixels of the object; a threshold at half of the range depends on " +
			"the brightest pixel, those at quantiles do not.",
		"COCO, IoU at half of the range 0.2408 ± 0.1835 against 0.2213 ± 0.1652, p = 0.0197; correlation 0.0734 " +
			"against 0.0255, p = 0.23."},
	{"separation", attentions, "Error rate by spread of attention", separation,
		"Error rate by the mean distance between the 5 patches that the prediction attends to most in the last layer; " +
			"bands are one binomial deviation.",
		"98.8 % of the images between 2 and 10 patches, with error rates of 0.31 to 0.38."},
	{"occlusion", robustness, "Hidden patches", occlusion,
		"Test accuracy where patches have the mean colour, the same ones for all models.",
		"56.8, 45.1, 32.1 % at 10, 20, 30 % against 21.3, 15.6, 13.2 of a learned table, itself trained to 25 %."},
	{"geometry", robustness, "Rotation, scale, shift and shear", geometry,
		"Test accuracy of images turned counter-clockwise, scaled, shifted and sheared, bilinear, the mean " +
			"colour outside.",
		"WePE loses less than a learned table, whose model was trained to 25 %."},
	{"resolution", robustness, "Other sizes and aspect ratios", resolution,
		"The same weights on other grids without training, each encoding by its own rule; height × width.", ""},
	{"shuffle", robustness, "Shuffled patches", shuffle,
		"Test accuracy where the patches of each image are shuffled: how much a model uses positions at all.", ""},
}

// Choose returns the analyses selected by names, groups or "all".
func Choose(what []string) (chosen []Analysis, err error) {
	for _, name := range what {
		if name != "all" && !slices.ContainsFunc(All, func(a Analysis) bool { return a.Name == name || a.Group == name }) {
			return nil, fmt.Errorf("unknown analysis %q: want all, %s", name, names())
		}
	}
	for _, a := range All {
		if slices.Contains(what, "all") || slices.Contains(what, a.Name) || slices.Contains(what, a.Group) {
			chosen = append(chosen, a)
		}
	}
	return chosen, nil
}

// names lists the groups with their analyses.
func names() string {
	var list []string
	for _, group := range groups {
		var of []string
		for _, a := range All {
			if a.Group == group {
				of = append(of, a.Name)
			}
		}
		list = append(list, fmt.Sprintf("%s (%s)", group, strings.Join(of, ", ")))
	}
	return strings.Join(list, ", ")
}
