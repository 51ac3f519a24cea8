// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"io"
	"log/slog"
	"math"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
)

// fake is a model whose logits are the mean red, green and blue of an image. gate controls how long its programs take.
type fake struct {
	gate     chan struct{} // each Run takes one; nil: no wait
	allCores bool
	compile  func(batch int) error
	output   func(mean []float32) finetune.Output // nil: logits and features are the mean
	mu       sync.Mutex
	batches  []int
	begun    atomic.Int64 // calls of Run

	attending atomic.Int64 // calls of Attention that have not returned

	fitting, looking time.Duration // of an image, by PreprocessImage and Attention
}

func (f *fake) PreprocessImage(image *data.Image) (*data.Image, error) {
	time.Sleep(f.fitting)
	return image, nil
}

func (f *fake) Compile(batch int) error {
	if f.compile != nil {
		return f.compile(batch)
	}
	return nil
}

func (f *fake) Batch(images []*data.Image) ([]finetune.Output, error) {
	f.begun.Add(1)
	if f.gate != nil {
		<-f.gate
	}
	f.mu.Lock()
	f.batches = append(f.batches, len(images))
	f.mu.Unlock()
	outputs := make([]finetune.Output, len(images))
	for i, image := range images {
		if image.Height == 13 {
			return nil, errors.New("no images of 13 rows")
		}
		mean := make([]float32, 3)
		for k, v := range image.Pixels {
			mean[k%3] += float32(v) / float32(len(image.Pixels)/3)
		}
		if outputs[i] = (finetune.Output{Logits: mean, Mean: mean}); f.output != nil {
			outputs[i] = f.output(mean)
		}
	}
	return outputs, nil
}

func (f *fake) Attention(*data.Image) ([]float32, error) {
	if f.attending.Add(1) > 1 {
		return nil, errors.New("two at once")
	}
	defer f.attending.Add(-1)
	time.Sleep(f.looking)
	return []float32{.25, .5, .125, .0625, .0625, 0}, nil
}

func (f *fake) TopK(logits []float32, top int) []finetune.Class {
	return (&finetune.Model{Classes: f.Card().Labels}).TopK(logits, top)
}

func (f *fake) Parallel() (int, bool) { return 1, f.allCores }

func (f *fake) Card() card {
	return card{Name: "fake", Weights: "best", Step: 17, Size: [2]int{5, 7}, Grid: [2]int{2, 3},
		Labels: []string{"red", "green", "blue"}}
}

// start serves a model until the test ends.
func start(t testing.TB, model model, o Options) (*Server, string, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := gomlxtest.Must(newServer(ctx, model, o))(t)
	server := httptest.NewServer(s)
	t.Cleanup(func() { cancel(); server.Close() })
	<-s.Ready()
	return s, server.URL, cancel
}

// until waits for a condition.
func until(holds func() bool) {
	for !holds() {
		time.Sleep(time.Millisecond)
	}
}

// untouched tests that requests have given back what they took.
func untouched(t testing.TB, s *Server) {
	t.Helper()
	if s.bytes.free != bodies*s.options.Bytes || s.images.free != int64(s.options.Images) ||
		len(s.images.held)+len(s.bytes.held) > 0 || s.batcher.arriving.Load() != 0 {
		t.Errorf("%d bytes and %d images are free, %d are arriving", s.bytes.free, s.images.free, s.batcher.arriving.Load())
	}
}

// pixels is a PNG file of one colour.
func pixels(rows, cols int, c color.Color) []byte {
	img := image.NewRGBA(image.Rect(0, 0, cols, rows))
	for i := range rows * cols {
		img.Set(i%cols, i/cols, c)
	}
	return datatest.PNG(img)
}

// dot is a small red image.
var dot = pixels(3, 5, red)

const secret = "a token of enough characters"

var red, blue = color.RGBA{5, 2, 1, 255}, color.RGBA{1, 2, 6, 255}

// ask sends a request, with pairs of a header and its value, and returns the response with its body.
func ask(t testing.TB, method, url string, body io.Reader, headers ...string) (*http.Response, []byte) {
	t.Helper()
	r := gomlxtest.Must(http.NewRequest(method, url, body))(t)
	for pair := range slices.Chunk(headers, 2) {
		if r.Header.Set(pair[0], pair[1]); pair[0] == "Host" {
			r.Host = pair[1]
		}
	}
	response := gomlxtest.Must(http.DefaultClient.Do(r))(t)
	defer response.Body.Close()
	return response, gomlxtest.Must(io.ReadAll(response.Body))(t)
}

// post returns the status and the decoded JSON of an answer.
func post(t testing.TB, url, kind string, body []byte) (int, map[string]any) {
	t.Helper()
	response, raw := ask(t, "POST", url, bytes.NewReader(body), "Content-Type", kind)
	code, value := response.StatusCode, map[string]any{}
	if err := json.Unmarshal(raw, &value); err != nil || response.Header.Get("Content-Type") != "application/json" ||
		(response.Header.Get("Retry-After") == "1") != (code == 429 || code == 503) {
		t.Fatalf("%s: status %d, %v, %v", url, code, response.Header, err)
	}
	return code, value
}

// answered posts and tests the status of the answer.
func answered(t testing.TB, url, kind string, body []byte, want ...int) map[string]any {
	t.Helper()
	code, got := post(t, url, kind, body)
	if !slices.Contains(want, code) {
		t.Errorf("%s: status %d, %v, want %d", url, code, got, want)
	}
	return got
}

