// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build unix

package vit

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// cpuTime is what this process has used of all cores.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkLieRE times the rotations of one layer of ViT-Ti/16 at 224×224 and of one image's queries and keys, and
// their gradients by the generators. The rotations are all but a small part, and do not grow with the batch. Read
// "cpu-ms": it counts all cores, and does not depend on what else the machine does.
func BenchmarkLieRE(b *testing.B) {
	c, err := Variant("Ti/16")
	if err != nil {
		b.Fatal(err)
	}
	c.Position = "liere"
	for _, block := range []int{8, 64} {
		for _, gradient := range []bool{false, true} {
			b.Run(fmt.Sprintf("block=%d/gradient=%t", block, gradient), func(b *testing.B) {
				store := model.NewStore()
				store.SetParam(ParamLiereBlock, block)
				nodes := 0
				exec, err := model.NewExec(gomlxtest.Backend(), store, func(s *model.Scope, g *Graph) *Node {
					x := IotaFull(g, shapes.Make(dtypes.Float32, 1, c.Tokens(), c.Heads, c.headDim()))
					q, k := c.Encoders(s.In("vit")).Rotary.Block(0).EncodeQK(x, x, nil, 1)
					y := Add(ReduceAllSum(Square(Add(q, x))), ReduceAllSum(k))
					if gradient {
						v := store.GetVariable("/vit/position/liere/block_00/generators")
						y = ReduceAllSum(Gradient(y, v.NodeValue(g))[0])
					}
					nodes = len(g.Nodes())
					return y
				})
				if err != nil {
					b.Fatal(err)
				}
				defer exec.Finalize()
				exec.MustCall() // compiles
				start := cpuTime(b)
				b.ResetTimer()
				for range b.N {
					exec.MustCall()
				}
				b.StopTimer()
				b.ReportMetric(1e3*(cpuTime(b)-start).Seconds()/float64(b.N), "cpu-ms")
				b.ReportMetric(float64(nodes), "nodes")
			})
		}
	}
}
