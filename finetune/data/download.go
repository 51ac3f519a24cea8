// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// cifar100Remote is the author's own copy; the checksum is the one TensorFlow Datasets and GoMLX hold it to.
var cifar100Remote = remote{
	url:    "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
	sha256: "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
	limit:  256 << 20,
	idle:   30 * time.Second,
}

// DownloadCIFAR100 fetches the official archive (169 MB) into a directory where CIFAR100 then finds it, and returns
// its path. Nothing is fetched when it is there already. A broken transfer is resumed, now or by the next call; what
// is there under the final name has the right checksum. Without a network it fails within seconds. progress, which
// may be nil, is called with the bytes so far and the total, -1 when the server does not say.
func DownloadCIFAR100(ctx context.Context, dir string, progress func(done, total int64)) (string, error) {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	file := filepath.Join(dir, cifarArchive)
	if err := cifar100Remote.fetch(ctx, file, progress); err != nil {
		return "", fmt.Errorf("data: downloading %s: %w", cifar100Remote.url, err)
	}
	return file, nil
}

// remote is a file of known content somewhere else.
type remote struct {
	url, sha256 string
	limit       int64         // refused above this many bytes
	idle        time.Duration // given up after so long without a byte
}

// errStartOver says that what has been received so far is of no use.
var errStartOver = errors.New("the file on the server has changed")

// fetch brings the file to the given path. While it is incomplete it is called path.incomplete, and
// path.incomplete.etag names the version on the server that it is part of.
func (r remote) fetch(ctx context.Context, file string, progress func(done, total int64)) (err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	lock := flock.New(file + ".lock")
	if _, err := lock.TryLockContext(ctx, 200*time.Millisecond); err != nil { // waits for another process
		return fmt.Errorf("lock %s: %w", lock.Path(), err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()

	switch err := r.verify(file); {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: it is another file, move it away", err)
	}
	part := file + ".incomplete"
	client := newClient()
	defer client.CloseIdleConnections()
	for restarted := false; ; {
		before := fileSize(part)
		err := r.transfer(ctx, client, part, progress)
		if err == nil {
			break
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errStartOver) && !restarted:
			restarted = true
			if err := discard(part); err != nil {
				return err
			}
		case fileSize(part) <= before: // no progress: trying again would not help
			return err
		}
	}
	if err := r.verify(part); err != nil {
		_ = discard(part) // the reason for failing is the checksum
		return fmt.Errorf("%w: what was received is removed, try again", err)
	}
	if err := os.Rename(part, file); err != nil {
		return err
	}
	os.Remove(part + ".etag")
	return syncDir(filepath.Dir(file))
}

// transfer makes one request for what is missing of part and appends it.
func (r remote) transfer(ctx context.Context, client *http.Client, part string,
	progress func(done, total int64)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := fmt.Errorf("no data for %v", r.idle)
	watchdog := time.AfterFunc(r.idle, func() { cancel(stalled) })
	defer watchdog.Stop()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept-Encoding", "identity")
	have := int64(0)
	version, _ := os.ReadFile(part + ".etag")
	if len(version) > 0 {
		if have = fileSize(part); have > 0 {
			request.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
			request.Header.Set("If-Range", string(version))
		}
	}
	response, err := client.Do(request)
	if err != nil {
		return oneLine(ctx, err)
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
		if err != nil || first != have || etag != string(version) {
			return errStartOver
		}
	case http.StatusRequestedRangeNotSatisfiable:
		if r.verify(part) == nil { // it was whole: interrupted just before the renaming
			return nil
		}
		return errStartOver
	default:
		return fmt.Errorf("the server answered %s", response.Status)
	}
	total := int64(-1)
	if response.ContentLength >= 0 {
		total = have + response.ContentLength
	}
	if total > r.limit {
		return fmt.Errorf("the server offers %d bytes, want at most %d", total, r.limit)
	}
	return appendBody(ctx, part, etag, have, total, r.limit, response.Body, func(done int64) {
		watchdog.Reset(r.idle)
		progress(done, total)
	})
}

// appendBody writes the body behind the first have bytes of part. However it ends, what part then holds is a true
// beginning of the version named in part.etag.
func appendBody(ctx context.Context, part, etag string, have, total, limit int64, body io.Reader,
	received func(done int64)) (err error) {
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
		if _, err := f.Write(buffer[:n]); err != nil {
			return err
		}
		done += int64(n)
		received(done)
		switch {
		case done > limit:
			_ = discard(part) // the reason for failing is the size
			return fmt.Errorf("the server sent more than %d bytes", limit)
		case err == io.EOF && total >= 0 && done != total:
			return fmt.Errorf("the connection ended after %d of %d bytes", done, total)
		case err == io.EOF:
			return nil
		case err != nil:
			return oneLine(ctx, err)
		}
	}
}

// verify compares a file with the checksum.
func (r remote) verify(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != r.sha256 {
		return fmt.Errorf("%s: sha256 is %s, want %s", file, got, r.sha256)
	}
	return nil
}

// newClient returns a client that cannot hang before the body (the idle watchdog guards that) and stays on https.
func newClient() *http.Client {
	return &http.Client{
		Transport: guard{&http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout:   10 * time.Second,
			ResponseHeaderTimeout: 20 * time.Second,
			DisableCompression:    true,
		}},
	}
}

// guard refuses every request, redirected ones too, that is neither https nor to this machine (for tests).
type guard struct{ *http.Transport }

func (g guard) RoundTrip(request *http.Request) (*http.Response, error) {
	ip := net.ParseIP(request.URL.Hostname())
	if request.URL.Scheme != "https" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("%s is not https", request.URL.Redacted())
	}
	return g.Transport.RoundTrip(request)
}

// oneLine takes the reason out of the wrapping of net/http, which repeats the address.
func oneLine(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	var network net.Error
	if errors.As(err, &network) {
		return fmt.Errorf("%w: is there a network? The file can also be fetched elsewhere and put in place by hand", err)
	}
	return err
}

func fileSize(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}

// discard removes an incomplete file and the name of its version.
func discard(part string) error {
	for _, file := range []string{part, part + ".etag"} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// syncDir makes a renaming in the directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
