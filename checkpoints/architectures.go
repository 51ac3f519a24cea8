// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/internal/strictjson"
)

// timm writes into a config.json only the arguments that its user passed. The others are those of the architecture that
// the file names, then those that follow from the training images, then those of its class: this table, from
// tools/peers/architectures.py.
//
//go:embed architectures.json
var architecturesJSON []byte

type architecture struct {
	Class   string         `json:"class"`
	Args    map[string]any `json:"args"`
	Trained map[string]any `json:"trained"` // by its own training images, which a file's replace
}

// arg returns an argument of an architecture whose file has none.
func (t timmTable) arg(a architecture, key string) any {
	for _, args := range []map[string]any{a.Args, a.Trained} {
		if value, ok := args[key]; ok {
			return value
		}
	}
	return t.Classes[a.Class][key]
}

type timmTable struct {
	Timm          string                    `json:"timm"` // version
	Classes       map[string]map[string]any `json:"classes"`
	Architectures map[string]architecture   `json:"architectures"`
	Renamed       map[string]string         `json:"renamed"` // by the name in older files
}

var architectures = sync.OnceValue(func() (t timmTable) {
	if err := json.Unmarshal(architecturesJSON, &t); err != nil {
		panic(err)
	}
	for _, args := range t.Classes {
		canonicalize(args)
	}
	for _, a := range t.Architectures {
		canonicalize(a.Args)
	}
	return t
})

func canonicalize(args map[string]any) {
	for key, value := range args {
		args[key] = canonical(key, value)
	}
}

// timmFamily returns the family of an architecture of timm.
func timmFamily(name string) (*family, error) {
	t := architectures()
	a, ok := t.Architectures[name]
	if !ok {
		return nil, fmt.Errorf("timm %s: %w", t.Timm, setting.Unknown("architecture", name, ArchitectureNames()))
	}
	at := slices.IndexFunc(families, func(f *family) bool { return f.format == formatTimm && f.class == a.Class })
	return families[at], nil
}

// timmArgs returns the arguments with which timm would create a model: the file's, then the architecture's, then those
// that follow from the training images, then the class's.
func timmArgs(name string, config strictjson.Object) (map[string]any, error) {
	t := architectures()
	a := t.Architectures[name]
	stated, err := config.Object("model_args")
	if err != nil {
		return nil, err
	}
	args, err := values(stated)
	if err != nil {
		return nil, err
	}
	for key, value := range args {
		if value != nil {
			continue
		}
		// None replaces the architecture's argument: create_model drops only its caller's.
		byDefault, known := t.Classes[a.Class][key]
		if _, truth := byDefault.(bool); truth {
			byDefault = false
		}
		if args[key] = byDefault; !known {
			delete(args, key)
		}
	}
	canonicalize(args)
	for key, value := range a.Args {
		if _, ok := args[key]; !ok {
			args[key] = value
		}
	}
	trained, err := config.Object("pretrained_cfg")
	if err != nil {
		return nil, err
	}
	if trained == nil {
		trained = config
	}
	if err := trainedArgs(trained, args); err != nil {
		return nil, err
	}
	for key := range t.Classes[a.Class] {
		if _, ok := args[key]; !ok {
			args[key] = t.arg(a, key)
		}
	}
	return args, nil
}

// trainedArgs adds the arguments that follow from the training, as timm's _update_default_model_kwargs. The size of its
// images is the model's if timm fixes it and the model has one size, or if no position table determines it.
func trainedArgs(trained strictjson.Object, args map[string]any) error {
	if pool, _ := trained.Text("global_pool"); pool != "" && args["global_pool"] == nil {
		args["global_pool"] = pool
	}
	if !trained.Has("input_size") {
		return nil
	}
	sides, err := trained.Numbers("input_size", 3, 1, maxPixels)
	if err != nil {
		return err
	}
	fixedSize, err := trained.Bool("fixed_input_size", false)
	if err != nil {
		return err
	}
	if _, ok := args["in_chans"]; !ok {
		args["in_chans"] = sides[0]
	}
	fixedSize = fixedSize && args["dynamic_img_size"] != true
	if _, ok := args["img_size"]; !ok && (fixedSize || args["use_abs_pos_emb"] == false) {
		args["img_size"] = []any{sides[1], sides[2]}
	}
	return nil
}

// architectureFor picks the architecture of a class with the arguments that no config.json can set: those in fixed, and
// those that must be null. It returns its name and the arguments to write.
func architectureFor(class string, args map[string]any) (name string, differing map[string]any, err error) {
	t := architectures()
	best := math.MaxInt
	for _, candidate := range slices.Sorted(maps.Keys(t.Architectures)) {
		a := t.Architectures[candidate]
		if a.Class != class {
			continue
		}
		differs, possible := map[string]any{}, true
		for key, value := range args {
			if fmt.Sprint(t.arg(a, key)) == fmt.Sprint(value) {
				continue
			}
			differs[key] = value
			possible = possible && value != nil && !slices.Contains(fixed, key)
		}
		if possible && len(differs) < best {
			name, differing, best = candidate, differs, len(differs)
		}
	}
	if name == "" {
		return "", nil, errors.Errorf("no architecture of timm %s is a %s like this one: %s", t.Timm, class, otherFormat)
	}
	return name, differing, nil
}

// ArchitectureNames lists the architectures of timm that ImportOptions.Architecture can name.
func ArchitectureNames() []string { return slices.Sorted(maps.Keys(architectures().Architectures)) }
