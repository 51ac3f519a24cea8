// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func TestSweep_IsEveryCombinationThatAnEncodingReads(t *testing.T) {
	of := func(position, sweep string) []string {
		return gomlxtest.Must((&Study{Sweep: sweep}).settingsFor(position))(t)
	}
	const sweep = "learning_rate=0.01, 0.03; wepe_gate=0.1,0.5;augment.size=[24,24],[32,48]"
	plain := []string{
		"learning_rate=0.01;augment.size=[24,24]", "learning_rate=0.01;augment.size=[32,48]",
		"learning_rate=0.03;augment.size=[24,24]", "learning_rate=0.03;augment.size=[32,48]",
	}
	for _, position := range []string{"learned", "none", "rope-mixed", "wepe", "wepe-bias"} {
		if got := of(position, sweep); !slices.Equal(got, plain) {
			t.Errorf("%s: %q, want %q", position, got, plain)
		}
	}
	for position, setting := range map[string]string{
		"hybrid": "wepe_gate", "wepe": "wepe_beta_pos", "wepe-bias": "wepe_area",
	} {
		got := of(position, strings.ReplaceAll(sweep, "wepe_gate", setting))
		if len(got) != 8 || got[0] != "learning_rate=0.01;"+setting+"=0.1;augment.size=[24,24]" ||
			got[7] != "learning_rate=0.03;"+setting+"=0.5;augment.size=[32,48]" {
			t.Errorf("%s: %q", position, got)
		}
	}
	if got := of("learned", ""); !slices.Equal(got, []string{""}) {
		t.Errorf("without a sweep %q, want the recipe as it is", got)
	}
	s := planned(t) // without image sizes, and with a checkpoint of unknown patch size
	s.Tasks[1].Recipe.Model.PatchSize = 0
	for sweep, ok := range map[string]bool{"learning_rate=0.1,0.2": true, "learning_rate=0.1,-1": false,
		"wepe_gate=0.1,2": false, "learning_rate=0.1,fast": false, "learning_rate": false, "=1": false, "a=": false,
		"a=1,1": false, "a=1;a=2": false, "a=1;b": false, "batch_size=3,5": true} {
		s.Sweep = sweep
		if err := s.Validate(); (err == nil) != ok {
			t.Errorf("%s: %v", sweep, err)
		}
	}
	for i := range s.Tasks { // of the final training runs, whose settings are not chosen yet
		s.Tasks[i].Recipe.LearningRate = 0
	}
	for sweep, ok := range map[string]bool{"learning_rate=0.1,0.2": true, "batch_size=3,5": false} {
		s.Sweep = sweep
		if err := s.Validate(); (err == nil) != ok {
			t.Errorf("%s before a recipe without a rate: %v", sweep, err)
		}
	}
}
