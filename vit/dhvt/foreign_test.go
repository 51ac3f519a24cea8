// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dhvt

import (
	"fmt"
	"math"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

var run = gomlxtest.RunModel

// foreign maps the tensors of a torch DHVT into a store, under /dhvt.
type foreign struct {
	t       testing.TB
	store   *model.Store
	tensors map[string]fixtures.Tensor
	used    map[string]bool
}

func load(t testing.TB, set, file string) *foreign {
	return &foreign{t: t, store: model.NewStore(), tensors: fixtures.Tensors(t, set, file), used: map[string]bool{}}
}

func (f *foreign) get(name string) fixtures.Tensor {
	f.t.Helper()
	x, ok := f.tensors[name]
	if !ok {
		f.t.Fatalf("the fixture has no tensor %q", name)
	}
	f.used[name] = true
	return x
}

func (f *foreign) set(path string, data []float64, dims ...int) {
	f.t.Helper()
	flat := fixtures.Tensor{Data: data}.Float32()
	if _, err := f.store.CreateVariable("/dhvt/"+path, tensors.FromFlatDataAndDimensions(flat, dims...)); err != nil {
		f.t.Fatal(err)
	}
}

// vector puts a tensor of any shape with one long axis at path.
func (f *foreign) vector(path, name string) {
	f.t.Helper()
	x := f.get(name)
	f.set(path, x.Data, len(x.Data))
}

// linear puts a torch Linear, or a 1×1 convolution ([out, in, 1, 1] and [out]), or rows begin to end of a stacked one,
// at path.
func (f *foreign) linear(path, name string, begin, end int) {
	f.t.Helper()
	w, b := f.get(name+".weight"), f.get(name+".bias")
	in := w.Shape[1]
	f.set(path+"/weights", transposed(w.Data[begin*in:end*in], end-begin, in), in, end-begin)
	f.set(path+"/biases", b.Data[begin:end], end-begin)
}

func (f *foreign) whole(path, name string) { f.linear(path, name, 0, f.get(name + ".weight").Shape[0]) }

func (f *foreign) norm(path, name string) {
	f.vector(path+"/gain", name+".weight")
	f.vector(path+"/offset", name+".bias")
}

func (f *foreign) batchNorm(path, name string) {
	f.norm(path, name)
	f.vector(path+"/mean", name+".running_mean")
	f.vector(path+"/variance", name+".running_var")
}

func (f *foreign) affine(path, name string) {
	f.vector(path+"/gain", name+".alpha")
	f.vector(path+"/offset", name+".beta")
}

// sope maps the patch embedding at prefix.
func (f *foreign) sope(c Config, prefix string) {
	f.affine("patch/pre_affine", prefix+"pre_affine")
	f.affine("patch/post_affine", prefix+"post_affine")
	for i := range c.convWidths() {
		from, to := fmt.Sprintf("%sproj.%d.", prefix, 2*i), fmt.Sprintf("patch/conv_%d", i)
		w := f.get(from + "0.weight") // [out, in, 3, 3]
		out, in := w.Shape[0], w.Shape[1]
		f.set(to+"/weights", transposed(w.Data, out, in*9, in, 9), 3, 3, in, out)
		f.batchNorm(to+"/norm", from+"1")
	}
}

// transposed returns x [a, b] as [b, a]; with two more sizes, b = c·d, x [a, c, d] as [d, c, a].
func transposed(x []float64, a, b int, split ...int) []float64 {
	if split == nil {
		split = []int{1, b}
	}
	c, d := split[0], split[1]
	out := make([]float64, 0, len(x))
	for k := range d {
		for j := range c {
			for i := range a {
				out = append(out, x[(i*c+j)*d+k])
			}
		}
	}
	return out
}

// model maps everything but the position encoding.
func (f *foreign) model(c Config) {
	f.sope(c, "patch_embed.")
	f.set("class", f.get("cls_token").Data, 1, c.Width)
	for i := range c.Depth {
		from, to := fmt.Sprintf("blocks.%d.", i), fmt.Sprintf("block_%02d/", i)
		f.norm(to+"norm1", from+"norm1")
		f.norm(to+"norm2", from+"norm2")
		for j, part := range []string{"query", "key", "value"} {
			f.linear(to+"attention/"+part, from+"attn.qkv", j*c.Width, (j+1)*c.Width)
		}
		f.whole(to+"attention/output", from+"attn.proj")
		f.whole(to+"attention/head_tokens", from+"attn.ht_proj")
		f.norm(to+"attention/head_tokens/norm", from+"attn.ht_norm")
		f.set(to+"attention/head_tokens/embedding", f.get(from+"attn.pos_embed").Data, c.Heads, c.Width)
		f.whole(to+"mlp/hidden", from+"mlp.conv1")
		f.whole(to+"mlp/output", from+"mlp.conv3")
		w := f.get(from + "mlp.conv2.weight") // [m, 1, 3, 3]
		f.set(to+"mlp/depthwise/weights", transposed(w.Data, c.MLPDim, 9), 3, 3, c.MLPDim)
		f.vector(to+"mlp/depthwise/biases", from+"mlp.conv2.bias")
		f.batchNorm(to+"mlp/hidden/norm", from+"mlp.bn1")
		f.batchNorm(to+"mlp/depthwise/norm", from+"mlp.bn2")
		f.batchNorm(to+"mlp/output/norm", from+"mlp.bn3")
		f.whole(to+"mlp/squeeze", from+"mlp.compress")
		f.whole(to+"mlp/excite", from+"mlp.excitation")
	}
	f.norm("norm", "norm")
	f.whole("head", "head")
}

func (f *foreign) tensor(name string) *tensors.Tensor {
	x := f.get(name)
	return tensors.FromFlatDataAndDimensions(x.Float32(), x.Shape...)
}

func nearAbs(t testing.TB, name string, got, want []float64, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d values, want %d", name, len(got), len(want))
		return
	}
	for i := range got {
		if !(math.Abs(got[i]-want[i]) <= tol) {
			t.Errorf("%s: at %d got %g, want %g", name, i, got[i], want[i])
			return
		}
	}
}
