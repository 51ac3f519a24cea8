// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package hub

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// tree lists the files and links below a directory, links with their targets.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if entry.Type() == fs.ModeSymlink {
			target, _ := os.Readlink(path)
			name += " -> " + target
		}
		found = append(found, filepath.ToSlash(name))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// The expected tree is from https://huggingface.co/docs/hub/local-cache.
func TestDownload_SharedLayout(t *testing.T) {
	h := newFakeHub(t)
	delete(h.files, preprocessorFile)
	type call struct {
		file        string
		done, total int64
	}
	last := map[string]call{}
	t.Setenv("HF_TOKEN", "hf_1")
	s, err := Download(t.Context(), "hf://owner/vit", func(file string, done, total int64) {
		last[file] = call{file, done, total}
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.Dir != filepath.Join(modelDir(), "snapshots", oldCommit) || s.Commit != oldCommit || s.Unreached != nil {
		t.Errorf("snapshot %+v", s)
	}
	config, weights := hashOf(configFile, h.files[configFile]), hashOf(weightsFile, h.files[weightsFile])
	want := []string{
		".locks/models--owner--vit/" + config + ".lock",
		".locks/models--owner--vit/" + weights + ".lock",
		"models--owner--vit/.no_exist/" + oldCommit + "/preprocessor_config.json",
		"models--owner--vit/blobs/" + config,
		"models--owner--vit/blobs/" + weights,
		"models--owner--vit/refs/main",
		"models--owner--vit/snapshots/" + oldCommit + "/config.json -> ../../blobs/" + config,
		"models--owner--vit/snapshots/" + oldCommit + "/model.safetensors -> ../../blobs/" + weights,
	}
	got := tree(t, filepath.Join(os.Getenv("HF_HOME"), "hub"))
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the cache holds\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, name := range []string{configFile, weightsFile} {
		size := int64(len(h.files[name]))
		if raw, err := os.ReadFile(filepath.Join(s.Dir, name)); err != nil || !bytes.Equal(raw, h.files[name]) {
			t.Errorf("%s: %d bytes, error %v", name, len(raw), err)
		}
		if last[name] != (call{name, size, size}) {
			t.Errorf("progress ended at %v, want %d of %s", last[name], size, name)
		}
	}
	if raw, _ := os.ReadFile(filepath.Join(modelDir(), "refs", "main")); string(raw) != oldCommit {
		t.Errorf("refs/main is %q: other tools read it untrimmed", raw)
	}
	if want := map[string]string{"hub": "Bearer hf_1", "store": ""}; !maps.Equal(h.tokens, want) {
		t.Errorf("tokens %q, want %q", h.tokens, want)
	}
}

func TestDownload_CachedFiles(t *testing.T) {
	h := newFakeHub(t)
	h.files[preprocessorFile] = []byte{} // an empty file is a file, too
	get(t, "owner/vit")
	for _, c := range []struct {
		revision string
		requests []string
	}{{"v1.0", []string{"GET /api/models/owner/vit/revision/v1.0"}}, {oldCommit, nil}} {
		h.seen()
		s := get(t, "owner/vit@"+c.revision)
		requests, ranges := h.seen()
		if s.Commit != oldCommit || !slices.Equal(requests, c.requests) || len(ranges) > 0 {
			t.Errorf("%s: %+v after the requests %q and %q, want %q", c.revision, s, requests, ranges, c.requests)
		}
	}
}

// As other tools leave it.
func TestDownload_Resumes(t *testing.T) {
	h := newFakeHub(t)
	put(t, h.blob(weightsFile)+".incomplete", h.files[weightsFile][:100_003])
	h.holds(t, get(t, "owner/vit"))
	if _, ranges := h.seen(); !slices.Equal(ranges, []string{"bytes=100003-"}) {
		t.Errorf("ranges %q", ranges)
	}
}

func TestDownload_Shards(t *testing.T) {
	h := newFakeHub(t)
	h.files[indexFile] = []byte(`{"weight_map": {"a": "m-2.safetensors", "b": "m-1.safetensors", "c": "m-2.safetensors"}}`)
	h.files["m-1.safetensors"], h.files["m-2.safetensors"] = []byte("one"), []byte("two")
	h.files["m-3.safetensors"] = []byte("nobody's")
	delete(h.files, weightsFile)
	for _, without := range []string{"0", "1"} {
		t.Setenv("HF_HUB_OFFLINE", without)
		s := gomlxtest.Must(Download(t.Context(), "owner/vit@refs/pr/7", nil))(t)
		entries, err := os.ReadDir(s.Dir)
		var names []string
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		want := []string{configFile, "m-1.safetensors", "m-2.safetensors", indexFile, preprocessorFile}
		if err != nil || s.Commit != newCommit || !slices.Equal(names, want) {
			t.Errorf("commit %s holds %q (%v), want %q", s.Commit, names, err, want)
		}
	}
	if raw, err := os.ReadFile(filepath.Join(modelDir(), "refs", "refs", "pr", "7")); string(raw) != newCommit {
		t.Errorf("refs/refs/pr/7 is %q, error %v", raw, err)
	}
	gomlxtest.NoError(t, os.Remove(filepath.Join(modelDir(), "snapshots", newCommit, "m-1.safetensors")))
	_, err := offline(t, "owner/vit@refs/pr/7")
	if err == nil || !strings.Contains(err.Error(), "m-1.safetensors") {
		t.Errorf("a missing shard, offline: error %v", err)
	}
}

// leaveAsPythonDoes writes a snapshot as huggingface_hub leaves it, with links or, where there are none, files.
func leaveAsPythonDoes(t *testing.T, files map[string][]byte, links bool) {
	put(t, filepath.Join(modelDir(), "refs", "main"), []byte(oldCommit))
	for _, name := range []string{configFile, weightsFile, "pytorch_model.bin"} {
		file := filepath.Join(modelDir(), "snapshots", oldCommit, name)
		if !links {
			put(t, file, files[name])
			continue
		}
		hash := hashOf(name, files[name])
		put(t, filepath.Join(modelDir(), "blobs", hash), files[name])
		gomlxtest.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		if err := os.Symlink("../../blobs/"+hash, file); err != nil {
			t.Skip(err)
		}
	}
}

func TestDownload_CacheOfOtherTools(t *testing.T) {
	for name, links := range map[string]bool{"links": true, "files": false} {
		t.Run(name, func(t *testing.T) {
			h := newFakeHub(t)
			own := filepath.Join(t.TempDir(), "own.json") // without a hash
			put(t, own, h.files[preprocessorFile])
			delete(h.files, preprocessorFile)
			leaveAsPythonDoes(t, h.files, links)
			if err := os.Symlink(own, filepath.Join(modelDir(), "snapshots", oldCommit, preprocessorFile)); err != nil {
				t.Skip(err)
			}
			t.Setenv("HF_HUB_OFFLINE", "1")
			s, err := Download(t.Context(), "owner/vit", nil)
			if requests, _ := h.seen(); err != nil || s.Commit != oldCommit || len(requests) > 0 {
				t.Fatalf("offline: %d requests, error %v", len(requests), err)
			}
			h.holds(t, s)
			t.Setenv("HF_HUB_OFFLINE", "0")
			get(t, "owner/vit")
			if requests, ranges := h.seen(); len(requests) != 1 || len(ranges) > 0 {
				t.Errorf("what is there is fetched again: %q, %q", requests, ranges)
			}
		})
	}
}

// Python may have downloaded the weights alone: whether the model has a preprocessor is then unknown.
func TestDownload_CacheWithoutThePreprocessor(t *testing.T) {
	h := newFakeHub(t)
	delete(h.files, preprocessorFile)
	leaveAsPythonDoes(t, h.files, true)
	t.Setenv("HF_HUB_OFFLINE", "1")
	if _, err := Download(t.Context(), "owner/vit", nil); err == nil || !strings.Contains(err.Error(), preprocessorFile) {
		t.Errorf("error %v", err)
	}
	put(t, filepath.Join(modelDir(), ".no_exist", oldCommit, preprocessorFile), nil)
	if _, err := Download(t.Context(), "owner/vit", nil); err != nil {
		t.Errorf("known to have none: %v", err)
	}
}

// Python may have downloaded the variant fp16 alone, of a model that has other weights.
func TestDownload_HalfPrecisionInTheCache(t *testing.T) {
	h := newFakeHub(t)
	h.files[halfFile] = []byte("half")
	dir := filepath.Join(modelDir(), "snapshots", oldCommit)
	put(t, filepath.Join(modelDir(), "refs", "main"), []byte(oldCommit))
	for _, name := range []string{configFile, preprocessorFile, halfFile} {
		put(t, filepath.Join(dir, name), h.files[name])
	}
	if _, err := offline(t, "owner/vit"); err == nil || !strings.Contains(err.Error(), "does not say whether the model") {
		t.Errorf("weights unknown: %v", err)
	}
	if get(t, "owner/vit@"+oldCommit); !exists(filepath.Join(dir, weightsFile)) {
		t.Error("the weights of the model were not downloaded")
	}
	h = newFakeHub(t)
	h.files[halfFile] = []byte("half")
	delete(h.files, weightsFile)
	get(t, "owner/vit")
	if s, err := offline(t, "owner/vit"); err != nil || !exists(filepath.Join(s.Dir, halfFile)) {
		t.Errorf("a model of half precision: %v", err)
	}
}

func TestDownload_DamagedBlob(t *testing.T) {
	for _, revision := range []string{"main", oldCommit} {
		h := newFakeHub(t)
		get(t, "owner/vit")
		damaged := bytes.Clone(h.files[weightsFile]) // of the right size, the only property that other tools check
		damaged[77] ^= 1
		put(t, h.blob(weightsFile), damaged)
		_, err := offline(t, "owner/vit@"+revision)
		if err == nil || !strings.Contains(err.Error(), "sha256") {
			t.Errorf("%s offline: error %v", revision, err)
		}
		h.holds(t, get(t, "owner/vit@"+revision))
		if exists(filepath.Join(modelDir(), "refs", oldCommit)) {
			t.Error("a commit has become a branch")
		}
	}
}

func TestDownload_WithoutAHub(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*fakeHub)
		want   string // of Unreached; "" if the cache may not answer
	}{
		"busy":           {status(http.StatusTooManyRequests, ""), "429"},
		"broken":         {status(http.StatusServiceUnavailable, ""), "503"},
		"removed":        {status(http.StatusNotFound, ""), ""},
		"forbidden":      {status(http.StatusForbidden, ""), ""},
		"captive_portal": {listing("<html>log in</html>"), ""},
		"no_network":     {func(h *fakeHub) { h.Close() }, "network"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFakeHub(t)
			get(t, "owner/vit")
			c.change(h)
			s, err := Download(t.Context(), "owner/vit", nil)
			switch {
			case c.want == "" && err == nil:
				t.Errorf("the cache answered: %+v", s)
			case c.want != "" && (err != nil || s.Commit != oldCommit || s.Unreached == nil ||
				!strings.Contains(s.Unreached.Error(), c.want)):
				t.Errorf("snapshot %+v, error %v, want one that says %q", s, err, c.want)
			}
		})
	}
}

