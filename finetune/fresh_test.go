// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/backend"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// A program of evaluation that was compiled before a step must use the weights after it, as one that is compiled after
// it does: GoMLX v0.28.16 compiles them in as constants on go and onnx.
func TestEvaluate_AfterAStepUsesItsWeights(t *testing.T) {
	for _, name := range []string{"go", "xla:cpu", "onnx:cpu"} {
		t.Run(name, func(t *testing.T) {
			if set := os.Getenv(compute.ConfigEnvVar); cmp.Or(set, "go") != "go" && set != name {
				t.Skipf("%s is tested", set)
			}
			b, err := backend.Open(backend.Config(name), backend.Log(io.Discard))
			if err != nil {
				t.Skip(err)
			}
			defer b.Finalize()
			run := tinyRun(t, "model.position=wepe;grad_accum_steps=2;ema_decay=0.5;warmup_epochs=0", 31)
			run.Backend = b
			trainer := begun(t, run)
			set := dataset(11, 5)
			var before [][]float32
			for step := range 3 {
				got := gomlxtest.Must(trainer.model.logitsOf(set))(t)
				fresh := *trainer.model
				fresh.eval = gomlxtest.Must(trainer.model.logitsProgram())(t)
				want := gomlxtest.Must(fresh.logitsOf(set))(t)
				fresh.eval.Finalize()
				for i := range want {
					if !slices.Equal(got[i], want[i]) {
						t.Fatalf("step %d, image %d: %v, a fresh program %v", step, i, got[i], want[i])
					}
				}
				if before != nil && slices.Equal(before[0], got[0]) {
					t.Errorf("step %d changed nothing", step)
				}
				before = got
				advanced(t, trainer, 1)
			}
		})
	}
}
