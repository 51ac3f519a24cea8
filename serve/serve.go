// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package serve answers HTTP requests with predictions and features of a model.
//
//	m, err := finetune.Open(b, "runs/scratch-pets")
//	server, err := serve.Handler(ctx, m, serve.Options{})
//	listener, err := net.Listen("tcp", "127.0.0.1:8080")
//	err = server.Serve(listener)
//
// Routes:
//
//	POST /v1/predict    an image, or multipart/form-data with several; ?top=K: labels and probabilities
//	POST /v1/embeddings the same body, or OpenAI's JSON with images as data URLs or in base64; ?pool=mean: features of
//	                    the class token, or of the mean-pooled patch tokens
//	POST /v1/attention  one image: attention of the last block over the patches
//	GET  /v1/models     OpenAI's list of models: the one that is served
//	GET  /v1/model      architecture, weights, labels, preprocessing; ?similarity=true: of positions
//	GET  /healthz       200 while the process runs
//	GET  /readyz        200 from the first compiled program until the server closes, otherwise 503
//	GET  /metrics       Prometheus metrics
//	GET  /openapi.json  OpenAPI 3.0
//	GET  /              a page: drop an image, see label, probabilities and attention
//
// A request that arrives before the first program is compiled waits for it.
//
// Images of concurrent requests are computed together, see [Options.Batch] and Options.BatchTimeout. An image gets the
// same probabilities alone and in a batch, to 1e-5.
//
// Errors are JSON, {"error": {"status": 413, "message": "…"}}:
//
//	400  malformed request                408  the body did not arrive in time
//	401  missing or wrong bearer token    413  too many bytes, pixels or parts
//	403  of another site, without a       415  unsupported image format
//	     token                            422  damaged image
//	404  no such route, or not for this   429  too much work in flight, or of this address
//	     model                            500  a program failed
//	405  another method                   503  closing, or no answer in time
//
// Options.Memory bounds the memory beyond the model's own. A remote address takes at most as much of bodies, images in
// flight and connections as it leaves free for others; decoders take small images beside large ones, and end when the
// client leaves. The command is wepe serve.
package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/printable"
)

// model is the part of a model that a server uses. Batch and Attention may be called concurrently.
type model interface {
	PreprocessImage(image *data.Image) (*data.Image, error) // resizes and crops to the model's input size
	Compile(batch int) error                                // compiles the program of a batch size in advance
	Batch(images []*data.Image) ([]finetune.Output, error)  // of a compiled batch size
	Attention(image *data.Image) ([]float32, error)
	Parallel() (workers int, allCores bool) // batches computed concurrently, and whether one uses all cores
	TopK(logits []float32, top int) []finetune.Class
	Card() card
}

// card describes a model in responses and on the page.
type card struct {
	Name          string              `json:"name"`         // last part of the path or address of the model
	Architecture  string              `json:"architecture"` // as "ViT, depth 12, width 384, heads 6, patch 16"
	Position      string              `json:"position"`     // name of the position encoding
	Weights       string              `json:"weights"`      // "best" or "last" of a run, else empty
	Step          int                 `json:"step"`         // of the weights in their training; 0 if unknown
	Parameters    int                 `json:"parameters"`   // trainable parameters
	Size          [2]int              `json:"size"`         // rows and columns of the input, in pixels
	Grid          [2]int              `json:"grid"`         // rows and columns of patches
	Labels        []string            `json:"labels"`       // by class
	Preprocessing preprocess.Settings `json:"preprocessing"`
	Sigmoid       bool                `json:"sigmoid"`              // multi-label model: independent probabilities
	Unscored      string              `json:"-"`                    // why the model has no probabilities; else empty
	Similarity    [][]int             `json:"similarity,omitempty"` // of positions, 1000·cosine [patches][patches]
	Backend       string              `json:"backend"`              // GoMLX backend
	MaxBatch      int                 `json:"max_batch_size"`       // the largest that compiles, set by the server
}

