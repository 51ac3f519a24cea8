// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/wepe-go/wepe/internal/fetch"
)

// maxJSON bounds the listing and the small files.
const maxJSON = 16 << 20

// remote is one model on the hub.
type remote struct {
	settings
	id      string
	renamed bool
	client  *fetch.Client
}

// newClient is replaced by tests, for shorter waits.
var newClient = fetch.NewClient

// remoteFile is a file in the hub's listing. A large one is identified by the SHA-256 of its content (LFS), a small one
// by its git hash. Other tools name their blobs the same way.
type remoteFile struct {
	Name string `json:"rfilename"`
	Size int64  `json:"size"`
	Blob string `json:"blobId"`
	LFS  struct {
		SHA256 string `json:"sha256"`
	} `json:"lfs"`
}

func (f remoteFile) hash() string {
	if f.LFS.SHA256 != "" {
		return f.LFS.SHA256
	}
	return f.Blob
}

// list returns the current commit of the revision and its files by name. Names are looked up and never become paths.
func (r *remote) list(ctx context.Context, revision string) (commit string, files map[string]remoteFile, err error) {
	address := r.endpoint + "/api/models/" + r.id + "/revision/" + url.PathEscape(revision) + "?blobs=true"
	raw, err := r.client.Get(ctx, address, maxJSON)
	if err != nil {
		return "", nil, r.explain(err, false)
	}
	var listing struct {
		ID       string       `json:"id"`
		SHA      string       `json:"sha"`
		Siblings []remoteFile `json:"siblings"`
	}
	err = json.Unmarshal(raw, &listing)
	if err != nil || !isCommit(listing.SHA) || isCommit(revision) && listing.SHA != revision {
		return "", nil, fmt.Errorf("%s did not return the listing of a model: is HF_ENDPOINT a Hugging Face hub?", address)
	}
	if m, err := parseModel(listing.ID); err == nil && m.id != r.id && !r.renamed {
		r.id, r.renamed = m.id, true // a redirect to a new name may drop the query
		return r.list(ctx, revision)
	}
	files = map[string]remoteFile{}
	for _, f := range listing.Siblings {
		if _, twice := files[f.Name]; twice {
			return "", nil, fmt.Errorf("the hub lists %.80q twice", f.Name)
		}
		files[f.Name] = f
	}
	return listing.SHA, files, nil
}

// converted adds the pull request of the hub's converter to safetensors to an error, if there is one. It asks as
// huggingface_hub's get_repo_discussions; author and title are of transformers' safetensors_conversion.py.
func (r *remote) converted(ctx context.Context, refused error) error {
	const author, title = "SFconvertbot", "Adding `safetensors` variant of this model"
	address := r.endpoint + "/api/models/" + r.id + "/discussions?type=pull_request&status=open&author=" + author
	raw, err := r.client.Get(ctx, address, maxJSON)
	var found struct {
		Discussions []struct {
			Num    int
			Title  string
			Author struct{ Name string }
		}
	}
	if err == nil && json.Unmarshal(raw, &found) == nil {
		for _, d := range found.Discussions {
			if d.Author.Name == author && d.Title == title {
				return fmt.Errorf("%w; it is there: %s%s@refs/pr/%d", refused, Scheme, r.id, d.Num)
			}
		}
	}
	return refused
}

// bring downloads files of a commit and links them into its snapshot. It subtracts their sizes from left, the remaining
// allowance of the model.
func (r *remote) bring(ctx context.Context, to cache, commit string, files []remoteFile, left *int64) error {
	for _, f := range files {
		if !fetch.IsHash(f.hash()) {
			return fmt.Errorf("%s: the hub returned no hash to verify it (but %.80q)", f.Name, f.hash())
		}
		if f.Size < 0 || f.Size > *left {
			return fmt.Errorf("%s: its %d bytes make the model larger than %d, the limit of a download", f.Name, f.Size,
				maxBytes)
		}
		*left -= f.Size
		if f.Size > maxJSON && filepath.Ext(f.Name) == ".json" {
			return fmt.Errorf("%s has %d bytes, want at most %d", f.Name, f.Size, maxJSON)
		}
	}
	for _, f := range files {
		hash := f.hash()
		if fetch.Verify(ctx, filepath.Join(to.snapshotDir(commit), f.Name), hash) == nil {
			continue
		}
		address := r.endpoint + "/" + r.id + "/resolve/" + commit + "/" + url.PathEscape(f.Name)
		err := r.client.Fetch(ctx, fetch.File{URL: address, Hash: hash, Limit: f.Size, Lock: to.lock(hash), Replace: true},
			to.blob(hash), func(done, total int64) { r.progress(f.Name, done, total) })
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, r.explain(err, true))
		}
		if err := to.link(commit, f.Name, hash); err != nil {
			return err
		}
	}
	return nil
}

// explain adds the hub's meaning to a refusal of the listing or of a file. The hub also returns 401 for models that do
// not exist.
func (r *remote) explain(err error, file bool) error {
	refusal := (*fetch.StatusError)(nil)
	if !errors.As(err, &refusal) {
		return err
	}
	page := r.endpoint + "/" + r.id
	var advice string
	switch kind := refusal.Header.Get("X-Error-Code"); {
	case refusal.Code == http.StatusTooManyRequests && r.token == "":
		advice = "the limit is higher with a token (HF_TOKEN)"
	case file && kind == "": // refused by the store to which the hub redirected
		return err
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

// noAnswer reports that the hub cannot be reached, is broken or is too busy, so that the cache may be used instead.
func noAnswer(err error) bool {
	network, refusal := (*fetch.NetworkError)(nil), (*fetch.StatusError)(nil)
	return errors.As(err, &network) || errors.As(err, &refusal) && refusal.Passing()
}

// Scheme is the prefix of a model's address.
const Scheme = "hf://"

// modelName is a model of the hub at some revision.
type modelName struct {
	id       string // owner/name, or only a name for the oldest models
	revision string // branch, tag, commit or refs/pr/N
}

func (m modelName) String() string { return m.id + "@" + m.revision }

const idPart = `[A-Za-z0-9_]([A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?`

// Both become paths in the cache and parts of an address, so they may have only characters that the hub and git allow.
var (
	validID       = regexp.MustCompile(`^(` + idPart + `/)?` + idPart + `$`)
	validRevision = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._/+-]{0,254}$`)
	validCommit   = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

func isCommit(revision string) bool { return validCommit.MatchString(revision) }

// parseModel reads [hf://][owner/]name[@revision].
func parseModel(address string) (modelName, error) {
	id, revision, given := strings.Cut(strings.TrimPrefix(address, Scheme), "@")
	if !given {
		revision = "main"
	}
	// The cache replaces / by --: two models would share a directory if a name contained --. The hub forbids such names.
	if !validID.MatchString(id) || strings.Contains(id, "--") || strings.Contains(id, "..") {
		return modelName{}, fmt.Errorf("hub: %q is not the address of a model, want hf://owner/name or "+
			"hf://owner/name@revision", address)
	}
	if !validRevision.MatchString(revision) || strings.Contains(revision, "..") || strings.Contains(revision, "/.") ||
		filepath.ToSlash(filepath.Clean(revision)) != revision || !filepath.IsLocal(revision) {
		return modelName{}, fmt.Errorf("hub: %q: revision %q is not a branch, tag or commit", address, revision)
	}
	return modelName{id, revision}, nil
}
