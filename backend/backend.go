// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package backend opens the GoMLX backend on which models of this library run.
//
//	b, err := backend.Open() // GOMLX_BACKEND, or the fastest that is installed
//
// Use it in place of [compute.New]: Open never downloads anything, returns an error for an unknown backend, and
// disables fusions of XLA's CPU plugin that compute wrong sums (docs/backends.md, [Check]).
package backend

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute"
	_ "github.com/gomlx/compute/gobackend" // registers "go"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/plugin"
	"github.com/wepe-go/wepe/internal/printable"
)

// Open opens a backend and prints one line with its name and the reason for the choice.
//
// An explicit configuration, from [Config] or else from the variable GOMLX_BACKEND, is opened or is an error. Without
// one Open takes the first of these that opens:
//
//   - xla:cuda: a CUDA PJRT plugin is installed and there is an NVIDIA device
//   - xla:cpu: a CPU PJRT plugin is installed (`make xla` installs one)
//   - onnx:cpu: the program is built with -tags=onnx, and ONNX Runtime is installed (`make onnxruntime`)
//   - go:ops_sequential: always available
//
// Open never uses the network. A configuration is a backend's name and its options, as "xla:cpu,devices=2" or
// "xla:cuda,tf32=false". Programs built with -tags=noxla or without cgo have no XLA. Bare "go" means
// "go:ops_sequential": the parallel scheduler of compute v0.1.6 can deadlock on models of the size of a ViT and is no
// faster.
func Open(options ...Option) (compute.Backend, error) {
	m := machine{
		lookup:      os.LookupEnv,
		names:       compute.List(),
		open:        compute.NewWithConfig,
		openXLA:     plugin.Open,
		plugins:     plugin.All,
		onnxLibrary: plugin.ONNXRuntime,
		simd:        strings.Contains(runtime.Version(), "simd"), // as "go1.26.8 X:simd"
		out:         os.Stderr,
	}
	for _, option := range options {
		option(&m)
	}
	if m.config == "" {
		m.config, _ = m.lookup(compute.ConfigEnvVar)
		m.asked = compute.ConfigEnvVar + "=" + m.config
	}
	return m.choose()
}

// Option is an option of [Open].
type Option func(*machine)

// Config overrides GOMLX_BACKEND unless config is empty.
func Config(config string) Option {
	return func(m *machine) { m.config, m.asked = config, strconv.Quote(config) }
}

// Devices sets the number of XLA devices on a CPU, default 1. Accelerators always use all devices.
func Devices(n int) Option { return func(m *machine) { m.devices = n } }

// Log sets where the line about the chosen backend is written, default [os.Stderr].
func Log(w io.Writer) Option { return func(m *machine) { m.out = w } }

// machine is the input of the choice; tests replace parts of it.
type machine struct {
	config, asked string // the explicit configuration, and its origin for errors
	devices       int    // on a CPU
	lookup        func(variable string) (string, bool)
	names         []string // of the backends in this program
	open          func(config string) (compute.Backend, error)
	openXLA       func(p plugin.Plugin, options string, devices int) (compute.Backend, string, error)
	plugins       func() []plugin.Plugin // installed PJRT plugins
	onnxLibrary   func() string          // path of ONNX Runtime, empty if it is not installed
	simd          bool                   // whether the go backend's kernels are vectorized
	out           io.Writer
}

func (m machine) say(format string, args ...any) {
	fmt.Fprintln(m.out, printable.Line(fmt.Sprintf(format, args...)))
}

// choose opens the user's choice or, without one, the best.
func (m machine) choose() (compute.Backend, error) {
	if m.config == "" {
		return m.best()
	}
	name, options, _ := strings.Cut(m.config, ":")
	if !slices.Contains(m.names, name) {
		return nil, m.unknown(name)
	}
	var b compute.Backend
	var err error
	config, note := m.config, ""
	switch name {
	case "xla", "stablehlo", "hlo", "shlo":
		b, note, err = m.namedPlugin(options)
	case "onnx", "onnxruntime": // without a library they would download the newest
		if m.onnxLibrary() == "" {
			return nil, fmt.Errorf("%s: ONNX Runtime is neither installed nor at ONNXRUNTIME_SHARED_LIBRARY_PATH: "+
				"run `make onnxruntime`", m.asked)
		}
	case "go":
		if !strings.Contains(options, "ops_") {
			config = "go:" + strings.Trim("ops_sequential,"+options, ",")
		}
		note = m.slow()
	}
	if b == nil && err == nil { // or another that the program has registered
		b, err = m.try(func() (compute.Backend, error) { return m.open(config) })
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.asked, err)
	}
	m.say("backend: %s (%s%s)", config, m.asked, note)
	return b, nil
}

