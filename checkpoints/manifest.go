// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/internal/strictjson"
)

// Names inside a checkpoint directory.
const (
	manifestName  = "MANIFEST.json"
	variablesName = "variables.safetensors"
	storeName     = "store.json"
)

const (
	formatName    = "wepe checkpoint"
	formatVersion = 1
)

// manifest lists the contents of a checkpoint. It is written last: a directory without it is no checkpoint.
type manifest struct {
	Format  string          `json:"format"`
	Version int             `json:"version"`
	Step    int64           `json:"step"`
	Files   []fileRecord    `json:"files"`
	Meta    json.RawMessage `json:"meta"`
}

// fileRecord is the size and hash of one file.
type fileRecord struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// sealed is the manifest on disk: it contains the hash of its own compact form, because step and meta are state like
// the tensors, and a flipped digit in them must be detected.
type sealed struct {
	Manifest json.RawMessage `json:"manifest"`
	SHA256   string          `json:"sha256"`
}

func (m manifest) seal() ([]byte, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, errors.Wrap(err, "checkpoints: manifest")
	}
	sum := sha256.Sum256(body)
	raw, err := json.MarshalIndent(sealed{body, hex.EncodeToString(sum[:])}, "", "  ")
	if err != nil {
		return nil, errors.Wrap(err, "checkpoints: manifest")
	}
	if raw = append(raw, '\n'); len(raw) > maxSmall {
		return nil, errors.Errorf("checkpoints: the manifest has %d bytes, more than %d: make meta smaller",
			len(raw), maxSmall)
	}
	return raw, nil
}

// unseal is the inverse of seal. It accepts only what seal writes, with any white space.
func unseal(file string, raw []byte) (m manifest, err error) {
	refuse := func(format string, args ...any) (manifest, error) {
		return manifest{}, &formatError{File: file, Reason: fmt.Sprintf(format, args...)}
	}
	var outer sealed
	if err := strictjson.Decode(raw, &outer); err != nil {
		return refuse("%v", err)
	}
	var body bytes.Buffer
	if err := json.Compact(&body, outer.Manifest); err != nil {
		return refuse("no manifest in it")
	}
	if sum := sha256.Sum256(body.Bytes()); hex.EncodeToString(sum[:]) != outer.SHA256 {
		return refuse("the SHA-256 of the manifest is not the one beside it")
	}
	if err := strictjson.Decode(body.Bytes(), &m); err != nil {
		return refuse("not a manifest: %v", err)
	}
	if m.Format != formatName || m.Version != formatVersion {
		return refuse("format %q version %d, this program reads %q version %d", m.Format, m.Version, formatName,
			formatVersion)
	}
	if m.Step < 0 {
		return refuse("step %d", m.Step)
	}
	if m.Meta == nil {
		return refuse("meta is missing")
	}
	// Only these names: nothing in a manifest can point outside its directory.
	if len(m.Files) != 2 || m.Files[0].Name != variablesName || m.Files[1].Name != storeName {
		return refuse("its files are not %s and %s", variablesName, storeName)
	}
	return m, nil
}

// readManifest reads the manifest in the checkpoint directory dir.
func readManifest(dir string) (manifest, error) {
	file := filepath.Join(dir, manifestName)
	raw, err := readSmall(file)
	if err != nil {
		return manifest{}, err
	}
	m, err := unseal(file, raw)
	if err != nil {
		return manifest{}, err
	}
	if name, ok := parseName(filepath.Base(dir)); ok && name.step != m.Step {
		reason := fmt.Sprintf("it is of step %d, its directory is called %s", m.Step, filepath.Base(dir))
		return manifest{}, &formatError{File: file, Reason: reason}
	}
	return m, nil
}
