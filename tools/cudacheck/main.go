// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command cudacheck compiles models for an NVIDIA GPU on a machine without one: `make cuda-compile-check`.
//
// Every encoding's inference and training step goes through GoMLX and go-xla to the CUDA PJRT plugin, which compiles it
// to machine code (plugin.c). Nothing is run. It prints one line for each program and fails if one does not compile;
// -rows also writes what the compiler reports as lines of JSON.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/gomlx/compute"
	_ "github.com/gomlx/go-xla/compute/xla" // registers "xla"

	"github.com/wepe-go/wepe/analysis"
	"github.com/wepe-go/wepe/study"
	"github.com/wepe-go/wepe/tools/bench/rows"
	"github.com/wepe-go/wepe/vit/position"
)

type options struct {
	plugins, gpu, variant, settings, encodings, dtypes, rows string
	tf32                                                     bool
}

func main() {
	var o options
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), "cudacheck compiles models for an NVIDIA GPU on a machine without one.\n\n")
		flag.PrintDefaults()
	}
	flag.StringVar(&o.plugins, "plugins", "", "directory of the plugins, which tools/scripts/cuda-compile-check fills")
	flag.StringVar(&o.gpu, "gpu", "h100_sxm", "GPU, one of tools/cudacheck/gpus")
	flag.StringVar(&o.variant, "variant", "N/16", "model")
	flag.StringVar(&o.settings, "set", "", "settings of the recipe, as model.depth=2")
	flag.StringVar(&o.encodings, "encodings", "", "with settings after a colon, separated by spaces; all if empty")
	flag.StringVar(&o.dtypes, "dtypes", "float32,bfloat16", "data types of the model")
	flag.BoolVar(&o.tf32, "tf32", true, "allow TF32 in products of float32")
	flag.StringVar(&o.rows, "rows", "", "file to which rows are appended")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "cudacheck:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	if flag.NArg() > 0 {
		return fmt.Errorf("argument %q: want flags only", flag.Arg(0))
	}
	dump, err := os.MkdirTemp("", "cudacheck")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dump)
	compiler, err := o.open(dump)
	if err != nil {
		return err
	}
	if o.encodings == "" {
		o.encodings = strings.Join(position.Names(), " ")
	}
	failed, programs := 0, 0
	for _, dtype := range strings.Split(o.dtypes, ",") {
		for _, encoding := range strings.Fields(o.encodings) {
			compiled, err := compiler.compile(o, encoding, dtype)
			if err != nil {
				return err
			}
			for _, row := range compiled {
				programs++
				if row.Error != "" {
					failed++
				}
				fmt.Printf("%s\n", row)
			}
			if err := rows.Append(o.rows, compiled, io.Discard); err != nil {
				return err
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d programs do not compile for %s", failed, programs, o.gpu)
	}
	fmt.Printf("%d programs compile for %s\n", programs, o.gpu)
	return nil
}

// compiler is a backend that compiles for CUDA, its log and the directory of XLA's dump.
type compiler struct {
	backend       compute.Backend
	log, dump     string
	ptxas, target string
}

const batch = 32 // images of a training step and of an inference: activations are most of its memory

// small is the size of programs that set up a model and are run on the CPU.
const small = 20_000

func (o options) open(dump string) (*compiler, error) {
	c := &compiler{log: filepath.Join(dump, "log.jsonl"), dump: filepath.Join(dump, "xla"),
		ptxas: filepath.Join(o.plugins, "nvidia/cu13/bin/ptxas"), target: map[string]string{"a100_sxm_80": "sm_80",
			"h100_sxm": "sm_90a"}[o.gpu]}
	for name, value := range map[string]string{
		"CUDACHECK_CPU":        filepath.Join(o.plugins, "cpu.so"),
		"CUDACHECK_CUDA":       filepath.Join(o.plugins, "jax_plugins/xla_cuda13/xla_cuda_plugin.so"),
		"CUDACHECK_GPU":        filepath.Join("tools/cudacheck/gpus", o.gpu+".txtpb"),
		"CUDACHECK_LOG":        c.log,
		"CUDACHECK_SMALL":      fmt.Sprint(small),
		"GOPJRT_CUDA_CHECKS":   "0",
		"TF_CPP_MIN_LOG_LEVEL": cmp.Or(os.Getenv("TF_CPP_MIN_LOG_LEVEL"), "2"),
		// Nothing can be timed without a GPU, so products get default tiles.
		"XLA_FLAGS": fmt.Sprintf("--xla_gpu_cuda_data_dir=%s --xla_gpu_autotune_level=0 --xla_dump_to=%s "+
			"--xla_dump_hlo_as_text",
			filepath.Join(o.plugins, "nvidia/cu13"), c.dump),
	} {
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
	}
	name := "xla:" + filepath.Join(o.plugins, "wepe_cuda_check.so")
	if !o.tf32 {
		name += ",tf32=false"
	}
	var err error
	c.backend, err = compute.NewWithConfig(name)
	return c, err
}

// compile compiles inference and training step of an encoding.
func (c *compiler) compile(o options, encoding, dtype string) (compiled []rows.Compiled, err error) {
	position, settings, _ := strings.Cut(encoding, ":")
	timing, err := analysis.Cost{Backend: c.backend, Step: batch, Forward: batch, DType: dtype}.NewTiming(o.variant,
		224, study.Variant{Position: position, Label: encoding, Settings: strings.Trim(o.settings+";"+settings, ";")})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", encoding, err)
	}
	for _, call := range []struct {
		name string
		run  func() error
	}{{"inference", timing.Forward}, {"training step", timing.Step}} {
		r := rows.Compiled{GPU: o.gpu, Model: o.variant, Encoding: encoding, DType: dtype, TF32: o.tf32, Call: call.name}
		r.Commit, r.Date = rows.Stamp()
		if err := errors.Join(os.RemoveAll(c.log), os.RemoveAll(c.dump)); err != nil {
			return nil, err
		}
		failure := call.run() // an error even on success: there is no GPU to run on
		line, err := os.ReadFile(c.log)
		if err != nil {
			return nil, fmt.Errorf("%s %s %s: not compiled at all: %w", encoding, dtype, call.name, failure)
		}
		lines := bytes.Split(bytes.TrimSpace(line), []byte("\n"))
		if err := json.Unmarshal(lines[len(lines)-1], &r); err != nil {
			return nil, fmt.Errorf("%s: %w", c.log, err)
		}
		if r.Error == "" {
			if err := c.inspect(&r); err != nil {
				return nil, err
			}
		}
		compiled = append(compiled, r)
	}
	return compiled, nil
}
