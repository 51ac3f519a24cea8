// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
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

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// fake is a model whose logits are the mean red, green and blue of an image. gate controls how long its programs take.
type fake struct {
	gate     chan struct{} // each Run takes one; nil: no wait
	allCores bool
	compile  func(batch int) error
	mu       sync.Mutex
	batches  []int
	begun    atomic.Int64 // calls of Run
	computed atomic.Int64

	attending atomic.Int64 // calls of Attention that have not returned
}

func (f *fake) Fit(image *data.Image) (*data.Image, error) { return image, nil }

func (f *fake) Compile(batch int) error {
	if f.compile != nil {
		return f.compile(batch)
	}
	return nil
}

func (f *fake) Batch(images []*data.Image) ([]finetune.Inferred, error) {
	f.begun.Add(1)
	if f.gate != nil {
		<-f.gate
	}
	f.mu.Lock()
	f.batches = append(f.batches, len(images))
	f.mu.Unlock()
	outputs := make([]finetune.Inferred, len(images))
	for i, image := range images {
		if image.Height == 13 {
			return nil, errors.New("no images of 13 rows")
		}
		mean := make([]float32, 3)
		for k, v := range image.Pixels {
			mean[k%3] += float32(v) / float32(len(image.Pixels)/3)
		}
		outputs[i] = finetune.Inferred{Logits: mean, Mean: mean}
		f.computed.Add(1)
	}
	return outputs, nil
}

func (f *fake) Attention(*data.Image) ([]float32, error) {
	if f.attending.Add(1) > 1 {
		return nil, errors.New("two at once")
	}
	defer f.attending.Add(-1)
	time.Sleep(5 * time.Millisecond)
	return []float32{.25, .5, .125, .0625, .0625, 0}, nil
}

func (f *fake) Likeliest(logits []float32, top int) []finetune.Class {
	return (&finetune.Model{Classes: f.Card().Labels}).Likeliest(logits, top)
}

func (f *fake) Parallel() (int, bool) { return 1, f.allCores }

func (f *fake) Card() card {
	return card{Name: "fake", Weights: "best", Step: 17, Size: [2]int{5, 7}, Grid: [2]int{2, 3},
		Labels: []string{"red", "green", "blue"}}
}

// start serves a model until the test ends.
func start(t *testing.T, model model, o Options) (*Server, string, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := gomlxtest.Must(newServer(ctx, model, o))(t)
	server := httptest.NewServer(s)
	t.Cleanup(func() { cancel(); server.Close() })
	<-s.Ready()
	return s, server.URL, cancel
}

// pixels is a PNG file of one colour.
func pixels(t testing.TB, rows, cols int, c color.Color) []byte {
	t.Helper()
	img := image.NewRGBA(image.Rect(0, 0, cols, rows))
	for i := range rows * cols {
		img.Set(i%cols, i/cols, c)
	}
	return datatest.PNG(img)
}

const secret = "a token of enough characters"

var red, blue = color.RGBA{5, 2, 1, 255}, color.RGBA{1, 2, 6, 255}

// post returns the status and the decoded JSON of an answer.
func post(t testing.TB, url, kind string, body io.Reader) (int, map[string]any) {
	t.Helper()
	response := gomlxtest.Must(http.Post(url, kind, body))(t)
	defer response.Body.Close()
	if got := response.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("%s: content type %q", url, got)
	}
	code := response.StatusCode
	if again := response.Header.Get("Retry-After") == "1"; again != (code == 429 || code == 503) {
		t.Errorf("%s: status %d, to be tried again: %v", url, code, again)
	}
	var value map[string]any
	if err := json.NewDecoder(response.Body).Decode(&value); err != nil {
		t.Fatalf("%s: status %d: %v", url, response.StatusCode, err)
	}
	return response.StatusCode, value
}

// form is a multipart body with a file for each image.
func form(t testing.TB, images ...[]byte) (kind string, body *bytes.Buffer) {
	t.Helper()
	body = &bytes.Buffer{}
	w := multipart.NewWriter(body)
	for i, raw := range images {
		part := gomlxtest.Must(w.CreateFormFile("image", fmt.Sprintf("%d.png", i)))(t)
		_, _ = part.Write(raw)
	}
	_ = w.Close()
	return w.FormDataContentType(), body
}

func images(t testing.TB, answer map[string]any) (entries []map[string]any) {
	t.Helper()
	list, ok := answer["images"].([]any)
	if !ok {
		t.Fatalf("no images in %v", answer)
	}
	for _, entry := range list {
		entries = append(entries, entry.(map[string]any))
	}
	return entries
}

