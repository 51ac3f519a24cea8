// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"slices"

	"github.com/wepe-go/wepe/internal/setting"
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
	{"similarity", positions, "Similarity of position embeddings", ofVectors(similarity),
		"Cosine similarity of the vectors that the encoding adds to the patch tokens, and the share of their variance " +
			"that the first principal components explain.",
		"WePE's first two components lay the grid out as a smooth surface, those of a learned table do not."},
	{"directions", positions, "Principal components of the position embeddings", ofVectors(directions),
		"Norm of the added vectors, number of their principal components, and R² of a linear regression on functions of " +
			"the position.", ""},
	{"decay", positions, "Decay of similarity with distance", ofVectors(decay),
		"Correlation of distance and cosine similarity, over all pairs of patches and, as in the paper, over the means " +
			"of 79 distance bins, with similarity mapped to 6 … 20. The paper adds noise to the encoding. Averaging within " +
			"bins removes most of the scatter.",
		"ρ = −0.966; similarity decreases from 16.5 to 13.8 (16.4 %), and in 87.5 % of the bins, with an untrained model " +
			"and one draw of noise."},
	{"probe", positions, "Distance probe", ofVectors(probe),
		"An MLP with layers of 128 and 64 units predicts the offset (columns, rows) of two patches from their content " +
			"and position embeddings. It is trained on pairs balanced over distance, and tested on a quarter as many of " +
			"other images; MSE and MAE are sums over both coordinates.",
		"MSE 0.90, MAE 0.90, RMSE 0.95, against 6.69, 2.83, 2.59 with a learned table, measured on the training pairs."},
	{"sensitivity", positions, "Sensitivity to hyperparameters", ofVectors(sensitivity),
		"Coefficient of variation of the features' decay with distance and of their modulus, over the values of a " +
			"hyperparameter, for initial encodings on the grid of the model; with hybrid, over a grid of β and γ.",
		"0 for κ and C_large, because no patch is near enough to a pole; larger for α and α_scale."},
	{"maps", attentions, "Attention maps of three patches", ofAttention(maps),
		"Attention from the centre and two corners, in the first and in the last layer.",
		"before training, the first layer attends to the surroundings of the query with WePE, uniformly with a learned " +
			"table."},
	{"rollout", attentions, "Attention rollout", ofAttention(rollout),
		"Attention of the class token (without one, the mean over all patches) in the last layer, and rolled out through " +
			"all layers (mean over heads, no discarding).",
		"WePE's maps follow objects."},
	{"distance", attentions, "Attention distance", ofAttention(distance),
		"Mean distance between a query and the patches that it attends to, weighted by attention to patches only; " +
			"multiply by the patch size for pixels.", ""},
	{"entropy", attentions, "Attention entropy",
		ofAttention(byLayer("entropy, nats", "entropy (nats)", func(s headSpread) float64 { return s.Entropy })),
		"−Σ A ln A from patch queries to N patch keys, mean over queries and heads; uniform attention has ln N.",
		"4.6 to 4.9 in early layers, against 5.1 to 5.3 with a learned table, where ln 196 = 5.28."},
	{"range", attentions, "Effective range of attention",
		ofAttention(byLayer("effective range, patches", "radius (patches)", func(s headSpread) float64 { return s.Range })),
		"Smallest radius around the query that contains 90 % of its attention, mean over queries and heads.",
		"10.0 patches in layer 1, against 11.5 with a learned table."},
	{"depth", attentions, "Position by layer", depth,
		"R² of row and column of a patch, predicted from its token by a linear regression on other images; share of the " +
			"variance of attention weights over images and pairs of patches that their mean over images has.", ""},
	{"tsne", attentions, "t-SNE of patch features", ofAttention(tsne),
		"Exact t-SNE of the patch features of the last block, of one image or as many as have 250. Silhouette by quadrant " +
			"of the image: 1 is separated, 0 mixed. R² of row and column, predicted by the 5 nearest neighbours among the " +
			"features, does not depend on t-SNE.",
		"WePE's features group by position."},
	{"cka", attentions, "Similarity of two models (CKA)", ofAttention(cka),
		"Unbiased linear CKA of the mean-pooled patch features, of the same layer on the same images: 1 is equal up to " +
			"rotation and scale.", ""},
	{"masks", attentions, "Attention rollout and object masks", masks,
		"Rollout, upsampled to pixels, compared with the mask of the object, of at most 50 images. A threshold at " +
			"half of the range depends on the largest value, thresholds at quantiles do not.",
		"COCO, IoU at half of the range 0.2408 ± 0.1835 against 0.2213 ± 0.1652, p = 0.0197; correlation 0.0734 against " +
			"0.0255, p = 0.23."},
	{"separation", attentions, "Error rate by spread of attention", separation,
		"Error rate by mean distance between the 5 patches that the prediction attends to most in the last layer; bands " +
			"are one binomial standard deviation.",
		"98.8 % of the images are between 2 and 10 patches, with error rates of 0.31 to 0.38."},
	{"occlusion", robustness, "Occlusion", disturbed(occlusions),
		"Test accuracy with patches replaced by the mean colour, the same patches for all models. Images are first " +
			"resized to the model's size and rounded, for all disturbances.",
		"56.8, 45.1, 32.1 % at 10, 20, 30 %, against 21.3, 15.6, 13.2 % with a learned table, whose model was trained to " +
			"25 %."},
	{"geometry", robustness, "Rotation, scaling, translation and shear", disturbed(movements),
		"Test accuracy on images rotated counter-clockwise, scaled, translated and sheared, with bilinear interpolation " +
			"and the mean colour outside.",
		"WePE loses less than a learned table, whose model was trained to 25 %."},
	{"resolution", robustness, "Other sizes and aspect ratios", resolution,
		"Test accuracy of the same weights at other sizes, height × width, without training; each encoding adapts by its " +
			"own rule.", ""},
	{"shuffle", robustness, "Shuffled patches", disturbed(shuffles),
		"Test accuracy with the patches of each image in random order: it shows how much a model uses positions.", ""},
}

// Choose returns the analyses selected by names, groups or "all".
func Choose(what []string) (chosen []Analysis, err error) {
	known := append([]string{"all"}, groups...)
	for _, a := range All {
		known = append(known, a.Name)
		if slices.Contains(what, "all") || slices.Contains(what, a.Name) || slices.Contains(what, a.Group) {
			chosen = append(chosen, a)
		}
	}
	for _, name := range what {
		if !slices.Contains(known, name) {
			return nil, setting.Unknown("analysis", name, known)
		}
	}
	return chosen, nil
}
