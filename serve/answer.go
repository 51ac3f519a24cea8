// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
)

// failure is an error with its HTTP status.
type failure struct {
	Status  int    `json:"status"`
	Message string `json:"message"`
}

func (f failure) Error() string { return f.Message }

// write writes a value or an error as JSON, and returns the status.
func write(w http.ResponseWriter, value any, err error) int {
	code := http.StatusOK
	if err != nil {
		f := failure{http.StatusInternalServerError, err.Error()}
		errors.As(err, &f)
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
	_, _ = w.Write(append(body, '\n')) // the client may have disconnected
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
	Name       string           `json:"name"`
	Labels     []finetune.Class `json:"labels"` // the most probable first
	Neighbours []Neighbour      `json:"neighbours,omitempty"`
}

type features struct {
	Name  string    `json:"name"`
	Class []float32 `json:"class,omitempty"` // [width]
	Mean  []float32 `json:"mean"`            // [width]
}

type attention struct {
	Name    string    `json:"name"`
	Rows    int       `json:"rows"`
	Cols    int       `json:"cols"`
	Weights []float32 `json:"weights"` // [rows, cols], they sum to at most 1
}

func milliseconds(begin time.Time) float64 {
	return math.Round(float64(time.Since(begin).Microseconds())) / 1000
}

// uploaded reads the images of a request and writes the response.
func (s *Server) uploaded(w http.ResponseWriter, r *http.Request,
	entries func(ctx context.Context, u *upload) (any, error)) (any, error) {
	begin := time.Now()
	for name := range r.URL.Query() {
		if name != "top" {
			return nil, failure{http.StatusBadRequest, fmt.Sprintf("%.20q is no parameter: see /openapi.json", name)}
		}
	}
	if err := s.batcher.enter(); err != nil {
		return nil, err
	}
	defer s.batcher.leave()
	u := &upload{s: s}
	defer u.release()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(begin.Add(s.options.Timeout)) // a test's recorder has none
	if err := u.read(r); err != nil {
		return nil, err
	}
	_ = control.SetReadDeadline(time.Time{}) // or it would cancel the request's context later
	if err := u.decode(r.Context()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.options.Timeout)
	defer cancel()
	images, err := entries(ctx, u)
	if err != nil {
		return nil, err
	}
	return answer{s.card.Name, s.card.Weights, s.card.Step, milliseconds(begin), images}, nil
}

// each computes the images of a request and converts each output.
func each[T any](s *Server, w http.ResponseWriter, r *http.Request, entry func(named, finetune.Inferred) (T, error)) (
	any, error) {
	return s.uploaded(w, r, func(ctx context.Context, u *upload) (any, error) {
		fitted := make([]*data.Image, len(u.images))
		for i, image := range u.images {
			fitted[i] = image.image
		}
		outputs, err := s.batcher.run(ctx, fitted, u.queued)
		if err != nil {
			return nil, err
		}
		entries := make([]T, len(u.images))
		for i, output := range outputs {
			if entries[i], err = entry(u.images[i], output); err != nil {
				return nil, err
			}
		}
		return entries, nil
	})
}

// top returns the query parameter, by default 5.
func (s *Server) top(r *http.Request) (int, error) {
	classes := len(s.card.Labels)
	text := r.URL.Query().Get("top")
	if text == "" {
		return min(5, classes), nil
	}
	top, err := strconv.Atoi(text)
	if err != nil || top < 1 {
		return 0, failure{http.StatusBadRequest, fmt.Sprintf("top=%.20s: use a number from 1 to %d", text, classes)}
	}
	return min(top, classes), nil
}

func (s *Server) predict(w http.ResponseWriter, r *http.Request) (any, error) {
	top, err := s.top(r)
	if err != nil {
		return nil, err
	}
	return each(s, w, r, func(n named, o finetune.Inferred) (prediction, error) {
		p := prediction{Name: n.name, Labels: s.model.Likeliest(o.Logits, top)}
		if s.options.Neighbours != nil {
			p.Neighbours = s.options.Neighbours(o.Class, o.Mean, 5)
		}
		return p, nil
	})
}

func (s *Server) embed(w http.ResponseWriter, r *http.Request) (any, error) {
	return each(s, w, r, func(n named, o finetune.Inferred) (features, error) {
		if o.Mean == nil {
			return features{}, failure{http.StatusNotFound, "the architecture of the model has no features to return"}
		}
		return features{n.name, o.Class, o.Mean}, nil
	})
}

func (s *Server) attention(w http.ResponseWriter, r *http.Request) (any, error) {
	return s.uploaded(w, r, func(ctx context.Context, u *upload) (any, error) {
		u.queued()
		if len(u.images) != 1 {
			return nil, failure{http.StatusBadRequest, fmt.Sprintf("%d images: send one", len(u.images))}
		}
		var weights []float32
		err := s.batcher.alone(ctx, func() (err error) {
			weights, err = s.model.Attention(u.images[0].image)
			return err
		})
		if err != nil {
			return nil, err
		}
		return []attention{{u.images[0].name, s.card.Grid[0], s.card.Grid[1], weights}}, nil
	})
}
