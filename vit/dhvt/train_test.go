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
// in proportion to it; it returns the loss and the squared norm of the gradient.
func stepper(t *testing.T, store *model.Store, c Config, training bool, part string,
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
		for i, v := range vars {
			v.SetNodeValue(Add(weights[i], Mul(grads[i], in[2])))
		}
		return []*Node{value, norm2}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(exec.Finalize)
	return func(step float64, images, targets *tensors.Tensor) (float64, float64) {
		out := gomlxtest.Must(exec.Call(images, targets, float32(step)))(t)
		return gomlxtest.Values(t, out[0])[0], gomlxtest.Values(t, out[1])[0]
	}
}

func TestTheGradientOfEveryPartIsTheSlopeOfTheLoss(t *testing.T) {
	c := small("wepe")
	c.Depth = 1
	for _, part := range []string{"/patch/", "/class", "/position/", "/attention/", "/head_tokens/", "/hidden/",
		"/depthwise/weights", "/squeeze/", "/excite/"} {
		for _, training := range []bool{false, true} {
			store := gomlxtest.Seeded(t, 5)
			logits(t, c, store, false)
			step := stepper(t, store, c, training, part, func(logits, targets *Node) *Node {
				return ReduceAllSum(Mul(Square(logits), targets))
			})
			const relative = 1e-3 // step of the loss: the smaller, the straighter, but more of it is rounding
			loss, norm2 := step(0, images(c, 3), gomlxtest.Noise(3, c.Classes))
			length := relative * math.Abs(loss) / norm2
			before, _ := step(2*length, images(c, 3), gomlxtest.Noise(3, c.Classes))
			after, _ := step(0, images(c, 3), gomlxtest.Noise(3, c.Classes))
			if rise := (after - before) / (2 * length * norm2); !(math.Abs(rise-1) <= 0.05) {
				t.Errorf("%s, training %v: the loss rises by %.3f of what its gradient says (%g -> %g)", part, training, rise,
					before, after)
			}
		}
	}
}
