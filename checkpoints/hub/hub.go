// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package hub downloads models from the Hugging Face hub for package checkpoints.
//
//	snapshot, err := hub.Download(ctx, "hf://google/vit-base-patch16-224@main", nil)
//	imported, err := checkpoints.Import(snapshot.Dir, checkpoints.ImportOptions{})
//
// It fetches what checkpoints.Import and preprocessing read: config.json, preprocessor_config.json,
// processor_config.json, and model.safetensors, its half-precision form or its index with shards; never pickles. Every
// file is verified by the hub's hash (SHA-256, or git's SHA-1 for small files) after download and on every use.
// Interrupted downloads resume.
//
// Files are kept in the cache of Hugging Face's tools (https://huggingface.co/docs/hub/local-cache). A commit given by
// its 40 digits needs no network if it is in the cache. A branch or tag is looked up; if the hub cannot be reached, the
// last known commit is used, see [Snapshot].Unreached.
//
// Environment variables, as in Hugging Face's tools:
//
//	HF_ENDPOINT       the hub, https://huggingface.co
//	HF_TOKEN          for private and gated models; default the content of HF_TOKEN_PATH, $HF_HOME/token
//	HF_HUB_CACHE      the cache, $HF_HOME/hub
//	HF_HOME           $XDG_CACHE_HOME/huggingface or ~/.cache/huggingface
//	HF_HUB_OFFLINE    1: only the cache
//
// The token is sent to the endpoint's host only. Limits: ten seconds to connect, twenty for a response, thirty per 32
// KiB; transient failures are retried four times.
//
// The package uses the hub's HTTP interface itself, because go-huggingface v0.4.1 neither resumes nor verifies
// downloads (docs/evidence/upstream.md).
package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/checkpoints/internal/index"
	"github.com/wepe-go/wepe/internal/disk"
	"github.com/wepe-go/wepe/internal/fetch"
)

// Snapshot is one commit of a model in the cache.
type Snapshot struct {
	Dir       string // the directory for checkpoints.Import
	Commit    string // 40 hex digits
	Unreached error  // why the hub could not resolve the revision, so that the cache was used; nil if it did
}

// maxBytes bounds a model.
var maxBytes int64 = 64 << 30

// Download downloads the files of a model that checkpoints.Import needs into the cache, unless they are there. The
// address is hf://owner/name or hf://owner/name@revision, with the revision a branch, a tag, a commit or refs/pr/N; the
// default is main. hf:// may be omitted. progress, which may be nil, is called with the name of the current file, its
// bytes so far and its size, -1 if unknown.
func Download(ctx context.Context, address string, progress func(file string, done, total int64)) (*Snapshot, error) {
	m, err := parseModel(address)
	if err != nil {
		return nil, err
	}
	s, err := environment()
	if err != nil {
		return nil, err
	}
	if s.progress = progress; progress == nil {
		s.progress = func(string, int64, int64) {}
	}
	snapshot, err := s.download(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("hub: %s: %w", m, err)
	}
	return snapshot, nil
}

func (s settings) download(ctx context.Context, m modelName) (*Snapshot, error) {
	cached := cacheOf(s.cache, m)
	if s.offline {
		return cached.snapshot(ctx, m.revision)
	}
	if isCommit(m.revision) && cached.hasAll(m.revision) {
		snapshot, err := cached.snapshot(ctx, m.revision)
		if wrong := (*fetch.ContentError)(nil); !errors.As(err, &wrong) { // damaged files are downloaded again
			return snapshot, err
		}
	}
	r := &remote{settings: s, id: m.id, client: newClient(s.origin, s.token)}
	defer r.client.Close()
	commit, files, err := r.list(ctx, m.revision)
	if err != nil {
		if noAnswer(err) {
			if snapshot, missing := cached.snapshot(ctx, m.revision); missing == nil {
				snapshot.Unreached = err
				return snapshot, nil
			}
		}
		return nil, err
	}
	return r.snapshot(ctx, cached, commit, files, m.revision)
}

// shardsOf returns the files that the index in a directory lists.
func shardsOf(dir string) ([]string, error) {
	raw, err := disk.ReadFile(filepath.Join(dir, indexFile), maxJSON)
	if err != nil {
		return nil, err
	}
	shards, err := index.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", indexFile, err)
	}
	return shards.Files(), nil
}