func TestPredictAnswersEachImageInItsOrder(t *testing.T) {
	_, url, _ := start(t, &fake{}, Options{Neighbours: func(class, mean []float32, k int) []Neighbour {
		return []Neighbour{{Name: fmt.Sprint(class, mean, k)}}
	}})
	code, got := post(t, url+"/v1/predict?top=2", "image/png", bytes.NewReader(pixels(t, 3, 5, red)))
	if code != 200 || got["model"] != "fake" || got["weights"] != "best" || got["step"] != 17.0 {
		t.Fatalf("status %d, %v", code, got)
	}
	if near := images(t, got)[0]["neighbours"]; fmt.Sprint(near) != "[map[label: name:[] [5 2 1] 5 similarity:0]]" {
		t.Errorf("neighbours %v", near)
	}
	labels := images(t, got)[0]["labels"].([]any)
	first := labels[0].(map[string]any)
	// softmax of 5, 2, 1
	want := math.Exp(5) / (math.Exp(5) + math.Exp(2) + math.Exp(1))
	if len(labels) != 2 || first["label"] != "red" || !(math.Abs(first["probability"].(float64)-want) <= 1e-12) {
		t.Errorf("labels %v, want red with %g", labels, want)
	}
	kind, body := form(t, pixels(t, 3, 5, red), pixels(t, 5, 3, blue), pixels(t, 2, 2, red))
	code, got = post(t, url+"/v1/predict", kind, body)
	if code != 200 || len(images(t, got)) != 3 {
		t.Fatalf("status %d, %v", code, got)
	}
	for i, want := range []string{"red", "blue", "red"} {
		entry := images(t, got)[i]
		if label := entry["labels"].([]any)[0].(map[string]any)["label"]; label != want ||
			entry["name"] != fmt.Sprintf("%d.png", i) {
			t.Errorf("image %d: %v, want %s", i, entry, want)
		}
	}
	code, got = post(t, url+"/v1/embeddings", "", bytes.NewReader(pixels(t, 3, 5, blue)))
	if mean := vectors(t, got)[0]; code != 200 || !(math.Abs(mean[2]-6) <= 1e-5) || mean[0] != 1.0 {
		t.Errorf("features %v, want the mean colour", mean)
	}
	code, got = post(t, url+"/v1/attention", "", bytes.NewReader(pixels(t, 3, 5, blue)))
	if entry := images(t, got)[0]; code != 200 || entry["rows"] != 2.0 || entry["cols"] != 3.0 ||
		len(entry["weights"].([]any)) != 6 {
		t.Errorf("attention %v", entry)
	}
}

// vectors are the embeddings of a response.
func vectors(t testing.TB, answer map[string]any) (all [][]float64) {
	t.Helper()
	list, ok := answer["data"].([]any)
	if !ok {
		t.Fatalf("no data in %v", answer)
	}
	for _, entry := range list {
		var vector []float64
		for _, v := range entry.(map[string]any)["embedding"].([]any) {
			vector = append(vector, v.(float64))
		}
		all = append(all, vector)
	}
	return all
}

// compiled waits until a server has compiled a number of batch sizes.
func compiled(s *Server, sizes int) {
	for len(*s.batcher.sizes.Load()) < sizes {
		time.Sleep(time.Millisecond)
	}
}

func TestImagesOfConcurrentRequestsAreComputedTogetherInCompiledSizes(t *testing.T) {
	model := &fake{gate: make(chan struct{}, 100)}
	s, url, _ := start(t, model, Options{Batch: 16})
	compiled(s, 9)
	var done sync.WaitGroup
	ask := func(i int) {
		done.Go(func() {
			c := red
			if i%2 == 1 {
				c = blue
			}
			_, got := post(t, url+"/v1/predict?top=1", "", bytes.NewReader(pixels(t, 3, 5, c)))
			label := images(t, got)[0]["labels"].([]any)[0].(map[string]any)["label"]
			if want := []string{"red", "blue"}[i%2]; label != want {
				t.Errorf("request %d: %v, want %s", i, label, want)
			}
		})
	}
	ask(0)
	for model.begun.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	for i := range 13 {
		ask(i)
	}
	for len(s.batcher.queue) < 13 {
		time.Sleep(time.Millisecond)
	}
	for range 9 {
		model.gate <- struct{}{}
	}
	done.Wait()
	if want := []int{1, 8, 5}; !slices.Equal(model.batches, want) {
		t.Errorf("batches %v, want %v: no image is computed to fill a batch", model.batches, want)
	}
}

func TestNoImageIsDecodedWhileABatchTakesAllCores(t *testing.T) {
	for _, all := range []bool{false, true} {
		model := &fake{gate: make(chan struct{}), allCores: all}
		s, url, _ := start(t, model, Options{})
		ask := func() {
			if code, answer := post(t, url+"/v1/predict", "", bytes.NewReader(pixels(t, 3, 5, red))); code != http.StatusOK {
				t.Errorf("status %d: %v", code, answer)
			}
		}
		var done sync.WaitGroup
		done.Go(ask)
		for model.begun.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		done.Go(ask)
		for !all && len(s.batcher.queue) == 0 { // decodes it during the batch
			time.Sleep(time.Millisecond)
		}
		time.Sleep(50 * time.Millisecond)
		if queued := len(s.batcher.queue); all && queued > 0 {
			t.Errorf("%d images were decoded during a batch that takes all cores", queued)
		}
		close(model.gate)
		done.Wait()
	}
}

