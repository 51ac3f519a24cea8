// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"os"
	"path/filepath"
	"sync"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/checkpoints/internal/onnx"
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

// importONNX opens one of our own ONNX files.
func importONNX(path, file string, options ImportOptions) (*Imported, error) {
	m, err := describeONNX(path, file)
	if err != nil {
		return nil, err
	}
	if options != (ImportOptions{ONNX: true, HeadOptional: options.HeadOptional}) {
		return nil, errors.Errorf("checkpoints: %s is for images of %d×%d and its %d classes only: open it without options",
			file, m.Config.ImageRows, m.Config.ImageCols, m.Config.Classes)
	}
	opened, _, err := openRegular(file)
	if err != nil {
		return nil, err
	}
	w := &weights{files: []*os.File{opened}}
	defer w.Close()
	if m.SHA256, err = w.sum(); err == nil {
		m.ONNX, err = OpenONNX(file, m.Config)
	}
	return m, err
}

// describeONNX reads what Export wrote beside an ONNX file: config.json has a field with that of our own format.
func describeONNX(path, file string) (*Imported, error) {
	w := &weights{path: path, dir: filepath.Dir(file)}
	config, err := w.readConfig()
	if err != nil {
		return nil, err
	}
	if !config.Has(nativeType) {
		return nil, errors.Errorf("checkpoints: %s has no config.json beside it that describes a model of wepe: export the "+
			"model again", file)
	}
	own, err := config.Object(nativeType)
	if err != nil {
		return nil, w.badConfig(err)
	}
	found, err := describeNative(own)
	if err != nil {
		return nil, w.badConfig(err)
	}
	found.json = config
	m := &Imported{Format: formatONNX, Config: found.config, Usual: [2]int{found.config.ImageRows, found.config.ImageCols}}
	if err := m.readLabels(w, found); err != nil {
		return nil, err
	}
	return m, m.pixels(w, found)
}
