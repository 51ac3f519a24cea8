// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// bomb is a small body that decompresses to ten mebibytes.
var bomb = sync.OnceValue(func() []byte {
	var zeros bytes.Buffer
	packed := gzip.NewWriter(&zeros)
	_, _ = packed.Write(make([]byte, 10<<20))
	_ = packed.Close()
	return zeros.Bytes()
})

// hostile are invalid responses, in place of the file.
func hostile(s, other *server, rng *rand.Rand) []http.HandlerFunc {
	status := func(code int, headers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.WriteHeader(code)
		}
	}
	send := func(code int, content []byte, headers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			status(code, headers...)(w, r)
			_, _ = w.Write(content)
		}
	}
	size, percent := len(s.content), len(s.content)*rng.IntN(100)/100
	length := fmt.Sprint(size)
	answers := []http.HandlerFunc{
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter, r *http.Request) { // cut anywhere
			w.Header().Set("Content-Length", length)
			_, _ = w.Write(s.content[:percent])
			panic(http.ErrAbortHandler)
		},
		func(w http.ResponseWriter, r *http.Request) { // single bytes, too slow
			for ; r.Context().Err() == nil; time.Sleep(time.Millisecond) {
				_, _ = w.Write(s.content[:1])
			}
		},
		send(http.StatusOK, s.content[:percent]),                             // an apparent end of the file
		send(http.StatusOK, s.content, "Content-Length", fmt.Sprint(size+7)), // more is declared than sent
		send(http.StatusOK, bytes.Repeat([]byte("old"), size/3)),             // another file
		send(http.StatusOK, append(slices.Clone(s.content), 7)),              // with extra bytes
		send(http.StatusOK, bomb(), "Content-Encoding", "gzip"),              // a bomb, unless it is left compressed
		send(http.StatusPartialContent, s.content, "Content-Range", "bytes 0-1/2"),
		send(http.StatusPartialContent, s.content[percent:], "Content-Range", fmt.Sprintf("bytes %d-%d/%d", percent, size-1,
			size)),
		send(http.StatusPartialContent, s.content[:9], "Content-Range", "bytes 99999999999999999999-1/1"),
		status(http.StatusOK, "Content-Length", "4611686018427387904"),
		status(http.StatusFound, "Location", other.URL+"/file.bin"),
		status(http.StatusTemporaryRedirect, "Location", other.URL+"/wrong"),
		status(http.StatusFound, "Location", "http://nowhere.invalid/x"),
		status(http.StatusFound, "Location", "/file.bin"),
		status(http.StatusFound, "Location", "file:///etc/hostname"),
		status(http.StatusFound),
		status(http.StatusTooManyRequests, "Retry-After", "0"),
		status(http.StatusTooManyRequests, "Retry-After", "86400"),
	}
	for _, code := range []int{204, 206, 304, 401, 403, 404, 408, 410, 416, 418, 500, 502, 503, 504} {
		answers = append(answers, status(code))
	}
	return answers
}

// Up to four hostile responses, or nothing else, and then a correct server: the file is complete or absent, the next
// call to a correct server downloads it, and the token is sent only to its origin.
func TestAfterAnyServerResponseTheFileIsCompleteOrAbsent(t *testing.T) {
	rng, arrived, refused := campaign.Rand(8), 0, 0
	s, other := newServer(t, 40_009), newServer(t, 40_009) // of equal content
	origin := gomlxtest.Must(url.Parse(s.URL))(t)
	fetch := func(idle time.Duration, path string) error {
		client := NewClient(origin, "secret")
		defer client.Close()
		client.Idle, client.Pause = idle, time.Millisecond
		return client.Fetch(t.Context(), s.file(), path, nil)
	}
	other.before = func(w http.ResponseWriter, r *http.Request) {
		if token := r.Header.Get("Authorization"); token != "" {
			t.Errorf("another host was sent %q", token)
		}
		if r.URL.Path == "/wrong" {
			_, _ = w.Write([]byte("wrong"))
		}
	}
	dir := t.TempDir()
	for i := range campaign.Times(60) {
		answers := hostile(s, other, rng)
		plan, always := rng.Perm(len(answers))[:1+rng.IntN(4)], rng.IntN(4) == 0
		asked := 0
		s.before = func(w http.ResponseWriter, r *http.Request) {
			if k := asked; k < len(plan) || always {
				asked++
				answers[plan[k%len(plan)]](w, r)
			}
		}
		path := filepath.Join(dir, fmt.Sprint(i))
		err := fetch(60*time.Millisecond, path)
		got, _ := os.ReadFile(path)
		switch {
		case err == nil && !bytes.Equal(got, s.content), err != nil && got != nil:
			t.Fatalf("scenario %d, answers %v: %d bytes arrived, %v", i, plan, len(got), err)
		case err == nil:
			arrived++
		case strings.Contains(err.Error(), "\n"):
			t.Errorf("scenario %d, answers %v: %q", i, plan, err)
		default:
			refused++
		}
		s.seen() // waits for the server
		s.before = nil
		if err := fetch(20*time.Second, path); err != nil {
			t.Fatalf("scenario %d, answers %v: then from a sound server: %v", i, plan, err)
		}
		for _, left := range []string{path, path + ".lock"} {
			if err := os.Remove(left); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
	}
	if arrived == 0 || refused == 0 {
		t.Errorf("%d files arrived, %d were refused: one of the two was not tried", arrived, refused)
	}
}

func TestNothingLeaksFromDownloadsThatEndAnywhere(t *testing.T) {
	s, dir, rng := newServer(t, 300_007), t.TempDir(), campaign.Rand(11)
	f := s.file()
	campaign.Leaks(t, 20, func(int) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		client, stop := NewClient(nil, ""), rng.Int64N(400_000)
		defer client.Close()
		path := filepath.Join(dir, "file.bin")
		_ = client.Fetch(ctx, f, path, func(done, _ int64) {
			if done > stop {
				cancel()
			}
		})
		_ = os.Remove(path)
		_ = os.Remove(path + ".incomplete")
	})
}

// Whatever place a server states for its part, the file arrives with the right content.
func FuzzContentRange(f *testing.F) {
	places := []string{"bytes 5-9/10", "bytes 4-9/10", "bytes +5-", "bytes 5", "bytes -5-9/10", "items 5-9/10", ""}
	content, path := []byte("0123456789"), filepath.Join(f.TempDir(), "file")
	campaign.Fuzz(f, places, func(t *testing.T, place string) {
		_ = os.Remove(path)
		gomlxtest.NoError(t, os.WriteFile(path+".incomplete", content[:5], 0o644))
		c := NewClient(nil, "")
		c.Pause = 0
		c.http.Transport = roundTrip(func(r *http.Request) *http.Response {
			w := httptest.NewRecorder()
			if r.Header.Get("Range") == "" {
				_, _ = w.Write(content)
				return w.Result()
			}
			w.Header()["Content-Range"] = []string{place}
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(content[5:])
			return w.Result()
		})
		sum := sha256.Sum256(content)
		file := File{URL: "https://hub.example/file", Hash: hex.EncodeToString(sum[:]), Limit: 10}
		err := c.Fetch(t.Context(), file, path, nil)
		if got, _ := os.ReadFile(path); err != nil || !bytes.Equal(got, content) {
			t.Fatalf("%q: %q, %v", place, got, err)
		}
	})
}

type roundTrip func(*http.Request) *http.Response

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }
