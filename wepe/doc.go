// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package wepe gives the tokens of a Vision Transformer a sense of two-dimensional place: Weierstrass elliptic
// positional encoding (WePE) as a GoMLX layer.
//
// A patch of a rows × cols grid becomes a point of the complex plane, the elliptic function and its derivative there
// become four bounded numbers, and a learned projection turns those into the vector that is added to the patch's token
// (docs/mathematics.md, section 6):
//
//	u = (col+½)/cols, v = (row+½)/rows     centre of the patch, in (0, 1)
//	z = α_u·u·2ω1 + i·α_v·v·2ω3′           in the units of the half-periods ω1 and iω3′
//	f = tanh(α_scale·[Re ℘(z), Im ℘(z), Re ℘′(z), Im ℘′(z)])
//	token += β_pos·LayerNorm(f W + b)      [width]
//
// ω3′, α_scale and β_pos are learned along with W and b. The rows in front of the patches (class token, registers) get
// learned vectors of their own, also scaled by β_pos. Everything is computed once per step, not per image: at a fixed
// grid the encoding is one constant table, [Encoder.Encode].
//
//	encoder := wepe.New(scope, 14, 14, 192).WithPrefix(1).WithHarmonics(2).Done()
//	tokens = encoder.PreEncode(tokens, nil, 1) // [batch, 1+14·14, 192]
//
// By default ω3′ is half the height of the lattice's cell, so that the lattice deforms while the model trains;
// [Config.AsReleased] is the released code of the authors, where the lattice stays square (docs/evidence/deviations.md). [P]
// evaluates ℘ and ℘′ exactly, by a few rows of the lattice; [Config.WithLatticeSum] takes the truncated double sum of
// the paper, [Config.WithTable] a look-up table for lattices that no longer train.
//
// Beyond the paper, and off unless asked for: [RelativeBias] is the same encoding on the differences of patches, for
// attention scores; [Config.WithScales] several lattices at once; [POblique] and [Config.WithHalfPeriods] oblique
// lattices; and
//
//	f = [S(α_scale·w), S(α_scale·w′)],  S(w) = [2 Re w, 2 Im w, |w|² - 1]/(|w|² + 1)
//
// in place of the tanh, [Config.OnSphere]: ℘ and ℘′, centred and scaled by their own lattice, as
// points of the Riemann sphere (docs/mathematics.md, section 14). Nothing there is large, poles are points like any
// other, patches keep apart at any resolution, and a shift of the grid by half a period is a rotation of the first
// three features. [Config.WithHarmonics] adds features of 2z, 3z, ….
//
// A pretrained model is fine-tuned with another form, [NewSurrogate]: a bounded field in place of ℘, blended into the
// model's own position embeddings by a learned gate, [NewHybrid] (docs/mathematics.md, sections 8 and 9). The gate
// takes an encoder of [New] as well.
//
//	surrogate := wepe.NewSurrogate(scope, 14, 14, 192).FromScope().Done()
//	encoder := wepe.NewHybrid(scope, pretrained, surrogate).FromScope().Done() // pretrained [1+14·14, 192]
//
// What differs from the defaults is set by the methods With…, or by hyperparameters of the scope, which FromScope takes
// over; each method names its own.
//
// On large grids tanh takes the patches next to the pole for one another: their features are 3e-4 apart at 24×24, 2e-9
// at 37×37 and equal at 64×64; [Encoder.Warning] names patches that float32 cannot tell
// apart. A look-up table measures itself when it is built and takes the nodes it needs.
//
// The graphs are real arithmetic in float32 (the encoding's dtype; tokens of any float dtype come back in their own)
// and use only operations that have a gradient on the pure-Go, XLA and ONNX backends. Nothing becomes NaN or infinite,
// at a pole or elsewhere, for any value that the settings accept.
//
// # Variables
//
// Their paths are a file format. Below the scope given to [New]:
//
//	wepe/omega3_raw                                      []               ω3′ before its softplus
//	wepe/omega3_re                                       []               Re ω3; absent on rectangular lattices
//	wepe/alpha_scale_raw                                 []               α_scale before its softplus (AsReleased: exp)
//	wepe/beta_pos                                        []
//	wepe/prefix                                          [prefix, width]  absent without prefix tokens
//	wepe/projection/dense/weights, biases                [4, width], [width]
//	wepe/projection/layer_normalization/gain, offset     [width]
//
// all in wepe_sphere in place of wepe where the features lie on the sphere, so that a model opens only as what it was
// saved as; with a look-up table ([Config.WithTable], [Encoder.BuildTable]), neither trainable,
//
//	wepe/table/key                                       [7], float64     mode, ω1, ω3′, α_u, α_v, nodes a side, kind
//	wepe/table/values                                    [resolution, resolution, 4]
//
// and in place of the projection's two lines for [Config.WithMLP]:
//
//	wepe/projection/hidden/dense/weights, biases                [4, width/2], [width/2]
//	wepe/projection/hidden/layer_normalization/gain, offset     [width/2]
//	wepe/projection/output/dense/weights, biases                [width/2, width], [width]
//	wepe/projection/output/layer_normalization/gain, offset     [width]
//
// 4 is 6 on the sphere; half of it without ℘′ ([Config.WithDerivative]), times the number of lattices
// ([Config.WithScales]) and of harmonics. Scalars that a setting keeps fixed are variables too, not trainable.
//
// Source: Weierstrass Positional Encoding for Vision Transformers; released code
// github.com/1131230221/Weierstrass-Elliptic-Function-Positional-Encoding at 3c27aecdfd06. The half-period
// ω1 = 2.622 belongs to g2 = 1/4, where the paper says 1.
package wepe
