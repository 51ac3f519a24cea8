// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
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
	"github.com/wepe-go/wepe/internal/is"
)

// server is a file server that can be told to misbehave.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	content  []byte
	cut      int              // bytes of a body after which the connection drops; 0 never
	before   http.HandlerFunc // called first; if it writes a status or a body, that is the response
	requests []string         // Range of each request
}

func newServer(t *testing.T, size int) *server {
	s := &server{content: make([]byte, size)}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range s.content {
		s.content[i] = byte(r.UintN(256))
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Header.Get("Range"))
	a := &answer{ResponseWriter: w}
	if s.before != nil {
		s.before(a, r)
	}
	if !a.begun {
		a.cut = s.cut
		http.ServeContent(a, r, "", time.Time{}, bytes.NewReader(s.content))
	}
}

// answer records the writes and drops the connection after cut bytes, unless that is 0.
type answer struct {
	http.ResponseWriter
	begun        bool
	cut, written int
}

func (a *answer) WriteHeader(code int) {
	a.begun = true
	a.ResponseWriter.WriteHeader(code)
}

func (a *answer) Write(p []byte) (int, error) {
	a.begun = true
	if left := a.cut - a.written; a.cut > 0 && len(p) > left {
		p = p[:left]
	}
	n, err := a.ResponseWriter.Write(p)
	a.ResponseWriter.(http.Flusher).Flush()
	if a.written += n; a.written == a.cut {
		panic(http.ErrAbortHandler)
	}
	return n, err
}

// reply answers with a status, headers, each a name and its value, and content.
func reply(code int, content []byte, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for pair := range slices.Chunk(headers, 2) {
			w.Header().Set(pair[0], pair[1])
		}
		if w.WriteHeader(code); len(content) > 0 {
			_, _ = w.Write(content)
		}
	}
}

// seen returns the requested ranges, once no request is being served.
func (s *server) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// file is the server's present content.
func (s *server) file() File {
	sum := sha256.Sum256(s.content)
	return File{URL: s.URL + "/file.bin", Hash: hex.EncodeToString(sum[:]), Limit: 1 << 22}
}

// hurried returns a client with short waits.
func hurried(t *testing.T) *Client {
	c := NewClient(nil, "")
	c.Idle, c.Pause = 5*time.Second, time.Millisecond
	t.Cleanup(c.Close)
	return c
}

// arrives checks that a fetch writes the server's content to path, with no other file but the lock, after these
// requests.
func arrives(t *testing.T, s *server, f File, path string, want ...string) {
	t.Helper()
	gomlxtest.NoError(t, hurried(t).Fetch(t.Context(), f, path, nil))
	if got := gomlxtest.Must(os.ReadFile(path))(t); !bytes.Equal(got, s.content) {
		t.Errorf("%d bytes arrived, want the server's %d", len(got), len(s.content))
	}
	if left, _ := filepath.Glob(path + ".incomplete*"); len(left) > 0 {
		t.Errorf("%v is left behind", left)
	}
	if requests := s.seen(); !slices.Equal(requests, want) {
		t.Errorf("requests %q, want %q", requests, want)
	}
}

func newPath(t *testing.T) string { return filepath.Join(t.TempDir(), "new", "file.bin") }

func put(t *testing.T, path string, content []byte) {
	t.Helper()
	gomlxtest.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	gomlxtest.NoError(t, os.WriteFile(path, content, 0o644))
}

