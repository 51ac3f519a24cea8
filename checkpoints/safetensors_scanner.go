// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pkg/errors"
)

// headerScanner reads the JSON of a safetensors header in place. encoding/json would let duplicate keys, unpaired
// surrogates and numbers such as 1e3 pass, and needs several times the header's memory for many small entries.
type headerScanner struct {
	text   string // names are parts of it, not copies
	at     int
	tensor string          // the tensor being read, for the error
	array  [maxRank]uint64 // the last array of integers
}

// header reads {"name": tensor, …, "__metadata__": {…}}; whether names repeat is left to the caller.
func (s *headerScanner) header() (entries []tensorEntry, err error) {
	// Room for all at once: growing the slice would cost more than the header. The cap bounds what a text of nothing
	// but this word can ask for.
	entries = make([]tensorEntry, 0, min(strings.Count(s.text, `"dtype"`), maxTensors))
	metadata := false
	err = s.object(func(key string) error {
		if key == "__metadata__" {
			if metadata {
				return errors.New("__metadata__ given twice")
			}
			metadata = true
			return s.metadata()
		}
		if len(entries) == maxTensors {
			return errors.Errorf("more than %d tensors", maxTensors)
		}
		s.tensor = key
		entry, err := s.entry(key)
		if err != nil {
			return err
		}
		s.tensor = ""
		entries = append(entries, entry)
		return nil
	})
	return entries, err
}

// metadata reads and drops an object of strings: nothing here depends on it.
func (s *headerScanner) metadata() error {
	seen := map[string]bool{}
	return s.object(func(key string) error {
		if seen[key] {
			return errors.Errorf("__metadata__: key %q given twice", key)
		}
		if len(seen) == maxMetadata {
			return errors.Errorf("__metadata__: more than %d keys", maxMetadata)
		}
		seen[key] = true
		_, err := s.string(len(s.text))
		return errors.WithMessagef(err, "__metadata__: %q", key)
	})
}

var entryFields = [3]string{"dtype", "shape", "data_offsets"}

// entry reads {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, its fields in any order, each once.
func (s *headerScanner) entry(name string) (e tensorEntry, err error) {
	e.name = name
	var seen [3]bool
	err = s.object(func(key string) error {
		field := slices.Index(entryFields[:], key)
		if field < 0 {
			return errors.Errorf("unknown field %q", key)
		}
		if seen[field] {
			return errors.Errorf("%s given twice", key)
		}
		seen[field] = true
		switch key {
		case "dtype":
			name, err := s.string(maxName)
			if err != nil {
				return errors.WithMessage(err, key)
			}
			known := slices.IndexFunc(safetensorsDTypes, func(d namedDType) bool { return d.name == name })
			if known < 0 {
				return errors.Errorf("dtype %q is unknown or has no counterpart in GoMLX", name)
			}
			e.dtype = safetensorsDTypes[known].dtype
			return nil
		case "shape":
			dims, err := s.integers(maxRank, maxDim)
			e.dims = make([]int, len(dims))
			for axis, dim := range dims {
				e.dims[axis] = int(dim)
			}
			return errors.WithMessage(err, key)
		default:
			offsets, err := s.integers(2, 1<<63)
			if err == nil && len(offsets) != 2 {
				err = errors.Errorf("%d numbers, want 2", len(offsets))
			}
			if err == nil {
				e.begin, e.end = offsets[0], offsets[1]
			}
			return errors.WithMessage(err, key)
		}
	})
	if field := slices.Index(seen[:], false); err == nil && field >= 0 {
		err = errors.Errorf("no %s", entryFields[field])
	}
	return e, err
}

// object reads {"key": …, …}, calling value with the scanner at each value.
func (s *headerScanner) object(value func(key string) error) error {
	if err := s.want('{'); err != nil {
		return err
	}
	if s.found('}') {
		return nil
	}
	for {
		key, err := s.string(maxName)
		if err != nil {
			return err
		}
		if err := s.want(':'); err != nil {
			return err
		}
		if err := value(key); err != nil {
			return err
		}
		if s.found('}') {
			return nil
		}
		if err := s.want(','); err != nil {
			return err
		}
	}
}

// integers reads [1, 2, …]: decimal digits only, at most limit numbers, none above largest. The next call overwrites
// the result.
func (s *headerScanner) integers(limit int, largest uint64) ([]uint64, error) {
	if err := s.want('['); err != nil {
		return nil, err
	}
	if s.found(']') {
		return nil, nil
	}
	numbers := s.array[:0]
	for {
		if len(numbers) == limit {
			return nil, errors.Errorf("more than %d numbers", limit)
		}
		s.space()
		begin, n := s.at, uint64(0)
		for s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9' {
			digit := uint64(s.text[s.at] - '0')
			if n > (largest-digit)/10 {
				return nil, errors.Errorf("a number above %d", largest)
			}
			n = n*10 + digit
			s.at++
		}
		if s.at == begin || (s.text[begin] == '0' && s.at > begin+1) {
			return nil, errors.Errorf("no plain integer at byte %d of the header", begin)
		}
		numbers = append(numbers, n)
		if s.found(']') {
			return numbers, nil
		}
		if err := s.want(','); err != nil {
			return nil, err
		}
	}
}

// string reads a JSON string of at most limit bytes as written.
func (s *headerScanner) string(limit int) (string, error) {
	if err := s.want('"'); err != nil {
		return "", err
	}
	begin, escaped := s.at, false
	for ; s.at < len(s.text) && s.text[s.at] != '"'; s.at++ {
		switch c := s.text[s.at]; {
		case s.at-begin >= limit:
			return "", errors.Errorf("a string of more than %d bytes", limit)
		case c < ' ':
			return "", errors.Errorf("control character in a string at byte %d of the header", s.at)
		case c == '\\':
			escaped = true
			s.at++
		}
	}
	if s.at >= len(s.text) {
		return "", errors.New("the header ends inside a string")
	}
	raw := s.text[begin:s.at]
	s.at++
	if !escaped {
		return raw, nil
	}
	var decoded string
	if err := json.Unmarshal([]byte(s.text[begin-1:s.at]), &decoded); err != nil {
		return "", errors.Errorf("a wrong escape in the string at byte %d of the header", begin)
	}
	if strings.ContainsRune(decoded, utf8.RuneError) { // what encoding/json makes of an unpaired surrogate
		return "", errors.Errorf("an unpaired surrogate (or U+FFFD) in the string at byte %d of the header", begin)
	}
	return decoded, nil
}

func (s *headerScanner) space() {
	for s.at < len(s.text) && (s.text[s.at] == ' ' || s.text[s.at] == '\t' || s.text[s.at] == '\n' ||
		s.text[s.at] == '\r') {
		s.at++
	}
}

// found skips white space and, if c comes next, c too.
func (s *headerScanner) found(c byte) bool {
	s.space()
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *headerScanner) want(c byte) error {
	if !s.found(c) {
		return fmt.Errorf("want %q at byte %d of the header", c, s.at)
	}
	return nil
}
