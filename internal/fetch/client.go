// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// floor is the number of bytes that must arrive per Client.Idle: a server that sends single bytes would never time out.
const floor = 32 << 10

// Client makes requests with timeouts for every wait.
type Client struct {
	Idle  time.Duration // a body with less than 32 KiB in this time has stalled
	Pause time.Duration // before the first retry, doubled for each further one

	http *http.Client
}

// NewClient returns a client with an Idle of 30 seconds and a Pause of one. It uses https only, except for this
// machine, for mirrors and tests. The token is sent only to the host of origin, wherever redirects lead; without a
// token, origin may be nil.
func NewClient(origin *url.URL, token string) *Client {
	return &Client{Idle: 30 * time.Second, Pause: time.Second, http: &http.Client{
		Transport: transport{origin: origin, token: token, Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout:   10 * time.Second,
			ResponseHeaderTimeout: 20 * time.Second,
			DisableCompression:    true, // sizes and hashes are of the uncompressed content
		}},
	}}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Get returns a small body of at most limit bytes.
func (c *Client) Get(ctx context.Context, address string, limit int64) (raw []byte, err error) {
	err = c.retry(ctx, func() (bool, error) {
		response, err := c.get(ctx, address, 0)
		if err != nil {
			return false, err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return false, &StatusError{response.StatusCode, response.Header}
		}
		raw, err = io.ReadAll(io.LimitReader(response.Body, limit+1))
		if err == nil && int64(len(raw)) > limit {
			err = fmt.Errorf("the server sent more than %d bytes", limit)
		}
		return false, err
	})
	return raw, err
}

// get makes one request for the content after the first have bytes. Reading the response's body fails once it stalls;
// the body must be closed.
func (c *Client) get(ctx context.Context, address string, have int64) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	b := &body{ctx: ctx, cancel: cancel, idle: c.Idle}
	b.watchdog = time.AfterFunc(c.Idle, func() {
		cancel(fmt.Errorf("%w: it received less than %d KiB in %v", errStalled, floor>>10, c.Idle))
	})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		b.stop()
		return nil, err
	}
	request.Header.Set("Accept-Encoding", "identity")
	if have > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	response, err := c.http.Do(request)
	if err != nil {
		err = reason(ctx, err)
		b.stop()
		return nil, err
	}
	b.ReadCloser, response.Body = response.Body, b
	return response, nil
}

// body is the body of a response. Its reads fail if less than floor bytes arrive in idle.
type body struct {
	io.ReadCloser
	ctx      context.Context
	cancel   context.CancelCauseFunc
	watchdog *time.Timer
	idle     time.Duration
	received int // since the watchdog was reset
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.received += n; b.received >= floor {
		b.received = 0
		b.watchdog.Reset(b.idle)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = reason(b.ctx, err)
	}
	return n, err
}

func (b *body) Close() error {
	b.stop()
	return b.ReadCloser.Close()
}

func (b *body) stop() {
	b.watchdog.Stop()
	b.cancel(nil)
}

// transport restricts requests, redirected ones too, to https or this machine, and the token to its origin. A redirect
// from https to this machine's http is refused: a server must not reach local services. It adds the token itself,
// because net/http would send a request header on to other ports and subdomains.
type transport struct {
	*http.Transport
	origin *url.URL
	token  string
}

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	to := request.URL
	left := request.Response != nil && request.Response.Request.URL.Scheme == "https" // the redirecting request
	if to.Scheme != "https" && (left || to.Scheme != "http" || !isLoopback(to.Hostname())) {
		return nil, fmt.Errorf("%s is not https", to.Redacted())
	}
	if t.token != "" && to.Scheme == t.origin.Scheme && strings.EqualFold(to.Host, t.origin.Host) {
		request = request.Clone(request.Context())
		request.Header.Set("Authorization", "Bearer "+t.token)
	}
	return t.Transport.RoundTrip(request)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
