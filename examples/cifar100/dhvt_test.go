// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestARecipeOfDHVTComparesWhatItTakesAndRefusesTheRest(t *testing.T) {
	small := "epochs=1;warmup_epochs=0;batch_size=17;eval_batch_size=23;model.width=8;model.mlp_dim=12;model.depth=1"
	args := []string{"-recipe", "dhvt-300", "-data", cifar(t), "-checkpoint", t.TempDir(), "-set", small}
	done := cifar100.Run(t, args...)
	if done.Code != 0 {
		t.Fatalf("status %d, stderr %s", done.Code, done.Stderr)
	}
	var published []string
	for line := range strings.Lines(done.Stdout) {
		if strings.HasPrefix(line, "none ") || strings.HasPrefix(line, "wepe ") {
			published = append(published, strings.TrimSpace(line))
		}
	}
	if len(published) != 2 || !strings.Contains(published[0], "74.78") || !strings.Contains(published[1], "76.53") {
		t.Errorf("want a line for none and one for wepe, with what the paper has, got\n%s", done.Stdout)
	}
	measured := cifar100.Run(t, append(args, "-eval", "-position", "none")...)
	if measured.Code != 0 || !strings.Contains(measured.Stdout, "of 23 images") {
		t.Errorf("-eval: status %d, stdout %s, stderr %s", measured.Code, measured.Stdout, measured.Stderr)
	}
	cifar100.Run(t, append(args, "-position", "learned")...).Complaint(t, "learned", 1,
		`"learned" does not fit this model: want one of none, wepe`)
}
