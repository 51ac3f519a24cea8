// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package setting

import (
	"math"
	"slices"
	"strings"
	"testing"

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

func TestReadTakesWhatTheScopeHoldsAndLeavesTheRest(t *testing.T) {
	for _, c := range []struct {
		params map[string]any
		want   options
	}{
		{nil, options{0.25, 3, true, "thin"}},
		{map[string]any{"rate": 0.1, "on": false}, options{0.1, 3, false, "thin"}},
		{map[string]any{"count": 5.0, "form": "thick"}, options{0.25, 5, true, "thick"}}, // numbers from JSON
	} {
		store := model.NewStore()
		store.SetParams(c.params)
		got := options{0.25, 3, true, "thin"}
		Read(store.Scope("/below"), got.rows())
		if got != c.want {
			t.Errorf("%v: got %+v, want %+v", c.params, got, c.want)
		}
	}
}

func TestRead_RefusesAFractionForAnInteger(t *testing.T) {
	store := model.NewStore()
	store.SetParams(map[string]any{"count": 5.5})
	got := options{0.25, 3, true, "thin"}
	err := exceptions.TryCatch[error](func() { Read(store.Scope("/below"), got.rows()) })
	if err == nil || !strings.Contains(err.Error(), "count") {
		t.Errorf("%v, want an error that names count; it is %d", err, got.count)
	}
}

func TestCheck_NamesTheInvalidSetting(t *testing.T) {
	for o, want := range map[options]string{{0.5, 7, true, ""}: "", {0.6, 3, true, "thin"}: "rate",
		{math.Inf(1), 3, true, "thin"}: "rate", {0, 0, true, "thin"}: "count", {0, 1, true, "wide"}: "form"} {
		err := Check(o.rows())
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want+" = ") {
			t.Errorf("%+v: %v, want an error about %q", o, err, want)
		}
	}
	nan := options{math.NaN(), 3, true, "thin"}
	if Check(nan.rows()) == nil {
		t.Error("NaN is accepted")
	}
	if got := Names((&options{}).rows()); !slices.Equal(got, []string{"rate", "count", "on", "form"}) {
		t.Errorf("names %v", got)
	}
}
