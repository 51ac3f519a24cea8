// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"fmt"
	"math"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// reference contains the tensors of a set by name.
type reference map[string]fixtures.Tensor

// Operations on boxes and regions, the backbone, and the heads, in training and inference: their values, losses and
// gradients equal those of torchvision and detectron2, in the sets roi, vitdet and mask_rcnn.
func TestDetectron2(t *testing.T) {
	fixtures.Each(t, func(t *testing.T) {
		roi, boxes := roiFixture(t)
		for name, test := range map[string]func(*testing.T, roiMeta, reference){"ROIAlign": testROIAlign,
			"levels": testLevels, "pooler": testPooler, "NMS": testNMS, "overlaps": testOverlaps, "deltas": testDeltas,
			"anchors": testAnchors, "matches": testMatches} {
			t.Run(name, func(t *testing.T) { test(t, roi, boxes) })
		}
		meta, b, want := vitdet(t)
		for name, test := range map[string]func(*testing.T, vitdetMeta, Backbone, reference){"backbone": testBackbone,
			"other sizes": testOtherSizes, "relative vectors": testRelativeVectors, "bottleneck": testBottleneck,
			"learning rates": testLearningRates} {
			t.Run(name, func(t *testing.T) { test(t, meta, b, want) })
		}
		for name, test := range map[string]func(*testing.T, heads){"proposals": testProposals, "targets": testTargets,
			"heads": testHeads, "detections": testDetections} {
			t.Run(name, func(t *testing.T) { test(t, headsFixture(t)) })
		}
	})
}

// foreign maps the tensors of detectron2 into a store, below /detector.
type foreign struct{ *gomlxtest.Torch }

const foreignScope = detectorScope + "/"

// load reads the tensors of a file whose names begin with prefix, and removes the prefix.
func load(t testing.TB, set, file, prefix string) *foreign {
	f := &foreign{gomlxtest.LoadTorch(t, set, file, foreignScope)}
	own := map[string]fixtures.Tensor{}
	for name, x := range f.Tensors {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			own[rest] = x
		}
	}
	f.Tensors = own
	return f
}

// conv sets a convolution [out, in, k, k] at path as [k, k, in, out], with its bias or norm if it has one.
func (f *foreign) conv(path, name string) {
	w := f.Get(name + ".weight")
	out, in, k := w.Shape[0], w.Shape[1], w.Shape[2]
	data := gomlxtest.Reversed(w.Data, out, in, k*k)
	if k == 1 {
		f.Set(path+"/weights", data, in, out)
	} else {
		f.Set(path+"/weights", data, k, k, in, out)
	}
	f.biasAndNorm(path, name)
}

func (f *foreign) biasAndNorm(path, name string) {
	if _, ok := f.Tensors[name+".bias"]; ok {
		f.Vector(path+"/biases", name+".bias")
	}
	if _, ok := f.Tensors[name+".norm.weight"]; ok {
		f.Norm(path+"/norm", name+".norm")
	}
}

// doubling sets a transposed convolution [in, out, 2, 2] at path as [in, 2, 2, out].
func (f *foreign) doubling(path, name string) {
	w := f.Get(name + ".weight")
	in, out := w.Shape[0], w.Shape[1]
	var data []float64
	for i := range in {
		data = append(data, gomlxtest.Reversed(w.Data[i*out*4:(i+1)*out*4], out, 1, 4)...)
	}
	f.Set(path+"/weights", data, in, 2, 2, out)
	f.biasAndNorm(path, name)
}

// channelsLast is a tensor [batch, channels, rows, cols] as [batch, rows, cols, channels].
func channelsLast(x fixtures.Tensor) fixtures.Tensor {
	n, c, h, w := x.Shape[0], x.Shape[1], x.Shape[2], x.Shape[3]
	out := fixtures.Tensor{Shape: []int{n, h, w, c}}
	for i := range n {
		out.Data = append(out.Data, gomlxtest.Reversed(x.Data[i*c*h*w:(i+1)*c*h*w], c, 1, h*w)...)
	}
	return out
}

// gradients adds the gradients of loss by the variables of a store, by their paths below the scope.
func (n *named) gradients(store *model.Store, loss *Node) {
	var by []*Node
	for v := range store.IterVariables() {
		if path, ok := strings.CutPrefix(v.Path(), foreignScope); ok && v.InUseByGraph(loss.Graph()) {
			n.names, by = append(n.names, "gradient of "+path), append(by, v.NodeValue(loss.Graph()))
		}
	}
	n.nodes = append(n.nodes, Gradient(loss, by...)...)
}

// checkGradients compares the results of named.gradients with the variables of wanted, which contains the gradients:
// all of them, and nothing else, within tolerance of the largest entry plus a floor.
func checkGradients(t *testing.T, got map[string][]float64, wanted *model.Store, tolerance, floor float64) {
	t.Helper()
	for v := range wanted.IterVariables() {
		name := "gradient of " + strings.TrimPrefix(v.Path(), foreignScope)
		nearFloor(t, name, got[name], gomlxtest.Values(t, v.MustValue()), tolerance, floor)
		delete(got, name)
	}
	for name := range got {
		if strings.HasPrefix(name, "gradient of ") {
			t.Errorf("the fixture has no %s", name)
		}
	}
}

// nearFloor fails the test unless got and want are equal within tolerance times the largest entry, plus a floor.
func nearFloor(t *testing.T, name string, got, want []float64, tolerance, floor float64) {
	t.Helper()
	largest := 0.0
	for _, x := range want {
		largest = max(largest, math.Abs(x))
	}
	gomlxtest.NearAbs(t, name, got, want, tolerance*largest+floor)
}

// named pairs the outputs of a graph with names.
type named struct {
	names []string
	nodes []*Node
}

func (n *named) add(name string, x *Node) {
	n.names, n.nodes = append(n.names, name), append(n.nodes, x)
}

// addf is add for a formatted name.
func (n *named) addf(x *Node, format string, args ...any) { n.add(fmt.Sprintf(format, args...), x) }

// runNamed runs a graph with the variables of a store and returns its outputs by name; the graph creates no variables.
func runNamed(t *testing.T, store *model.Store, build func(scope *model.Scope, in []*Node, out *named),
	inputs ...any) map[string][]float64 {
	t.Helper()
	before := 0
	for range store.IterVariables() {
		before++
	}
	var out named
	values := gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) []*Node {
		out = named{}
		build(s.In("detector"), in, &out)
		return out.nodes
	}, inputs...)
	for v := range store.IterVariables() {
		if before--; before < 0 && strings.HasPrefix(v.Path(), foreignScope) {
			t.Errorf("the fixture has no values of variable %s", v.Path())
		}
	}
	by := map[string][]float64{}
	for i, name := range out.names {
		by[name] = values[i]
	}
	return by
}
