// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package fetch downloads files with known hashes from an HTTP server. A file is complete and verified under its name,
// or absent.
//
// An incomplete file is called path.incomplete. An interrupted transfer resumes from it (Range), at once or in the next
// call, also by another process after a kill. If the file on the server has changed or the beginning was damaged, the
// hash differs and the transfer starts over, as with a server without ranges. One process at a time works on a file;
// others wait for its result.
//
// Every wait has a limit: connecting, the response, and a body with less than 32 KiB per Client.Idle. Transient
// failures (a lost connection, 408, 429, 5xx) are retried a few times, after growing pauses or the delay that the
// server requests.
package fetch

import (
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// File is a file on a server.
type File struct {
	URL     string
	Hash    string // hex: the SHA-256 of the content, or the 40 digits of its git hash
	Limit   int64  // maximum size in bytes
	Lock    string // default path.lock; never removed, or a waiting process would lock a removed file
	Replace bool   // replace a file with other content under the final name, which otherwise is an error
}

// Fetch downloads the file to the given path, creating directories as needed. It makes no request if the file exists.
// progress, which may be nil, is called with the bytes so far and the total, -1 if unknown.
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
	if found, err := f.found(ctx, path); found || err != nil { // another process may have downloaded it meanwhile
		return err
	}
	if progress == nil {
		progress = func(int64, int64) {}
	}
	part := path + ".incomplete"
	most, pieces := fileSize(part), false
	err = c.retry(ctx, func() (more bool, err error) {
		pieces = pieces || fileSize(part) > 0
		if err = c.transfer(ctx, f, part, progress); err == nil {
			err = Verify(ctx, part, f.Hash)
		}
		if wrong := (*ContentError)(nil); errors.As(err, &wrong) {
			_ = os.Remove(part) // the content is wrong
			if err = fmt.Errorf("%w: what was received is removed, try again", err); pieces {
				// The pieces may be of two versions, or an earlier call's piece is damaged: try once more from the start.
				pieces, err = false, errStartOver
			}
		}
		size := fileSize(part)
		more = size > most && !errors.Is(err, errStalled)
		most = max(most, size)
		return more, err
	})
	if err != nil {
		return err
	}
	return os.Rename(part, path)
}

// found reports whether the file exists at path.
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

// transfer makes one request for the missing bytes of part and appends them.
func (c *Client) transfer(ctx context.Context, f File, part string, progress func(done, total int64)) error {
	have := fileSize(part)
	response, err := c.get(ctx, f.URL, have)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	mode := os.O_APPEND
	switch response.StatusCode {
	case http.StatusOK: // from the start, requested or not
		have, mode = 0, os.O_TRUNC
	case http.StatusPartialContent:
		var first int64
		_, err := fmt.Sscanf(response.Header.Get("Content-Range"), "bytes %d-", &first)
		if err != nil || have == 0 || first != have {
			return startOver(part)
		}
	case http.StatusRequestedRangeNotSatisfiable:
		if Verify(ctx, part, f.Hash) == nil { // it was complete: interrupted just before the rename
			return nil
		}
		return startOver(part)
	default:
		return &StatusError{response.StatusCode, response.Header}
	}
	total := int64(-1)
	if response.ContentLength >= 0 {
		total = have + response.ContentLength
	}
	if total > f.Limit {
		return fmt.Errorf("the server offers %d bytes, want at most %d", total, f.Limit)
	}
	to, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|mode, 0o644)
	if err != nil {
		return err
	}
	report := reporter(func(n int) { have += int64(n); progress(have, total) })
	_, err = io.Copy(io.MultiWriter(to, report), io.LimitReader(response.Body, f.Limit-have+1))
	if have > f.Limit {
		err = fmt.Errorf("the server sent more than %d bytes", f.Limit)
	}
	return errors.Join(err, to.Sync(), to.Close())
}

// startOver removes the part of a file that has changed on the server.
func startOver(part string) error {
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errStartOver
}

// reporter receives the number of bytes written.
type reporter func(n int)

func (r reporter) Write(p []byte) (int, error) {
	r(len(p))
	return len(p), nil
}

func fileSize(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}

// ContentError reports a file whose content does not have the expected hash.
type ContentError struct {
	File, Kind, Got, Want string
}

func (e *ContentError) Error() string {
	return fmt.Sprintf("%s: %s is %s, want %s", e.File, e.Kind, e.Got, e.Want)
}

// IsHash reports whether s can be the Hash of a file: 64 lower-case hex digits of a SHA-256 or 40 of a git blob.
func IsHash(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && hex.EncodeToString(raw) == s && (len(raw) == sha256.Size || len(raw) == sha1.Size)
}

// Verify reads a file and compares it with its hash; other content is a [*ContentError].
func Verify(ctx context.Context, file, want string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	var sum hash.Hash
	kind := "sha256"
	if len(want) == 2*sha1.Size { // git hashes a header before the content
		info, err := f.Stat()
		if err != nil {
			return err
		}
		sum, kind = sha1.New(), "git's sha1"
		fmt.Fprintf(sum, "blob %d\x00", info.Size())
	} else {
		sum = sha256.New()
	}
	stop := context.AfterFunc(ctx, func() { f.Close() }) // hashing gigabytes takes time
	defer stop()
	if _, err := io.Copy(sum, f); err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return &ContentError{file, kind, got, want}
	}
	return nil
}
