// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"testing"
)

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
