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
	header := http.Header{}
	have := fileSize(part)
	if have > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	response, err := c.get(ctx, f.URL, header)
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
	err = receive(to, response.Body, have, total, f.Limit, progress)
	return errors.Join(err, to.Sync(), to.Close())
}

// receive writes a body behind the first done bytes of a file.
func receive(to io.Writer, body io.Reader, done, total, limit int64, progress func(done, total int64)) error {
	buffer := make([]byte, 1<<17)
	for {
		n, err := body.Read(buffer)
		if done+int64(n) > limit {
			return fmt.Errorf("the server sent more than %d bytes", limit)
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return err
		}
		done += int64(n)
		progress(done, total)
		switch {
		case err == io.EOF && total >= 0 && done != total:
			return &NetworkError{fmt.Errorf("the connection ended after %d of %d bytes", done, total)}
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}