func TestABatchWaitsForImagesThatAreBeingDecodedAndForNoOthers(t *testing.T) {
	model := &fake{}
	s, url, _ := start(t, model, Options{Batch: 8, Window: time.Minute})
	compiled(s, 8)
	ask := func() { post(t, url+"/v1/predict", "", bytes.NewReader(pixels(t, 3, 5, red))) }
	ask() // otherwise the test takes a minute
	s.batcher.arriving.Add(1)
	var done sync.WaitGroup
	done.Go(ask)
	time.Sleep(50 * time.Millisecond)
	if n := model.computed.Load(); n != 1 {
		t.Errorf("%d images were computed while another was being decoded, want 1", n)
	}
	s.batcher.arriving.Add(-1)
	ask()
	done.Wait()
	if want := []int{1, 2}; !slices.Equal(model.batches, want) {
		t.Errorf("batches %v, want %v", model.batches, want)
	}
}

func TestAPageLoadsNothingFromOtherServers(t *testing.T) {
	_, url, _ := start(t, &fake{}, Options{})
	for path, kind := range map[string]string{"/": "text/html", "/openapi.json": "application/json"} {
		response := gomlxtest.Must(http.Get(url + path))(t)
		content := gomlxtest.Must(io.ReadAll(response.Body))(t)
		response.Body.Close()
		policy := response.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; ") || !strings.Contains(policy, "connect-src 'self'") ||
			response.Header.Get("X-Content-Type-Options") != "nosniff" || len(content) < 1000 ||
			!strings.HasPrefix(response.Header.Get("Content-Type"), kind) {
			t.Errorf("%s: %d bytes, %v", path, len(content), response.Header)
		}
	}
}

func TestEachFailureHasItsStatus(t *testing.T) {
	var log bytes.Buffer
	s, url, _ := start(t, &fake{}, Options{Bytes: 50_000, Pixels: 1000, Parts: 3,
		Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))})
	small := pixels(t, 3, 5, red)
	kind, four := form(t, small, small, small, small)
	_, none := form(t)
	field := new(bytes.Buffer)
	text := multipart.NewWriter(field)
	if err := errors.Join(text.WriteField("top", "3"), text.Close()); err != nil {
		t.Fatal(err)
	}
	fieldType := text.FormDataContentType()
	for name, c := range map[string]struct {
		path, kind string
		body       io.Reader
		want       int
		message    string
	}{
		"too many bytes": {"/v1/predict", "", bytes.NewReader(make([]byte, 50_001)), 413, "50000 bytes"},
		"too many bytes, no length": {"/v1/predict", "", io.MultiReader(bytes.NewReader(make([]byte, 50_001))), 413,
			"50000 bytes"},
		"too many pixels":   {"/v1/predict", "", bytes.NewReader(pixels(t, 32, 32, red)), 413, "32×32 pixels"},
		"too many parts":    {"/v1/predict", kind, four, 413, "more than 3 images"},
		"no part":           {"/v1/predict", kind, none, 400, "malformed"},
		"no boundary":       {"/v1/predict", "multipart/form-data", strings.NewReader("x"), 400, "boundary"},
		"a part cut":        {"/v1/predict", kind, strings.NewReader("--x"), 400, "malformed"},
		"not an image":      {"/v1/predict", "image/png", strings.NewReader("GIF"), 415, "JPEG"},
		"empty":             {"/v1/embeddings", "image/png", strings.NewReader(""), 415, "JPEG"},
		"a malformed type":  {"/v1/predict", "image/png; q", bytes.NewReader(small), 415, "Content-Type"},
		"damaged":           {"/v1/predict", "", bytes.NewReader(small[:len(small)-20]), 422, "body"},
		"top":               {"/v1/predict?top=0", "", bytes.NewReader(small), 400, "1 or more"},
		"top of words":      {"/v1/predict?top=all", "", bytes.NewReader(small), 400, "1 or more"},
		"unknown parameter": {"/v1/predict?topp=2", "", bytes.NewReader(small), 400, `"topp" is no parameter`},
		"a field of text":   {"/v1/predict", fieldType, field, 415, "parameters are in the address"},
		"unknown path":      {"/v2/predict", "", bytes.NewReader(small), 404, "/v2/predict"},
		"the program fails": {"/v1/predict", "", bytes.NewReader(pixels(t, 13, 5, red)), 500, "13 rows"},
	} {
		code, got := post(t, url+c.path, c.kind, c.body)
		failure, _ := got["error"].(map[string]any)
		if message, _ := failure["message"].(string); code != c.want || failure["status"] != float64(c.want) ||
			!strings.Contains(message, c.message) {
			t.Errorf("%s: status %d, %v; want %d and %q", name, code, got, c.want, c.message)
		}
	}
	if code, got := post(t, url+"/v1/predict", "", bytes.NewReader(small)); code != 200 {
		t.Errorf("after the failures: status %d, %v", code, got)
	}
	if n := s.batcher.arriving.Load(); n != 0 || strings.Count(log.String(), "status=") != 1 ||
		!strings.Contains(log.String(), "13 rows") {
		t.Errorf("%d images are still arriving; errors are\n%s", n, log.String())
	}
}

