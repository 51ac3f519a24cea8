// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/internal/printable"
	"github.com/wepe-go/wepe/vit"
)

// graphName is the file of an export to ONNX.
const graphName = "model.onnx"

// formatCheckpoint is the format that Inspect reports for checkpoints written by [Saver].
const formatCheckpoint = "checkpoint"

// Info describes the files of a model or checkpoint.
type Info struct {
	Path    string         `json:"path"`
	Format  string         `json:"format"`            // as Imported.Format, or "onnx"; empty for an unknown model
	Config  vit.Config     `json:"model,omitzero"`    // unknown fields are zero
	Params  map[string]any `json:"params,omitempty"`  // hyperparameters of the encoding, of our own models
	Labels  []string       `json:"labels,omitempty"`  // names of the classes
	Step    int64          `json:"step,omitempty"`    // of a checkpoint
	Tensors []tensorInfo   `json:"tensors"`           // by name
	Notes   []string       `json:"notes,omitempty"`   // what Find skipped
	Refused string         `json:"refused,omitempty"` // why Import fails with these options, but for a DHVT, a note

	PreprocessError string `json:"preprocess_error,omitempty"` // as of Imported

	numbers map[string]int // of each type in the model's tensors, without the state of an optimizer
}

// tensorInfo is one tensor of a file.
type tensorInfo struct {
	Name  string `json:"name"`
	DType string `json:"dtype"` // as in "float32"
	Shape []int  `json:"shape"`
}

// Inspect describes the model at a path: anything that [Import] reads, a checkpoint of a training run, or the newest in
// a directory of checkpoints, with the same options. It reads only headers, but verifies the SHA-256 of a checkpoint.
func Inspect(path string, options ImportOptions) (*Info, error) {
	w, err := openWeights(path, options.Weights, true)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	info := &Info{Path: path, numbers: map[string]int{}}
	for name, t := range w.tensors {
		info.Tensors = append(info.Tensors, tensorInfo{name, strings.ToLower(t.dtype.String()), append([]int{}, t.dims...)})
	}
	slices.SortFunc(info.Tensors, func(a, b tensorInfo) int { return cmp.Compare(a.Name, b.Name) })
	if w.run != nil {
		info.Path, info.Step = w.run.Path, w.run.Step
	}
	for _, s := range w.skipped {
		info.Notes = append(info.Notes, s.Error())
	}
	o, err := w.model(options, false)
	info.Format, info.Config, info.Params, info.Labels = o.Format, o.Config, o.Params, o.Names
	if o.PreprocessError != nil {
		info.PreprocessError = o.PreprocessError.Error()
	}
	for name, t := range w.tensors {
		n := 1
		for _, dim := range t.dims {
			n *= dim
		}
		if !slices.Contains(o.left, name) {
			info.numbers[strings.ToLower(t.dtype.String())] += n
		}
	}
	if w.graph != "" {
		info.Format, info.Notes = formatONNX, []string{"a graph with its weights inside, for ONNX Runtime"}
		var graph *ONNX
		if err == nil {
			graph, err = OpenONNX(w.graph, o.Config)
		}
		if err == nil {
			graph.Finalize()
		}
	}
	switch {
	case err != nil && o.run.Recipe.Architecture != "": // package finetune opens it as a whole run
		info.Notes = append(info.Notes, err.Error())
	case err != nil:
		info.Refused = err.Error()
	}
	return info, nil
}

// String describes the model in a few lines, without the tensors.
func (i *Info) String() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s %s\n", name, printable.Line(fmt.Sprintf(format, args...)))
	}
	line("path", "%s", i.Path)
	line("format", "%s", cmp.Or(i.Format, "unknown"))
	if i.Format == formatCheckpoint {
		line("step", "%d", i.Step)
	}
	if c := i.Config; c.Width > 0 {
		heads, grid := "an unknown number of heads", "an unknown grid"
		if c.Heads > 0 {
			heads = printable.Count(c.Heads, "head")
		}
		line("model", "ViT of width %d, depth %d, %s, MLP %d, patches of %d, %d channels, epsilon %g", c.Width, c.Depth,
			heads, c.MLPDim, c.PatchSize, c.Channels, c.Epsilon)
		if c.PatchSize > 0 && c.ImageRows > 0 {
			grid = fmt.Sprintf("a grid of %s for images of %d×%d", gridOf(c), c.ImageRows, c.ImageCols)
		}
		line("positions", "%s, %s, %s", c.Position, printable.Count(c.Prefix(), "prefix token"), grid)
		if options := optionsOf(c); len(options) > 0 {
			line("options", "%s", strings.Join(options, ", "))
		}
		for _, name := range slices.Sorted(maps.Keys(i.Params)) {
			line("", "%s = %v", name, i.Params[name])
		}
		head := "none"
		if c.Classes > 0 {
			head = fmt.Sprintf("%d classes", c.Classes)
		}
		if n := len(i.Labels); n > 0 {
			head += ": " + strings.Join(i.Labels[:min(n, 5)], ", ")
			if n > 5 {
				head += ", …"
			}
		}
		line("head", "%s", head)
	}
	for _, dtype := range slices.Sorted(maps.Keys(i.numbers)) {
		line("parameters", "%d %s", i.numbers[dtype], dtype)
	}
	if i.Format != formatONNX {
		line("tensors", "%d", len(i.Tensors))
	}
	for _, note := range i.Notes {
		line("note", "%s", note)
	}
	if i.Refused != "" {
		line("refused", "%s", i.Refused)
	}
	if i.PreprocessError != "" {
		line("images", "%s", i.PreprocessError)
	}
	return b.String()
}

// optionsOf names the options in which a model differs from a plain ViT.
func optionsOf(c vit.Config) (options []string) {
	fields, _ := asJSON(c)
	defaults, _ := vit.Config{}.Resolve()
	plain, _ := asJSON(defaults)
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if _, size := plain[key]; size {
			continue
		}
		if word, ok := fields[key].(string); ok {
			key += "=" + word
		}
		options = append(options, key)
	}
	return options
}
