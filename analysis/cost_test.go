// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/study"
)

// The clock is a counter, squared, so each call takes longer than the one before. The calls are replayed in the order
// of their rounds, less the first two, and rates are medians over four rounds.
func TestCost_RatiosAreMediansOfQuotientsOfTheSameRound(t *testing.T) {
	gomlxtest.OnGo(t)
	const rounds, seed, side = 4, 9, 32
	ticks := 0.0
	clock := func() float64 { ticks++; return ticks * ticks }
	c := Cost{Backend: gomlxtest.Backend(), Sizes: []string{"Ti/16"}, Sides: []int{side}, Forward: 2, Step: 1,
		Rounds: rounds, Seed: seed, Variants: study.Variants("none", "learned", "sincos2d"), CPUTime: clock,
		Memory: func(_ context.Context, size string, side int, v study.Variant) (float64, error) {
			return float64(side*len(size)*len(v.Label)) * (1 << 20), nil // 32·5·4 and 32·5·7
		}}
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
	gomlxtest.NearAbs(t, "memory", []float64{value(t, rows, "cost", "learned", "peak memory of a process, MiB",
		"Ti/16, 32"), value(t, rows, "cost", "learned", "peak memory × none", "Ti/16, 32")}, []float64{1120, 1.75}, 0)
	for v, name := range []string{"none", "learned", "sincos2d"} {
		for call, images := range map[string]float64{"inference": 2, "training": 1} {
			durations := took[map[string]int{"inference": 0, "training": 1}[call]]
			quotients := floats.DivTo(make([]float64, rounds), durations[v], durations[0])
			gomlxtest.NearAbs(t, name+": "+call, []float64{
				value(t, rows, "cost", name, call+", images/CPU second", "Ti/16, 32"),
				value(t, rows, "cost", name, call+", time × none", "Ti/16, 32"),
			}, []float64{images / middle(durations[v]), middle(quotients)}, 1e-12)
		}
	}
}

func TestCost_WithoutAClockIsOfWallTime(t *testing.T) {
	gomlxtest.OnGo(t)
	c := Cost{Backend: gomlxtest.Backend(), Sizes: []string{"Ti/16"}, Sides: []int{32}, Forward: 1, Step: 1, Rounds: 1,
		Variants: study.Variants("none")}
	rows := gomlxtest.Must(c.Run(t.Context()))(t)
	for _, call := range []string{"inference", "training"} {
		// Ti/16 on 4 patches: between a microsecond and a minute.
		if rate := value(t, rows, "cost", "none", call+", images/s", "Ti/16, 32"); !(rate > 1./60 && rate < 1e6) {
			t.Errorf("%s: %g images/s", call, rate)
		}
	}
	is.Equal(t, "rows, 2 of the model and 2 of each call", len(rows), 6)
	killed := errors.New("killed")
	ctx, cancel := context.WithCancel(t.Context())
	for name, change := range map[string]func(*Cost){
		"memory": func(c *Cost) {
			c.Memory = func(context.Context, string, int, study.Variant) (float64, error) { return 0, killed }
		},
		"setting": func(c *Cost) { c.Variants = []study.Variant{{Position: "wepe", Settings: "no_such=1"}} },
		"size":    func(c *Cost) { c.Sizes = []string{"Ti/16", "Z/16"} },
		"the end": func(*Cost) { cancel() }, // last: in any order the others fail too
	} {
		other := c
		change(&other)
		if _, err := other.Run(ctx); err == nil || name == "memory" && !errors.Is(err, killed) && ctx.Err() == nil ||
			name == "the end" && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
