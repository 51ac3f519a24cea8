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

// file is an image of a request as received.
type file struct {
	name  string
	raw   []byte
	field bool // of a form, without a file's name
}

// named is an image of a request, fitted to the model.
type named struct {
	name  string
	image *data.Image
}

// upload is a request's share of the server's limits.
type upload struct {
	s        *Server
	files    []file // read, not decoded
	bytes    int64  // held for them
	images   []named
	held     int64 // images in flight
	arriving int64 // images that the batcher may wait for
}

func (u *upload) release() {
	u.queued()
	u.s.images.Release(u.held)
	u.forget()
}

// forget releases the files.
func (u *upload) forget() {
	u.s.bytes.Release(u.bytes)
	u.files, u.bytes = nil, 0
}

// queued tells the batcher that all images are in the queue.
func (u *upload) queued() {
	u.s.batcher.arriving.Add(-u.arriving)
	u.arriving = 0
}

// read reads the files of a request.
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
	u.bytes = reserved
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
		return u.add(file{name: "body", raw: raw})
	}
	if parameters["boundary"] == "" {
		return failure{http.StatusBadRequest, "multipart/form-data without a boundary"}
	}
	return u.form(multipart.NewReader(body, parameters["boundary"]))
}

// form reads a file from each part of a form.
func (u *upload) form(parts *multipart.Reader) error {
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) && len(u.files) > 0 {
			return nil
		}
		if err != nil {
			return u.s.unread(err)
		}
		raw, err := io.ReadAll(part)
		if err != nil {
			return u.s.unread(err)
		}
		if err := u.add(file{cmp.Or(part.FileName(), part.FormName()), raw, part.FileName() == ""}); err != nil {
			return err
		}
	}
}

func (u *upload) add(f file) error {
	if len(u.files) == u.s.options.Parts {
		return failure{http.StatusRequestEntityTooLarge,
			fmt.Sprintf("more than %d images: send fewer at once", u.s.options.Parts)}
	}
	if !u.s.images.TryAcquire(1) {
		return busy
	}
	u.held++
	u.files = append(u.files, f)
	return nil
}

// decode decodes all files and fits the images to the model.
func (u *upload) decode(ctx context.Context) error {
	defer u.forget()
	u.arriving = int64(len(u.files))
	u.s.batcher.arriving.Add(u.arriving)
	for _, f := range u.files {
		image, err := u.s.decode(ctx, f)
		if err != nil {
			return err
		}
		u.images = append(u.images, named{f.name, image})
	}
	return nil
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
func (s *Server) decode(ctx context.Context, f file) (*data.Image, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	if s.decoding.Acquire(ctx, 1) != nil {
		return nil, busy
	}
	defer s.decoding.Release(1)
	if s.batcher.between(ctx) != nil {
		return nil, busy
	}
	image, err := data.Decode(bytes.NewReader(f.raw), s.options.Pixels)
	if err == nil {
		if image.Clipped {
			s.options.Log.Warn(data.ClippedGrey, "image", f.name)
		}
		image, err = s.model.Fit(image)
	}
	if err == nil {
		return image, nil
	}
	code := http.StatusUnprocessableEntity
	switch {
	case errors.Is(err, data.ErrFormat) && f.field:
		return nil, failure{http.StatusUnsupportedMediaType,
			fmt.Sprintf("%s: %v; parameters are in the address, as ?top=3", f.name, err)}
	case errors.Is(err, data.ErrFormat):
		code = http.StatusUnsupportedMediaType
	case errors.Is(err, data.ErrPixels):
		code = http.StatusRequestEntityTooLarge
	}
	return nil, failure{code, fmt.Sprintf("%s: %v", f.name, err)}
}
