// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package house

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/vit"
)

// What docs/scale.md assumes of machines, per second.
const (
	gpuFLOPs     = 100e12 // of one GPU
	gpuBytes     = 200e9  // between the GPUs of a machine, all-reduced
	hostBytes    = 20e9   // between a GPU and its host
	copyBytes    = 10e9   // by one core within the host's memory
	fastBytes    = 20e9   // between machines, 200 Gb/s
	slowBytes    = 1.1e9  // 10 Gb/s
	gpusOfOne    = 8      // machine
	imagesOfOne  = 128    // GPU in a step
	copiesOnHost = 3      // of the gradients: into the sum, in it, out of it
)

// efficiency is the part of a step that n GPUs compute, and do not communicate, by the formula of docs/scale.md. Each
// process computes so many parts of a batch.
func efficiency(config vit.Config, n, parts int, network float64) float64 {
	gradients := 4 * float64(config.Parameters())
	allReduced := func(by int, bytes float64) float64 { return 2 * float64(by-1) / float64(by) * gradients / bytes }
	compute := float64(parts) * imagesOfOne * 3 * config.FLOPs() / gpuFLOPs
	step := compute + float64(parts)*allReduced(min(n, gpusOfOne), gpuBytes)
	if machines := n / gpusOfOne; machines > 1 {
		step += allReduced(machines, network) + 2*gradients/hostBytes + copiesOnHost*gradients/copyBytes
	}
	return compute / step
}

func TestTheTableOfScaleIsItsFormula(t *testing.T) {
	page := read(t, "docs/scale.md")
	for _, name := range []string{"Ti/16", "S/16", "B/16"} {
		config, err := vit.Variant(name)
		if err != nil {
			t.Fatal(err)
		}
		config.ImageRows, config.ImageCols, config.Classes, config.Position = 224, 224, 1000, "learned"
		row := fmt.Sprintf("| %s | %.1f | %.1f | %.0f |", name, float64(config.Parameters())/1e6, 3*config.FLOPs()/1e9,
			imagesOfOne*3*config.FLOPs()/gpuFLOPs*1e3)
		for _, n := range []int{2, 4, 8, 16, 32, 64} {
			if row += fmt.Sprintf(" %.0f", 100*efficiency(config, n, 1, fastBytes)); n > gpusOfOne {
				row += fmt.Sprintf(" (%.0f)", 100*efficiency(config, n, 1, slowBytes))
			}
			row += " |"
		}
		row += fmt.Sprintf(" %.0f (%.0f) |", 100*efficiency(config, 64, 8, fastBytes),
			100*efficiency(config, 64, 8, slowBytes))
		if !strings.Contains(page, row) {
			t.Errorf("docs/scale.md does not say\n%s", row)
		}
	}
}
