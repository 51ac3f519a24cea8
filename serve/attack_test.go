// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/textproto"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"golang.org/x/sync/semaphore"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
)

// An address may hold as much as is free: of 12 alone 6; beside one with 4 of them 4 more.
func TestShare_LeavesForOthersWhatOneTakes(t *testing.T) {
	a, b := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("2001:db8::/64")
	s := newShare(12)
	got := 0
	for s.take(a, 1) {
		got++
	}
	if got != 6 || s.take(b, 7) || !s.take(b, 3) || s.take(b, 1) {
		t.Errorf("one address has %d of 12, %d are free, another has %d", got, s.free, s.held[b])
	}
	s.give(a, 6)
	s.give(b, 3)
	if s.free != 12 || len(s.held) != 0 || s.take(b, 7) || !s.take(b, 6) {
		t.Errorf("%d of 12 are free, %v are held", s.free, s.held)
	}
	for remote, want := range map[string]string{"192.0.2.1:80": "192.0.2.1/32", "[::ffff:192.0.2.1]:80": "192.0.2.1/32",
		"[2001:db8::1:2]:80": "2001:db8::/64", "[fe80::1%eth0]:1": "fe80::/64", "@": "invalid Prefix"} {
		is.Equal(t, remote, sender(remote).String(), want)
	}
}

// Of two decoders one is taken by large images: the second large image waits, and small ones pass it.
func TestTurns_SmallImagesPassLargeOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := turns{semaphore.NewWeighted(2), semaphore.NewWeighted(1)}
		first := gomlxtest.Must(turns.wait(t.Context(), 25_000_000))(t)
		waits, leave := context.WithCancel(t.Context())
		second := make(chan error, 1)
		go func() {
			_, err := turns.wait(waits, 25_000_000)
			second <- err
		}()
		synctest.Wait() // until it waits or has a turn
		is.Equal(t, "large images that have a turn beside the first", len(second), 0)
		for range 3 {
			gomlxtest.Must(turns.wait(t.Context(), 30))(t)()
		}
		leave()
		is.Equal(t, "the wait of the second large image has ended", errors.Is(<-second, context.Canceled), true)
		first()
		is.Equal(t, "both are free", turns.all.TryAcquire(2) && turns.large.TryAcquire(1), true)
		turns.large.Release(1)
		waits, leave = context.WithTimeout(t.Context(), time.Second) // a large image that waits for any decoder
		defer leave()
		_, err := turns.wait(waits, 25_000_000)
		is.Equal(t, "the wait for any decoder has ended", errors.Is(err, context.DeadlineExceeded), true)
		is.Equal(t, "large ones may wait again", turns.large.TryAcquire(1), true)
	})
}

