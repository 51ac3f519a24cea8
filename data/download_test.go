// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/wepe-go/wepe/internal/fetch"
)

func TestDownloadCIFAR100_PutsTheArchiveWhereTheReaderLooks(t *testing.T) {
	content := bytes.Repeat([]byte("archive"), 10_007)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "70049")
		_, _ = w.Write(content)
	}))
	defer server.Close()
	official, sum := cifar100Remote, sha256.Sum256(content)
	defer func() { cifar100Remote = official }()
	cifar100Remote.URL, cifar100Remote.Hash = server.URL+"/cifar.tar.gz", hex.EncodeToString(sum[:])
	dir := filepath.Join(t.TempDir(), "new")
	last, total := int64(0), int64(0)
	file, err := DownloadCIFAR100(t.Context(), dir, func(done, of int64) { last, total = done, of })
	if err != nil || file != filepath.Join(dir, cifarArchive) || last != 70_049 || total != 70_049 {
		t.Fatalf("file %q after %d of %d bytes, error %v", file, last, total, err)
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes arrived (%v), want the server's %d", len(got), err, len(content))
	}

	server.Close()
	dir = t.TempDir()
	_, err = DownloadCIFAR100(t.Context(), dir, nil)
	if oneLine(t, "offline", err, "/cifar.tar.gz", dir); !errors.As(err, new(*fetch.NetworkError)) {
		t.Error(err)
	}
}
