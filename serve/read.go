// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/printable"
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
	of       netip.Prefix
	files    []file // read, not decoded
	bytes    int64  // held for them
	images   []named
	held     int64 // images in flight
	arriving int64 // images that the batcher may wait for
}

func (u *upload) release() {
	u.queued()
	u.s.images.give(u.of, u.held)
	u.forget()
}

// forget releases the files.
func (u *upload) forget() {
	_ = u.hold(0) // less
	u.files = nil
}

// hold changes the bytes of memory that the request holds.
func (u *upload) hold(bytes int64) error {
	more := bytes - u.bytes
	if more > 0 && !u.s.bytes.take(u.of, more) {
		return busy
	}
	if more < 0 {
		u.s.bytes.give(u.of, -more)
	}
	u.bytes = bytes
	return nil
}

// queued tells the batcher that all images are in the queue.
func (u *upload) queued() {
	u.s.batcher.settle(u.arriving)
	u.arriving = 0
}

// leastRate is how fast a body arrives after the first quarter of Options.Timeout, in bytes per second.
const leastRate = 16 << 10

// arriving is a body with a deadline for its next byte.
type arriving struct {
	body    io.Reader
	control *http.ResponseController
	begin   time.Time
	timeout time.Duration
	bytes   int64
}

func (a *arriving) Read(p []byte) (int, error) {
	patience := a.timeout/4 + time.Duration(a.bytes)*time.Second/leastRate
	_ = a.control.SetReadDeadline(a.begin.Add(min(a.timeout, patience))) // a test's recorder has none
	n, err := a.body.Read(p)
	a.bytes += int64(n)
	return n, err
}

// read reads the files of a request, and its body to the end: net/http waits for the rest without a deadline. parse
// returns the files of a body of JSON; it may be nil.
func (u *upload) read(w http.ResponseWriter, r *http.Request, parse func(io.Reader) ([]file, error)) error {
	s := u.s
	if r.ContentLength > s.options.Bytes {
		return s.tooLarge()
	}
	kind, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil && r.Header.Get("Content-Type") != "" {
		return failure{http.StatusUnsupportedMediaType, "malformed Content-Type: " + err.Error()}
	}
	body := &arriving{body: http.MaxBytesReader(nil, r.Body, s.options.Bytes), control: http.NewResponseController(w),
		begin: time.Now(), timeout: s.options.Timeout}
	if kind == "multipart/form-data" {
		if parameters["boundary"] == "" {
			return failure{http.StatusBadRequest, "multipart/form-data without a boundary"}
		}
		return u.form(body, parameters["boundary"])
	}
	if kind != "application/json" || parse == nil {
		raw, err := u.all(body)
		if err != nil {
			return err
		}
		if parse != nil && bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
			return failure{http.StatusUnsupportedMediaType, "body: JSON, but without Content-Type: application/json"}
		}
		return u.add(file{name: "body", raw: raw})
	}
	in := &holding{u: u, body: body}
	files, err := parse(in)
	if in.err != nil {
		return in.err
	}
	for _, f := range files {
		if err == nil {
			err = u.add(f)
		}
	}
	return err
}

// holding is a body of JSON. Of each byte there are at most four in memory: two in the decoder's buffer, one in a text,
// and one in the file, or in the buffer that a larger one replaces.
type holding struct {
	u    *upload
	body io.Reader
	read int64
	err  error // of reading; a decoder's own errors are others
}

func (h *holding) Read(p []byte) (int, error) {
	n, err := h.body.Read(p)
	h.read += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		h.err = h.u.s.unread(err)
	} else if held := h.u.hold(4 * h.read); held != nil {
		h.err, err = held, held
	}
	return n, err
}

// all reads a file. Its memory is held as it grows, with that which it replaces.
func (u *upload) all(r io.Reader) ([]byte, error) {
	var raw []byte
	before := u.bytes
	for size := 4 << 10; ; size *= 2 {
		if err := u.hold(before + int64(cap(raw)+size)); err != nil {
			return nil, err
		}
		raw = append(make([]byte, 0, size), raw...)
		_ = u.hold(before + int64(size)) // less than before
		for len(raw) < size {
			n, err := r.Read(raw[len(raw):size])
			raw = raw[:len(raw)+n]
			if errors.Is(err, io.EOF) {
				return raw, nil
			}
			if err != nil {
				return nil, u.s.unread(err)
			}
		}
	}
}

// bounded ends with an error after as many bytes.
type bounded struct {
	io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, fmt.Errorf("the header of a part has more than %d bytes", partHeader)
	}
	n, err := b.Reader.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// partHeader bounds the header of a part, whose memory is not counted, in bytes.
const partHeader = 16 << 10

