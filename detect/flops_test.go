// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"fmt"
	"image"
	"regexp"
	"strconv"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
)

// The products of the graph itself, with the sizes that they say, are the source of the expected number. FLOPs leaves
// out those by which later stages pick an object's class and box.
func TestFLOPsAreThoseOfTheProductsInTheGraph(t *testing.T) {
	c := Config{
		Backbone: Backbone{Config: vit.Config{ImageRows: 40, ImageCols: 56, PatchSize: 8, Width: 12, Depth: 3, Heads: 3,
			MLPDim: 20, Classes: 3, Position: "none"}, Window: 3, Global: []int{1}, Residual: []int{2}, Relative: true},
		Channels: 7, RPN: RPN{Convs: 2, Samples: 11},
		ROI: ROI{Samples: 13, Size: 5, Convs: []int{6, 10}, Dense: []int{17, 19}, MaskSize: 3, Masks: []int{9, 8},
			CanonicalSize: 30},
	}.WithDefaults()
	for _, stages := range []int{1, 3} {
		c.ROI.Stages = CascadeStages()[:stages]
		const batch = 2
		_, one := scene(40, 56, image.Rect(3, 5, 20, 23), image.Pt(40, 20), 9)
		anchors, _ := c.anchors(40, 56)
		in := gomlxtest.Must(c.targets([]Truth{one, one}, anchors, make([][]Box, batch), func(int) draw {
			return func(from []int, n int) []int { return from[:min(n, len(from))] }
		}))(t)
		in.Images = tensors.FromFlatDataAndDimensions(make([]uint8, batch*40*56*3), batch, 40, 56, 3)
		counted := 0.0
		gomlxtest.RunModel(t, gomlxtest.Seeded(t, 3), func(scope *model.Scope, nodes []*Node) []*Node {
			losses := c.Losses(scope, InputsOf(nodes))
			for _, n := range nodes[0].Graph().Nodes() {
				if n.Type() == NodeTypeDotGeneral {
					counted += products(t, n)
				}
			}
			return losses.All()
		}, anys(in.List())...)
		f := c.FLOPs()
		picking := float64(2 * batch * (stages - 1) * c.ROI.Samples * fewObjects * 5)
		if got := batch*(f.Backbone+f.Pyramid+f.RPN+f.Boxes+f.Masks) + picking; got != counted {
			t.Errorf("%d stages: %.0f, the graph's products are %.0f", stages, got, counted)
		}
	}
}

var contracted = regexp.MustCompile(`lhsContractingAxes=\[([0-9 ]*)\]`)

// products is the number of operations of a product.
func products(t *testing.T, n *Node) float64 {
	t.Helper()
	found := contracted.FindStringSubmatch(n.String())
	if found == nil {
		t.Fatalf("%s does not say what it contracts", n)
	}
	flops := 2 * float64(n.Shape().Size())
	for axis := range strings.FieldsSeq(found[1]) {
		flops *= float64(n.Inputs()[0].Shape().Dim(gomlxtest.Must(strconv.Atoi(axis))(t)))
	}
	return flops
}

// A step on 1024² pixels: what docs/detection.md says.
func ExampleConfig_FLOPs() {
	for _, cascade := range []bool{false, true} {
		c, err := ViTDet("B/16", 80, cascade)
		if err != nil {
			panic(err)
		}
		f := c.FLOPs()
		fmt.Printf("backbone %.0f, pyramid %.0f, proposals %.0f, boxes %.0f, masks %.0f, step %.0f GFLOPs\n", f.Backbone/1e9,
			f.Pyramid/1e9, f.RPN/1e9, f.Boxes/1e9, f.Masks/1e9, f.Step()/1e9)
	}
	// Output:
	// backbone 966, pyramid 143, proposals 207, boxes 298, masks 222, step 6821 GFLOPs
	// backbone 966, pyramid 143, proposals 207, boxes 893, masks 222, step 8605 GFLOPs
}
