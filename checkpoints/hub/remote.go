// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/wepe-go/wepe/internal/fetch"
)

// maxJSON bounds listings, configurations and indices; package checkpoints reads no larger ones.
const maxJSON = 16 << 20

// remote is a model on the hub.
type remote struct {
	*settings
	id     string
	client *fetch.Client
}

// newClient makes the client; tests put one in a hurry in its place.
var newClient = fetch.NewClient

func (s *settings) remoteOf(m modelName) *remote {
	return &remote{s, m.id, newClient(s.endpoint, s.token)}
}

// list returns the commit that a revision is now, and the names of its files.
func (r *remote) list(ctx context.Context, revision string) (commit string, names map[string]bool, err error) {
	address := r.endpoint.String() + "/api/models/" + r.id + "/revision/" + url.PathEscape(revision)
	raw, err := r.client.Get(ctx, address, maxJSON)
	if err != nil {
		return "", nil, r.explain(err)
	}
	var listing struct {
		SHA      string `json:"sha"`
		Siblings []struct {
			Name string `json:"rfilename"`
		} `json:"siblings"`
	}
	err = json.Unmarshal(raw, &listing)
	if err != nil || !isCommit(listing.SHA) || isCommit(revision) && listing.SHA != revision {
		return "", nil, fmt.Errorf("%s gives no listing of it, as a hub does", address)
	}
	names = map[string]bool{}
	for _, sibling := range listing.Siblings {
		names[sibling.Name] = true // names are looked up and never become paths
	}
	return listing.SHA, names, nil
}

// remoteFile is what the hub says of a file without sending it.
type remoteFile struct {
	name, url, hash string
	size            int64 // -1 if it does not say
}

// look asks for the hash and size of a file. The answer for a large one is a redirect to where it is stored, and the
// headers are on it; that for a renamed model is one without them, and followed.
func (r *remote) look(ctx context.Context, commit, name string) (f remoteFile, err error) {
	f.name = name
	f.url = r.endpoint.String() + "/" + r.id + "/resolve/" + commit + "/" + url.PathEscape(name)
	header, err := r.client.Head(ctx, f.url, func(h http.Header) bool { return h.Get("X-Linked-Etag") != "" })
	if err != nil {
		return f, fmt.Errorf("%s: %w", name, r.explain(err))
	}
	if of := header.Get("X-Repo-Commit"); of != "" && of != commit {
		return f, fmt.Errorf("%s: the hub offers that of commit %.40q, want %s", name, of, commit)
	}
	etag := cmp.Or(header.Get("X-Linked-Etag"), header.Get("ETag"))
	f.hash = strings.Trim(strings.TrimPrefix(etag, "W/"), `"`)
	if !fetch.IsHash(f.hash) {
		return f, fmt.Errorf("%s: the hub gives no hash to verify it by (its ETag is %.80q)", name, etag)
	}
	size := header.Get("X-Linked-Size")
	if size == "" && header.Get("Location") == "" { // the length of a redirect is its own
		size = header.Get("Content-Length")
	}
	f.size, err = strconv.ParseInt(size, 10, 64)
	if err != nil || f.size < 0 {
		f.size = -1
	}
	return f, nil
}

// bring puts files of a commit into the cache, after having looked at all of them.
func (r *remote) bring(ctx context.Context, to cache, commit string, names []string) error {
	left := r.maxBytes
	var files []remoteFile
	for _, name := range names {
		f, err := r.look(ctx, commit, name)
		if err != nil {
			return err
		}
		if left -= max(f.size, 0); left < 0 { // at once, before many sizes overflow
			return fmt.Errorf("%s: its %d bytes make the model larger than MaxBytes, %d", name, f.size, r.maxBytes)
		}
		files = append(files, f)
	}
	for _, f := range files {
		if fetch.Verify(ctx, filepath.Join(to.snapshotDir(commit), f.name), f.hash) == nil {
			continue
		}
		limit := f.size
		if limit < 0 {
			limit = left
		}
		if filepath.Ext(f.name) == ".json" {
			limit = min(limit, maxJSON)
		}
		err := r.client.Fetch(ctx, fetch.File{URL: f.url, Hash: f.hash, Limit: limit, Lock: to.lock(f.hash), Replace: true},
			to.blob(f.hash), func(done, total int64) { r.progress(f.name, done, total) })
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		if err := to.link(commit, f.name, f.hash); err != nil {
			return err
		}
	}
	return nil
}

// explain adds to a refusal what to do about it.
func (r *remote) explain(err error) error {
	refusal := (*fetch.StatusError)(nil)
	if !errors.As(err, &refusal) {
		return err
	}
	page := r.endpoint.String() + "/" + r.id
	var advice string
	switch kind := refusal.Header.Get("X-Error-Code"); {
	case kind == "GatedRepo" || refusal.Code == http.StatusForbidden:
		advice = "access has to be granted first, at " + page + ", to the account whose token is used (HF_TOKEN)"
	case kind == "RevisionNotFound":
		advice = "the model has no such revision"
	case refusal.Code == http.StatusUnauthorized && r.token != "":
		advice = "no such model, or none that this token (HF_TOKEN) may read"
	case refusal.Code == http.StatusUnauthorized:
		advice = "no such model, or a private one, which needs a token (HF_TOKEN)"
	case refusal.Code == http.StatusNotFound:
		advice = "no such model, revision or file at " + page
	default:
		return err
	}
	return fmt.Errorf("%w: %s", err, advice)
}

// noAnswer tells whether the hub could not be asked, as opposed to having refused.
func noAnswer(err error) bool {
	network, refusal := (*fetch.NetworkError)(nil), (*fetch.StatusError)(nil)
	return errors.As(err, &network) || errors.As(err, &refusal) && refusal.Passing()
}
