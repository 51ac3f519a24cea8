// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/vit"
)

var dinoSets = []string{"dinov2_tiny", "dinov2_reg_tiny", "dinov3_vit_tiny", "dinov3_vit_tiny_swiglu"}

type dinoMeta struct {
	Rect      [2]int `json:"rect_grid_h_w"`
	Tolerance struct {
		Abs  float64
		Grad float64 `json:"grad_abs"`
	}
}

// dino imports a fixture at the size of the images; without a head it gets one of 3 classes.
func dino(t testing.TB, set string, images fixtures.Tensor) *Imported {
	t.Helper()
	o := ImportOptions{ImageRows: images.Shape[1], ImageCols: images.Shape[2]}
	m, err := Import(fixtures.Dir(t, set), o)
	if err != nil && strings.Contains(err.Error(), "has no head") {
		o.Classes = 3
		m, err = Import(fixtures.Dir(t, set), o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// dinoStages are what the fixtures record, without what stands in front of their names.
func dinoStages(c vit.Config, s *model.Scope, tr *vit.Trace) map[string]*Node {
	b := tr.Blocks[0]
	flat := func(x *Node) *Node { return Reshape(x, b.Norm1.Shape().Dimensions...) }
	scaled := func(name string, x *Node) *Node {
		factor := s.Store().GetVariable("/vit/block_00/" + name).NodeValue(x.Graph())
		return Mul(x, Reshape(factor, 1, 1, -1))
	}
	q, k := b.Query, b.Key
	nodes := map[string]*Node{
		"embeddings_output": tr.Tokens, "layer_0.norm1_output": b.Norm1, "layer_0.q_output": flat(q),
		"layer_0.k_output": flat(k), "layer_0.v_output": flat(b.Value), "layer_0.attention_weights_out": b.Weights,
		"layer_0.attention_output": b.Attention, "layer_0.layer_scale1_output": scaled("scale1", b.Attention),
		"layer_0.norm2_output": b.Norm2, "layer_0.mlp_output": b.MLP, "final_norm_output": tr.Encoded, "logits": tr.Logits,
	}
	if rotary := c.Encoders(s.Shared("vit")).Rotary; rotary != nil {
		q, k = rotary.Block(0).EncodeQK(q, k, nil, 1)
		nodes["layer_0.q_rot"], nodes["layer_0.k_rot"] = TransposeAllAxes(q, 0, 2, 1, 3), TransposeAllAxes(k, 0, 2, 1, 3)
	}
	switch {
	case c.SwiGLU && rotaryOnly(c):
		nodes["layer_0.mlp_gate_output"], nodes["layer_0.mlp_up_output"] = b.Gate, b.Hidden
	case c.SwiGLU:
		nodes["layer_0.mlp_weights_in_output"] = Concatenate([]*Node{b.Gate, b.Hidden}, -1)
	}
	for i, b := range tr.Blocks {
		nodes[fmt.Sprintf("layer_%d_output", i)] = b.Output
		// Backbones put the final norm behind every stage.
		features := weight.LayerNorm(s.Store().Scope("/vit/norm"), b.Output, c.Epsilon)
		n := c.Rows() * c.Cols()
		patches := GatherSlices(features, []int{1}, Const(features.Graph(), [][]int32{{int32(c.Prefix())}}), []int{n}, true)
		nodes[fmt.Sprintf("feature_map_stage%d_nhwc_out", i+1)] = patches
	}
	return nodes
}

func rotaryOnly(c vit.Config) bool { return c.Position == "rope-dinov3" }

func TestEveryStageEqualsDINO(t *testing.T) {
	for _, set := range dinoSets {
		var meta dinoMeta
		fixtures.JSON(t, set, "meta.json", &meta)
		want := fixtures.Tensors(t, set, "tensors.safetensors")
		for _, p := range []string{"", "rect."} {
			m := dino(t, set, want[p+"images_nhwc"])
			store := model.NewStore()
			if err := m.Load(store.RootScope().In("vit")); err != nil {
				t.Fatal(err)
			}
			var compared []string
			got := gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) (nodes []*Node) {
				compared = nil
				tr := m.Config.Trace(s.In("vit"), in[0], true)
				for name, node := range dinoStages(m.Config, s, tr) {
					if _, recorded := want[p+name]; recorded {
						compared, nodes = append(compared, name), append(nodes, node)
					}
				}
				return append(nodes, tr.Logits)
			}, gomlxtest.Input(want[p+"images_nhwc"]))
			for i, name := range compared {
				nearAbs(t, set+" "+p+name, got[i], want[p+name].Data, meta.Tolerance.Abs)
			}
			if least := map[string]int{"": 13, "rect.": 2}[p]; len(compared) < least {
				t.Errorf("%s: %d stages compared: %v", set, len(compared), compared)
			}
			if table, ok := want[p+"position_embeddings_out"]; ok {
				nearAbs(t, set+" table", tensors.MustCopyFlatData[float32](m.Variables[positionPath]), table.Data, 1e-5)
			}
		}
	}
}

// gradientPaths are our variables whose gradients the fixtures have, by the end of their names.
var gradientPaths = map[string]string{
	"embeddings.cls_token": classPath, "embeddings.register_tokens": registersPath,
	"embeddings.position_embeddings": positionPath, "embeddings.patch_embeddings.bias": patchPath + "biases",
	"layer.0.attention.attention.query.weight": "block_00/attention/query/weights",
	"layer.0.attention.q_proj.weight":          "block_00/attention/query/weights",
	"layer.0.layer_scale1.lambda1":             "block_00/scale1", "layer.0.layer_scale2.lambda1": "block_00/scale2",
	"layer.0.mlp.fc1.bias": "block_00/mlp/hidden/biases", "layer.0.mlp.up_proj.bias": "block_00/mlp/hidden/biases",
	"layer.0.mlp.weights_in.bias": "block_00/mlp/gate/biases", // and that of the hidden layer behind it
}

func TestGradientsEqualDINOs(t *testing.T) {
	for _, set := range dinoSets {
		var meta dinoMeta
		fixtures.JSON(t, set, "meta.json", &meta)
		want := fixtures.Tensors(t, set, "tensors.safetensors")
		m := dino(t, set, want["images_nhwc"])
		store := model.NewStore()
		if err := m.Load(store.RootScope().In("vit")); err != nil {
			t.Fatal(err)
		}
		var names, paths []string
		for name := range want {
			if end, ok := strings.CutPrefix(name, "grad_out."); ok {
				at := slices.IndexFunc([]string{"embeddings.", "layer."}, func(s string) bool { return strings.Contains(end, s) })
				end = end[strings.Index(end, []string{"embeddings.", "layer."}[at]):]
				path, known := gradientPaths[end]
				if !known {
					t.Fatalf("%s: no variable for the gradient of %s", set, end)
				}
				names, paths = append(names, name), append(paths, path)
			}
		}
		got := gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) []*Node {
			tr := m.Config.Trace(s.In("vit"), in[0], false)
			out := tr.Logits
			if rotaryOnly(m.Config) {
				out = tr.Encoded
			}
			var of []*Node
			value := func(path string) *Node { return store.GetVariable("/vit/" + path).NodeValue(in[0].Graph()) }
			for _, path := range append(paths, "block_00/mlp/hidden/biases") {
				of = append(of, value(path))
			}
			return Gradient(ReduceAllSum(Mul(out, in[1])), of...)
		}, gomlxtest.Input(want["images_nhwc"]), gomlxtest.Input(want["grad_in.final"]))
		for i, name := range names {
			gradient := got[i]
			if strings.HasSuffix(name, "weights_in.bias") {
				gradient = append(slices.Clone(gradient), got[len(names)]...)
			}
			if x := want[name]; strings.HasSuffix(name, ".weight") { // [out, in]
				gradient = gomlxtest.Reversed(gradient, x.Shape[1], 1, x.Shape[0])
			}
			nearAbs(t, set+" "+name, gradient, want[name].Data, meta.Tolerance.Grad)
		}
	}
}
