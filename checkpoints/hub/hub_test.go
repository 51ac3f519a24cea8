// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package hub

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
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

	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/fetch"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
)

// tree lists the files and links below a directory in order, links with their targets.
func tree(t *testing.T, dir string) (found []string) {
	t.Helper()
	gomlxtest.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if target, err := os.Readlink(filepath.Join(dir, name)); err == nil {
			name += " -> " + target
		}
		found = append(found, name)
		return nil
	}))
	slices.Sort(found)
	return found
}

// The expected tree is from https://huggingface.co/docs/hub/local-cache.
func TestDownload_SharedLayout(t *testing.T) {
	h := newFakeHub(t)
	delete(h.files, preprocessorFile)
	last := map[string][2]int64{}
	t.Setenv("HF_TOKEN", "hf_1")
	s := gomlxtest.Must(Download(t.Context(), "hf://owner/vit", func(file string, done, total int64) {
		last[file] = [2]int64{done, total}
	}))(t)
	is.Equal(t, "snapshot", *s, Snapshot{Dir: filepath.Join(modelDir(), "snapshots", oldCommit), Commit: oldCommit})
	config, weights := hashOf(configFile, h.files[configFile]), hashOf(weightsFile, h.files[weightsFile])
	want := []string{
		".locks/models--owner--vit/" + config + ".lock",
		".locks/models--owner--vit/" + weights + ".lock",
		"models--owner--vit/.no_exist/" + oldCommit + "/preprocessor_config.json",
		"models--owner--vit/.no_exist/" + oldCommit + "/processor_config.json",
		"models--owner--vit/blobs/" + config,
		"models--owner--vit/blobs/" + weights,
		"models--owner--vit/refs/main",
		"models--owner--vit/snapshots/" + oldCommit + "/config.json -> ../../blobs/" + config,
		"models--owner--vit/snapshots/" + oldCommit + "/model.safetensors -> ../../blobs/" + weights,
	}
	slices.Sort(want)
	is.Equal(t, "the cache", tree(t, filepath.Join(os.Getenv("HF_HOME"), "hub")), want)
	h.holds(t, s, configFile, weightsFile)
	for _, name := range []string{configFile, weightsFile} {
		size := int64(len(h.files[name]))
		is.Equal(t, "the last progress of "+name, last[name], [2]int64{size, size})
	}
	is.Equal(t, "refs/main, which other tools read untrimmed", branch(t, "main"), oldCommit)
	is.Equal(t, "tokens", h.tokens, map[string]string{"hub": "Bearer hf_1", "store": ""})
}

func TestDownload_CachedFiles(t *testing.T) {
	h := newFakeHub(t)
	h.files[preprocessorFile] = []byte{} // an empty file is a file, too
	get(t, "owner/vit")
	for revision, want := range map[string][]string{"v1.0": {"GET /api/models/owner/vit/revision/v1.0"}, oldCommit: nil} {
		h.seen()
		is.Equal(t, revision, get(t, "owner/vit@"+revision).Commit, oldCommit)
		requests, ranges := h.seen()
		is.Equal(t, revision+": requests and ranges", [][]string{requests, ranges}, [][]string{want, nil})
	}
}

// As other tools leave it.
func TestDownload_Resumes(t *testing.T) {
	h := newFakeHub(t)
	put(t, h.blob(weightsFile)+".incomplete", h.files[weightsFile][:100_003])
	h.holds(t, get(t, "owner/vit"), weightsFile)
	_, ranges := h.seen()
	is.Equal(t, "ranges", ranges, []string{"bytes=100003-"})
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
		is.Equal(t, "the commit of a pull request", s.Commit, newCommit)
		is.Equal(t, "its files", gomlxtest.Must(fs.Glob(os.DirFS(s.Dir), "*"))(t),
			[]string{configFile, "m-1.safetensors", "m-2.safetensors", indexFile, preprocessorFile})
	}
	is.Equal(t, "refs/refs/pr/7", branch(t, "refs/pr/7"), newCommit)
	gomlxtest.NoError(t, os.Remove(filepath.Join(modelDir(), "snapshots", newCommit, "m-1.safetensors")))
	is.Refused(t, "a missing shard, offline", is.ErrorOf(offline(t, "owner/vit@refs/pr/7")), "m-1.safetensors")
}

