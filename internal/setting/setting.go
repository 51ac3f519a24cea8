// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package setting describes the hyperparameters of an encoding in a table. A row has a name, a variable for its value,
// the accepted values and a description; the package reads, checks and lists the rows.
package setting

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
)

// Row is one hyperparameter. Its variable contains the default until Read.
type Row struct {
	Name, Doc string

	want    string // the accepted values, in words
	read    func(*model.Scope)
	value   func() any
	accepts func() bool
}

func row[T any](name string, to *T, doc, want string, accepts func(T) bool) Row {
	return Row{
		Name: name, Doc: doc, want: want,
		read: func(scope *model.Scope) {
			value, _ := scope.GetParam(name)
			number := reflect.ValueOf(value) // converts to an integer by truncation
			_, toInt := any(to).(*int)
			if toInt && number.IsValid() && number.CanFloat() && number.Float() != math.Trunc(number.Float()) ||
				exceptions.TryCatch[error](func() { *to = model.GetParamOr(scope, name, *to) }) != nil {
				exceptions.Panicf("%s = %#v, want %s: %s", name, value, want, doc)
			}
		},
		value:   func() any { return *to },
		accepts: func() bool { return accepts(*to) },
	}
}

// Number is a float64 or int in [low, high]; NaN is refused.
func Number[T float64 | int](name string, to *T, low, high T, doc string) Row {
	span := fmt.Sprintf("in [%v, %v]", low, high)
	want := "it " + span
	switch _, whole := any(to).(*int); {
	case whole:
		want = "an integer " + span
	case float64(high) == math.MaxFloat32 && low == -high:
		want = "a finite number"
	case float64(high) == math.MaxFloat32:
		want = fmt.Sprintf("at least %v", low)
	}
	return row(name, to, doc, want, func(x T) bool { return x >= low && x <= high })
}

// Switch is true or false.
func Switch(name string, to *bool, doc string) Row {
	return row(name, to, doc, "true or false", func(bool) bool { return true })
}

// Choice is one of the given strings; "" is written "nothing".
func Choice[T ~string](name string, to *T, doc string, values ...T) Row {
	words := make([]string, len(values))
	for i, value := range values {
		words[i] = word(string(value))
	}
	last := len(words) - 1
	want := strings.Join(words[:last], ", ") + " or " + words[last]
	return row(name, to, doc, want, func(x T) bool { return slices.Contains(values, x) })
}

// Want describes the accepted values.
func (r Row) Want() string { return strings.TrimPrefix(r.want, "it ") }

// Value is the value of the row's variable, the default before Read.
func (r Row) Value() any { return r.value() }

// Default writes the value.
func (r Row) Default() string {
	switch value := reflect.ValueOf(r.value()); value.Kind() {
	case reflect.String:
		return word(value.String())
	case reflect.Float64:
		return strconv.FormatFloat(value.Float(), 'g', 6, 64)
	default:
		return fmt.Sprint(value)
	}
}

// Recorder returns a new store and the rows that are read below its scopes, in order.
func Recorder() (*model.Store, *[]Row) {
	store, rows := model.NewStore(), new([]Row)
	store.RootScope().SetParam(recorded, rows)
	return store, rows
}

const recorded = "recorded_settings"

// word quotes a value of Choice.
func word(value string) string {
	if value == "" {
		return "nothing"
	}
	return strconv.Quote(value)
}

// Read reads every hyperparameter that is set in the scope or above it.
func Read(scope *model.Scope, rows []Row) {
	if to, recording := scope.GetParam(recorded); recording {
		for _, r := range rows {
			value := r.value()
			r.value = func() any { return value }
			*to.(*[]Row) = append(*to.(*[]Row), r)
		}
	}
	for _, r := range rows {
		r.read(scope)
	}
}

// Check returns an error that names the first hyperparameter with an invalid value.
func Check(rows []Row) error {
	for _, r := range rows {
		if !r.accepts() {
			return fmt.Errorf("%s = %#v, want %s: %s", r.Name, r.value(), r.want, r.Doc)
		}
	}
	return nil
}

// Names lists the rows by name.
func Names(rows []Row) (names []string) {
	for _, r := range rows {
		names = append(names, r.Name)
	}
	return names
}
