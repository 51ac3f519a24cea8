// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package setting

import (
	"errors"
	"strings"
	"testing"
)

func TestCurrent_RenamesOnlySettings(t *testing.T) {
	for former, current := range map[string]string{
		`{"smoothing": 0.1, "augment":{"resample":"box","size":[1, 2]}}`: `{"label_smoothing": 0.1, ` +
			`"augment":{"interpolation":"box","size":[1, 2]}}`,
		`{"recipe":{"optimizer":{"kind":"sgd"},"params":{"wepe_c_large":5}},"preprocess":{"resample":"box"}}`: `{"recipe":` +
			`{"optimizer":{"name":"sgd"},"params":{"wepe_pole_value":5}},"preprocess":{"resample":"box"}}`,
		`{"jitter":{"low":0.5},"detector":{"roi":{"top":3,"stages":[{"iou":1}]},"rpn":{"overlap":1}}}`: `{"scale_jitter":` +
			`{"low":0.5},"detector":{"roi":{"max_detections":3,"stages":[{"iou":1}]},"rpn":{"nms_iou":1}}}`,
		`{"name":"smoothing","augment":{"jitter":[1]}}`: `{"name":"smoothing","augment":{"jitter":[1]}}`,
		`{"recipe":{"model":{"heads":3}},"from":{"model":{"heads":5}},"heads":7}`: `{"recipe":{"model":{"num_heads":3}},` +
			`"from":{"model":{"num_heads":5}},"heads":7}`,
		`{"smoothing":`: `{"smoothing":`, `[1,"ema"]`: `[1,"ema"]`, `"ema"`: `"ema"`, ``: ``,
	} {
		if got := string(Current([]byte(former))); got != current {
			t.Errorf("%s is now %s, want %s", former, got, current)
		}
		if got := string(Former([]byte(current))); got != former {
			t.Errorf("%s was %s, want %s", current, got, former)
		}
	}
	for former, current := range map[string]string{"/wepe_c_large": "/wepe_pole_value", "wepe_c_large": "wepe_pole_value",
		"/in/wepe_kappa": "/in/wepe_kappa"} {
		if got := CurrentParam(former); got != current {
			t.Errorf("%s is now %s, want %s", former, got, current)
		}
	}
}

func TestSet_RefusesEveryFormerNameWithTheNewOne(t *testing.T) {
	for was, is := range renamed {
		was, is = strings.TrimPrefix(was, "params."), strings.TrimPrefix(is, "params.")
		path := strings.Split(was, ".")
		last := len(path) - 1
		whole := strings.Join(path[:last], ".") + `={"` + path[last] + `":1}`
		for _, settings := range []string{was + "=1", whole} {
			if settings == whole && last == 0 {
				continue // it is no group
			}
			var former *RenamedError
			err := Set(&struct{ Params map[string]any }{}, settings, []string{"wepe_pole_value"})
			if !errors.As(err, &former) || former.Was != was || former.Is != is {
				t.Errorf("%s: %v, want that it is now %s", settings, err, is)
			}
		}
	}
}
