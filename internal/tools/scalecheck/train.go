// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/data"
	"github.com/wepe-go/wepe/internal/mpi"
	"github.com/wepe-go/wepe/internal/program"
	"github.com/wepe-go/wepe/vit"
)

// trained is what a process that trained says of itself.
type trained struct {
	Pixels          string  // SHA-256 of the indices and pixels of the first batches
	Weights         string  // SHA-256 of the last checkpoint's variables
	MemoryMB        float64 // resident, the median over the second half of the steps
	ImagesPerSecond float64
	Read            float64 // pictures a second that are read and decoded, without training
	Damaged         int
}

// train trains a tiny model from a stream, some steps of 32 pictures, and prints a trained as a line of JSON. With
// every step it says so on stderr, and it saves that often.
func train(ctx context.Context, o options) error {
	set, runs, workers, steps := o.train, o.runs, o.workers[0], o.steps
	var group finetune.Group
	if o.mpi {
		world, err := mpi.Start(mpi.Ordered)
		if err != nil {
			return err
		}
		defer world.End()
		group = world
	}
	backend, err := program.OpenBackend()
	if err != nil {
		return err
	}
	defer backend.Finalize()
	recipe := finetune.Recipe{
		Name: "scalecheck", Model: vit.Config{PatchSize: 8, Width: 32, Depth: 1, Heads: 1},
		Steps: steps, EvalSteps: steps, BatchSize: 32, Accumulate: 2, LearningRate: 1e-3, ValidationPart: -1,
		Augment: data.Augment{Size: [2]int{32, 32}, CropScale: [2]float64{0.3, 1}, FlipProb: 0.5, MixupAlpha: 0.4},
	}
	files, held, _, err := program.Pictures(set, 0)
	if err != nil {
		return err
	}
	settings, err := recipe.Pictures(recipe.Augment.Size)
	if err != nil {
		return err
	}
	var sets [2]*data.Set
	for i, f := range []*data.Files{files, held} {
		if sets[i], err = f.Stream(settings, data.Streaming{Workers: workers}); err != nil {
			return err
		}
	}
	var out trained
	if out.Pixels, out.Read, err = firstBatches(sets[0], recipe.Augment, min(steps, 20)); err != nil {
		return err
	}
	var memory []float64
	run := finetune.Run{Group: group, Backend: backend, Recipe: recipe, Seed: 3, Train: sets[0], Test: sets[1], Dir: runs,
		SaveEvery: time.Millisecond, Progress: func(p finetune.Progress) {
			fmt.Fprintln(os.Stderr, "step", p.Step)
			if p.Step > steps/2 {
				memory = append(memory, resident())
			}
		}}
	m, row, err := run.Do(ctx)
	if err != nil {
		return err
	}
	defer m.Finalize()
	if group != nil && group.Rank() > 0 {
		return nil
	}
	slices.Sort(memory)
	out.MemoryMB = memory[len(memory)/2]
	last, _, err := checkpoints.Latest(filepath.Join(runs, checkpoints.LastDir))
	if err != nil {
		return err
	}
	weights, err := os.ReadFile(filepath.Join(last.Path, "variables.safetensors"))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(weights)
	out.Weights, out.ImagesPerSecond, out.Damaged = hex.EncodeToString(sum[:]), float64(row.ImagesPerSecond), row.Damaged
	return json.NewEncoder(os.Stdout).Encode(out)
}

// firstBatches returns a digest of what a feed shows first, and how many pictures a second it reads.
func firstBatches(set *data.Set, a data.Augment, n int) (digest string, perSecond float64, err error) {
	const size = 32
	order := data.Order(3, 0, set.Len())
	began := time.Now()
	feed, err := set.Feed(a, 3, size, func(yield func(int, []int) bool) {
		for k := 0; k < n && yield(0, order[k*size:(k+1)*size]); k++ {
		}
	})
	if err != nil {
		return "", 0, err
	}
	defer feed.Close()
	h := sha256.New()
	for range n {
		batch, err := feed.Next()
		if err != nil {
			return "", 0, err
		}
		fmt.Fprintln(h, batch.Indices)
		h.Write(batch.Pixels)
	}
	return hex.EncodeToString(h.Sum(nil)), float64(n*size) / time.Since(began).Seconds(), nil
}

// resident is the memory of this process in MB, as Linux counts it; elsewhere 0.
func resident() (mb float64) {
	status, _ := os.ReadFile("/proc/self/status")
	_, after, _ := strings.Cut(string(status), "VmRSS:")
	_, _ = fmt.Sscan(after, &mb) // in kB
	return mb / 1024
}
