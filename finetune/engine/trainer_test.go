// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"google.golang.org/protobuf/testing/protopack"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/report"
)

// The draws of a micro-batch depend on its step and index, not on the process.
func TestEveryPartOfEveryStepHasItsOwnDropout(t *testing.T) {
	draws := func(step, part int) []float64 {
		trainer := NewTrainer(Training{Store: model.NewStore(), GradAccumSteps: 3})
		trainer.step = step
		gomlxtest.NoError(t, trainer.stream(part))
		return gomlxtest.RunModel(t, trainer.Store, func(scope *model.Scope, in []*graph.Node) []*graph.Node {
			return []*graph.Node{scope.RandomUniform(in[0].Graph(), shapes.Make(dtypes.Float32, 7))}
		}, float32(0))[0]
	}
	seen := map[float64]string{}
	for _, at := range [][2]int{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 2}} {
		got := draws(at[0], at[1])
		is.Equal(t, fmt.Sprint("drawn by two processes at step and part ", at), draws(at[0], at[1]), got)
		for _, v := range got {
			if other, twice := seen[v]; twice {
				t.Errorf("step %d, part %d draws %g, as %s does", at[0], at[1], v, other)
			}
			seen[v] = fmt.Sprint(at)
		}
	}
}

func TestExhausted_CountsEvaluations(t *testing.T) {
	trainer := Trainer{Training: Training{Patience: 2, Interval: 10}}
	for step, want := range map[int]bool{30: false, 39: false, 40: true} {
		is.Equal(t, fmt.Sprint("step ", step), trainer.Exhausted(step, TrainState{BestStep: 25}), want) // of an extended run
	}
}

// resumable is a task whose checkpoint is of another backend.
type resumable struct{ Task }

func (resumable) Identity() RunIdentity { return RunIdentity{} }
func (resumable) Load(*checkpoints.Checkpoint) (RunIdentity, TrainState, error) {
	return RunIdentity{}, TrainState{Backend: "another"}, nil
}

func TestTrainer_ResumedOnAnotherBackendSaysSo(t *testing.T) {
	store, dir := model.NewStore(), t.TempDir()
	saver := checkpoints.Saver{Dir: filepath.Join(dir, checkpoints.LastDir)}
	gomlxtest.Must(saver.Save(store, 3, struct{}{}))(t)
	var log strings.Builder
	trainer := NewTrainer(Training{Task: resumable{}, Store: store, Backend: gomlxtest.PureGo(), Dir: dir,
		Logger: gomlxtest.Logger(&log)})
	gomlxtest.NoError(t, trainer.resume())
	is.Equal(t, "step", trainer.Step(), 3)
	if !strings.Contains(log.String(), "before=another") || strings.Count(log.String(), "\n") != 2 { // and that it resumes
		t.Errorf("logged %q", &log)
	}
}

func TestRunIdentity_SameNamesTheFirstDifference(t *testing.T) {
	type recipe struct {
		Rate float64 `json:"rate"`
		In   struct {
			Mode string `json:"mode,omitempty"`
		} `json:"in"`
	}
	type change func(*RunIdentity, *recipe)
	run := func(change change) RunIdentity {
		r := recipe{Rate: 0.5}
		i := RunIdentity{Seed: 3, From: Scratch, Dataset: "flowers", Data: "7f", Other: map[string]string{"scenes": "11"}}
		change(&i, &r)
		i.Recipe = r
		return i
	}
	now := run(func(*RunIdentity, *recipe) {})
	for want, change := range map[OtherRunError]change{
		{"d", "rate", "0.25", "0.5"}:      func(_ *RunIdentity, r *recipe) { r.Rate = 0.25 },
		{"d", "in.mode", `"a"`, "unset"}:  func(i *RunIdentity, r *recipe) { r.In.Mode, i.Data = "a", "8" },
		{"d", "seed", "0", "3"}:           func(i *RunIdentity, _ *recipe) { i.Seed = 0 },
		{"d", "from", "1e", "none"}:       func(i *RunIdentity, r *recipe) { i.From, r.Rate = "1e", 1 },
		{"d", "dataset", "fl", "flowers"}: func(i *RunIdentity, _ *recipe) { i.Dataset = "fl" },
		{"d", "data", "7e", "7f"}:         func(i *RunIdentity, _ *recipe) { i.Data = "7e" },
		{"d", "scenes", "12", "11"}:       func(i *RunIdentity, _ *recipe) { i.Other = map[string]string{"scenes": "12"} },
		{}:                                func(i *RunIdentity, _ *recipe) {},
		{Was: "what earlier versions lack"}: func(i *RunIdentity, _ *recipe) {
			i.From, i.Dataset, i.Data, i.Other = "", "", "", nil
		},
	} {
		err := run(change).Same(now, "d")
		var got *OtherRunError
		if errors.As(err, &got) != (want.Field != "") || got != nil && *got != want {
			t.Errorf("%+v, want %+v", err, want)
		}
	}
}

