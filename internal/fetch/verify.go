// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
)

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
	if _, err := io.Copy(sum, untilDone{ctx, f}); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return &ContentError{file, kind, got, want}
	}
	return nil
}

// untilDone is a reader that fails once the context is done, because hashing gigabytes takes time.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u untilDone) Read(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.r.Read(p)
}
