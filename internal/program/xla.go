// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build ((linux && (amd64 || arm64)) || (darwin && arm64) || (windows && amd64)) && !noxla

package program

import (
	"flag"
	"io"

	"github.com/gomlx/go-xla/compute/xla" // registers "xla"
	"github.com/gomlx/gomlx/support/exceptions"
	"k8s.io/klog/v2"
)

// xlaPlugins returns the names of the PJRT plugins on this machine, none if looking at one of them fails.
func xlaPlugins() (names []string) {
	defer quiet()() // a library that is no plugin is not the user's concern
	_ = exceptions.TryCatch[error](func() { names = xla.GetAvailablePlugins() })
	return names
}

func allowXLAInstall(allow bool) { xla.EnableAutoInstall(allow) }

// quiet keeps the log of upstream packages off stderr until the function it returns is called.
func quiet() (restore func()) {
	state := klog.CaptureState()
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for _, f := range [][2]string{{"logtostderr", "false"}, {"alsologtostderr", "false"}, {"stderrthreshold", "FATAL"}} {
		if err := flags.Set(f[0], f[1]); err != nil {
			panic(err) // a flag of klog's that is no more
		}
	}
	klog.SetOutput(io.Discard)
	return state.Restore
}
