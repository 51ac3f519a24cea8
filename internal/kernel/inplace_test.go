// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"flag"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"k8s.io/klog/v2"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// The program changes two of three variables: XLA reports their 4·(7·11 + 13) bytes as aliased.
func TestXLAOverwritesTheVariablesThatAProgramChanges(t *testing.T) {
	backend := gomlxtest.Backend()
	if backend.Name() != "xla" {
		t.Skip("only XLA has the attribute")
	}
	store := model.NewStore()
	create := func(name string, dims ...int) *model.Variable {
		return gomlxtest.Must(store.CreateVariable("/"+name, tensors.FromShape(shapes.Make(dtypes.Float32, dims...))))(t)
	}
	b, fixed, a := create("b", 7, 11), create("fixed", 5), create("a", 13)
	exec := gomlxtest.Must(model.NewExec(backend, store, func(_ *model.Scope, in []*Node) []*Node {
		sum := ReduceAllSum(fixed.NodeValue(in[0]))
		a.SetNodeValue(Add(AddScalar(a.NodeValue(in[0]), 2), in[0]))
		b.SetNodeValue(Add(AddScalar(b.NodeValue(in[0]), 3), in[0]))
		UpdateInPlace(store, in[0].Graph())
		return []*Node{sum}
	}))(t)
	log := logOf(t, func() {
		for range 3 {
			gomlxtest.Must(exec.Call(float32(1)))(t)
		}
	})
	if !strings.Contains(log, "Aliases:360 ") {
		t.Errorf("XLA does not alias 4·(7·11 + 13) = 360 bytes; it logged\n%s", log)
	}
	for v, want := range map[*model.Variable]float64{a: 9, b: 12, fixed: 0} {
		for _, got := range gomlxtest.Values(t, gomlxtest.Must(v.Value())(t)) {
			if got != want {
				t.Fatalf("%s is %g after three steps, want %g", v.Path(), got, want)
			}
		}
	}
}

// logOf returns the upstream log while f runs: programs and their memory.
func logOf(t *testing.T, f func()) string {
	var log bytes.Buffer
	defer klog.CaptureState().Restore()
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"v": "2", "logtostderr": "false", "stderrthreshold": "FATAL"} {
		gomlxtest.NoError(t, flags.Set(name, value))
	}
	klog.SetOutput(&log)
	f()
	klog.Flush()
	return log.String()
}
