// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"slices"
	"strings"
)

// Figures are all figures, in the order of pages. A new one is a row here and a function.
var Figures = []Figure{
	{
		Name: "similarity", Group: Positions, Title: "How alike are positions?", do: similarity,
		About: "Cosine similarity of the vectors that are added to patches, and their principal axes: 1 is all of the " +
			"variance.",
		Claim: "WePE's first two axes lay the grid out as a smooth surface, a learned table's do not.",
	},
	{
		Name: "directions", Group: Positions, Title: "What functions of the place are positions?", do: directions,
		About: "Length of the vectors that are added to patches, how many principal axes they have, and R² of a linear fit " +
			"by " +
			"features of the place: 1 is all of the variance.",
	},
	{
		Name: "decay", Group: Positions, Title: "Does likeness decay with distance?", do: decay,
		About: "Over all pairs of patches: distance in percent of the largest, cosine similarity mapped to 6 … 20, in 79 " +
			"bins. The paper's number is that of the means of bins, of encoding plus noise: averaging leaves little but the " +
			"trend.",
		Claim: "ρ = −0.966, from 16.5 to 13.8 (16.4 %), 87.5 % of the bins fall, of an untrained model and one draw of " +
			"noise.",
	},
	{
		Name: "probe", Group: Positions, Title: "Can two vectors tell how far their patches are apart?", do: probe,
		About: "An MLP of 128 and 64 learns (columns, rows) between two patches from content and position of both, with " +
			"8,000 pairs balanced over distance; errors of 2,000 pairs of other images, the two coordinates added.",
		Claim: "MSE 0.90, MAE 0.90, RMSE 0.95 against 6.69, 2.83, 2.59 of a learned table, measured on the training pairs.",
	},
	{
		Name: "sensitivity", Group: Positions, Title: "What do hyperparameters change?", do: sensitivity,
		About: "Deviation over mean, across the values of each study, of what the features say of distance and of their " +
			"size; encodings as drawn, on the grid of the model. Of the surrogate in hybrid it is the grid of β and γ.",
		Claim: "0 for κ and C_large, whose guard no patch ever reaches; α and α_scale change more.",
	},
	{
		Name: "maps", Group: Attention, Title: "Where do patches look?", do: maps,
		About: "Attention from the centre and two corners in the first and the last layer.",
		Claim: "before any training a WePE model's first layer attends around the query, a learned table's evenly.",
	},
	{
		Name: "rollout", Group: Attention, Title: "What does the answer look at?", do: rollout,
		About: "The class token's row (the mean of all rows where there is no class token), of the last layer and rolled " +
			"out through all layers (mean over heads, nothing discarded).",
		Claim: "WePE's maps follow objects.",
	},
	{
		Name: "distance", Group: Attention, Title: "How far does attention reach?", do: distance,
		About: "Mean distance of a query to what it attends to, patches alone, rows divided by their sums; multiply by " +
			"the patch size for pixels.",
	},
	{
		Name: "entropy", Group: Attention, Title: "How spread is attention?",
		do:    spread("entropy, nats", "entropy (nats)", func(a Spread) float64 { return a.Entropy }),
		About: "−Σ A ln A of patch queries over patch keys, mean over queries and heads; ln N of even attention.",
		Claim: "4.6 to 4.9 in early layers against 5.1 to 5.3 of a learned table, where ln 196 = 5.28.",
	},
	{
		Name: "range", Group: Attention, Title: "In which radius is 90 % of the attention?",
		do:    spread("effective range, patches", "radius (patches)", func(a Spread) float64 { return a.Range }),
		About: "The smallest radius around the query that holds 90 % of its weight, mean over queries and heads.",
		Claim: "10.0 against 11.5 patches in layer 1.",
	},
	{
		Name: "tsne", Group: Attention, Title: "Do features know their place?", do: tsne,
		About: "Patch features of the last block by exact t-SNE; silhouette by quarter of the image (1 is apart, 0 is " +
			"mixed), and R² of row and column from the 5 nearest features, which needs no image.",
		Claim: "WePE's features group by place.",
	},
	{
		Name: "likeness", Group: Attention, Title: "How alike are the features of two models?", do: likeness,
		About: "Unbiased linear CKA of the patch features, mean over patches, of the same layer on the same images: 1 is " +
			"equal up to rotation and scale.",
	},
	{
		Name: "masks", Group: Attention, Title: "Does rollout find the object?", do: masks,
		About: "Rollout enlarged to pixels, against the pixels of the object; a threshold at half of the range depends on " +
			"the brightest pixel, those at quantiles do not.",
		Claim: "COCO, IoU at half of the range 0.2408 ± 0.1835 against 0.2213 ± 0.1652, p = 0.0197; correlation 0.0734 " +
			"against 0.0255, p = 0.23.",
	},
	{
		Name: "separation", Group: Attention, Title: "Are answers wrong where attention is scattered?", do: separation,
		About: "Error rate by the mean distance between the 5 patches that the answer attends to most in the last layer; " +
			"bands are one binomial deviation.",
		Claim: "98.8 % of the images between 2 and 10 patches, with error rates of 0.31 to 0.38.",
	},
	{
		Name: "occlusion", Group: Robustness, Title: "What if patches are hidden?", do: occlusion,
		About: "Test accuracy where patches have the mean colour, the same ones for all models.",
		Claim: "56.8, 45.1, 32.1 % at 10, 20, 30 % against 21.3, 15.6, 13.2 of a learned table, itself trained to 25 %.",
	},
	{
		Name: "geometry", Group: Robustness, Title: "What if images are moved?", do: geometry,
		About: "Test accuracy of images turned counter-clockwise, scaled, shifted and sheared, bilinear, the mean " +
			"colour outside.",
		Claim: "WePE loses less than a learned table, whose model was trained to 25 %.",
	},
	{
		Name: "resolution", Group: Robustness, Title: "What if images have another size or shape?", do: resolution,
		About: "The same weights on other grids without training, each encoding by its own rule; height × width.",
	},
	{
		Name: "shuffle", Group: Robustness, Title: "What if patches change places?", do: shuffle,
		About: "Test accuracy where the patches of each image are shuffled: how much a model uses places at all.",
	},
}

// Choose returns the figures of names, of groups, or all of them.
func Choose(what []string) (chosen []Figure, err error) {
	for _, name := range what {
		known := name == "all"
		for _, f := range Figures {
			known = known || f.Name == name || f.Group == name
		}
		if !known {
			return nil, fmt.Errorf("unknown figure %q: want all, %s", name, Names())
		}
	}
	for _, f := range Figures {
		if slices.Contains(what, "all") || slices.Contains(what, f.Name) || slices.Contains(what, f.Group) {
			chosen = append(chosen, f)
		}
	}
	return chosen, nil
}

// Names lists the groups with their analysis.
func Names() string {
	var groups []string
	for _, group := range []string{Positions, Attention, Robustness} {
		var names []string
		for _, f := range Figures {
			if f.Group == group {
				names = append(names, f.Name)
			}
		}
		groups = append(groups, fmt.Sprintf("%s (%s)", group, strings.Join(names, ", ")))
	}
	return strings.Join(groups, ", ")
}
