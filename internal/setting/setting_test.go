// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package setting

import (
	"errors"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/is"

	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
)

type form string

// options are the variables of a table.
type options struct {
	rate  float64
	count int
	on    bool
	form  form
}

func (o *options) rows() []Row {
	return []Row{
		Number("rate", &o.rate, 0, 0.5, "share that is dropped"), Number("count", &o.count, 1, 7, "how many"),
		Switch("on", &o.on, "whether"), Choice("form", &o.form, "which", "thin", "thick", ""),
	}
}

func TestRead_TakesWhatTheScopeHoldsAndLeavesTheRest(t *testing.T) {
	for _, c := range []struct {
		params map[string]any
		want   options
		err    string
	}{
		{nil, options{0.25, 3, true, "thin"}, ""},
		{map[string]any{"rate": 0.1, "on": false}, options{0.1, 3, false, "thin"}, ""},
		{map[string]any{"count": 5.0, "form": "thick"}, options{0.25, 5, true, "thick"}, ""}, // numbers from JSON
		{map[string]any{"count": 5.5}, options{0.25, 3, true, "thin"}, "count"},
	} {
		store, got := model.NewStore(), options{0.25, 3, true, "thin"}
		store.SetParams(c.params)
		err := exceptions.TryCatch[error](func() { Read(store.Scope("/below"), got.rows()) })
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%v: got %+v, %v, want %+v and an error about %q", c.params, got, err, c.want, c.err)
		}
	}
}

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
		is.Equal(t, former, string(Current([]byte(former))), current)
		is.Equal(t, current, string(Former([]byte(current))), former)
	}
	for former, current := range map[string]string{"/wepe_c_large": "/wepe_pole_value", "wepe_c_large": "wepe_pole_value",
		"/in/wepe_kappa": "/in/wepe_kappa"} {
		is.Equal(t, former, CurrentParam(former), current)
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
