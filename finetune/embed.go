// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/vit"
)

// Features are the outputs of a model's last norm for one image; of its last block if the norm follows the pooling
// ([vit.Config] FinalNorm).
type Features struct {
	Class      []float32 // [Width] the class token; nil for a model without one
	Mean       []float32 // [Width] the mean-pooled patch tokens
	Patches    []float32 // [Rows, Cols, Width] the patch tokens, row by row
	Rows, Cols int
}

// Embed returns the features of image files:
//
//	model, err := finetune.Open(backend, "hf://facebook/dinov2-small") // or a directory, or a file
//	features, err := model.Embed("cat.jpg", "dog.png")
//	fmt.Println(features[0].Class)
//
// Images are resized and normalized as the model's files specify, see [Model.Predict]. Reading on all cores overlaps
// with the network, in batches of EvalBatch. An error of type [ReadErrors] lists missing or damaged files; the features
// of the others are returned with it.
func (m *Model) Embed(files ...string) ([]Features, error) {
	if err := m.prepareFeatures(); err != nil {
		return nil, err
	}
	return collect(m, ofFiles(files), m.features, func(_ int, tokens []float32) (Features, error) {
		return featuresOf(m.Recipe.Model, tokens), nil
	})
}

// EmbedEach is Embed for n images from any source, with memory for one batch: see is called with the features or the
// read error of each image, in order, while the next are read. An error of see ends EmbedEach. name is for messages.
func (m *Model) EmbedEach(n int, name func(i int) string, read func(i int) (*data.Image, error),
	see func(i int, f Features, unread error) error) error {
	if err := m.prepareFeatures(); err != nil {
		return err
	}
	return m.each(readable{n, read, name}, m.features, func(i int, tokens []float32, unread error) error {
		if unread != nil {
			return see(i, Features{}, unread)
		}
		return see(i, featuresOf(m.Recipe.Model, tokens), nil)
	})
}

// prepareFeatures compiles the program of the features.
func (m *Model) prepareFeatures() (err error) {
	if err := cmp.Or(m.Recipe.plainViT("gives features"), m.Recipe.oneSize("Embed")); err != nil {
		return err
	}
	if m.features == nil {
		m.features, err = m.traced(false, func(trace *vit.Trace) []*Node {
			return []*Node{trace.Encoded, trace.Logits} // includes the head in the graph's variables
		})
	}
	return err
}

// Fingerprint returns the SHA-256, in hexadecimal, of everything that features depend on: the weights except the head,
// the network and the preprocessing.
func (m *Model) Fingerprint() (string, error) {
	h := sha256.New()
	a := m.Recipe.Augment
	if err := json.NewEncoder(h).Encode([]any{m.Recipe.Model, m.Recipe.Params, m.Recipe.Aspect, m.Preprocess,
		a.Mean, a.Std}); err != nil {
		return "", err
	}
	for _, v := range m.variables() {
		path := below(v.Path())
		if strings.HasPrefix(path, headPath) {
			continue
		}
		value, err := v.Value()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %s\n", path, value.Shape())
		if err := value.ConstBytes(func(raw []byte) { h.Write(raw) }); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// featuresOf splits the tokens [prefix+Rows·Cols, width] of an image.
func featuresOf(c vit.Config, tokens []float32) Features {
	f := Features{Mean: make([]float32, c.Width), Patches: tokens[c.Prefix()*c.Width:], Rows: c.Rows(), Cols: c.Cols()}
	if c.Prefix() > c.Registers {
		f.Class = tokens[:c.Width]
	}
	n := float64(c.Rows() * c.Cols())
	for i := range f.Mean {
		sum := 0.0
		for k := i; k < len(f.Patches); k += c.Width {
			sum += float64(f.Patches[k])
		}
		f.Mean[i] = float32(sum / n)
	}
	return f
}