// dial connects until the test ends.
func dial(t testing.TB, url string) net.Conn {
	t.Helper()
	c := gomlxtest.Must(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// Without a byte of their bodies the declared lengths take nothing; each body may be as large as is allowed. A form may
// be complete before its body is.
func TestServe_BodiesThatDoNotArriveTakeNoMemory(t *testing.T) {
	s, url, _ := start(t, &fake{}, Options{Timeout: 2 * time.Second})
	var silent []net.Conn
	for i := range 40 {
		c := dial(t, url)
		kind, form := form(dot)
		length := fmt.Sprintf("Content-Length: %d", s.options.Bytes)
		if i%2 == 1 {
			length, form = "Transfer-Encoding: chunked", fmt.Appendf(nil, "%x\r\n%s\r\n", len(form), form)
		}
		if i%4 > 1 {
			form = nil
		}
		fmt.Fprintf(c, "POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\n%s\r\n\r\n%s", kind, length,
			form)
		silent = append(silent, c)
	}
	begin := time.Now()
	for range 20 {
		predict(t, url, 200)
	}
	for _, c := range silent { // after a quarter of the time
		if answer, err := io.ReadAll(c); err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 408")) {
			t.Fatalf("a silent body: %.60q, %v", answer, err)
		}
	}
	if took := time.Since(begin); took > 1500*time.Millisecond {
		t.Errorf("they were held for %v, want half a second and a little", took)
	}
	untouched(t, s)
}

// counts counts large images that are decoded.
type counts struct {
	fake
	fitted atomic.Int64
}

func (c *counts) PreprocessImage(image *data.Image) (*data.Image, error) {
	if image.Height*image.Width > 1000 {
		c.fitted.Add(1)
		return &data.Image{Height: 3, Width: 5, Pixels: make([]uint8, 45)}, nil
	}
	return image, nil
}

func TestServe_DecodingEndsWhenTheClientLeavesAndDelaysNoSmallImage(t *testing.T) {
	model := &counts{}
	_, url, _ := start(t, model, Options{Timeout: time.Minute})
	hostile := datatest.ProgressiveJPEG(4987, 4999, 4, nil)
	_, large := decoders()
	for range 3 * large {
		c := dial(t, url)
		fmt.Fprintf(c, "POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", len(hostile))
		_, _ = c.Write(hostile)
		time.AfterFunc(20*time.Millisecond, func() { c.Close() })
	}
	for range 5 {
		predict(t, url, 200)
	}
	if n := model.fitted.Load(); n >= int64(3*large) {
		t.Errorf("%d of %d images were decoded although their clients had left", n, 3*large)
	}
}

func TestServe_ConnectionsAreBoundedForEachAddress(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := gomlxtest.Must(newServer(ctx, &fake{}, Options{Connections: 6}))(t)
	listener := gomlxtest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	<-s.Ready()
	url := "http://" + listener.Addr().String()
	accepted := func() (net.Conn, bool) {
		c := dial(t, url)
		_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		_, err := c.Read(make([]byte, 1))
		return c, errors.Is(err, os.ErrDeadlineExceeded)
	}
	first, _ := accepted()
	for i, want := range []bool{true, true, false, false} {
		_, ok := accepted()
		is.Equal(t, fmt.Sprintf("connection %d is accepted", i+2), ok, want)
	}
	_ = first.Close()
	until(func() bool { _, ok := accepted(); return ok }) // another takes its place
	if runtime.GOOS == "linux" {
		other := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 7)}} // Linux has all of 127.0.0.0/8
		c := gomlxtest.Must(other.Dial("tcp", listener.Addr().String()))(t)
		defer c.Close()
		fmt.Fprint(c, "GET /healthz HTTP/1.0\r\n\r\n")
		answer := string(gomlxtest.Must(io.ReadAll(c))(t))
		is.Equal(t, "another address: "+answer, strings.HasPrefix(answer, "HTTP/1.0 200"), true)
	}
	cancel()
	gomlxtest.NoError(t, <-ended)
}