// Headers of a PNG, with a correct checksum, and of a JPEG declare 65,535×65,535 pixels; a JPEG of 3×5 has a hundred
// scans too many.
func TestDecompressionBombsAreRefusedFromTheirHeaders(t *testing.T) {
	_, url, _ := start(t, &fake{}, Options{})
	huge := pixels(t, 1, 1, red)
	copy(huge[16:], []byte{0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff}) // IHDR's width and height
	binary.BigEndian.PutUint32(huge[29:], crc32.ChecksumIEEE(huge[12:29]))
	var small bytes.Buffer
	if err := jpeg.Encode(&small, image.NewGray(image.Rect(0, 0, 5, 3)), nil); err != nil {
		t.Fatal(err)
	}
	photo := small.Bytes()
	sof := bytes.Index(photo, []byte{0xff, 0xc0})
	giant := slices.Replace(slices.Clone(photo), sof+5, sof+9, 0xff, 0xff, 0xff, 0xff) // height and width
	scan, end := bytes.Index(photo, []byte{0xff, 0xda}), len(photo)-2
	scans := slices.Concat(photo[:scan], bytes.Repeat(photo[scan:end], 101), photo[end:])
	for name, c := range map[string]struct {
		raw  []byte
		want int
	}{"png": {huge, 413}, "jpeg": {giant, 413}, "scans": {scans, 422}, "cut": {photo[:end], 422}, "whole": {photo, 200}} {
		begin := time.Now()
		used, _ := campaign.Cost(func() {
			code, got := post(t, url+"/v1/predict", "", bytes.NewReader(c.raw))
			if code != c.want {
				t.Errorf("%s: status %d, %v; want %d", name, code, got, c.want)
			}
		})
		if took := time.Since(begin); took > 10*time.Second || used > 64<<20 {
			t.Errorf("%s: %v, %d bytes", name, took, used)
		}
	}
}

// tiny is a fake that fits images to 5×7.
type tiny struct{ fake }

func (*tiny) Fit(*data.Image) (*data.Image, error) {
	return &data.Image{Height: 5, Width: 7, Pixels: make([]uint8, 3*5*7)}, nil
}

func TestByDefaultTheFiveLikeliestClassesAreReturned(t *testing.T) {
	for _, c := range []struct {
		classes int
		query   string
		want    int
	}{{3, "", 3}, {5, "", 5}, {7, "", 5}, {7, "?top=6", 6}, {7, "?top=8", 7}, {7, "?top=1", 1}} {
		s := &Server{card: card{Labels: make([]string, c.classes)}}
		got := gomlxtest.Must(s.top(httptest.NewRequest(http.MethodPost, "/v1/predict"+c.query, nil)))(t)
		if got != c.want {
			t.Errorf("%q of %d classes: %d, want %d", c.query, c.classes, got, c.want)
		}
	}
}

