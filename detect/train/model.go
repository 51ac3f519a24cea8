// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package train

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/detect"
	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/finetune/engine"
)

// Model is a detector, trained or in training, with its recipe and categories.
type Model struct {
	*detect.Detector
	Recipe     Recipe
	Categories []coco.Category // by class

	store *model.Store
}

// detectorScope is the scope of the detector's variables in the store. Paths are a file format.
const detectorScope = "/detector"

// newModel returns a model whose weights are drawn when its first program is compiled.
func newModel(backend compute.Backend, recipe Recipe, categories []coco.Category, seed int64) (*Model, error) {
	store, err := engine.NewStore(recipe.Params, seed)
	if err != nil {
		return nil, err
	}
	m := &Model{Recipe: recipe, Categories: categories, store: store}
	m.Detector, err = detect.New(backend, store.Scope(detectorScope), recipe.Detector)
	return m, err
}

// Finalize frees the model's memory on the backend. The model cannot be used afterwards.
func (m *Model) Finalize() {
	m.Detector.Finalize()
	m.store.Finalize()
}

func ofDetector(variable string) bool { return strings.HasPrefix(variable, detectorScope+"/") }

// Open loads the trained detector of a run's directory, ready for Detect: its best checkpoint if it has one, otherwise
// its last.
func Open(backend compute.Backend, dir string) (*Model, error) {
	checkpoint, _, err := checkpoints.Find(dir, "")
	if err != nil {
		return nil, err
	}
	if checkpoint == nil {
		return nil, fmt.Errorf("detection: no checkpoint in %s: train with this directory first", dir)
	}
	s, err := stateOf(checkpoint)
	if err != nil {
		return nil, err
	}
	m, err := newModel(backend, s.Recipe, s.Categories, s.Seed)
	if err != nil {
		return nil, err
	}
	return m, checkpoint.Load(m.store, func(variable string) bool { return !ofDetector(variable) })
}

// state is what a checkpoint stores besides the variables.
type state struct {
	Recipe     Recipe          `json:"recipe"`
	Categories []coco.Category `json:"categories"`
	Seed       int64           `json:"seed"`
	From       string          `json:"from,omitempty"` // SHA-256 of the pretrained backbone
	Dataset    string          `json:"dataset"`
	Scenes     int             `json:"scenes"`            // number of training scenes
	Objects    string          `json:"objects,omitempty"` // SHA-256 of the file that lists their objects
	engine.Course
}

// stateOf reads what this package wrote into a checkpoint.
func stateOf(c *checkpoints.Checkpoint) (s state, err error) {
	var stored struct {
		Recipe struct{ Detector json.RawMessage }
	}
	if err := json.Unmarshal(c.Meta, &stored); err == nil && stored.Recipe.Detector == nil {
		return s, fmt.Errorf("detection: %s is not a checkpoint of a detector", c.Path)
	}
	if err := json.Unmarshal(c.Meta, &s); err != nil {
		return s, fmt.Errorf("detection: %s: %w", c.Path, err)
	}
	s.Recipe = s.Recipe.withDefaults()
	if err := s.Recipe.validate(); err != nil {
		return s, fmt.Errorf("detection: %s: %w", c.Path, err)
	}
	if len(s.Categories) != s.Recipe.Detector.Backbone.Classes {
		return s, fmt.Errorf("detection: %s has %d categories for %d classes", c.Path, len(s.Categories),
			s.Recipe.Detector.Backbone.Classes)
	}
	return s, nil
}

// identity is what must be the same to continue the run. Earlier versions lack the objects.
func (s state) identity() engine.RunIdentity {
	return engine.RunIdentity{Recipe: s.Recipe, Seed: s.Seed, From: cmp.Or(s.From, engine.Scratch), Dataset: s.Dataset,
		Data: s.Objects, Other: map[string]string{"scenes": strconv.Itoa(s.Scenes)}}
}
