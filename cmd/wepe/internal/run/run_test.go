// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package run

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// A run.json is refused, or it is the same run after it was written again.
func FuzzDescription(f *testing.F) {
	seeds := []string{`{"command": "wepe train", "recipe": {"name": "shapes", "epochs": 2}, "data": "shapes", "seed": 1}`,
		`{"study": true, "recipe": {"model": {"position": "wepe", "wepe_kappa": 1e300}}, "fraction": -1}`}
	dir := f.TempDir()
	campaign.Fuzz(f, seeds, func(t *testing.T, raw string) {
		gomlxtest.NoError(t, os.WriteFile(filepath.Join(dir, File), []byte(raw), 0o644))
		d, err := Read(dir)
		if err != nil {
			return
		}
		gomlxtest.NoError(t, Claim(dir, d)) // it is its own run, also after it was written again
		gomlxtest.NoError(t, Write(dir, d))
		gomlxtest.NoError(t, gomlxtest.Must(Read(dir))(t).compare(dir, true))
	})
}
