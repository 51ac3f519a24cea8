// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"fmt"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func TestCPEEqualsTimm(t *testing.T) { fixtures.Each(t, testCPEEqualsTimm) }

// On every grid: the tokens after the first block and its convolution, the logits, and the gradients of a convolution.
func testCPEEqualsTimm(t *testing.T) {
	var meta struct {
		Config struct {
			PatchSize int     `json:"patch_size"`
			Registers int     `json:"reg_tokens"`
			Width     int     `json:"embed_dim"`
			Depth     int     `json:"depth"`
			Heads     int     `json:"num_heads"`
			MLPRatio  float64 `json:"mlp_ratio"`
			Classes   int     `json:"num_classes"`
			Epsilon   float64 `json:"layer_norm_eps"`
			Blocks    int     `json:"cpe_blocks"`
		}
		Grids     [][2]int `json:"grids_h_w"`
		Tolerance struct {
			Abs  float64
			Grad float64 `json:"grad_rel"`
		}
	}
	fixtures.JSON(t, "cpe", "meta.json", &meta)
	want, m := fixtures.Tensors(t, "cpe", "tensors.safetensors"), meta.Config
	c := Config{
		PatchSize: m.PatchSize, Registers: m.Registers, Width: m.Width, Depth: m.Depth, Heads: m.Heads,
		MLPDim: int(m.MLPRatio * float64(m.Width)), Classes: m.Classes, Epsilon: m.Epsilon, Position: "cpe",
	}
	f := load(t, "cpe")
	f.Store.SetParam("/"+"cpe_blocks", m.Blocks)
	f.conv("patch", "patch_embed.proj")
	f.Set("class", f.Get("cls_token").Data, 1, c.Width)
	f.Set("registers", f.Get("reg_token").Data, c.Registers, c.Width)
	f.blocks(c, "", "attn.qkv.weight", "attn.qkv.bias", "attn.proj", "mlp.fc1", "mlp.fc2")
	for block := range m.Blocks {
		from, to := fmt.Sprintf("blocks.%d.cpe", block), fmt.Sprintf("position/cpe/block_%02d/", block)
		f.Set(to+"kernel", gomlxtest.Reversed(f.Get(from+".weight").Data, c.Width, 1, 9), 3, 3, c.Width)
		f.Vector(to+"bias", from+".bias")
	}
	f.Norm("norm", "norm")
	f.Linear("head", "head.weight", "head.bias", 0, c.Classes)
	f.AllUsed("")
	for _, grid := range meta.Grids {
		p := fmt.Sprintf("grid%dx%d.", grid[0], grid[1])
		c.ImageRows, c.ImageCols = grid[0]*c.PatchSize, grid[1]*c.PatchSize
		got := run(t, f.Store, func(s *model.Scope, in []*Node) []*Node {
			trace := c.Trace(s.In("vit"), in[0], false)
			of := func(name string) *Node {
				return f.Store.GetVariable("/vit/position/cpe/block_00/" + name).NodeValue(in[0].Graph())
			}
			gradients := Gradient(ReduceAllSum(Square(trace.Logits)), of("kernel"), of("bias"))
			return append([]*Node{trace.Blocks[0].Output, trace.Logits}, gradients...)
		}, gomlxtest.Input(want[p+"images_nhwc"]))
		gomlxtest.NearAbs(t, p+"block 0", got[0], want[p+"block_0"].Data, meta.Tolerance.Abs)
		gomlxtest.NearAbs(t, p+"logits", got[1], want[p+"logits"].Data, meta.Tolerance.Abs)
		gomlxtest.Near(t, p+"gradient of the kernel", got[2],
			gomlxtest.Reversed(want[p+"grad.weight"].Data, c.Width, 1, 9), meta.Tolerance.Grad)
		gomlxtest.Near(t, p+"gradient of the bias", got[3], want[p+"grad.bias"].Data, meta.Tolerance.Grad)
	}
}
