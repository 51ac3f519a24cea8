// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package rows

import "fmt"

// Compiled is a program that tools/cudacheck compiled for a GPU, with the compiler's information.
type Compiled struct {
	GPU         string  `json:"gpu"`
	Model       string  `json:"model"`
	Encoding    string  `json:"encoding"`
	DType       string  `json:"dtype"`
	TF32        bool    `json:"tf32"`
	Call        string  `json:"call"`
	Error       string  `json:"error,omitempty"`
	CPUSeconds  float64 `json:"cpu_seconds"` // of compilation
	Temporary   int64   `json:"temporary_bytes"`
	Peak        int64   `json:"peak_bytes"`
	Aliased     int64   `json:"alias_bytes"`
	Launches    int     `json:"launches"` // kernels and library calls of one execution
	Kernels     int     `json:"kernels"`  // different ones
	PTXLines    int     `json:"ptx_lines"`
	LongestName string  `json:"longest_kernel"` // of PTXLines lines
	Registers   int     `json:"registers"`      // at most, of the encodings' and all other kernels
	Spilled     int     `json:"spilled_bytes"`
	Commit      string  `json:"commit"`
	Date        string  `json:"date"`
}

func (r Compiled) String() string {
	at := fmt.Sprintf("%s %s %s %s %s", r.GPU, r.Model, r.Encoding, r.DType, r.Call)
	if r.Error != "" {
		return at + ": does not compile: " + r.Error
	}
	return fmt.Sprintf("%s: compiled in %.1f s; %d launches of %d kernels, at most %d lines of PTX (%s) and %d "+
		"registers, %.1f MB temporary", at, r.CPUSeconds, r.Launches, r.Kernels, r.PTXLines, r.LongestName, r.Registers,
		float64(r.Temporary)/1e6)
}
