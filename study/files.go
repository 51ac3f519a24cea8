// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math"

	"github.com/gomlx/gomlx/support/xslices"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/report"
)

// FromFiles sets a task's images in files, resized to the recipe's size without keeping the aspect ratio. Test images
// are read in parts, because a long test list would not fit into memory. The first of each pair is for choosing
// settings, the second for results. Unreadable images are an error.
func (t *Task) FromFiles(train, test [2]*data.Files, logger *slog.Logger) {
	load := func(ctx context.Context, files *data.Files, u Unit) (*data.InMemory, error) {
		set, err := files.Load(ctx, preprocess.Settings{Resize: preprocess.ResizeExact, Size: u.Recipe.Augment.Size,
			Grey16: u.Recipe.Grey16}, logger.With("dataset", files.Name))
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w while reading %s", engine.ErrInterrupted, files.Name)
		}
		return set, err
	}
	t.Images = func(ctx context.Context, u Unit) (images data.Splits, err error) {
		set, err := load(ctx, ofPair(u, train), u)
		if err != nil {
			return images, err
		}
		return Sets(set, nil)(ctx, u)
	}
	t.Measure = func(ctx context.Context, u Unit, m *finetune.Model) (all report.Metrics, images string, err error) {
		files, batch := ofPair(u, test), m.EvalBatch()
		some := max(1, 1024/batch) * batch // whole batches: one program for all but the last
		h := sha256.New()
		var loss, top1, top5 float64
		for from := 0; from < files.Len(); from += some {
			set, err := load(ctx, files.Subset(xslices.Iota(from, min(some, files.Len()-from))), u)
			if err != nil {
				return all, "", err
			}
			for i, label := range set.Labels { // the parts depend on the batch
				h.Write(set.Row(i))
				binary.Write(h, binary.LittleEndian, label) //nolint:errcheck // a hash never fails
			}
			part, err := m.Evaluate(set)
			if err != nil {
				return all, "", err
			}
			n := float64(part.Images)
			loss += float64(part.Loss) * n
			top1 += math.Round(float64(part.Top1) * n) // number of images
			top5 += math.Round(float64(part.Top5) * n)
			all.Images += part.Images
		}
		n := float64(all.Images)
		all.Loss, all.Top1, all.Top5 = report.JSONFloat(loss/n), report.JSONFloat(top1/n), report.JSONFloat(top5/n)
		return all, hex.EncodeToString(h.Sum(nil)), nil
	}
}
