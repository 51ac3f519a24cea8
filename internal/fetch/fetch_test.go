// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
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
	cut      int                                           // bytes of a body after which the connection drops; 0 never
	stall    time.Duration                                 // pause in the middle of the body
	chunked  bool                                          // hide the length
	before   func(http.ResponseWriter, *http.Request) bool // answers instead, if it returns true
	requests []string                                      // Range of each request
	sent     int
}

func newServer(t *testing.T, size int) *server {
	content := make([]byte, size)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range content {
		content[i] = byte(r.UintN(256))
	}
	s := &server{content: content}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *server) serve(w http.ResponseWriter, request *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := request.Header.Get("Range")
	s.requests = append(s.requests, wanted)
	if s.before != nil && s.before(w, request) {
		return
	}
	first, status := 0, http.StatusOK
	if wanted != "" {
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

// setStall changes the pause and forgets what was sent.
func (s *server) setStall(stall time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stall, s.sent = stall, 0
}

// file is the server's present content.
func (s *server) file() File {
	sum := sha256.Sum256(s.content)
	return File{URL: s.URL + "/file.bin", Hash: hex.EncodeToString(sum[:]), Limit: 1 << 22}
}

// fetch brings a file by a client in a hurry.
func fetch(t *testing.T, f File, path string) error {
	return hurried(t).Fetch(t.Context(), f, path, nil)
}

func hurried(t *testing.T) *Client {
	c := NewClient(nil, "")
	c.Idle, c.Pause = 5*time.Second, time.Millisecond
	t.Cleanup(c.Close)
	return c
}

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
	path := filepath.Join(t.TempDir(), "new", "file.bin")
	last, calls := int64(0), 0
	err := hurried(t).Fetch(t.Context(), s.file(), path, func(done, total int64) {
		if done < last || total != 700_001 {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		last, calls = done, calls+1
	})
	if err != nil {
		t.Fatal(err)
	}
	arrived(t, path, s.content)
	if last != 700_001 || calls < 3 {
		t.Errorf("progress ended at %d after %d calls", last, calls)
	}
	err = fetch(t, s.file(), path)
	if requests, _ := s.seen(); err != nil || len(requests) != 1 {
		t.Errorf("a second call made a request (%d in all) or failed: %v", len(requests), err)
	}
}

func TestFetchResumesACutConnectionWithoutFetchingAnythingTwice(t *testing.T) {
	for percent := 1; percent < 100; percent += 3 {
		s := newServer(t, 20_011)
		s.cut = len(s.content) * percent / 100
		path := filepath.Join(t.TempDir(), "file.bin")
		if err := fetch(t, s.file(), path); err != nil {
			t.Fatalf("cut at %d%%: %v", percent, err)
		}
		arrived(t, path, s.content)
		if requests, sent := s.seen(); len(requests) < 2 || requests[1] == "" || sent != len(s.content) {
			t.Errorf("cut at %d%%: requests %q, %d bytes sent of %d", percent, requests, sent, len(s.content))
		}
	}
}

func TestFetchContinuesWhatAnInterruptedCallLeft(t *testing.T) {
	s := newServer(t, 900_001)
	s.stall = time.Minute
	path := filepath.Join(t.TempDir(), "file.bin")
	ctx, cancel := context.WithCancel(t.Context())
	err := hurried(t).Fetch(ctx, s.file(), path, func(done, _ int64) {
		if done >= int64(len(s.content)/2) {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want the cancellation", err)
	}
	absent(t, path)
	s.setStall(0)
	if err := fetch(t, s.file(), path); err != nil {
		t.Fatal(err)
	}
	arrived(t, path, s.content)
	if _, sent := s.seen(); sent != len(s.content)-len(s.content)/2 {
		t.Errorf("%d bytes sent in the second call, want the other half of %d", sent, len(s.content))
	}
}

// What an earlier call left may be whole, or of another version, or zeros, as some file systems leave after a power cut.
func TestFetchUsesOrDropsWhatAnEarlierCallLeft(t *testing.T) {
	s := newServer(t, 30_011)
	for name, c := range map[string]struct {
		left     []byte
		requests []string
	}{
		"a_beginning":     {s.content[:7001], []string{"bytes=7001-"}},
		"all_of_it":       {s.content, []string{"bytes=30011-"}}, // answered by 416
		"another_version": {bytes.Repeat([]byte("old"), 1000), []string{"bytes=3000-", ""}},
		"zeros":           {make([]byte, 7001), []string{"bytes=7001-", ""}},
		"too_much":        {append(bytes.Clone(s.content), 7), []string{"bytes=30012-", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, 30_011)
			path := filepath.Join(t.TempDir(), "file.bin")
			if err := os.WriteFile(path+".incomplete", c.left, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := fetch(t, s.file(), path); err != nil {
				t.Fatal(err)
			}
			arrived(t, path, s.content)
			if requests, _ := s.seen(); !slices.Equal(requests, c.requests) {
				t.Errorf("requests %q, want %q", requests, c.requests)
			}
		})
	}
}

// A file that changes between two requests is fetched once more from the start.
func TestFetchStartsOverWhenTheFileChangesMeanwhile(t *testing.T) {
	s := newServer(t, 30_011)
	f, whole := s.file(), s.content
	s.content, s.cut = bytes.Repeat([]byte("old"), 10_000), 10_007
	s.before = func(http.ResponseWriter, *http.Request) bool {
		if len(s.requests) > 1 {
			s.content, s.cut = whole, 0
		}
		return false
	}
	path := filepath.Join(t.TempDir(), "file.bin")
	if err := fetch(t, f, path); err != nil {
		t.Fatal(err)
	}
	arrived(t, path, whole)
	if requests, _ := s.seen(); !slices.Equal(requests, []string{"", "bytes=10007-", ""}) {
		t.Errorf("requests %q", requests)
	}
}

func TestFetchTriesAgainWhatFailsForAPassingReason(t *testing.T) {
	status := func(code int, header ...string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			if len(header) > 0 {
				w.Header().Set(header[0], header[1])
			}
			w.WriteHeader(code)
		}
	}
	for name, misbehave := range map[string]func(http.ResponseWriter){
		"408":            status(http.StatusRequestTimeout),
		"429":            status(http.StatusTooManyRequests, "Retry-After", "0"),
		"500":            status(http.StatusInternalServerError),
		"502":            status(http.StatusBadGateway),
		"503":            status(http.StatusServiceUnavailable, "Retry-After", "Mon, 02 Jan 2006 15:04:05 GMT"),
		"504":            status(http.StatusGatewayTimeout),
		"dropped":        func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"uninvited_part": status(http.StatusPartialContent, "Content-Range", "bytes 0-1/2"),
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, 30_011)
			s.before = func(w http.ResponseWriter, _ *http.Request) bool {
				if len(s.requests) > retries {
					return false
				}
				misbehave(w)
				return true
			}
			path := filepath.Join(t.TempDir(), "file.bin")
			if err := fetch(t, s.file(), path); err != nil {
				t.Fatal(err)
			}
			arrived(t, path, s.content)
		})
	}
}

