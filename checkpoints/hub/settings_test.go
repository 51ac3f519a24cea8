// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package hub

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/campaign"
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

func TestEnvironment(t *testing.T) {
	home, err := os.UserHomeDir()
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	put(t, filepath.Join(dir, "token"), []byte("of a login\n"))
	put(t, filepath.Join(dir, "my token"), []byte("from a file"))
	endpoint := func(s settings) string { return s.endpoint }
	cache := func(s settings) string { return s.cache }
	token := func(s settings) string { return s.token }
	offline := func(s settings) string { return strconv.FormatBool(s.offline) }
	for _, c := range []struct {
		variables string // NAME=value, separated by semicolons
		of        func(settings) string
		want      string
	}{
		{"", endpoint, "https://huggingface.co"},
		{"HF_ENDPOINT=https://mirror.example/", endpoint, "https://mirror.example"},
		{"HF_ENDPOINT=https://example.org/hub", endpoint, "https://example.org/hub"},

		{"", cache, filepath.Join(home, ".cache", "huggingface", "hub")},
		{"XDG_CACHE_HOME=/x", cache, filepath.FromSlash("/x/huggingface/hub")},
		{"XDG_CACHE_HOME=/x;HF_HOME=/h", cache, filepath.FromSlash("/h/hub")},
		{"HF_HOME=/h;HF_HUB_CACHE=/c", cache, "/c"},
		{"HF_HUB_CACHE=~/c", cache, home + "/c"},
		{"WEPE_TEST=/w;HF_HUB_CACHE=$WEPE_TEST/c", cache, "/w/c"},

		{"HF_HOME=/h", token, ""},
		{"HF_HOME=" + dir, token, "of a login"},
		{"HF_TOKEN_PATH=" + dir + "/my token;HF_HOME=" + dir, token, "from a file"},
		{"HF_TOKEN=hf_1;HF_HOME=" + dir, token, "hf_1"},
		{"HF_TOKEN=hf_1;HF_HUB_DISABLE_IMPLICIT_TOKEN=yes", token, ""},

		{"HF_HUB_OFFLINE=1", offline, "true"}, {"HF_HUB_OFFLINE=true", offline, "true"},
		{"HF_HUB_OFFLINE=Yes", offline, "true"}, {"HF_HUB_OFFLINE=ON", offline, "true"},
		{"HF_HUB_OFFLINE=0", offline, "false"}, {"HF_HUB_OFFLINE=no", offline, "false"},
	} {
		t.Run(c.variables, func(t *testing.T) {
			isolate(t)
			t.Setenv("HF_HOME", "")
			for variable := range strings.SplitSeq(c.variables, ";") {
				if name, value, ok := strings.Cut(variable, "="); ok {
					t.Setenv(name, value)
				}
			}
			s, err := environment()
			if got := c.of(s); err != nil || got != c.want {
				t.Errorf("%q (%v), want %q", got, err, c.want)
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
		if again, err := parseModel(id + "@" + m.revision); err != nil || again != m {
			t.Errorf("%q is %v; its directory says %v (%v)", address, m, again, err)
		}
	})
}