// predict posts the small red image.
func predict(t testing.TB, url string, want int) map[string]any {
	t.Helper()
	return answered(t, url+"/v1/predict", "", dot, want)
}

// near fails the test unless a number of an answer differs by at most a tolerance.
func near(t testing.TB, what string, got any, want, tolerance float64) {
	t.Helper()
	is.Near(t, what, got.(float64), want, tolerance)
}

// form is a multipart body with a file for each image.
func form(images ...[]byte) (kind string, body []byte) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i, raw := range images {
		part, _ := w.CreateFormFile("image", fmt.Sprintf("%d.png", i)) // a buffer has no errors
		_, _ = part.Write(raw)
	}
	_ = w.Close()
	return w.FormDataContentType(), b.Bytes()
}

func images(t testing.TB, answer map[string]any) (entries []map[string]any) {
	t.Helper()
	list, _ := answer["images"].([]any)
	for _, entry := range list {
		entries = append(entries, entry.(map[string]any))
	}
	if len(entries) == 0 {
		t.Fatalf("no images in %v", answer)
	}
	return entries
}

// first is the best label of an image.
func first(entry map[string]any) map[string]any { return entry["labels"].([]any)[0].(map[string]any) }

func TestServe_AnswersEachImageInItsOrder(t *testing.T) {
	_, url, _ := start(t, &fake{}, Options{Neighbours: func(class, mean []float32, k int) []Neighbour {
		return []Neighbour{{Name: fmt.Sprint(class, mean, k)}}
	}})
	got := answered(t, url+"/v1/predict?top=2", "image/png", dot, 200)
	entry := images(t, got)[0]
	want := math.Exp(5) / (math.Exp(5) + math.Exp(2) + math.Exp(1)) // softmax of 5, 2, 1
	is.Equal(t, "best label", first(entry)["label"], any("red"))
	near(t, "best label", first(entry)["probability"], want, 1e-12)
	is.Equal(t, "labels", len(entry["labels"].([]any)), 2)
	is.Equal(t, "weights", []any{got["model"], got["weights"], got["step"]}, []any{"fake", "best", 17.0})
	is.Equal(t, "neighbours", fmt.Sprint(entry["neighbours"]), "[map[label: name:[] [5 2 1] 5 similarity:0]]")
	kind, body := form(dot, pixels(5, 3, blue), pixels(2, 2, red))
	entries := images(t, answered(t, url+"/v1/predict", kind, body, 200))
	for i, want := range []any{"red", "blue", "red"} {
		is.Equal(t, "label", first(entries[i])["label"], want)
		is.Equal(t, "name", entries[i]["name"], any(fmt.Sprintf("%d.png", i)))
	}
}

// vectors are the embeddings of a response, numbers or base64.
func vectors(t testing.TB, answer map[string]any) (all [][]float64) {
	t.Helper()
	list, _ := answer["data"].([]any)
	for _, entry := range list {
		var vector []float64
		switch e := entry.(map[string]any)["embedding"].(type) {
		case []any:
			for _, v := range e {
				vector = append(vector, v.(float64))
			}
		case string:
			for raw := range slices.Chunk(gomlxtest.Must(base64.StdEncoding.DecodeString(e))(t), 4) {
				vector = append(vector, float64(math.Float32frombits(binary.LittleEndian.Uint32(raw))))
			}
		}
		all = append(all, vector)
	}
	if len(all) == 0 {
		t.Fatalf("no data in %v", answer)
	}
	return all
}

func TestBatcher_ComputesImagesTogetherInCompiledSizes(t *testing.T) {
	model := &fake{gate: make(chan struct{}, 100)}
	s, url, _ := start(t, model, Options{Batch: 20})
	until(func() bool { return len(*s.batcher.sizes.Load()) == 10 })
	is.Equal(t, "compiled", *s.batcher.sizes.Load(), []int{1, 2, 3, 4, 5, 6, 7, 8, 16, 20})
	var done sync.WaitGroup
	ask := func(i int) {
		done.Go(func() {
			image, want := dot, "red"
			if i%2 == 1 {
				image, want = pixels(3, 5, blue), "blue"
			}
			entry := images(t, answered(t, url+"/v1/predict?top=1", "", image, 200))[0]
			is.Equal(t, fmt.Sprint("request ", i), first(entry)["label"], any(want))
		})
	}
	ask(0)
	until(func() bool { return model.begun.Load() > 0 })
	for i := range 13 {
		ask(i)
	}
	until(func() bool { return len(s.batcher.queue) == 13 })
	for range 9 {
		model.gate <- struct{}{}
	}
	done.Wait()
	is.Equal(t, "batches, without an image that fills one", model.batches, []int{1, 8, 5})
}

func TestBatcher_NoImageIsDecodedWhileABatchTakesAllCores(t *testing.T) {
	for _, all := range []bool{false, true} {
		model := &fake{gate: make(chan struct{}), allCores: all}
		s, url, _ := start(t, model, Options{})
		var done sync.WaitGroup
		done.Go(func() { predict(t, url, 200) })
		until(func() bool { return model.begun.Load() > 0 })
		done.Go(func() { predict(t, url, 200) })
		until(func() bool { return all || len(s.batcher.queue) > 0 }) // decoded during the batch
		time.Sleep(50 * time.Millisecond)
		is.Equal(t, "images are decoded during a batch that takes all cores", all && len(s.batcher.queue) > 0, false)
		close(model.gate)
		done.Wait()
	}
}

