// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package run

import (
	"os"
	"path/filepath"
	"testing"
)

// A run.json is refused, or it is the same run after it was written again.
func FuzzDescription(f *testing.F) {
	f.Add([]byte(`{"command": "wepe train", "recipe": {"name": "shapes", "epochs": 2}, "data": "shapes", "seed": 1}`))
	f.Add([]byte(`{"study": true, "recipe": {"model": {"position": "wepe", "wepe_kappa": 1e300}}, "fraction": -1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, File), raw, 0o644); err != nil {
			t.Fatal(err)
		}
		d, err := Read(dir)
		if err != nil {
			return
		}
		if err := Claim(dir, d); err != nil {
			t.Errorf("it is not its own run: %v", err)
		}
		if err := Write(dir, d); err != nil {
			t.Fatal(err)
		}
		again, err := Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := again.compare(dir, true); err != nil {
			t.Errorf("written again it is another run: %v", err)
		}
	})
}
