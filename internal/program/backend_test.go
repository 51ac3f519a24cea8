// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package program

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/gobackend"
)

// made is a machine on which the given configurations open, with a record of what was tried.
type made struct {
	machine
	env     map[string]string
	tried   []string
	install bool
	said    bytes.Buffer
}

func newMachine(opens ...string) *made {
	m := &made{env: map[string]string{"GODEBUG": "cpu.fma=off"}, install: true}
	m.machine = machine{
		lookup: func(name string) (string, bool) { value, ok := m.env[name]; return value, ok },
		names:  []string{"xla", "go", "hlo", "onnx"},
		open: func(config string) (compute.Backend, error) {
			m.tried = append(m.tried, config)
			if config == "xla:panics" {
				panic(errors.New("nil handle"))
			}
			if !slices.Contains(opens, config) {
				return nil, errors.New("broken " + config)
			}
			return gobackend.New("")
		},
		plugins:      func() []string { return nil },
		allowInstall: func(allow bool) { m.install = allow },
		online:       func() error { return errors.New("no such host") },
		onnxLibrary:  func() string { return "/lib/onnx.so" },
		simd:         true,
		out:          &m.said,
	}
	return m
}

func TestTheBestThatOpensIsTaken(t *testing.T) {
	all := []string{"xla:cuda", "xla:cpu_v1", "onnx:cpu", "go:ops_sequential"}
	for _, c := range []struct {
		name    string
		opens   []string
		plugins []string
		library string
		want    string
		says    string
	}{
		{"cuda before cpu", all, []string{"cpu_v1", "cuda"}, "/lib/onnx.so", "xla:cuda", "backend: xla:cuda ("},
		{"cpu by its versioned name", all, []string{"tpu", "cpu_v1"}, "/lib/onnx.so", "xla:cpu_v1", "xla:cpu_v1 ("},
		{"onnx if there is no plugin", all, nil, "/lib/onnx.so", "onnx:cpu", "backend: onnx:cpu (/lib/onnx.so)"},
		{"go if there is nothing", all, nil, "", "go:ops_sequential",
			"pure Go, simd; several times faster: `make onnxruntime`, or"},
		{"the next if one is broken", all[1:], []string{"cuda", "cpu_v1"}, "", "xla:cpu_v1", "xla:cuda does not open"},
		{"go if all are broken", all[3:], []string{"cuda", "cpu_v1"}, "/lib/onnx.so", "go:ops_sequential", "broken onnx"},
		{"unknown plugins are left alone", all, []string{"tpu"}, "", "go:ops_sequential", "backend: go:ops_sequential"},
	} {
		m := newMachine(c.opens...)
		if c.library == "" {
			m.env[compute.ConfigEnvVar] = "" // as good as none
		}
		m.plugins = func() []string { return c.plugins }
		m.onnxLibrary = func() string { return c.library }
		b, err := m.choose()
		if err != nil || b == nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := m.tried[len(m.tried)-1]; got != c.want || !strings.Contains(m.said.String(), c.says) {
			t.Errorf("%s: %s, said %q, want %s, %q", c.name, got, m.said.String(), c.want, c.says)
		}
		if m.install {
			t.Errorf("%s: a download was allowed", c.name)
		}
	}
}

func TestTheLineSaysWhyGoIsSlow(t *testing.T) {
	m := newMachine("go:ops_sequential")
	if runtime.GOARCH == "amd64" {
		delete(m.env, "GODEBUG")
		if got := m.slow("go"); !strings.Contains(got, "GODEBUG=cpu.fma=off") {
			t.Errorf("with FMA: %q", got)
		}
		m.simd = false
		if got := m.slow("go"); !strings.Contains(got, "GOEXPERIMENT=simd") {
			t.Errorf("without simd: %q", got)
		}
	}
	if got := m.slow("xla"); got != "" {
		t.Errorf("xla: %q", got)
	}
}

