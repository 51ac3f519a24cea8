// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package hub

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/internal/disk"
	"github.com/wepe-go/wepe/internal/fetch"
)

// cache is a model in the cache: blobs stores contents by their hashes, snapshots the files of commits as links to
// them, refs the last known commit of a branch or tag, .no_exist the names of files that a commit lacks.
type cache struct {
	dir   string
	locks string // one lock file per blob, shared with other tools
}

func cacheOf(dir string, m modelName) cache {
	folder := "models--" + strings.ReplaceAll(m.id, "/", "--")
	return cache{filepath.Join(dir, folder), filepath.Join(dir, ".locks", folder)}
}

func (c cache) blob(hash string) string { return filepath.Join(c.dir, "blobs", hash) }
func (c cache) lock(hash string) string { return filepath.Join(c.locks, hash+".lock") }
func (c cache) ref(revision string) string {
	return filepath.Join(c.dir, "refs", filepath.FromSlash(revision))
}
func (c cache) snapshotDir(commit string) string { return filepath.Join(c.dir, "snapshots", commit) }
func (c cache) absent(commit, name string) string {
	return filepath.Join(c.dir, ".no_exist", commit, name)
}

// snapshot returns what the cache has of a revision, verified, without a request.
func (c cache) snapshot(ctx context.Context, revision string) (*Snapshot, error) {
	commit := revision
	if !isCommit(commit) {
		raw, err := os.ReadFile(c.ref(revision))
		commit = strings.TrimSpace(string(raw))
		if err != nil || !isCommit(commit) {
			return nil, c.missing(errors.New("it does not have this revision"))
		}
	}
	dir := c.snapshotDir(commit)
	names, err := c.files(commit)
	if err != nil {
		return nil, c.missing(err)
	}
	if !c.knowsPreprocessing(commit) { // other programs may have downloaded the model alone
		return nil, c.missing(fmt.Errorf("it does not say whether the model has a %s", preprocessorFile))
	}
	for _, name := range names {
		if err := verifyLink(ctx, filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	return &Snapshot{Dir: dir, Commit: commit}, nil
}

// knows reports whether a file of a commit is in the cache, or known to be absent.
func (c cache) knows(commit, name string) bool {
	return exists(filepath.Join(c.snapshotDir(commit), name)) || exists(c.absent(commit, name))
}

// knowsPreprocessing reports whether the cache has the file with the preprocessing, or knows that there is none. timm
// has it in its config.json.
func (c cache) knowsPreprocessing(commit string) bool {
	if c.knows(commit, preprocessorFile) || exists(filepath.Join(c.snapshotDir(commit), processorFile)) {
		return true
	}
	raw, err := os.ReadFile(filepath.Join(c.snapshotDir(commit), configFile))
	return err == nil && bytes.Contains(raw, []byte(`"architecture"`))
}

func (c cache) missing(err error) error {
	return fmt.Errorf("incomplete in the cache %s (%w): download it with a network connection, without HF_HUB_OFFLINE",
		c.dir, err)
}

// hasAll reports whether every file that is read is in the cache, or known to be absent from the commit.
func (c cache) hasAll(commit string) bool {
	_, err := c.files(commit)
	return err == nil && !slices.ContainsFunc(describing, func(name string) bool { return !c.knows(commit, name) })
}

// files lists the files of a commit that are read, all shards included. Other programs may have downloaded weights of
// half precision although the model has others.
func (c cache) files(commit string) ([]string, error) {
	dir := c.snapshotDir(commit)
	names, err := choose(func(name string) bool { return exists(filepath.Join(dir, name)) })
	unknown := func(name string) bool { return !exists(c.absent(commit, name)) }
	if slices.Contains(names, halfFile) && (unknown(weightsFile) || unknown(indexFile)) {
		return nil, fmt.Errorf("it has %s and does not say whether the model has a %s", halfFile, weightsFile)
	}
	if err != nil || !slices.Contains(names, indexFile) {
		return names, err
	}
	shards, err := shardsOf(dir)
	if err != nil {
		return nil, err
	}
	for _, shard := range shards {
		if !exists(filepath.Join(dir, shard)) {
			return nil, fmt.Errorf("it has no %s", shard)
		}
	}
	return append(names, shards...), nil
}

// verifyLink verifies a file by the name of the blob that it links to. On file systems without links other tools store
// plain files; their hash is unknown, and they are not verified.
func verifyLink(ctx context.Context, file string) error {
	blob, err := os.Readlink(file)
	if hash := filepath.Base(blob); err == nil && fetch.IsHash(hash) {
		return fetch.Verify(ctx, file, hash)
	}
	return nil
}

// link makes a file of a snapshot a link to a blob.
func (c cache) link(commit, name, hash string) error {
	file := filepath.Join(c.snapshotDir(commit), name)
	target, err := filepath.Rel(filepath.Dir(file), c.blob(hash))
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o755)
	}
	if err != nil {
		return err
	}
	temporary := file + "." + rand.Text() + ".incomplete"
	if err := os.Symlink(target, temporary); err != nil { // Windows requires a privilege for it
		if err := os.Link(c.blob(hash), temporary); err != nil {
			return err
		}
	}
	if err = os.Rename(temporary, file); err != nil {
		os.Remove(temporary)
	}
	return err
}

// write replaces a small file of other content.
func write(file, content string) error {
	if was, err := os.ReadFile(file); err == nil && string(was) == content {
		return nil
	}
	return disk.Write(file, func(w io.Writer) error { _, err := io.WriteString(w, content); return err })
}

// exists reports whether a file, or the target of a link, exists.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