// snapshot downloads the files of a commit that are read, then stores the commit of the revision.
func (r *remote) snapshot(ctx context.Context, to cache, commit string, files map[string]remoteFile,
	revision string) (*Snapshot, error) {
	has := func(name string) bool { return files[name].Name != "" }
	names, err := choose(has)
	if errors.Is(err, errPickle) {
		err = cmp.Or(context.Cause(ctx), r.converted(ctx, err))
	}
	if err != nil {
		return nil, err
	}
	dir, left := to.snapshotDir(commit), maxBytes
	for len(names) > 0 {
		var wanted []remoteFile
		for _, name := range names {
			if !has(name) {
				return nil, fmt.Errorf("%s names %s, which the model does not have", indexFile, name)
			}
			wanted = append(wanted, files[name])
		}
		if err := r.bring(ctx, to, commit, wanted, &left); err != nil {
			return nil, err
		}
		if !slices.Contains(names, indexFile) {
			break
		}
		if names, err = shardsOf(dir); err != nil {
			return nil, err
		}
	}
	rest := describing
	if slices.Contains(names, halfFile) {
		rest = slices.Concat(rest, []string{weightsFile, indexFile})
	}
	for _, name := range rest {
		if !has(name) { // remember that it does not exist, where the cache can be written
			_ = write(to.absent(commit, name), "")
		}
	}
	if !isCommit(revision) {
		err = write(to.ref(revision), commit) // other tools read it without trimming
	}
	return &Snapshot{Dir: dir, Commit: commit}, err
}

// Names of the files that are read.
const (
	configFile       = "config.json"
	preprocessorFile = "preprocessor_config.json"
	processorFile    = "processor_config.json"
	weightsFile      = "model.safetensors"
	halfFile         = "model.fp16.safetensors"
	indexFile        = weightsFile + ".index.json"
)

// describing are the files beside the weights.
var describing = []string{configFile, preprocessorFile, processorFile}

var errPickle = errors.New("a pickle runs code when it is read and is never fetched: convert it at " +
	"https://huggingface.co/spaces/safetensors/convert and name the revision that this makes, refs/pr/N")

// choose lists the files to read, except for the shards that an index names.
func choose(has func(name string) bool) (names []string, err error) {
	for _, name := range describing {
		if has(name) {
			names = append(names, name)
		}
	}
	for _, name := range []string{weightsFile, indexFile, halfFile} {
		if has(name) {
			return append(names, name), nil
		}
	}
	err = fmt.Errorf("it has no %s and no %s", weightsFile, indexFile)
	for _, name := range []string{"pytorch_model.bin", "pytorch_model.bin.index.json"} {
		if has(name) {
			return nil, fmt.Errorf("%w, only %s: %w", err, name, errPickle)
		}
	}
	return nil, err
}

// settings are the values of the environment, and the caller's progress function.
type settings struct {
	endpoint string // address of the hub
	origin   *url.URL
	token    string
	cache    string // directory
	offline  bool   // use only the cache
	progress func(file string, done, total int64)
}

func environment() (s settings, err error) {
	home := homeDir()
	if s.cache = cmp.Or(variable("HF_HUB_CACHE"), variable("HUGGINGFACE_HUB_CACHE")); s.cache == "" {
		if home == "" {
			return s, errors.New("hub: no home directory to keep a cache in: set HF_HOME")
		}
		s.cache = filepath.Join(home, "hub")
	}
	s.endpoint = strings.TrimRight(cmp.Or(os.Getenv("HF_ENDPOINT"), "https://huggingface.co"), "/")
	s.origin, err = url.Parse(s.endpoint)
	if err != nil || s.origin.Host == "" || s.origin.User != nil || s.origin.RawQuery != "" {
		return s, errors.New("hub: the endpoint HF_ENDPOINT is not a plain address, as https://huggingface.co")
	}
	s.offline = isTrue("HF_HUB_OFFLINE") || os.Getenv("HF_HUB_OFFLINE") == "" && isTrue("TRANSFORMERS_OFFLINE")
	if !isTrue("HF_HUB_DISABLE_IMPLICIT_TOKEN") {
		s.token, err = storedToken(home)
	}
	return s, err
}

// homeDir is the directory of Hugging Face's tools, "" if there is none.
func homeDir() string {
	if home := variable("HF_HOME"); home != "" {
		return home
	}
	if caches := os.Getenv("XDG_CACHE_HOME"); caches != "" {
		return filepath.Join(caches, "huggingface")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".cache", "huggingface")
}

// storedToken returns the token of the environment or of a login; "" if there is none.
func storedToken(home string) (string, error) {
	for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} {
		if token := strings.TrimSpace(os.Getenv(name)); token != "" {
			return token, nil
		}
	}
	file := variable("HF_TOKEN_PATH")
	if file == "" {
		if home == "" {
			return "", nil
		}
		file = filepath.Join(home, "token")
	}
	raw, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("hub: reading the token: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// variable is a path in the environment. It may contain ~ and $NAME, because no shell expands files of variables.
func variable(name string) string {
	path := os.ExpandEnv(os.Getenv(name))
	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || os.IsPathSeparator(rest[0])) {
		if home, err := os.UserHomeDir(); err == nil {
			return home + rest
		}
	}
	return path
}

// isTrue reads a switch as the tools of Hugging Face do.
func isTrue(name string) bool {
	return slices.Contains([]string{"1", "ON", "YES", "TRUE"}, strings.ToUpper(os.Getenv(name)))
}
