// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/strictjson"
)

// described is the model that the tensors of a checkpoint and the files beside it describe.
type described struct {
	*foreign
	format string            // as Imported.Format
	json   strictjson.Object // its config.json; nil if there is none or it does not apply
	run    trainedModel      // for formatCheckpoint

	architecture, tag string // of timm, with the tag of its pretrained weights
	resample          string // as Imported.Resample

	preprocess *preprocess.Settings // for formatNative, if its config.json has it
}

// labels returns the names of the classes of the head, nil if the files do not have them.
func (d described) labels() ([]string, error) {
	if d.format == formatCheckpoint {
		return d.run.Classes, nil
	}
	return labelsIn(d.json, d.config.Classes)
}

// activation returns the function that transformers' pipeline applies to the logits, from the field that our own format
// and transformers' wrapper of timm have too; all other software uses softmax, and none for a single number.
func (d described) activation() (string, error) {
	kind, err := d.json.Text("problem_type")
	one, piped := d.config.Classes == 1, d.format == formatHF || d.format == formatTimm && d.json.Has("model_type")
	switch {
	case d.format == formatJAX || err != nil:
		return softmax, err
	case kind == problemTypes[noActivation] || d.projects() || one && d.format == formatTimm && !piped:
		return noActivation, nil
	case kind == problemTypes[sigmoid] || one && piped:
		return sigmoid, nil
	case kind != "" && kind != "single_label_classification":
		return "", d.json.Refuse("problem_type", "regression, single_label_classification or multi_label_classification")
	}
	return softmax, nil
}

// projects reports whether the head of a file of timm is the projection of CLIP's image tower into the space of texts,
// which has one of these widths: the head of weights that were fine-tuned has another, or names.
func (d described) projects() bool {
	labels, err := d.labels()
	return (strings.Contains(d.architecture, "_clip_") || strings.HasPrefix(d.architecture, "vit_pe_core_")) &&
		d.tag != "" && !strings.Contains(d.tag, "_ft_") && labels == nil && err == nil &&
		slices.Contains([]int{512, 640, 768, 896, 1024, 1280}, d.config.Classes)
}

// quickGELU are the tags of the weights of CLIP that timm 1.0.31 also has under a name with quick GELU, with which they
// were trained.
var quickGELU = []string{"openai", "metaclip_400m", "metaclip_2pt5b", "dfn2b", "dfn5b"}

