// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package detect finds objects: ViTDet (https://arxiv.org/abs/2203.16527), a plain ViT with a simple feature pyramid,
// under the heads of Mask R-CNN (https://arxiv.org/abs/1703.06870).
package detect

// Scopes of a detector's variables.
const backboneScope = "backbone"
