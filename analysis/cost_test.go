// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/study"
)

// The clock is a counter, squared, so each call takes longer than the one before. The calls are replayed in the order
// of their rounds, less the first two, and rates are medians over four rounds.
func TestRatiosOfCostAreMediansOfQuotientsOfTheSameRound(t *testing.T) {
	gomlxtest.OnGo(t)
	const rounds, seed, side = 4, 9, 32
	ticks := 0.0
	clock := func() float64 { ticks++; return ticks * ticks }
	c := Cost{Backend: gomlxtest.Backend(), Sizes: []string{"Ti/16"}, Sides: []int{side}, Forward: 2, Step: 1,
		Rounds: rounds, Seed: seed, Variants: study.Each("none", "learned", "sincos2d"), CPUTime: clock}
	rows := gomlxtest.Must(c.Run(t.Context()))(t)
	ticks = 0
	var took [2][3][]float64 // [inference or step][variant][round]
	draw := rand.New(rand.NewPCG(seed, side))
	for round := range 2 + rounds {
		for _, variant := range draw.Perm(3) {
			for call := range took {
				if began := clock(); round >= 2 { // the first two are not timed to their end
					took[call][variant] = append(took[call][variant], clock()-began)
				}
			}
		}
	}
	middle := func(values []float64) float64 {
		sorted := slices.Sorted(slices.Values(values))
		return (sorted[rounds/2-1] + sorted[rounds/2]) / 2
	}
	for v, name := range []string{"none", "learned", "sincos2d"} {
		for call, images := range map[string]float64{"inference": 2, "training": 1} {
			durations := took[map[string]int{"inference": 0, "training": 1}[call]]
			var quotients []float64
			for r, d := range durations[v] {
				quotients = append(quotients, d/durations[0][r])
			}
			gomlxtest.NearAbs(t, name+": "+call, []float64{
				value(t, rows, "cost", name, call+", images/CPU second", "Ti/16, 32"),
				value(t, rows, "cost", name, call+", time × none", "Ti/16, 32"),
			}, []float64{images / middle(durations[v]), middle(quotients)}, 1e-12)
		}
	}
}

func TestCostWithoutAClockIsOfWallTimeAndNamesWhatFails(t *testing.T) {
	gomlxtest.OnGo(t)
	c := Cost{Backend: gomlxtest.Backend(), Sizes: []string{"Ti/16"}, Sides: []int{32}, Forward: 1, Step: 1, Rounds: 1,
		Variants: study.Each("none")}
	rows := gomlxtest.Must(c.Run(t.Context()))(t)
	for _, call := range []string{"inference", "training"} {
		// Ti/16 on 4 patches: between a microsecond and a minute.
		if rate := value(t, rows, "cost", "none", call+", images/s", "Ti/16, 32"); !(rate > 1./60 && rate < 1e6) {
			t.Errorf("%s: %g images/s", call, rate)
		}
	}
	c.Memory = func(context.Context, string, int, study.Variant) (float64, error) { return 0, errors.New("killed") }
	if _, err := c.Run(t.Context()); fmt.Sprint(err) != "Ti/16, 32: none: memory: killed" {
		t.Error(err)
	}
	c.Variants = append(c.Variants, study.Variant{Position: "wepe", Label: "broken", Settings: "no_such=1"})
	if _, err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "Ti/16, 32: broken: ") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.Variants = c.Variants[:1]
	if _, err := c.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
