// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weight

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/kernel"
)

// LowRankRoot is the scope of all low-rank factors in a store, outside of the models.
const LowRankRoot = "/lora"

// Adapt creates low-rank adapters (LoRA, Hu et al. 2021, https://arxiv.org/abs/2106.09685) for the matrices of the
// attention of every block of the model in a scope, with mlp of the MLPs too. Of a matrix W [in, out] the model then
// computes x·W + x·A·B. A [in, rank] is uniform in ±1/√in, as in peft, and B [rank, out] is zero. Below the root,
// averages and moments of the matrices are deeper, and get none.
func Adapt(scope *model.Scope, rank int, mlp bool) error {
	adapted, root := false, strings.TrimSuffix(scope.Scope(), model.ScopeSeparator)+model.ScopeSeparator
	for _, v := range slices.Collect(scope.Store().IterVariables()) {
		name, below := strings.CutPrefix(v.Path(), root)
		inAttention, _ := path.Match("block_*/attention/*/weights", name)
		inMLP, _ := path.Match("block_*/mlp/*/weights", name)
		if below && v.Shape().Rank() == 2 && (inAttention || inMLP && mlp) { // no convolutions
			in, factors := v.Shape().Dim(0), scope.Store().Scope(LowRankRoot+v.Path())
			Float32(factors, "a", Uniform(1/math.Sqrt(float64(in))), in, rank)
			Float32(factors, "b", Constant(0), rank, v.Shape().Dim(1))
			adapted = true
		}
	}
	if !adapted {
		return fmt.Errorf("adapters of rank %d: there is no attention in %s", rank, scope.Scope())
	}
	return nil
}

// adapted adds x·A·B to y = x·W + b, if W has an adapter.
func adapted(store *model.Store, w *model.Variable, x, y *Node) *Node {
	scope := store.Scope(LowRankRoot + w.Path())
	if scope.GetVariable("a") == nil {
		return y
	}
	for _, factor := range []string{"a", "b"} { // x [..., rank] between them
		x = kernel.Dense(x, ConvertDType(scope.GetVariable(factor).NodeValue(x.Graph()), x.DType()), nil)
	}
	return Add(y, x)
}

// Merge sets every adapted matrix for whose path adds holds, nil for all, to W + A·B, and each B to zero: programs may
// use it. Merged does it in a copy for an export, the import of a run (Imported.adapt in checkpoints/own.go, matrix by
// matrix as it reads), and a Model of package finetune once it is trained or opened (settle). Until then, also in
// validations during training, programs compute x·W + x·A·B.
func Merge(store *model.Store, adds func(w string) bool) error {
	for v := range store.IterVariables() {
		scope, first := strings.CutSuffix(v.Path(), "/a")
		path, factor := strings.CutPrefix(scope, LowRankRoot)
		if !first || !factor {
			continue
		}
		w, b := store.GetVariable(path), store.GetVariable(scope+"/b")
		if adds == nil || adds(path) {
			sum, err := Sum(w.MustValue(), v.MustValue(), b.MustValue())
			if err == nil {
				err = w.SetValue(sum)
			}
			if err != nil {
				return err
			}
		}
		if err := b.SetValue(tensors.FromShape(b.Shape())); err != nil {
			return err
		}
	}
	return nil
}

// Merged returns the store of a model without adapters; of one with adapters a Copy.
func Merged(scope *model.Scope) (*model.Store, error) {
	if scope.Store().Scope(LowRankRoot+scope.Scope()).NumVariables() == 0 {
		return scope.Store(), nil
	}
	return Copy(scope, func(string) bool { return true })
}

// Copy returns a store with all hyperparameters and those variables below a scope whose names below it keep accepts,
// adapters merged.
func Copy(scope *model.Scope, keep func(name string) bool) (*model.Store, error) {
	from, to := scope.Store(), model.NewStore()
	to.SetParams(maps.Collect(from.IterParams()))
	root := strings.TrimSuffix(scope.Scope(), model.ScopeSeparator) + model.ScopeSeparator
	for v := range from.IterVariables() {
		name, below := strings.CutPrefix(v.Path(), LowRankRoot+root)
		if !below {
			name, below = strings.CutPrefix(v.Path(), root)
		}
		if below && keep(name) {
			if _, err := v.CloneToStore(to); err != nil {
				return nil, fmt.Errorf("copy of %s: %w", v.Path(), err)
			}
		}
	}
	err := Merge(to, nil)
	return to, errors.Join(err, to.DeleteVariablesInScope(LowRankRoot))
}

// Sum returns W + A·B of matrices W [in, out], A [in, rank], B [rank, out].
func Sum(w, a, b *tensors.Tensor) (*tensors.Tensor, error) {
	var flat [3][]float32
	for i, t := range []*tensors.Tensor{w, a, b} {
		var err error
		if flat[i], err = tensors.CopyFlatData[float32](t); err != nil {
			return nil, err
		}
	}
	if w.Rank() != 2 || a.Rank() != 2 || b.Rank() != 2 || a.Shape().Dim(0) != w.Shape().Dim(0) ||
		b.Shape().Dim(1) != w.Shape().Dim(1) || a.Shape().Dim(1) != b.Shape().Dim(0) {
		return nil, fmt.Errorf("a matrix of shape %s has factors of %s and %s", w.Shape(), a.Shape(), b.Shape())
	}
	in, out, rank := w.Shape().Dim(0), w.Shape().Dim(1), a.Shape().Dim(1)
	for i := range in {
		for j := range out {
			sum := float64(flat[0][i*out+j])
			for k := range rank {
				sum += float64(flat[1][i*rank+k]) * float64(flat[2][k*out+j])
			}
			flat[0][i*out+j] = float32(sum)
		}
	}
	return tensors.FromFlatDataAndDimensions(flat[0], in, out), nil
}
