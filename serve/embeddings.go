// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/finetune"
)

// wanted are the fields of a request for embeddings, in OpenAI's form.
type wanted struct {
	Input    json.RawMessage `json:"input"` // a text or several
	Model    string          `json:"model"` // as the server calls it, or the last part of it
	Encoding string          `json:"encoding_format"`
	Of       string          `json:"of"`   // our own: "class" or "mean"
	User     string          `json:"user"` // not used
}

// embedded is the response.
type embedded struct {
	Object string      `json:"object"`
	Data   []embedding `json:"data"`
	Model  string      `json:"model"`
	Usage  usage       `json:"usage"`
}

type embedding struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"` // []float32, or their bytes in base64, the lowest first
}

type usage struct {
	PromptTokens int `json:"prompt_tokens"` // patches
	TotalTokens  int `json:"total_tokens"`
}

func malformed(format string, args ...any) error {
	return failure{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// parse reads a request and returns its images.
func (q *wanted) parse(raw []byte, c card) ([]file, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(q); err != nil {
		return nil, malformed("malformed request: %v", err)
	}
	if d.More() {
		return nil, malformed("malformed request: there is more after its JSON")
	}
	if q.Model != "" && q.Model != c.Name && q.Model != filepath.Base(c.Name) {
		return nil, failure{http.StatusNotFound, fmt.Sprintf("model %q is not served: use %q", q.Model,
			filepath.Base(c.Name))}
	}
	if !slices.Contains([]string{"", "float", "base64"}, q.Encoding) {
		return nil, malformed("encoding_format %q: use float or base64", q.Encoding)
	}
	var inputs []string
	if one := ""; json.Unmarshal(q.Input, &one) == nil && one != "" {
		inputs = []string{one}
	} else if json.Unmarshal(q.Input, &inputs) != nil || len(inputs) == 0 {
		return nil, malformed("input: use an image as a data URL or in base64, or a list of them")
	}
	files := make([]file, len(inputs))
	for i, input := range inputs {
		files[i].name = fmt.Sprintf("input %d", i)
		if url, found := strings.CutPrefix(input, "data:"); found {
			if _, input, found = strings.Cut(url, ";base64,"); !found {
				return nil, malformed("%s: a data URL without ;base64,", files[i].name)
			}
		}
		var err error
		if files[i].raw, err = base64.StdEncoding.DecodeString(input); err != nil {
			return nil, malformed("%s: not base64 (%v): use a data URL or base64, the server fetches nothing", files[i].name,
				err)
		}
	}
	return files, nil
}

// vector returns the features that a request wants.
func (q *wanted) vector(o finetune.Inferred) ([]float32, error) {
	vector := o.Class
	if q.Of == "mean" || q.Of == "" && vector == nil {
		vector = o.Mean
	}
	if vector == nil {
		return nil, failure{http.StatusNotFound, fmt.Sprintf("the model has no features of %q", q.Of)}
	}
	return vector, nil
}

func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) (any, error) {
	of, err := query(r, "of")
	if err != nil {
		return nil, err
	}
	q := wanted{Of: of}
	check := func() error {
		if !slices.Contains([]string{"", "class", "mean"}, q.Of) {
			return malformed("of %q: use class or mean", q.Of)
		}
		return nil
	}
	parse := func(raw []byte) (files []file, err error) {
		if files, err = q.parse(raw, s.card); err == nil {
			err = check()
		}
		return files, err
	}
	if err := check(); err != nil {
		return nil, err
	}
	vectors, err := each(s, w, r, parse, func(_ named, o finetune.Inferred) (embedding, error) {
		vector, err := q.vector(o)
		e := embedding{Object: "embedding", Embedding: vector}
		if q.Encoding == "base64" {
			raw := make([]byte, 0, 4*len(vector))
			for _, v := range vector {
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
			}
			e.Embedding = raw // encoding/json writes bytes in base64
		}
		return e, err
	})
	if err != nil {
		return nil, err
	}
	for i := range vectors {
		vectors[i].Index = i
	}
	tokens := len(vectors) * s.card.Grid[0] * s.card.Grid[1]
	return embedded{"list", vectors, s.card.Name, usage{tokens, tokens}}, nil
}
