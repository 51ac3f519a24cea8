// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/finetune/data"
)

// Group is the processes that make one run together. Each of n computes 1/n of the parts that Recipe.Accumulate divides
// a batch into; the gradients are summed, every process makes the same optimizer step, and the first writes. What a run
// computes depends on Accumulate, not on how many share it.
type Group interface {
	Rank() int // of this process, from 0
	Size() int
	// Sum replaces values by their sums over the processes, the same bits in each. All call it, with as many values.
	Sum(values []float32) error
}

// alone is the group of one process.
type alone struct{}

func (alone) Rank() int           { return 0 }
func (alone) Size() int           { return 1 }
func (alone) Sum([]float32) error { return nil }

// share fills in what a group decides of a recipe, and refuses one that it cannot share.
func (r Recipe) share(g Group) (Recipe, error) {
	r.Accumulate = cmp.Or(r.Accumulate, g.Size())
	switch {
	case g.Size() == 1:
		return r, nil
	case r.Accumulate%g.Size() != 0:
		return r, fmt.Errorf("finetune: %d processes cannot share a batch in %d parts: want accumulate a multiple of %d",
			g.Size(), r.Accumulate, g.Size())
	case r.Architecture == DHVT:
		return r, fmt.Errorf("finetune: recipe %s normalises by batches: their running statistics would differ between "+
			"the %d processes of a group; want one", r.Name, g.Size())
	}
	return r, nil
}

// inGroup says whether there are other processes.
func (t *trainer) inGroup() bool { return t.Group.Size() > 1 }

// writes says whether this process is the one that leaves files.
func (run Run) writes() bool { return run.Dir != "" && run.Group.Rank() == 0 }

// parts returns the first part of a batch that this process computes, and the first that it does not.
func (t *trainer) parts() (first, end int) {
	each := t.Recipe.Accumulate / t.Group.Size()
	return t.Group.Rank() * each, (t.Group.Rank() + 1) * each
}

// gather returns what every process says, by rank: few numbers, which others leave at zero in the sum.
func gather(g Group, said ...float32) ([][]float32, error) {
	all := make([]float32, g.Size()*len(said))
	copy(all[g.Rank()*len(said):], said)
	err := g.Sum(all)
	return slices.Collect(slices.Chunk(all, len(said))), err
}

// anyone says whether something is so in any process: that it was asked to end, as signals come at different times.
func (t *trainer) anyone(here bool) (bool, error) {
	said := []float32{0}
	if here {
		said[0] = 1
	}
	err := t.Group.Sum(said)
	return said[0] > 0, err
}

// wait returns when all processes have come to it: one that ends at once would end the others while they write.
func (t *trainer) wait() error {
	_, err := t.anyone(false)
	return err
}

// agree sees that all processes are about to make the same steps: their gradients would be of different weights
// otherwise.
func (t *trainer) agree(done bool) error {
	if !t.inGroup() {
		return nil
	}
	text, err := json.Marshal(t.state)
	if err != nil {
		return err
	}
	said := []float32{float32(t.step / 4096), float32(t.step % 4096), 0} // exact as float32
	if done {
		said[2] = 1
	}
	sum := sha256.Sum256(text)
	for i := 0; i < 16; i += 2 {
		said = append(said, float32(binary.BigEndian.Uint16(sum[i:])))
	}
	all, err := gather(t.Group, said...)
	if err != nil {
		return err
	}
	for rank, other := range all {
		switch {
		case !slices.Equal(other[:3], all[0][:3]):
			step := func(said []float32) int { return int(said[0])*4096 + int(said[1]) }
			return fmt.Errorf("finetune: process %d begins at step %d, process 0 at step %d: all must see the same run "+
				"directory", rank, step(other), step(all[0]))
		case !slices.Equal(other, all[0]):
			return fmt.Errorf("finetune: process %d has another run than process 0: all want the same flags, pictures and "+
				"pretrained model", rank)
		}
	}
	return nil
}

// exchange adds up over the processes what each has accumulated, and returns the losses of all parts of the batch. What
// is sent are the trained numbers and those losses, once.
func (t *trainer) exchange(first int, losses []*tensors.Tensor) ([]*tensors.Tensor, error) {
	sums := accumulators(t.model.store)
	t.sent = t.sent[:0]
	for _, v := range sums {
		value, err := v.Value()
		if err != nil {
			return nil, err
		}
		if err := value.ConstFlatData(func(flat any) { t.sent = append(t.sent, flat.([]float32)...) }); err != nil {
			return nil, err
		}
	}
	numbers := len(t.sent)
	t.sent = append(t.sent, make([]float32, t.Recipe.Accumulate)...)
	for i, l := range losses {
		t.sent[numbers+first+i] = tensors.ToScalar[float32](l)
		_ = l.FinalizeAll()
	}
	if err := t.Group.Sum(t.sent); err != nil {
		return nil, err
	}
	rest := t.sent
	for _, v := range sums {
		n := v.Shape().Size()
		value := tensors.FromFlatDataAndDimensions(slices.Clone(rest[:n]), v.Shape().Dimensions...)
		if err := v.SetValue(value); err != nil {
			return nil, err
		}
		rest = rest[n:]
	}
	all := make([]*tensors.Tensor, len(rest))
	for i, l := range rest {
		all[i] = tensors.FromScalar(l)
	}
	return all, nil
}

// accumulators returns the sums of gradients, by path.
func accumulators(store *model.Store) (sums []*model.Variable) {
	for v := range store.IterVariables() {
		if temporary(v.Path()) {
			sums = append(sums, v)
		}
	}
	slices.SortFunc(sums, func(a, b *model.Variable) int { return cmp.Compare(a.Path(), b.Path()) })
	return sums
}

// accumulatedOf returns the variable that a sum of gradients belongs to.
func accumulatedOf(store *model.Store, sum *model.Variable) *model.Variable {
	return store.GetVariable(strings.TrimPrefix(sum.Path(), accumulatorRoot))
}

// stream gives dropout and drop path their generator for a part of the step to come, a function of seed, step and part:
// whoever computes the part draws the same. A batch in one part goes on with the generator of the step before.
func (t *trainer) stream(part int) error {
	if t.Recipe.Accumulate == 1 {
		return nil
	}
	return t.model.store.SetRNGStateFromSeed(int64(data.Draw("dropout", t.Seed, t.step, part).Uint64()))
}