func TestBatcher_WaitsForImagesThatAreBeingDecoded(t *testing.T) {
	model := &fake{}
	s, url, _ := start(t, model, Options{Batch: 8, BatchTimeout: time.Minute})
	until(func() bool { return len(*s.batcher.sizes.Load()) == 8 })
	predict(t, url, 200) // otherwise the test takes a minute
	s.batcher.arriving.Add(1)
	var done sync.WaitGroup
	done.Go(func() { predict(t, url, 200) })
	time.Sleep(50 * time.Millisecond)
	is.Equal(t, "batches while another image was being decoded", model.begun.Load(), 1)
	s.batcher.arriving.Add(-1)
	predict(t, url, 200)
	done.Wait()
	s.batcher.arriving.Add(1)
	done.Go(func() { predict(t, url, 200) })
	time.Sleep(50 * time.Millisecond)
	s.batcher.settle(1) // it turned out to be damaged
	done.Wait()
	is.Equal(t, "batches", model.batches, []int{1, 2, 1})
	for range 1000 { // a worker can take an image before its request says that it has arrived
		predict(t, url, 200)
	}
}

func TestServe_DescribesItselfAndLoadsNothingFromOtherServers(t *testing.T) {
	_, url, _ := start(t, &fake{}, Options{})
	for field := range first(images(t, predict(t, url, 200))[0]) {
		is.Equal(t, "/openapi.json has "+field, bytes.Contains(openAPI, []byte(`"`+field+`": {"type"`)), true)
	}
	for _, code := range []string{"400", "401", "403", "404", "405", "408", "413", "415", "422", "429", "500", "503"} {
		is.Equal(t, "/openapi.json has status "+code, bytes.Contains(openAPI, []byte(code+" ")), true)
	}
	for path, kind := range map[string]string{"/": "text/html", "/openapi.json": "application/json"} {
		response, content := ask(t, "GET", url+path, nil)
		policy := response.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; ") || !strings.Contains(policy, "connect-src 'self'") ||
			response.Header.Get("X-Content-Type-Options") != "nosniff" || len(content) < 1000 ||
			!strings.HasPrefix(response.Header.Get("Content-Type"), kind) {
			t.Errorf("%s: %d bytes, %v", path, len(content), response.Header)
		}
	}
}

// Requests outside of the API, of predictions and of OpenAI's embeddings. Errors have their status and a message in
// JSON; only the failure of a program is logged as an error.
func TestServe_EachFailureHasItsStatus(t *testing.T) {
	var log bytes.Buffer
	s, url, _ := start(t, &fake{output: two}, Options{Bytes: 50_000, Pixels: 1000, Parts: 3,
		Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))})
	kind, four := form(dot, dot, dot, dot)
	_, none := form()
	pairKind, pair := form(dot, dot)
	const boundary = "multipart/form-data; boundary=x"
	field := "--x\r\nContent-Disposition: form-data; name=\"top\"\r\n\r\n3\r\n--x--\r\n"
	one := `{"input": "` + base64.StdEncoding.EncodeToString(dot)
	padded := func(n int) string { // the header of a part
		return fmt.Sprintf("--x\r\nContent-Disposition: form-data; name=a; filename=a\r\nX: %s\r\n\r\n%s\r\n--x--\r\n",
			strings.Repeat("a", n), dot)
	}
	const predict, embed, asJSON = "POST /v1/predict", "POST /v1/embeddings", "application/json"
	for _, c := range []struct {
		route, kind string
		body        any // a string, bytes, or a reader without a length
		want        int
	}{
		{predict, "", dot, 200}, {predict, "", make([]byte, 50_001), 413},
		{predict, "", io.MultiReader(bytes.NewReader(make([]byte, 50_001))), 413},
		{predict, "", pixels(32, 32, red), 413}, {predict, kind, four, 413}, {predict, kind, none, 400},
		{predict, "multipart/form-data", "x", 400}, {predict, kind, "--x", 400}, {predict, "image/png", "GIF", 415},
		{embed, "image/png", "", 415}, {predict, "image/png; q", dot, 415}, {predict, "", dot[:len(dot)-20], 422},
		{predict, boundary, padded(10), 200}, {predict, boundary, padded(40_000), 400},
		{predict, boundary, field, 415}, {"POST /v2/predict", "", dot, 404}, {predict, "", pixels(13, 5, red), 500},
		{"GET /v1/model?similarity=1", "", dot, 400}, {"GET /v1/model?x=true", "", dot, 400},
		{"GET /v1/predict", "", dot, 405}, {"PUT /v1/embeddings", "", dot, 405}, {"POST /v1/model", "", dot, 405},
		{"DELETE /", "", dot, 405}, {"GET /v1/embed", "", dot, 404},
		{predict + "?top=1;x=2", "", dot, 400}, {predict + "?top=1&top=2", "", dot, 400},
		{predict + "?top=%zz", "", dot, 400},
		{predict + "?top=0", "", dot, 400}, {predict + "?top=-1", "", dot, 400}, {predict + "?top=all", "", dot, 400},
		{predict + "?top=1000", "", dot, 200}, {predict + "?pool=mean", "", dot, 400}, {embed + "?pool=mean", "", dot, 200},
		{embed + "?pool=other", "", dot, 400}, {embed + "?of=mean", "", dot, 400}, {"GET /v1/models?x=1", "", dot, 400},
		{"POST /v1/attention?top=1", "", dot, 400}, {"POST /v1/attention?", "", dot, 200},
		{"POST /v1/attention", pairKind, pair, 400},
		{embed, asJSON, ``, 400}, {embed, asJSON, `{`, 400}, {embed, asJSON, `[]`, 400}, {embed, asJSON, `{}`, 400},
		{embed, asJSON, `{"input": ""}`, 400}, {embed, asJSON, `{"input": []}`, 400}, {embed, asJSON, `{"input": 7}`, 400},
		{embed, asJSON, `{"input": [[1, 2]]}`, 400}, {embed, asJSON, `{"input": "https://example.com/cat.jpg"}`, 400},
		{embed, asJSON, `{"input": "data:image/png,abc"}`, 400}, {embed, asJSON, `{"input": "!"}`, 400},
		{embed, asJSON, `{"input": "AAAA"}`, 415}, {embed, asJSON, one[:51] + `"}`, 422}, {embed, asJSON, one + `"} {}`, 400},
		{embed, asJSON, one + `", "model": "other"}`, 404}, {embed, asJSON, one + `", "encoding_format": "int8"}`, 400},
		{embed, asJSON, one + `", "pool": "patches"}`, 400}, {embed, asJSON, one + `", "of": "mean"}`, 400},
		{embed, asJSON, one + `", "model": "runs/two"}`, 404}, {embed, asJSON, one + `", "model": "fake"}`, 200},
		{embed, asJSON, one + `", "dimensions": 2}`, 400},
		{embed, asJSON, `{"input": ["` + strings.Repeat(one[11:]+`","`, 3) + one[11:] + `"]}`, 413},
		{embed, asJSON, one + `"}`, 200}, {embed, asJSON, one + `"}}`, 400}, {embed, asJSON, one + `"} x`, 400},
	} {
		body, _ := c.body.(io.Reader)
		switch raw := c.body.(type) {
		case string:
			body = strings.NewReader(raw)
		case []byte:
			body = bytes.NewReader(raw)
		}
		method, path, _ := strings.Cut(c.route, " ")
		response, raw := ask(t, method, url+path, body, "Content-Type", c.kind)
		var got struct{ Error failure }
		err := json.Unmarshal(raw, &got)
		allow := map[string]string{"/v1/predict": "POST", "/v1/embeddings": "POST", "/v1/model": "GET, HEAD",
			"/": "GET, HEAD"}
		if err != nil || response.StatusCode != c.want || c.want != 200 && (got.Error.Status != c.want ||
			got.Error.Message == "") || c.want == 405 && response.Header.Get("Allow") != allow[path] {
			t.Errorf("%s with %.60q: status %d, Allow %q, %+v, %v; want %d", c.route, c.body, response.StatusCode,
				response.Header.Get("Allow"), got, err, c.want)
		}
	}
	untouched(t, s)
	is.Equal(t, "errors, those of status 500", [2]int{strings.Count(log.String(), "status="),
		strings.Count(log.String(), "status=500")}, [2]int{1, 1})
}