// The host and the headers are those of browsers: Sec-Fetch-Site, and in older ones Origin.
func TestServe_WithoutATokenOnlyOwnPagesAreAnswered(t *testing.T) {
	open, _, _ := start(t, &fake{}, Options{})
	shut, _, _ := start(t, &fake{}, Options{Token: secret})
	for _, c := range []struct {
		host, header, value string
		want                int
	}{
		{"localhost:8080", "", "", 200}, {"127.0.0.1", "", "", 200}, {"[::1]:8080", "", "", 200}, {"LOCALHOST", "", "", 200},
		{"evil.example", "", "", 403}, {"localhost.evil.example", "", "", 403}, {"192.0.2.7:8080", "", "", 403},
		{"localhost", "Sec-Fetch-Site", "cross-site", 403}, {"localhost", "Sec-Fetch-Site", "same-site", 403},
		{"localhost", "Sec-Fetch-Site", "same-origin", 200}, {"localhost", "Sec-Fetch-Site", "none", 200},
		{"localhost", "Origin", "https://evil.example", 403}, {"localhost", "Origin", "http://localhost", 200},
	} {
		for s, want := range map[*Server]int{open: c.want, shut: 200} {
			r := httptest.NewRequest("POST", "/v1/predict", bytes.NewReader(dot))
			r.Host = c.host
			r.Header.Set("Authorization", "bEARER "+secret) // the scheme has no case
			if c.header != "" {
				r.Header.Set(c.header, c.value)
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			is.Equal(t, fmt.Sprintf("%+v: status", c), w.Code, want)
		}
	}
}

// One string in everything that a client names: path, query, headers, names of files, fields of JSON.
func TestServe_HostileStringsAreEscapedInAnswersAndLogs(t *testing.T) {
	const hostile = "\x1b[2J\u009b31m\u202egpj\r\nlevel=ERROR forged"
	escaped := url.QueryEscape(hostile)
	var log bytes.Buffer
	model := &fake{}
	s, server, _ := start(t, model, Options{Log: slog.New(slog.NewTextHandler(&log,
		&slog.HandlerOptions{Level: slog.LevelDebug})),
		Neighbours: func(_, _ []float32, _ int) []Neighbour { return []Neighbour{{Name: hostile, Label: hostile}} }})
	s.card.Name, s.card.Labels = hostile, []string{hostile, hostile, hostile}
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for _, content := range [][]byte{dot, pixels(13, 5, red), []byte("no image")} {
		part := gomlxtest.Must(form.CreatePart(textproto.MIMEHeader{"Content-Disposition": {
			"form-data; name=x; filename*=UTF-8''" + escaped + strings.Repeat("n", 1000)}}))(t)
		_, _ = part.Write(content)
	}
	_ = form.Close()
	asJSON, _ := json.Marshal(map[string]any{"input": hostile, "model": hostile, "encoding_format": hostile})
	for _, path := range []string{"/v1/predict", "/v1/embeddings", "/v1/attention", "/v1/model", "/metrics", "/healthz",
		"/readyz", "/openapi.json", "/", "/" + escaped, "/v1/predict?" + escaped, "/v1/predict?top=" + escaped,
		"/v1/embeddings?pool=" + escaped} {
		for kind, content := range map[string][]byte{form.FormDataContentType(): body.Bytes(), "application/json": asJSON,
			"image/png": dot, "x;" + escaped: nil} {
			for _, method := range []string{"GET", "POST"} {
				response, raw := ask(t, method, server+path, bytes.NewReader(content), "Content-Type", kind)
				answer := string(raw)
				page := response.StatusCode == 200 && (path == "/" || path == "/openapi.json" || path == "/metrics") // our own
				if !page && !printed(answer) {
					t.Errorf("%s %s: %d bytes, %.200q", method, path, len(answer), answer)
				}
			}
		}
	}
	for line := range strings.Lines(log.String()) {
		if !printed(line) || !strings.HasPrefix(line, "time=") {
			t.Errorf("the log has a line of %d bytes, %.200q", len(line), line)
		}
	}
}

// printed reports whether a line obeys no terminal, and is not long.
func printed(line string) bool {
	controls := func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }
	return !strings.ContainsFunc(strings.TrimSuffix(line, "\n"), controls) && len(line) <= 20_000
}

// FuzzLocal: a host is local only if it is called so or has a loopback address, in any notation of both.
func FuzzLocal(f *testing.F) {
	hosts := []string{"localhost:80", "[::1]:8080", "127.0.0.1", "127.0.0.1.evil.example", "[::1"}
	campaign.Fuzz(f, hosts, func(t *testing.T, host string) {
		err := local(&http.Request{Method: "POST", Host: host, URL: &url.URL{}, Header: http.Header{}})
		for _, part := range []string{"localhost", "127.", "::", "0:"} {
			if strings.Contains(strings.ToLower(strings.ToUpper(host)), part) {
				return
			}
		}
		if err == nil {
			t.Errorf("%q is local", host)
		}
	})
}
