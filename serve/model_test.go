// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
)

// noise writes PNG files of random pixels, no two of one size.
func noise(t *testing.T, n int) (files []string, raw [][]byte) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 5))
	for i := range n {
		img := image.NewRGBA(image.Rect(0, 0, 31+i, 47-i))
		for k := range img.Pix { // opaque
			img.Pix[k] = uint8(rng.Uint32()) | uint8(k%4/3*255)
		}
		files = append(files, filepath.Join(t.TempDir(), "x.png"))
		raw = append(raw, datatest.PNG(img))
		gomlxtest.NoError(t, os.WriteFile(files[i], raw[i], 0o600))
	}
	return files, raw
}

// described is a backend by its name and description alone.
type described struct {
	compute.Backend
	name, description string
}

func (b described) Name() string        { return b.name }
func (b described) Description() string { return b.description }

func TestParallel_BatchesTakeTheCoresThatTheirBackendUses(t *testing.T) {
	for b, want := range map[described][2]any{
		{name: "Go Backend"}: {runtime.GOMAXPROCS(0), false}, {name: "xla", description: "PJRT cpu"}: {1, true},
		{name: "xla", description: "PJRT CUDA"}: {1, false},
	} {
		workers, all := (&served{Inference: &finetune.Inference{Backend: b}}).Parallel()
		is.Equal(t, fmt.Sprintf("%+v: workers, and whether they take all cores", b), [2]any{workers, all}, want)
	}
	if b := gomlxtest.Backend(); os.Getenv(compute.ConfigEnvVar) == "" {
		is.Equal(t, "the pure-Go backend", b.Name(), "Go Backend")
	}
}

// demo opens a small trained model.
func demo(t *testing.T, b compute.Backend) *finetune.Model {
	t.Helper()
	return gomlxtest.Must(finetune.Open(b, "../examples/cifar100/demo/vit"))(t)
}

// The expected probabilities are from Model.Predict, the path of wepe predict, for images alone, in one request and at
// the same time.
func TestServe_AnswersAsPredictDoes(t *testing.T) {
	m := demo(t, gomlxtest.Backend())
	s, server, _ := start(t, gomlxtest.Must(newServed(m))(t), Options{Batch: 4, BatchTimeout: 100 * time.Millisecond})
	want := gomlxtest.Must(m.Preprocessing())(t)
	is.Equal(t, "preprocessing", s.card.Preprocessing, want)
	for query, want := range map[string]bool{"": false, "?similarity=false": false, "?similarity=true": true} {
		var card map[string]any
		_, raw := ask(t, "GET", server+"/v1/model"+query, nil)
		gomlxtest.NoError(t, json.Unmarshal(raw, &card))
		_, got := card["similarity"]
		is.Equal(t, "/v1/model"+query+" has the similarity of positions", got, want)
	}
	of := m.Source
	for path, name := range map[string]string{"runs/mine/best/step-00000066": "mine", "runs/mine/": "mine", ".": "serve",
		"copies/step-00000066": "step-00000066", "models--owner--vit/snapshots/01ab": "vit"} {
		m.Source.Path, m.Source.Weights.Name = path, "last"
		is.Equal(t, "the name of "+path, gomlxtest.Must(newServed(m))(t).card.Name, name)
	}
	m.Source = of
	for _, scores := range []string{"sigmoid", "none", "softmax"} {
		m.Activation = scores
		c := gomlxtest.Must(newServed(m))(t).card
		is.Equal(t, scores, [2]bool{c.Sigmoid, c.Unscored != ""}, [2]bool{scores == "sigmoid", scores == "none"})
	}
	files, raw := noise(t, 5)
	predicted := gomlxtest.Must(m.Predict(files, len(m.Classes)))(t)
	check := func(i int, entry map[string]any) {
		labels := entry["labels"].([]any)
		is.Equal(t, "labels by default", len(labels), 5)
		for k, label := range labels {
			got, want := label.(map[string]any), predicted[i][k]
			is.Equal(t, fmt.Sprint("image ", i), got["label"], any(want.Name))
			near(t, fmt.Sprint("image ", i), got["probability"], want.Probability, 1e-5)
		}
	}
	alone := func(i int) {
		check(i, images(t, answered(t, server+"/v1/predict", "image/png", raw[i], 200))[0])
	}
	var all sync.WaitGroup
	for i := range raw {
		alone(i)
		all.Go(func() { alone((i + 1) % len(raw)) })
	}
	all.Wait()
	kind, body := form(raw...)
	for i, entry := range images(t, answered(t, server+"/v1/predict", kind, body, 200)) {
		check(i, entry)
	}
	embedded := gomlxtest.Must(m.Embed(files[1]))(t)[0]
	got := vectors(t, answered(t, server+"/v1/embeddings", "image/png", raw[1], 200))
	gomlxtest.NearAbs(t, "features", embedded.Class, got[0], 1e-4)
	attention := answered(t, server+"/v1/attention", "image/png", raw[1], 200)
	sum, weights, c := 0.0, images(t, attention)[0]["weights"].([]any), m.Recipe.Model
	for _, v := range weights {
		sum += v.(float64)
	}
	if len(weights) != c.Rows()*c.Cols() || !(sum > 0.1 && sum < 1) { // the class token keeps the rest
		t.Errorf("%d weights with sum %g, want %d×%d and a sum below 1", len(weights), sum, c.Rows(), c.Cols())
	}
	m.Recipe.Model.Channels = 5
	for _, batch := range []int{1, 3} {
		is.Equal(t, "a batch for images of 5 channels compiles", s.model.Compile(batch) == nil, false)
	}
}

