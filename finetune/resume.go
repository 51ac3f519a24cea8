// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/wepe-go/wepe/checkpoints"
)

// resume restores the newest whole checkpoint of the run directory. Without one, the task starts.
func (t *Trainer) resume() error {
	if t.Dir == "" {
		return t.Task.Start()
	}
	checkpoint, skipped, err := checkpoints.Latest(filepath.Join(t.Dir, Last))
	if err != nil {
		return err
	}
	for _, s := range skipped {
		t.Logger.Warn("checkpoint skipped", "path", s.Path, "error", s.Err)
	}
	if checkpoint == nil {
		return t.Task.Start()
	}
	if t.course, err = t.Task.Load(checkpoint); err != nil {
		return err
	}
	t.step, t.startStep = int(checkpoint.Step), int(checkpoint.Step)
	t.Logger.Info("resuming", "step", t.step, "of", t.Steps)
	return nil
}

// agree checks that all processes are about to make the same steps: their gradients would be of different weights
// otherwise.
func (t *Trainer) agree() error {
	if t.Group.Size() == 1 {
		return nil
	}
	text, err := json.Marshal(t.Task.State(t.course))
	if err != nil {
		return err
	}
	own := []float32{float32(t.step / 4096), float32(t.step % 4096)} // exact as float32
	sum := sha256.Sum256(text)
	for i := 0; i < 16; i += 2 {
		own = append(own, float32(binary.BigEndian.Uint16(sum[i:])))
	}
	all, err := gather(t.Group, own...)
	if err != nil {
		return err
	}
	for rank, other := range all {
		switch {
		case !slices.Equal(other[:2], all[0][:2]):
			step := func(said []float32) int { return int(said[0])*4096 + int(said[1]) }
			return fmt.Errorf("finetune: process %d begins at step %d, process 0 at step %d: all must see the same run "+
				"directory", rank, step(other), step(all[0]))
		case !slices.Equal(other, all[0]):
			return fmt.Errorf("finetune: process %d has another run than process 0: all want the same flags, images and "+
				"pretrained model", rank)
		}
	}
	return nil
}
