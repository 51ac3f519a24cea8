// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// tokens is a server that notes the Authorization of each request, by path.
type tokens struct {
	*httptest.Server
	mu   sync.Mutex
	seen map[string]string
}

func newTokens(t *testing.T, handler http.HandlerFunc) *tokens {
	s := &tokens{seen: map[string]string{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen[r.URL.Path] = r.Header.Get("Authorization")
		s.mu.Unlock()
		handler(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestTokenGoesToItsOriginAlone(t *testing.T) {
	var origin *tokens
	other := newTokens(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/back" {
			http.Redirect(w, r, origin.URL+"/end", http.StatusFound)
		}
	})
	origin = newTokens(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/here":
			http.Redirect(w, r, "/end", http.StatusTemporaryRedirect)
		case "/away": // same host name, other port: net/http would pass an Authorization header on
			http.Redirect(w, r, other.URL+"/away", http.StatusFound)
		case "/round":
			http.Redirect(w, r, other.URL+"/back", http.StatusFound)
		}
	})
	u, err := url.Parse(origin.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := NewClient(u, "secret")
	defer client.Close()
	for _, path := range []string{"/here", "/away", "/round"} {
		if _, err := client.Get(t.Context(), origin.URL+path, 100); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []*tokens{origin, other} {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	for _, path := range []string{"/here", "/away", "/round", "/end"} {
		if got := origin.seen[path]; got != "Bearer secret" {
			t.Errorf("%s of the origin got %q", path, got)
		}
	}
	if len(other.seen) != 2 || other.seen["/away"] != "" || other.seen["/back"] != "" {
		t.Errorf("another host got %q", other.seen)
	}
}

func TestGetRefusesALargeBodyAndErrors(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/absent" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(make([]byte, 101))
	}))
	defer server.Close()
	client := hurried(t)
	if raw, err := client.Get(t.Context(), server.URL, 101); err != nil || len(raw) != 101 {
		t.Errorf("%d bytes, error %v", len(raw), err)
	}
	for path, want := range map[string]string{"/": "more than 100 bytes", "/absent": "404 Not Found"} {
		if _, err := client.Get(t.Context(), server.URL+path, 100); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	inAnHour := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	for value, want := range map[string]time.Duration{
		"": 0, "17": 17 * time.Second, "-3": 0, "soon": 0, "99999999999999999999": 0, inAnHour: time.Hour,
	} {
		if got := retryAfter(value); (got - want).Abs() > 2*time.Second {
			t.Errorf("Retry-After %q is %v, want %v", value, got, want)
		}
	}
}
