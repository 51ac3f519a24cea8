// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package serve

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/numeric"
	"github.com/wepe-go/wepe/vit/dhvt"
)

// served is a finetune.Model in a server.
type served struct {
	*finetune.Model
	*finetune.Inference
	card card
}

func newServed(m *finetune.Model) (*served, error) {
	r := m.Recipe
	c := r.Model
	switch {
	case r.Aspect == finetune.AspectKeep:
		return nil, errors.New("serve: the model takes images of any aspect ratio and has no fixed batch: use its export " +
			"with a fixed size (wepe export RUN DIR --to native)")
	case c.Channels != 3:
		return nil, fmt.Errorf("serve: the model takes %d channels, images have 3", c.Channels)
	}
	preprocessing, err := m.Preprocessing()
	if err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	parameters := c.Parameters()
	if r.Architecture == finetune.DHVT {
		network, err := dhvt.FromViT(c)
		if err != nil {
			return nil, err
		}
		parameters = network.Parameters()
	}
	inference, err := m.Inference()
	if err != nil {
		return nil, err
	}
	s := &served{m, inference, card{
		Name: finetune.ModelName(m.Source.Path), Weights: m.Source.Weights.Name, Step: m.Source.Weights.Step,
		Position: c.Position,
		Architecture: fmt.Sprintf("%s, depth %d, width %d, heads %d, patch %d", cmp.Or(r.Architecture, "ViT"), c.Depth,
			c.Width, c.Heads, c.PatchSize),
		Parameters: parameters, Size: [2]int{c.ImageRows, c.ImageCols}, Grid: [2]int{c.Rows(), c.Cols()},
		Labels: m.Classes, Preprocessing: preprocessing, Backend: inference.Backend.Name(),
		Sigmoid: m.Activation == "sigmoid",
	}}
	if r.Architecture == finetune.ONNX {
		s.card.Backend = "onnxruntime"
	}
	switch {
	case m.Headless:
		s.card.Unscored, s.card.Labels = "the model has no head", []string{}
	case m.Activation == "none":
		s.card.Unscored = "the logits of the model are no scores of classes"
	}
	s.card.Similarity, err = positions(m)
	return s, err
}

// positions is 1000 times the cosine between the vectors of all positions; nil if the encoding has no vectors.
func positions(m *finetune.Model) ([][]int, error) {
	_, _, vectors, err := m.Encoding()
	n := m.Recipe.Model.Rows() * m.Recipe.Model.Cols()
	if err != nil || vectors == nil {
		return nil, err
	}
	similarity := make([][]int, n)
	for i, cosine := range numeric.Similarities(vectors, n) {
		similarity[i/n] = append(similarity[i/n], int(math.Round(1000*cosine)))
	}
	return similarity, nil
}

func (s *served) Compile(batch int) error {
	c := s.Recipe.Model
	blank, err := s.PreprocessImage(&data.Image{Height: c.ImageRows, Width: c.ImageCols,
		Pixels: make([]uint8, 3*c.ImageRows*c.ImageCols)})
	if err != nil {
		return err
	}
	if _, err := s.Batch(slices.Repeat([]*data.Image{blank}, batch)); err != nil || batch > 1 {
		return err
	}
	_, _ = s.Inference.Attention(blank) // a request meets the error again
	return nil
}

func (s *served) Attention(image *data.Image) ([]float32, error) {
	weights, err := s.Inference.Attention(image)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, failure{http.StatusNotFound, err.Error()}
	}
	return weights, err
}

// Parallel returns one worker for each core on pure Go, which computes a batch on one core, otherwise one worker. A
// batch uses all cores except on pure Go and on a GPU.
func (s *served) Parallel() (workers int, allCores bool) {
	if s.Backend.Name() == "Go Backend" {
		return runtime.GOMAXPROCS(0), false
	}
	return 1, !strings.Contains(strings.ToLower(s.Backend.Description()), "cuda")
}

func (s *served) Card() card { return s.card }
