// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package strictjson

import (
	"fmt"
	"strings"
	"testing"
)

func TestInvalidJSONThatEncodingJSONAcceptsIsRefused(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	keys := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"%d":0`, i)
		}
		return `{"a":{` + b.String()[1:] + `}}`
	}
	type known struct {
		A any `json:"a"`
	}
	for _, c := range []struct{ text, want string }{
		{`{"a":1}`, ""}, {" {\"a\" : [ {\"b\":1}, {\"b\":2} ] }\n", ""}, {`{}`, ""},
		{`{"a":` + nested(63) + `}`, ""}, {keys(1000), ""},
		{`{"a":` + nested(64) + `}`, "64 levels"}, {strings.Repeat(`[`, 1_000_000), "64 levels"},
		{keys(maxKeys), "keys"},
		{`{"a":1,"a":1}`, `"a" appears twice`}, {`{"a":{"b":1,"\u0062":2}}`, `"b" appears twice`},
		{`{"a":1}{}`, "after the value"}, {`{"a":1} 2`, "after the value"}, {`{"a":1}]`, "not JSON"},
		{"{\"a\":\"\xff\"}", "UTF-8"}, {"", "not JSON"}, {`{"a":`, "not JSON"}, {`{"a":01}`, "not JSON"},
		{`{"a":1}` + strings.Repeat(" ", MaxBytes), "more than 16777216"},
	} {
		var into known
		_, err := ParseObject([]byte(c.text))
		for _, err := range []error{err, Decode([]byte(c.text), &into)} {
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%.40q: %v, want %q", c.text, err, c.want)
			}
		}
	}
	for _, text := range []string{"null", "[]", "7"} {
		if _, err := ParseObject([]byte(text)); err == nil || !strings.Contains(err.Error(), "not a JSON object") {
			t.Errorf("%s: %v", text, err)
		}
	}
	var into known
	if err := Decode([]byte(`{"a":1,"b":2}`), &into); err == nil || !strings.Contains(err.Error(), `unknown field "b"`) {
		t.Errorf("%v", err)
	}
}

func TestFieldsOutOfRangeAreRefused(t *testing.T) {
	o, err := ParseObject([]byte(`{"n":7,"x":0.5,"list":[1,2],"text":"a","on":true,"in":{"n":1},"nil":null,
		"exp":1e1,"long":"` + strings.Repeat("é", 99) + `"}`))
	if err != nil {
		t.Fatal(err)
	}
	n, errN := o.Int("n", 7, 7)
	x, errX := o.Number("x", 0.5, 0.5)
	list, errList := o.Numbers("list", 2, 1, 2)
	text, errText := o.Text("text")
	none, errNone := o.Text("nil")
	on, errOn := o.Bool("on", false)
	off, errOff := o.Bool("nil", true)
	inner, errIn := o.Object("in")
	for _, err := range []error{errN, errX, errList, errText, errNone, errOn, errOff, errIn} {
		if err != nil {
			t.Error(err)
		}
	}
	if n != 7 || x != 0.5 || list[0] != 1 || list[1] != 2 || text != "a" || none != "" || !on || !off || !inner.Has("n") ||
		o.Has("nil") {
		t.Error(n, x, list, text, none, on, off, inner)
	}
	number := func(_ float64, err error) error { return err }
	integer := func(_ int, err error) error { return err }
	numbers := func(_ []float64, err error) error { return err }
	_, noText := o.Text("n")
	_, noBool := o.Bool("n", true)
	_, noObject := o.Object("list")
	_, long := o.Int("long", 1, 2)
	for _, c := range []struct {
		err  error
		want string
	}{
		{integer(o.Int("n", 8, 9)), "n is 7, want an integer from 8 to 9"}, {integer(o.Int("n", 1, 6)), "n is 7"},
		{integer(o.Int("exp", 1, 99)), "exp is 1e1"}, {integer(o.Int("x", 0, 9)), "x is 0.5"},
		{integer(o.Int("nil", 0, 9)), "nil is missing, want an integer"}, {integer(o.Int("none", 0, 9)), "none is missing"},
		{number(o.Number("x", 0.6, 1)), "x is 0.5, want a number from 0.6 to 1"}, {number(o.Number("text", 0, 1)), "text is"},
		{numbers(o.Numbers("list", 3, 0, 9)), "list is [1,2], want 3 numbers from 0 to 9"},
		{numbers(o.Numbers("list", 2, 0, 1)), "list is"}, {numbers(o.Numbers("nil", 1, 0, 1)), "nil is missing"},
		{noText, "n is 7, want a string"}, {noBool, "want true or false"}, {noObject, "want an object"},
		{long, `long is "` + strings.Repeat("é", 39) + "…, want"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%v, want %q", c.err, c.want)
		}
	}
}