// A server that never lets a part be continued; it must not go on for ever.
func TestFetchGivesUpOnAServerThatNeverGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		place  string // of the part, where it is one
		asked  []string
	}{
		"knows_no_ranges": {http.StatusOK, "", []string{"", "bytes=10007-", "bytes=10007-"}},
		"other_parts":     {http.StatusPartialContent, "bytes 10006-30010/30011", []string{"", "bytes=10007-", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, 30_011)
			s.cut = 10_007
			s.before = func(w http.ResponseWriter, request *http.Request) bool {
				if request.Header.Get("Range") == "" {
					return false
				}
				w.Header().Set("Content-Length", "30011")
				w.Header().Set("Content-Range", c.place)
				w.WriteHeader(c.status)
				_, _ = w.Write(s.content[:s.cut])
				panic(http.ErrAbortHandler)
			}
			path := filepath.Join(t.TempDir(), "file.bin")
			err := fetch(t, s.file(), path)
			requests, _ := s.seen()
			if err == nil || len(requests) > 4*retries || !slices.Equal(requests[:3], c.asked) {
				t.Errorf("requests %q, then error %v, want %q first", requests, err, c.asked)
			}
			absent(t, path)
		})
	}
}

func TestFetchRefusesInOneLineAndLeavesNothingUnderTheFinalName(t *testing.T) {
	answer := func(code int) func(s *server, _ *File, _ *Client) {
		return func(s *server, _ *File, _ *Client) {
			s.before = func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Retry-After", "7200")
				w.WriteHeader(code)
				return true
			}
		}
	}
	for name, c := range map[string]struct {
		change   func(*server, *File, *Client)
		want     string
		requests int // 0: any number
	}{
		"wrong_hash":    {func(_ *server, f *File, _ *Client) { f.Hash = strings.Repeat("0", 64) }, "sha256", 1},
		"wrong_git":     {func(_ *server, f *File, _ *Client) { f.Hash = strings.Repeat("0", 40) }, "git's sha1", 1},
		"401":           {answer(http.StatusUnauthorized), "401 Unauthorized", 1},
		"403":           {answer(http.StatusForbidden), "403 Forbidden", 1},
		"404":           {answer(http.StatusNotFound), "404 Not Found", 1},
		"410":           {answer(http.StatusGone), "410 Gone", 1},
		"429":           {answer(http.StatusTooManyRequests), "asks to wait for 2h0m0s", 1},
		"416":           {answer(http.StatusRequestedRangeNotSatisfiable), "changed", retries + 1},
		"too_large":     {func(_ *server, f *File, _ *Client) { f.Limit = 1000 }, "offers 30011 bytes", 1},
		"too_large_hid": {func(s *server, f *File, _ *Client) { s.chunked, f.Limit = true, 1000 }, "more than 1000", 1},
		"huge": {func(s *server, _ *File, _ *Client) {
			s.before = func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Content-Length", fmt.Sprint(int64(1)<<62))
				return true
			}
		}, "offers 4611686018427387904 bytes", 1},
		"offline":    {func(s *server, _ *File, _ *Client) { s.Close() }, "network", 0},
		"plain_http": {func(_ *server, f *File, _ *Client) { f.URL = "http://nowhere.invalid/x" }, "not https", 0},
		"redirected": {func(s *server, _ *File, _ *Client) {
			s.Config.Handler = http.RedirectHandler("http://nowhere.invalid/x", http.StatusFound)
		}, "not https", 0},
		"in_circles": {func(s *server, _ *File, _ *Client) {
			s.before = func(w http.ResponseWriter, r *http.Request) bool {
				http.Redirect(w, r, "/file.bin", http.StatusFound)
				return true
			}
		}, "10 redirects", 10},
		"stalled": {func(s *server, _ *File, c *Client) {
			s.stall, c.Idle = time.Minute, 50*time.Millisecond
		}, "less than 32 KiB in 50ms", retries + 1},
		"dripping": {func(s *server, _ *File, c *Client) {
			c.Idle = 50 * time.Millisecond
			s.before = func(w http.ResponseWriter, r *http.Request) bool {
				for ; r.Context().Err() == nil; time.Sleep(time.Millisecond) {
					_, _ = w.Write([]byte("."))
					w.(http.Flusher).Flush()
				}
				return true
			}
		}, "less than 32 KiB in 50ms", retries + 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, 30_011)
			f, client := s.file(), hurried(t)
			c.change(s, &f, client)
			path := filepath.Join(t.TempDir(), "file.bin")
			start := time.Now()
			err := client.Fetch(t.Context(), f, path, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one line that says %q", err, c.want)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
			absent(t, path)
			if requests, _ := s.seen(); c.requests > 0 && len(requests) != c.requests {
				t.Errorf("%d requests, want %d", len(requests), c.requests)
			}
		})
	}
}

