// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/internal/gomlxtest"
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
		if !slices.Equal(got, draws(at[0], at[1])) {
			t.Errorf("step %d, part %d: two processes draw differently", at[0], at[1])
		}
		for _, v := range got {
			if other, twice := seen[v]; twice {
				t.Errorf("step %d, part %d draws %g, as %s does", at[0], at[1], v, other)
			}
			seen[v] = fmt.Sprint(at)
		}
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
	if err := trainer.resume(); err != nil || trainer.Step() != 3 {
		t.Fatal(trainer.Step(), err)
	}
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
