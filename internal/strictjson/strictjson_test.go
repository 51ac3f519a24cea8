// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package strictjson

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/is"
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
				is.Equal(t, fmt.Sprintf("%.40q: %v", text, err), err == nil, valid)
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
	of := func(value any, err error) any {
		if err != nil {
			return err
		}
		return value
	}
	for i, c := range []struct{ got, want any }{
		{of(nil, err), nil}, {of(o.Int("n", 7, 7)), 7}, {of(o.Number("x", 0.5, 0.5)), 0.5}, {o.Has("nil"), false},
		{of(o.Numbers("list", 2, 1, 2)), []float64{1, 2}}, {of(o.Text("text")), "a"}, {of(o.Text("nil")), ""},
		{of(o.Bool("on", false)), true}, {of(o.Bool("nil", true)), true}, {of(o.Object("in")), Object{"n": []byte("1")}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%d: %v, want %v", i, c.got, c.want)
		}
	}
	for field, errs := range map[string][]any{
		"n":   {of(o.Int("n", 8, 9)), of(o.Int("n", 1, 6)), of(o.Text("n")), of(o.Bool("n", true))},
		"exp": {of(o.Int("exp", 1, 99))}, "x": {of(o.Int("x", 0, 9)), of(o.Number("x", 0.6, 1))},
		"nil": {of(o.Int("nil", 0, 9)), of(o.Numbers("nil", 1, 0, 1))}, "none": {of(o.Int("none", 0, 9))},
		"text": {of(o.Number("text", 0, 1))}, "long": {of(o.Int("long", 1, 2))},
		"list": {of(o.Numbers("list", 3, 0, 9)), of(o.Numbers("list", 2, 0, 1)), of(o.Object("list"))},
	} {
		for _, got := range errs {
			if err, ok := got.(error); !ok || !strings.HasPrefix(err.Error(), field+" is ") || len(err.Error()) > 150 {
				t.Errorf("%v, want an error that names %s", got, field)
			}
		}
	}
}