func TestAnExplicitChoiceIsObeyedOrSaysWhatThereIs(t *testing.T) {
	const known = "go, hlo, onnx, xla"
	for _, c := range []struct {
		config, plugin string // what the user says, and the plugin that is installed
		env            string // another variable that is set
		online         bool
		opens          string // what is opened, and nothing else
		download       bool   // whether opening it may download a plugin of xla
		err            string // where nothing is opened
	}{
		{config: "go", opens: "go:ops_sequential"},
		{config: "go:", opens: "go:ops_sequential"},
		{config: "go:parallelism=3", opens: "go:ops_sequential,parallelism=3"},
		{config: "go:ops_parallel", opens: "go:ops_parallel"},
		{config: "onnx:cpu,log=1", opens: "onnx:cpu,log=1"},

		{config: "xla:cpu", plugin: "cpu_v1", online: true, opens: "xla:cpu"},
		{config: "xla", plugin: "cpu_v1", online: true, opens: "xla"},
		{config: "xla:cuda", plugin: "cpu_v1", online: true, opens: "xla:cuda", download: true},
		{config: "xla:/opt/plugin.so,tf32=false", opens: "xla:/opt/plugin.so,tf32=false"},
		{config: "xla:cuda", plugin: "cpu_v1", err: "no such host"},
		{config: "xla:cuda,tf32=false", env: "GOMLX_NO_AUTO_INSTALL", online: true, err: `plugin "cuda" is installed`},

		{config: "cuda", err: known}, {config: "simplego:x", err: known}, {config: "Go", err: known},
		{config: ":", err: known}, {config: "onnxruntime:cpu", err: known},
		{config: "stablehlo:cpu", err: "-tags=noxla"}, // this machine has it by other names
		{config: "onnxruntime:", err: "-tags=onnx"},
	} {
		choose := func(opens string) (*made, error) {
			m := newMachine(opens)
			m.env[compute.ConfigEnvVar] = c.config
			if c.env != "" {
				m.env[c.env] = ""
			}
			m.plugins = func() []string { return []string{c.plugin} }
			if c.online {
				m.online = func() error { return nil }
			}
			_, err := m.choose()
			return m, err
		}
		m, err := choose(c.opens)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", c.config, err, c.err)
		}
		if strings.HasPrefix(c.config, "xla") && m.install != c.download {
			t.Errorf("%s: download allowed: %t", c.config, m.install)
		}
		if c.opens == "" {
			if len(m.tried) > 0 {
				t.Errorf("%s: tried %q", c.config, m.tried)
			}
			continue
		}
		if !slices.Equal(m.tried, []string{c.opens}) || !strings.Contains(m.said.String(), "GOMLX_BACKEND="+c.config) {
			t.Errorf("%s: tried %q, said %q", c.config, m.tried, m.said.String())
		}
		m, err = choose("something else")
		if err == nil || !strings.Contains(err.Error(), "GOMLX_BACKEND="+c.config) ||
			!strings.Contains(err.Error(), "broken "+c.opens) || len(m.tried) != 1 {
			t.Errorf("%s, broken: %v, tried %q", c.config, err, m.tried)
		}
	}
	m := newMachine("onnx:cpu")
	m.env[compute.ConfigEnvVar], m.onnxLibrary = "onnx:cpu", func() string { return "" }
	if _, err := m.choose(); err == nil || !strings.Contains(err.Error(), "make onnxruntime") || len(m.tried) > 0 {
		t.Errorf("no library of ONNX Runtime: %v, tried %q", err, m.tried)
	}
	m = newMachine()
	m.plugins, m.env[compute.ConfigEnvVar] = func() []string { return []string{"panics"} }, "xla:panics"
	if b, err := m.choose(); b != nil || err == nil || !strings.Contains(err.Error(), "nil handle") {
		t.Errorf("a plugin that panics: %v, %v", b, err)
	}
}

// TestOpenOnThisMachine runs Open in processes of their own, where nothing is made up.
func TestOpenOnThisMachine(t *testing.T) {
	if os.Getenv("WEPE_TEST_OPEN") != "" {
		b, err := OpenBackend()
		if err != nil {
			os.Stderr.WriteString("error: " + err.Error() + "\n")
			return
		}
		b.Finalize()
		return
	}
	home := t.TempDir() // neither plugins nor ONNX Runtime in it
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, "pjrt_c_api_cpu_plugin.so"), []byte("no library"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		env  []string
		want string
	}{
		{"nothing installed", nil, "backend: go:ops_sequential (pure Go"},
		{"broken plugin", []string{"PJRT_PLUGIN_LIBRARY_PATH=" + broken}, "backend: go:ops_sequential (pure Go"},
		{"unknown option", []string{"GOMLX_BACKEND=go:quickly"}, "error: GOMLX_BACKEND=go:quickly: unknown"},
		{"xla that may not be downloaded", []string{"GOMLX_BACKEND=xla", "GOMLX_NO_AUTO_INSTALL=1"},
			"error: GOMLX_BACKEND=xla: "},
		{"xla behind a proxy that is not there", []string{"GOMLX_BACKEND=xla", "HTTPS_PROXY=http://127.0.0.1:9"},
			"error: GOMLX_BACKEND=xla: "},
	} {
		command := exec.Command(os.Args[0], "-test.run", "^TestOpenOnThisMachine$")
		command.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
			return strings.HasPrefix(v, "GOMLX_") || strings.HasPrefix(v, "ONNXRUNTIME_")
		}), append([]string{"WEPE_TEST_OPEN=1", "HOME=" + home, "PJRT_PLUGIN_LIBRARY_PATH=" + home}, c.env...)...)
		var stderr bytes.Buffer
		command.Stderr = &stderr
		begin := time.Now()
		if err := command.Run(); err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, stderr.String())
		}
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("%s: took %v", c.name, took)
		}
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, c.want) || len(lines) > 2 {
			t.Errorf("%s: said %q, want %q", c.name, lines, c.want)
		}
	}
}
