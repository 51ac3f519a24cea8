// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package program

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gomlx/compute"
	_ "github.com/gomlx/compute/gobackend" // registers "go"
	"github.com/gomlx/gomlx/support/exceptions"
)

// OpenBackend opens the backend that a program computes on and says in one line on stderr which one it is and why.
//
// An explicit GOMLX_BACKEND is obeyed or is an error. Without it the first of these that opens is taken:
//
//   - xla:cuda: a CUDA PJRT plugin is installed and there is an NVIDIA device
//   - xla:cpu: a CPU PJRT plugin is installed
//   - onnx:cpu: built with -tags=onnx, and the library of ONNX Runtime is installed
//   - go:ops_sequential: always there
//
// Nothing is downloaded unless GOMLX_BACKEND=xla… asks for a plugin that is not installed, and then only if the
// network answers within seconds: a machine without one never waits. The tag noxla leaves XLA out of the program.
//
// Bare "go" means "go:ops_sequential": the parallel scheduler of compute v0.1.3 can deadlock on models of the size of
// a ViT and is no faster. It is used if asked for by name, "go:ops_parallel".
func OpenBackend() (compute.Backend, error) {
	return machine{
		lookup:       os.LookupEnv,
		names:        compute.List(),
		open:         compute.NewWithConfig,
		plugins:      xlaPlugins,
		allowInstall: allowXLAInstall,
		online:       online,
		onnxLibrary:  onnxLibrary,
		simd:         strings.Contains(runtime.Version(), "simd"), // as "go1.26.8 X:simd"
		out:          os.Stderr,
	}.choose()
}

// machine is what the choice depends on; tests make up others.
type machine struct {
	lookup       func(variable string) (string, bool)
	names        []string // of the backends in this program
	open         func(config string) (compute.Backend, error)
	plugins      func() []string // names of the installed PJRT plugins
	allowInstall func(bool)      // whether opening xla may download a plugin
	online       func() error    // whether there is a network to download from
	onnxLibrary  func() string   // path of ONNX Runtime, empty if it is not installed
	simd         bool            // whether the go backend's kernels are vectorised
	out          io.Writer
}

func (m machine) choose() (compute.Backend, error) {
	if config, _ := m.lookup(compute.ConfigEnvVar); config != "" {
		return m.explicit(config)
	}
	return m.best()
}

// explicit opens what the user asked for.
func (m machine) explicit(config string) (compute.Backend, error) {
	asked := fmt.Sprintf("%s=%s", compute.ConfigEnvVar, config)
	name, options, _ := strings.Cut(config, ":")
	if !slices.Contains(m.names, name) {
		slices.Sort(m.names)
		hint := ""
		switch name {
		case "onnx", "onnxruntime":
			hint = "; onnx needs linux/amd64 and -tags=onnx"
		case "xla", "stablehlo", "hlo", "shlo":
			hint = "; it was built with -tags=noxla or for a platform that XLA does not have"
		}
		return nil, fmt.Errorf("%s: this program has no backend %q, only %s%s", asked, name,
			strings.Join(m.names, ", "), hint)
	}
	switch name {
	case "go":
		if !strings.Contains(options, "ops_") {
			options = strings.Trim("ops_sequential,"+options, ",")
		}
		config = "go:" + options
	case "onnx", "onnxruntime": // which would fetch whatever is the newest
		if m.onnxLibrary() == "" {
			return nil, fmt.Errorf("%s: the library of ONNX Runtime is not installed, and not where "+
				"ONNXRUNTIME_SHARED_LIBRARY_PATH says: make onnxruntime fetches it", asked)
		}
	case "xla", "stablehlo", "hlo", "shlo":
		if err := m.findPlugin(options); err != nil {
			return nil, fmt.Errorf("%s: %w", asked, err)
		}
	}
	b, err := m.try(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", asked, err)
	}
	fmt.Fprintf(m.out, "backend: %s (%s%s)\n", config, asked, m.slow(name))
	return b, nil
}

