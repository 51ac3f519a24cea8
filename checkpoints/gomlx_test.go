// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/checkpoint"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/ml/train/optimizer"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// logitsOf runs a model in its store.
func logitsOf(t *testing.T, m *Model, images *tensors.Tensor) []float32 {
	t.Helper()
	return gomlxtest.Must(forward(gomlxtest.Backend(), m.Scope.Store(), m.Scope.Scope(), m.Config, images))(t)
}

// GoMLX's trainer trains a loaded model, and its checkpoints, ours and an export bring it back.
func TestLoad_TrainsAndComesBackWithGoMLX(t *testing.T) {
	gomlxtest.OnGo(t)
	b, c := gomlxtest.Backend(), ownViT("learned")
	from := exportedFrom(t, stirred(t, c, nil), c, ExportOptions{Format: formatNative, Preprocess: &normalized})
	store := model.NewStore()
	m := gomlxtest.Must(Load(b, store.Scope("/some/vit"), from, Options{ImportOptions: ImportOptions{ImageRows: 8,
		ImageCols: 14, Classes: 3}, Position: "hybrid"}))(t)
	images, labels := Noise(m.Config, 5, 7), tensors.FromValue([][]int32{{0}, {2}, {1}, {2}, {0}})
	trainer := train.NewTrainer(b, store, m.ModelFn(nil), loss.SparseCategoricalCrossEntropyLogits,
		optimizer.Adam().LearningRate(1e-3).Done(), nil, nil)
	var losses []float64
	for range 4 {
		metrics := gomlxtest.Must(trainer.TrainStep(train.Batch{Inputs: []*tensors.Tensor{images},
			Labels: []*tensors.Tensor{labels}}))(t)
		losses = append(losses, gomlxtest.Values(t, metrics[0])[0])
	}
	if !(losses[3] < losses[0]) {
		t.Errorf("losses %v", losses)
	}
	want := logitsOf(t, m, images)

	handler := gomlxtest.Must(checkpoint.Build(store).Dir(t.TempDir()).Keep(1).Done())(t)
	gomlxtest.NoError(t, handler.Save())
	theirs := model.NewStore()
	gomlxtest.Must(checkpoint.Load(theirs).Dir(handler.Dir()).Immediate().Done())(t)
	near(t, "GoMLX's checkpoint", logitsOf(t, &Model{Config: m.Config, Scope: theirs.Scope("/some/vit")}, images), want, 0)

	dir := t.TempDir()
	path := gomlxtest.Must((&Saver{Dir: dir}).Save(store, 4, nil))(t)
	ours := model.NewStore()
	saved := gomlxtest.Must(openCheckpoint(path))(t)
	ours.SetParams(saved.Params)
	gomlxtest.NoError(t, saved.Load(ours, nil))
	near(t, "our checkpoint", logitsOf(t, &Model{Config: m.Config, Scope: ours.Scope("/some/vit")}, images), want, 0)

	for _, format := range []string{formatNative, formatTimm} { // the table folded
		out := filepath.Join(t.TempDir(), "model")
		gomlxtest.Must(m.Export(out, b, ExportOptions{Format: format}))(t)
		near(t, format, gomlxtest.Must(imported(t, out, ImportOptions{}).Logits(b, images))(t), want, 1e-5)
	}
}

