// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// The expected classes are from each file alone.
func TestPredict_ManyFilesAsEachByItself(t *testing.T) {
	gomlxtest.OnGo(t)
	m := begun(t, Run{Backend: gomlxtest.Backend(), Recipe: tiny(), Train: dataset(30, 1)}).model // of batches of 4
	dir := t.TempDir()
	var files []string
	for i, name := range strings.Fields("a.png b.png c.png missing.png d.png e.png cut.png f.png . h.png k.png") {
		if file := filepath.Join(dir, name); name == "missing.png" || name == "." {
			files = append(files, file)
		} else {
			files = append(files, written(t, dir, name, 3+i, 11-i/2))
		}
	}
	content := gomlxtest.Must(os.ReadFile(files[6]))(t)
	if err := os.WriteFile(files[6], content[:len(content)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	answers, err := m.Predict(files, 3)
	unread := ReadErrors{}
	if !errors.As(err, &unread) || !slices.Equal(slices.Sorted(maps.Keys(unread)), []int{3, 6, 8}) {
		t.Fatalf("%v", err)
	}
	if !strings.Contains(err.Error(), files[3]) || !strings.Contains(err.Error(), "; 2 more images") ||
		!strings.Contains(unread[8].Error(), "is a directory: name its images") {
		t.Errorf("%v", err)
	}
	for i, got := range answers {
		want, err := m.predictOne(files[i], 3)
		if unread[i] != nil {
			if got != nil || err == nil || err.Error() != unread[i].Error() {
				t.Errorf("%s: %v, alone %v", files[i], unread[i], err)
			}
			continue
		}
		if err != nil || len(got) != 3 {
			t.Fatalf("%s: %v, alone %v, %v", files[i], got, want, err)
		}
		for k := range want {
			if got[k].Name != want[k].Name {
				t.Errorf("%s: %v, alone %v", files[i], got, want)
			}
			gomlxtest.NearAbs(t, files[i], []float32{float32(got[k].Probability)}, []float64{want[k].Probability}, 1e-6)
		}
	}
}
