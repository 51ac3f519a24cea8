// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package hub

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wepe-go/wepe/internal/fetch"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// Commits of the fake hub's model.
const (
	oldCommit = "0123456789abcdef0123456789abcdef01234567"
	newCommit = "89abcdef0123456789abcdef0123456789abcdef"
)

// fakeHub imitates the hub: small files come from a relative redirect, large ones from a store on another host; names
// and hashes are in the headers of the redirect. It can be told to misbehave.
type fakeHub struct {
	*httptest.Server
	store *httptest.Server

	mu        sync.Mutex
	files     map[string][]byte // of every commit
	revisions map[string]string
	requests  []string                                      // "GET /path" to the hub, without queries
	received  []string                                      // ranges requested from the store
	tokens    map[string]string                             // last Authorization, by host
	answer    func(http.ResponseWriter, *http.Request) bool // answers instead, if it returns true
	listed    func(name string, f map[string]any)           // changes a file's entry in the listing
}

func newFakeHub(t testing.TB) *fakeHub {
	isolate(t)
	h := &fakeHub{
		files: map[string][]byte{
			configFile:          []byte(`{"model_type": "vit"}`),
			preprocessorFile:    []byte(`{"do_resize": true}`),
			weightsFile:         bytes.Repeat([]byte("weights"), 20_011),
			"README.md":         []byte("a model"),
			"pytorch_model.bin": []byte("a pickle"),
			"onnx/model.onnx":   []byte("a graph"),
			"../../../evil":     []byte("out of the cache"),
		},
		revisions: map[string]string{"main": oldCommit, "v1.0": oldCommit, "refs/pr/7": newCommit,
			oldCommit: oldCommit, newCommit: newCommit},
		tokens: map[string]string{},
	}
	h.Server = httptest.NewServer(http.HandlerFunc(h.serve))
	t.Cleanup(h.Close)
	h.store = httptest.NewServer(http.HandlerFunc(h.serveStore))
	t.Cleanup(h.store.Close)
	t.Setenv("HF_ENDPOINT", h.URL)
	return h
}

// isolate isolates a test from the environment of the machine, and shortens clients' waits.
func isolate(t testing.TB) {
	for _, name := range []string{"HF_ENDPOINT", "HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_CACHE", "HF_HUB_OFFLINE",
		"HF_HUB_DISABLE_IMPLICIT_TOKEN", "XDG_CACHE_HOME"} {
		t.Setenv(name, "")
	}
	t.Setenv("HF_HOME", t.TempDir())
	newClient = func(origin *url.URL, token string) *fetch.Client {
		c := fetch.NewClient(origin, token)
		c.Pause = time.Millisecond
		return c
	}
	t.Cleanup(func() { newClient = fetch.NewClient })
}

// hashOf is the name of a blob: the SHA-256 of a large file, the git hash of others.
func hashOf(name string, content []byte) string {
	if filepath.Ext(name) == ".safetensors" {
		sum := sha256.Sum256(content)
		return hex.EncodeToString(sum[:])
	}
	sum := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(content), content))
	return hex.EncodeToString(sum[:])
}

