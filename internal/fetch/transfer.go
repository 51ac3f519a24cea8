// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

// transfer makes one request for what is missing of part and appends it.
func (c *Client) transfer(ctx context.Context, f File, part string, progress func(done, total int64)) error {
	have := fileSize(part)
	response, err := c.get(ctx, f.URL, have)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	mode := os.O_APPEND
	switch response.StatusCode {
	case http.StatusOK: // from the start, asked for or not
		have, mode = 0, os.O_TRUNC
	case http.StatusPartialContent:
		var first int64
		_, err := fmt.Sscanf(response.Header.Get("Content-Range"), "bytes %d-", &first)
		if err != nil || have == 0 || first != have {
			return errStartOver
		}
	case http.StatusRequestedRangeNotSatisfiable:
		if Verify(ctx, part, f.Hash) == nil { // it was whole: interrupted just before the renaming
			return nil
		}
		return errStartOver
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

// reporter is told how many bytes are written.
type reporter func(n int)

func (r reporter) Write(p []byte) (int, error) {
	r(len(p))
	return len(p), nil
}