// Neighbour is a training image similar to the requested image.
type Neighbour struct {
	Name       string  `json:"name"`
	Label      string  `json:"label"`
	Similarity float64 `json:"similarity"` // cosine
}

// Options of a server. The zero value of a field takes the default in parentheses.
type Options struct {
	Batch        int           // maximum number of images computed together (8)
	BatchTimeout time.Duration // how long an image waits for others that are being decoded (50 ms)

	Bytes   int64         // maximum size of a request's body (20 MiB)
	Pixels  int64         // maximum number of pixels of an image (25 million), at most data.MaxPixels
	Parts   int           // maximum number of images of a request (32), and no more than half of Images: an address' share
	Images  int           // maximum number of images in flight, of all requests (256)
	Timeout time.Duration // to receive a body, and again to decode and compute it (20 s); for its start a quarter

	Connections int // maximum number of connections of Server.Serve (4096)

	// Token is the bearer token of /v1 and /metrics, of at least 16 characters. Without one these are answered only if the
	// request names a loopback host and is not of another site: a web page could send it. A handler behind an
	// authentication of its own has a token, and adds it to the request.
	Token string
	Log   *slog.Logger // one line per request at debug level (discards)
	// Neighbours returns the k nearest training images by the class token (nil in a model without one) and the mean-pooled
	// patch tokens of an image. It may be nil.
	Neighbours func(class, mean []float32, k int) []Neighbour
}

func (o Options) withDefaults() Options {
	o.Batch, o.Parts, o.Images = cmp.Or(o.Batch, 8), cmp.Or(o.Parts, 32), cmp.Or(o.Images, 256)
	o.Bytes, o.Pixels = cmp.Or(o.Bytes, 20<<20), cmp.Or(o.Pixels, 25_000_000)
	o.BatchTimeout, o.Timeout = cmp.Or(o.BatchTimeout, 50*time.Millisecond), cmp.Or(o.Timeout, 20*time.Second)
	o.Parts = min(o.Parts, (o.Images+1)/2) // more would always be answered with 429
	o.Connections = cmp.Or(o.Connections, 4096)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// bodies is the number of bodies of maximum size that may be in memory at once.
const bodies = 8

// Memory returns a bound in bytes on the memory of all requests: bodies, images being decoded, and waiting images of
// the given number of input pixels; float is Settings.Float of the preprocessing. The heap may reach twice as much
// before the garbage collector runs.
func (o Options) Memory(inputPixels int, float bool) int64 {
	o = o.withDefaults()
	waiting := int64(3) // bytes per pixel
	if float {
		waiting += 12
	}
	return bodies*o.Bytes + decodeBytes(o.Pixels) + int64(o.Images)*int64(inputPixels)*waiting
}

// Validate reports the first field out of its range.
func (o Options) Validate() error {
	for _, field := range []struct {
		name        string
		value, most int64
	}{{"Batch", int64(o.Batch), 1024}, {"BatchTimeout", int64(o.BatchTimeout), int64(time.Hour)},
		{"Bytes", o.Bytes, 1 << 30}, {"Pixels", o.Pixels, data.MaxPixels}, {"Parts", int64(o.Parts), 1 << 20},
		{"Images", int64(o.Images), 1 << 20}, {"Timeout", int64(o.Timeout), int64(24 * time.Hour)},
		{"Connections", int64(o.Connections), 1 << 20}} {
		if field.value < 0 || field.value > field.most {
			return fmt.Errorf("serve: %s is %d: use 1 to %d, or 0 for the default", field.name, field.value, field.most)
		}
	}
	if n := len(o.Token); n > 0 && n < 16 {
		return fmt.Errorf("serve: Token has %d characters: use at least 16, as from openssl rand -hex 16", n)
	}
	return nil
}

// Server is an [http.Handler].
type Server struct {
	model   model
	card    card
	options Options
	batcher *batcher
	mux     *http.ServeMux
	metrics *metrics

	bytes    *share // of bodies in memory
	images   *share // in flight
	decoding turns
	clipped  sync.Once // of the warning
}

// Handler returns a server of a model. It compiles the model's programs in the background, the smallest batch first;
// /readyz returns 200 once that is compiled. When the context is done, the server finishes requests in flight and
// answers later ones with 503; see [Server.Wait].
func Handler(ctx context.Context, m *finetune.Model, options Options) (*Server, error) {
	served, err := newServed(m)
	if err != nil {
		return nil, err
	}
	return newServer(ctx, served, options)
}

func newServer(ctx context.Context, model model, options Options) (*Server, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	o := options.withDefaults()
	s := &Server{
		model: model, card: model.Card(), options: o, mux: http.NewServeMux(),
		bytes: newShare(bodies * o.Bytes), images: newShare(int64(o.Images)), decoding: newTurns(),
	}
	opened := time.Now().Unix()
	s.batcher = newBatcher(ctx, model, o)
	s.metrics = newMetrics(s.batcher)
	s.batcher.start(o.Batch)
	for pattern, answer := range map[string]func(http.ResponseWriter, *http.Request) (any, error){
		"POST /v1/predict": s.predict, "POST /v1/embeddings": s.embeddings, "POST /v1/attention": s.attention,
		"GET /v1/model": func(_ http.ResponseWriter, r *http.Request) (any, error) {
			card := s.card
			card.MaxBatch = int(s.batcher.largest.Load())
			text, err := query(r, "similarity")
			switch text {
			case "true":
			case "", "false":
				card.Similarity = nil
			default:
				err = malformed("similarity=%.20q: use true or false", text)
			}
			return card, err
		},
		"GET /v1/models": func(_ http.ResponseWriter, r *http.Request) (any, error) {
			_, err := query(r, "")
			return map[string]any{"object": "list", "data": []any{map[string]any{"id": s.card.Name, "object": "model",
				"created": opened, "owned_by": "wepe"}}}, err // OpenAI's list of models
		},
		"GET /healthz": func(http.ResponseWriter, *http.Request) (any, error) {
			return map[string]string{"status": "ok"}, nil
		},
		"GET /readyz": func(http.ResponseWriter, *http.Request) (any, error) {
			return map[string]string{"status": "ready"}, s.batcher.open()
		},
		"/": s.unknown,
	} {
		s.route(pattern, answer)
	}
	s.mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if err := s.admit(w, r); err != nil {
			write(w, nil, err)
			return
		}
		promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	})
	s.mux.HandleFunc("GET /openapi.json", static("application/json", openAPI))
	s.mux.HandleFunc("GET /{$}", static("text/html; charset=utf-8", page))
	return s, nil
}