// A new commit replaces the branch's only when it is complete: until then the cache has the old one.
func TestDownload_IncompleteCommit(t *testing.T) {
	h := newFakeHub(t)
	get(t, "owner/vit")
	h.revisions["main"] = newCommit
	old := h.files[weightsFile]
	h.files[weightsFile] = []byte("new weights")
	h.store.Config.Handler = http.NotFoundHandler()
	if _, err := Download(t.Context(), "owner/vit", nil); err == nil {
		t.Fatal("no error without a store")
	}
	s, err := offline(t, "owner/vit")
	if err != nil || s.Commit != oldCommit {
		t.Fatalf("snapshot %+v, error %v", s, err)
	}
	h.files[weightsFile] = old
	h.holds(t, s)
}

func TestDownload_RenamedModel(t *testing.T) {
	h := newFakeHub(t)
	h.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "former/name") {
			return false
		}
		w.Header().Set("Location", strings.Replace(r.URL.Path, "former/name", "owner/vit", 1))
		w.WriteHeader(http.StatusTemporaryRedirect)
		return true
	}
	if s := get(t, "former/name"); s.Commit != oldCommit {
		t.Errorf("snapshot %+v", s)
	}
	h.seen()
	h.answer = func(w http.ResponseWriter, r *http.Request) bool { // a new name each time
		fmt.Fprintf(w, `{"id": "name/%d", "sha": %q}`, len(h.requests), oldCommit)
		return len(h.requests) < 9
	}
	if _, err := Download(t.Context(), "former/name", nil); err == nil || len(h.requests) != 2 {
		t.Errorf("%v after %d requests, want two", err, len(h.requests))
	}
}

