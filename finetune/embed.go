// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"image"
	"maps"
	"math/bits"
	"runtime"
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"golang.org/x/sync/errgroup"

	"github.com/wepe-go/wepe/finetune/data"
	"github.com/wepe-go/wepe/vit"
)

// Features are what a model sees in one picture, after its last norm.
type Features struct {
	Class      []float32 // [Width] the class token; nil for a model without one
	Mean       []float32 // [Width] the mean of the patches
	Patches    []float32 // [Rows, Cols, Width] the patches, row by row
	Rows, Cols int
}

// Unread are the pictures without features, by their index, and why. Those beside them have theirs.
type Unread map[int]error

// Error tells of the first.
func (u Unread) Error() string {
	first := u[slices.Min(slices.Collect(maps.Keys(u)))].Error()
	if len(u) > 1 {
		return fmt.Sprintf("%s; %d more pictures have no features", first, len(u)-1)
	}
	return first
}

// Embed returns the features of picture files. From the files of a pretrained model to vectors:
//
//	model, err := finetune.OpenAny(backend, "hf://facebook/dinov2-small") // or a directory, or a file
//	features, err := model.Embed("cat.jpg", "dog.png")
//	fmt.Println(features[0].Class)
//
// Pictures are brought to the model's size and normalised as its files say, see Predict. They are read on all cores and
// seen in batches of the recipe's EvalBatchSize. An error of type [Unread] names those that are missing or damaged; the
// others come with it.
func (m *Model) Embed(files ...string) ([]Features, error) {
	return m.EmbedEach(len(files), func(i int) (*data.Picture, error) { return decode(files[i]) })
}

// EmbedImages is Embed for decoded pictures, whose transparency is dropped.
func (m *Model) EmbedImages(images ...image.Image) ([]Features, error) {
	return m.EmbedEach(len(images), func(i int) (*data.Picture, error) { return data.FromImage(images[i]), nil })
}

// EmbedEach is Embed for n pictures from anywhere. They are read a batch at a time, several at once.
func (m *Model) EmbedEach(n int, read func(i int) (*data.Picture, error)) ([]Features, error) {
	if err := m.Recipe.plainViT("gives features"); err != nil {
		return nil, err
	}
	if err := m.Recipe.oneSize("Embed"); err != nil {
		return nil, err
	}
	if m.features == nil {
		var err error
		if m.features, err = featuresProgram(m); err != nil {
			return nil, err
		}
	}
	all, unread := make([]Features, n), Unread{}
	for begin := 0; begin < n; begin += m.Recipe.EvalBatchSize {
		pictures, failed := m.readEach(begin, min(n, begin+m.Recipe.EvalBatchSize), read)
		var batch []*data.Picture
		var rows []int
		for i, picture := range pictures {
			if failed[i] != nil {
				unread[begin+i] = failed[i]
				continue
			}
			batch, rows = append(batch, picture), append(rows, begin+i)
		}
		if err := m.embed(batch, func(i int, f Features) { all[rows[i]] = f }); err != nil {
			return nil, err
		}
	}
	if len(unread) > 0 {
		return all, unread
	}
	return all, nil
}

// readEach reads pictures from…to−1 on all cores and brings them to the model's size.
func (m *Model) readEach(from, to int, read func(i int) (*data.Picture, error)) ([]*data.Picture, []error) {
	pictures, failed := make([]*data.Picture, to-from), make([]error, to-from)
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for k := range pictures {
		group.Go(func() error {
			picture, err := read(from + k)
			if err == nil {
				if picture, err = m.Fit(picture); err != nil {
					err = fmt.Errorf("finetune: picture %d: %w", from+k, err)
				}
			}
			pictures[k], failed[k] = picture, err
			return nil
		})
	}
	_ = group.Wait() // failures are each picture's own
	return pictures, failed
}

// embed sees a batch of pictures of one size. It is filled up to a power of two, so that few programs serve batches of
// any length: GoMLX keeps 32 and then refuses.
func (m *Model) embed(batch []*data.Picture, see func(i int, f Features)) error {
	n := len(batch)
	if n == 0 {
		return nil
	}
	for full := min(m.Recipe.EvalBatchSize, 1<<bits.Len(uint(n-1))); len(batch) < full; {
		batch = append(batch, batch[0])
	}
	p := m.upload(m.setOf("pictures", batch...))
	defer p.finalize()
	return m.batches(p, m.features, len(batch), func(_, _ int, outputs []*tensors.Tensor) error {
		flat, err := tensors.CopyFlatData[float32](outputs[0])
		if err != nil {
			return err
		}
		size := len(flat) / len(batch)
		for i := range n {
			see(i, featuresOf(m.Recipe.Model, slices.Clone(flat[i*size:(i+1)*size])))
		}
		return nil
	})
}

// Fingerprint is the SHA-256, in hexadecimal, of what features depend on: the weights but for the head, the network,
// and what is done to pictures.
func (m *Model) Fingerprint() (string, error) {
	h := sha256.New()
	a := m.Recipe.Augment
	if err := json.NewEncoder(h).Encode([]any{m.Recipe.Model, m.Recipe.Params, m.Preprocess, a.Mean, a.Std}); err != nil {
		return "", err
	}
	weights := map[string]*model.Variable{}
	for v := range m.variables() {
		if path := below(v.Path()); !strings.HasPrefix(path, headPath) {
			weights[path] = v
		}
	}
	for _, path := range slices.Sorted(maps.Keys(weights)) {
		value, err := weights[path].Value()
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

// featuresProgram is the forward pass to the last norm. Inputs: pixels, plan. Output: tokens [batch, tokens, width].
func featuresProgram(m *Model) (*model.Exec, error) {
	augment := m.evalAugment()
	return model.NewExec(m.backend, m.store, func(scope *model.Scope, inputs []*Node) []*Node {
		scope.Store().SetTraining(inputs[0].Graph(), false)
		trace := m.Recipe.Model.Trace(scope.In(modelScope), augment.Images(inputs[0], inputs[1:1+data.PlanLen]), false)
		return []*Node{trace.Encoded, trace.Logits} // the last keeps the head among what the model asks for
	})
}

// featuresOf takes the tokens [prefix+Rows·Cols, width] of a picture apart.
func featuresOf(c vit.Config, tokens []float32) Features {
	c = c.WithDefaults()
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
