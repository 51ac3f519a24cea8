// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// noise writes PNG files of random pixels, no two of one size.
func noise(t *testing.T, n int) (files []string, raw [][]byte) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 5))
	for i := range n {
		img := image.NewRGBA(image.Rect(0, 0, 31+i, 47-i))
		for k := range img.Bounds().Dx() * img.Bounds().Dy() {
			img.Set(k%img.Bounds().Dx(), k/img.Bounds().Dx(),
				color.RGBA{uint8(rng.Uint32()), uint8(rng.Uint32()), uint8(20 * i), 255})
		}
		files = append(files, filepath.Join(t.TempDir(), "x.png"))
		raw = append(raw, datatest.PNG(img))
		if err := os.WriteFile(files[i], raw[i], 0o600); err != nil {
			t.Fatal(err)
		}
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

func TestBatchesTakeTheCoresThatTheirBackendUses(t *testing.T) {
	cores := runtime.GOMAXPROCS(0)
	for _, c := range []struct {
		backend  compute.Backend
		workers  int
		allCores bool
	}{
		{described{name: "Go Backend"}, cores, false}, {described{name: "xla", description: "PJRT cpu"}, 1, true},
		{described{name: "xla", description: "PJRT CUDA"}, 1, false},
	} {
		if workers, all := parallel(c.backend); workers != c.workers || all != c.allCores {
			t.Errorf("%+v: %d workers, all cores: %v", c.backend, workers, all)
		}
	}
	if n := runtime.GOMAXPROCS(0); n != cores {
		t.Errorf("%d processors are used, %d before", n, cores)
	}
	if b := gomlxtest.Backend(); os.Getenv(compute.ConfigEnvVar) == "" && b.Name() != "Go Backend" {
		t.Errorf("the pure-Go backend is called %q", b.Name())
	}
}

// The expected probabilities are from Model.Predict, the path of wepe predict.
func TestAServedModelAnswersAsPredictDoesAloneAndInABatch(t *testing.T) {
	m := gomlxtest.Must(finetune.Open(gomlxtest.Backend(), "../examples/cifar100/demo/vit"))(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := gomlxtest.Must(Handler(ctx, m, Options{Batch: 4, Window: 100 * time.Millisecond}))(t)
	server := httptest.NewServer(s)
	defer server.Close()
	<-s.Ready()
	if want, err := m.Preprocessing(); err != nil || s.card.Preprocessing != want {
		t.Errorf("preprocessing %+v, want %+v, %v", s.card.Preprocessing, want, err)
	}
	if s.card.Sigmoid {
		t.Error("a model of one class per image has independent probabilities")
	}
	m.Scores = "sigmoid"
	if served := gomlxtest.Must(newServed(m))(t); !served.card.Sigmoid {
		t.Error("a model of several labels per image has probabilities of one")
	}
	m.Scores = "none"
	if served := gomlxtest.Must(newServed(m))(t); served.card.Unscored == "" {
		t.Error("a regression has probabilities")
	}
	m.Scores = "softmax"
	files, raw := noise(t, 5)
	want := gomlxtest.Must(m.Predict(files, len(m.Classes)))(t)
	near := func(what string, i int, entry map[string]any) {
		for k, label := range entry["labels"].([]any) {
			got := label.(map[string]any)
			if p := got["probability"].(float64); got["label"] != want[i][k].Name ||
				!(math.Abs(p-want[i][k].Probability) <= 1e-5) {
				t.Errorf("%s, image %d, label %d: %v, want %+v", what, i, k, got, want[i][k])
			}
		}
	}
	for i := range raw {
		_, got := post(t, server.URL+"/v1/predict?top=5", "image/png", bytes.NewReader(raw[i]))
		near("alone", i, images(t, got)[0])
	}
	kind, body := form(t, raw...)
	_, got := post(t, server.URL+"/v1/predict?top=5", kind, body)
	for i, entry := range images(t, got) {
		near("in one request", i, entry)
	}
	var all sync.WaitGroup
	for i := range raw {
		all.Go(func() {
			_, got := post(t, server.URL+"/v1/predict?top=5", "image/png", bytes.NewReader(raw[i]))
			near("at the same time", i, images(t, got)[0])
		})
	}
	all.Wait()
	embedded := gomlxtest.Must(m.Embed(files[1]))(t)[0]
	_, got = post(t, server.URL+"/v1/embeddings", "image/png", bytes.NewReader(raw[1]))
	for k, v := range vectors(t, got)[0] {
		if !(math.Abs(v-float64(embedded.Class[k])) <= 1e-4*(1+math.Abs(float64(embedded.Class[k])))) {
			t.Errorf("feature %d: %v, want %g", k, v, embedded.Class[k])
		}
	}
	_, got = post(t, server.URL+"/v1/attention", "image/png", bytes.NewReader(raw[1]))
	sum := 0.0
	weights := images(t, got)[0]["weights"].([]any)
	for _, v := range weights {
		sum += v.(float64)
	}
	c := m.Recipe.Model
	if len(weights) != c.Rows()*c.Cols() || !(sum > 0.1 && sum < 1) { // the class token keeps the rest
		t.Errorf("%d weights with sum %g, want %d×%d and a sum below 1", len(weights), sum, c.Rows(), c.Cols())
	}
	m.Recipe.Model.Channels = 5
	for _, batch := range []int{1, 3} {
		if err := s.model.Compile(batch); err == nil {
			t.Errorf("batch %d compiles for images of 5 channels", batch)
		}
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
func TestNoRequestCompiles(t *testing.T) {
	gomlxtest.OnGo(t)
	b := &counting{Backend: gomlxtest.Backend()}
	m := gomlxtest.Must(finetune.Open(b, "../examples/cifar100/demo/vit"))(t)
	m.Preprocess = preprocess.Settings{Fit: preprocess.FitExact, Size: [2]int{37, 41}}
	s := gomlxtest.Must(newServed(m))(t)
	for _, batch := range []int{1, 3} {
		if err := s.Compile(batch); err != nil {
			t.Fatal(err)
		}
	}
	compiled := b.programs
	image := gomlxtest.Must(s.Fit(&data.Image{Height: 5, Width: 7, Pixels: make([]uint8, 3*5*7)}))(t)
	for _, batch := range []int{3, 1} {
		gomlxtest.Must(s.Batch(slices.Repeat([]*data.Image{image}, batch)))(t)
	}
	gomlxtest.Must(s.Attention(image))(t)
	if b.programs != compiled || compiled < 3 {
		t.Errorf("%d programs are compiled before the requests, %d after", compiled, b.programs)
	}
}

// A DHVT has no attention maps; a table of positions of another grid fails for another reason.
func TestOnlyAMissingAttentionMapIsNotFound(t *testing.T) {
	gomlxtest.OnGo(t)
	m := gomlxtest.Must(finetune.Open(gomlxtest.Backend(), "../examples/cifar100/demo/vit"))(t)
	notFound := func(m *finetune.Model) (bool, error) {
		served, image := gomlxtest.Must(newServed(m))(t), &data.Image{Height: 28, Width: 24, Pixels: make([]uint8, 3*28*24)}
		m.Recipe.Model.ImageRows = 28
		_, err := served.Attention(image)
		var f failure
		return errors.As(err, &f) && f.Status == http.StatusNotFound, err
	}
	if got, err := notFound(m); got || err == nil {
		t.Errorf("a ViT of another grid: %v", err)
	}
	m.Recipe.Architecture, m.Recipe.Model.Position = finetune.DHVT, "none"
	if got, err := notFound(m); !got {
		t.Errorf("a DHVT: %v, want not found", err)
	}
}

func TestVectorsOfZerosHaveNoCosines(t *testing.T) {
	gomlxtest.OnGo(t)
	m := gomlxtest.Must(finetune.Open(gomlxtest.Backend(), "../examples/cifar100/demo/vit"))(t)
	m = gomlxtest.Must(m.With("model.position=wepe;wepe_beta_pos=0"))(t)
	files, _ := noise(t, 1)
	gomlxtest.Must(m.Embed(files[0]))(t) // draws its weights
	similarity := gomlxtest.Must(positions(m))(t)
	if len(similarity) != 36 || slices.ContainsFunc(slices.Concat(similarity...), func(x int) bool { return x != 0 }) {
		t.Errorf("cosines %v, want 36·36 zeros", similarity)
	}
}

// The cosines are computed again from the model's table, which has a row for each patch of the grid.
func TestACardHasTheGridAndTheSimilarityOfItsPositions(t *testing.T) {
	gomlxtest.OnGo(t)
	for position, similar := range map[string]bool{"learned": true, "none": false} {
		square := gomlxtest.Must(finetune.Open(gomlxtest.Backend(), "../examples/cifar100/demo/vit"))(t)
		m := gomlxtest.Must(square.With("model.position=" + position + ";model.image_cols=32"))(t)
		files, _ := noise(t, 1)
		gomlxtest.Must(m.Embed(files[0]))(t) // draws its weights
		card := gomlxtest.Must(newServed(m))(t).Card()
		if card.Size != [2]int{24, 32} || card.Grid != [2]int{6, 8} || card.Position != position {
			t.Errorf("%s: size %v, grid %v, position %s", position, card.Size, card.Grid, card.Position)
		}
		if !similar {
			if card.Similarity != nil {
				t.Errorf("positions of none have cosines")
			}
			continue
		}
		_, _, vectors, err := m.Encoding()
		width := len(vectors) / 48
		if err != nil || len(card.Similarity) != 48 || width != 96 {
			t.Fatalf("%d rows of cosines, width %d, %v", len(card.Similarity), width, err)
		}
		for i, row := range card.Similarity {
			for j, got := range row {
				var dot, a, b float64
				for k := range width {
					x, y := vectors[i*width+k], vectors[j*width+k]
					dot, a, b = dot+x*y, a+x*x, b+y*y
				}
				if want := 1000 * dot / math.Sqrt(a*b); len(row) != 48 || !(math.Abs(float64(got)-want) <= 0.5+1e-6) {
					t.Errorf("positions %d and %d: %d, want %g", i, j, got, want)
				}
			}
		}
	}
}
