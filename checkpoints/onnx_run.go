// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"path/filepath"
	"sync"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/checkpoints/internal/onnx"
	"github.com/wepe-go/wepe/internal/strictjson"
	"github.com/wepe-go/wepe/vit"
)

// ONNX is an exported ONNX file on ONNX Runtime, which holds its weights once for each number of images that it has
// computed.
type ONNX struct {
	file   string
	config vit.Config
	run    sync.Mutex
	open   *onnx.File
}

// OpenONNX opens the ONNX file of a model. It needs the build tag onnx.
func OpenONNX(file string, c vit.Config) (*ONNX, error) {
	c, err := c.Resolve()
	if err != nil {
		return nil, err
	}
	open, err := onnx.Open(file)
	return &ONNX{file: file, config: c, open: open}, err
}

// Logits computes the class logits of images, float32 [batch, rows, cols, channels], row by row. It is safe for
// concurrent use.
func (o *ONNX) Logits(images *tensors.Tensor) ([]float32, error) {
	flat, err := tensors.CopyFlatData[float32](images)
	if err != nil {
		return nil, err
	}
	c := o.config
	size := c.ImageRows * c.ImageCols
	if images.Rank() != 4 || len(flat) != images.Shape().Dim(0)*size*c.Channels {
		return nil, errors.Errorf("checkpoints: images are %s, the model wants [batch, %d, %d, %d]", images.Shape(),
			c.ImageRows, c.ImageCols, c.Channels)
	}
	pixels := make([]float32, len(flat)) // [batch, channels, rows, cols]
	for at := 0; at < len(flat); at += size * c.Channels {
		reverseAxes(flat[at:], pixels[at:], size, 1, c.Channels)
	}
	o.run.Lock()
	defer o.run.Unlock()
	logits, err := o.open.Run(tensors.FromFlatDataAndDimensions(pixels, images.Shape().Dim(0), c.Channels, c.ImageRows,
		c.ImageCols))
	if err == nil && len(logits) != images.Shape().Dim(0)*c.Classes {
		err = errors.Errorf("%d logits for %d images of %d classes", len(logits), images.Shape().Dim(0), c.Classes)
	}
	return logits, errors.WithMessagef(err, "checkpoints: %s", o.file)
}

// Finalize frees the memory of the graph.
func (o *ONNX) Finalize() { o.open.Finalize() }

// graphIn returns the ONNX file at a path: the path itself, or a file in the directory, see Inspect. It is empty for
// anything else.
func graphIn(path string) string {
	if inside := filepath.Join(path, graphName); fileExists(inside) {
		return inside
	}
	if filepath.Ext(path) == ".onnx" {
		return path
	}
	return ""
}

// describeGraph reads what Export wrote beside an ONNX file: config.json has a field with that of our own format.
func (w *weights) describeGraph(config strictjson.Object) (d described, err error) {
	if !config.Has(nativeType) {
		return d, errors.Errorf("checkpoints: %s has no config.json beside it that describes a model of wepe: export the "+
			"model again", w.graph)
	}
	own, err := config.Object(nativeType)
	if err == nil {
		d, err = describeNative(own)
	}
	d.format, d.json = formatONNX, config
	return d, w.badConfig(err)
}