// form reads a file from each part of a form.
func (u *upload) form(body io.Reader, boundary string) error {
	in := &bounded{Reader: body}
	parts := multipart.NewReader(in, boundary)
	for {
		in.left = partHeader
		part, err := parts.NextPart()
		in.left = math.MaxInt
		if errors.Is(err, io.EOF) && len(u.files) > 0 {
			if _, err := io.Copy(io.Discard, body); err != nil {
				return u.s.unread(err)
			}
			return nil
		}
		if err != nil {
			return u.s.unread(err)
		}
		raw, err := u.all(part)
		if err != nil {
			return err
		}
		name := printable.Name(cmp.Or(part.FileName(), part.FormName()))
		if err := u.add(file{name, raw, part.FileName() == ""}); err != nil {
			return err
		}
	}
}

func (u *upload) add(f file) error {
	if len(u.files) == u.s.options.Parts {
		return tooMany(u.s.options.Parts)
	}
	if !u.s.images.take(u.of, 1) {
		return busy
	}
	u.held++
	u.files = append(u.files, f)
	return nil
}

// decode decodes all files and fits the images to the model.
func (u *upload) decode(ctx context.Context) error {
	defer u.forget()
	headers, small := make([]data.Encoded, len(u.files)), int64(0)
	for i, f := range u.files {
		header, err := data.Identify(f.raw, u.s.options.Pixels)
		if err != nil {
			return f.failed(err)
		}
		if header.Pixels <= smallPixels { // a batch does not wait for large ones
			small++
		}
		headers[i] = header
	}
	u.arriving = small
	u.s.batcher.arriving.Add(small)
	for i, f := range u.files {
		image, err := u.s.decode(ctx, f, headers[i])
		if err != nil {
			return err
		}
		u.images = append(u.images, named{f.name, image})
	}
	return nil
}

var busy = failure{http.StatusTooManyRequests, "too much work in flight: try again in a second"}

func tooMany(parts int) error {
	return refuse(http.StatusRequestEntityTooLarge, "more than %d images: send fewer at once", parts)
}

func (s *Server) tooLarge() error {
	return refuse(http.StatusRequestEntityTooLarge, "more than %d bytes", s.options.Bytes)
}

// unread converts the error of reading a body into a response.
func (s *Server) unread(err error) error {
	var large *http.MaxBytesError
	var network net.Error
	switch {
	case errors.As(err, &large):
		return s.tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return refuse(http.StatusRequestTimeout, "the body did not arrive within %v, or was slower than %d "+
			"bytes a second after the first quarter", s.options.Timeout, leastRate)
	}
	return failure{http.StatusBadRequest, "the body ends early or is malformed: " + err.Error()}
}

// decode decodes an image in its turn and fits it to the model. It ends when the client leaves, or when the request's
// time is over. A large image is decoded in the pauses between batches that use all cores.
func (s *Server) decode(ctx context.Context, f file, header data.Encoded) (*data.Image, error) {
	end, err := s.decoding.wait(ctx, header.Pixels)
	if err != nil {
		return nil, late
	}
	defer end()
	if s.batcher.between(ctx) != nil {
		return nil, late
	}
	image, err := header.Decode(func() error {
		if header.Pixels > smallPixels {
			return s.batcher.between(ctx)
		}
		return ctx.Err()
	})
	if ctx.Err() != nil {
		return nil, late
	}
	if err == nil {
		image, err = s.fitted(image, max(header.Pixels, smallPixels, 4*int64(s.card.Size[0]*s.card.Size[1])))
	}
	if err != nil {
		return nil, f.failed(err)
	}
	if image.Clipped {
		s.clipped.Do(func() { s.options.Log.Warn(data.ClippedGrey, "image", f.name) })
	}
	return image, nil
}

// fitted fits an image to the model. A long narrow one may become very large before it has the model's size.
func (s *Server) fitted(image *data.Image, most int64) (*data.Image, error) {
	settings := s.card.Preprocessing
	if _, _, varies := settings.OutputSize(); varies != nil {
		height, width := settings.Resized(image.Height, image.Width)
		if int64(height)*int64(width) > most {
			return nil, fmt.Errorf("%w: %d×%d pixels become %d×%d: cut it", data.ErrPixels, image.Width, image.Height, width,
				height)
		}
	}
	return s.model.PreprocessImage(image)
}

// failed is the response to a file that is not decoded.
func (f file) failed(err error) error {
	code := http.StatusUnprocessableEntity
	switch {
	case errors.Is(err, data.ErrFormat) && f.field:
		return refuse(http.StatusUnsupportedMediaType, "%s: %v; parameters are in the address, as ?top=3", f.name, err)
	case errors.Is(err, data.ErrFormat):
		code = http.StatusUnsupportedMediaType
	case errors.Is(err, data.ErrPixels):
		code = http.StatusRequestEntityTooLarge
	}
	return refuse(code, "%s: %v", f.name, err)
}
