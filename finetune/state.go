// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/internal/strictjson"
	"github.com/wepe-go/wepe/vit"
)

// state is what a checkpoint stores besides the variables.
type state struct {
	Recipe  Recipe        `json:"recipe"`
	Classes []string      `json:"classes"`
	Seed    int64         `json:"seed"`
	From    *initialModel `json:"from,omitempty"`    // nil for a run from scratch
	Data    string        `json:"data"`              // fingerprint of the training images
	Damaged []int         `json:"damaged,omitempty"` // training images of a stream that were skipped
	// Preprocess is how the images were resized; zero in runs from before it was stored.
	Preprocess preprocess.Settings `json:"preprocess,omitzero"`
	engine.TrainState
}

// identity is what must be the same to continue the run.
func (s state) identity() engine.RunIdentity {
	from := engine.Scratch
	if s.From != nil {
		from = s.From.SHA256
	}
	return engine.RunIdentity{Recipe: s.Recipe, Seed: s.Seed, From: from, Data: s.Data}
}

// stateOf reads what this package wrote into a checkpoint.
func stateOf(c *checkpoints.Checkpoint) (s state, err error) {
	var stored struct {
		Recipe struct{ Model, Detector json.RawMessage }
	}
	meta := setting.Current(c.Meta)
	switch err = json.Unmarshal(meta, &stored); {
	case err == nil && stored.Recipe.Detector != nil:
		err = errors.New("it is of a detector, which package detect opens")
	case err == nil:
		err = json.Unmarshal(meta, &s)
	}
	if model := stored.Recipe.Model; err == nil && model != nil { // an unknown field could change the model
		err = strictjson.Decode(model, &vit.Config{})
	}
	if err != nil {
		return s, fmt.Errorf("finetune: %s: %w", c.Path, err)
	}
	if s.Recipe, err = s.Recipe.Resolve(); err != nil { // an older version may lack some fields
		return s, fmt.Errorf("finetune: %s: %w", c.Path, err)
	}
	if len(s.Classes) != s.Recipe.Model.Classes {
		return s, fmt.Errorf("finetune: %s: %d names for %d classes", c.Path, len(s.Classes), s.Recipe.Model.Classes)
	}
	return s, nil
}