// unknown answers what no route does: 405 if one does with another method.
func (s *Server) unknown(w http.ResponseWriter, r *http.Request) (any, error) {
	what := printable.Name(r.Method + " " + r.URL.Path)
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		other := &http.Request{Method: method, Host: r.Host, URL: r.URL}
		if _, pattern := s.mux.Handler(other); strings.HasPrefix(pattern, method) {
			if method == http.MethodGet {
				method = "GET, HEAD"
			}
			w.Header().Set("Allow", method)
			return nil, failure{http.StatusMethodNotAllowed, what + ": use " + method}
		}
	}
	return nil, failure{http.StatusNotFound, what + " is not served: see /openapi.json"}
}

// Serve accepts connections until the context of Handler is done and the requests in flight are answered, or until the
// model does not compile. It bounds connections and the time of headers, which a server of another handler would not.
func (s *Server) Serve(listener net.Listener) error {
	server := &http.Server{Handler: s, ReadHeaderTimeout: s.options.Timeout / 4, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 1 << 16, ErrorLog: slog.NewLogLogger(s.options.Log.Handler(), slog.LevelDebug)}
	failed, ended := make(chan error, 1), make(chan error, 1)
	go func() { failed <- server.Serve(limited{listener, newShare(int64(s.options.Connections))}) }()
	go func() { ended <- s.Wait() }()
	var err error
	select {
	case err := <-failed:
		return err
	case err = <-ended:
	}
	patience, cancel := context.WithTimeout(context.Background(), 2*s.options.Timeout)
	defer cancel()
	return errors.Join(err, server.Shutdown(patience))
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	control, deadline := http.NewResponseController(w), time.Now().Add(s.options.Timeout)
	_ = control.SetReadDeadline(deadline)  // of a body that no route reads, too
	_ = control.SetWriteDeadline(deadline) // route sets a later one
	s.mux.ServeHTTP(w, r)
}

