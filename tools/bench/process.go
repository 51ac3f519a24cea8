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
	"path/filepath"
	"strings"
	"time"

	"github.com/wepe-go/wepe/internal/plugin"
	"github.com/wepe-go/wepe/report"
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

// startOurs starts this library with an encoding.
func startOurs(ctx context.Context, threads int, position string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return start(ctx, threads, self, serveCommand, position)
}

// startPeer starts a peer by its name.
func startPeer(ctx context.Context, python string, threads int, peer, device string) (*process, error) {
	script := map[string][]string{"timm": {"timm_vit.py"}, "compiled": {"timm_vit.py", "compiled"}, "jax": {"jax_vit.py"}}
	words, found := script[peer]
	if !found {
		return nil, fmt.Errorf("-peers: %q is none of timm, compiled and jax", peer)
	}
	words[0] = filepath.Join("tools", "bench", "peers", words[0])
	return start(ctx, threads, python, append(words, device)...)
}

// start runs a program on the first processors.
func start(ctx context.Context, threads int, program string, args ...string) (*process, error) {
	processors := "0"
	if threads > 1 {
		processors = fmt.Sprintf("0-%d", threads-1)
	}
	p := &process{command: exec.CommandContext(ctx, "taskset", append([]string{"-c", processors, program}, args...)...)}
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
	if _, err = io.WriteString(p.in, line); err == nil {
		var answer string
		if answer, err = p.out.ReadString('\n'); err == nil {
			var peak float64
			_, err = fmt.Sscan(answer, &seconds, &peak)
			if !strings.HasPrefix(line, "products") { // the peers do not support it
				p.peak = peak
			}
		}
	}
	if err != nil {
		_ = p.command.Wait()
		return 0, fmt.Errorf("%w\n%s", err, strings.TrimSpace(p.errors.String()))
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

// environment returns the Python of the virtual environment with the pinned peers, which it creates on first use.
func environment(ctx context.Context) (python string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	directory := filepath.Join(cache, "wepe", "bench")
	python, done := filepath.Join(directory, "bin", "python"), filepath.Join(directory, "requirements.txt")
	const requirements = "tools/bench/peers/requirements.txt"
	want, err := os.ReadFile(requirements)
	if err != nil {
		return "", fmt.Errorf("%w: run in the root of the repository", err)
	}
	if have, err := os.ReadFile(done); err == nil && bytes.Equal(have, want) {
		return python, nil
	}
	fmt.Fprintf(os.Stderr, "installing torch, timm and jax from PyPI into %s (about 6 GB, minutes)\n", directory)
	for _, words := range [][]string{
		{"python3", "-m", "venv", directory}, {python, "-m", "pip", "install", "--quiet", "-r", requirements},
	} {
		command := exec.CommandContext(ctx, words[0], words[1:]...)
		command.Stdout, command.Stderr = os.Stderr, os.Stderr
		if err := command.Run(); err != nil {
			return "", fmt.Errorf("%s: %w", strings.Join(words, " "), err)
		}
	}
	return python, os.WriteFile(done, want, 0o644)
}

// memoryOnGPU sets the peaks of processes to what the driver lists: memory once taken is kept by all candidates.
func memoryOnGPU(ctx context.Context, all []*candidate) error {
	bytes, err := plugin.GPUMemory(ctx)
	if err != nil {
		return err
	}
	for _, a := range all {
		a.process.peak = bytes[a.process.command.Process.Pid]
	}
	return nil
}

// describe returns the processor, or the GPU, and the commit.
func describe(ctx context.Context, device string) (machine [2]string, err error) {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return machine, err
	}
	for line := range strings.Lines(string(info)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			machine[0] = strings.TrimSpace(value)
			break
		}
	}
	if device == "cuda" {
		gpu, err := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=name", "--format=csv,noheader").Output()
		if err != nil {
			return machine, fmt.Errorf("nvidia-smi: %w", err)
		}
		name, _, _ := strings.Cut(string(gpu), "\n")
		machine[0] = strings.TrimSpace(name)
	}
	revision, dirty, _ := strings.Cut(report.Commit(), "+")
	machine[1] = revision[:min(8, len(revision))] + dirty
	return machine, nil
}
