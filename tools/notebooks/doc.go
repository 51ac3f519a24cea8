// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package notebooks pins the tools and the imports of the notebooks; see tools/scripts/notebooks.
package notebooks

import (
	_ "github.com/gomlx/gomlx/ui/gonb/margaid" // GoMLX's plots
	_ "github.com/janpfeifer/gonb/gonbui"      // images in a notebook
)