// object reads a JSON file beside the weights, nil if there is none.
func (w *weights) object(name string) (strictjson.Object, error) {
	file := filepath.Join(w.dir, name)
	raw, err := readSmall(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	o, err := strictjson.ParseObject(raw)
	if err != nil {
		return nil, &formatError{File: file, Reason: err.Error()}
	}
	return o, nil
}

// badConfig names the config.json in an error, if it is one.
func (w *weights) badConfig(err error) error {
	if err == nil {
		return nil
	}
	return &formatError{File: filepath.Join(w.dir, foreignConfig), Reason: err.Error()}
}

// describe determines the model of a checkpoint from its config.json; missing entries have the defaults of the software
// that it names. match then compares every tensor with it.
func (w *weights) describe(options ImportOptions) (described, error) {
	d, err := w.describeFiles(options)
	grid := gridSize(options.Grid)
	switch {
	case err != nil:
	case options.Architecture != "" && d.format != formatTimm:
		err = errors.Errorf("checkpoints: %s is of format %s, not of timm's architecture %q", w.path, d.format,
			options.Architecture)
	case grid != gridSize{} && grid != gridOf(d.config):
		err = errors.Errorf("checkpoints: %s has a grid of %s, not %s", w.path, gridOf(d.config), grid)
	}
	return d, err
}

// describeFiles is describe without a comparison of the files with the hints.
func (w *weights) describeFiles(options ImportOptions) (d described, err error) {
	if w.run != nil {
		return w.describeRun()
	}
	config, err := w.object(foreignConfig)
	if err == nil && w.graph != "" {
		return w.describeGraph(config)
	}
	if err == nil && w.has(patchPath+"weights") && !w.packed {
		d, err = describeNative(config)
		if !w.has(headPath+"weights") && !w.has(headPath+"biases") {
			d.config.Classes = 0
		}
		if depth, n := d.config.Depth, len(w.tensors); err == nil && depth > n { // before it builds so many names
			err = errors.Errorf("the configuration has depth %d, but the file has only %d tensors", depth, n)
		}
		return d, w.badConfig(err)
	}
	d = described{json: config}
	if err != nil {
		return d, err
	}
	if w.packed {
		return w.describeJAX(config, options)
	}
	candidates, name, err := w.candidates(config, options)
	if err != nil {
		return d, err
	}
	_, d.tag, _ = strings.Cut(options.Architecture, ".")
	if trained, _ := config.Object("pretrained_cfg"); trained.Has("tag") {
		d.tag, _ = trained.Text("tag")
	}
	d.architecture = name
	if name != "" {
		if err := w.unwrap(); err != nil {
			return d, err
		}
	}
	f, base, err := w.chooseFamily(candidates)
	if err != nil {
		return d, err
	}
	d.format = f.format
	var fields map[string]any
	if name != "" {
		fields, err = timmArgs(name, config)
	} else {
		fields, err = f.fieldsIn(config)
	}
	classes := w.classes(f)
	if err == nil {
		d.foreign, err = f.read(fields, classes > 0)
	}
	if err == nil {
		err = f.onGrid(d.config)
	}
	if err != nil {
		if name != "" {
			err = errors.WithMessage(err, "model_args")
		}
		return d, w.badConfig(err)
	}
	d.base, d.config.Classes, d.resample = base, classes, timmResample(name, f)
	d.spell(w)
	if config == nil && options.Grid != [2]int{} { // no file contains it
		d.config.ImageRows, d.config.ImageCols = options.Grid[0]*d.config.PatchSize, options.Grid[1]*d.config.PatchSize
	}
	return d, nil
}

// timmResample is the kind of Resample of an architecture, as in timm's _create_vision_transformer.
func timmResample(name string, f *family) string {
	switch {
	case name == "vit_base_patch16_radio_v3" || name == "vit_huge_patch16_radio_v3":
		return resampleJAX
	case strings.Contains(name, "flexi") || strings.Contains(name, "radio"):
		return resampleBilinear
	}
	return f.resample
}

// spell finds how the file spells the names of the blocks.
func (m *foreign) spell(w *weights) {
	query := func() string { return m.nameOf(m.names(), queryPath+"weights", 0) }
	first := query()
	m.bare = !w.has(first) && w.has(strings.TrimPrefix(first, m.base))
	if m.bare || w.has(first) || m.family.current == nil {
		return
	}
	m.current = true
	m.current = w.has(query())
}

// unwrap drops the prefixes of the names that timm drops, each once and in this order: those of torch.compile and
// DistributedDataParallel (clean_state_dict in timm/models/_helpers.py).
func (w *weights) unwrap() error {
	names := map[string]storedTensor{}
	for name, t := range w.tensors {
		for _, prefix := range []string{"_orig_mod.", "module.", "_orig_mod."} {
			name = strings.TrimPrefix(name, prefix)
		}
		if _, twice := names[name]; twice {
			return &formatError{File: t.file, Tensor: name, Reason: "twice, with and without a prefix"}
		}
		names[name] = t
	}
	w.tensors = names
	return nil
}

// fieldsIn returns the fields of transformers' config.json that belong to the image tower.
func (f *family) fieldsIn(config strictjson.Object) (map[string]any, error) {
	key := f.inner
	if old := "vision_config_dict"; f == &hfCLIP && config.Has(old) { // transformers then ignores the other
		key = old
	}
	if f.inner != "" && config.Has(key) {
		var err error
		if config, err = config.Object(key); err != nil {
			return nil, err
		}
	}
	return values(config)
}

// candidates returns the families that the files name, and the architecture if it is one of timm's.
func (w *weights) candidates(config strictjson.Object, options ImportOptions) (all []*family, name string, err error) {
	kind, _ := config.Text("model_type")
	current := func(name string) string { return cmp.Or(architectures().Renamed[name], name) }
	name, _ = config.Text("architecture")
	name = current(name)
	if hint, _, _ := strings.Cut(options.Architecture, "."); hint != "" { // without the tag of pretrained weights
		hint = current(hint)
		if name != "" && name != hint && name != strings.Replace(hint, "_quickgelu", "", 1) {
			return nil, "", errors.Errorf("checkpoints: %s is of architecture %s, not %s", w.path, name, hint)
		}
		name = hint
	}
	if name != "" {
		f, err := timmFamily(name)
		if err != nil {
			return nil, "", w.badConfig(err)
		}
		return []*family{f}, name, nil
	}
	if config == nil {
		return nil, "", &OptionError{fmt.Sprintf("checkpoints: %s has no config.json beside its weights: put it there or, "+
			"for weights of timm, name theirs; the %d tensors begin with %q", w.path, len(w.tensors), w.firstNames()),
			"Architecture"}
	}
	var known []string
	for _, f := range families {
		known = append(known, f.types...)
		if slices.Contains(f.types, kind) {
			all = append(all, f)
		}
	}
	if all == nil {
		slices.Sort(known)
		return nil, "", w.badConfig(config.Refuse("model_type", "one of %s, or an architecture of timm",
			strings.Join(slices.Compact(known), ", ")))
	}
	return all, "", nil
}

// chooseFamily returns the candidate whose tensors the file has, including the tensors of its head if it has two.
func (w *weights) chooseFamily(candidates []*family) (f *family, base string, err error) {
	for i := len(candidates) - 1; i >= 0; i-- {
		f = candidates[i]
		if f.heads != nil && i > 0 && !w.has(f.heads[0]+".weight") {
			continue
		}
		for _, base := range f.bases {
			if w.has(base + f.names[patchPath] + "weight") {
				return f, base, nil
			}
		}
	}
	return nil, "", errors.Errorf("checkpoints: %s has no patch projection with the name of %s %s: its %d tensors begin "+
		"with %q", w.path, candidates[0].format, candidates[0].class, len(w.tensors), w.firstNames())
}

func (w *weights) firstNames() []string {
	names := slices.Sorted(maps.Keys(w.tensors))
	return names[:min(5, len(names))]
}

// classes returns the number of classes of the head, 0 if there is none.
func (w *weights) classes(f *family) int {
	name := f.names[headPath] + "weight"
	if f.heads != nil {
		name = f.heads[0] + ".weight"
	}
	if t, ok := w.tensors[name]; ok && len(t.dims) == 2 && f.names[headPath] != "" {
		return t.dims[0]
	}
	return 0
}

func (w *weights) has(name string) bool {
	_, ok := w.tensors[name]
	return ok
}

// labelsIn returns the names of n classes, in id2label without gaps or in timm's label_names; nil if neither is there.
// label_names is a list or, for classes with gaps between their numbers, an object. Other places may have the names of
// another head: labels of old files, and pretrained_cfg.
func labelsIn(o strictjson.Object, n int) ([]string, error) {
	const key = "id2label"
	if labels, err := timmLabels(o, n); labels != nil || err != nil {
		return labels, err
	}
	var labels []string
	if n > 0 && o.Read("labels", &labels, "") == nil && len(labels) == n {
		return labels, nil
	}
	trained, _ := o.Object("pretrained_cfg")
	if labels, err := timmLabels(trained, n); labels != nil && err == nil {
		return labels, nil
	}
	if !o.Has(key) {
		return nil, nil
	}
	var byID map[string]label
	if o.Read(key, &byID, "") != nil || len(byID) != n {
		return nil, o.Refuse(key, "names of the %d classes of the head", n)
	}
	labels = make([]string, n)
	for i := range labels {
		switch name, ok := byID[strconv.Itoa(i)]; {
		case ok:
			labels[i] = string(name)
		case i == 0:
			return nil, errors.Errorf("%s: class 0 has no name: number the classes from 0", key)
		default: // BEiT's of ImageNet-22k: the names after a gap may be those of the next class
			return nil, nil
		}
	}
	return labels, nil
}

// label is a name of a class, in a file also as a number.
type label string

// UnmarshalJSON implements json.Unmarshaler.
func (l *label) UnmarshalJSON(raw []byte) error {
	if number := json.Number(""); json.Unmarshal(raw, &number) == nil && raw[0] != '"' && number != "" {
		*l = label(number)
		return nil
	}
	return json.Unmarshal(raw, (*string)(l))
}

// timmLabels returns the names of n classes in label_names, nil if it is not there.
func timmLabels(o strictjson.Object, n int) (labels []string, err error) {
	const key = "label_names"
	if o.Read(key, &labels, "") == nil && len(labels) > 0 {
		if len(labels) != n {
			return nil, errors.Errorf("%s has %d names, want those of the %d classes of the head: correct or remove it", key,
				len(labels), n)
		}
		return labels, nil
	}
	var byID map[string]string
	if o.Read(key, &byID, "") != nil {
		byID = nil
	}
	if labels = nil; n == 0 || len(byID) == 0 {
		return nil, nil
	}
	for i := range n {
		labels = append(labels, cmp.Or(byID[strconv.Itoa(i)], fmt.Sprint("LABEL_", i)))
		delete(byID, strconv.Itoa(i))
	}
	if len(byID) > 0 {
		return nil, o.Refuse(key, "names of some of the %d classes of the head", n)
	}
	return labels, nil
}

// The classes of ImageNet-1k (ILSVRC 2012) in order: the first lemma of each synset in Princeton's WordNet 3.0, with a
// second word where two classes share it, as torchvision's weights have them.
//
//go:embed imagenet1k.txt
var imagenet1k string

// knownLabels are the names of the classes of a model without names: timm takes a model of 1000 classes to be of
// ImageNet-1k (infer_imagenet_subset).
func knownLabels(format string, classes int) []string {
	if names := strings.Split(strings.TrimSpace(imagenet1k), "\n"); format == formatTimm && classes == len(names) {
		return names
	}
	return nil
}
