// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64 && onnx

package plugin

import (
	"os"
	"path/filepath"

	_ "github.com/gomlx/compute-onnx" // registers "onnx"
	"github.com/gomlx/compute-onnx/support/onnxruntime"
)

// ONNXRuntime returns the path of ONNX Runtime that compute-onnx will use, empty if there is none.
func ONNXRuntime() string {
	path := os.Getenv("ONNXRUNTIME_SHARED_LIBRARY_PATH")
	if path == "" {
		dir, err := onnxruntime.GetInstallPath()
		if err != nil {
			return ""
		}
		name, err := onnxruntime.GetLibFilename()
		if err != nil {
			return ""
		}
		path = filepath.Join(dir, name)
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return path
}