func (m machine) unknown(name string) error {
	slices.Sort(m.names)
	hint := ""
	switch name {
	case "onnx", "onnxruntime":
		hint = "; onnx needs a build with -tags=onnx, on linux/amd64"
	case "cuda", "cpu":
		hint = ": did you mean xla:" + name + "?"
	case "xla", "stablehlo", "hlo", "shlo":
		hint = "; it was built with -tags=noxla, without cgo, or for a platform that XLA does not have"
	}
	return fmt.Errorf("%s: this program has no backend %q, only %s%s", m.asked, name, strings.Join(m.names, ", "), hint)
}

// namedPlugin opens XLA with options like "cpu,devices=2": the name or path of a plugin, and its options.
func (m machine) namedPlugin(options string) (compute.Backend, string, error) {
	p, rest, devices, err := plugin.Named(m.plugins(), options)
	if errors.Is(err, fs.ErrNotExist) {
		remedy := "see docs/backends.md"
		if wanted, _, _ := strings.Cut(options, ","); wanted == "" || strings.HasPrefix(wanted, "cpu") {
			remedy = "`make xla` installs the one for CPUs"
		}
		return nil, "", fmt.Errorf("%w: %s", err, remedy)
	}
	if err != nil {
		return nil, "", err
	}
	m.devices = cmp.Or(devices, m.devices)
	return m.tryXLA(p, rest)
}

// best opens the first backend of Open's list that works.
func (m machine) best() (compute.Backend, error) {
	for _, p := range plugin.Preferred(m.plugins()) {
		if !strings.HasPrefix(p.Name, "cuda") && !strings.HasPrefix(p.Name, "cpu") {
			continue
		}
		b, note, err := m.tryXLA(p, "")
		if err == nil {
			m.say("backend: xla:%s (%s%s)", p.Name, p.Path, note)
			return b, nil
		}
		m.say("backend: xla:%s does not open: %v", p.Name, err)
	}
	if library := m.onnxLibrary(); library != "" {
		b, err := m.try(func() (compute.Backend, error) { return m.open("onnx:cpu") })
		if err == nil {
			m.say("backend: onnx:cpu (%s)", library)
			return b, nil
		}
		m.say("backend: onnx:cpu does not open: %v", err)
	}
	const fallback = "go:ops_sequential"
	b, err := m.try(func() (compute.Backend, error) { return m.open(fallback) })
	if err != nil {
		return nil, err
	}
	faster := ""
	if slices.Contains(m.names, "xla") && runtime.GOOS == "linux" && runtime.GOARCH == "amd64" { // of its wheel
		faster = "; `make xla` installs XLA, ten times as fast"
	}
	m.say("backend: %s (pure Go%s%s)", fallback, m.slow(), faster)
	return b, nil
}

// slow names the build settings that would make pure Go faster: docs/backends.md.
func (m machine) slow() string {
	switch {
	case runtime.GOARCH != "amd64":
		return ""
	case !m.simd:
		return "; models from ViT-Ti on are faster with GOEXPERIMENT=simd and GODEBUG=cpu.fma=off"
	}
	// The AVX kernels leave the upper halves of registers dirty; math.Exp, which mixes old and new instructions with FMA,
	// then runs hundreds of times slower.
	if debug, _ := m.lookup("GODEBUG"); !strings.Contains(debug, "cpu.fma=off") {
		return ", simd; faster with GODEBUG=cpu.fma=off in the environment"
	}
	return ", simd"
}

// try opens a backend; a panic of its constructor, as for a damaged plugin, is an error.
func (m machine) try(open func() (compute.Backend, error)) (b compute.Backend, err error) {
	if caught := exceptions.TryCatch[error](func() { b, err = open() }); caught != nil {
		return nil, caught
	}
	return b, err
}

func (m machine) tryXLA(p plugin.Plugin, options string) (b compute.Backend, note string, err error) {
	b, err = m.try(func() (b compute.Backend, err error) {
		b, note, err = m.openXLA(p, options, max(m.devices, 1))
		return b, err
	})
	return b, note, err
}
