// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package fetch brings files whose content is known by its hash from an HTTP server: whole and verified under their
// names, or not at all.
//
// While a file is incomplete it is called path.incomplete. A broken transfer is resumed from there (Range), at once or
// by the next call, also of another process after a kill. The hash of the whole tells whether the parts belong
// together: if the file on the server has changed or the beginning was damaged, the transfer starts over, as it does
// with a server that knows no ranges. One process at a time works on a file, the others wait for its result.
//
// Every wait has a limit: connecting, the answer, and a body of less than 32 KiB per Client.Idle. What may succeed
// later (a lost connection, 408, 429, 5xx) is tried a few times, after growing pauses or the one that the server asks
// for.
package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// File is a file on a server.
type File struct {
	URL     string
	Hash    string // hex: the SHA-256 of the content, or the 40 digits that git names it by
	Limit   int64  // refused above this many bytes
	Lock    string // lock file, default path.lock; never removed: a waiting process would hold a lock on the removed one
	Replace bool   // a file of other content under the final name is replaced; otherwise it is an error
}

// Fetch brings the file to the given path, creating directories as needed. It makes no request if the file is there.
// progress, which may be nil, is called with the bytes so far and the total, -1 when the server does not say.
func (c *Client) Fetch(ctx context.Context, f File, path string, progress func(done, total int64)) (err error) {
	if found, err := f.found(ctx, path); found || err != nil {
		return err
	}
	lock := flock.New(cmp.Or(f.Lock, path+".lock"))
	for _, dir := range []string{filepath.Dir(path), filepath.Dir(lock.Path())} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if _, err := lock.TryLockContext(ctx, 200*time.Millisecond); err != nil { // waits for another process
		return fmt.Errorf("lock %s: %w", lock.Path(), err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	if found, err := f.found(ctx, path); found || err != nil { // another process may have brought it meanwhile
		return err
	}
	if progress == nil {
		progress = func(int64, int64) {}
	}
	part := path + ".incomplete"
	pieces, err := c.complete(ctx, f, part, progress)
	if wrong := (*ContentError)(nil); pieces && errors.As(err, &wrong) {
		// The pieces may be of two versions, or what an earlier call left damaged: once more from the start.
		_, err = c.complete(ctx, f, part, progress)
	}
	if err != nil {
		return err
	}
	return os.Rename(part, path)
}

// found tells whether the file is at path already.
func (f File) found(ctx context.Context, path string) (bool, error) {
	err := Verify(ctx, path, f.Hash)
	wrong := (*ContentError)(nil)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist), f.Replace && errors.As(err, &wrong):
		return false, nil
	case errors.As(err, &wrong):
		return false, fmt.Errorf("%w: it is another file, move it away", err)
	}
	return false, err
}

// complete makes requests until part is whole, and verifies it. A part of other content is removed. pieces reports that
// it took more than one request, counting those of earlier calls.
func (c *Client) complete(ctx context.Context, f File, part string,
	progress func(done, total int64)) (pieces bool, err error) {
	most := fileSize(part)
	err = c.retry(ctx, func() (more bool, err error) {
		pieces = pieces || fileSize(part) > 0
		err = c.transfer(ctx, f, part, progress)
		if errors.Is(err, errStartOver) {
			if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return false, err
			}
		}
		size := fileSize(part)
		more = size > most && !errors.Is(err, errStalled)
		most = max(most, size)
		return more, err
	})
	if err != nil {
		return pieces, err
	}
	err = Verify(ctx, part, f.Hash)
	if wrong := (*ContentError)(nil); errors.As(err, &wrong) {
		_ = os.Remove(part) // the reason for failing is the content
		return pieces, fmt.Errorf("%w: what was received is removed, try again", err)
	}
	return pieces, err
}

func fileSize(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}