func TestProgress_SaysWhatTheValidationMeasured(t *testing.T) {
	ap := func(v report.JSONFloat) map[string]report.JSONFloat { return map[string]report.JSONFloat{"AP": v} }
	detected := func(boxes, masks map[string]report.JSONFloat) Progress {
		return Progress{Eval: &report.Eval{DetectionMetrics: report.DetectionMetrics{Boxes: boxes, Masks: masks}}}
	}
	for want, p := range map[string]Progress{
		"step 3/5  0.43 images/s":             {}, // no loss was read
		"step 3/5  loss 0.700  0.43 images/s": {Loss: 0.7},
		"mean loss 0.000  0.43 images/s":      {Eval: &report.Eval{}},
		"validation top-1 25.0 %":             {Eval: &report.Eval{Metrics: report.Metrics{Top1: 0.25, Images: 7}}},
		"validation box AP 50.0  mask AP 0.0": detected(ap(0.5), ap(0)),
		"validation box AP –  0.43 images/s":  detected(ap(-1), nil),
		"validation box AP –  mask AP –":      detected(ap(-1), ap(-1)),
	} {
		p.Step, p.Steps, p.ImagesPerSecond = 3, 5, 0.43
		if got := p.String(); !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Events and the table have the finite scalars of every row. The first record of every event file that TensorFlow
// writes has 24 bytes; the checksum of that length is a3 7f 4b 22.
func TestLogs_LeaveOutWhatIsNotFinite(t *testing.T) {
	evals := []report.Eval{
		{Step: 0, Split: report.Validation, Metrics: report.Metrics{Loss: 3.5, Top1: 0.25, Top5: 0.5, Images: 7},
			TrainLoss: report.JSONFloat(math.NaN()), LearningRate: 0.001, ImagesPerSecond: report.JSONFloat(math.Inf(1))},
		{Step: 300, Epoch: 1.5, Split: report.Validation, TrainLoss: 2, LearningRate: 1e-4, ImagesPerSecond: 90},
	}
	type scalar struct {
		name  string
		value float32
	}
	tag := func(n protopack.Number, of protopack.Type) protopack.Tag { return protopack.Tag{Number: n, Type: of} }
	event := func(step int, scalars ...scalar) []byte {
		var summary protopack.LengthPrefix
		for _, s := range scalars {
			summary = append(summary, tag(1, protopack.BytesType), protopack.LengthPrefix{tag(1, protopack.BytesType),
				protopack.String(s.name), tag(2, protopack.Fixed32Type), protopack.Float32(s.value)})
		}
		return protopack.Message{tag(2, protopack.VarintType), protopack.Varint(step), tag(5, protopack.BytesType),
			summary}.Marshal()
	}
	crc := func(data []byte) []byte { return binary.LittleEndian.AppendUint32(nil, maskedCRC(data)) }
	is.Equal(t, "checksum of 24", string(crc(binary.LittleEndian.AppendUint64(nil, 24))), "\xa3\x7f\x4b\x22")
	var want []byte
	for _, data := range [][]byte{
		protopack.Message{tag(3, protopack.BytesType), protopack.String("brain.Event:2")}.Marshal(),
		event(0, scalar{"loss/validation", 3.5}, scalar{"top1/validation", 0.25}, scalar{"top5/validation", 0.5},
			scalar{"learning_rate", 0.001}),
		event(300, scalar{"loss/train", 2}, scalar{"learning_rate", 1e-4}, scalar{"images_per_second", 90}),
	} {
		length := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
		want = slices.Concat(want, length, crc(length), data, crc(data))
	}
	const table = "step,epoch,train_loss,validation_loss,validation_top1,validation_top5,validation_images," +
		"learning_rate,images_per_second\n0,0,,3.5,0.25,0.5,7,0.001,\n300,1.5,2,,,,0,0.0001,90\n"
	var events, csv strings.Builder
	if err := errors.Join(writeEvents(&events, evals), writeCSV(&csv, evals)); err != nil ||
		events.String() != string(want) || csv.String() != table {
		t.Errorf("%q and\n%s%v, want %q and\n%s", &events, &csv, err, want, table)
	}
}