func (h *fakeHub) serve(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests = append(h.requests, r.Method+" "+r.URL.Path)
	h.tokens["hub"] = r.Header.Get("Authorization")
	if h.answer != nil && h.answer(w, r) {
		return
	}
	if revision, ok := strings.CutPrefix(r.URL.EscapedPath(), "/api/models/owner/vit/revision/"); ok {
		revision, _ = url.PathUnescape(revision)
		h.serveListing(w, revision, r.URL.RawQuery == "blobs=true")
		return
	}
	if rest, ok := strings.CutPrefix(r.URL.Path, "/owner/vit/resolve/"); ok {
		_, name, _ := strings.Cut(rest, "/")
		h.serveRedirect(w, name)
		return
	}
	if name, ok := strings.CutPrefix(r.URL.Path, "/api/resolve-cache/"); ok {
		w.Header().Set("ETag", `"`+hashOf(name, h.files[name])+`"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(h.files[name]))
		return
	}
	w.Header().Set("X-Error-Code", "RepoNotFound")
	w.WriteHeader(http.StatusUnauthorized) // the hub's response for missing models, too
}

func (h *fakeHub) serveListing(w http.ResponseWriter, revision string, blobs bool) {
	commit, ok := h.revisions[revision]
	if !ok {
		w.Header().Set("X-Error-Code", "RevisionNotFound")
		w.WriteHeader(http.StatusNotFound)
		return
	}
	var siblings []map[string]any
	for _, name := range slices.Sorted(maps.Keys(h.files)) {
		content := h.files[name]
		if !blobs {
			siblings = append(siblings, map[string]any{"rfilename": name})
			continue
		}
		f := map[string]any{"rfilename": name, "size": len(content), "blobId": hashOf(name, content)}
		if filepath.Ext(name) == ".safetensors" { // git stores a text that points to it
			f["blobId"] = hashOf("", []byte("oid sha256:"+hashOf(name, content)))
			f["lfs"] = map[string]any{"sha256": hashOf(name, content), "size": len(content), "pointerSize": 134}
		}
		if h.listed != nil {
			h.listed(name, f)
		}
		siblings = append(siblings, f)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"id": "owner/vit", "sha": commit, "siblings": siblings})
}

func (h *fakeHub) serveRedirect(w http.ResponseWriter, name string) {
	if h.files[name] == nil {
		w.Header().Set("X-Error-Code", "EntryNotFound")
		w.WriteHeader(http.StatusNotFound)
		return
	}
	to := "/api/resolve-cache/" + name
	if filepath.Ext(name) == ".safetensors" {
		to = h.store.URL + "/" + name + "?signature=abc"
	}
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusTemporaryRedirect)
}

func (h *fakeHub) serveStore(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tokens["store"] = r.Header.Get("Authorization")
	h.received = append(h.received, r.Header.Get("Range"))
	w.Header().Set("ETag", `"the store's own"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(h.files[path.Base(r.URL.Path)]))
}

// seen returns the requests since it was last called.
func (h *fakeHub) seen() (requests, ranges []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	requests, ranges = h.requests, h.received
	h.requests, h.received = nil, nil
	return requests, ranges
}

// modelDir is the model's directory in the cache.
func modelDir() string { return filepath.Join(os.Getenv("HF_HOME"), "hub", "models--owner--vit") }

// put writes a file and its directories.
func put(t *testing.T, file string, content []byte) {
	t.Helper()
	gomlxtest.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	gomlxtest.NoError(t, os.WriteFile(file, content, 0o644))
}

// offline downloads without a network.
func offline(t *testing.T, address string) (*Snapshot, error) {
	t.Helper()
	t.Setenv("HF_HUB_OFFLINE", "1")
	s, err := Download(t.Context(), address, nil)
	t.Setenv("HF_HUB_OFFLINE", "0")
	return s, err
}

// get downloads successfully.
func get(t *testing.T, address string) *Snapshot {
	t.Helper()
	s := gomlxtest.Must(Download(t.Context(), address, nil))(t)
	return s
}

// blob is the path of a hub file in the cache.
func (h *fakeHub) blob(name string) string {
	return filepath.Join(modelDir(), "blobs", hashOf(name, h.files[name]))
}

// holds checks the weights of a snapshot against the hub's.
func (h *fakeHub) holds(t *testing.T, s *Snapshot) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.Dir, weightsFile))
	if err != nil || !bytes.Equal(raw, h.files[weightsFile]) {
		t.Errorf("%d bytes of weights other than the hub's, error %v", len(raw), err)
	}
}

// status makes the hub answer every request with a status.
func status(code int, kind string) func(*fakeHub) {
	return func(h *fakeHub) {
		h.answer = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("X-Error-Code", kind)
			w.WriteHeader(code)
			return true
		}
	}
}

// listing makes the hub answer every request with a listing.
func listing(raw string) func(*fakeHub) {
	return func(h *fakeHub) {
		h.answer = func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write([]byte(raw))
			return true
		}
	}
}
