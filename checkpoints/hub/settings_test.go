// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package hub

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

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
		if got, err := parseModel(address); err != nil || got != want {
			t.Errorf("%s is %v (%v), want %v", address, got, err, want)
		}
	}
	for _, address := range []string{"", "hf://", "@main", "a/b/c", "../b", "a/..", "/a", "a/", "a--b/c", "a/b--c",
		"a-/b", "a/b.",
		"a b/c", "a/b@", "a/b@..", "a/b@../main", "a/b@x/../../y", "a/b@/etc", "a/b@x/", "a/b@x//y", "a/b@x/.git",
		"a/b@x\x00", `a/b@x\y`, "a/b@-x", "a/b?x", "https://huggingface.co/a/b", "a/b@" + strings.Repeat("x", 300)} {
		if got, err := parseModel(address); err == nil {
			t.Errorf("%q is taken for %v", address, got)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: several lines", address)
		}
	}
}

func TestTheEnvironmentIsReadAsOtherToolsDo(t *testing.T) {
	home, err := os.UserHomeDir()
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	put(t, filepath.Join(dir, "token"), []byte("of a login\n"))
	put(t, filepath.Join(dir, "my token"), []byte("from a file"))
	endpoint := func(s Options) string { return s.Endpoint }
	cache := func(s Options) string { return s.Cache }
	token := func(s Options) string { return s.Token }
	offline := func(s Options) string { return strconv.FormatBool(s.Offline) }
	for _, c := range []struct {
		variables string // NAME=value, separated by semicolons
		options   Options
		of        func(Options) string
		want      string
	}{
		{"", Options{}, endpoint, "https://huggingface.co"},
		{"HF_ENDPOINT=https://mirror.example/", Options{}, endpoint, "https://mirror.example"},
		{"HF_ENDPOINT=https://example.org/hub", Options{}, endpoint, "https://example.org/hub"},
		{"HF_ENDPOINT=https://example.org/hub", Options{Endpoint: "http://localhost"}, endpoint, "http://localhost"},

		{"", Options{}, cache, filepath.Join(home, ".cache", "huggingface", "hub")},
		{"XDG_CACHE_HOME=/x", Options{}, cache, filepath.FromSlash("/x/huggingface/hub")},
		{"XDG_CACHE_HOME=/x;HF_HOME=/h", Options{}, cache, filepath.FromSlash("/h/hub")},
		{"HF_HOME=/h;HF_HUB_CACHE=/c", Options{}, cache, "/c"},
		{"HF_HUB_CACHE=~/c", Options{}, cache, home + "/c"},
		{"WEPE_TEST=/w;HF_HUB_CACHE=$WEPE_TEST/c", Options{}, cache, "/w/c"},
		{"HF_HUB_CACHE=/c", Options{Cache: "/o"}, cache, "/o"},

		{"HF_HOME=/h", Options{}, token, ""},
		{"HF_HOME=" + dir, Options{}, token, "of a login"},
		{"HF_TOKEN_PATH=" + dir + "/my token;HF_HOME=" + dir, Options{}, token, "from a file"},
		{"HF_TOKEN=hf_1;HF_HOME=" + dir, Options{}, token, "hf_1"},
		{"HF_TOKEN=hf_1", Options{Token: "hf_3"}, token, "hf_3"},
		{"HF_TOKEN=hf_1;HF_HUB_DISABLE_IMPLICIT_TOKEN=yes", Options{}, token, ""},

		{"HF_HUB_OFFLINE=1", Options{}, offline, "true"}, {"HF_HUB_OFFLINE=true", Options{}, offline, "true"},
		{"HF_HUB_OFFLINE=Yes", Options{}, offline, "true"}, {"HF_HUB_OFFLINE=ON", Options{}, offline, "true"},
		{"HF_HUB_OFFLINE=0", Options{}, offline, "false"}, {"HF_HUB_OFFLINE=no", Options{}, offline, "false"},
		{"", Options{}, offline, "false"}, {"", Options{Offline: true}, offline, "true"},
	} {
		t.Run(c.variables, func(t *testing.T) {
			isolate(t)
			t.Setenv("HF_HOME", "")
			for variable := range strings.SplitSeq(c.variables, ";") {
				if name, value, ok := strings.Cut(variable, "="); ok {
					t.Setenv(name, value)
				}
			}
			s, err := c.options.resolved()
			if got := c.of(s.Options); err != nil || got != c.want {
				t.Errorf("%+v: %q (%v), want %q", c.options, got, err, c.want)
			}
		})
	}
	isolate(t)
	for _, endpoint := range []string{"mirror.example", "https://me:secret@mirror.example", "https://", "://",
		"https://a/?b"} {
		_, err := Options{Endpoint: endpoint}.resolved()
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("endpoint %q: error %v", endpoint, err)
		}
	}
}

// Whatever names a model, its places in the cache are in the cache, and no other model's.
func FuzzParseModel(f *testing.F) {
	for _, seed := range []string{"hf://a/b@refs/pr/1", "a/b", "a--b", "../a@..", "a/b@x/../../..", "a/b@x/./y", "a-/b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
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
		if again, err := parseModel(id + "@" + m.revision); err != nil || again != m {
			t.Errorf("%q is %v; its directory says %v (%v)", address, m, again, err)
		}
	})
}