// Adapters of rank 2 on six matrices of each of two blocks are trained, and added to the matrices in the files; a model
// is the same after an export or its refusal. At the root of a store the variables of others are not the model's.
func TestModelExport_LeavesTheModelUnchanged(t *testing.T) {
	b, c := gomlxtest.Backend(), ownViT("wepe")
	from := exportedFrom(t, stirred(t, c, nil), c, ExportOptions{Format: formatNative})
	for _, scope := range []string{"/some/vit", "/"} {
		store, trained := stirred(t, c, nil), 0 // with another model at /vit
		m := gomlxtest.Must(Load(b, store.Scope(scope), from, Options{LoRA: 2, LoRAMLP: true}))(t)
		store.RootScope().VariableWithValue(model.RNGStateVariableName, []uint64{1, 2, 3})
		images, before := Noise(c, 2, 7), map[string][]byte{}
		plain := logitsOf(t, m, images)
		for v := range store.IterVariables() {
			if v.Trainable && strings.HasPrefix(v.Path(), "/lora/") {
				trained++
			}
			if strings.HasSuffix(v.Path(), "/b") {
				gomlxtest.NoError(t, v.SetValue(tensors.FromFlatDataAndDimensions(slices.Repeat([]float32{0.1, -0.2},
					v.Shape().Size()/2), v.Shape().Dimensions...)))
			}
			before[v.Path()] = bytesOf(t, v.MustValue())
		}
		want := logitsOf(t, m, images)
		if trained != 2*6*2 || plain[0] == want[0] {
			t.Errorf("%s: %d factors of adapters, logits %v, stirred %v", scope, trained, plain, want)
		}
		for format, epsilon := range map[string]float64{formatNative: 0, formatTimm: 0, formatHF: 0, formatJAX: 7} {
			out := filepath.Join(t.TempDir(), "model")
			_, err := m.Export(out, b, ExportOptions{Format: format, Epsilon: epsilon})
			if (err == nil) != (epsilon == 0) {
				t.Errorf("%s as %s: %v", scope, format, err)
			}
			if err == nil {
				near(t, scope+" "+format, gomlxtest.Must(imported(t, out, ImportOptions{}).Logits(b, images))(t), want, 1e-5)
			}
			for v := range store.IterVariables() {
				if !bytes.Equal(bytesOf(t, v.MustValue()), before[v.Path()]) {
					t.Errorf("%s as %s: %s changed", scope, format, v.Path())
				}
			}
		}
	}
}

func TestLoad_Refusals(t *testing.T) {
	c := ownViT("rope-axial")
	from := exportedFrom(t, stirred(t, c, nil), c, ExportOptions{Format: formatNative})
	for i, test := range []struct {
		o     Options
		names string
	}{
		{Options{Params: args("rope_theta", 50)}, ""}, {Options{Params: args("rope_thetta", 50.0)}, "rope_thetta"},
		{Options{Params: args("wepe_start", 0.5)}, "wepe_start"}, {Options{Params: args("rope_theta", "x")}, "rope_theta"},
		{Options{Params: args("rope_theta", 0.5)}, "rope_theta"}, {Options{LoRA: -1}, "LoRA"},
		{Options{LoRAMLP: true}, "LoRAMLP"}, {Options{LoRA: 3, LoRAMLP: true}, ""},
	} {
		_, err := Load(gomlxtest.Backend(), model.NewStore().Scope("/vit"), from, test.o)
		want := asked
		if test.names == "" {
			want = opens
		}
		refuses(t, fmt.Sprintf("%d, %+v", i, test.o), err, want, test.names)
	}
}

// What is added to a pretrained model leaves its function unchanged; what replaces its encoding does not.
func TestLoad_AddedEncodingsStartAtTheModel(t *testing.T) {
	b, c := gomlxtest.Backend(), ownViT("learned")
	from := exportedFrom(t, stirred(t, c, nil), c, ExportOptions{Format: formatNative})
	images := Noise(c, 2, 7)
	want := gomlxtest.Must(imported(t, from, ImportOptions{}).Logits(b, images))(t)
	for name, unchanged := range map[string]bool{"": true, "learned+wepe-v": true, "learned+wepe-bias": true,
		"learned+rope-axial": false, "none": false, "wepe": false} {
		m := gomlxtest.Must(Load(b, model.NewStore().Scope("/vit"), from, Options{Position: name}))(t)
		got := gomlxtest.RunModel(t, m.Scope.Store(), func(_ *model.Scope, in []*Node) []*Node {
			return m.ModelFn(nil)(m.Scope, nil, in)
		}, images)[0]
		largest := 0.0
		for i := range got {
			largest = max(largest, math.Abs(got[i]-float64(want[i])))
		}
		if (largest < 1e-5) != unchanged {
			t.Errorf("%q: logits differ by %g", name, largest)
		}
		_, added, _ := strings.Cut(name, "+")
		if told := strings.Contains(strings.Join(m.Report, "\n"), "positions: "+added+" "); told != (added == "rope-axial") {
			t.Errorf("%q: the report is %q", name, m.Report)
		}
	}
}
