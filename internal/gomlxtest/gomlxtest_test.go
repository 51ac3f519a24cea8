package gomlxtest

import (
	"testing"

	"github.com/gomlx/gomlx/core/graph"
)

func TestRunAddsOnTheTestBackend(t *testing.T) {
	got := Run(t, func(in []*graph.Node) []*graph.Node { return []*graph.Node{graph.Add(in[0], in[1])} },
		[]float32{1, 2, 3}, []float32{10, 20, 30})
	Near(t, "sum", got[0], []float64{11, 22, 33}, 1e-7)
}
