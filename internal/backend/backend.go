// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package backend chooses and opens the GoMLX backend of programs and tests.
//
// It never downloads anything, and it protects XLA against a known miscompilation (flags.go).
package backend

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute"
	_ "github.com/gomlx/compute/gobackend" // registers "go"
	"github.com/gomlx/gomlx/support/exceptions"
)

// Open is documented in package finetune/backend. Bare "go" means "go:ops_sequential": the parallel
// scheduler of compute v0.1.3 can deadlock on models of the size of a ViT and is no faster.
func Open(options ...Option) (compute.Backend, error) {
	m := machine{
		lookup:      os.LookupEnv,
		names:       compute.List(),
		open:        compute.NewWithConfig,
		openXLA:     openXLA,
		plugins:     xlaPlugins,
		onnxLibrary: onnxLibrary,
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

// Option changes what Open opens.
type Option func(*machine)

// Config overrides GOMLX_BACKEND; the empty string does not.
func Config(config string) Option {
	return func(m *machine) { m.config, m.asked = config, strconv.Quote(config) }
}

// Devices asks XLA for n devices on a CPU, default 1. Accelerators always offer all of theirs.
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
	openXLA       func(p plugin, options string, devices int) (compute.Backend, string, error)
	plugins       func() []plugin // installed PJRT plugins
	onnxLibrary   func() string   // path of ONNX Runtime, empty if it is not installed
	simd          bool            // whether the go backend's kernels are vectorized
	out           io.Writer
}

// plugin is a PJRT plugin. The name may be the path.
type plugin struct{ name, path string }

func (m machine) choose() (compute.Backend, error) {
	if m.config != "" {
		return m.explicit()
	}
	return m.best()
}

// explicit opens the user's choice.
func (m machine) explicit() (compute.Backend, error) {
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
		b, err = m.try(func() (compute.Backend, error) { return m.open(config) })
	case "go":
		if !strings.Contains(options, "ops_") {
			config = "go:" + strings.Trim("ops_sequential,"+options, ",")
		}
		note = m.slow()
		b, err = m.try(func() (compute.Backend, error) { return m.open(config) })
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.asked, err)
	}
	fmt.Fprintf(m.out, "backend: %s (%s%s)\n", config, m.asked, note)
	return b, nil
}

func (m machine) unknown(name string) error {
	slices.Sort(m.names)
	hint := ""
	switch name {
	case "onnx", "onnxruntime":
		hint = "; onnx needs linux/amd64 and -tags=onnx"
	case "cuda", "cpu":
		hint = ": did you mean xla:" + name + "?"
	case "xla", "stablehlo", "hlo", "shlo":
		hint = "; it was built with -tags=noxla, without cgo, or for a platform that XLA does not have"
	}
	return fmt.Errorf("%s: this program has no backend %q, only %s%s", m.asked, name, strings.Join(m.names, ", "), hint)
}

// namedPlugin opens XLA with options like "cpu,devices=2": the name or path of a plugin, and its options.
func (m machine) namedPlugin(options string) (compute.Backend, string, error) {
	wanted, rest, err := m.takeDevices(options)
	if err != nil {
		return nil, "", err
	}
	if filepath.IsAbs(wanted) {
		return m.tryXLA(plugin{wanted, wanted}, rest)
	}
	installed := preferred(m.plugins())
	for _, p := range installed {
		if p.name == wanted || wanted == "" || strings.HasPrefix(p.name, wanted+"_v") {
			return m.tryXLA(p, rest)
		}
	}
	remedy := "see docs/backends.md"
	if wanted == "" || strings.HasPrefix(wanted, "cpu") {
		remedy = "`make xla` installs the one for CPUs"
	}
	return nil, "", fmt.Errorf("no PJRT plugin %q is installed: %s", cmp.Or(wanted, "cpu"), remedy)
}

// takeDevices splits options at the first comma, and moves devices=N from the rest into m.
func (m *machine) takeDevices(options string) (wanted, rest string, err error) {
	parts := strings.Split(options, ",")
	var others []string
	for _, part := range parts[1:] {
		n, found := strings.CutPrefix(part, "devices=")
		if !found {
			others = append(others, part)
		} else if m.devices, err = strconv.Atoi(n); err != nil || m.devices < 1 {
			return "", "", fmt.Errorf("devices=%s: want a number of devices, 1 or more", n)
		}
	}
	return parts[0], strings.Join(others, ","), nil
}

// preferred sorts plugins: GPUs, CPUs, others, and in each the unversioned names first.
func preferred(plugins []plugin) []plugin {
	rank := func(p plugin) int {
		return slices.IndexFunc([]string{"cuda", "cpu", ""}, func(k string) bool { return strings.HasPrefix(p.name, k) })
	}
	slices.SortStableFunc(plugins, func(a, b plugin) int {
		return cmp.Or(rank(a)-rank(b), strings.Compare(a.name, b.name))
	})
	return plugins
}

// best opens the first backend of Open's list that works.
func (m machine) best() (compute.Backend, error) {
	for _, p := range preferred(m.plugins()) {
		if !strings.HasPrefix(p.name, "cuda") && !strings.HasPrefix(p.name, "cpu") {
			continue
		}
		b, note, err := m.tryXLA(p, "")
		if err == nil {
			fmt.Fprintf(m.out, "backend: xla:%s (%s%s)\n", p.name, p.path, note)
			return b, nil
		}
		fmt.Fprintf(m.out, "backend: xla:%s does not open: %v\n", p.name, err)
	}
	if library := m.onnxLibrary(); library != "" {
		b, err := m.try(func() (compute.Backend, error) { return m.open("onnx:cpu") })
		if err == nil {
			fmt.Fprintf(m.out, "backend: onnx:cpu (%s)\n", library)
			return b, nil
		}
		fmt.Fprintf(m.out, "backend: onnx:cpu does not open: %v\n", err)
	}
	const fallback = "go:ops_sequential"
	b, err := m.try(func() (compute.Backend, error) { return m.open(fallback) })
	if err != nil {
		return nil, err
	}
	faster := ""
	if slices.Contains(m.names, "xla") {
		faster = "; `make xla` installs XLA, ten times as fast"
	}
	fmt.Fprintf(m.out, "backend: %s (pure Go%s%s)\n", fallback, m.slow(), faster)
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

func (m machine) tryXLA(p plugin, options string) (b compute.Backend, note string, err error) {
	b, err = m.try(func() (b compute.Backend, err error) {
		b, note, err = m.openXLA(p, options, max(m.devices, 1))
		return b, err
	})
	return b, note, err
}
