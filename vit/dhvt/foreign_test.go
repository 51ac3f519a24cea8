// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dhvt

import (
	"fmt"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

var run = gomlxtest.RunModel

// foreign maps the tensors of a torch DHVT into a store, under /dhvt.
type foreign struct{ *gomlxtest.Torch }

func load(t testing.TB, set, file string) *foreign {
	return &foreign{gomlxtest.LoadTorch(t, set, file, "/dhvt/")}
}

func (f *foreign) batchNorm(path, name string) {
	f.Norm(path, name)
	f.Vector(path+"/mean", name+".running_mean")
	f.Vector(path+"/variance", name+".running_var")
}

func (f *foreign) affine(path, name string) {
	f.Vector(path+"/gain", name+".alpha")
	f.Vector(path+"/offset", name+".beta")
}

// sope maps the patch embedding at prefix.
func (f *foreign) sope(c Config, prefix string) {
	f.affine("patch/pre_affine", prefix+"pre_affine")
	f.affine("patch/post_affine", prefix+"post_affine")
	for i := range c.convWidths() {
		from, to := fmt.Sprintf("%sproj.%d.", prefix, 2*i), fmt.Sprintf("patch/conv_%d", i)
		w := f.Get(from + "0.weight") // [out, in, 3, 3]
		out, in := w.Shape[0], w.Shape[1]
		f.Set(to+"/weights", gomlxtest.Reversed(w.Data, out, in, 9), 3, 3, in, out)
		f.batchNorm(to+"/norm", from+"1")
	}
}

// model maps everything but the position encoding.
func (f *foreign) model(c Config) {
	f.sope(c, "patch_embed.")
	f.Set("class", f.Get("cls_token").Data, 1, c.Width)
	for i := range c.Depth {
		from, to := fmt.Sprintf("blocks.%d.", i), fmt.Sprintf("block_%02d/", i)
		f.Norm(to+"norm1", from+"norm1")
		f.Norm(to+"norm2", from+"norm2")
		for j, part := range []string{"query", "key", "value"} {
			f.Linear(to+"attention/"+part, from+"attn.qkv.weight", from+"attn.qkv.bias", j*c.Width, (j+1)*c.Width)
		}
		f.Layer(to+"attention/output", from+"attn.proj")
		f.Layer(to+"attention/head_tokens", from+"attn.ht_proj")
		f.Norm(to+"attention/head_tokens/norm", from+"attn.ht_norm")
		f.Set(to+"attention/head_tokens/embedding", f.Get(from+"attn.pos_embed").Data, c.Heads, c.Width)
		f.Layer(to+"mlp/hidden", from+"mlp.conv1")
		f.Layer(to+"mlp/output", from+"mlp.conv3")
		w := f.Get(from + "mlp.conv2.weight") // [m, 1, 3, 3]
		f.Set(to+"mlp/depthwise/weights", gomlxtest.Reversed(w.Data, c.MLPDim, 1, 9), 3, 3, c.MLPDim)
		f.Vector(to+"mlp/depthwise/biases", from+"mlp.conv2.bias")
		f.batchNorm(to+"mlp/hidden/norm", from+"mlp.bn1")
		f.batchNorm(to+"mlp/depthwise/norm", from+"mlp.bn2")
		f.batchNorm(to+"mlp/output/norm", from+"mlp.bn3")
		f.Layer(to+"mlp/squeeze", from+"mlp.compress")
		f.Layer(to+"mlp/excite", from+"mlp.excitation")
	}
	f.Norm("norm", "norm")
	f.Layer("head", "head")
}