// A client that sends slowly delays no batch.
func TestABatchWaitsForNoImagesThatAreStillBeingSent(t *testing.T) {
	s, url, _ := start(t, &fake{}, Options{})
	conn := gomlxtest.Must(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
	defer conn.Close()
	kind, two := form(t, pixels(t, 3, 5, red), pixels(t, 3, 5, blue))
	whole := two.Bytes()
	fmt.Fprintf(conn, "POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n",
		kind,
		len(whole))
	_, _ = conn.Write(whole[:len(whole)-3]) // the last boundary is not complete
	for !inFlight(s) {                      // until both files are read
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond)
	if n := s.batcher.arriving.Load(); n != 0 {
		t.Errorf("a batch would wait for %d images of a form that is not complete", n)
	}
	_, _ = conn.Write(whole[len(whole)-3:])
	answer := make([]byte, 12)
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "HTTP/1.1 200" {
		t.Errorf("%q, %v", answer, err)
	}
}

// Images of clients that have left may fill the queue.
func TestARequestDoesNotWaitForAFullQueue(t *testing.T) {
	b := newBatcher(t.Context(), &fake{}, Options{Images: 1}) // not started
	b.queue <- job{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.run(ctx, []*data.Image{{}}, func() {}); !errors.Is(err, late) {
		t.Errorf("%v, want %v", err, late)
	}
}

func TestTheLargestBatchThatCompilesIsReported(t *testing.T) {
	model := &fake{compile: func(batch int) error {
		if batch == 3 {
			return errors.New("out of memory")
		}
		return nil
	}}
	s, url, _ := start(t, model, Options{Batch: 5})
	for s.batcher.largest.Load() == 5 {
		time.Sleep(time.Millisecond)
	}
	response := gomlxtest.Must(http.Get(url + "/v1/model"))(t)
	defer response.Body.Close()
	var card card
	if err := json.NewDecoder(response.Body).Decode(&card); err != nil || card.MaxBatch != 2 {
		t.Errorf("batches of at most %d images, want 2, %v", card.MaxBatch, err)
	}
}

// blind has no features.
type blind struct{ fake }

func (b *blind) Batch(images []*data.Image) ([]finetune.Inferred, error) {
	return make([]finetune.Inferred, len(images)), nil
}

func TestAModelWithoutFeaturesEmbedsNothing(t *testing.T) {
	_, url, _ := start(t, &blind{}, Options{})
	if code, got := post(t, url+"/v1/embeddings", "", bytes.NewReader(pixels(t, 3, 5, red))); code != 404 {
		t.Errorf("status %d, %v, want 404", code, got)
	}
}

// A request that was accepted may still put images into the queue.
func TestTheQueueIsClosedAfterTheLastRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	b := newBatcher(ctx, &fake{}, Options{Images: 1})
	b.observe = func(int, float64) {}
	b.start(1)
	<-b.compiled
	if err := b.enter(); err != nil {
		t.Fatal(err)
	}
	cancel()
	answer := make(chan result, 1)
	time.Sleep(50 * time.Millisecond)
	b.queue <- job{image: &data.Image{}, answer: answer, ctx: t.Context()} // panics if it is closed
	<-answer
	if err := b.enter(); err == nil {
		t.Error("a request is accepted after the end")
	}
	b.leave()
	if err := b.wait(); err != nil {
		t.Error(err)
	}
}

func TestBatchesGrowByOneUpToEightThenTwofold(t *testing.T) {
	for largest, want := range map[int][]int{1: {1}, 7: {1, 2, 3, 4, 5, 6, 7}, 20: {1, 2, 3, 4, 5, 6, 7, 8, 16, 20}} {
		sizes := []int{1}
		for last := 1; last < largest; last = sizes[len(sizes)-1] {
			sizes = append(sizes, nextSize(last, largest))
		}
		if !slices.Equal(sizes, want) {
			t.Errorf("up to %d: %v, want %v", largest, sizes, want)
		}
	}
}

// peak returns the largest heap during a function, beyond the one before it.
func peak(do func()) int64 {
	heap := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	runtime.GC()
	before, largest, done := heap(), int64(0), make(chan struct{})
	var sampled sync.WaitGroup
	sampled.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
				largest = max(largest, heap()-before)
			}
		}
	})
	do()
	close(done)
	sampled.Wait()
	return largest
}

// Sixty-four clients send images with the maximum number of pixels in few bytes. Without the limits this would take
// 64·4 MB.
func TestMemoryStaysUnderItsBound(t *testing.T) {
	gomlxtest.OnGo(t)
	o := Options{Bytes: 100_000, Pixels: 1_000_000, Images: 64, Timeout: 5 * time.Minute} // not tested here
	_, url, _ := start(t, &tiny{}, o)
	raw := pixels(t, 1000, 1000, red)
	used := peak(func() {
		var done sync.WaitGroup
		for range 64 {
			done.Go(func() {
				for range 3 {
					if code, got := post(t, url+"/v1/predict", "", bytes.NewReader(raw)); code != 200 && code != 429 {
						t.Errorf("status %d, %v", code, got)
					}
				}
			})
		}
		done.Wait()
	})
	if bound := 2 * o.Memory(5*7, false); used > bound { // garbage may take as much again
		t.Errorf("%d bytes, want at most %d", used, bound)
	}
}

