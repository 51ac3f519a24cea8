// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"slices"
	"strings"
	"testing"
)

func TestASweepIsEveryCombinationThatAnEncodingReads(t *testing.T) {
	axes, err := ParseSweep("learning_rate=0.01, 0.03; wepe_gate=0.1,0.5;augment.size=[24,24],[32,48]")
	if err != nil {
		t.Fatal(err)
	}
	plain := []string{
		"learning_rate=0.01;augment.size=[24,24]", "learning_rate=0.01;augment.size=[32,48]",
		"learning_rate=0.03;augment.size=[24,24]", "learning_rate=0.03;augment.size=[32,48]",
	}
	for _, position := range []string{"learned", "none", "rope-mixed"} {
		if got := settingsFor(position, axes); !slices.Equal(got, plain) {
			t.Errorf("%s: %q, want %q", position, got, plain)
		}
	}
	for _, position := range []string{"hybrid", "wepe", "wepe-bias"} {
		got := settingsFor(position, axes)
		if len(got) != 8 || got[0] != "learning_rate=0.01;wepe_gate=0.1;augment.size=[24,24]" ||
			got[7] != "learning_rate=0.03;wepe_gate=0.5;augment.size=[32,48]" {
			t.Errorf("%s: %q", position, got)
		}
	}
	if got := settingsFor("learned", nil); !slices.Equal(got, []string{""}) {
		t.Errorf("without a sweep %q, want the recipe as it is", got)
	}
	s := planned(t) // of pictures of no size, and of a checkpoint whose patches are not known
	s.Tasks[1].Recipe.Model.PatchSize = 0
	for sweep, want := range map[string]string{
		"learning_rate=0.1,0.2": "", "learning_rate=0.1,-1": "learning_rate is -1", "wepe_gate=0.1,2": "wepe_gate",
	} {
		if s.Sweep, err = ParseSweep(sweep); err != nil {
			t.Fatal(err)
		}
		err := s.Validate()
		if ok := want == "" && err == nil || want != "" && err != nil && strings.Contains(err.Error(), want); !ok {
			t.Errorf("%s: %v, want %q", sweep, err, want)
		}
	}
	for _, text := range []string{"learning_rate", "=1", "a=", "a=1,1", "a=1;a=2", "a=1;b"} {
		if axes, err := ParseSweep(text); err == nil {
			t.Errorf("%q: accepted as %v", text, axes)
		}
	}
}
