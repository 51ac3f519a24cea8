// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command peers is the Go side of make peers: peers.py sends it requests, one JSON object per line, and compares the
// responses with timm, transformers, ONNX Runtime and others.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/backend"
	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

// request is a line of standard input.
type request struct {
	Op   string `json:"op"`
	Path string `json:"path"` // of the model to read or write

	Images array                     `json:"images"` // [batch, rows, columns, channels]
	Import checkpoints.ImportOptions `json:"import"`
	Export string                    `json:"export"` // a directory to export the model to

	Config     vit.Config     `json:"config"` // of the model to write
	Params     map[string]any `json:"params"`
	Seed       uint64         `json:"seed"`
	Format     string         `json:"format"`
	DType      string         `json:"dtype"`
	Labels     []string       `json:"labels"`
	Preprocess string         `json:"preprocess"` // a preprocessor_config.json
	Epsilon    float64        `json:"epsilon"`
	Headless   bool           `json:"headless"`

	Files []string `json:"files"` // of predict

	numbers
}

// array is a tensor in JSON.
type array struct {
	Shape []int     `json:"shape"`
	Data  []float32 `json:"data"`
}

func (a array) tensor() *tensors.Tensor { return tensors.FromFlatDataAndDimensions(a.Data, a.Shape...) }

// answer is a line of standard output, with some fields per operation.
type answer struct {
	Error  string         `json:"error,omitempty"`
	Logits []float32      `json:"logits,omitempty"`
	Tokens []float32      `json:"tokens,omitempty"` // after the last norm
	Pooled []float32      `json:"pooled,omitempty"` // input of the head
	Config *vit.Config    `json:"config,omitempty"`
	Report []string       `json:"report,omitempty"`
	Values map[string]any `json:"values,omitempty"`

	Probabilities []map[string]float64 `json:"probabilities,omitempty"` // by label, of each file
}

func main() {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	b, err := backend.Open(backend.Log(io.Discard))
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
	lines := bufio.NewReader(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			// Not understood: the script fails, the model is not refused.
			out.Encode(answer{Error: "panic: " + err.Error()}) //nolint:errcheck // the reader is gone
			continue
		}
		a, err := r.do(b)
		if err != nil {
			a.Error = err.Error()
		}
		out.Encode(a) //nolint:errcheck // the reader is gone
	}
}

// do executes a request; a panic becomes an error.
func (r request) do(b compute.Backend) (a answer, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	switch r.Op {
	case "read":
		return r.read(b)
	case "write":
		return r.write(b)
	case "predict":
		return r.predict(b)
	case "decode":
		return r.decode()
	case "positions":
		return answer{Report: position.Names()}, nil
	default:
		return r.compute(b)
	}
}

// read imports a model of other software and runs it.
func (r request) read(b compute.Backend) (answer, error) {
	r.Import.HeadOptional = true
	m, err := checkpoints.Import(r.Path, r.Import)
	if err != nil {
		return answer{}, err
	}
	store := model.NewStore()
	if err := m.Load(store.Scope("/vit")); err != nil {
		return answer{}, err
	}
	a, err := r.run(b, store, m.Config)
	if err == nil && r.Export != "" {
		o := checkpoints.ExportOptions{Format: m.Format, Labels: m.Labels, Headless: m.Headless()}
		_, err = checkpoints.Export(r.Export, b, store.Scope("/vit"), m.Config, o)
	}
	a.Config, a.Report = &m.Config, m.Report
	return a, err
}

// run returns the logits and tokens of a model below /vit.
func (r request) run(b compute.Backend, store *model.Store, c vit.Config) (a answer, err error) {
	exec, err := model.NewExec(b, store, func(s *model.Scope, images *Node) []*Node {
		trace := c.Trace(s.Store().Scope("/vit"), images, false)
		return []*Node{trace.Logits, trace.Encoded, trace.Pooled}
	})
	if err != nil {
		return a, err
	}
	defer exec.Finalize()
	out, err := exec.Call(r.Images.tensor())
	if err != nil {
		return a, err
	}
	for i, values := range []*[]float32{&a.Logits, &a.Tokens, &a.Pooled} {
		if *values, err = tensors.CopyFlatData[float32](out[i]); err != nil {
			return a, err
		}
	}
	return a, nil
}

// write exports a random model and returns its logits.
func (r request) write(b compute.Backend) (answer, error) {
	c, err := r.Config.Resolve()
	if err != nil {
		return answer{}, err
	}
	store, err := engine.NewStore(r.Params, int64(r.Seed))
	if err != nil {
		return answer{}, err
	}
	if _, err := r.run(b, store, c); err != nil { // creates the variables
		return answer{}, err
	}
	if err := disturb(store, r.Seed); err != nil {
		return answer{}, err
	}
	a, err := r.run(b, store, c)
	if err != nil {
		return a, err
	}
	o := checkpoints.ExportOptions{Format: r.Format, DType: r.DType, Labels: r.Labels, Epsilon: r.Epsilon,
		Headless: r.Headless}
	if r.Preprocess != "" {
		settings, err := preprocess.Parse([]byte(r.Preprocess))
		if err != nil {
			return a, err
		}
		o.Preprocess = &settings
	}
	a.Report, err = checkpoints.Export(r.Path, b, store.Scope("/vit"), c, o)
	return a, err
}

// disturb adds noise to every trainable variable, so that no initial value hides an error.
func disturb(store *model.Store, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	for v := range store.IterVariables() {
		if !v.Trainable {
			continue
		}
		flat, err := tensors.CopyFlatData[float32](v.MustValue())
		if err != nil {
			return err
		}
		for i := range flat {
			flat[i] += float32(0.2 * rng.NormFloat64())
		}
		if err := v.SetValue(tensors.FromFlatDataAndDimensions(flat, v.Shape().Dimensions...)); err != nil {
			return err
		}
	}
	return nil
}

// decode returns the pixels of an image file.
func (r request) decode() (answer, error) {
	f, err := os.Open(r.Path)
	if err != nil {
		return answer{}, err
	}
	defer f.Close()
	p, err := data.Decode(f)
	if err != nil {
		return answer{}, err
	}
	return answer{Values: map[string]any{"size": []int{p.Width, p.Height}, "pixels": p.Pixels}}, nil
}

// predict classifies image files, as wepe predict does.
func (r request) predict(b compute.Backend) (a answer, err error) {
	m, err := finetune.Open(b, r.Path)
	if err != nil {
		return a, err
	}
	defer m.Finalize()
	classes, err := m.Predict(r.Files, len(m.Classes))
	if err != nil {
		return a, err
	}
	for _, of := range classes {
		named := map[string]float64{}
		for _, c := range of {
			named[c.Name] = c.Probability
		}
		a.Probabilities = append(a.Probabilities, named)
	}
	return a, nil
}
