// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// serveArchive stands in for the author's server until the test ends.
func serveArchive(t *testing.T, content []byte) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.URL.Path != "/cifar.tar.gz" {
			http.NotFound(w, request)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write(content)
	}))
	t.Cleanup(server.Close)
	sum := sha256.Sum256(content)
	official := cifar100Remote
	t.Cleanup(func() { cifar100Remote = official })
	cifar100Remote.URL, cifar100Remote.Hash = server.URL+"/cifar.tar.gz", hex.EncodeToString(sum[:])
	return server
}

func TestDownloadCIFAR100PutsTheArchiveWhereTheReaderLooks(t *testing.T) {
	content := bytes.Repeat([]byte("archive"), 10_007)
	serveArchive(t, content)
	dir := filepath.Join(t.TempDir(), "new")
	last, total := int64(0), int64(0)
	file, err := DownloadCIFAR100(t.Context(), dir, func(done, of int64) { last, total = done, of })
	if err != nil || file != filepath.Join(dir, cifarArchive) {
		t.Fatalf("file %q, error %v", file, err)
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes arrived (%v), want the server's %d", len(got), err, len(content))
	}
	if last != 70_049 || total != 70_049 {
		t.Errorf("progress ended at %d of %d, want 70049 of both", last, total)
	}
}

func TestDownloadCIFAR100FailsInOneLineAndLeavesNoArchive(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*httptest.Server)
		want   []string
	}{
		"offline":    {func(s *httptest.Server) { s.Close() }, []string{"network", "by hand", "cifar.tar.gz"}},
		"wrong_hash": {func(*httptest.Server) { cifar100Remote.Hash = strings.Repeat("0", 64) }, []string{"sha256"}},
		"too_large":  {func(*httptest.Server) { cifar100Remote.Limit = 1000 }, []string{"offers 70049 bytes"}},
		"not_found":  {func(*httptest.Server) { cifar100Remote.URL += ".moved" }, []string{"404"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.change(serveArchive(t, bytes.Repeat([]byte("archive"), 10_007)))
			dir := t.TempDir()
			_, err := DownloadCIFAR100(t.Context(), dir, nil)
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("error %v, want one line that says %q", err, want)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, cifarArchive)); err == nil {
				t.Error("the archive exists after a failure")
			}
		})
	}
}
