// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/hub"
	"github.com/wepe-go/wepe/examples/internal/progress"
	"github.com/wepe-go/wepe/finetune"
)

// fetch brings the pretrained checkpoint here, if it is on the hub, and opens it: before anything is trained it is
// known to be readable, and to be the one that recorded trainings started from.
func (s *study) fetch(ctx context.Context) error {
	if strings.HasPrefix(s.from, hub.Scheme) {
		snapshot, err := hub.Download(ctx, s.from, hub.Options{Progress: func(file string, done, total int64) {
			s.say(file, fmt.Sprintf("%.1f of %.1f GB", float64(done/1e8)/10, float64(total/1e8)/10))
		}})
		if err != nil {
			return err
		}
		if snapshot.Unreached != nil {
			progress.Line(fmt.Sprintf("%s: commit %s of the cache, the hub is not reached: %v", s.from, snapshot.Commit,
				snapshot.Unreached))
		}
		s.from = snapshot.Dir
	}
	classes := make([]string, s.tasks[0].classes)
	for i := range classes {
		classes[i] = strconv.Itoa(i)
	}
	model, err := finetune.OpenSource(s.from, checkpoints.ImportOptions{AssumeSquare: s.assumeSquare}, classes)
	if err != nil {
		return err
	}
	s.sum = model.SHA256
	return nil
}
