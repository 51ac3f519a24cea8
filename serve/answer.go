// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/printable"
)

// failure is an error with its HTTP status.
type failure struct {
	Status  int    `json:"status"`
	Message string `json:"message"`
}

func (f failure) Error() string { return f.Message }

func refuse(status int, format string, args ...any) failure {
	return failure{status, fmt.Sprintf(format, args...)}
}

func malformed(format string, args ...any) failure {
	return refuse(http.StatusBadRequest, format, args...)
}

// write writes a value or an error as JSON, and returns the status.
func write(w http.ResponseWriter, value any, err error) int {
	code := http.StatusOK
	if err != nil {
		f := failure{http.StatusInternalServerError, err.Error()}
		errors.As(err, &f)
		f.Message = printable.Line(f.Message)
		value, code = map[string]failure{"error": f}, f.Status
	}
	body, err := json.Marshal(value)
	if err != nil { // a NaN
		code = http.StatusInternalServerError
		body, _ = json.Marshal(map[string]failure{"error": {code, err.Error()}})
	}
	if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if code == http.StatusRequestTimeout || code == http.StatusRequestEntityTooLarge {
		w.Header().Set("Connection", "close") // the rest of the body is not read
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write(append(printable.JSON(body), '\n')) // the client may have disconnected
	return code
}

// answer is the common part of responses to POST requests.
type answer struct {
	Model        string  `json:"model"`
	Weights      string  `json:"weights"`
	Step         int     `json:"step"`
	Milliseconds float64 `json:"milliseconds"` // from the request's first byte to its response
	Images       any     `json:"images"`       // one for each image, in the order of the request
}

type prediction struct {
	finetune.Prediction
	Neighbours []Neighbour `json:"neighbours,omitempty"`
}

func milliseconds(begin time.Time) float64 {
	return math.Round(float64(time.Since(begin).Microseconds())) / 1000
}

// query returns a request's parameter, the only one that its route has; its name is empty if there is none.
func query(r *http.Request, name string) (string, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return "", failure{http.StatusBadRequest, "malformed query: " + err.Error()}
	}
	for key, all := range values {
		if key != name || len(all) > 1 {
			return "", malformed("%.20q is no parameter, or is there twice: use %s", key, cmp.Or(name, "none"))
		}
	}
	return values.Get(name), nil
}