func TestAMutatedImageNeverCrashesTheServer(t *testing.T) {
	gomlxtest.OnGo(t)
	_, url, _ := start(t, &fake{}, Options{Pixels: 100_000})
	rng := campaign.Rand(77)
	seeds := [][]byte{pixels(t, 11, 13, red), pixels(t, 5, 3, blue), []byte("\xff\xd8\xff\xe0\x00\x10JFIF\x00"),
		[]byte("RIFF\x24\x00\x00\x00WEBPVP8 "), []byte("GIF89a\x02\x00\x02\x00\x80\x00\x00"), []byte("BM\x46\x00\x00\x00")}
	statuses := map[int]int{}
	used := peak(func() {
		for i := range campaign.Times(10_000) {
			raw := campaign.Mutate(rng, seeds[i%len(seeds)], seeds[rng.IntN(len(seeds))])
			code, got := post(t, url+"/v1/predict", "", bytes.NewReader(raw))
			statuses[code]++
			if code != 200 && code != 413 && code != 415 && code != 422 {
				t.Fatalf("%q: status %d, %v", raw, code, got)
			}
		}
	})
	if bound := 2 * (Options{Pixels: 100_000}).Memory(5*7, false); used > bound {
		t.Errorf("%d bytes, want at most %d", used, bound)
	}
	if len(statuses) != 4 {
		t.Errorf("statuses %v, want all of 200, 413, 415, 422", statuses)
	}
	if code, _ := post(t, url+"/v1/predict", "", bytes.NewReader(seeds[0])); code != 200 {
		t.Errorf("afterwards: status %d", code)
	}
}

