// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package wepe implements Weierstrass elliptic positional encoding (WePE) for Vision Transformers as a GoMLX layer.
//
//	encoder := wepe.New(scope, 14, 14, 192).WithPrefix(1).Build() // 14×14 patches, width 192, a class token
//	tokens = encoder.PreEncode(tokens, nil, 1)                    // [batch, 1+14·14, 192]
//
// Each patch of a rows × cols grid becomes a point of the complex plane; ℘ and ℘′ at that point give four bounded
// features, and a learned projection of these is added to the patch's token (docs/mathematics.md, section 6):
//
//	u = (col+½)/cols, v = (row+½)/rows     centre of the patch, in (0, 1)
//	z = α_u·u·2ω1 + i·α_v·v·2ω3′           in units of the half-periods ω1 and iω3′
//	f = tanh(α_scale·[Re ℘(z), Im ℘(z), Re ℘′(z), Im ℘′(z)])
//	token += β_pos·LayerNorm(f W + b)      [width]
//
// ω3′, α_scale, β_pos, W and b are learned. Class token and registers get learned vectors, also scaled by β_pos. The
// encoding is computed once per step, not per image; at a fixed grid it is a constant table, Encode.
//
// # Options
//
// The form and the evaluation of an encoding are methods of [Config]; everything else is a hyperparameter of the scope,
// which [Config.FromScope] reads ([Params] lists them).
//
//   - [Config.OnSphere] maps ℘ and ℘′ to the Riemann sphere in place of tanh; it is smooth everywhere (section 14):
//     f = [S(α_scale·w), S(α_scale·w′)], S(w) = [2 Re w, 2 Im w, |w|² - 1]/(|w|² + 1).
//   - [Config.WithTable] uses a look-up table, [Config.WithSum] the paper's truncated sum. The default, [P], is exact.
//   - [ParamHarmonics] adds features of 2z, 3z, …; [ParamScales] uses several lattices, [ParamOmega3Re] an oblique one.
//     [ParamMode] "release" is the authors' released code, where the lattice stays square
//     (docs/evidence/deviations.md).
//
// [RelativeBias] adds a bias computed from relative positions to the attention scores. [Config.Hybrid] blends an
// encoder, or the bounded [Config.Surrogate], into pretrained position embeddings by a learned gate (sections 8 and 9):
//
//	config := wepe.New(scope, 14, 14, 192).FromScope()
//	patches := config.Surrogate()
//	encoder := config.WithPrefix(1).Hybrid(pretrained, patches) // pretrained [1+14·14, 192]
//
// # Limits
//
// On large grids tanh makes the features of patches next to the pole almost equal: they differ by 3e-4 at 24×24, 2e-9
// at 37×37 and 0 at 64×64. The Warning method of an encoder names patches that float32 cannot
// distinguish. OnSphere has no such limit.
//
// Graphs compute in float32 and train on the go, xla and onnx backends. Values and gradients are finite for every
// accepted setting, also at poles.
//
// # Variables
//
// Their paths are a file format. Below the scope given to [New]:
//
//	wepe/omega3_raw                                      []               ω3′ before its softplus
//	wepe/omega3_re                                       []               Re ω3; absent on rectangular lattices
//	wepe/alpha_scale_raw                                 []               α_scale before its softplus (mode release: exp)
//	wepe/beta_pos                                        []
//	wepe/prefix                                          [prefix, width]  absent without prefix tokens
//	wepe/projection/dense/weights, biases                [4, width], [width]
//	wepe/projection/layer_normalization/gain, offset     [width]
//
// With OnSphere the scope is wepe_sphere in place of wepe, so that a model of one form does not open as the other. A
// look-up table ([Config.WithTable]) adds, not trainable,
//
//	wepe/table/values                                    [256, 256, 4]
//
// [ParamProjection] "mlp" has in place of the projection's two lines
//
//	wepe/projection/hidden/dense/weights, biases                [4, width/2], [width/2]
//	wepe/projection/hidden/layer_normalization/gain, offset     [width/2]
//	wepe/projection/output/dense/weights, biases                [width/2, width], [width]
//	wepe/projection/output/layer_normalization/gain, offset     [width]
//
// The 4 features above are 6 on the sphere, half as many without ℘′ (ParamDerivative), and multiplied by the
// number of lattices and harmonics. Fixed scalars are variables that do not train.
//
// Source: Weierstrass Positional Encoding for Vision Transformers; released code
// github.com/1131230221/Weierstrass-Elliptic-Function-Positional-Encoding at 3c27aecdfd06. The half-period ω1 = 2.622
// belongs to g2 = 1/4; the paper states 1.
package wepe
