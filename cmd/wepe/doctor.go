// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/janpfeifer/must"
	"github.com/spf13/cobra"

	"github.com/wepe-go/wepe/backend"
	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
	"github.com/wepe-go/wepe/wepe"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// check is one line of wepe doctor.
type check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
}

func doctor() *cobra.Command {
	var config string
	var asJSON bool
	c := &cobra.Command{Use: "doctor", Args: cobra.NoArgs,
		Short: "Check backends, versions, speed, and the encoding's numbers on this machine"}
	f := cli.FlagsOf(c)
	f.Backend(&config)
	f.JSON(&asJSON)
	c.RunE = func(c *cobra.Command, _ []string) error {
		checks, failed := examine(config)
		must.M(cli.Answer(c, asJSON, map[string]any{"ok": !failed, "checks": checks}, func(out cli.Printer) {
			for _, k := range checks {
				mark := "ok"
				if !k.OK {
					mark = "no"
				}
				out.Printf("%-2s  %-12s %s\n", mark, k.Name, k.Detail)
				if k.Remedy != "" {
					out.Printf("    %-12s remedy: %s\n", "", k.Remedy)
				}
			}
		}))
		if failed {
			return fmt.Errorf("the backend that would be used fails a check")
		}
		return nil
	}
	return c
}

// installed are the backends and the command that installs each.
var installed = []struct{ config, remedy string }{
	{"xla:cuda", "install a CUDA PJRT plugin"},
	{"xla:cpu", "make xla"},
	{"onnx:cpu", "make onnxruntime"},
	{"go", ""},
}

// examine checks the machine; failed reports whether the chosen backend fails.
func examine(config string) (checks []check, failed bool) {
	add := func(name, detail string, err error, remedy string) {
		if err != nil {
			detail = err.Error()
		}
		checks = append(checks, check{name, err == nil, detail, remedy})
	}
	add("version", fmt.Sprintf("wepe %s, %d cores", versionLine(), runtime.NumCPU()), nil, "")
	for _, candidate := range installed {
		b, err := backend.Open(backend.Config(candidate.config), backend.Log(io.Discard))
		if err != nil {
			first, _, _ := strings.Cut(err.Error(), "\n")
			add(candidate.config, "", errors.New(first), candidate.remedy)
			continue
		}
		add(candidate.config, "opens: "+b.Description(), nil, "")
		b.Finalize()
	}
	var chosen strings.Builder
	b, err := backend.Open(backend.Config(config), backend.Log(&chosen))
	if add("chosen", strings.TrimPrefix(strings.TrimSpace(chosen.String()), "backend: "), err, ""); err != nil {
		return checks, true
	}
	defer b.Finalize()
	for _, test := range []struct {
		name string
		do   func(compute.Backend) (string, error)
	}{{"product", productRate}, {"encoding", encodingNumbers}, {"sums", func(b compute.Backend) (string, error) {
		return "reductions match float64 sums of the host", backend.Check(b) // which a miscompiled one gets wrong
	}}} {
		var detail string
		if panicked := exceptions.TryCatch[error](func() { detail, err = test.do(b) }); panicked != nil {
			err = panicked
		}
		add(test.name, detail, err, "")
		failed = failed || err != nil
	}
	return checks, failed
}

// productRate multiplies two matrices for a second.
func productRate(b compute.Backend) (string, error) {
	const n = 1024
	x := tensors.FromFlatDataAndDimensions(slices.Repeat([]float32{0.5}, n*n), n, n)
	product := must.M1(NewExec(b, func(x *Node) *Node { return ReduceAllSum(MatMul(x, x)) }))
	defer product.Finalize()
	best := math.Inf(1)
	for begin := time.Now(); time.Since(begin) < time.Second || math.IsInf(best, 1); {
		began := time.Now()
		out := must.M1(product.Call(x))
		if got := float64(tensors.ToScalar[float32](out[0])); math.Abs(got/(0.25*n*n*n)-1) > 1e-5 {
			return "", fmt.Errorf("the product of constant matrices sums to %g, want %g", got, 0.25*n*n*n)
		}
		best = min(best, time.Since(began).Seconds())
	}
	return fmt.Sprintf("%.0f GFLOP/s, float32 %d×%d", 2*n*n*n/best/1e9, n, n), nil
}

// encodingNumbers compares S(w) and S(w′), the features of wepe-sphere, with the float64 reference, over a square and a
// long cell, poles included.
func encodingNumbers(b compute.Backend) (string, error) {
	const n, bound = 20000, 1e-4
	program := must.M1(NewExec(b, func(re, im, omega1, omega3, scale *Node) []*Node {
		point, prime := wepe.Sphere(wepe.ComplexNode{Re: re, Im: im}, omega1, omega3, scale)
		return []*Node{point, prime}
	}))
	defer program.Finalize()
	worst := 0.0
	for _, omega3 := range []float64{weierstrass.OmegaSquare, 4} {
		lattice := must.M1(weierstrass.New(weierstrass.OmegaSquare, complex(0, omega3)))
		reference, r := lattice.Sphere(), rand.New(rand.NewPCG(1, 2))
		re, im := make([]float32, n), make([]float32, n)
		for i := 1; i < n; i++ { // the first point is a pole
			re[i] = float32((2*r.Float64() - 1) * weierstrass.OmegaSquare)
			im[i] = float32((2*r.Float64() - 1) * omega3)
		}
		out := must.M1(program.Call(re, im, float32(weierstrass.OmegaSquare), float32(omega3), float32(1)))
		for k, name := range []string{"S(℘)", "S(℘′)"} {
			got := must.M1(tensors.CopyFlatData[float32](out[k]))
			for i := range re {
				point, prime := reference.At(complex(float64(re[i]), float64(im[i])))
				for axis, want := range [][3]float64{point, prime}[k] {
					d := math.Abs(float64(got[3*i+axis]) - want)
					if !(d <= bound) {
						return "", fmt.Errorf("%s at %g%+gi differs from the float64 reference by %.2g, more than %g", name, re[i],
							im[i], d, bound)
					}
					worst = max(worst, d)
				}
			}
		}
	}
	return fmt.Sprintf("wepe-sphere at %d points is within %.1g of wepe/weierstrass", 2*n, worst), nil
}
