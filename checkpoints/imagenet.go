// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	_ "embed"
	"strings"
)

// The classes of ImageNet-1k (ILSVRC 2012) in order: the first lemma of each synset in Princeton's WordNet 3.0, with a
// second word where two classes share it, as torchvision's weights have them.
//
//go:embed imagenet1k.txt
var imagenet1k string

// knownLabels are the names of the classes of a model without names: timm takes a model of 1000 classes to be of
// ImageNet-1k (infer_imagenet_subset).
func knownLabels(format string, classes int) []string {
	if names := strings.Split(strings.TrimSpace(imagenet1k), "\n"); format == formatTimm && classes == len(names) {
		return names
	}
	return nil
}