func TestASlowBodyGets408AndALongQueue429(t *testing.T) {
	model := &fake{gate: make(chan struct{}, 100)}
	s, url, _ := start(t, model, Options{Timeout: 300 * time.Millisecond, Images: 2, Batch: 1})
	conn := gomlxtest.Must(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nslow")
	answer, err := io.ReadAll(conn)
	if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 408")) ||
		!bytes.Contains(answer, []byte("did not arrive")) {
		t.Errorf("a slow body: %v, %q", err, answer)
	}
	kind, three := form(t, pixels(t, 3, 5, red), pixels(t, 3, 5, red), pixels(t, 3, 5, red))
	if code, got := post(t, url+"/v1/predict", kind, three); code != 429 {
		t.Errorf("three images where two may be in flight: status %d, %v", code, got)
	}
	if code, got := post(t, url+"/v1/predict", "", bytes.NewReader(pixels(t, 3, 5, red))); code != 503 { // no gate
		t.Errorf("no answer in time: status %d, %v", code, got)
	}
	close(model.gate)
	if code, got := post(t, url+"/v1/predict", "", bytes.NewReader(pixels(t, 3, 5, red))); code != 200 {
		t.Errorf("afterwards: status %d, %v", code, got)
	}
	if s.images.free != 2 || s.bytes.free != bodies*s.options.Bytes || len(s.images.held)+len(s.bytes.held) > 0 {
		t.Error("the failures kept some of the limits")
	}
}

// raw sends bytes on a separate connection and returns the response.
func raw(t *testing.T, url, request string) string {
	t.Helper()
	conn := gomlxtest.Must(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
	defer conn.Close()
	fmt.Fprint(conn, request)
	_ = conn.(*net.TCPConn).CloseWrite()
	answer := gomlxtest.Must(io.ReadAll(conn))(t)
	return string(answer)
}

func TestWrongLengthsAreMalformed(t *testing.T) {
	_, url, _ := start(t, &fake{}, Options{})
	image := string(pixels(t, 3, 5, red))
	head := "POST /v1/predict HTTP/1.1\r\nHost: localhost\r\n"
	for name, c := range map[string]struct {
		request string
		want    []string // first lines of the answers
	}{
		"too long":     {head + "Content-Length: 1000\r\n\r\n" + image, []string{"400"}},
		"too short":    {head + "Content-Length: 7\r\n\r\n" + image, []string{"415"}},
		"negative":     {head + "Content-Length: -1\r\n\r\n" + image, []string{"400"}},
		"two":          {head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n" + image, []string{"400"}},
		"a chunk cut":  {head + "Transfer-Encoding: chunked\r\n\r\nff\r\nabc", []string{"400"}},
		"giant header": {head + "X: " + strings.Repeat("a", 2<<20) + "\r\n\r\n", []string{"431"}},
	} {
		var got []string
		for _, line := range strings.Split(raw(t, url, c.request), "\r\n") {
			if code, found := strings.CutPrefix(line, "HTTP/1.1 "); found {
				got = append(got, code[:3])
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: statuses %v, want %v", name, got, c.want)
		}
	}
}

// A client requests the page repeatedly without reading: once the buffers of the connection are full, the server drops
// it.
func TestASlowReaderIsDropped(t *testing.T) {
	_, url, _ := start(t, &fake{}, Options{Timeout: 300 * time.Millisecond})
	conn := gomlxtest.Must(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	var err error
	for err == nil {
		_, err = fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection is open after 30 s")
	}
	if code, got := post(t, url+"/v1/predict", "", bytes.NewReader(pixels(t, 3, 5, red))); code != 200 {
		t.Errorf("afterwards: status %d, %v", code, got)
	}
}

// Its answer does not need the body, and net/http would wait for it.
func TestABodyThatNoRouteReadsHasADeadline(t *testing.T) {
	_, url, _ := start(t, &fake{}, Options{Timeout: 300 * time.Millisecond, Token: secret})
	for _, route := range []string{"POST /nowhere", "POST /v1/predict", "GET /healthz"} {
		conn := gomlxtest.Must(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nslow", route)
		if _, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection is open after 20 s", route)
		}
		_ = conn.Close()
	}
}

func TestAttentionMapsAreComputedOneAtATime(t *testing.T) {
	_, url, _ := start(t, &fake{allCores: true}, Options{})
	image := pixels(t, 3, 5, blue)
	var all sync.WaitGroup
	for range 7 {
		all.Go(func() {
			if code, got := post(t, url+"/v1/attention", "", bytes.NewReader(image)); code != 200 {
				t.Errorf("status %d, %v", code, got)
			}
		})
	}
	all.Wait()
}

func TestClosingFinishesWhatIsInFlight(t *testing.T) {
	model := &fake{gate: make(chan struct{}, 100)}
	s, url, cancel := start(t, model, Options{})
	finished := make(chan int)
	go func() {
		code, _ := post(t, url+"/v1/predict", "", bytes.NewReader(pixels(t, 3, 5, red)))
		finished <- code
	}()
	for len(s.batcher.queue) > 0 || !inFlight(s) {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if code, got := post(t, url+"/v1/predict", "", bytes.NewReader(pixels(t, 3, 5, red))); code != 503 {
		t.Errorf("a request after the end: status %d, %v", code, got)
	}
	waited := make(chan error)
	go func() { waited <- s.Wait() }()
	select {
	case err := <-waited:
		t.Errorf("the server does not wait for the request in flight: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	model.gate <- struct{}{}
	if code := <-finished; code != 200 {
		t.Errorf("the request in flight: status %d", code)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
}

// inFlight reports whether an image of a request is in flight.
func inFlight(s *Server) bool {
	s.images.mu.Lock()
	defer s.images.mu.Unlock()
	return s.images.free < int64(s.options.Images)
}

func TestAServerIsReadyOnceItsFirstProgramIsCompiled(t *testing.T) {
	gate := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := gomlxtest.Must(newServer(ctx, &fake{compile: func(int) error { <-gate; return nil }}, Options{}))(t)
	get := func(path string) int {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w.Code
	}
	if get("/healthz") != 200 || get("/readyz") != 503 {
		t.Error("before the first program: want 200 of healthz, 503 of readyz")
	}
	close(gate)
	<-s.Ready()
	if get("/readyz") != 200 {
		t.Error("after it: want 200 of readyz")
	}
	ended, end := context.WithCancel(ctx)
	end()
	s = gomlxtest.Must(newServer(ended, &fake{}, Options{}))(t)
	<-s.Ready()
	if err := s.Wait(); err != nil || get("/readyz") != 503 {
		t.Errorf("a server that ends before its first program: %v", err)
	}
	s = gomlxtest.Must(newServer(ctx, &fake{compile: func(int) error { return errors.New("too large") }}, Options{}))(t)
	if err := s.Wait(); err == nil || err.Error() != "too large" {
		t.Errorf("a program that does not compile: %v", err)
	}
}

func TestATokenIsRequiredOnProtectedRoutes(t *testing.T) {
	_, url, _ := start(t, &fake{}, Options{Token: secret})
	for path, c := range map[string]struct {
		protected bool
		body      string // part of the response
	}{"/v1/model": {true, `"name":"fake"`}, "/metrics": {true, "wepe_queue_images 0"}, "/healthz": {false, `"ok"`},
		"/readyz": {false, `"ready"`}, "/": {false, "<html"}, "/openapi.json": {false, `"openapi"`},
		"/nowhere": {false, "is not served"}} {
		for token, right := range map[string]bool{"": false, "Bearer wrong": false, "Bearer " + secret: true} {
			request, _ := http.NewRequest("GET", url+path, nil)
			request.Header.Set("Authorization", token)
			response := gomlxtest.Must(http.DefaultClient.Do(request))(t)
			body := string(gomlxtest.Must(io.ReadAll(response.Body))(t))
			response.Body.Close()
			want, code := 401, response.StatusCode
			if right || !c.protected {
				want = map[bool]int{false: 200, true: 404}[path == "/nowhere"]
			}
			if code != want || strings.Contains(body, c.body) != (want != 401) {
				t.Errorf("%s with %q: status %d, %s", path, token, code, body)
			}
			if asked := response.Header.Get("WWW-Authenticate"); (asked == "Bearer") != (want == 401) {
				t.Errorf("%s with %q: WWW-Authenticate %q", path, token, asked)
			}
		}
	}
}

func TestRefusedTokensAreCounted(t *testing.T) {
	_, url, _ := start(t, &fake{}, Options{Token: secret})
	post(t, url+"/v1/predict", "", strings.NewReader("no"))
	request, _ := http.NewRequest("GET", url+"/metrics", nil)
	request.Header.Set("Authorization", "Bearer "+secret)
	response := gomlxtest.Must(http.DefaultClient.Do(request))(t)
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	if want := `wepe_requests_total{route="POST /v1/predict",status="401"} 1`; !bytes.Contains(text, []byte(want)) {
		t.Errorf("metrics lack %s", want)
	}
}

func TestATokenIsAskedForBeforeAnythingIsComputed(t *testing.T) {
	model := &fake{}
	_, url, _ := start(t, model, Options{Token: secret})
	for _, path := range []string{"/v1/predict", "/v1/embeddings", "/v1/attention"} {
		if code, got := post(t, url+path, "", bytes.NewReader(pixels(t, 3, 5, red))); code != 401 {
			t.Errorf("%s: status %d, %v", path, code, got)
		}
	}
	if n := model.begun.Load(); n != 0 {
		t.Errorf("%d batches were computed", n)
	}
}

func TestMetricsCountRequestsAndBatches(t *testing.T) {
	_, url, _ := start(t, &fake{}, Options{})
	for range 3 {
		post(t, url+"/v1/predict", "", bytes.NewReader(pixels(t, 3, 5, red)))
	}
	post(t, url+"/v1/predict", "", strings.NewReader("no"))
	response := gomlxtest.Must(http.Get(url + "/metrics"))(t)
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	for _, line := range []string{`wepe_requests_total{route="POST /v1/predict",status="200"} 3`,
		`wepe_requests_total{route="POST /v1/predict",status="415"} 1`, "wepe_batch_images_count 3",
		"wepe_batch_images_sum 3",
		"wepe_batch_seconds_count 3", "wepe_queue_images 0",
		`wepe_request_seconds_count{route="POST /v1/predict"} 4`} {
		if !bytes.Contains(text, []byte(line+"\n")) {
			t.Errorf("metrics lack %s", line)
		}
	}
	const request = `request_seconds_bucket{route="POST /v1/predict",`
	for bucket, want := range map[string]bool{
		`batch_images_bucket{le="128"}`: true, `batch_images_bucket{le="256"}`: false,
		request + `le="0.001"}`: true, request + `le="0.002"}`: true, request + `le="16.384"}`: true,
		request + `le="32.768"}`: false, `batch_seconds_bucket{le="0.001"}`: true, `batch_seconds_bucket{le="0.002"}`: true,
		`batch_seconds_bucket{le="16.384"}`: true, `batch_seconds_bucket{le="32.768"}`: false} {
		if bytes.Contains(text, []byte(bucket)) != want {
			t.Errorf("metrics have the bucket %s: %v", bucket, !want)
		}
	}
}

// The defaults equal the documentation of Options.
func TestOptionsHaveTheirDefaultsAndBoundTheMemory(t *testing.T) {
	want := Options{Batch: 8, Window: 50 * time.Millisecond, Bytes: 20 << 20, Pixels: 25_000_000, Parts: 32, Images: 256,
		Timeout: 20 * time.Second, Connections: 4096}
	got := Options{}.withDefaults()
	got.Log = nil
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("defaults %+v, want %+v", got, want)
	}
	// Eight bodies, on half of the cores images of the most pixels and on the others of 2^20, and waiting images.
	o := Options{Bytes: 1000, Pixels: 7 << 20, Images: 11}
	half := max(2, runtime.GOMAXPROCS(0)) / 2
	for float, bytes := range map[bool]int{false: 3, true: 15} { // a float32 more of each value
		want := int64(8*1000 + 36*(half*7<<20+(max(2, runtime.GOMAXPROCS(0))-half)<<20) + 11*5*7*bytes)
		if got := o.Memory(5*7, float); got != want {
			t.Errorf("a bound of %d bytes, want %d", got, want)
		}
	}
	if got := milliseconds(time.Now().Add(-1500 * time.Millisecond)); got < 1500 || got > 60_000 {
		t.Errorf("%g milliseconds, want 1500 and a little", got)
	}
}

func TestAnAnswerThatIsNoJSONIsAnErrorAndAnUnreadBodyEndsTheConnection(t *testing.T) {
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

func TestOptionsBelowZeroAreRefused(t *testing.T) {
	for name, o := range map[string]Options{"Batch": {Batch: -1}, "Window": {Window: -1}, "Timeout": {Timeout: -5},
		"at most 1024": {Batch: 5000}} {
		if _, err := newServer(context.Background(), &fake{}, o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: %v, want an error about %s", o, err, name)
		}
	}
	for batch, valid := range map[int]bool{1024: true, 1025: false} {
		if err := (Options{Batch: batch}).Validate(); (err == nil) != valid {
			t.Errorf("batches of %d: %v", batch, err)
		}
	}
}