// A client that sends slowly delays no batch.
func TestBatcher_WaitsForNoImagesThatAreStillBeingSent(t *testing.T) {
	s, url, _ := start(t, &fake{}, Options{})
	c := dial(t, url)
	kind, whole := form(dot, pixels(3, 5, blue))
	fmt.Fprintf(c, "POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", kind,
		len(whole))
	_, _ = c.Write(whole[:len(whole)-3])      // the last boundary is not complete
	until(func() bool { return inFlight(s) }) // both files are read
	time.Sleep(50 * time.Millisecond)
	is.Equal(t, "images of an incomplete form for which a batch would wait", s.batcher.arriving.Load(), 0)
	_, _ = c.Write(whole[len(whole)-3:])
	answer := make([]byte, 12)
	gomlxtest.Must(io.ReadFull(c, answer))(t)
	is.Equal(t, "answer", string(answer), "HTTP/1.1 200")
}

// inFlight reports whether an image of a request is in flight.
func inFlight(s *Server) bool {
	s.images.mu.Lock()
	defer s.images.mu.Unlock()
	return s.images.free < int64(s.options.Images)
}

// Images of clients that have left may fill the queue.
func TestBatcher_ARequestDoesNotWaitForAFullQueue(t *testing.T) {
	b := newBatcher(t.Context(), &fake{}, Options{Images: 1}) // not started
	b.queue <- job{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.run(ctx, []*data.Image{{}}, func() {})
	is.Equal(t, fmt.Sprint(err, " is late"), errors.Is(err, late), true)
}

func TestBatcher_TheLargestBatchThatCompilesIsReported(t *testing.T) {
	s, url, _ := start(t, &fake{compile: func(batch int) error {
		if batch == 3 {
			return errors.New("out of memory")
		}
		return nil
	}}, Options{Batch: 5})
	until(func() bool { return s.batcher.largest.Load() != 5 })
	_, raw := ask(t, "GET", url+"/v1/model", nil)
	var card card
	gomlxtest.NoError(t, json.Unmarshal(raw, &card))
	is.Equal(t, "images of a batch, at most", card.MaxBatch, 2)
}

// A request that was accepted may still put images into the queue.
func TestBatcher_TheQueueIsClosedAfterTheLastRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	b := newBatcher(ctx, &fake{}, Options{Images: 1})
	b.observe = func(int, float64) {}
	b.start(1)
	<-b.compiled
	gomlxtest.NoError(t, b.enter())
	cancel()
	answer := make(chan result, 1)
	time.Sleep(50 * time.Millisecond)
	b.queue <- job{image: &data.Image{}, answer: answer, ctx: t.Context()} // panics if it is closed
	<-answer
	is.Equal(t, "a request is accepted after the end", b.enter() == nil, false)
	b.requests.Done()
	gomlxtest.NoError(t, b.wait())
}