// findPlugin decides whether opening xla may use the network: not for a plugin that is installed, since looking for
// updates of the others would make a machine without network fail; not where the user forbids it.
func (m machine) findPlugin(options string) error {
	wanted, _, _ := strings.Cut(options, ",")
	m.allowInstall(false)
	if filepath.IsAbs(wanted) {
		return nil
	}
	for _, plugin := range m.plugins() {
		if strings.HasPrefix(plugin, wanted) {
			return nil
		}
	}
	missing := "no PJRT plugin"
	if wanted != "" {
		missing += fmt.Sprintf(" %q", wanted)
	}
	if _, forbidden := m.lookup("GOMLX_NO_AUTO_INSTALL"); forbidden {
		return fmt.Errorf("%s is installed, and GOMLX_NO_AUTO_INSTALL forbids to download one", missing)
	}
	if err := m.online(); err != nil {
		return fmt.Errorf("%s is installed, and none can be downloaded: %w", missing, err)
	}
	fmt.Fprintf(m.out, "backend: %s is installed, downloading one\n", missing)
	m.allowInstall(true)
	return nil
}

// best opens the first backend of the package's list that works here.
func (m machine) best() (compute.Backend, error) {
	type candidate struct{ config, why string }
	var candidates []candidate
	m.allowInstall(false)
	plugins := m.plugins()
	for _, device := range []string{"cuda", "cpu"} {
		for _, plugin := range plugins {
			if strings.HasPrefix(plugin, device) {
				candidates = append(candidates, candidate{"xla:" + plugin, "its PJRT plugin is installed"})
			}
		}
	}
	if library := m.onnxLibrary(); library != "" {
		candidates = append(candidates, candidate{"onnx:cpu", library})
	}
	for _, c := range candidates {
		b, err := m.try(c.config)
		if err == nil {
			fmt.Fprintf(m.out, "backend: %s (%s)\n", c.config, c.why)
			return b, nil
		}
		fmt.Fprintf(m.out, "backend: %s does not open: %v\n", c.config, err)
	}
	const fallback = "go:ops_sequential"
	b, err := m.try(fallback)
	if err != nil {
		return nil, err
	}
	faster := "`make onnxruntime` and -tags=onnx"
	if slices.Contains(m.names, "onnx") {
		faster = "`make onnxruntime`"
	}
	if slices.Contains(m.names, "xla") {
		faster += ", or GOMLX_BACKEND=xla with a network"
	}
	fmt.Fprintf(m.out, "backend: %s (pure Go%s; several times faster: %s)\n", fallback, m.slow("go"), faster)
	return b, nil
}

// slow says of pure Go what its build leaves to be had: which is faster depends on the model, docs/backends.md.
func (m machine) slow(name string) string {
	switch {
	case name != "go" || runtime.GOARCH != "amd64":
		return ""
	case !m.simd:
		return "; models from ViT-Ti on are faster with GOEXPERIMENT=simd and GODEBUG=cpu.fma=off"
	}
	// The AVX kernels leave the upper halves of registers dirty, and math.Exp, which mixes old and new instructions where
	// there is FMA, then runs tens of times slower.
	if debug, _ := m.lookup("GODEBUG"); !strings.Contains(debug, "cpu.fma=off") {
		return ", simd; faster with GODEBUG=cpu.fma=off in the environment"
	}
	return ", simd"
}

// try opens a backend; a panic of its constructor, as for a damaged plugin, is an error.
func (m machine) try(config string) (b compute.Backend, err error) {
	if caught := exceptions.TryCatch[error](func() { b, err = m.open(config) }); caught != nil {
		return nil, caught
	}
	return b, err
}

// online returns an error unless the host of XLA's plugins answers soon, through a proxy if one is set.
func online() error {
	client := http.Client{Timeout: 5 * time.Second}
	response, err := client.Head("https://api.github.com")
	if err != nil {
		return err
	}
	return response.Body.Close()
}
