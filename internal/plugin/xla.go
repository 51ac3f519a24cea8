// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build cgo && ((linux && (amd64 || arm64)) || (darwin && arm64) || (windows && amd64)) && !noxla

package plugin

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/go-xla/compute/xla" // registers "xla"
	"github.com/gomlx/go-xla/pjrt"
	"github.com/gomlx/gomlx/support/exceptions"
	"k8s.io/klog/v2"
)

// All returns the PJRT plugins of this machine, none if inspecting one of them fails.
func All() (plugins []Plugin) {
	defer klog.CaptureState().Restore()
	klog.SetLogger(klog.Logger{}) // discards: errors of other libraries do not concern the user
	_ = exceptions.TryCatch[error](func() {
		for name, path := range pjrt.AvailablePlugins() {
			plugins = append(plugins, Plugin{name, path})
		}
	})
	return plugins
}

// Open opens a plugin with options of go-xla, as "tf32=false,preallocate", and n devices if it is for CPUs. The note
// says what was changed.
func Open(p Plugin, options string, n int) (b compute.Backend, note string, err error) {
	xla.EnableAutoInstall(false)
	client := pjrt.NamedValuesMap{}
	if strings.Contains(strings.ToLower(filepath.Base(p.Name)), "cpu") { // a guess, as go-xla's
		client["cpu_device_count"] = int64(n)
		if note, err = guard(p.Path); err != nil {
			return nil, "", err
		}
	}
	x, err := xla.NewWithOptions(strings.Trim(p.Name+","+options, ","), client)
	if err != nil {
		return nil, "", err // not x, which would be a non-nil interface
	}
	return x, note, nil
}

// guard sets XLA_FLAGS for a plugin that is not loaded yet. [os.Setenv] reaches it through cgo.
func guard(path string) (note string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	known, err := Contains(file, FusionFlag)
	if err != nil {
		return "", err
	}
	flags, note := withoutFusions(os.Getenv("XLA_FLAGS"), known)
	return note, os.Setenv("XLA_FLAGS", flags)
}
