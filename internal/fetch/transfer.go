// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// transfer makes one request for what is missing of part and appends it.
func (c *Client) transfer(ctx context.Context, f File, part string, progress func(done, total int64)) error {
	header := http.Header{}
	have := int64(0)
	version, _ := os.ReadFile(part + ".etag")
	if len(version) > 0 {
		if have = fileSize(part); have > 0 {
			header.Set("Range", fmt.Sprintf("bytes=%d-", have))
			header.Set("If-Range", string(version))
		}
	}
	response, err := c.get(ctx, f.URL, header)
	if err != nil {
		return err
	}
	defer response.Body.Close()

	etag := response.Header.Get("ETag")
	if strings.HasPrefix(etag, "W/") {
		etag = "" // a weak validator does not promise the same bytes
	}
	switch response.StatusCode {
	case http.StatusOK: // from the start, asked for or not
		have = 0
	case http.StatusPartialContent:
		var first, last, size int64
		_, err := fmt.Sscanf(response.Header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &size)
		if err != nil || have == 0 || first != have || etag != string(version) {
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
	return appendBody(part, etag, have, total, f.Limit, response.Body, progress)
}

// appendBody writes the body behind the first have bytes of part. However it ends, what part then holds is a true
// beginning of the version named in part.etag.
func appendBody(part, etag string, have, total, limit int64, body io.Reader,
	progress func(done, total int64)) (err error) {
	if have == 0 { // a new version: forget the old bytes before naming it
		if err := discard(part); err != nil {
			return err
		}
		if err := os.WriteFile(part+".etag", []byte(etag), 0o644); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Sync(), f.Close()) }()

	buffer := make([]byte, 1<<17)
	for done := have; ; {
		n, err := body.Read(buffer)
		if done+int64(n) > limit {
			_ = discard(part) // the reason for failing is the size
			return fmt.Errorf("the server sent more than %d bytes", limit)
		}
		if _, err := f.Write(buffer[:n]); err != nil {
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
