// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// classFolders adds images of three of the demo's classes, n of each, in folders of classes.
func classFolders(files map[string][]byte, part string, from *data.InMemory, n int) {
	written := map[int32]int{}
	for i, label := range from.Labels {
		if written[label]++; label <= 2 && written[label] <= n {
			files[fmt.Sprintf("%s/%s/%d.png", part, from.Classes[label], i)] = datatest.PNG(from.RGBA(i))
		}
	}
}

// GoMLX's trainer learns three classes in a few steps, its checkpoint brings the trained model back, and the export is
// a plain ViT of them.
func TestTune_LearnsAndComesBack(t *testing.T) {
	gomlxtest.OnGo(t)
	const demo = "../cifar100/demo"
	files, b := map[string][]byte{}, gomlxtest.Backend()
	training, test, err := data.CIFAR100(demo)
	gomlxtest.NoError(t, err)
	classFolders(files, "train", training, 23)
	classFolders(files, "test", test, 13)

	s := settings{model: filepath.Join(demo, "vit"), dir: datatest.Tree(t, files), out: t.TempDir(), position: "hybrid",
		size: 20, steps: 7, batch: 17, rate: 2e-3}
	before, after := s.tune(b)
	if !(after.loss < 0.8*before.loss) || !(after.accuracy > 0.6) { // chance is 1/3
		t.Errorf("loss %.3f, accuracy %.3f, then %.3f, %.3f", before.loss, before.accuracy, after.loss, after.accuracy)
	}
	if again, same := s.tune(b); again != after || same != after {
		t.Errorf("the checkpoint evaluates to %v and %v, want %v", again, same, after)
	}
	m := gomlxtest.Must(checkpoints.Import(filepath.Join(s.out, "vit"), checkpoints.ImportOptions{}))(t)
	c, classes := m.Config, slices.Sorted(slices.Values(test.Classes[:3]))
	if c.Position != "learned" || c.ImageRows != 20 || !slices.Equal(m.Labels, classes) {
		t.Errorf("the export has positions %q at %d pixels and classes %q", c.Position, c.ImageRows, m.Labels)
	}
}