// uploaded reads the images of a request and computes the response. parse is of upload.read.
func (s *Server) uploaded(w http.ResponseWriter, r *http.Request, parse func(io.Reader) ([]file, error),
	compute func(ctx context.Context, u *upload) ([]any, error)) ([]any, error) {
	if err := s.batcher.enter(); err != nil {
		return nil, err
	}
	defer s.batcher.requests.Done()
	u := &upload{s: s, of: sender(r.RemoteAddr)}
	defer u.release()
	if err := u.read(w, r, parse); err != nil {
		return nil, err
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // or it would cancel the request's context later
	ctx, cancel := context.WithTimeout(r.Context(), s.options.Timeout)
	defer cancel()
	if err := u.decode(ctx); err != nil {
		return nil, err
	}
	if err := s.batcher.ready(ctx); err != nil {
		return nil, err
	}
	return compute(ctx, u)
}

// each computes the images of a request and converts each output.
func (s *Server) each(w http.ResponseWriter, r *http.Request, parse func(io.Reader) ([]file, error),
	entry func(i int, name string, o finetune.Output) (any, error)) ([]any, error) {
	return s.uploaded(w, r, parse, func(ctx context.Context, u *upload) ([]any, error) {
		fitted := make([]*data.Image, len(u.images))
		for i, image := range u.images {
			fitted[i] = image.image
		}
		outputs, err := s.batcher.run(ctx, fitted, u.queued)
		if err != nil {
			return nil, err
		}
		entries := make([]any, len(u.images))
		for i, output := range outputs {
			if entries[i], err = entry(i, u.images[i].name, output); err != nil {
				return nil, err
			}
		}
		return entries, nil
	})
}

// answered wraps the entries of a response.
func (s *Server) answered(begin time.Time, images any, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return answer{s.card.Name, s.card.Weights, s.card.Step, milliseconds(begin), images}, nil
}

// top returns the query parameter, by default 5; there may be fewer classes.
func (s *Server) top(r *http.Request) (int, error) {
	text, err := query(r, "top")
	if err != nil {
		return 0, err
	}
	top := 5
	if text != "" {
		if top, err = strconv.Atoi(text); err != nil || top < 1 {
			return 0, malformed("top=%.20q: use 1 or more", text)
		}
	}
	return min(top, len(s.card.Labels)), nil
}

func (s *Server) predict(w http.ResponseWriter, r *http.Request) (any, error) {
	begin := time.Now()
	if s.card.Unscored != "" {
		return nil, failure{http.StatusNotFound, s.card.Unscored + ": use /v1/embeddings"}
	}
	top, err := s.top(r)
	if err != nil {
		return nil, err
	}
	images, err := s.each(w, r, nil, func(_ int, name string, o finetune.Output) (any, error) {
		p := prediction{Prediction: finetune.Prediction{Name: name, Labels: s.model.TopK(o.Logits, top)}}
		if s.options.Neighbours != nil {
			p.Neighbours = s.options.Neighbours(o.Class, o.Mean, 5)
		}
		return p, nil
	})
	return s.answered(begin, images, err)
}

func (s *Server) attention(w http.ResponseWriter, r *http.Request) (any, error) {
	begin := time.Now()
	if _, err := query(r, ""); err != nil {
		return nil, err
	}
	images, err := s.uploaded(w, r, nil, func(ctx context.Context, u *upload) ([]any, error) {
		u.queued()
		if len(u.images) != 1 {
			return nil, malformed("%d images: send one", len(u.images))
		}
		var weights []float32
		err := s.batcher.alone(ctx, func() (err error) {
			weights, err = s.model.Attention(u.images[0].image)
			return err
		})
		return []any{map[string]any{"name": u.images[0].name, "rows": s.card.Grid[0], "cols": s.card.Grid[1],
			"weights": weights}}, err
	})
	return s.answered(begin, images, err)
}

// wanted are the fields of a request for embeddings, in OpenAI's form.
type wanted struct {
	Input    texts  `json:"input"`
	Model    string `json:"model"` // the served one, or none
	Encoding string `json:"encoding_format"`
	Pool     string `json:"pool"` // our own: "class" or "mean"
	User     string `json:"user"` // not used
}

// texts are a text or a list of them.
type texts struct {
	most int // about as many are read
	all  []string
}

var noInput = malformed("input: use an image as a data URL or in base64, or a list of them")

// UnmarshalJSON implements [json.Unmarshaler]. A body could hold millions of empty texts.
func (t *texts) UnmarshalJSON(raw []byte) error {
	if one := ""; json.Unmarshal(raw, &one) == nil && one != "" {
		t.all = []string{one}
		return nil
	}
	if raw[0] == '[' && bytes.HasPrefix(bytes.TrimSpace(raw[1:]), []byte(`"`)) &&
		bytes.Count(raw, []byte(",")) >= 2*t.most { // a data URL has one, too
		return tooMany(t.most)
	}
	if json.Unmarshal(raw, &t.all) != nil || len(t.all) == 0 {
		return noInput
	}
	return nil
}

// parse reads a request and returns its images. Of the request it keeps only how the features are wanted: its texts may
// be as long as the body, whose memory is given back before the features are computed.
func (q *wanted) parse(body io.Reader, c card) ([]file, error) {
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err := d.Decode(q); errors.As(err, &failure{}) {
		return nil, err
	} else if err != nil {
		return nil, malformed("malformed request: %v: use input, model, encoding_format, pool, user", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, malformed("malformed request: there is more after its JSON")
	}
	if q.Model != "" && q.Model != c.Name {
		return nil, refuse(http.StatusNotFound, "model %q is not served: use %q", q.Model, c.Name)
	}
	if !slices.Contains([]string{"", "float", "base64"}, q.Encoding) {
		return nil, malformed("encoding_format %q: use float or base64", q.Encoding)
	}
	if len(q.Input.all) == 0 {
		return nil, noInput
	}
	files := make([]file, len(q.Input.all))
	for i, input := range q.Input.all {
		files[i].name = fmt.Sprintf("input %d", i)
		if url, found := strings.CutPrefix(input, "data:"); found {
			if _, input, found = strings.Cut(url, ";base64,"); !found {
				return nil, malformed("%s: a data URL without ;base64,", files[i].name)
			}
		}
		var err error
		if files[i].raw, err = base64.StdEncoding.DecodeString(input); err != nil {
			return nil, malformed("%s: not base64 (%v): use a data URL or base64, the server fetches nothing", files[i].name,
				err)
		}
	}
	*q = wanted{Pool: q.Pool, Encoding: q.Encoding}
	return files, q.valid()
}

func (q *wanted) valid() error {
	if !slices.Contains([]string{"", "class", "mean"}, q.Pool) {
		return malformed("pool %q: use class or mean", q.Pool)
	}
	return nil
}

// vector returns the features that a request wants.
func (q *wanted) vector(o finetune.Output) ([]float32, error) {
	vector := o.Class
	if q.Pool == "mean" || q.Pool == "" && vector == nil {
		vector = o.Mean
	}
	if vector == nil {
		pool := cmp.Or(q.Pool, "class")
		return nil, refuse(http.StatusNotFound, "the model has no features of pool %q: an ONNX export has labels only, "+
			"another model may have pool mean", pool)
	}
	return vector, nil
}

func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) (any, error) {
	pool, err := query(r, "pool")
	if err != nil {
		return nil, err
	}
	q := wanted{Pool: pool, Input: texts{most: s.options.Parts}}
	if err := q.valid(); err != nil {
		return nil, err
	}
	parse := func(body io.Reader) ([]file, error) { return q.parse(body, s.card) }
	vectors, err := s.each(w, r, parse, func(i int, _ string, o finetune.Output) (any, error) {
		vector, err := q.vector(o)
		e := map[string]any{"object": "embedding", "index": i, "embedding": vector}
		if q.Encoding == "base64" {
			raw := make([]byte, 0, 4*len(vector)) // the lowest byte of a number first
			for _, v := range vector {
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
			}
			e["embedding"] = raw // encoding/json writes bytes in base64
		}
		return e, err
	})
	if err != nil {
		return nil, err
	}
	patches := len(vectors) * s.card.Grid[0] * s.card.Grid[1]
	return map[string]any{"object": "list", "data": vectors, "model": s.card.Name,
		"usage": map[string]int{"prompt_tokens": patches, "total_tokens": patches}}, nil
}
