// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/wepe-go/wepe/internal/plugin"
	"github.com/wepe-go/wepe/tools/bench/rows"
	"github.com/wepe-go/wepe/vit"
)

// cell is one measurement of all candidates.
type cell struct {
	call, model    string
	batch, threads int
	dtype          string
}

func (c cell) String() string {
	return fmt.Sprintf("%s, %s, batch %d, %d threads", c.call, c.model, c.batch, c.threads)
}

// config is the model of a cell.
func (c cell) config() (config vit.Config, err error) {
	side := 224
	if c.model == "small" {
		side, config = 32, vit.Config{Width: 96, Depth: 6, Heads: 3, PatchSize: 4, Channels: 3}
	} else if config, err = vit.Variant(c.model); err != nil {
		return config, err
	}
	config.ImageRows, config.ImageCols, config.Classes, config.DType = side, side, 100, c.dtype
	return config.Resolve()
}

// line is the request to the processes.
func (c cell) line(config vit.Config) string {
	return fmt.Sprintf("%s %d %d %d %d %d %d %s\n", c.call, config.Width, config.Depth, config.Heads, config.PatchSize,
		config.ImageRows, c.batch, c.dtype)
}

// memory estimates the bytes of one process: activations of a step dominate for large batches, weights and moments for
// large models.
func (c cell) memory(config vit.Config) float64 {
	const process = 4e8
	weights, tokens := 4*float64(config.Parameters()), float64(c.batch*config.Tokens())
	if c.call == "inference" {
		return process + 2*weights + 4*tokens*float64(4*config.MLPDim)
	}
	scores := 2 * float64(config.Heads*config.Tokens())
	return process + 5*weights + 4*tokens*float64(config.Depth)*(10*float64(config.Width)+4*float64(config.MLPDim)+scores)
}

// candidate is a process and its times in each round.
type candidate struct {
	name    string // an encoding of ours, or a peer
	process *process
	took    []float64
}

// measure runs one cell and returns a row for each pair that is compared.
func (o options) measure(ctx context.Context, c cell) (measured []rows.Row, err error) {
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	n := len(o.positions) + len(o.peers)
	if need := c.memory(config) * float64(n) / (1 << 30); need > o.memory {
		fmt.Fprintf(os.Stderr, "%s: skipped: %d processes take about %.0f GiB, --memory is %g\n", c, n, need, o.memory)
		return nil, nil
	}
	all := make([]*candidate, n)
	defer func() {
		for _, a := range all {
			if a.process != nil {
				a.process.close()
			}
		}
	}()
	var group errgroup.Group // on a GPU all compile at once, on the processors beside it
	if group.SetLimit(1); o.device == "cuda" {
		group.SetLimit(n)
	}
	for i, name := range slices.Concat(o.positions, o.peers) {
		all[i] = &candidate{name: name}
		group.Go(func() error { return all[i].start(ctx, o, c.threads, i < len(o.positions), c.line(config)) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	rates, err := o.rounds(c, config, all)
	if err != nil {
		return nil, err
	}
	if o.device == "cuda" { // what the driver lists: memory once taken is kept by all candidates
		bytes, err := plugin.GPUMemory(ctx)
		if err != nil {
			return nil, err
		}
		for _, a := range all {
			a.process.peak = bytes[a.process.command.Process.Pid] // 0, not known, in a container with its own process numbers
		}
	}
	return o.rows(c, config, all, median(rates)), nil
}

// start starts the process of an encoding of ours or of a peer, and makes its first calls.
func (a *candidate) start(ctx context.Context, o options, threads int, ours bool, line string) (err error) {
	if ours {
		var self string
		if self, err = os.Executable(); err == nil {
			a.process, err = start(ctx, threads, self, serveCommand, a.name)
		}
	} else if script, found := scripts[a.name]; found {
		file := filepath.Join("tools", "bench", "peers", script[0])
		a.process, err = start(ctx, threads, o.python, slices.Concat([]string{file}, script[1:], []string{o.device})...)
	} else {
		err = errors.New("--peers are timm, compiled and jax")
	}
	for range 3 { // the first call compiles, torch.compile's second may again
		if err == nil {
			_, err = a.process.call(line)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", a.name, err)
	}
	return nil
}

// rounds makes the calls of all rounds and returns the rates of products in them, in floating-point operations per
// second.
func (o options) rounds(c cell, config vit.Config, all []*candidate) (rates []float64, err error) {
	draw := rand.New(rand.NewPCG(1, uint64(c.batch)))
	for range o.pairs {
		for _, i := range draw.Perm(len(all)) {
			seconds, err := all[i].process.call(c.line(config))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", all[i].name, err)
			}
			all[i].took = append(all[i].took, seconds)
		}
		rows := c.batch * config.Tokens()
		line := fmt.Sprintf("products %d %d %d %s\n", rows, config.Width, config.MLPDim, c.dtype)
		seconds, err := all[0].process.call(line)
		if err != nil {
			return nil, fmt.Errorf("products: %w", err)
		}
		rates = append(rates, chainLinks*2*float64(rows)*float64(config.Width)*float64(config.MLPDim)/seconds)
	}
	return rates, nil
}

// rows compares the first encoding with every peer and the others with the first.
func (o options) rows(c cell, config vit.Config, all []*candidate, rate float64) (measured []rows.Row) {
	flops := config.FLOPs() * float64(c.batch)
	if c.call == "training" {
		flops *= 3
	}
	commit, date := rows.Stamp()
	for i := 1; i < len(all); i++ {
		ours, theirs := all[0], all[i]
		if i < len(o.positions) {
			ours, theirs = all[i], all[0]
		}
		ratios := make([]float64, len(ours.took))
		for k := range ratios {
			ratios[k] = ours.took[k] / theirs.took[k]
		}
		measured = append(measured, rows.Row{
			Call: c.call, Model: c.model, Batch: c.batch, Threads: c.threads, Position: ours.name, Peer: theirs.name,
			Ours: median(ours.took), Theirs: median(theirs.took), Ratio: median(ratios),
			Quartiles: [2]float64{quantile(ratios, 1), quantile(ratios, 3)}, Pairs: len(ratios),
			Share:     flops / median(ours.took) / rate,
			FirstOurs: ours.process.first, FirstTheirs: theirs.process.first,
			PeakOurs: ours.process.peak / (1 << 20), PeakTheirs: theirs.process.peak / (1 << 20),
			DType: c.dtype, Backend: o.backend, Processor: o.processor, Commit: commit, Date: date,
		})
	}
	return measured
}
