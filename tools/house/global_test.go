// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package house

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/layers/norm"
	"github.com/gomlx/gomlx/ml/model"

	_ "github.com/wepe-go/wepe/analysis"
	_ "github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	_ "github.com/wepe-go/wepe/detect"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
	_ "github.com/wepe-go/wepe/vit/dhvt"
)

// Importing this library changes no global state: every registered gradient of GoMLX is GoMLX's own.
func TestGradientsOfGoMLXAreItsOwn(t *testing.T) {
	for kind, vjp := range VJPRegistration {
		name := runtime.FuncForPC(reflect.ValueOf(vjp).Pointer()).Name()
		if !strings.HasPrefix(name, "github.com/gomlx/gomlx/core/graph.") {
			t.Errorf("the gradient of %s is %s", kind, name)
		}
	}
}

// A model of GoMLX's layers has the same training graph and, bit for bit, the same gradients before and after training
// a model of this library.
func TestTrainingHereDoesNotChangeAModelOfGoMLX(t *testing.T) {
	graphBefore, before := gradientsOfGoMLXLayers(t)
	network := vit.Config{ImageRows: 15, ImageCols: 10, PatchSize: 5, Width: 12, Depth: 1, Heads: 3, Classes: 3,
		Position: "wepe"}
	recipe := finetune.Recipe{Model: network, Epochs: 1, BatchSize: 7, LearningRate: 1e-3, ValidationPart: -1,
		Augment: data.Augment{Size: [2]int{15, 10}}}
	ours := gomlxtest.Must(finetune.NewTiming(finetune.Run{Backend: gomlxtest.Backend(), Recipe: recipe,
		Train: finetune.Noise(7, 15, 10, 3)}))(t)
	defer ours.Close()
	if err := ours.Step(); err != nil {
		t.Fatal(err)
	}
	graphAfter, after := gradientsOfGoMLXLayers(t)
	if graphBefore != graphAfter {
		t.Errorf("the graph was\n%s\nand is\n%s", graphBefore, graphAfter)
	}
	if !reflect.DeepEqual(before, after) {
		t.Errorf("gradients were %v and are %v", before, after)
	}
}

// gradientsOfGoMLXLayers returns the nodes of a training graph, a line each, and the gradients' values.
func gradientsOfGoMLXLayers(t *testing.T) (nodes string, values [][]float64) {
	store := model.NewStore()
	store.SetParam(model.ParamInitialSeed, int64(11))
	values = gomlxtest.RunModel(t, store, func(scope *model.Scope, in []*Node) []*Node {
		x := layers.Dense(scope.In("first"), in[0], true, 13)
		x = norm.LayerNorm(scope.In("norm"), x, -1).Done()
		x = layers.Dense(scope.In("second"), activation.Gelu(x), true, 7)
		loss := ReduceAllMean(Square(Softmax(x)))
		grads := scope.BuildTrainableVariablesGradientsGraph(loss)
		nodes = fmt.Sprint(loss.Graph())
		return grads
	}, gomlxtest.Noise(5, 11))
	return nodes, values
}
