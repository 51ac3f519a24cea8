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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var (
	errStartOver = errors.New("the file on the server has changed") // received bytes are useless
	errStalled   = errors.New("the transfer stalled")
)

// NetworkError is a failure on the way to the server or back, as opposed to an error response.
type NetworkError struct{ Err error }

func (e *NetworkError) Error() string {
	if e.unreachable() {
		return e.Err.Error() + ": is there a network?"
	}
	return e.Err.Error()
}

func (e *NetworkError) Unwrap() error { return e.Err }

// unreachable reports that no connection was made. It is not retried, so that a user without a network does not wait.
func (e *NetworkError) unreachable() bool {
	var operation *net.OpError
	var lookup *net.DNSError
	return errors.As(e.Err, &lookup) ||
		errors.As(e.Err, &operation) && (operation.Op == "dial" || operation.Op == "proxyconnect")
}

// StatusError is an unexpected response of the server.
type StatusError struct {
	Code   int
	Header http.Header
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("the server answered %d %s", e.Code, http.StatusText(e.Code))
}

// Passing reports whether the same request may succeed later: the server is busy or broken.
func (e *StatusError) Passing() bool {
	return slices.Contains([]int{http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, e.Code)
}

// reason removes the wrapping of net/http, which repeats the address.
func reason(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errStalled) {
		return &NetworkError{context.Cause(ctx)}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return &NetworkError{errors.New("the connection closed before the end of the file")}
	}
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return &NetworkError{err}
	}
	return err
}

const (
	retries     = 4           // consecutive failures without new bytes
	maxRequests = 200         // of one call, even if each brings new bytes
	maxWait     = time.Minute // maximum delay that a server may request
)

// retry calls try until it succeeds, fails permanently, or has failed too often in succession without new bytes; more
// reports new bytes.
func (c *Client) retry(ctx context.Context, try func() (more bool, err error)) error {
	failures := 0
	for requests := 1; ; requests++ {
		more, err := try()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if more {
			failures = 0
		} else {
			failures++
		}
		asked, passing := isPassing(err)
		switch {
		case !passing || failures > retries || requests == maxRequests:
			return err
		case asked > maxWait:
			return fmt.Errorf("%w and requests a pause of %v", err, asked.Round(time.Second))
		case more:
			continue
		}
		select {
		case <-time.After(max(asked, c.Pause<<(failures-1))):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// isPassing reports whether a retry may succeed, and the delay that the server requests.
func isPassing(err error) (asked time.Duration, passing bool) {
	var network *NetworkError
	if errors.As(err, &network) {
		return 0, !network.unreachable()
	}
	var status *StatusError
	if errors.As(err, &status) {
		return max(retryAfter(status.Header.Get("Retry-After")), rateLimit(status.Header.Get("RateLimit"))), status.Passing()
	}
	return 0, errors.Is(err, errStartOver)
}

// rateLimit parses the header RateLimit of an exhausted limit, as "api";r=0;t=55: the hub sends no Retry-After
// (https://huggingface.co/docs/hub/rate-limits).
func rateLimit(value string) time.Duration {
	_, seconds, _ := strings.Cut(value, ";r=0;t=")
	return retryAfter(seconds)
}

// retryAfter parses the header Retry-After: seconds or a date.
func retryAfter(value string) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(value); err == nil {
		return time.Until(date)
	}
	return 0
}
