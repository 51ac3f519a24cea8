// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package setting

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// renamed are the settings of earlier versions by their names in Set, with their names now. Each is in the same struct
// as before.
var renamed = map[string]string{
	"accumulate":      "grad_accum_steps",
	"drops":           "lr_milestones",
	"ema":             "ema_decay",
	"eval_epochs":     "eval_every_epochs",
	"eval_steps":      "eval_every_steps",
	"late_from":       "mixup_switch_epoch",
	"jitter":          "scale_jitter",
	"optimizer.kind":  "optimizer.name",
	"resample":        "interpolation",
	"smoothing":       "label_smoothing",
	"validation_part": "val_fraction",
	"zero_head":       "head_zeroinit",

	"augment.erase_prob":   "augment.random_erasing_prob",
	"augment.flip_prob":    "augment.hflip",
	"augment.flip_up_prob": "augment.vflip",
	"augment.grey_prob":    "augment.grayscale_prob",
	"augment.repeats":      "augment.repeated_aug",
	"augment.resample":     "augment.interpolation",

	"model.heads":      "model.num_heads",
	"model.pool_heads": "model.pool_num_heads",

	"detector.backbone.heads":      "detector.backbone.num_heads",
	"detector.backbone.pool_heads": "detector.backbone.pool_num_heads",

	"detector.roi.overlap": "detector.roi.nms_iou",
	"detector.roi.score":   "detector.roi.score_threshold",
	"detector.roi.top":     "detector.roi.max_detections",
	"detector.rpn.high":    "detector.rpn.pos_iou",
	"detector.rpn.low":     "detector.rpn.neg_iou",
	"detector.rpn.overlap": "detector.rpn.nms_iou",

	"params.wepe_c_large": "params.wepe_pole_value",
}

// RenamedError means that a setting has the name of an earlier version.
type RenamedError struct{ Was, Is string }

// Error names both.
func (e *RenamedError) Error() string { return fmt.Sprintf("%s is now %s", e.Was, e.Is) }

// Current returns the JSON of a recipe, or of an object with a recipe or with the model that a run started from, with
// the names of this version in place of those of earlier ones. Everything else stays as it is, and so does what is not
// JSON.
func Current(recipe []byte) []byte {
	current, _ := rename(recipe, renamed)
	return current
}

// Former is the inverse of Current, for what earlier versions have computed from the JSON of a recipe.
func Former(recipe []byte) []byte {
	former := map[string]string{}
	for was, is := range renamed {
		former[is] = was
	}
	names, _ := rename(recipe, former)
	return names
}

// CurrentParam is the name of a hyperparameter of any version, which may be in a scope.
func CurrentParam(name string) string {
	scope, name := path.Split(name)
	if is, ok := renamed["params."+name]; ok {
		name = strings.TrimPrefix(is, "params.")
	}
	return scope + name
}

// rename returns JSON with other names of the settings in a table, and an error for the first of them.
func rename(raw []byte, names map[string]string) (_ []byte, first *RenamedError) {
	if !json.Valid(raw) {
		return raw, nil // its reader says why
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	var out []byte
	copied := 0 // bytes of raw
	var walk func(path string)
	walk = func(path string) {
		start, _ := d.Token()
		if _, compound := start.(json.Delim); !compound {
			return
		}
		for d.More() {
			below := path
			if start == json.Delim('{') {
				key, _ := d.Token()
				below = strings.TrimPrefix(path+"."+key.(string), ".")
				name := strings.TrimPrefix(strings.TrimPrefix(below, "recipe."), "from.")
				quoted, end := strconv.Quote(key.(string)), int(d.InputOffset())
				if now, ok := names[name]; ok && bytes.HasSuffix(raw[:end], []byte(quoted)) {
					out = append(out, raw[copied:end-len(quoted)]...)
					out = strconv.AppendQuote(out, now[strings.LastIndexByte(now, '.')+1:])
					copied = end
					if first == nil {
						first = &RenamedError{strings.TrimPrefix(name, "params."), strings.TrimPrefix(now, "params.")}
					}
				}
			}
			walk(below)
		}
		_, _ = d.Token() // the end
	}
	walk("")
	return append(out, raw[copied:]...), first
}
