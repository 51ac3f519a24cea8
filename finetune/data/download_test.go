// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// server is a file server that misbehaves as told.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	content  []byte
	etag     string
	cut      int           // bytes of the body after which the connection is dropped; 0 never
	stall    time.Duration // pause in the middle of the body
	chunked  bool          // hide the length
	requests []string      // Range of each request
	sent     int
}

func newServer(t *testing.T, size int) *server {
	content := make([]byte, size)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range content {
		content[i] = byte(r.UintN(256))
	}
	s := &server{content: content, etag: `"v1"`}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *server) serve(w http.ResponseWriter, request *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := request.Header.Get("Range")
	s.requests = append(s.requests, wanted)
	if s.etag != "" {
		w.Header().Set("ETag", s.etag)
	}
	first, status := 0, http.StatusOK
	if wanted != "" && request.Header.Get("If-Range") == s.etag {
		if _, err := fmt.Sscanf(wanted, "bytes=%d-", &first); err != nil || first >= len(s.content) {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		}
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, len(s.content)-1, len(s.content)))
		status = http.StatusPartialContent
	}
	body := s.content[first:]
	if !s.chunked {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	}
	w.WriteHeader(status)
	write := func(b []byte) {
		n, _ := w.Write(b)
		s.sent += n
		w.(http.Flusher).Flush()
	}
	switch {
	case s.cut > 0 && s.cut < len(body):
		write(body[:s.cut])
		panic(http.ErrAbortHandler)
	case s.stall > 0:
		write(body[:len(body)/2])
		select {
		case <-time.After(s.stall):
		case <-request.Context().Done():
			return
		}
		body = body[len(body)/2:]
	}
	write(body)
}

// seen returns the ranges asked for and the bytes sent, once no request is being served.
func (s *server) seen() (requests []string, sent int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests, s.sent
}

// remote is the server's present content.
func (s *server) remote() remote {
	sum := sha256.Sum256(s.content)
	return remote{url: s.URL + "/file.bin", sha256: hex.EncodeToString(sum[:]), limit: 1 << 22, idle: 5 * time.Second}
}

func silent(int64, int64) {}

// arrived checks that the file is whole and alone, but for the lock.
func arrived(t *testing.T, file string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes arrived (%v), want the server's %d", len(got), err, len(want))
	}
	left, _ := filepath.Glob(file + ".incomplete*")
	if len(left) > 0 {
		t.Errorf("%v is left behind", left)
	}
}

// absent checks that nothing carries the final name.
func absent(t *testing.T, file string) {
	t.Helper()
	if _, err := os.Stat(file); err == nil {
		t.Errorf("%s exists after a failure", file)
	}
}