func TestFetchBringsTheFileOnceAndReportsProgress(t *testing.T) {
	s, path := newServer(t, 700_001), newPath(t)
	last, calls := int64(0), 0
	err := hurried(t).Fetch(t.Context(), s.file(), path, func(done, total int64) {
		if done < last || total != 700_001 {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		last, calls = done, calls+1
	})
	if err != nil || last != 700_001 || calls < 3 {
		t.Fatalf("progress ended at %d after %d calls, error %v", last, calls, err)
	}
	arrives(t, s, s.file(), path, "")
}

func TestFetchResumesACutConnectionWithoutFetchingAnythingTwice(t *testing.T) {
	for _, cut := range []int{997, 4_001, 10_007, 20_010} {
		s := newServer(t, 20_011)
		s.cut = cut
		want := []string{""}
		for have := cut; have < len(s.content); have += cut {
			want = append(want, fmt.Sprintf("bytes=%d-", have))
		}
		arrives(t, s, s.file(), newPath(t), want...)
	}
}

// Received bytes are on the disk at once, so that a kill loses as little as a cancellation.
func TestFetchContinuesWhatAnInterruptedCallLeft(t *testing.T) {
	s, path := newServer(t, 900_001), newPath(t)
	const half = 450_000
	s.before = func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(s.content[:half])
		<-r.Context().Done()
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := hurried(t).Fetch(ctx, s.file(), path, func(done, _ int64) {
		is.Equal(t, "on the disk", fileSize(path+".incomplete"), done)
		if done == half {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || fileSize(path) > 0 {
		t.Fatalf("%d bytes, error %v, want the cancellation", fileSize(path), err)
	}
	s.seen() // waits for the server
	s.before = nil
	arrives(t, s, s.file(), path, "", "bytes=450000-")
}

// An earlier call may have left a complete file, another version, or zeros, as some file systems do after a power cut.
// The lock file of a killed process exists as well. A file that changes between two requests is downloaded once more
// from the start, and transient failures are retried.
func TestFetch_ArrivesAfter(t *testing.T) {
	content, again := newServer(t, 30_011).content, make([]string, retries+1)
	left := func(part []byte) func(*server, string) {
		return func(_ *server, path string) {
			put(t, path+".incomplete", part)
			put(t, path+".lock", nil)
		}
	}
	first := func(misbehave http.HandlerFunc) func(*server, string) {
		return func(s *server, _ string) {
			s.before = func(w http.ResponseWriter, r *http.Request) {
				if len(s.requests) <= retries {
					misbehave(w, r)
				}
			}
		}
	}
	for name, c := range map[string]struct {
		set      func(s *server, path string)
		requests []string
	}{
		"a beginning":     {left(content[:7001]), []string{"bytes=7001-"}},
		"all of it":       {left(content), []string{"bytes=30011-"}}, // answered by 416
		"another version": {left(bytes.Repeat([]byte("old"), 1000)), []string{"bytes=3000-", ""}},
		"zeros":           {left(make([]byte, 7001)), []string{"bytes=7001-", ""}},
		"too much":        {left(append(bytes.Clone(content), 7)), []string{"bytes=30012-", ""}},
		"a change meanwhile": {func(s *server, _ string) {
			s.content, s.cut = bytes.Repeat([]byte("old"), 10_000), 10_007
			s.before = func(http.ResponseWriter, *http.Request) {
				if len(s.requests) > 1 {
					s.content, s.cut = content, 0
				}
			}
		}, []string{"", "bytes=10007-", ""}},
		"408": {first(reply(http.StatusRequestTimeout, nil, "Retry-After", "soon")), again},
		"429": {first(reply(http.StatusTooManyRequests, nil, "Retry-After", "0")), again},
		"500": {first(reply(http.StatusInternalServerError, nil, "Retry-After", "-3")), again},
		"502": {first(reply(http.StatusBadGateway, nil, "Retry-After", "99999999999999999999")), again},
		"503": {first(reply(http.StatusServiceUnavailable, nil, "Retry-After", "Mon, 02 Jan 2006 15:04:05 GMT")),
			again},
		"504":                  {first(reply(http.StatusGatewayTimeout, nil, "Retry-After", "")), again},
		"a dropped connection": {first(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), again},
		"an uninvited part":    {first(reply(http.StatusPartialContent, nil, "Content-Range", "bytes 0-1/2")), again},
	} {
		t.Run(name, func(t *testing.T) {
			s, path := newServer(t, 30_011), newPath(t)
			f := s.file()
			c.set(s, path)
			arrives(t, s, f, path, c.requests...)
		})
	}
}

// A server that never resumes must not cause an endless loop.
func TestFetchRefusesInOneLineAndLeavesNothingUnderTheFinalName(t *testing.T) {
	type change = func(*server, *File, *Client)
	hash := func(digits int) change {
		return func(_ *server, f *File, _ *Client) { f.Hash = strings.Repeat("0", digits) }
	}
	status := func(code int, headers ...string) change {
		return func(s *server, _ *File, _ *Client) { s.before = reply(code, nil, headers...) }
	}
	slowly := func(send func(w http.ResponseWriter, s *server)) change {
		return func(s *server, _ *File, c *Client) {
			c.Idle = 50 * time.Millisecond
			s.before = func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "30011")
				for ; r.Context().Err() == nil; time.Sleep(time.Millisecond) {
					send(w, s)
				}
			}
		}
	}
	cut := func(code int, place string, asked ...string) change { // answers to a range
		return func(s *server, _ *File, _ *Client) {
			s.cut = 10_007
			s.before = func(w http.ResponseWriter, r *http.Request) {
				if k := len(s.requests); k <= len(asked) && r.Header.Get("Range") != asked[k-1] {
					t.Errorf("request %d is of %q, want %q", k, r.Header.Get("Range"), asked[k-1])
				}
				if r.Header.Get("Range") != "" {
					reply(code, s.content[:s.cut], "Content-Length", "30011", "Content-Range", place)(w, r)
					panic(http.ErrAbortHandler)
				}
			}
		}
	}
	inAnHour := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	for name, c := range map[string]struct {
		change   change
		requests int // 0: any number
	}{
		"wrong_hash": {hash(64), 1}, "wrong_git": {hash(40), 1},
		"401": {status(http.StatusUnauthorized), 1}, "403": {status(http.StatusForbidden), 1},
		"404": {status(http.StatusNotFound), 1}, "410": {status(http.StatusGone), 1},
		"416":       {status(http.StatusRequestedRangeNotSatisfiable), retries + 1},
		"429":       {status(http.StatusTooManyRequests, "Retry-After", "7200"), 1},
		"limited":   {status(http.StatusTooManyRequests, "RateLimit", `"api";r=0;t=299`), 1},
		"503":       {status(http.StatusServiceUnavailable, "Retry-After", inAnHour), 1},
		"huge":      {status(http.StatusOK, "Content-Length", "4611686018427387904"), 1},
		"too_large": {func(_ *server, f *File, _ *Client) { f.Limit = 1000 }, 1},
		"too_large_hidden": {func(s *server, f *File, _ *Client) {
			f.Limit = 1000
			s.before = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(s.content) }
		}, 1},
		"offline":    {func(s *server, _ *File, _ *Client) { s.Close() }, 0},
		"plain_http": {func(_ *server, f *File, _ *Client) { f.URL = "http://nowhere.invalid/x" }, 0},
		"redirected": {status(http.StatusFound, "Location", "http://nowhere.invalid/x"), 1},
		"in_circles": {status(http.StatusFound, "Location", "/file.bin"), 10},
		"stalled": {slowly(func(w http.ResponseWriter, s *server) {
			if w := w.(*answer); w.written == 0 {
				_, _ = w.Write(s.content[:15_000])
			}
		}), retries + 1},
		"dripping":        {slowly(func(w http.ResponseWriter, _ *server) { _, _ = w.Write([]byte(".")) }), retries + 1},
		"knows_no_ranges": {cut(http.StatusOK, "", "", "bytes=10007-", "bytes=10007-"), retries + 2},
		"other_parts": {cut(http.StatusPartialContent, "bytes 10006-30010/30011", "", "bytes=10007-", ""),
			retries + 2},
	} {
		t.Run(name, func(t *testing.T) {
			s, path := newServer(t, 30_011), newPath(t)
			f, client := s.file(), hurried(t)
			c.change(s, &f, client)
			start := time.Now()
			err := client.Fetch(t.Context(), f, path, nil)
			if took := time.Since(start); err == nil || strings.Contains(err.Error(), "\n") || took > 10*time.Second ||
				fileSize(path) > 0 {
				t.Errorf("error %v after %v with %d bytes, want one line and no file", err, took, fileSize(path))
			}
			if requests := s.seen(); c.requests > 0 && len(requests) != c.requests {
				t.Errorf("requests %q, want %d", requests, c.requests)
			}
		})
	}
}

func TestGetRefusesALargeBody(t *testing.T) {
	s := newServer(t, 101)
	for limit, fits := range map[int64]bool{101: true, 100: false} {
		if raw, err := hurried(t).Get(t.Context(), s.URL, limit); (err == nil) != fits || fits && len(raw) != 101 {
			t.Errorf("limit %d: %d bytes, error %v", limit, len(raw), err)
		}
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
	if _, err := client.Get(t.Context(), outside.URL, 100); err == nil {
		t.Error("the redirect was followed")
	}
}

func TestTokenGoesToItsOriginAlone(t *testing.T) {
	origin, other := newServer(t, 1), newServer(t, 1)
	seen := map[string]string{}
	redirect := func(name string, to map[string]string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			seen[name+r.URL.Path] = r.Header.Get("Authorization")
			if location := to[r.URL.Path]; location != "" {
				http.Redirect(w, r, location, http.StatusFound)
			}
		}
	}
	// The same host name with another port: net/http would pass an Authorization header on.
	origin.before = redirect("origin", map[string]string{
		"/here": "/end", "/away": other.URL, "/round": other.URL + "/back",
	})
	other.before = redirect("other", map[string]string{"/back": origin.URL + "/end"})
	client := NewClient(gomlxtest.Must(url.Parse(origin.URL))(t), "secret")
	defer client.Close()
	for _, path := range []string{"/here", "/away", "/round"} {
		delete(seen, "origin/end")
		gomlxtest.Must(client.Get(t.Context(), origin.URL+path, 100))(t)
	}
	want := map[string]string{"origin/here": "Bearer secret", "origin/away": "Bearer secret",
		"origin/round": "Bearer secret", "origin/end": "Bearer secret", "other/": "", "other/back": ""}
	if !maps.Equal(seen, want) {
		t.Errorf("tokens %q, want %q", seen, want)
	}
}

func TestFetchDoesNotTouchAnotherFileOfThatNameUnlessItMayReplaceIt(t *testing.T) {
	s, path := newServer(t, 101), newPath(t)
	put(t, path, []byte("mine"))
	f := s.file()
	err := hurried(t).Fetch(t.Context(), f, path, nil)
	if got, _ := os.ReadFile(path); string(got) != "mine" || err == nil {
		t.Errorf("the file is now %q, error %v", got, err)
	}
	f.Replace = true
	arrives(t, s, f, path, "")
}

func TestFetchesAtOnceShareOneTransfer(t *testing.T) {
	s, path := newServer(t, 300_007), newPath(t)
	f := s.file()
	f.Lock = filepath.Join(t.TempDir(), "locks", "file.lock")
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if err := hurried(t).Fetch(t.Context(), f, path, nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	arrives(t, s, f, path, "")
	gomlxtest.Must(os.Stat(f.Lock))(t)
}

// The empty blob's name is git's own constant; the other is the output of `printf 'hello\n' | git hash-object --stdin`.
func TestVerifySupportsGitHashes(t *testing.T) {
	for content, name := range map[string]string{
		"":        "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
		"hello\n": "ce013625030ba8dba906f756967f9e9ca394464a",
	} {
		path := newPath(t)
		put(t, path, []byte(content))
		plain, wrong := sha1.Sum([]byte(content)), (*ContentError)(nil) // plain is without git's header
		err := Verify(t.Context(), path, hex.EncodeToString(plain[:]))
		if right := Verify(t.Context(), path, name); right != nil || !errors.As(err, &wrong) || wrong.Got != name {
			t.Errorf("%q: %v, without git's header %v", content, right, err)
		}
	}
}

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
	size, percent := len(s.content), len(s.content)*rng.IntN(100)/100
	answers := []http.HandlerFunc{
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter, r *http.Request) { // cut anywhere
			reply(http.StatusOK, s.content[:percent], "Content-Length", fmt.Sprint(size))(w, r)
			panic(http.ErrAbortHandler)
		},
		func(w http.ResponseWriter, r *http.Request) { // single bytes, too slow
			for ; r.Context().Err() == nil; time.Sleep(time.Millisecond) {
				_, _ = w.Write(s.content[:1])
			}
		},
		reply(http.StatusOK, s.content[:percent]),                             // an apparent end of the file
		reply(http.StatusOK, s.content, "Content-Length", fmt.Sprint(size+7)), // more is declared than sent
		reply(http.StatusOK, bytes.Repeat([]byte("old"), size/3)),             // another file
		reply(http.StatusOK, append(slices.Clone(s.content), 7)),              // with extra bytes
		reply(http.StatusOK, bomb(), "Content-Encoding", "gzip"),              // a bomb, unless it is left compressed
		reply(http.StatusPartialContent, s.content, "Content-Range", "bytes 0-1/2"),
		reply(http.StatusPartialContent, s.content[percent:], "Content-Range", fmt.Sprintf("bytes %d-%d/%d", percent,
			size-1, size)),
		reply(http.StatusPartialContent, s.content[:9], "Content-Range", "bytes 99999999999999999999-1/1"),
		reply(http.StatusOK, nil, "Content-Length", "4611686018427387904"),
		reply(http.StatusFound, nil, "Location", other.URL+"/file.bin"),
		reply(http.StatusTemporaryRedirect, nil, "Location", other.URL+"/wrong"),
		reply(http.StatusFound, nil, "Location", "http://nowhere.invalid/x"),
		reply(http.StatusFound, nil, "Location", "/file.bin"),
		reply(http.StatusFound, nil, "Location", "file:///etc/hostname"),
		reply(http.StatusFound, nil),
		reply(http.StatusTooManyRequests, nil, "Retry-After", "0"),
		reply(http.StatusTooManyRequests, nil, "Retry-After", "86400"),
	}
	for _, code := range []int{204, 206, 304, 401, 403, 404, 408, 410, 416, 418, 500, 502, 503, 504} {
		answers = append(answers, reply(code, nil))
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
		is.Equal(t, "token for another host", r.Header.Get("Authorization"), "")
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
		gomlxtest.NoError(t, errors.Join(os.RemoveAll(path), os.RemoveAll(path+".lock")))
	}
	t.Logf("%d tries", arrived+refused)
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
