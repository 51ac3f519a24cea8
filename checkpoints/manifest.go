// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"strconv"

	"github.com/gomlx/gomlx/ml/model"
	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/internal/setting"
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
	return indented(sealed{body, hex.EncodeToString(sum[:])}, "meta is too long: the manifest would take")
}

// indented encodes the content of a file that readSmall can read; what begins the error for a longer one.
func indented(value any, what string) ([]byte, error) {
	var raw bytes.Buffer
	encoder := json.NewEncoder(&raw)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(value)
	if err == nil && raw.Len() > maxSmall {
		err = errors.Errorf("%s %d bytes, more than %d", what, raw.Len(), maxSmall)
	}
	return raw.Bytes(), err
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
	switch {
	case m.Format != formatName || m.Version != formatVersion:
		return refuse("format %q version %d, this program reads %q version %d", m.Format, m.Version, formatName,
			formatVersion)
	case m.Step < 0:
		return refuse("step %d", m.Step)
	case m.Meta == nil:
		return refuse("meta is missing")
	case len(m.Files) != 2 || m.Files[0].Name != variablesName || m.Files[1].Name != storeName: // no other paths
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

// storeFile is store.json: the contents of a store besides its tensors.
type storeFile struct {
	Params []param  `json:"params"`
	Frozen []string `json:"frozen"` // variables that are not trainable, such as the random generator's state
}

// param is one hyperparameter. JSON has a single type of number and GoMLX depends on the Go type, so the type is stored
// too.
type param struct {
	Path  string          `json:"path"`
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}

// paramTypes are the possible types of a hyperparameter, by their names in the file.
var paramTypes = typesOf(false, "", 0, int8(0), int16(0), int32(0), int64(0), uint(0), uint8(0), uint16(0), uint32(0),
	uint64(0), float32(0), float64(0), []bool{}, []string{}, []int{}, []int32{}, []int64{}, []float32{}, []float64{})

func typesOf(values ...any) map[string]reflect.Type {
	byName := map[string]reflect.Type{}
	for _, value := range values {
		byName[fmt.Sprintf("%T", value)] = reflect.TypeOf(value)
	}
	return byName
}

// encodeStore writes store.json; the order of the parameters is the store's, by scope and key.
func encodeStore(store *model.Store, frozen []string) ([]byte, error) {
	contents := storeFile{Params: []param{}, Frozen: frozen}
	for path, value := range store.IterParams() {
		p, err := newParam(path, value)
		if err != nil {
			return nil, err
		}
		contents.Params = append(contents.Params, p)
	}
	raw, err := indented(contents, "the hyperparameters take")
	return raw, errors.WithMessage(err, "checkpoints")
}

// newParam encodes one hyperparameter as JSON; a value without a JSON number is a string that strconv reads.
func newParam(path string, value any) (param, error) {
	t := reflect.TypeOf(value)
	if t == nil || paramTypes[t.String()] != t {
		return param{}, errors.Errorf("checkpoints: hyperparameter %q: type %T cannot be saved", path, value)
	}
	if v := reflect.ValueOf(value); v.CanFloat() && (math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0)) {
		value = strconv.FormatFloat(v.Float(), 'g', -1, 64)
	}
	raw, err := json.Marshal(value)
	if err == nil && bytes.Contains(raw, []byte(`\ufffd`)) { // the replacement for invalid UTF-8 in encoding/json
		err = errors.New("the string is not UTF-8")
	}
	return param{path, t.String(), raw}, errors.WithMessagef(err, "checkpoints: hyperparameter %q", path)
}

// decodeStore reads store.json.
func decodeStore(file string, raw []byte) (params map[string]any, frozen map[string]bool, err error) {
	var contents storeFile
	if err := strictjson.Decode(raw, &contents); err != nil {
		return nil, nil, &formatError{File: file, Reason: err.Error()}
	}
	params = map[string]any{}
	for _, p := range contents.Params {
		value, err := decodeParam(p)
		if err != nil {
			return nil, nil, &formatError{File: file, Reason: fmt.Sprintf("hyperparameter %q: %v", p.Path, err)}
		}
		params[setting.CurrentParam(p.Path)] = value
	}
	frozen = map[string]bool{}
	for _, path := range contents.Frozen {
		frozen[path] = true
	}
	return params, frozen, nil
}

func decodeParam(p param) (any, error) {
	t, ok := paramTypes[p.Type]
	if !ok {
		return nil, errors.Errorf("unknown type %q", p.Type)
	}
	value := reflect.New(t)
	if value.Elem().CanFloat() && bytes.HasPrefix(p.Value, []byte{'"'}) {
		var text string
		_ = json.Unmarshal(p.Value, &text) // a string: it begins with a quotation mark
		x, err := strconv.ParseFloat(text, 64)
		value.Elem().SetFloat(x)
		return value.Elem().Interface(), err
	}
	err := json.Unmarshal(p.Value, value.Interface())
	return value.Elem().Interface(), err
}
