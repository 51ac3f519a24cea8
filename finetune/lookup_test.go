// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func TestAModelWithALookUpTableTrainsResumesAndOpens(t *testing.T) {
	if name := gomlxtest.Backend().Name(); name != "Go Backend" {
		t.Skipf("backend %s does not promise the same bits twice", name)
	}
	recipe, err := everything().Set("wepe_evaluation=table;wepe_table_resolution=33")
	if err != nil {
		t.Fatal(err)
	}
	run := Run{Backend: gomlxtest.Backend(), Recipe: recipe, Seed: 5, Train: pictures(47, 1), Test: pictures(9, 2)}
	run.Dir = t.TempDir()
	variables, _ := finished(t, run)
	m, err := Open(run.Backend, run.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Encoding(); err != nil {
		t.Error(err)
	}
	if v := m.store.GetVariable("/" + modelScope + "/position/wepe/table/values"); v == nil || v.Shape().Dim(0) != 33 {
		t.Errorf("the opened model's table is %v, want the one of 33 nodes that was trained with", v)
	}

	run.Dir = t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	run.Progress = func(p Progress) {
		if p.Step == 9 {
			cancel()
		}
	}
	if _, _, err := run.Do(ctx); !errors.Is(err, ErrInterrupted) {
		t.Fatal(err)
	}
	run.Progress = nil
	if got, _ := finished(t, run); !bytes.Equal(got, variables) {
		t.Error("the variables of the interrupted run differ from those of the unbroken one")
	}
}
