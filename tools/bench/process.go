// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// process makes calls on request.
type process struct {
	command     *exec.Cmd
	in          io.WriteCloser
	out         *bufio.Reader
	errors      bytes.Buffer
	began       time.Time
	first, peak float64 // seconds from its start to the end of its first call; bytes
}

// scripts of the peers, with their arguments.
var scripts = map[string][]string{"timm": {"timm_vit.py"}, "compiled": {"timm_vit.py", "compiled"},
	"jax": {"jax_vit.py"}}

// processors returns the first processors that this process may use, separated by commas: a container or a job has some
// of the machine's.
func processors(n int) (string, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "", err
	}
	_, list, _ := strings.Cut(string(status), "\nCpus_allowed_list:")
	list, _, _ = strings.Cut(strings.TrimSpace(list), "\n")
	var allowed []string
	for span := range strings.SplitSeq(list, ",") { // 2 or 4-7
		first, last := 0, 0
		if n, _ := fmt.Sscanf(span, "%d-%d", &first, &last); n == 1 {
			last = first
		}
		for i := first; i <= last; i++ {
			allowed = append(allowed, strconv.Itoa(i))
		}
	}
	if len(allowed) < n {
		return "", fmt.Errorf("%d threads, but this process may use processors %s", n, list)
	}
	return strings.Join(allowed[:n], ","), nil
}

// start runs a program on the first processors.
func start(ctx context.Context, threads int, program string, args ...string) (*process, error) {
	list, err := processors(threads)
	if err != nil {
		return nil, err
	}
	p := &process{command: exec.CommandContext(ctx, "taskset", append([]string{"-c", list, program}, args...)...)}
	p.command.Stderr = &p.errors
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if p.in, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	p.began = time.Now()
	return p, p.command.Start()
}

// call sends a request and returns the seconds of the response.
func (p *process) call(line string) (seconds float64, err error) {
	var peak float64
	if _, err = io.WriteString(p.in, line); err == nil {
		_, err = fmt.Fscanln(p.out, &seconds, &peak)
	}
	if err != nil {
		_ = p.command.Wait()
		return 0, fmt.Errorf("%w\n%s", err, strings.TrimSpace(p.errors.String()))
	}
	if !strings.HasPrefix(line, "products") { // the peers do not support it
		p.peak = peak
	}
	if p.first == 0 {
		p.first = time.Since(p.began).Seconds()
	}
	return seconds, nil
}

func (p *process) close() {
	_ = p.in.Close()
	_ = p.command.Wait()
}

// environment returns the Python of the virtual environment with the pinned peers, which is created on first use.
func environment(ctx context.Context) (python string, err error) {
	install := exec.CommandContext(ctx, "tools/scripts/environment", "tools/bench/peers/requirements.txt")
	install.Stderr = os.Stderr
	out, err := install.Output()
	if err != nil {
		return "", fmt.Errorf("%w: the peers are installed in the root of the repository", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// processor returns the name of the processor, or of the GPU.
func processor(ctx context.Context, device string) (string, error) {
	if device == "cuda" {
		gpu, err := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=name", "--format=csv,noheader").Output()
		if err != nil {
			return "", fmt.Errorf("nvidia-smi: %w", err)
		}
		name, _, _ := strings.Cut(string(gpu), "\n")
		return strings.TrimSpace(name), nil
	}
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", err
	}
	_, name, _ := strings.Cut(string(info), "\nmodel name\t: ")
	name, _, _ = strings.Cut(name, "\n")
	return name, nil
}
