// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"fmt"
	"io"
	"math/rand/v2"
	"sync"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/checkpoints/internal/onnx"
	"github.com/wepe-go/wepe/internal/numeric"
	"github.com/wepe-go/wepe/internal/strictjson"
	"github.com/wepe-go/wepe/vit"
)

// onnxTolerance bounds the difference of a file's logits from the backend's, in units of the largest logit or of 1:
// float32 summed in another order.
const onnxTolerance = 1e-4

// writeONNX writes the graph of the model with its weights as constants. Images have torch's layout, channels first.
func (e *export) writeONNX(w io.Writer) error {
	c := e.config
	c.DType = "float32" // ONNX Runtime has few 16-bit kernels on CPUs
	// Not the caller's store: its variables become constants, and a graph could add some.
	store := model.NewStore()
	for path, value := range e.store.IterParams() {
		store.SetParam(path, value)
	}
	for v := range e.store.IterVariables() {
		if _, ok := below(v, e.scope); !ok {
			continue
		}
		value, err := v.Value()
		if err == nil {
			_, err = store.CreateVariable(v.Path(), value)
		}
		if err != nil {
			return err
		}
	}
	known := store.NumVariables()
	build := func(s *model.Scope, pixels *Node) *Node {
		return c.Logits(s.Store().Scope(e.scope), TransposeAllAxes(pixels, 0, 2, 3, 1)) // [batch, rows, cols, channels]
	}
	shape := shapes.Make(dtypes.Float32, 1, c.Channels, c.ImageRows, c.ImageCols)
	if err := onnx.Write(store, build, shape, w); err != nil {
		return err
	}
	if created := store.NumVariables() - known; created > 0 {
		return errors.Errorf("scope %s lacks %d of the model's variables", e.scope, created)
	}
	return nil
}

// checkONNX runs the file on two batches of random images and compares its logits with those of the model.
func (e *export) checkONNX(file string) error {
	c := e.config
	c.DType = "float32"
	g, err := OpenONNX(file, c)
	if errors.Is(err, onnx.ErrNone) {
		e.report = append(e.report, "not compared with the model: "+err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	defer g.Finalize()
	worst := 0.0
	for _, batch := range []int{1, 3} {
		images := Noise(c, batch, 1)
		got, err := g.Logits(images)
		if err != nil {
			return err
		}
		want, err := forward(e.backend, e.store, e.scope, c, images)
		if err != nil {
			return err
		}
		d, scale := numeric.Difference(got, want)
		if !(d <= onnxTolerance*max(1, scale)) {
			return errors.Errorf("its logits on %d random images differ by %.3g from those of the model, which reach %.3g",
				batch, d, scale)
		}
		worst = max(worst, d)
	}
	e.report = append(e.report, fmt.Sprintf("checked on batches of 1 and 3 images: logits differ by %.2g at most", worst))
	return nil
}

// Logits runs the model on normalized images, float32 [batch, rows, cols, channels], and returns its class logits, row
// by row. It is for comparing files; an application loads the model once and builds its own graph.
func (m *Imported) Logits(backend compute.Backend, images *tensors.Tensor) ([]float32, error) {
	store := model.NewStore()
	if err := m.Load(store.Scope("/model")); err != nil {
		return nil, err
	}
	return forward(backend, store, "/model", m.Config, images)
}

// forward runs the model below a scope. All of its variables must exist: a graph would initialize missing ones at
// random.
func forward(backend compute.Backend, store *model.Store, scope string, c vit.Config, images *tensors.Tensor) (
	[]float32, error,
) {
	known := store.NumVariables()
	out, err := model.CallOnce(backend, store, func(s *model.Scope, images *Node) *Node {
		return c.Logits(s.Store().Scope(scope), images)
	}, images)
	if err != nil {
		return nil, errors.WithMessage(err, "checkpoints: logits")
	}
	if created := store.NumVariables() - known; created > 0 {
		return nil, errors.Errorf("checkpoints: the model lacks %d of its variables", created)
	}
	return tensors.CopyFlatData[float32](out)
}

// Noise returns images of standard normal noise, float32 [n, rows, cols, channels], the same for equal seeds.
func Noise(c vit.Config, n int, seed uint64) *tensors.Tensor {
	rng := rand.New(rand.NewPCG(seed, 0))
	flat := make([]float32, n*c.ImageRows*c.ImageCols*c.Channels)
	for i := range flat {
		flat[i] = float32(rng.NormFloat64())
	}
	return tensors.FromFlatDataAndDimensions(flat, n, c.ImageRows, c.ImageCols, c.Channels)
}

// ONNX is an exported ONNX file on ONNX Runtime.
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
