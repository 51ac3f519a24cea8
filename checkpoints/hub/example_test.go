// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/hub"
)

// A pretrained ViT, its position table resampled for larger images. HF_ENDPOINT names a local server here; without it
// models come from huggingface.co, as "hf://google/vit-base-patch16-224".
func ExampleDownload() {
	local := httptest.NewServer(hubOf("../../examples/cifar100/demo/vit"))
	defer local.Close()
	cache, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(cache)
	defer setenv("HF_ENDPOINT", local.URL)()
	defer setenv("HF_HUB_CACHE", cache)()

	snapshot, err := hub.Download(context.Background(), "hf://owner/vit", nil)
	if err != nil {
		log.Fatal(err)
	}
	m, err := checkpoints.Import(snapshot.Dir, checkpoints.ImportOptions{ImageRows: 48, ImageCols: 48})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Format, m.Config.Width, m.Config.Rows(), m.Config.Cols(), len(m.Labels))
	// Output: hf 96 12 12 100
}

// hubOf serves the files of a directory as model owner/vit of a hub: a listing with their hashes, and their content.
func hubOf(dir string) http.Handler {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	mux := http.NewServeMux()
	mux.HandleFunc("/api/models/owner/vit/revision/main", func(w http.ResponseWriter, _ *http.Request) {
		var files []map[string]any
		for _, name := range []string{"config.json", "preprocessor_config.json", "model.safetensors"} {
			raw, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				log.Fatal(err)
			}
			hash := map[string]any{"sha256": fmt.Sprintf("%x", sha256.Sum256(raw))}
			files = append(files, map[string]any{"rfilename": name, "size": len(raw), "lfs": hash})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"id": "owner/vit", "sha": commit, "siblings": files})
	})
	mux.Handle("/owner/vit/resolve/"+commit+"/", http.StripPrefix("/owner/vit/resolve/"+commit,
		http.FileServer(http.Dir(dir))))
	return mux
}

// setenv sets a variable, and returns a function that restores it.
func setenv(name, value string) (restore func()) {
	old, had := os.LookupEnv(name)
	os.Setenv(name, value)
	return func() {
		if os.Unsetenv(name); had {
			os.Setenv(name, old)
		}
	}
}