// Wait returns once the context of Handler is done and every started batch is computed. It returns the error of a
// failed compilation, which also ends the server.
func (s *Server) Wait() error { return s.batcher.wait() }

// Ready is closed when the first program is compiled, or when the server fails or ends before that.
func (s *Server) Ready() <-chan struct{} { return s.batcher.compiled }

// route handles a pattern with a function whose result is written as JSON; those of /v1 are of the token.
func (s *Server) route(pattern string, answer func(http.ResponseWriter, *http.Request) (any, error)) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		var value any
		var err error
		if strings.Contains(pattern, " /v1/") {
			err = s.admit(w, r)
		}
		if err == nil {
			value, err = answer(w, r)
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.options.Timeout))
		code := write(w, value, err)
		s.metrics.requests.WithLabelValues(pattern, strconv.Itoa(code)).Inc()
		s.metrics.seconds.WithLabelValues(pattern).Observe(time.Since(begin).Seconds())
		level := slog.LevelDebug
		if code == http.StatusInternalServerError {
			level = slog.LevelError
		}
		s.options.Log.Log(r.Context(), level, "request", "route", pattern, "status", code,
			"milliseconds", milliseconds(begin), "error", err)
	})
}

// admit refuses a request without the token or, if the server has none, one that a web page could have sent.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) error {
	if s.options.Token == "" {
		return local(r)
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(s.options.Token)) // of equal length, for constant time
	if strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
		return nil
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	return failure{http.StatusUnauthorized, "send the server's token as Authorization: Bearer …"}
}

// local refuses requests that name another host, which a page reaches by pointing its name at this machine, and those
// of pages of other sites.
func local(r *http.Request) error {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	address, _ := netip.ParseAddr(strings.Trim(host, "[]"))
	if !strings.EqualFold(host, "localhost") && !address.IsLoopback() {
		return refuse(http.StatusForbidden, "host %.40q: without a token the server answers on localhost", host)
	}
	site := r.Header.Get("Sec-Fetch-Site")
	if site == "cross-site" || site == "same-site" || new(http.CrossOriginProtection).Check(r) != nil {
		return failure{http.StatusForbidden, "a page of another site: without a token the server answers its own page"}
	}
	return nil
}

//go:embed openapi.json
var openAPI []byte

//go:embed page.html
var page []byte

func static(kind string, content []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Security-Policy",
			"default-src 'none'; img-src 'self' blob: data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "+
				"connect-src 'self'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(content) // the client may have disconnected
	}
}

var errClosed = errors.New("the server is closing")

// metrics of a server, in its own registry: a process may have several servers.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newMetrics(b *batcher) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "wepe_requests_total",
			Help: "Requests by route and status."}, []string{"route", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "wepe_request_seconds",
			Help: "Time of requests by route.", Buckets: prometheus.ExponentialBuckets(.001, 2, 15)}, []string{"route"}),
	}
	images := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "wepe_batch_images",
		Help: "Images of requests in a computed batch.", Buckets: prometheus.ExponentialBuckets(1, 2, 8)})
	compute := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "wepe_batch_seconds",
		Help: "Time to compute a batch.", Buckets: prometheus.ExponentialBuckets(.001, 2, 15)})
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "wepe_queue_images",
		Help: "Images that wait for a batch."}, func() float64 { return float64(len(b.queue)) })
	b.observe = func(n int, seconds float64) {
		images.Observe(float64(n))
		compute.Observe(seconds)
	}
	m.registry.MustRegister(m.requests, m.seconds, images, compute, waiting, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}