// counting is a backend that counts programs.
type counting struct {
	compute.Backend
	programs int
}

func (b *counting) Builder(name string) compute.Builder {
	b.programs++
	return b.Backend.Builder(name)
}

// Images are fitted to the preprocessing's 37×41 pixels, and resized to the model's 24×24 in the program.
func TestServed_NoRequestCompiles(t *testing.T) {
	gomlxtest.OnGo(t)
	b := &counting{Backend: gomlxtest.Backend()}
	m := demo(t, b)
	m.Preprocess = preprocess.Settings{Resize: preprocess.ResizeExact, Size: [2]int{37, 41}}
	s := gomlxtest.Must(newServed(m))(t)
	for _, batch := range []int{1, 3} {
		gomlxtest.NoError(t, s.Compile(batch))
	}
	compiled := b.programs
	image := gomlxtest.Must(s.PreprocessImage(&data.Image{Height: 5, Width: 7, Pixels: make([]uint8, 3*5*7)}))(t)
	for _, batch := range []int{3, 1} {
		gomlxtest.Must(s.Batch(slices.Repeat([]*data.Image{image}, batch)))(t)
	}
	gomlxtest.Must(s.Attention(image))(t)
	if b.programs != compiled || compiled < 3 {
		t.Errorf("%d programs are compiled before the requests, %d after", compiled, b.programs)
	}
}

// A DHVT has no attention maps; a table of positions of another grid fails for another reason.
func TestServed_OnlyAMissingAttentionMapIsNotFound(t *testing.T) {
	gomlxtest.OnGo(t)
	m := demo(t, gomlxtest.Backend())
	notFound := func(m *finetune.Model) (bool, error) {
		served, image := gomlxtest.Must(newServed(m))(t), &data.Image{Height: 28, Width: 24, Pixels: make([]uint8, 3*28*24)}
		m.Recipe.Model.ImageRows = 28
		_, err := served.Attention(image)
		var f failure
		return errors.As(err, &f) && f.Status == http.StatusNotFound, err
	}
	got, err := notFound(m)
	is.Equal(t, fmt.Sprint("a ViT of another grid: ", err), [2]bool{got, err != nil}, [2]bool{false, true})
	m.Recipe.Architecture, m.Recipe.Model.Position = finetune.DHVT, "none"
	got, err = notFound(m)
	is.Equal(t, fmt.Sprint("a DHVT: ", err), got, true)
}

