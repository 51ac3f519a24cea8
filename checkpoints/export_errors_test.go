// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
)

// transformers' own files, written again, have the values of their config.json.
func TestTheConfigOfEveryClassOfTransformersIsWrittenAsItWas(t *testing.T) {
	dir := fixtures.Dir(t, "families")
	for _, f := range []*family{&hfBEiT, &hfCLIP, &hfCLIPVision, &hfDINOv3, &hfDeiT, &hfDeiTTeacher, &hfIJepa,
		&hfSigLIPVision} { // other models are written as the first class that has their options
		from := filepath.Join(dir, f.class)
		m := imported(t, from, ImportOptions{HeadOptional: true})
		var got, want map[string]any
		for file, into := range map[string]*map[string]any{from: &want,
			exported(t, m, ExportOptions{Format: m.Format}): &got} {
			if err := json.Unmarshal(readFile(t, filepath.Join(file, foreignConfig)), into); err != nil {
				t.Fatal(err)
			}
		}
		if tower, ok := want[f.inner].(map[string]any); ok {
			written, _ := got[f.inner].(map[string]any)
			sameFields(t, f.class+" "+f.inner, written, tower)
			delete(got, f.inner)
		}
		sameFields(t, f.class, got, want)
	}
}

// sameFields compares what a config.json has of another one, which has more entries.
func sameFields(t *testing.T, name string, got, want map[string]any) {
	t.Helper()
	if got["model_type"] != want["model_type"] || len(got) < 8 && got["id2label"] == nil {
		t.Errorf("%s: %v", name, got)
	}
	for key, value := range got {
		if is, ok := want[key]; ok && !reflect.DeepEqual(is, value) {
			t.Errorf("%s: %s is %v, was %v", name, key, value, is)
		}
	}
}
