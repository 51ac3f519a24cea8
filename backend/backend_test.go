// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/gobackend"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/internal/plugin"
	"github.com/wepe-go/wepe/internal/programtest"
)

// made is a machine on which the given configurations open, and a record of the attempts.
type made struct {
	machine
	env     map[string]string
	tried   []string
	devices int // requested from XLA
	printed bytes.Buffer
}

func newMachine(opens ...string) *made {
	m := &made{env: map[string]string{"GODEBUG": "cpu.fma=off"}}
	open := func(config string) (compute.Backend, error) {
		m.tried = append(m.tried, config)
		if config == "xla:panics" {
			panic(errors.New("nil handle"))
		}
		if !slices.Contains(opens, config) {
			return nil, errors.New("broken " + config)
		}
		return gobackend.New("")
	}
	m.machine = machine{
		lookup: func(name string) (string, bool) { value, ok := m.env[name]; return value, ok },
		names:  []string{"xla", "go", "hlo", "onnx", "own"},
		open:   open,
		openXLA: func(p plugin.Plugin, options string, devices int) (compute.Backend, string, error) {
			m.devices = devices
			b, err := open(strings.TrimRight("xla:"+p.Name+","+options, ","))
			return b, "; guarded", err
		},
		plugins:     func() []plugin.Plugin { return nil },
		onnxLibrary: func() string { return "/lib/onnx.so" },
		simd:        true,
		out:         &m.printed,
	}
	return m
}

// named returns plugins with these names in /lib.
func named(names ...string) func() []plugin.Plugin {
	return func() (plugins []plugin.Plugin) {
		for _, name := range names {
			plugins = append(plugins, plugin.Plugin{Name: name, Path: "/lib/" + name + ".so"})
		}
		return plugins
	}
}

func TestTheBestThatOpensIsTaken(t *testing.T) {
	all := []string{"xla:cuda", "xla:cpu_v1", "onnx:cpu", "go:ops_sequential"}
	for _, c := range []struct {
		name    string
		opens   []string
		plugins []string
		library string
		want    string
	}{
		{"cuda before cpu", all, []string{"cpu_v1", "cuda"}, "/lib/onnx.so", "xla:cuda"},
		{"cpu by its versioned name", all, []string{"tpu", "cpu_v1"}, "/lib/onnx.so", "xla:cpu_v1"},
		{"cpu without a version first", append(all, "xla:cpu"), []string{"cpu_v1", "cpu"}, "", "xla:cpu"},
		{"onnx if there is no plugin", all, nil, "/lib/onnx.so", "onnx:cpu"},
		{"go if there is nothing", all, nil, "", "go:ops_sequential"},
		{"the next if one is broken", all[1:], []string{"cuda", "cpu_v1"}, "", "xla:cpu_v1"},
		{"go if all are broken", all[3:], []string{"cuda", "cpu_v1"}, "/lib/onnx.so", "go:ops_sequential"},
		{"unknown plugins are left alone", all, []string{"tpu"}, "", "go:ops_sequential"},
	} {
		m := newMachine(c.opens...)
		m.machine.plugins = named(c.plugins...)
		m.onnxLibrary = func() string { return c.library }
		b := gomlxtest.Must(m.choose())(t)
		printed := m.printed.String() // one line for each attempt
		if got := m.tried[len(m.tried)-1]; b == nil || got != c.want || !strings.Contains(printed, c.want) ||
			strings.Count(printed, "\n") != len(m.tried) || strings.HasPrefix(c.want, "xla") && m.devices != 1 {
			t.Errorf("%s: %s of %d devices, printed %q, want %s", c.name, got, m.devices, printed, c.want)
		}
	}
}

func TestAnExplicitChoiceIsOpenedOrIsAnError(t *testing.T) {
	for _, c := range []struct {
		config, opens string // the request and the result
		devices       int    // of XLA
	}{
		{"go", "go:ops_sequential", 0}, {"go:", "go:ops_sequential", 0}, {"go:ops_parallel", "go:ops_parallel", 0},
		{"go:parallelism=3", "go:ops_sequential,parallelism=3", 0}, {"onnx:cpu,log=1", "onnx:cpu,log=1", 0},
		{"own:a=1", "own:a=1", 0},
		{"xla", "xla:cpu_v1", 1}, {"xla:cpu", "xla:cpu_v1", 1}, {"hlo:cpu", "xla:cpu_v1", 1}, {"xla:tpu", "xla:tpu", 1},
		{"xla:cpu,devices=4", "xla:cpu_v1", 4},
		{"xla:cpu,noshared_buffers,devices=3", "xla:cpu_v1,noshared_buffers", 3},
		{"xla:/opt/plugin.so,tf32=false", "xla:/opt/plugin.so,tf32=false", 1},
		// Neither a plugin nor a backend of these names, or no such number of devices.
		{config: "xla:cuda,tf32=false"}, {config: "xla:cpu_v2"}, {config: "xla:cpu,devices=0"},
		{config: "xla:cpu,devices=two"}, {config: "cuda"}, {config: "simplego:x"}, {config: "Go"}, {config: ":"},
		{config: "onnxruntime:cpu"}, {config: "stablehlo:cpu"}, {config: "onnxruntime:"},
	} {
		for _, opens := range []string{c.opens, "something else"} {
			m := newMachine(opens)
			m.config, m.asked = c.config, "GOMLX_BACKEND="+c.config
			m.machine.plugins = named("tpu", "cpu_v1")
			_, err := m.choose()
			tried, said := strings.Join(m.tried, " "), m.printed.String()
			if err != nil {
				said = err.Error()
			}
			if (err == nil) != (opens == c.opens && opens != "") || tried != c.opens || m.devices != c.devices ||
				!strings.Contains(said, m.asked) || err != nil && tried != "" && !strings.Contains(said, "broken "+tried) {
				t.Errorf("%s where %q opens: tried %q with %d devices, %q, %v; want %q", c.config, opens, tried, m.devices, said,
					err, c.opens)
			}
		}
	}
	m := newMachine("onnx:cpu")
	m.config, m.onnxLibrary = "onnx:cpu", func() string { return "" }
	if _, err := m.choose(); err == nil || len(m.tried) > 0 {
		t.Errorf("no ONNX Runtime: %v, tried %q", err, m.tried)
	}
	m = newMachine()
	m.machine.plugins, m.config = named("panics"), "xla:panics"
	if b, err := m.choose(); b != nil || err == nil || !strings.Contains(err.Error(), "nil handle") {
		t.Errorf("a plugin that panics: %v, %v", b, err)
	}
}

