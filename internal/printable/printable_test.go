// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package printable

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"unicode"

	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/is"
)

// The escapes are those of Go's string literals.
func TestHostileCharactersBecomeEscapes(t *testing.T) {
	for s, want := range map[string]string{
		"cat.jpg": "cat.jpg", "": "", "žluťoučký 猫 👩‍🚀": "žluťoučký 猫 👩‍🚀", // a joiner is part of a character
		"\x1b[2J": `\x1b[2J`, "a\r\nb\tc": `a\r\nb\tc`, "\u009b31m": `\u009b31m`, "\x7f": `\x7f`, "\xff\xfe": `\xff\xfe`,
		"a\u202egpj.exe": `a\u202egpj.exe`, "\u2066x\u2069": `\u2066x\u2069`, "\u2028": `\u2028`, "\ufeff": `\ufeff`,
		"\ufffd": "\ufffd",
	} {
		if name, line := Name(s), Line(s); name != want || line != want {
			t.Errorf("%q: %q, as a line %q, want %q", s, name, line, want)
		}
	}
	arguments := Args([]any{"\n", errors.New("\x1b"), 7, .5, []int{1}}) // those that print as texts are lines
	for got, want := range map[string]string{
		Text("a\tb\x1b\n\u202ec\n"):                   `a\tb\x1b` + "\n" + `\u202ec` + "\n",
		fmt.Sprintf("%s %v %d %.1f %v", arguments...): `\n \x1b 7 0.5 [1]`,
	} {
		is.Equal(t, "got", got, want)
	}
}

func TestLongNamesAndLinesAreCut(t *testing.T) {
	for _, s := range []string{strings.Repeat("a", 9<<20), strings.Repeat("é", 5<<20), strings.Repeat("\x1b", 9<<20)} {
		for most, got := range map[int]string{4*200 + 30: Name(s), 4*4096 + 30: Line(s)} {
			if len(got) > most || !strings.HasSuffix(got, fmt.Sprintf("(%d bytes)", len(s))) {
				t.Errorf("%.9q…: %d bytes, want at most %d", s, len(got), most)
			}
		}
	}
	is.Equal(t, "200 bytes", Name(strings.Repeat("b", 200)), strings.Repeat("b", 200))
}

func FuzzJSON(f *testing.F) {
	campaign.Fuzz(f, []string{"a\u009b\u202e\u2028\x00\n\xff👩‍🚀"}, func(t *testing.T, s string) {
		var before, after []string
		raw, failed := json.Marshal([]string{s})
		safe := JSON(raw)
		if err := errors.Join(failed, json.Unmarshal(raw, &before), json.Unmarshal(safe, &after)); err != nil ||
			before[0] != after[0] {
			t.Fatalf("%q: %v, %q", s, err, after)
		}
		for _, r := range string(safe) {
			if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
				t.Errorf("%q has %q", safe, r)
			}
		}
		if line := Line(s); strings.ContainsFunc(line, unicode.IsControl) || len(line) > 4*4096+30 {
			t.Errorf("a line: %q", line)
		}
	})
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", -123: "-123", -1234567: "-1,234,567"} {
		is.Equal(t, "thousands", Thousands(n), want)
	}
}

func TestShell_IsOneWordOfAShell(t *testing.T) {
	for _, path := range []string{"runs/a-1", "my runs/a", "it's", "$HOME;`id`", "*", "", "-x", "ü \n"} {
		words, err := exec.Command("sh", "-c", "printf '%s|' "+Shell(path)).Output()
		if err != nil || string(words) != path+"|" {
			t.Errorf("%q: %q, %v", path, words, err)
		}
	}
	is.Equal(t, "plain", Shell("runs/photos-pets"), "runs/photos-pets")
}
