// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dhvt

import (
	"math"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// stepper moves the trainable weights of a model whose path contains part along the gradient of a loss of the logits,
// by the given length or in proportion to the gradient; it returns the loss and the squared norm of the gradient.
func stepper(t *testing.T, store *model.Store, c Config, training, normalise bool, part string,
	loss func(logits, targets *Node) *Node) func(step float64, images, targets *tensors.Tensor) (loss, norm2 float64) {
	exec, err := model.NewExec(gomlxtest.Backend(), store, func(s *model.Scope, in []*Node) []*Node {
		g := in[0].Graph()
		s.Store().SetTraining(g, training)
		value := loss(c.Logits(s.In("dhvt"), in[0]), in[1])
		var vars []*model.Variable
		var weights []*Node
		for v := range s.Store().IterVariables() {
			if v.Trainable && v.InUseByGraph(g) && strings.Contains(v.Path(), part) {
				vars, weights = append(vars, v), append(weights, v.NodeValue(g))
			}
		}
		grads, norm2 := Gradient(value, weights...), ScalarZero(g, value.DType())
		for _, grad := range grads {
			norm2 = Add(norm2, ReduceAllSum(Square(grad)))
		}
		factor := in[2]
		if normalise {
			factor = Div(factor, Sqrt(norm2))
		}
		for i, v := range vars {
			v.SetNodeValue(Add(weights[i], Mul(grads[i], factor)))
		}
		return []*Node{value, norm2}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(exec.Finalize)
	return func(step float64, images, targets *tensors.Tensor) (float64, float64) {
		out, err := exec.Call(images, targets, float32(step))
		if err != nil {
			t.Fatal(err)
		}
		return gomlxtest.Values(t, out[0])[0], gomlxtest.Values(t, out[1])[0]
	}
}

func TestTheGradientOfEveryPartIsTheSlopeOfTheLoss(t *testing.T) {
	c := small("wepe")
	c.Depth = 1
	for _, part := range []string{"/patch/", "/class", "/position/", "/attention/", "/head_tokens/", "/hidden/",
		"/depthwise/weights", "/squeeze/", "/excite/"} {
		for _, training := range []bool{false, true} {
			store := seeded(t, 5)
			logits(t, c, store, false)
			step := stepper(t, store, c, training, false, part, func(logits, targets *Node) *Node {
				return ReduceAllSum(Mul(Square(logits), targets))
			})
			const relative = 1e-3 // step of the loss: the smaller, the straighter, but more of it is rounding
			loss, norm2 := step(0, images(c, 3), noise(3, c.Classes))
			length := relative * math.Abs(loss) / norm2
			before, _ := step(2*length, images(c, 3), noise(3, c.Classes))
			after, _ := step(0, images(c, 3), noise(3, c.Classes))
			if rise := (after - before) / (2 * length * norm2); math.Abs(rise-1) > 0.05 {
				t.Errorf("%s, training %v: the loss rises by %.3f of what its gradient says (%g -> %g)", part, training, rise,
					before, after)
			}
		}
	}
}

func TestGradientStepsReduceTheLossOfEveryVariant(t *testing.T) {
	for _, name := range Variants() {
		c, err := Variant(name)
		if err != nil {
			t.Fatal(err)
		}
		c.ImageRows, c.ImageCols = 2*c.PatchSize, 3*c.PatchSize
		c.Width, c.MLPDim, c.Depth, c.Classes, c.Position = 8*c.Heads, 32, 2, 3, "wepe"
		step := stepper(t, seeded(t, 7), c, true, true, "", func(logits, targets *Node) *Node {
			return Neg(ReduceAllMean(ReduceSum(Mul(LogSoftmax(logits, -1), targets), -1)))
		})
		targets := tensors.FromValue([][]float32{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}})
		first, _ := step(-0.2, images(c, 3), targets)
		last := first
		for range 11 {
			last, _ = step(-0.2, images(c, 3), targets)
		}
		if !(last < 0.75*first) {
			t.Errorf("%s: 12 steps bring the loss from %g to %g, want less than 3/4", name, first, last)
		}
	}
}
