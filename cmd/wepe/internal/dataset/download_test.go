// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dataset

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
	official, sum := cifar100, sha256.Sum256(content)
	defer func() { cifar100 = official }()
	cifar100.URL, cifar100.Hash = server.URL+"/cifar.tar.gz", hex.EncodeToString(sum[:])
	dir := filepath.Join(t.TempDir(), "new")
	last, total := int64(0), int64(0)
	err := downloadCIFAR100(t.Context(), dir, func(done, of int64) { last, total = done, of })
	got, missing := os.ReadFile(filepath.Join(dir, "cifar-100-binary.tar.gz"))
	if err != nil || missing != nil || !bytes.Equal(got, content) || last != 70_049 || total != 70_049 {
		t.Errorf("%d bytes arrived after %d of %d, %v, want the server's %d", len(got), last, total, err, len(content))
	}
	server.Close()
	if err := downloadCIFAR100(t.Context(), t.TempDir(), nil); !errors.As(err, new(*fetch.NetworkError)) {
		t.Errorf("offline: %v", err)
	}
}