// heap is the number of bytes in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// peak returns the largest heap during a function, beyond the one before it.
func peak(do func()) int64 {
	runtime.GC()
	before, largest := heap(), int64(0)
	var done atomic.Bool
	var sampled sync.WaitGroup
	sampled.Go(func() {
		for ; !done.Load(); time.Sleep(time.Millisecond) {
			largest = max(largest, heap()-before)
		}
	})
	do()
	done.Store(true)
	sampled.Wait()
	return largest
}

// Sixty-four clients send images with the maximum number of pixels in few bytes. Without the limits this would take
// 64·4 MB.
func TestServe_MemoryStaysUnderItsBound(t *testing.T) {
	gomlxtest.OnGo(t)
	o := Options{Bytes: 100_000, Pixels: 1_000_000, Images: 64, Timeout: 5 * time.Minute} // not tested here
	_, url, _ := start(t, &counts{}, o)
	raw := pixels(1000, 1000, red)
	used := peak(func() {
		var done sync.WaitGroup
		for range 64 {
			done.Go(func() {
				for range 3 {
					answered(t, url+"/v1/predict", "", raw, 200, 429)
				}
			})
		}
		done.Wait()
	})
	if bound := 2 * o.Memory(3*5, false); used > bound { // garbage may take as much again
		t.Errorf("%d bytes, want at most %d", used, bound)
	}
}

func TestServe_AMutatedImageNeverCrashesTheServer(t *testing.T) {
	gomlxtest.OnGo(t)
	o := Options{Pixels: 100_000}
	_, url, _ := start(t, &fake{}, o)
	rng := campaign.Rand(77)
	seeds := [][]byte{pixels(11, 13, red), pixels(5, 3, blue), []byte("\xff\xd8\xff\xe0\x00\x10JFIF\x00"),
		[]byte("RIFF\x24\x00\x00\x00WEBPVP8 "), []byte("GIF89a\x02\x00\x02\x00\x80\x00\x00"), []byte("BM\x46\x00\x00\x00")}
	statuses := map[int]int{}
	used := peak(func() {
		for i := range campaign.Times(10_000) {
			raw := campaign.Mutate(rng, seeds[i%len(seeds)], seeds[rng.IntN(len(seeds))])
			code, got := post(t, url+"/v1/predict", "", raw)
			if statuses[code]++; code != 200 && code != 413 && code != 415 && code != 422 {
				t.Fatalf("%q: status %d, %v", raw, code, got)
			}
		}
	})
	if bound := 2 * o.Memory(5*7, false); used > bound || len(statuses) != 4 {
		t.Errorf("%d bytes, want at most %d; statuses %v, want all of 200, 413, 415, 422", used, bound, statuses)
	}
	predict(t, url, 200)
}

func TestServe_ALongQueueGets429AndAnAnswerThatIsLate503(t *testing.T) {
	model := &fake{gate: make(chan struct{}, 100)}
	s, url, _ := start(t, model, Options{Timeout: 300 * time.Millisecond, Images: 2, Batch: 1})
	var late sync.WaitGroup
	late.Go(func() { predict(t, url, 503) }) // no gate, so no answer in time
	until(func() bool { return inFlight(s) })
	predict(t, url, 429) // the other one is for other addresses
	late.Wait()
	close(model.gate)
	predict(t, url, 200)
	untouched(t, s)
	slow := &fake{fitting: 70 * time.Millisecond} // the time is that of all images together
	s, url, _ = start(t, slow, Options{Timeout: 300 * time.Millisecond})
	kind, body := form(slices.Repeat([][]byte{dot}, 11)...)
	answered(t, url+"/v1/predict", kind, body, 503) // 11 images that take 70 ms each, of 300 ms
	is.Equal(t, "batches", slow.begun.Load(), 0)
	untouched(t, s)
}

// An address has half of what is in flight: what a request alone exceeds is no matter of trying again.
func TestServe_TheMostImagesOfARequestFitAnAddress(t *testing.T) {
	for o, most := range map[[2]int]int{{0, 1}: 1, {2, 2}: 1, {0, 8}: 4, {32, 32}: 16, {3, 8}: 3, {0, 0}: 32} {
		_, url, _ := start(t, &fake{}, Options{Parts: o[0], Images: o[1]})
		for n, want := range map[int]int{most: 200, most + 1: 413} {
			kind, body := form(slices.Repeat([][]byte{dot}, n)...)
			answered(t, url+"/v1/predict", kind, body, want)
		}
	}
}

func TestServe_WrongLengthsAreMalformed(t *testing.T) {
	_, url, _ := start(t, &fake{}, Options{})
	for request, want := range map[string]string{ // the first lines of the answers
		"Content-Length: 1000\r\n\r\n": "400", "Content-Length: 7\r\n\r\n": "415 400", "Content-Length: -1\r\n\r\n": "400",
		"Content-Length: 1\r\nContent-Length: 2\r\n\r\n": "400",
		"Transfer-Encoding: chunked\r\n\r\nff\r\nabc":    "400",
		"X: " + strings.Repeat("a", 2<<20) + "\r\n\r\n":  "431",
	} {
		c := dial(t, url)
		fmt.Fprintf(c, "POST /v1/predict HTTP/1.1\r\nHost: localhost\r\n%s", request)
		if strings.HasPrefix(request, "Content-Length") {
			_, _ = c.Write(dot)
		}
		_ = c.(*net.TCPConn).CloseWrite()
		var got []string
		for line := range strings.Lines(string(gomlxtest.Must(io.ReadAll(c))(t))) {
			if code, found := strings.CutPrefix(line, "HTTP/1.1 "); found {
				got = append(got, code[:3])
			}
		}
		is.Equal(t, fmt.Sprintf("statuses of %.60q", request), strings.Join(got, " "), want)
	}
}