func TestDownload_Refusals(t *testing.T) {
	whole := func(*fakeHub) {}
	listed := func(key string, value any) func(*fakeHub) {
		return func(h *fakeHub) {
			h.listed = func(name string, f map[string]any) {
				if name == weightsFile {
					f[key] = value
				}
			}
		}
	}
	hash := func(hash string) func(*fakeHub) { return listed("lfs", map[string]any{"sha256": hash}) }
	index := func(raw string) func(*fakeHub) {
		return func(h *fakeHub) {
			delete(h.files, weightsFile)
			h.files[indexFile] = []byte(raw)
		}
	}
	for name, c := range map[string]struct {
		address string
		change  func(*fakeHub)
		want    string
	}{
		"no_such_model":    {"owner/none", whole, "needs a token"},
		"no_such_revision": {"owner/vit@v9", whole, "no such revision"},
		"gated":            {"owner/vit", status(http.StatusForbidden, "GatedRepo"), "access has to be granted"},
		"gated_401":        {"owner/vit", status(http.StatusUnauthorized, "GatedRepo"), "/owner/vit, to the account"},
		"404":              {"owner/vit", status(http.StatusNotFound, ""), "no such model"},
		"500":              {"owner/vit", status(http.StatusInternalServerError, ""), "500 Internal Server Error"},
		"html":             {"owner/vit", listing("<html></html>"), "did not return the listing"},
		"no_commit":        {"owner/vit", listing(`{"sha": "../../..", "siblings": []}`), "did not return the listing"},
		"another_commit":   {"owner/vit@" + newCommit, listing(`{"sha": "` + oldCommit + `"}`), "did not return the listing"},
		"endless_listing":  {"owner/vit", listing(strings.Repeat(" ", maxJSON+1)), "more than 16777216 bytes"},
		"deep_listing":     {"owner/vit", listing(strings.Repeat("[", 1<<20)), "did not return the listing"},
		"empty":            {"owner/vit", listing(`{"sha": "` + oldCommit + `"}`), "it has no model.safetensors"},
		"pickles": {"owner/vit", func(h *fakeHub) { delete(h.files, weightsFile) },
			"only pytorch_model.bin: a pickle runs code"},
		"wrong_bytes":   {"owner/vit", hash(strings.Repeat("0", 64)), "sha256"},
		"no_hash":       {"owner/vit", hash("d41d8cd98f00b204e9800998ecf8427e"), "no hash"},
		"hash_is_path":  {"owner/vit", hash("../../../../evil"), "no hash"},
		"larger":        {"owner/vit", listed("size", 140_076), "offers 140077 bytes"},
		"huge":          {"owner/vit", listed("size", int64(1)<<62), "the limit of a download"},
		"negative":      {"owner/vit", listed("size", -1), "the limit of a download"},
		"size_is_words": {"owner/vit", listed("size", "much"), "did not return the listing"},
		"gated_file": {"owner/vit", func(h *fakeHub) {
			h.answer = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, "/resolve/") {
					return false
				}
				w.Header().Set("X-Error-Code", "GatedRepo")
				w.WriteHeader(http.StatusUnauthorized)
				return true
			}
		}, "access has to be granted"},
		"huge_config": {"owner/vit", func(h *fakeHub) { h.files[configFile] = make([]byte, maxJSON+1) },
			"want at most 16777216"},
		"store_refuses": {"owner/vit", func(h *fakeHub) { h.store.Config.Handler = http.NotFoundHandler() },
			"model.safetensors: the server answered 404"},
		"index_climbs":  {"owner/vit", index(`{"weight_map": {"a": "../../../evil.safetensors"}}`), "beside the index"},
		"index_no_map":  {"owner/vit", index(`{}`), "weight_map"},
		"index_lies":    {"owner/vit", index(`{"weight_map": {"a": "m-1.safetensors"}}`), "does not have"},
		"index_pickles": {"owner/vit", index(`{"weight_map": {"a": "pytorch_model.bin"}}`), "no .safetensors"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFakeHub(t)
			c.change(h)
			_, err := Download(t.Context(), c.address, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one line that says %q", err, c.want)
			}
			for _, file := range tree(t, os.Getenv("HF_HOME")) {
				if strings.Contains(file, "/refs/") || strings.Contains(file, "evil") {
					t.Errorf("%s is there after a failure", file)
				}
			}
			if _, err := offline(t, c.address); err == nil {
				t.Error("the cache has a snapshot after a failure")
			}
		})
	}
}

