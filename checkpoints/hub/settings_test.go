// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package hub

import (
	"os"
	"path/filepath"
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

func TestTheEnvironmentSaysWhereTheCacheIs(t *testing.T) {
	home, err := os.UserHomeDir()
	if err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		variables map[string]string
		option    string
		want      string
	}{
		{nil, "", filepath.Join(home, ".cache", "huggingface", "hub")},
		{map[string]string{"XDG_CACHE_HOME": "/x"}, "", filepath.FromSlash("/x/huggingface/hub")},
		{map[string]string{"XDG_CACHE_HOME": "/x", "HF_HOME": "/h"}, "", filepath.FromSlash("/h/hub")},
		{map[string]string{"HF_HOME": "/h", "HF_HUB_CACHE": "/c"}, "", "/c"},
		{map[string]string{"HF_HUB_CACHE": "~/c"}, "", home + "/c"},
		{map[string]string{"WEPE_TEST": "/w", "HF_HUB_CACHE": "$WEPE_TEST/c"}, "", "/w/c"},
		{map[string]string{"HF_HUB_CACHE": "/c"}, "/o", "/o"},
	} {
		isolate(t)
		t.Setenv("HF_HOME", "")
		for name, value := range c.variables {
			t.Setenv(name, value)
		}
		if s, err := (Options{Cache: c.option}).settings(); err != nil || s.cache != c.want {
			t.Errorf("%v, option %q: %+v (%v), want %s", c.variables, c.option, s, err, c.want)
		}
	}
}

func TestTheEnvironmentNamesTheHub(t *testing.T) {
	isolate(t)
	for endpoint, want := range map[string]string{
		"": "https://huggingface.co", "https://mirror.example/": "https://mirror.example",
		"https://example.org/hub": "https://example.org/hub",
	} {
		t.Setenv("HF_ENDPOINT", endpoint)
		if s, err := (Options{}).settings(); err != nil || s.endpoint.String() != want {
			t.Errorf("endpoint %q: %+v (%v), want %s", endpoint, s, err, want)
		}
	}
	for _, endpoint := range []string{"mirror.example", "https://me:secret@mirror.example", "https://", "://",
		"https://a/?b"} {
		t.Setenv("HF_ENDPOINT", endpoint)
		if _, err := (Options{}).settings(); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("endpoint %q: error %v", endpoint, err)
		}
	}
}

func TestSwitchesAreReadAsOtherToolsDo(t *testing.T) {
	isolate(t)
	for value, want := range map[string]bool{"1": true, "true": true, "Yes": true, "ON": true, "0": false, "": false,
		"no": false} {
		t.Setenv("HF_HUB_OFFLINE", value)
		if s, err := (Options{}).settings(); err != nil || s.offline != want {
			t.Errorf("HF_HUB_OFFLINE=%q is %v (%v)", value, s.offline, err)
		}
	}
}

// Whatever names a model, its places in the cache are in the cache, and no other model's.
func FuzzParseModel(f *testing.F) {
	for _, seed := range []string{"hf://a/b@refs/pr/1", "a/b", "a--b", "../a@..", "a/b@x/../../..", "a/b@x/./y", "a-/b"} {
		f.Add(seed)
	}
	s := settings{cache: "cache"}
	f.Fuzz(func(t *testing.T, address string) {
		m, err := parseModel(address)
		if err != nil {
			return
		}
		c := s.cacheOf(m)
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