// TestOpenOnThisMachine runs Open in separate processes, without replacements.
func TestOpenOnThisMachine(t *testing.T) {
	home, broken := t.TempDir(), t.TempDir() // home contains neither plugins nor ONNX Runtime
	gomlxtest.NoError(t, os.WriteFile(filepath.Join(broken, "pjrt_c_api_cpu_plugin.so"), []byte("no library"), 0o644))
	for _, c := range []struct {
		name string
		env  []string
		want string
	}{
		{"nothing installed", nil, "backend: go:ops_sequential (pure Go"},
		{"broken plugin", []string{"PJRT_PLUGIN_LIBRARY_PATH=" + broken}, "backend: go:ops_sequential (pure Go"},
		{"unknown option", []string{"GOMLX_BACKEND=go:quickly"}, "error: GOMLX_BACKEND=go:quickly: unknown"},
		{"xla that is not installed", []string{"GOMLX_BACKEND=xla"}, "error: GOMLX_BACKEND=xla: "},
	} {
		env := append([]string{"HOME=" + home, "PJRT_PLUGIN_LIBRARY_PATH=" + home}, c.env...)
		lines := strings.Split(strings.TrimSpace(inProcess(t, "open", env...)), "\n")
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, c.want) || len(lines) > 2 {
			t.Errorf("%s: printed %q, want %q", c.name, lines, c.want)
		}
	}
}

// inProcess runs one of the tasks of TestMain in a process whose environment has only the given GoMLX and XLA
// variables, and returns its output.
func inProcess(t *testing.T, task string, env ...string) string {
	t.Helper()
	command := programtest.Command(t, task)
	command.Env = append(slices.DeleteFunc(command.Env, func(v string) bool {
		return strings.HasPrefix(v, "GOMLX_") || strings.HasPrefix(v, "ONNXRUNTIME_") || strings.HasPrefix(v, "XLA_FLAGS=")
	}), env...)
	ended := programtest.Finish(t, command)
	is.Equal(t, fmt.Sprintf("%s, %q: %+v", task, env, ended), ended.Code, 0)
	return ended.Stdout + ended.Stderr
}

func TestMain(m *testing.M) {
	programtest.Main(m, func() {
		task, open := os.Args[1], func() (compute.Backend, error) { return Open() }
		if task == "unguarded" { // a program that opens GoMLX's backend itself
			open = func() (compute.Backend, error) { return compute.NewWithConfig("xla:cpu") }
		}
		b, err := open()
		if err == nil && task != "open" {
			err = Check(b)
		}
		if err != nil {
			os.Stderr.WriteString("error: " + err.Error() + "\n")
		}
	})
}

func TestCheck_PassesOnGo(t *testing.T) {
	gomlxtest.NoError(t, Check(gomlxtest.PureGo()))
}

// A plugin with the miscompilation computes correct sums through Open, with any flags of the user.
func TestSumsAreRightOnXLAWhateverTheFlags(t *testing.T) {
	xlaCPU(t)
	for _, flags := range []string{
		"",
		"--xla_backend_optimization_level=1",
		"--xla_cpu_experimental_ynn_fusion_type=LIBRARY_FUSION_TYPE_REDUCE,LIBRARY_FUSION_TYPE_ELTWISE",
		"--xla_cpu_experimental_ynn_fusion_type=+LIBRARY_FUSION_TYPE_ELTWISE",
		"no-such-file",
	} {
		printed := inProcess(t, "check", "GOMLX_BACKEND=xla:cpu", "XLA_FLAGS="+flags)
		if !strings.HasPrefix(printed, "backend: xla:cpu (") || strings.Count(printed, "\n") != 1 {
			t.Errorf("XLA_FLAGS=%q: %s", flags, printed)
		}
	}
}

// Without Open's flags the same check fails, on a plugin with the miscompilation.
func TestCheckFindsTheMiscompilation(t *testing.T) {
	path := xlaCPU(t)
	file := gomlxtest.Must(os.Open(path))(t)
	defer file.Close()
	if known, err := plugin.Contains(file, plugin.FusionFlag); !known {
		t.Skipf("%s has no YNNPACK fusions: %v", path, err)
	}
	printed := inProcess(t, "unguarded", "GOMLX_NO_AUTO_INSTALL=1",
		"XLA_FLAGS=--"+plugin.FusionFlag+"=LIBRARY_FUSION_TYPE_REDUCE")
	if !strings.Contains(printed, "computes a sum of") {
		t.Errorf("%s computes right sums with YNNPACK fusions on (%s): is the guard of flags.go still needed?", path, printed)
	}
}

// xlaCPU returns the path of the PJRT plugin for CPUs; without one it skips the test.
func xlaCPU(t *testing.T) (path string) {
	for _, p := range plugin.All() {
		if strings.HasPrefix(p.Name, "cpu") {
			return p.Path
		}
	}
	t.Skip("no PJRT plugin for CPUs: make xla")
	return ""
}