// leaveAsPythonDoes writes a snapshot as huggingface_hub leaves it, with links or, where there are none, files.
func leaveAsPythonDoes(t *testing.T, h *fakeHub, links bool, names ...string) {
	put(t, filepath.Join(modelDir(), "refs", "main"), []byte(oldCommit))
	for _, name := range names {
		file := filepath.Join(modelDir(), "snapshots", oldCommit, name)
		if !links {
			put(t, file, h.files[name])
			continue
		}
		hash := hashOf(name, h.files[name])
		put(t, h.blob(name), h.files[name])
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
			leaveAsPythonDoes(t, h, links, configFile, weightsFile, "pytorch_model.bin")
			if err := os.Symlink(own, filepath.Join(modelDir(), "snapshots", oldCommit, preprocessorFile)); err != nil {
				t.Skip(err)
			}
			s := gomlxtest.Must(offline(t, "owner/vit"))(t)
			requests, _ := h.seen()
			is.Equal(t, "offline", append(requests, s.Commit), []string{oldCommit})
			h.holds(t, s, weightsFile)
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
	leaveAsPythonDoes(t, h, true, configFile, weightsFile)
	is.Refused(t, "unknown", is.ErrorOf(offline(t, "owner/vit")), preprocessorFile)
	put(t, filepath.Join(modelDir(), ".no_exist", oldCommit, preprocessorFile), nil)
	gomlxtest.NoError(t, is.ErrorOf(offline(t, "owner/vit"))) // known to have none
	h = newFakeHub(t)                                         // the file that is read before it is not there
	h.files[processorFile] = []byte(`{"image_processor": {}}`)
	leaveAsPythonDoes(t, h, false, configFile, preprocessorFile, weightsFile)
	h.holds(t, get(t, "owner/vit@"+oldCommit), weightsFile)
}

// Python may have downloaded the variant fp16 alone, of a model that has other weights.
func TestDownload_HalfPrecisionInTheCache(t *testing.T) {
	h := newFakeHub(t)
	h.files[halfFile] = []byte("half")
	leaveAsPythonDoes(t, h, false, configFile, preprocessorFile, halfFile)
	is.Refused(t, "weights unknown", is.ErrorOf(offline(t, "owner/vit")), "does not say whether the model")
	h.holds(t, get(t, "owner/vit@"+oldCommit), weightsFile)
	h = newFakeHub(t)
	h.files[halfFile] = []byte("half")
	delete(h.files, weightsFile)
	get(t, "owner/vit")
	h.holds(t, gomlxtest.Must(offline(t, "owner/vit"))(t), halfFile)
}

func TestDownload_DamagedBlob(t *testing.T) {
	for _, revision := range []string{"main", oldCommit} {
		h := newFakeHub(t)
		get(t, "owner/vit")
		damaged := bytes.Clone(h.files[weightsFile]) // of the right size, the only property that other tools check
		damaged[77] ^= 1
		put(t, h.blob(weightsFile), damaged)
		is.Refused(t, revision+" offline", is.ErrorOf(offline(t, "owner/vit@"+revision)), "sha256")
		h.holds(t, get(t, "owner/vit@"+revision), weightsFile)
		is.Equal(t, "a commit has become a branch", exists(filepath.Join(modelDir(), "refs", oldCommit)), false)
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
			if c.want == "" {
				is.Refused(t, "the cache", err, "")
				return
			}
			gomlxtest.NoError(t, err)
			is.Equal(t, "commit", s.Commit, oldCommit)
			is.Refused(t, "the hub", s.Unreached, c.want)
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
	is.Refused(t, "without a store", is.ErrorOf(Download(t.Context(), "owner/vit", nil)), "")
	s := gomlxtest.Must(offline(t, "owner/vit"))(t)
	is.Equal(t, "commit", s.Commit, oldCommit)
	h.files[weightsFile] = old
	h.holds(t, s, weightsFile)
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
	is.Equal(t, "commit", get(t, "former/name").Commit, oldCommit)
	h.seen()
	h.answer = func(w http.ResponseWriter, r *http.Request) bool { // a new name each time
		fmt.Fprintf(w, `{"id": "name/%d", "sha": %q}`, len(h.requests), oldCommit)
		return len(h.requests) < 9
	}
	is.Refused(t, "a new name each time", is.ErrorOf(Download(t.Context(), "former/name", nil)), "")
	is.Equal(t, "requests", len(h.requests), 2)
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
			"only pytorch_model.bin: a pickle runs code when it is read and is never fetched: convert it at https"},
		"pickles_converted": {"owner/vit", func(h *fakeHub) {
			delete(h.files, weightsFile)
			h.answer = func(w http.ResponseWriter, r *http.Request) bool {
				asked := strings.HasSuffix(r.URL.Path, "/discussions") && r.URL.Query().Get("author") == "SFconvertbot"
				if asked {
					_, _ = w.Write([]byte(`{"discussions": [{"num": 3, "title": "Other", "author": {"name": "SFconvertbot"}},
						{"num": 15, "title": "Adding ` + "`safetensors`" + ` variant of this model",
						"author": {"name": "SFconvertbot"}, "isPullRequest": true}], "count": 2, "start": 0}`))
				}
				return asked
			}
		}, "hf://owner/vit@refs/pr/15"},
		"busy":          {"owner/vit", status(http.StatusTooManyRequests, ""), "HF_TOKEN"},
		"wrong_bytes":   {"owner/vit", hash(strings.Repeat("0", 64)), "sha256"},
		"no_hash":       {"owner/vit", hash("d41d8cd98f00b204e9800998ecf8427e"), "no hash"},
		"hash_is_path":  {"owner/vit", hash("../" + strings.Repeat("a", 61)), "no hash"},
		"hash_of_names": {"owner/vit", hash(strings.Repeat("g", 64)), "no hash"},
		"hash_in_upper": {"owner/vit", hash(strings.Repeat("A", 64)), "no hash"},
		"larger":        {"owner/vit", listed("size", 140_076), "offers 140077 bytes"},
		"huge":          {"owner/vit", listed("size", int64(1)<<62), "the limit of a download"},
		"negative":      {"owner/vit", listed("size", -1), "the limit of a download"},
		"size_is_words": {"owner/vit", listed("size", "much"), "did not return the listing"},
		"gated_file":    {"owner/vit", statusAt("/resolve/", http.StatusUnauthorized, "GatedRepo"), "has to be granted"},
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
			is.Refused(t, "a download", is.ErrorOf(Download(t.Context(), c.address, nil)), c.want)
			for _, file := range tree(t, os.Getenv("HF_HOME")) {
				if strings.Contains(file, "/refs/") || strings.Contains(file, "evil") {
					t.Errorf("%s is there after a failure", file)
				}
			}
			h.seen()
			is.Refused(t, "offline after a failure", is.ErrorOf(offline(t, c.address)), "incomplete in the cache")
			requests, _ := h.seen()
			is.Equal(t, "requests", requests, nil)
		})
	}
}

