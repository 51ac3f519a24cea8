// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
)

// two has the mean colour as features, and twice that as its class token.
type two struct{ fake }

func (m *two) Batch(images []*data.Image) ([]finetune.Output, error) {
	out, err := m.fake.Batch(images)
	for i := range out {
		for _, v := range out[i].Mean {
			out[i].Class = append(out[i].Class, 2*v)
		}
	}
	return out, err
}

// The form of requests and responses is that of OpenAI's reference of embeddings.
func TestEmbeddings_AreOfImagesInJSON(t *testing.T) {
	_, url, _ := start(t, &two{}, Options{})
	first := base64.StdEncoding.EncodeToString(dot)
	second := "data:image/png;base64," + base64.StdEncoding.EncodeToString(pixels(2, 7, blue))
	for name, c := range map[string]struct {
		request map[string]any
		want    [][]float64
	}{
		"one":         {map[string]any{"input": first, "model": "fake"}, [][]float64{{10, 4, 2}}},
		"a data URL":  {map[string]any{"input": second}, [][]float64{{2, 4, 12}}},
		"two":         {map[string]any{"input": []string{first, second}, "user": "u"}, [][]float64{{10, 4, 2}, {2, 4, 12}}},
		"of the mean": {map[string]any{"input": second, "of": "mean", "encoding_format": "float"}, [][]float64{{1, 2, 6}}},
		"in base64": {map[string]any{"input": []string{second, first}, "encoding_format": "base64"},
			[][]float64{{2, 4, 12}, {10, 4, 2}}},
	} {
		raw, _ := json.Marshal(c.request)
		code, got := post(t, url+"/v1/embeddings", "application/json", bytes.NewReader(raw))
		list, _ := got["data"].([]any)
		if code != 200 || got["object"] != "list" || got["model"] != "fake" || len(list) != len(c.want) {
			t.Fatalf("%s: status %d, %v", name, code, got)
		}
		tokens := float64(len(c.want) * 2 * 3) // the fake's grid
		if used := got["usage"].(map[string]any); used["prompt_tokens"] != tokens || used["total_tokens"] != tokens {
			t.Errorf("%s: usage %v, want %g", name, used, tokens)
		}
		for i, entry := range list {
			e := entry.(map[string]any)
			if e["object"] != "embedding" || e["index"] != float64(i) {
				t.Errorf("%s: entry %d is %v", name, i, e)
			}
			for k, want := range c.want[i] {
				var v float64
				switch vector := e["embedding"].(type) {
				case []any:
					v = vector[k].(float64)
				case string:
					raw, err := base64.StdEncoding.DecodeString(vector)
					if err != nil || len(raw) != 12 {
						t.Fatalf("%s: %q, %v", name, vector, err)
					}
					v = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*k:])))
				}
				if !(math.Abs(v-want) <= 1e-5) {
					t.Errorf("%s: image %d has %g at %d, want %g", name, i, v, k, want)
				}
			}
		}
	}
}

// A model without a head has embeddings, one without a class token those of the mean, one without features none.
func TestEmbeddings_AreServedOfAModelWithoutClasses(t *testing.T) {
	s, url, _ := start(t, &fake{}, Options{})
	s.card.Unscored = "no head"
	_, blind, _ := start(t, &blind{}, Options{})
	for route, want := range map[string]int{url + "/v1/predict": 404, url + "/v1/embeddings": 200,
		url + "/v1/embeddings?of=class": 404, blind + "/v1/embeddings": 404} {
		if code, got := post(t, route, "", bytes.NewReader(dot)); code != want {
			t.Errorf("%s: status %d, %v; want %d", route, code, got, want)
		}
	}
}

// blind has no features.
type blind struct{ fake }

func (b *blind) Batch(images []*data.Image) ([]finetune.Output, error) {
	return make([]finetune.Output, len(images)), nil
}

// Any body is answered with a status of the list in the package's documentation, and frees what it took.
func FuzzRequest(f *testing.F) {
	kind, two := form(dot, pixels(5, 3, blue))
	f.Add("/v1/predict", "top=2", kind, two.Bytes())
	f.Add("/v1/embeddings", "of=mean", "application/json",
		[]byte(`{"input":["data:image/png;base64,AAAA"],"model":"fake"}`))
	f.Add("/v1/attention", "", "image/png", pixels(2, 2, red))
	s, err := newServer(f.Context(), &fake{}, Options{Bytes: 1 << 16, Pixels: 1 << 12, Parts: 5})
	if err != nil {
		f.Fatal(err)
	}
	<-s.Ready()
	statuses := map[int]bool{200: true, 301: true, 307: true, 400: true, 404: true, 405: true, 413: true, 415: true,
		422: true,
		500: true} // of 13 rows, by the fake
	f.Fuzz(func(t *testing.T, path, query, kind string, body []byte) {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/", bytes.NewReader(body))
		r.URL.Path, r.URL.RawQuery = path, query
		r.Header.Set("Content-Type", kind)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if !statuses[w.Code] || s.bytes.free != bodies*1<<16 || s.images.free != 256 || s.batcher.arriving.Load() != 0 {
			t.Errorf("status %d, %d bytes and %d images are free, %d arrive", w.Code, s.bytes.free, s.images.free,
				s.batcher.arriving.Load())
		}
	})
}

// FuzzEmbeddings: images of a request are bytes that it contains in base64; anything else is refused by a status.
func FuzzEmbeddings(f *testing.F) {
	for _, request := range []string{`{"input":"data:image/png;base64,AAAA","model":"fake"}`, `{"input":["AAAA","//8="]}`,
		`{"input":"data:,","encoding_format":"base64"}`, `{"input":[[7]]}`} {
		f.Add(request)
	}
	f.Fuzz(func(t *testing.T, request string) {
		files, err := new(wanted).parse([]byte(request), card{Name: "runs/fake"})
		if failed := (failure{}); err != nil && (!errors.As(err, &failed) || failed.Status != 400 && failed.Status != 404) ||
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
