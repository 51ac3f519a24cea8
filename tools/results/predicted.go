// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/vit"
)

// The assumptions of docs/scale.md, in bytes, operations and images per second.
const (
	gpuImages    = 128    // of a micro-batch on each GPU
	gpuRate      = 100e12 // FLOP/s
	nvlinkRate   = 200e9
	pcieRate     = 20e9
	memoryRate   = 10e9
	networkFast  = 20e9  // 200 Gb/s, the part achieved in practice
	networkSlow  = 1.1e9 // 10 Gb/s
	gpusOfServer = 8
)

// computing returns the predicted share of compute time in a training step, in percent.
func computing(flops, parameters float64, gpus, microBatches int, network float64) float64 {
	bytes, parts := 4*parameters, float64(microBatches)
	inside, servers := float64(min(gpus, gpusOfServer)), float64(max(1, gpus/gpusOfServer))
	compute := parts * gpuImages * 3 * flops / gpuRate
	exchange := parts * 2 * (inside - 1) / inside * bytes / nvlinkRate
	if servers > 1 {
		exchange += 2*bytes/pcieRate + 3*bytes/memoryRate + 2*(servers-1)/servers*bytes/network
	}
	return 100 * compute / (compute + exchange)
}

// scalingTable predicts how models scale with GPUs: the last column has eight micro-batches.
func scalingTable() (report.Table, error) {
	table := report.Table{Header: []string{"model", "parameters, M", "GFLOPs/image", "compute, ms"},
		Numeric: []bool{false, true, true, true}}
	gpus := []int{2, 4, 8, 16, 32, 64, 64}
	for i, n := range gpus {
		name, last := fmt.Sprint(n), i == len(gpus)-1
		if last {
			name += ", eight micro-batches"
		}
		table.Header, table.Numeric = append(table.Header, name), append(table.Numeric, true)
	}
	for _, name := range []string{"Ti/16", "S/16", "B/16"} {
		c, err := vit.Variant(name)
		if err != nil {
			return table, err
		}
		flops := c.FLOPs()
		count := map[string]float64{"Ti/16": 5.7e6, "S/16": 22.1e6, "B/16": 86.6e6}[name] // with a head of 1,000 classes
		line := []string{name, fmt.Sprintf("%.1f", count/1e6), fmt.Sprintf("%.1f", 3*flops/1e9),
			fmt.Sprintf("%.0f", gpuImages*3*flops/gpuRate*1e3)}
		for i, n := range gpus {
			parts := 1
			if i == len(gpus)-1 {
				parts = 8
			}
			cell := fmt.Sprintf("%.0f", computing(flops, count, n, parts, networkFast))
			if n > gpusOfServer {
				cell += fmt.Sprintf(" (%.0f)", computing(flops, count, n, parts, networkSlow))
			}
			line = append(line, cell)
		}
		table.Rows = append(table.Rows, line)
	}
	return table, nil
}