func TestDownload_SumIsBounded(t *testing.T) {
	h := newFakeHub(t)
	sum := int64(len(h.files[configFile]) + len(h.files[preprocessorFile]) + len(h.files[weightsFile]))
	defer func(before int64) { maxBytes = before }(maxBytes)
	maxBytes = sum - 1
	is.Refused(t, "one byte too many", is.ErrorOf(Download(t.Context(), "owner/vit", nil)), "")
	maxBytes = sum
	get(t, "owner/vit")
}

// Whatever the hub lists, a download writes to the model's directory only and ends with an error or with weights whose
// hash is in the listing.
func FuzzListing(f *testing.F) {
	h := newFakeHub(f)
	recorded := httptest.NewRecorder()
	h.serveListing(recorded, "main", true)
	seeds := []string{recorded.Body.String(), `{"id": "owner/../vit", "sha": "` + oldCommit + `", "siblings": [
		{"rfilename": "model.safetensors", "size": -1}]}`}
	home := f.TempDir()
	f.Setenv("HF_HOME", home)
	campaign.Fuzz(f, seeds, func(t *testing.T, raw string) {
		listing(raw)(h)
		_ = os.RemoveAll(filepath.Join(home, "hub"))
		s, err := Download(t.Context(), "owner/vit", nil)
		if err == nil {
			got, err := os.ReadFile(filepath.Join(s.Dir, weightsFile))
			if err != nil ||
				!strings.Contains(raw, hashOf(weightsFile, got)) && !strings.Contains(raw, hashOf("a.json", got)) {
				t.Errorf("%d bytes of weights that are not listed (%v)", len(got), err)
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

func TestParseModel(t *testing.T) {
	for address, want := range map[string]modelName{
		"hf://google/vit-base-patch16-224":     {"google/vit-base-patch16-224", "main"},
		"google/vit-base-patch16-224@main":     {"google/vit-base-patch16-224", "main"},
		"hf://timm/vit_tiny.augreg@v1.0":       {"timm/vit_tiny.augreg", "v1.0"},
		"hf://gpt2":                            {"gpt2", "main"},
		"hf://a/b@refs/pr/12":                  {"a/b", "refs/pr/12"},
		"hf://a/b@" + oldCommit:                {"a/b", oldCommit},
		"hf://_a/b@feature/some-thing_2+build": {"_a/b", "feature/some-thing_2+build"},
	} {
		is.Equal(t, address, gomlxtest.Must(parseModel(address))(t), want)
	}
	for _, address := range []string{"", "hf://", "@main", "a/b/c", "../b", "a/..", "/a", "a/", "a--b/c", "a/b--c",
		"a-/b", "a/b.", "a b/c", "a/b@", "a/b@..", "a/b@../main", "a/b@x/../../y", "a/b@/etc", "a/b@x/", "a/b@x//y",
		"a/b@x/.git", "a/b@x\x00", `a/b@x\y`, "a/b@-x", "a/b?x", "https://huggingface.co/a/b",
		"a/b@" + strings.Repeat("x", 300)} {
		is.Refused(t, address, is.ErrorOf(parseModel(address)), "")
	}
}

func TestEnvironment(t *testing.T) {
	home, err := os.UserHomeDir()
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	put(t, filepath.Join(dir, "token"), []byte("of a login\n"))
	put(t, filepath.Join(dir, "my token"), []byte("from a file"))
	for _, c := range []struct{ variables, want string }{ // NAME=value, separated by semicolons; field:value
		{"", "endpoint:https://huggingface.co"},
		{"HF_ENDPOINT=https://mirror.example/", "endpoint:https://mirror.example"},
		{"HF_ENDPOINT=https://example.org/hub", "endpoint:https://example.org/hub"},

		{"", "cache:" + filepath.Join(home, ".cache", "huggingface", "hub")},
		{"XDG_CACHE_HOME=/x", "cache:" + filepath.FromSlash("/x/huggingface/hub")},
		{"XDG_CACHE_HOME=/x;HF_HOME=/h", "cache:" + filepath.FromSlash("/h/hub")},
		{"HF_HOME=/h;HF_HUB_CACHE=/c", "cache:/c"}, {"HF_HUB_CACHE=~/c", "cache:" + home + "/c"},
		{"WEPE_TEST=/w;HF_HUB_CACHE=$WEPE_TEST/c", "cache:/w/c"},

		{"HF_HOME=/h", "token:"}, {"HF_HOME=" + dir, "token:of a login"},
		{"HF_TOKEN_PATH=" + dir + "/my token;HF_HOME=" + dir, "token:from a file"},
		{"HF_TOKEN=hf_1;HF_HOME=" + dir, "token:hf_1"}, {"HF_TOKEN=hf_1;HF_HUB_DISABLE_IMPLICIT_TOKEN=yes", "token:"},

		{"HF_HUB_OFFLINE=1", "offline:true"}, {"HF_HUB_OFFLINE=true", "offline:true"},
		{"HF_HUB_OFFLINE=Yes", "offline:true"}, {"HF_HUB_OFFLINE=ON", "offline:true"},
		{"HF_HUB_OFFLINE=0", "offline:false"}, {"HF_HUB_OFFLINE=no", "offline:false"},
	} {
		t.Run(c.variables, func(t *testing.T) {
			isolate(t)
			t.Setenv("HF_HOME", "")
			for variable := range strings.SplitSeq(c.variables, ";") {
				if name, value, ok := strings.Cut(variable, "="); ok {
					t.Setenv(name, value)
				}
			}
			s := gomlxtest.Must(environment())(t)
			got := []string{"endpoint:" + s.endpoint, "cache:" + s.cache, "token:" + s.token, fmt.Sprint("offline:", s.offline)}
			if !slices.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	isolate(t)
	for _, endpoint := range []string{"mirror.example", "https://me:secret@mirror.example", "https://", "://",
		"https://a/?b"} {
		t.Setenv("HF_ENDPOINT", endpoint)
		_, err := environment()
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("endpoint %q: error %v", endpoint, err)
		}
	}
}

// The paths of any model are in the cache, and different for different models.
func FuzzParseModel(f *testing.F) {
	seeds := []string{"hf://a/b@refs/pr/1", "a/b", "a--b", "../a@..", "a/b@x/../../..", "a/b@x/./y", "a-/b"}
	campaign.Fuzz(f, seeds, func(t *testing.T, address string) {
		m, err := parseModel(address)
		if err != nil {
			return
		}
		c := cacheOf("cache", m)
		refs := filepath.Join("cache", filepath.Base(c.dir), "refs") + string(filepath.Separator)
		if !strings.HasPrefix(c.ref(m.revision), refs) || filepath.Dir(c.dir) != "cache" || filepath.Dir(c.locks) !=
			filepath.Join("cache", ".locks") {
			t.Errorf("%q: refs %s in %s, locks in %s", address, c.ref(m.revision), c.dir, c.locks)
		}
		id := strings.ReplaceAll(strings.TrimPrefix(filepath.Base(c.dir), "models--"), "--", "/")
		is.Equal(t, address, gomlxtest.Must(parseModel(id+"@"+m.revision))(t), m)
	})
}

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
	fail(w, http.StatusUnauthorized, "RepoNotFound") // the hub's response for missing models, too
}

func (h *fakeHub) serveListing(w http.ResponseWriter, revision string, blobs bool) {
	commit, ok := h.revisions[revision]
	if !ok {
		fail(w, http.StatusNotFound, "RevisionNotFound")
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
		fail(w, http.StatusNotFound, "EntryNotFound")
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
	return gomlxtest.Must(Download(t.Context(), address, nil))(t)
}

// blob is the path of a hub file in the cache.
func (h *fakeHub) blob(name string) string {
	return filepath.Join(modelDir(), "blobs", hashOf(name, h.files[name]))
}

// holds checks files of a snapshot against the hub's.
func (h *fakeHub) holds(t *testing.T, s *Snapshot, names ...string) {
	t.Helper()
	for _, name := range names {
		if raw := gomlxtest.Must(os.ReadFile(filepath.Join(s.Dir, name)))(t); !bytes.Equal(raw, h.files[name]) {
			t.Errorf("%s: %d bytes other than the hub's", name, len(raw))
		}
	}
}

// branch is the commit of a branch in the cache.
func branch(t *testing.T, name string) string {
	return string(gomlxtest.Must(os.ReadFile(filepath.Join(modelDir(), "refs", filepath.FromSlash(name))))(t))
}

// status makes the hub answer every request with a status.
func status(code int, kind string) func(*fakeHub) { return statusAt("", code, kind) }

// statusAt makes the hub answer requests of paths that contain a part with a status.
func statusAt(part string, code int, kind string) func(*fakeHub) {
	return answering(part, func(w http.ResponseWriter) { fail(w, code, kind) })
}

// fail answers with a status and the hub's name of the error.
func fail(w http.ResponseWriter, code int, kind string) {
	w.Header().Set("X-Error-Code", kind)
	w.WriteHeader(code)
}

// listing makes the hub answer every request for a listing.
func listing(raw string) func(*fakeHub) {
	return answering("/api/models/", func(w http.ResponseWriter) { _, _ = w.Write([]byte(raw)) })
}

func answering(part string, answer func(http.ResponseWriter)) func(*fakeHub) {
	return func(h *fakeHub) {
		h.answer = func(w http.ResponseWriter, r *http.Request) bool {
			asked := strings.Contains(r.URL.Path, part)
			if asked {
				answer(w)
			}
			return asked
		}
	}
}
