// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package wepe gives the tokens of a Vision Transformer a sense of two-dimensional place: Weierstrass elliptic
// positional encoding as a GoMLX layer.
package wepe