// A client requests the page repeatedly without reading: once the buffers of the connection are full, the server drops
// it.
func TestServe_ASlowReaderIsDropped(t *testing.T) {
	_, url, _ := start(t, &fake{}, Options{Timeout: 300 * time.Millisecond})
	c := dial(t, url)
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	var err error
	for err == nil {
		_, err = fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	is.Equal(t, "the connection is open after 30 s", errors.Is(err, os.ErrDeadlineExceeded), false)
	predict(t, url, 200)
}

// Its answer does not need the body, and net/http would wait for it.
func TestServe_ABodyThatNoRouteReadsHasADeadline(t *testing.T) {
	_, url, _ := start(t, &fake{}, Options{Timeout: 300 * time.Millisecond, Token: secret})
	for _, route := range []string{"POST /nowhere", "POST /v1/predict", "GET /healthz"} {
		c := dial(t, url)
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nslow", route)
		_, err := io.ReadAll(c)
		is.Equal(t, route+": the connection is open after 20 s", errors.Is(err, os.ErrDeadlineExceeded), false)
	}
}

func TestServe_AttentionMapsAreComputedOneAtATime(t *testing.T) {
	_, url, _ := start(t, &fake{allCores: true, looking: 5 * time.Millisecond}, Options{})
	var all sync.WaitGroup
	for range 7 {
		all.Go(func() { answered(t, url+"/v1/attention", "", dot, 200) })
	}
	all.Wait()
}

func TestServe_ClosingFinishesWhatIsInFlight(t *testing.T) {
	model := &fake{gate: make(chan struct{}, 100)}
	s, url, cancel := start(t, model, Options{})
	var running sync.WaitGroup
	running.Go(func() { predict(t, url, 200) })
	until(func() bool { return len(s.batcher.queue) == 0 && inFlight(s) })
	cancel()
	predict(t, url, 503)
	waited := make(chan error)
	go func() { waited <- s.Wait() }()
	select {
	case err := <-waited:
		t.Errorf("the server does not wait for the request in flight: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	model.gate <- struct{}{}
	running.Wait()
	gomlxtest.NoError(t, <-waited)
}

// A request that is sent before the first program is compiled waits for it, or for its failure.
func TestServe_IsReadyOnceItsFirstProgramIsCompiled(t *testing.T) {
	for failed, want := range map[error]int{nil: 200, errors.New("too large"): 503} {
		gate := make(chan struct{})
		ctx, end := context.WithCancel(t.Context())
		s := gomlxtest.Must(newServer(ctx, &fake{compile: func(int) error { <-gate; return failed }}, Options{}))(t)
		ask := func(method, path string) int {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest(method, "http://localhost"+path, bytes.NewReader(dot)))
			return w.Code
		}
		answered := make(chan int)
		go func() { answered <- ask("POST", "/v1/predict") }()
		select {
		case code := <-answered:
			t.Fatalf("status %d before a program is compiled", code)
		case <-time.After(50 * time.Millisecond):
		}
		is.Equal(t, "before it, healthz and readyz", [2]int{ask("GET", "/healthz"), ask("GET", "/readyz")}, [2]int{200, 503})
		close(gate)
		is.Equal(t, "after it", [2]int{<-answered, ask("GET", "/readyz")}, [2]int{want, want})
		end()
		is.Equal(t, "at the end", []any{errors.Is(s.Wait(), failed), ask("GET", "/readyz")}, []any{true, 503})
	}
	ended, end := context.WithCancel(t.Context())
	end()
	s := gomlxtest.Must(newServer(ended, &fake{}, Options{}))(t)
	<-s.Ready()
	gomlxtest.NoError(t, s.Wait()) // it ends before its first program
}

// The token is asked for before anything is computed; refused requests are counted.
func TestServe_ATokenIsRequiredOnProtectedRoutes(t *testing.T) {
	model := &fake{}
	_, url, _ := start(t, model, Options{Token: secret})
	for route, protected := range map[string]bool{"POST /v1/predict": true, "POST /v1/embeddings": true,
		"POST /v1/attention": true, "GET /v1/model": true, "GET /v1/models": true,
		"GET /metrics": true, "GET /healthz": false, "GET /readyz": false, "GET /": false, "GET /openapi.json": false} {
		method, path, _ := strings.Cut(route, " ")
		for _, token := range []string{"", "Bearer wrong", "Basic " + secret, "Bearer " + secret} {
			response, _ := ask(t, method, url+path, bytes.NewReader(dot), "Authorization", token)
			want := 200
			if protected && token != "Bearer "+secret {
				want = 401
			}
			if asked := response.Header.Get("WWW-Authenticate"); response.StatusCode != want ||
				(asked == "Bearer") != (want == 401) {
				t.Errorf("%s with %q: status %d, %q", route, token, response.StatusCode, asked)
			}
		}
	}
	is.Equal(t, "batches, those of two requests with the token", model.begun.Load(), 2)
}

func TestServe_MetricsCountRequestsAndBatches(t *testing.T) {
	_, url, _ := start(t, &fake{}, Options{})
	for range 3 {
		predict(t, url, 200)
	}
	answered(t, url+"/v1/predict", "", []byte("no"), 415)
	ask(t, "POST", url+"/v1/predict", bytes.NewReader(dot), "Host", "evil.example")
	_, text := ask(t, "GET", url+"/metrics", nil)
	for _, line := range []string{`wepe_requests_total{route="POST /v1/predict",status="200"} 3`,
		`wepe_requests_total{route="POST /v1/predict",status="415"} 1`,
		`wepe_requests_total{route="POST /v1/predict",status="403"} 1`, "wepe_batch_images_count 3",
		"wepe_batch_images_sum 3", "wepe_batch_seconds_count 3", "wepe_queue_images 0",
		`wepe_request_seconds_count{route="POST /v1/predict"} 5`} {
		is.Equal(t, "metrics have "+line, bytes.Contains(text, []byte(line+"\n")), true)
	}
}

// Memory holds eight bodies, on half of the cores images of the most pixels and on the others of 2^20, and waiting
// images; package data measures the bytes of each pixel by format.
func TestOptions_MemoryAndRanges(t *testing.T) {
	o := Options{Bytes: 1000, Pixels: 7 << 20, Images: 11}
	cores := max(2, runtime.GOMAXPROCS(0))
	half := cores / 2
	for float, bytes := range map[bool]int{false: 3, true: 15} { // a float32 more of each value
		want := int64(8*1000 + data.DecodeBytes*(half*7<<20+(cores-half)<<20) + 11*5*7*bytes)
		is.Equal(t, "a bound", o.Memory(5*7, float), want)
	}
	for name, o := range map[string]Options{"Batch": {Batch: -1}, "BatchTimeout": {BatchTimeout: -1},
		"Timeout": {Timeout: -5}, "Batch is 1025": {Batch: 1025}, "Token": {Token: "x"}, "Pixels": {Pixels: 89_478_486},
		"Images": {Images: math.MaxInt}, "Bytes": {Bytes: 1 << 61}, "15 characters": {Token: strings.Repeat("x", 15)}} {
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: %v, want an error about %s", o, err, name)
		}
	}
	gomlxtest.NoError(t, Options{Batch: 1024, Pixels: 89_478_485, Token: strings.Repeat("x", 16)}.Validate())
}

func TestWrite_NoJSONIsAnErrorAndAnUnreadBodyEndsTheConnection(t *testing.T) {
	for _, c := range []struct {
		value  any
		err    error
		code   int
		body   string
		closes bool
	}{
		{map[string]int{"a": 7}, nil, 200, `{"a":7}`, false},
		{math.NaN(), nil, 500, `{"error":{"status":500,"message":"json: unsupported value: NaN"}}`, false},
		{nil, failure{408, "late"}, 408, `{"error":{"status":408,"message":"late"}}`, true},
		{nil, failure{413, "large"}, 413, `{"error":{"status":413,"message":"large"}}`, true},
		{nil, errors.New("broken"), 500, `{"error":{"status":500,"message":"broken"}}`, false},
	} {
		w := httptest.NewRecorder()
		if code := write(w, c.value, c.err); code != c.code || w.Code != c.code || w.Body.String() != c.body+"\n" ||
			(w.Header().Get("Connection") == "close") != c.closes {
			t.Errorf("%v, %v: status %d, %s %v", c.value, c.err, w.Code, w.Body, w.Header())
		}
	}
}

// two has the mean colour as features, and twice that as its class token.
func two(mean []float32) finetune.Output {
	return finetune.Output{Logits: mean, Mean: mean, Class: []float32{2 * mean[0], 2 * mean[1], 2 * mean[2]}}
}

// The form of requests and responses is that of OpenAI's reference of embeddings.
func TestEmbeddings_AreOfImagesInJSON(t *testing.T) {
	_, url, _ := start(t, &fake{output: two}, Options{})
	first := base64.StdEncoding.EncodeToString(dot)
	second := "data:image/png;base64," + base64.StdEncoding.EncodeToString(pixels(2, 7, blue))
	for name, c := range map[string]struct {
		request map[string]any
		want    [][]float64
	}{
		"one":         {map[string]any{"input": first, "model": "fake"}, [][]float64{{10, 4, 2}}},
		"a data URL":  {map[string]any{"input": second}, [][]float64{{2, 4, 12}}},
		"two":         {map[string]any{"input": []string{first, second}, "user": "u"}, [][]float64{{10, 4, 2}, {2, 4, 12}}},
		"of the mean": {map[string]any{"input": second, "pool": "mean", "encoding_format": "float"}, [][]float64{{1, 2, 6}}},
		"in base64": {map[string]any{"input": []string{second, first}, "encoding_format": "base64"},
			[][]float64{{2, 4, 12}, {10, 4, 2}}},
	} {
		raw, _ := json.Marshal(c.request)
		got := answered(t, url+"/v1/embeddings", "application/json", raw, 200)
		list, tokens := got["data"].([]any), float64(len(c.want)*2*3) // the fake's grid
		is.Equal(t, name, []any{got["object"], got["model"], len(list)}, []any{"list", "fake", len(c.want)})
		is.Equal(t, name, got["usage"], any(map[string]any{"prompt_tokens": tokens, "total_tokens": tokens}))
		for i, vector := range vectors(t, got) {
			entry := list[i].(map[string]any)
			is.Equal(t, name, []any{entry["object"], entry["index"]}, []any{"embedding", float64(i)})
			gomlxtest.NearAbs(t, name, vector, c.want[i], 1e-5)
		}
	}
}

// The list has the form of OpenAI's reference; its name is the one that requests and answers have.
func TestModels_AreListedAsByOpenAI(t *testing.T) {
	_, url, _ := start(t, &fake{}, Options{})
	_, raw := ask(t, "GET", url+"/v1/models", nil)
	var got struct {
		Object string
		Data   []map[string]any
	}
	gomlxtest.NoError(t, json.Unmarshal(raw, &got))
	m := got.Data[0]
	owner, _ := m["owned_by"].(string)
	is.Equal(t, "the list, its model, its owner", []any{got.Object, len(got.Data), m["id"], m["object"], owner != ""},
		[]any{"list", 1, "fake", "model", true})
	near(t, "seconds since it was created", float64(time.Now().Unix()), m["created"].(float64), 3600)
}

// The memory of a body is given back once its images are decoded: then none of its texts is held.
func TestEmbeddings_KeepNoTextOfTheRequest(t *testing.T) {
	const size = 3 << 20
	model := &fake{gate: make(chan struct{})}
	s, url, _ := start(t, model, Options{})
	input := base64.StdEncoding.EncodeToString(slices.Concat(dot, make([]byte, size)))
	body := []byte(`{"input": ["` + input + `"], "user": "` + input + `"}`)
	runtime.GC()
	before := heap()
	var done sync.WaitGroup
	for n := range 5 {
		done.Go(func() { answered(t, url+"/v1/embeddings", "application/json", body, 200) })
		until(func() bool { return int(model.begun.Load())+len(s.batcher.queue) == n+1 })
	}
	runtime.GC()
	if held := heap() - before; held > size {
		t.Errorf("5 requests of %d bytes that wait for the model hold %d", len(body), held)
	}
	close(model.gate)
	done.Wait()
}

// A model without a head has embeddings, one without a class token those of the mean, one without features none.
func TestEmbeddings_AreServedOfAModelWithoutClasses(t *testing.T) {
	s, url, _ := start(t, &fake{}, Options{})
	s.card.Unscored = "no head"
	_, blind, _ := start(t, &fake{output: func([]float32) (none finetune.Output) { return }}, Options{})
	for route, want := range map[string]int{url + "/v1/predict": 404, url + "/v1/embeddings": 200,
		url + "/v1/embeddings?pool=class": 404, blind + "/v1/embeddings": 404} {
		answered(t, route, "", dot, want)
	}
}

// Any body is answered with a status of the list in the package's documentation, and frees what it took.
func FuzzRequest(f *testing.F) {
	kind, two := form(dot, pixels(5, 3, blue))
	seeds := []string{"/v1/predict\ntop=2\n" + kind + "\n" + string(two),
		"/v1/embeddings\nof=mean\napplication/json\n" + `{"input":["data:image/png;base64,AAAA"],"model":"fake"}`,
		"/v1/attention\n\nimage/png\n" + string(pixels(2, 2, red))}
	s := gomlxtest.Must(newServer(f.Context(), &fake{}, Options{Bytes: 1 << 16, Pixels: 1 << 12, Parts: 5}))(f)
	<-s.Ready()
	statuses := map[int]bool{200: true, 301: true, 307: true, 400: true, 404: true, 405: true, 413: true, 415: true,
		422: true, 500: true} // of 13 rows, by the fake
	campaign.Fuzz(f, seeds, func(t *testing.T, text string) {
		path, text, _ := strings.Cut(text, "\n")
		query, text, _ := strings.Cut(text, "\n")
		kind, body, _ := strings.Cut(text, "\n")
		r := httptest.NewRequest(http.MethodPost, "http://localhost/", strings.NewReader(body))
		r.URL.Path, r.URL.RawQuery = path, query
		r.Header.Set("Content-Type", kind)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if untouched(t, s); !statuses[w.Code] {
			t.Errorf("status %d", w.Code)
		}
	})
}

// A list of millions of empty texts is refused before it is read into memory.
func TestEmbeddings_ManyTextsTakeNoMemory(t *testing.T) {
	body := strings.NewReader(`{"input":["` + strings.Repeat(`","`, 1<<20) + `"]}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	q := wanted{Input: texts{most: 32}}
	_, err := q.parse(body, card{})
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, tooMany(32)) || took > 5*uint64(body.Size()) {
		t.Errorf("%d bytes for a body of %d, %v", took, body.Size(), err)
	}
}

// A line of pixels would be thousands of times longer before it is fitted to the model.
func TestServer_ALongNarrowImageIsRefused(t *testing.T) {
	s, url, _ := start(t, &fake{}, Options{})
	s.card.Preprocessing = preprocess.Settings{Resize: preprocess.ResizeShortest, Size: [2]int{224, 224}}
	answered(t, url+"/v1/predict", "", pixels(1, 19, red), 200)
	answered(t, url+"/v1/predict", "", pixels(1, 1700, red), 413)
}

// FuzzEmbeddings: images of a request are bytes that it contains in base64; anything else is refused by a status.
func FuzzEmbeddings(f *testing.F) {
	requests := []string{`{"input":"data:image/png;base64,AAAA","model":"fake"}`, `{"input":["AAAA","//8="]}`,
		`{"input":"data:,","encoding_format":"base64"}`, `{"input":[[7]]}`}
	campaign.Fuzz(f, requests, func(t *testing.T, request string) {
		q := wanted{Input: texts{most: 9}}
		files, err := q.parse(strings.NewReader(request), card{Name: "runs/fake"})
		if failed := (failure{}); err != nil && (!errors.As(err, &failed) ||
			!slices.Contains([]int{400, 404, 413}, failed.Status)) ||
			err == nil && len(files) == 0 {
			t.Errorf("%q: %d files, %v", request, len(files), err)
		}
		for _, file := range files {
			if len(file.raw) > len(request) || file.field {
				t.Errorf("%q: a file of %d bytes", request, len(file.raw))
			}
		}
	})
}
