// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package printable makes strings from outside (names of files, labels, headers, members of archives) safe to print. In
// a terminal a control character moves the cursor or ends a line, and a bidirectional override shows a text in another
// order than it has. Whoever prints calls one of these functions; who passes a string on does not.
package printable

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Longest texts in bytes; what follows is replaced by the length of the whole.
const (
	maxName = 200
	maxLine = 4096
)

// Name is a name in a longer text: one line of at most 200 bytes.
func Name(s string) string { return bounded(s, maxName) }

// Line is one line of a log or a terminal, of at most 4 KiB.
func Line(s string) string { return bounded(s, maxLine) }

// Text is a text of several lines, of any length.
func Text(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = escaped(line)
	}
	return strings.Join(lines, "\n")
}

// Args are the arguments of a format: texts and errors as Line, everything else unchanged.
func Args(args []any) []any {
	safe := make([]any, len(args))
	for i, a := range args {
		switch v := a.(type) {
		case string:
			a = Line(v)
		case error:
			a = Line(v.Error())
		case fmt.Formatter:
		case fmt.Stringer:
			a = Line(v.String())
		}
		safe[i] = a
	}
	return safe
}

// JSON is the same JSON with escapes in place of the characters that encoding/json writes as they are.
func JSON(raw []byte) []byte {
	if bytes.IndexFunc(raw, inJSON) < 0 {
		return raw
	}
	safe := make([]byte, 0, len(raw)+len(raw)/8)
	for _, r := range string(raw) { // encoding/json has replaced what is not UTF-8
		if inJSON(r) {
			safe = fmt.Appendf(safe, `\u%04x`, r)
		} else {
			safe = utf8.AppendRune(safe, r)
		}
	}
	return safe
}

// inJSON reports whether a character is hostile; its own line ends and tabs are between values.
func inJSON(r rune) bool { return r != '\n' && r != utf8.RuneError && hostile(r) }

// Thousands writes -1234567 as -1,234,567.
func Thousands(n int) string {
	digits := strconv.Itoa(n)
	for at := len(digits) - 3; at > 0 && digits[at-1] != '-'; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// Count is "1 head" or "3 heads".
func Count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// ofShell matches what means itself in every shell.
var ofShell = regexp.MustCompile(`^[A-Za-z0-9_./:=,@%+-]+$`)

// Shell is a word as a shell reads it: in quotes where it must be.
func Shell(word string) string {
	if ofShell.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// hostile reports control characters, the line separators of Unicode, marks that change the direction of a text, and
// bytes that are not UTF-8.
func hostile(r rune) bool {
	return unicode.IsControl(r) || r == utf8.RuneError || r == '\u2028' || r == '\u2029' || r == '\ufeff' ||
		unicode.Is(unicode.Bidi_Control, r)
}

func bounded(s string, most int) string {
	if len(s) <= most {
		return escaped(s)
	}
	kept := strings.ToValidUTF8(s[:most-utf8.UTFMax], "")          // without a part of a character
	return fmt.Sprintf("%s (%d bytes)", escaped(kept+"…"), len(s)) // of at most 4 bytes for each
}

// escaped replaces hostile characters by their escapes in Go.
func escaped(s string) string {
	if strings.IndexFunc(s, hostile) < 0 {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case hostile(r) && r != utf8.RuneError:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
