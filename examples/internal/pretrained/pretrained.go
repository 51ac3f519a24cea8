// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package pretrained brings the model that a program starts from to this machine.
package pretrained

import (
	"context"
	"fmt"
	"strings"

	"github.com/wepe-go/wepe/checkpoints/hub"
	"github.com/wepe-go/wepe/examples/internal/progress"
)

// Fetch returns where a model lies on disk: at from itself or, if that is an address of the Hugging Face hub, as in
// hf://owner/name@revision, in the cache, which it fills and tells of.
func Fetch(ctx context.Context, from string) (path string, err error) {
	if !strings.HasPrefix(from, hub.Scheme) {
		return from, nil
	}
	told := int64(-1)
	snapshot, err := hub.Download(ctx, from, hub.Options{Progress: func(file string, done, total int64) {
		if tenth := 10 * done / max(1, total); tenth != told { // a line for each tenth
			told = tenth
			progress.Line(fmt.Sprintf("%s: %s, %d of %d MB", from, file, done>>20, total>>20))
		}
	}})
	if err != nil {
		return "", err
	}
	line := fmt.Sprintf("%s: commit %s", from, snapshot.Commit)
	if snapshot.Unreached != nil {
		line += fmt.Sprintf(" of the cache, the hub is not reached: %v", snapshot.Unreached)
	}
	progress.Line(line)
	return snapshot.Dir, nil
}