func TestDownload_SumIsBounded(t *testing.T) {
	h := newFakeHub(t)
	sum := int64(len(h.files[configFile]) + len(h.files[preprocessorFile]) + len(h.files[weightsFile]))
	defer func(before int64) { maxBytes = before }(maxBytes)
	maxBytes = sum - 1
	if _, err := Download(t.Context(), "owner/vit", nil); err == nil {
		t.Error("one byte too many is fetched")
	}
	maxBytes = sum
	get(t, "owner/vit")
}

func TestDownload_OfflineMakesNoRequest(t *testing.T) {
	h := newFakeHub(t)
	for _, revision := range []string{"main", oldCommit} {
		_, err := offline(t, "owner/vit@"+revision)
		if err == nil || !strings.Contains(err.Error(), "incomplete in the cache "+modelDir()) {
			t.Errorf("%s: error %v", revision, err)
		}
	}
	if requests, _ := h.seen(); len(requests) > 0 {
		t.Errorf("requests %q", requests)
	}
}

// Whatever the hub lists, a download writes to the model's directory only and ends with verified weights or an error.
func FuzzListing(f *testing.F) {
	h := newFakeHub(f)
	recorded := httptest.NewRecorder()
	h.serveListing(recorded, "main", true)
	f.Add(recorded.Body.String())
	f.Add(`{"id": "owner/../vit", "sha": "` + oldCommit + `", "siblings": [{"rfilename": "model.safetensors", "size": -1}]}`)
	f.Fuzz(func(t *testing.T, raw string) {
		h.answer = func(w http.ResponseWriter, r *http.Request) bool {
			listed := strings.HasPrefix(r.URL.Path, "/api/models/")
			if listed {
				_, _ = w.Write([]byte(raw))
			}
			return listed
		}
		home := t.TempDir()
		t.Setenv("HF_HOME", home)
		s, err := Download(t.Context(), "owner/vit", nil)
		if err == nil {
			got, err := os.ReadFile(filepath.Join(s.Dir, weightsFile))
			if err != nil || !bytes.Equal(got, h.files[weightsFile]) {
				t.Errorf("%d bytes of weights (%v), want %d", len(got), err, len(h.files[weightsFile]))
			}
		}
		all, _ := filepath.Glob(filepath.Join(home, "*", "*"))
		for _, path := range all {
			if name := filepath.Base(path); name != "models--owner--vit" && name != ".locks" {
				t.Errorf("%q is written", path)
			}
		}
	})
}
