// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/analysis"
	"github.com/wepe-go/wepe/backend"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/kernel"
	"github.com/wepe-go/wepe/vit"
)

// serveCommand is the first argument of the processes that measure this library; the second is the encoding.
const serveCommand = "serve"

// chainLinks is the number of products in the chain that measures the backend's rate.
const chainLinks = 8

// serve answers requests as peers/serve.py describes, and "products ROWS WIDTH HIDDEN DTYPE": a chain of products.
func serve(in io.Reader, out io.Writer, position string) error {
	b, err := backend.Open()
	if err != nil {
		return err
	}
	calls := map[string]func() error{}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		line := lines.Text()
		call := calls[line]
		if call == nil {
			if call, err = prepare(b, line, position); err != nil {
				return fmt.Errorf("%q: %w", line, err)
			}
			calls[line] = call
			if strings.HasPrefix(line, "products") { // compilation is not measured
				if err := call(); err != nil {
					return err
				}
			}
		}
		began := time.Now()
		if err := call(); err != nil {
			return err
		}
		took := time.Since(began).Seconds()
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, took, usage.Maxrss<<10); err != nil {
			return err
		}
	}
	return nil
}

// prepare prepares the call of a request.
func prepare(b compute.Backend, line, position string) (func() error, error) {
	var what, dtype string
	var n [6]int
	if strings.HasPrefix(line, "products") {
		if _, err := fmt.Sscan(line, &what, &n[0], &n[1], &n[2], &dtype); err != nil {
			return nil, err
		}
		return chain(b, n[0], n[1], n[2], dtype)
	}
	if _, err := fmt.Sscan(line, &what, &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &dtype); err != nil {
		return nil, err
	}
	side, batch := n[4], n[5]
	config := vit.Config{Width: n[0], Depth: n[1], Heads: n[2], PatchSize: n[3], ImageRows: side, ImageCols: side,
		Classes: 100, Position: position, DType: dtype}
	timing, err := analysis.NewTiming(b, config, finetune.Noise(batch, side, side, 100), batch, "")
	if err != nil {
		return nil, err
	}
	if what == "training" {
		return timing.Step, nil
	}
	return timing.Forward, nil
}

// chain is a program of products only, [rows, width]·[width, hidden]·[hidden, width]·….
func chain(b compute.Backend, rows, width, hidden int, dtype string) (func() error, error) {
	of, err := dtypes.DTypeString(dtype)
	if err != nil {
		return nil, err
	}
	matrix := func(n, m int) any { return tensors.FromShape(shapes.Make(of, n, m)) }
	program, err := NewExec(b, func(x, up, down *Node) *Node {
		for range chainLinks / 2 {
			x = kernel.Product(kernel.Product(x, up), down)
		}
		return x
	})
	if err != nil {
		return nil, err
	}
	inputs := []any{matrix(rows, width), matrix(width, hidden), matrix(hidden, width)}
	return func() error {
		outputs, err := program.Call(inputs...)
		if err != nil {
			return err
		}
		return outputs[0].FinalizeAll()
	}, nil
}