// Package numeric tests the cosines.
func TestCard_HasTheGridAndTheSimilarityOfItsPositions(t *testing.T) {
	gomlxtest.OnGo(t)
	square := demo(t, gomlxtest.Backend())
	for name, position := range map[string]string{"learned": "learned", "zeros": "wepe;wepe_beta_pos=0", "none": "none"} {
		m := gomlxtest.Must(square.Reinitialized("model.position=" + position + ";model.image_cols=32"))(t)
		files, _ := noise(t, 1)
		gomlxtest.Must(m.Embed(files[0]))(t) // draws its weights
		card := gomlxtest.Must(newServed(m))(t).Card()
		if card.Size != [2]int{24, 32} || card.Grid != [2]int{6, 8} || !strings.HasPrefix(position, card.Position) ||
			(card.Similarity == nil) != (name == "none") {
			t.Errorf("%s: size %v, grid %v, position %s", name, card.Size, card.Grid, card.Position)
		}
		for i, row := range card.Similarity { // with itself: 1, or 0 of zeros
			if len(card.Similarity) != 48 || len(row) != 48 || row[i] != 1000 && name == "learned" {
				t.Errorf("%s: %d positions, of %d the similarity to itself is %d", name, len(card.Similarity), i, row[i])
			}
		}
	}
}

// hostility holds 1,000 silent connections and 20 clients that send images of 25 million pixels again and again, until
// the context is done.
func hostility(ctx context.Context, url string, wait *sync.WaitGroup) {
	const head = "POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: "
	bomb := datatest.ProgressiveJPEG(4987, 4999, 4, nil)
	requests := slices.Repeat([]string{"POST /v1/predict", head + "20971520\r\n\r\n"}, 500)
	requests = append(requests, slices.Repeat([]string{fmt.Sprintf("%s%d\r\n\r\n%s", head, len(bomb), bomb)}, 20)...)
	for _, request := range requests {
		wait.Go(func() {
			for ctx.Err() == nil {
				c, err := net.Dial("tcp", url[len("http://"):])
				if err != nil {
					continue
				}
				forget := context.AfterFunc(ctx, func() { c.Close() })
				_, _ = io.WriteString(c, request)
				_, _ = io.Copy(io.Discard, c) // to the answer, or until the server has had enough
				forget()
				c.Close()
			}
		})
	}
}

// Sixty-four honest clients without and with the attack, in turn, against the whole server with a real model.
func TestServe_HonestClientsKeepTheirLatencyAndTheBoundHolds(t *testing.T) {
	gomlxtest.OnGo(t)
	if testing.Short() {
		t.Skip("seconds of load")
	}
	m := demo(t, gomlxtest.Backend())
	defer m.Finalize()
	ctx, cancel := context.WithCancel(t.Context())
	s := gomlxtest.Must(Handler(ctx, m, Options{}))(t)
	listener := gomlxtest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	<-s.Ready()
	until(func() bool { return len(*s.batcher.sizes.Load()) == 8 })
	url, image := "http://"+listener.Addr().String(), pixels(211, 307, blue)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	round := func(length time.Duration) []time.Duration {
		var clients sync.WaitGroup
		times, end := make([][]time.Duration, 64), time.Now().Add(length)
		for n := range times {
			clients.Go(func() {
				for time.Now().Before(end) {
					begin := time.Now()
					response, err := client.Post(url+"/v1/predict", "image/png", bytes.NewReader(image))
					if err != nil || response.StatusCode != 200 {
						t.Errorf("an honest client got %v, %v", response, err)
						return
					}
					_, _ = io.Copy(io.Discard, response.Body)
					response.Body.Close()
					times[n] = append(times[n], time.Since(begin))
				}
			})
		}
		clients.Wait()
		return slices.Concat(times...)
	}
	round(time.Second) // connects
	p99 := func(all []time.Duration) time.Duration {
		slices.Sort(all)
		return all[len(all)*99/100]
	}
	// What else the machine does falls into one half of a round or another: a fault shows in every round.
	bound, least := 2*s.options.Memory(24*24, false), math.Inf(1)
	for range campaign.Times(4) {
		if least <= 3 {
			break
		}
		used := peak(func() {
			before := p99(round(2 * time.Second))
			attack, stop := context.WithCancel(t.Context())
			var hostile sync.WaitGroup
			hostility(attack, url, &hostile)
			time.Sleep(500 * time.Millisecond)
			under := p99(round(2 * time.Second))
			stop()
			hostile.Wait()
			least = min(least, under.Seconds()/before.Seconds())
			t.Logf("p99 %v without the attack, %v with it", before, under)
		})
		is.Equal(t, fmt.Sprintf("%d MiB of %d hold", used>>20, bound>>20), used <= bound, true)
	}
	is.Equal(t, fmt.Sprintf("p99 at most three times as long (%.2f)", least), least <= 3, true)
	cancel()
	gomlxtest.NoError(t, <-ended)
}
