// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe_test

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/wepe"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// A model adds the encoding to its tokens once, before the first block.
func Example() {
	store := model.NewStore()
	store.SetParam(wepe.ParamOmega3, 1.5) // a flatter lattice than the square one
	var encoder wepe.Encoder
	exec := model.MustNewExec(gomlxtest.Backend(), store, func(scope *model.Scope, tokens *Node) *Node {
		encoder = wepe.New(scope, 3, 5, 8).WithPrefix(1).FromScope().Build()
		return encoder.PreEncode(tokens, nil, 1)
	})
	tokens := tensors.FromScalarAndDimensions(float32(0), 2, 1+3*5, 8) // 2 images
	fmt.Println(exec.MustCall(tokens)[0].Shape())

	scalars, err := encoder.Scalars()
	if err != nil {
		fmt.Println(err)
	}
	fmt.Printf("ω3′ %.3f, α_scale %.3f, β_pos %.3f\n", scalars["omega3"], scalars["alpha_scale"], scalars["beta_pos"])
	// Output:
	// (Float32)[2, 16, 8]
	// ω3′ 1.500, α_scale 0.150, β_pos 0.800
}

// The sphere, by a look-up table.
func ExampleNew() {
	forward := func(scope *model.Scope, tokens *Node) *Node { // tokens [batch, 1+14·14, 192], class token first
		encoder := wepe.New(scope, 14, 14, 192).WithPrefix(1).OnSphere().WithTable().Build()
		return encoder.PreEncode(tokens, nil, 1)
	}
	exec := model.MustNewExec(gomlxtest.Backend(), model.NewStore(), forward)
	fmt.Println(exec.MustCall(tensors.FromScalarAndDimensions(float32(0), 2, 1+14*14, 192))[0].Shape())
	// Output: (Float32)[2, 197, 192]
}

// Fine-tuning blends the surrogate into a model's position embeddings: here a tenth of it on patches; the class token
// keeps its embedding.
func ExampleConfig_Hybrid() {
	store := model.NewStore()
	store.SetParam(wepe.ParamGate, 0.1)
	embedding, err := store.CreateVariable("/embedding", tensors.FromScalarAndDimensions(float32(2), 1+3*5, 8))
	if err != nil {
		fmt.Println(err)
	}
	exec := model.MustNewExec(gomlxtest.Backend(), store, func(scope *model.Scope, tokens *Node) *Node {
		config := wepe.New(scope, 3, 5, 8).FromScope()
		patches := config.Surrogate()
		return config.WithPrefix(1).Hybrid(embedding, patches).PreEncode(tokens, nil, 1)
	})
	tokens := tensors.FromScalarAndDimensions(float32(0), 1, 1+3*5, 8)
	added := exec.MustCall(tokens)[0].Value().([][][]float32)
	fmt.Println(added[0][0], added[0][1][0] != 2)
	// Output: [2 2 2 2 2 2 2 2] true
}

// The lemniscatic function (g2 = 1/4, g3 = 0) at half of its half-period: ℘(ω1/2) = e1 + √((e1-e2)(e1-e3)) = (1+√2)/4.
func ExampleP() {
	exec := MustNewExec(gomlxtest.Backend(), func(x, y *Node) []*Node {
		omega := Scalar(x.Graph(), x.DType(), weierstrass.OmegaSquare)
		p, pPrime := wepe.P(wepe.ComplexNode{Re: x, Im: y}, omega, omega)
		return []*Node{p.Re, pPrime.Re}
	})
	out := exec.MustCall(float32(weierstrass.OmegaSquare/2), float32(0))
	fmt.Printf("℘ %.4f, ℘′ %.4f\n", out[0].Value(), out[1].Value())
	// Output: ℘ 0.6036, ℘′ -0.8536
}

// ℘ and ℘′ as points of the sphere: at the pole z = 0 both are the north pole, at the half-period ω1 + iω3′ of the
// square lattice, where ℘ = e2 = 0 and ℘′ = 0, the south pole.
func ExampleSphere() {
	exec := MustNewExec(gomlxtest.Backend(), func(z *Node) []*Node {
		omega, one := Scalar(z.Graph(), z.DType(), weierstrass.OmegaSquare), ScalarOne(z.Graph(), z.DType())
		point, prime := wepe.Sphere(wepe.ComplexNode{Re: z, Im: z}, omega, omega, one)
		return []*Node{point, prime}
	})
	out := exec.MustCall([]float32{0, weierstrass.OmegaSquare})
	for _, points := range out {
		p := points.Value().([][]float32)
		fmt.Printf("height %.3f at 0, %.3f at ω1 + iω3′\n", p[0][2], p[1][2])
	}
	// Output:
	// height 1.000 at 0, -1.000 at ω1 + iω3′
	// height 1.000 at 0, -1.000 at ω1 + iω3′
}
