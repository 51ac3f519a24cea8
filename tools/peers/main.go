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

// request is a line of standard input: the operation and its arguments.
type request struct {
	Op   string `json:"op"`
	Path string `json:"path"` // of the model or file to read or write
	Seed uint64 `json:"seed"`

	Images array                     `json:"images"` // [batch, rows, columns, channels]
	Import checkpoints.ImportOptions `json:"import"`
	Export string                    `json:"export"` // a directory to export the model to
	Files  []string                  `json:"files"`  // of predict

	Config     vit.Config `json:"config"` // of the model to write
	Format     string     `json:"format"`
	DType      string     `json:"dtype"`
	Labels     []string   `json:"labels"`
	Preprocess string     `json:"preprocess"` // a preprocessor_config.json
	Epsilon    float64    `json:"epsilon"`
	Headless   bool       `json:"headless"`

	Recipe  json.RawMessage `json:"recipe"` // of train; the augmentation of augment
	Pixels  []byte          `json:"pixels"` // [n, Height, Width, 3]
	Height  int             `json:"height"`
	Width   int             `json:"width"`   // also of points
	Targets []int           `json:"targets"` // the class of each image or point
	Guesses []int           `json:"guesses"`
	Classes int             `json:"classes"`

	Points      []float64 `json:"points"` // [n, Width]
	Queries     []float64 `json:"queries"`
	Train       int       `json:"train"` // number of training points
	K           int       `json:"k"`
	Temperature float64   `json:"temperature"`
	L2          float64   `json:"l2"`

	Truth   string `json:"truth"` // COCO files
	Results string `json:"results"`
	Masks   bool   `json:"masks"`

	Rate   float64 `json:"rate"`
	Warmup int     `json:"warmup"`
	Steps  int     `json:"steps"`
	Epochs int     `json:"epochs"` // number of orders requested
}

// array is a tensor in JSON.
type array struct {
	Shape []int     `json:"shape"`
	Data  []float32 `json:"data"`
}

// values are the response to a request, a line of standard output.
type values = map[string]any

var operations = map[string]func(request, compute.Backend) (values, error){
	"read": request.read, "write": request.write, "predict": request.predict, "decode": request.decode,
	"positions": request.positions, "augment": request.augment, "train": request.train, "save": request.save,
	"rates": request.rates, "coco": request.coco, "neighbours": request.neighbours, "pca": request.pca,
	"logistic": request.logistic, "probe": request.probe, "confusion": request.confusion,
}

func main() {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	b, err := backend.Open(backend.Log(io.Discard))
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
	out := json.NewEncoder(os.Stdout)
	for lines := bufio.NewReader(os.Stdin); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		response, err := do(line, b)
		if err != nil {
			response = values{"error": err.Error()}
		}
		out.Encode(response) //nolint:errcheck // the reader is gone
	}
}

// do executes a request; a panic becomes an error that is no refusal of a model.
func do(line []byte, b compute.Backend) (response values, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	var r request
	if err := json.Unmarshal(line, &r); err != nil {
		panic(err)
	}
	return operations[r.Op](r, b)
}

func (request) positions(compute.Backend) (values, error) {
	return values{"names": position.Names()}, nil
}

// read imports a model of other software and runs it.
func (r request) read(b compute.Backend) (values, error) {
	r.Import.HeadOptional = true
	m, err := checkpoints.Import(r.Path, r.Import)
	if err != nil {
		return nil, err
	}
	store := model.NewStore()
	if err := m.Load(store.Scope("/vit")); err != nil {
		return nil, err
	}
	outputs, err := r.run(b, store, m.Config)
	if err == nil && r.Export != "" {
		o := checkpoints.ExportOptions{Format: m.Format, Labels: m.Labels, Headless: m.Headless()}
		_, err = checkpoints.Export(r.Export, b, store.Scope("/vit"), m.Config, o)
	}
	return outputs, err
}

// run returns the logits, the tokens after the last norm and the input of the head of a model below /vit.
func (r request) run(b compute.Backend, store *model.Store, c vit.Config) (values, error) {
	exec, err := model.NewExec(b, store, func(s *model.Scope, images *Node) []*Node {
		trace := c.Trace(s.Store().Scope("/vit"), images, false)
		return []*Node{trace.Logits, trace.Encoded, trace.Pooled}
	})
	if err != nil {
		return nil, err
	}
	defer exec.Finalize()
	out, err := exec.Call(tensors.FromFlatDataAndDimensions(r.Images.Data, r.Images.Shape...))
	if err != nil {
		return nil, err
	}
	return flat(out, "logits", "tokens", "pooled")
}

// flat names the values of tensors.
func flat(of []*tensors.Tensor, names ...string) (values, error) {
	out := values{}
	for i, name := range names {
		data, err := tensors.CopyFlatData[float32](of[i])
		if err != nil {
			return nil, err
		}
		out[name] = data
	}
	return out, nil
}

// write exports a random model and returns its outputs.
func (r request) write(b compute.Backend) (values, error) {
	c, err := r.Config.Resolve()
	if err != nil {
		return nil, err
	}
	store, err := engine.NewStore(nil, int64(r.Seed))
	if err != nil {
		return nil, err
	}
	if _, err := r.run(b, store, c); err != nil { // creates the variables
		return nil, err
	}
	if err := disturb(store, r.Seed); err != nil {
		return nil, err
	}
	outputs, err := r.run(b, store, c)
	if err != nil {
		return nil, err
	}
	o := checkpoints.ExportOptions{Format: r.Format, DType: r.DType, Labels: r.Labels, Epsilon: r.Epsilon,
		Headless: r.Headless}
	if r.Preprocess != "" {
		settings, err := preprocess.Parse([]byte(r.Preprocess), "")
		if err != nil {
			return nil, err
		}
		o.Preprocess = &settings
	}
	_, err = checkpoints.Export(r.Path, b, store.Scope("/vit"), c, o)
	return outputs, err
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
func (r request) decode(compute.Backend) (values, error) {
	p, err := data.DecodeFile(r.Path)
	if err != nil {
		return nil, err
	}
	return values{"size": []int{p.Width, p.Height}, "pixels": p.Pixels}, nil
}

// predict classifies image files, as wepe predict does: probabilities by label, of each file.
func (r request) predict(b compute.Backend) (values, error) {
	m, err := finetune.Open(b, r.Path)
	if err != nil {
		return nil, err
	}
	defer m.Finalize()
	classes, err := m.Predict(r.Files, len(m.Classes))
	if err != nil {
		return nil, err
	}
	var probabilities []map[string]float64
	for _, of := range classes {
		named := map[string]float64{}
		for _, c := range of {
			named[c.Name] = c.Probability
		}
		probabilities = append(probabilities, named)
	}
	return values{"probabilities": probabilities}, nil
}
