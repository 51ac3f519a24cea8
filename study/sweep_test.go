// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func TestASweepIsEveryCombinationThatAnEncodingReads(t *testing.T) {
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
	for sweep, want := range map[string]string{
		"learning_rate=0.1,0.2": "", "learning_rate=0.1,-1": "learning_rate is -1", "wepe_gate=0.1,2": "wepe_gate",
	} {
		s.Sweep = sweep
		err := s.Validate()
		if ok := want == "" && err == nil || want != "" && err != nil && strings.Contains(err.Error(), want); !ok {
			t.Errorf("%s: %v, want %q", sweep, err, want)
		}
	}
	for i := range s.Tasks { // of the final training runs, whose settings are not chosen yet
		s.Tasks[i].Recipe.LearningRate = 0
	}
	for sweep, want := range map[string]string{"learning_rate=0.1,0.2": "", "batch_size=3,5": "learning_rate is 0"} {
		s.Sweep = sweep
		if err := s.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s before a recipe without a rate: %v, want %q", sweep, err, want)
		}
	}
	for text, want := range map[string]string{"learning_rate": `"learning_rate": want setting=`,
		"=1": `"=1": want setting=`, "a=": "a has no values", "a=1,1": "a 1 appears twice",
		"a=1;a=2": "a appears twice", "a=1;b": `"b": want setting=`} {
		s.Sweep = text
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "sweep: "+want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
