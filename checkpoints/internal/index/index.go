// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package index reads the index of a sharded checkpoint, model.safetensors.index.json.
package index

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/internal/strictjson"
)

// MaxTensors bounds the tensors of a checkpoint, far above any model's.
const MaxTensors = 1 << 16

// Shards is the file of each tensor, relative to the directory of the index.
type Shards map[string]string

// Files lists every file once, sorted.
func (s Shards) Files() []string { return slices.Compact(slices.Sorted(maps.Values(s))) }

// Parse reads {"metadata": …, "weight_map": {"tensor": "file", …}}; the files are beside the index.
func Parse(raw []byte) (shards Shards, err error) {
	fields, err := strictjson.ParseObject(raw)
	if err == nil {
		err = fields.Read("weight_map", &shards, "files by tensors")
	}
	if err == nil && (len(shards) == 0 || len(shards) > MaxTensors) {
		err = fields.Refuse("weight_map", "1 to %d tensors", MaxTensors)
	}
	for _, tensor := range slices.Sorted(maps.Keys(shards)) {
		name := shards[tensor]
		if err == nil && (!filepath.IsLocal(name) || strings.ContainsAny(name, `/\`) ||
			filepath.Ext(name) != ".safetensors") {
			err = fmt.Errorf("tensor %q: file %q is no .safetensors file beside the index", tensor, name)
		}
	}
	if err != nil {
		return nil, err
	}
	return shards, nil
}
