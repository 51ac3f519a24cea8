// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"fmt"
	"strings"

	"github.com/wepe-go/wepe/checkpoints/hub"
)

// Fetch returns where the model that a program starts from lies on disk: at from itself or, if that is an address of
// the Hugging Face hub, as in hf://owner/name@revision, in the cache, which it fills and tells of.
func Fetch(ctx context.Context, from string) (path string, err error) {
	if !strings.HasPrefix(from, hub.Scheme) {
		return from, nil
	}
	told := ""
	snapshot, err := hub.Download(ctx, from, func(file string, done, total int64) {
		if line := tell(file, done, total); line != told {
			told = line
			Line(from + ": " + line)
		}
	})
	if err != nil {
		return "", err
	}
	line := fmt.Sprintf("%s: commit %s", from, snapshot.Commit)
	if snapshot.Unreached != nil {
		line += fmt.Sprintf(" of the cache, the hub is not reached: %v", snapshot.Unreached)
	}
	Line(line)
	return snapshot.Dir, nil
}

// tell is a line that changes with each tenth of a file, or each 64 MB where the hub does not say how many there are.
func tell(file string, done, total int64) string {
	if total <= 0 {
		return fmt.Sprintf("%s, %d MB", file, done>>26<<6)
	}
	return fmt.Sprintf("%s, %d %% of %d MB", file, 10*done/total*10, total>>20)
}