func TestFetchBringsTheFileAndReportsProgress(t *testing.T) {
	s := newServer(t, 700_001)
	file := filepath.Join(t.TempDir(), "new", "file.bin")
	last, calls := int64(0), 0
	err := s.remote().fetch(t.Context(), file, func(done, total int64) {
		if done < last || total != 700_001 {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		last, calls = done, calls+1
	})
	if err != nil {
		t.Fatal(err)
	}
	arrived(t, file, s.content)
	if last != 700_001 || calls < 3 {
		t.Errorf("progress ended at %d after %d calls", last, calls)
	}
	err = s.remote().fetch(t.Context(), file, silent)
	if requests, _ := s.seen(); err != nil || len(requests) != 1 {
		t.Errorf("a second call made a request (%d in all) or failed: %v", len(requests), err)
	}
}

func TestFetchResumesACutConnectionWithoutFetchingAnythingTwice(t *testing.T) {
	for percent := 1; percent < 100; percent += 14 {
		s := newServer(t, 200_003)
		s.cut = len(s.content) * percent / 100
		file := filepath.Join(t.TempDir(), "file.bin")
		if err := s.remote().fetch(t.Context(), file, silent); err != nil {
			t.Fatalf("cut at %d%%: %v", percent, err)
		}
		arrived(t, file, s.content)
		if requests, sent := s.seen(); len(requests) < 2 || requests[1] == "" || sent != len(s.content) {
			t.Errorf("cut at %d%%: requests %q, %d bytes sent of %d", percent, requests, sent, len(s.content))
		}
	}
}

func TestFetchContinuesWhatAnInterruptedCallLeft(t *testing.T) {
	s := newServer(t, 900_001)
	s.stall = time.Minute
	file := filepath.Join(t.TempDir(), "file.bin")
	ctx, cancel := context.WithCancel(t.Context())
	err := s.remote().fetch(ctx, file, func(done, _ int64) {
		if done >= int64(len(s.content)/2) {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want the cancellation", err)
	}
	absent(t, file)
	s.mu.Lock()
	s.stall, s.sent = 0, 0
	s.mu.Unlock()
	if err := s.remote().fetch(t.Context(), file, silent); err != nil {
		t.Fatal(err)
	}
	arrived(t, file, s.content)
	if _, sent := s.seen(); sent != len(s.content)-len(s.content)/2 {
		t.Errorf("%d bytes sent in the second call, want the other half of %d", sent, len(s.content))
	}
}

func TestFetchStartsOverWhenTheServersFileHasChanged(t *testing.T) {
	s := newServer(t, 300_007)
	file := filepath.Join(t.TempDir(), "file.bin")
	leave(t, file, bytes.Repeat([]byte("old"), 1000), `"v0"`)
	if err := s.remote().fetch(t.Context(), file, silent); err != nil {
		t.Fatal(err)
	}
	arrived(t, file, s.content)
}

// leave makes the state of an interrupted call.
func leave(t *testing.T, file string, received []byte, etag string) {
	t.Helper()
	for name, raw := range map[string][]byte{".incomplete": received, ".incomplete.etag": []byte(etag)} {
		if err := os.WriteFile(file+name, raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFetchAnswersRangeNotSatisfiable(t *testing.T) {
	for name, received := range map[string]func(content []byte) []byte{
		"whole_already_is_kept":    func(content []byte) []byte { return content },
		"too_long_is_started_over": func(content []byte) []byte { return append(bytes.Clone(content), 7) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, 30_011)
			file := filepath.Join(t.TempDir(), "file.bin")
			left := received(s.content)
			leave(t, file, left, s.etag)
			if err := s.remote().fetch(t.Context(), file, silent); err != nil {
				t.Fatal(err)
			}
			arrived(t, file, s.content)
			_, sent := s.seen()
			if kept := len(left) == len(s.content); kept != (sent == 0) {
				t.Errorf("%d bytes were sent for a part of %d of %d", sent, len(left), len(s.content))
			}
		})
	}
}

func TestFetchWithoutAVersionNameStartsOver(t *testing.T) {
	for _, etag := range []string{"", `W/"weak"`} {
		s := newServer(t, 30_011)
		s.etag = etag
		file := filepath.Join(t.TempDir(), "file.bin")
		leave(t, file, []byte("something"), "")
		if err := s.remote().fetch(t.Context(), file, silent); err != nil {
			t.Fatal(err)
		}
		arrived(t, file, s.content)
		if requests, _ := s.seen(); requests[0] != "" {
			t.Errorf("etag %q: asked for %q", etag, requests[0])
		}
	}
}

func TestFetchRefusesInOneLineAndLeavesNothingUnderTheFinalName(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*server, *remote)
		want   string
	}{
		"wrong_hash":    {func(_ *server, r *remote) { r.sha256 = strings.Repeat("0", 64) }, "sha256"},
		"not_found":     {func(s *server, r *remote) { s.Config.Handler = http.NotFoundHandler() }, "404"},
		"too_large":     {func(_ *server, r *remote) { r.limit = 1000 }, "offers 30011 bytes"},
		"too_large_hid": {func(s *server, r *remote) { s.chunked, r.limit = true, 1000 }, "more than 1000"},
		"offline":       {func(s *server, _ *remote) { s.Close() }, "network"},
		"plain_http":    {func(_ *server, r *remote) { r.url = "http://nowhere.invalid/x" }, "not https"},
		"redirected": {func(s *server, _ *remote) {
			s.Config.Handler = http.RedirectHandler("http://nowhere.invalid/x", http.StatusFound)
		}, "not https"},
		"stalled": {func(s *server, r *remote) { s.stall, r.idle = time.Minute, 50*time.Millisecond }, "no data for 50ms"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, 30_011)
			r := s.remote()
			c.change(s, &r)
			file := filepath.Join(t.TempDir(), "file.bin")
			start := time.Now()
			err := r.fetch(t.Context(), file, silent)
			if err == nil || !contains(err.Error(), c.want) || contains(err.Error(), "\n") {
				t.Errorf("error %v, want one line that says %q", err, c.want)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
			absent(t, file)
		})
	}
}

func TestFetchDoesNotTouchAnotherFileOfThatName(t *testing.T) {
	s := newServer(t, 101)
	file := filepath.Join(t.TempDir(), "file.bin")
	if err := os.WriteFile(file, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.remote().fetch(t.Context(), file, silent); err == nil || !contains(err.Error(), "another file") {
		t.Errorf("error %v", err)
	}
	if got, _ := os.ReadFile(file); string(got) != "mine" {
		t.Errorf("the file is now %q", got)
	}
}

func TestTwoFetchesAtOnceShareOneTransfer(t *testing.T) {
	s := newServer(t, 300_007)
	file := filepath.Join(t.TempDir(), "file.bin")
	r := s.remote()
	results := make(chan error, 2)
	for range 2 {
		go func() { results <- r.fetch(t.Context(), file, silent) }()
	}
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	arrived(t, file, s.content)
	if requests, _ := s.seen(); len(requests) != 1 {
		t.Errorf("%d requests, want 1", len(requests))
	}
}
