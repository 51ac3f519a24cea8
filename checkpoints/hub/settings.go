// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package hub

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

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
	if s.cache = variable("HF_HUB_CACHE"); s.cache == "" {
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
	s.offline = isTrue("HF_HUB_OFFLINE")
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
	if token := strings.TrimSpace(os.Getenv("HF_TOKEN")); token != "" {
		return token, nil
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
