// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command exports writes models in the formats of other software, with images and the logits that GoMLX computes for
// them, for readers that share no code with this library: make verify-export.
//
//	go run -tags=onnx ./internal/tools/exports DIR
//
// Each case is a directory DIR/NAME with case.json, images.f32 [n, rows, cols, channels] and logits.f32 [n, classes] of
// raw little-endian float32, and the exports in directories by their formats.
package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/gomlx/compute"
	_ "github.com/gomlx/compute/gobackend" // registers "go"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/vit"
)

// cases are models of unequal sizes; encodings that act in the attention go to ONNX alone.
var cases = []struct {
	name, position, dtype string
	epsilon               float64
	formats               []string
}{
	{"wepe", "wepe", "float32", 1e-6, []string{"hf", "timm", "jax", "onnx"}},
	{"wepe-float16", "wepe", "float16", 1e-6, []string{"hf", "timm", "jax"}},
	{"wepe-bfloat16", "wepe", "bfloat16", 1e-6, []string{"hf", "timm"}},
	{"hybrid", "hybrid", "float32", 1e-5, []string{"hf", "onnx"}},
	{"sincos2d", "sincos2d", "float32", 1e-12, []string{"hf", "onnx"}},
	{"wepe-bias", "wepe-bias", "float32", 1e-6, []string{"onnx"}},
	{"rope-mixed", "rope-mixed", "float32", 1e-6, []string{"onnx"}},
}

const images = 3

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "exports: want a directory to write to")
		os.Exit(2)
	}
	backend, err := compute.NewWithConfig("go:ops_sequential")
	for i := 0; i < len(cases) && err == nil; i++ {
		err = write(backend, os.Args[1], i)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "exports: %v\n", err)
		os.Exit(1)
	}
}

// write makes one case.
func write(backend compute.Backend, dir string, i int) error {
	this := cases[i]
	dir = filepath.Join(dir, this.name)
	c := vit.Config{ImageRows: 20, ImageCols: 28, PatchSize: 4, Width: 72, Depth: 3, Heads: 3, MLPDim: 155, Classes: 11,
		Position: this.position, Epsilon: this.epsilon}.WithDefaults()
	store := model.NewStore()
	batch := checkpoints.Noise(c, images, uint64(i)+1)
	wanted, err := logits(backend, store, c, batch)
	if err != nil {
		return err
	}
	if err := stir(store, uint64(i)); err != nil {
		return err
	}
	for k, format := range this.formats {
		out := filepath.Join(dir, format)
		o := checkpoints.ExportOptions{Format: format, DType: this.dtype, Batch: images}
		if _, err := checkpoints.Export(out, backend, store.Scope("/vit"), c, o); err != nil {
			return err
		}
		if k > 0 {
			continue
		}
		// A file of 16 bits is another model, the same in all formats.
		if this.dtype == "float32" {
			wanted, err = logits(backend, store, c, batch)
		} else {
			var m *checkpoints.Imported
			if m, err = checkpoints.Import(out, checkpoints.ImportOptions{}); err == nil {
				wanted, err = m.Logits(backend, batch)
			}
		}
		if err != nil {
			return err
		}
	}
	about, err := json.Marshal(map[string]any{"images": []int{images, c.ImageRows, c.ImageCols, c.Channels},
		"classes": c.Classes, "heads": c.Heads, "formats": this.formats})
	if err != nil {
		return err
	}
	for name, content := range map[string]any{
		"case.json": about, "images.f32": tensors.MustCopyFlatData[float32](batch), "logits.f32": wanted,
	} {
		var raw bytes.Buffer
		if err := binary.Write(&raw, binary.LittleEndian, content); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), raw.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// logits runs the model, which draws what the store lacks.
func logits(backend compute.Backend, store *model.Store, c vit.Config, batch *tensors.Tensor) ([]float32, error) {
	exec, err := model.NewExec(backend, store, func(s *model.Scope, images *Node) *Node {
		return c.Logits(s.In("vit"), images)
	})
	if err != nil {
		return nil, err
	}
	defer exec.Finalize()
	out, err := exec.Call(batch)
	if err != nil {
		return nil, err
	}
	return tensors.CopyFlatData[float32](out[0])
}

// stir moves every number from where it starts: zeros and ones would hide mistakes.
func stir(store *model.Store, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	for v := range store.IterVariables() {
		value, err := v.Value()
		if err != nil {
			return err
		}
		flat, err := tensors.CopyFlatData[float32](value)
		if err != nil {
			continue // the state of the generator
		}
		for i := range flat {
			flat[i] += float32(0.1 * rng.NormFloat64())
		}
		if err := v.SetValue(tensors.FromFlatDataAndDimensions(flat, v.Shape().Dimensions...)); err != nil {
			return err
		}
	}
	return nil
}
