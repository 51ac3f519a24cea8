// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// large is small with attention far from uniform, so that a wrong softmax shows.
func large(store *model.Store) {
	for v := range store.IterVariables() {
		if strings.Contains(v.Path(), "/attention/query") || strings.Contains(v.Path(), "/attention/key") {
			x := v.MustValue()
			x.MustMutableFlatData(func(flat any) {
				for i := range flat.([]float32) {
					flat.([]float32)[i] *= 20
				}
			})
		}
	}
}

func TestAttentionEqualsTheNaiveSoftmaxOracle(t *testing.T) {
	c := small("wepe", PoolClass)
	store := seeded(t, 11)
	build := func(s *model.Scope, in []*Node) []*Node {
		b := c.Trace(s.In("vit"), in[0], true).Blocks[1]
		w := s.Store().GetVariable("/vit/block_01/attention/output/weights").NodeValue(in[0].Graph())
		return []*Node{b.Query, b.Key, b.Value, b.Weights, b.Attention, MulScalar(w, 1)}
	}
	run(t, store, build, noise(c, 2))
	large(store)
	got := run(t, store, build, noise(c, 2))
	q, k, v, projection := got[0], got[1], got[2], got[5]
	n, h, d := c.Tokens(), c.Heads, c.Width/c.Heads
	at := func(image, token, head, i int) int { return ((image*n+token)*h+head)*d + i }
	var weights, attention []float64
	for image := range 2 {
		mixed := make([]float64, n*c.Width) // [token, head, headDim]
		for head := range h {
			for query := range n {
				row, sum := make([]float64, n), 0.0
				for key := range n {
					for i := range d {
						row[key] += q[at(image, query, head, i)] * k[at(image, key, head, i)]
					}
					row[key] = math.Exp(row[key] / math.Sqrt(float64(d)))
					sum += row[key]
				}
				for key := range n {
					row[key] /= sum
					for i := range d {
						mixed[(query*h+head)*d+i] += row[key] * v[at(image, key, head, i)]
					}
				}
				weights = append(weights, row...)
			}
		}
		for token := range n {
			for out := range c.Width {
				var sum float64 // the output bias is zero at the start
				for in := range c.Width {
					sum += mixed[token*c.Width+in] * projection[in*c.Width+out]
				}
				attention = append(attention, sum)
			}
		}
	}
	if peak := slices.Max(weights); peak < 0.3 {
		t.Errorf("the largest attention weight is %g: too uniform for this test", peak)
	}
	gomlxtest.Near(t, "weights [batch, heads, query, key]", got[3], weights, 1e-5)
	gomlxtest.Near(t, "attention branch", got[4], attention, 1e-5)
	for row := 0; row < len(got[3]); row += n {
		var sum float64
		for _, w := range got[3][row : row+n] {
			sum += w
		}
		if math.Abs(sum-1) > 1e-6 {
			t.Errorf("the weights of row %d sum to %g, want 1", row/n, sum)
		}
	}
}

func TestPoolingTakesTheClassTokenOrTheMeanOfThePatches(t *testing.T) {
	for _, pool := range []string{PoolClass, PoolMean} {
		c := small("wepe", pool)
		got := run(t, seeded(t, 2), func(s *model.Scope, in []*Node) []*Node {
			trace := c.Trace(s.In("vit"), in[0], false)
			return []*Node{trace.Encoded, trace.Pooled, trace.Logits}
		}, noise(c, 3))
		var want []float64
		for image := range 3 {
			tokens := got[0][image*c.Tokens()*c.Width : (image+1)*c.Tokens()*c.Width]
			for i := range c.Width {
				sum := tokens[i]
				if pool == PoolMean {
					for token := 1; token < 15; token++ { // 5×3 patches
						sum += tokens[token*c.Width+i]
					}
					sum /= 15
				}
				want = append(want, sum)
			}
		}
		gomlxtest.Near(t, pool, got[1], want, 1e-6)
	}
}

func TestDropoutActsInTrainingOnly(t *testing.T) {
	c := small("none", PoolClass)
	quiet, _ := forward(t, c, 9)
	c.Dropout, c.AttentionDropout, c.DropPath = 0.4, 0.4, 0.4
	if evaluated, _ := forward(t, c, 9); !slices.Equal(evaluated, quiet) {
		t.Error("dropout changes the logits in evaluation")
	}
	trained := func(c Config) []float64 {
		return run(t, seeded(t, 9), func(s *model.Scope, in []*Node) []*Node {
			s.Store().SetTraining(in[0].Graph(), true)
			return []*Node{c.Logits(s.In("vit"), in[0])}
		}, noise(c, 2))[0]
	}
	for name, set := range map[string]func(*Config){
		"nothing":           func(*Config) {},
		"dropout":           func(c *Config) { c.Dropout = 0.4 },
		"attention_dropout": func(c *Config) { c.AttentionDropout = 0.4 },
		"drop_path":         func(c *Config) { c.DropPath = 0.9 },
	} {
		c := small("none", PoolClass)
		set(&c)
		if same := slices.Equal(trained(c), quiet); same != (name == "nothing") {
			t.Errorf("training with %s: equal to evaluation %v", name, same)
		}
	}
}

func TestDropPathGrowsLinearlyFromBlockToBlock(t *testing.T) {
	const batch = 600
	c := small("none", PoolMean)
	c.Depth, c.DropPath = 3, 0.6
	got := run(t, seeded(t, 6), func(s *model.Scope, in []*Node) []*Node {
		s.Store().SetTraining(in[0].Graph(), true)
		trace := c.Trace(s.In("vit"), in[0], false)
		outputs := []*Node{trace.Tokens}
		for _, b := range trace.Blocks {
			outputs = append(outputs, b.Output)
		}
		return append(outputs, trace.Logits)
	}, noise(c, batch))
	size := c.Tokens() * c.Width
	for block, rate := range []float64{0, 0.3, 0.6} {
		through := 0 // images that pass unchanged: both branches are dropped
		for image := range batch {
			if slices.Equal(got[block][image*size:(image+1)*size], got[block+1][image*size:(image+1)*size]) {
				through++
			}
		}
		want := rate * rate
		if share := float64(through) / batch; math.Abs(share-want) > 4*math.Sqrt(want*(1-want)/batch) {
			t.Errorf("block %d leaves %g of the images as they are, want %g", block, share, want)
		}
	}
}

// The fused kernels of the go backend know no bfloat16, and whether they are used is decided when a process starts.
func TestBfloat16IsCloseToFloat32(t *testing.T) {
	const child = "WEPE_TEST_BFLOAT16"
	if os.Getenv(child) == "" {
		command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		command.Env = append(os.Environ(), child+"=1", "GOMLX_FUSION=0")
		if out, err := command.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("with GOMLX_FUSION=0: %v\n%s", err, out)
		}
		return
	}
	for _, position := range PositionNames() {
		for _, pool := range []string{PoolClass, PoolMean} {
			c := small(position, pool)
			want, _ := forward(t, c, 4)
			c.DType = "bfloat16"
			got, _ := forward(t, c, 4)
			if slices.Equal(got, want) {
				t.Errorf("%s, pool %s: bfloat16 equals float32 in every bit", position, pool)
			}
			// 8 bits of mantissa round by 2^-9; a dozen roundings follow each other in two blocks.
			gomlxtest.Near(t, position+" "+pool, got, want, 0.03)
		}
	}
}