func TestFetchLeavesHTTPSForNoRedirect(t *testing.T) {
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a redirect from https reached a service of this machine")
	}))
	defer inside.Close()
	outside := httptest.NewTLSServer(http.RedirectHandler(inside.URL, http.StatusFound))
	defer outside.Close()
	client := hurried(t)
	client.http.Transport.(transport).TLSClientConfig = outside.Client().Transport.(*http.Transport).TLSClientConfig
	_, err := client.Get(t.Context(), outside.URL, 100)
	if err == nil || !strings.Contains(err.Error(), "not https") {
		t.Errorf("error %v", err)
	}
}

func TestFetchDoesNotTouchAnotherFileOfThatNameUnlessItMayReplaceIt(t *testing.T) {
	s := newServer(t, 101)
	path := filepath.Join(t.TempDir(), "file.bin")
	if err := os.WriteFile(path, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	f := s.file()
	if err := fetch(t, f, path); err == nil || !strings.Contains(err.Error(), "another file") {
		t.Errorf("error %v", err)
	}
	if got, _ := os.ReadFile(path); string(got) != "mine" {
		t.Errorf("the file is now %q", got)
	}
	f.Replace = true
	if err := fetch(t, f, path); err != nil {
		t.Fatal(err)
	}
	arrived(t, path, s.content)
}

func TestFetchesAtOnceShareOneTransfer(t *testing.T) {
	s := newServer(t, 300_007)
	dir := t.TempDir()
	path := filepath.Join(dir, "file.bin")
	f := s.file()
	f.Lock = filepath.Join(dir, "locks", "file.lock")
	results := make(chan error, 5)
	for range cap(results) {
		go func() { results <- fetch(t, f, path) }()
	}
	for range cap(results) {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	arrived(t, path, s.content)
	if requests, _ := s.seen(); len(requests) != 1 {
		t.Errorf("%d requests, want 1", len(requests))
	}
	if _, err := os.Stat(f.Lock); err != nil {
		t.Error(err)
	}
}

// The empty blob's name is git's own constant; the other is what `printf 'hello\n' | git hash-object --stdin` prints.
func TestVerifyKnowsGitsNames(t *testing.T) {
	for content, name := range map[string]string{
		"":        "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
		"hello\n": "ce013625030ba8dba906f756967f9e9ca394464a",
	} {
		path := filepath.Join(t.TempDir(), "blob")
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := Verify(t.Context(), path, name); err != nil {
			t.Error(err)
		}
		plain := sha1.Sum([]byte(content))
		wrong := (*ContentError)(nil)
		if err := Verify(t.Context(), path, hex.EncodeToString(plain[:])); !errors.As(err, &wrong) || wrong.Got != name {
			t.Errorf("a hash without git's header: error %v", err)
		}
	}
}

func TestIsHash(t *testing.T) {
	for s, want := range map[string]bool{
		strings.Repeat("a", 64): true, strings.Repeat("0", 40): true, strings.Repeat("A", 40): false,
		strings.Repeat("g", 64): false, strings.Repeat("a", 32): false, "": false, "../" + strings.Repeat("a", 61): false,
	} {
		if IsHash(s) != want {
			t.Errorf("IsHash(%q) is %v", s, !want)
		}
	}
}
