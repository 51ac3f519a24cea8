// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"os"

	"github.com/wepe-go/wepe/data"
)

// named is an image of a request, fitted to the model.
type named struct {
	name  string
	image *data.Image
}

// upload is a request's share of the server's limits.
type upload struct {
	s        *Server
	images   []named
	held     int64 // images in flight
	arriving int64 // images that the batcher may wait for
}

func (u *upload) release() {
	u.queued()
	u.s.images.Release(u.held)
}

// queued tells the batcher that all images are in the queue.
func (u *upload) queued() {
	u.s.batcher.arriving.Add(-u.arriving)
	u.arriving = 0
}

// read reads and decodes the images of a request.
func (u *upload) read(r *http.Request) error {
	s := u.s
	reserved := s.options.Bytes
	switch {
	case r.ContentLength > reserved:
		return s.tooLarge()
	case r.ContentLength >= 0:
		reserved = r.ContentLength
	}
	if !s.bytes.TryAcquire(reserved) {
		return busy
	}
	defer s.bytes.Release(reserved)
	kind, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil && r.Header.Get("Content-Type") != "" {
		return failure{http.StatusUnsupportedMediaType, "malformed Content-Type: " + err.Error()}
	}
	body := http.MaxBytesReader(nil, r.Body, s.options.Bytes)
	if kind != "multipart/form-data" {
		raw, err := io.ReadAll(body)
		if err != nil {
			return s.unread(err)
		}
		return u.add(r.Context(), "body", raw)
	}
	if parameters["boundary"] == "" {
		return failure{http.StatusBadRequest, "multipart/form-data without a boundary"}
	}
	return u.form(r.Context(), multipart.NewReader(body, parameters["boundary"]))
}

// form reads an image from each part of a form.
func (u *upload) form(ctx context.Context, parts *multipart.Reader) error {
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) && len(u.images) > 0 {
			return nil
		}
		if err != nil {
			return u.s.unread(err)
		}
		raw, err := io.ReadAll(part)
		if err != nil {
			return u.s.unread(err)
		}
		if err := u.add(ctx, cmp.Or(part.FileName(), part.FormName()), raw); err != nil {
			return err
		}
	}
}

// add decodes an image and fits it to the model.
func (u *upload) add(ctx context.Context, name string, raw []byte) error {
	if len(u.images) == u.s.options.Parts {
		return failure{http.StatusRequestEntityTooLarge,
			fmt.Sprintf("more than %d images: send fewer at once", u.s.options.Parts)}
	}
	if !u.s.images.TryAcquire(1) {
		return busy
	}
	u.held++
	u.arriving++
	u.s.batcher.arriving.Add(1)
	image, err := u.s.decode(ctx, name, raw)
	if err == nil {
		u.images = append(u.images, named{name, image})
	}
	return err
}

var busy = failure{http.StatusTooManyRequests, "too much work in flight: try again in a second"}

func (s *Server) tooLarge() error {
	return failure{http.StatusRequestEntityTooLarge, fmt.Sprintf("more than %d bytes", s.options.Bytes)}
}

// unread converts the error of reading a body into a response.
func (s *Server) unread(err error) error {
	var large *http.MaxBytesError
	var network net.Error
	switch {
	case errors.As(err, &large):
		return s.tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return failure{http.StatusRequestTimeout, fmt.Sprintf("the body did not arrive within %v", s.options.Timeout)}
	}
	return failure{http.StatusBadRequest, "the body ends early or is malformed: " + err.Error()}
}

// decode decodes an image and fits it to the model; few at a time, because a small file may have many pixels.
func (s *Server) decode(ctx context.Context, name string, raw []byte) (*data.Image, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	if s.decoding.Acquire(ctx, 1) != nil {
		return nil, busy
	}
	defer s.decoding.Release(1)
	if s.batcher.between(ctx) != nil {
		return nil, busy
	}
	image, err := data.DecodeLimited(bytes.NewReader(raw), s.options.Pixels)
	if err == nil {
		if image.Clipped {
			s.options.Log.Warn(data.ClippedGrey, "image", name)
		}
		image, err = s.model.Fit(image)
	}
	if err == nil {
		return image, nil
	}
	code := http.StatusUnprocessableEntity
	switch {
	case errors.Is(err, data.ErrFormat):
		code = http.StatusUnsupportedMediaType
	case errors.Is(err, data.ErrPixels):
		code = http.StatusRequestEntityTooLarge
	}
	return nil, failure{code, fmt.Sprintf("%s: %v", name, err)}
}
