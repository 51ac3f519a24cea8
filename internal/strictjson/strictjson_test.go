// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package strictjson

import (
	"encoding/json"
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
	for valid, texts := range map[bool][]string{
		true: {`{"a":1}`, " {\"a\" : [ {\"b\":1}, {\"b\":2} ] }\n", `{}`, `{"a":` + nested(63) + `}`, keys(1000)},
		false: {`{"a":` + nested(64) + `}`, strings.Repeat(`[`, 1_000_000), keys(maxKeys), `{"a":1,"a":1}`,
			`{"a":{"b":1,"\u0062":2}}`, `{"a":1}{}`, `{"a":1} 2`, `{"a":1}]`, "{\"a\":\"\xff\"}", "", `{"a":`, `{"a":01}`,
			`{"a":1}` + strings.Repeat(" ", MaxBytes)},
	} {
		for _, text := range texts {
			var into known
			_, err := ParseObject([]byte(text))
			for _, err := range []error{err, Decode([]byte(text), &into)} {
				if (err == nil) != valid {
					t.Errorf("%.40q: %v", text, err)
				}
			}
		}
	}
	for _, text := range []string{"null", "[]", "7"} {
		if _, err := ParseObject([]byte(text)); err == nil {
			t.Errorf("%s is read as an object", text)
		}
	}
	type inner struct{ Plain int }
	type outer struct {
		inner
		Depth int             `json:"depth,omitempty"`
		List  []*outer        `json:"list"`
		Pair  [2]inner        `json:"pair"`
		Raw   json.RawMessage `json:"raw"`
		Any   map[string]any  `json:"any"`
	}
	for text, valid := range map[string]bool{
		`{"depth":1,"Plain":2,"list":[{"depth":3},null],"pair":[{"Plain":4}],"raw":{"A":1,"a":2},"any":{"B":2}}`: true,
		`{"depth":1,"Depth":2}`: false, `{"DEPTH":2}`: false, `{"plain":2}`: false, `{"list":[{"Depth":3}]}`: false,
		`{"pair":[{},{"PLAIN":4}]}`: false, `{"depth":1,"b":2}`: false, `{"depth":"1"}`: false, `{"list":{}}`: false,
	} {
		if err := Decode([]byte(text), &outer{}); (err == nil) != valid {
			t.Errorf("%s: %v", text, err)
		}
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
	for field, errs := range map[string][]error{
		"n": {integer(o.Int("n", 8, 9)), integer(o.Int("n", 1, 6)), noText, noBool}, "exp": {integer(o.Int("exp", 1, 99))},
		"x":   {integer(o.Int("x", 0, 9)), number(o.Number("x", 0.6, 1))},
		"nil": {integer(o.Int("nil", 0, 9)), numbers(o.Numbers("nil", 1, 0, 1))}, "none": {integer(o.Int("none", 0, 9))},
		"text": {number(o.Number("text", 0, 1))}, "long": {long},
		"list": {numbers(o.Numbers("list", 3, 0, 9)), numbers(o.Numbers("list", 2, 0, 1)), noObject},
	} {
		for _, err := range errs {
			if err == nil || !strings.HasPrefix(err.Error(), field+" is ") || len(err.Error()) > 150 {
				t.Errorf("%v, want an error that names %s", err, field)
			}
		}
	}
}
