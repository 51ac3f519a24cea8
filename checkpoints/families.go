// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/internal/printable"
	"github.com/wepe-go/wepe/internal/strictjson"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

// Formats of models: tensor names and layouts.
const (
	formatHF     = "hf"     // Hugging Face transformers
	formatTimm   = "timm"   // timm
	formatJAX    = "jax"    // Google's vision_transformer, .npz
	formatNative = "native" // our own variables by their paths, with any position encoding
	formatONNX   = "onnx"   // a graph for ONNX Runtime; written only
)

// families are the model classes of other software. A new one needs its own file and a line here. Export uses the first
// of a format that supports every option of the model.
var families = []*family{
	&hfViT, &hfMSN, &hfMAE, &hfIJepa, &hfDeiT, &hfDeiTTeacher, &hfDINOv2, &hfDINOv2Registers, &hfDINOv3, &hfCLIP,
	&hfCLIPVision, &hfSigLIP, &hfSigLIPVision, &hfBEiT,
	&timmViT, &timmDistilled, &timmEva, &timmBeit,
	&jaxViT,
}

// family is a class of models: the entries of its config.json and the names of its tensors. One table of fields reads,
// validates and writes the config.json.
type family struct {
	format string
	class  string   // in the software
	types  []string // model_type of transformers' config.json
	inner  string   // the field of config.json with the image tower's fields, in a model of images and text

	fields []field
	finish func(m *foreign) error // sets what depends on several fields; nil for nothing

	bases []string                  // prefixes of names except the head's: a classifier's first
	block string                    // prefix of the names of block %d
	names names                     // of variables and of layers
	vary  func(m *foreign, n names) // names that depend on the model; nil for none
	// current is the second spelling of transformers 5, which reads both: it has these names in memory, and writes the
	// other ones unless save_original_format is false; nil for a class with one.
	current *spelling
	heads   []string       // two heads, whose logits are averaged; nil for one
	ranks   map[string]int // of tensors of the layout tokens, if it is not 3
	// extra are tensors that no prediction uses: a name, a scope that ends in "." or "/", or "*.ending".
	extra    []string
	mask     int    // rank of transformers' mask_token, 0 for none
	noHead   bool   // the class has no head
	tower    string // transformers' class for a model without a head; "" for none
	resample string // of position tables: a kind of Resample
	square   bool   // the software reads positions, also those of its own files, as of a square grid
	// cannot returns an error for models that config.json can describe but the software does not run; nil for none.
	cannot func(c vit.Config, out map[string]any) error
}

// variant is a class of models that differs from another one of the same software.
func variant(of family, class string, change func(f *family)) family {
	of.class = class
	change(&of)
	return of
}

// spelling are other names of the tensors in the blocks.
type spelling struct {
	block string
	names names
}

// names are a family's names of variables, by path, or of layers, by a path that ends in "/": the endings of weights
// and biases are appended to these.
type names map[string]string

// foreign is a model in the form of another software.
type foreign struct {
	family  *family
	base    string         // one of family.bases
	bare    bool           // the names of the blocks lack base: transformers 5.23 writes ViT-MSN so
	current bool           // the file has family.current
	config  vit.Config     // of the model in the file; 0 classes if it has no head
	params  map[string]any // hyperparameters of its encoding
	entries map[string]any // the values of its fields, with the software's defaults
	image   gridSize       // pixels
	head    bool           // the file has one
}

// field is an entry of a config.json. It sets a value in a model, and gets it from one.
type field struct {
	key       string
	byDefault any  // the software's default for a missing entry
	nullable  bool // null means "none", not "by default"
	set       func(m *foreign, value any) error
	get       func(m *foreign) any // nil: not written
}

// read sets the model from the values of a config.json. Unknown entries are refused: they could change the model.
func (f *family) read(values map[string]any, head bool) (*foreign, error) {
	m := &foreign{family: f, config: vit.Config{Position: "learned"}, params: map[string]any{}, entries: map[string]any{},
		head: head}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		known := func(known field) bool { return known.key == key }
		if !slices.ContainsFunc(f.fields, known) && !slices.Contains(withoutEffect, key) &&
			values[key] != nil {
			return nil, errors.Errorf("%s = %s is not supported by this version", printable.Name(key), short(values[key]))
		}
	}
	for _, field := range f.fields {
		value, stated := values[field.key]
		if !stated || value == nil && !field.nullable {
			value = field.byDefault
		}
		m.entries[field.key] = value
		if field.set == nil {
			continue
		}
		if err := field.set(m, value); err != nil {
			return nil, about(field.key, err)
		}
	}
	if f.finish != nil {
		if err := f.finish(m); err != nil {
			return nil, err
		}
	}
	if m.config.MLPDim < 1 { // whose default is 4·width in this library
		return nil, errors.New("the MLP has no hidden units")
	}
	c := &m.config
	grid := gridSize{m.image[0] / c.PatchSize, m.image[1] / c.PatchSize}
	c.ImageRows, c.ImageCols = grid[0]*c.PatchSize, grid[1]*c.PatchSize
	c.Classes = 1 // of a model without a head
	var err error
	m.config, err = c.Resolve()
	return m, err
}

// about prefixes an error with the entry that it concerns: "rope_theta" is "x", want a number.
func about(key string, err error) error { return errors.Errorf("%s is %v", key, err) }

// write returns the values of the config.json of a model.
func (m *foreign) write() map[string]any {
	out := map[string]any{}
	for _, field := range m.family.fields {
		if field.get != nil {
			out[field.key] = field.get(m)
		}
	}
	return out
}

// named returns the class of a model of the software, in transformers without a head another one.
func (m *foreign) named() string {
	if !m.head && m.family.tower != "" {
		return m.family.tower
	}
	return m.family.class
}

// forExport finds the family of a format that supports every option of a model, and its head if it has one: reading the
// written values gives the same model again. The error is the error of the family with the fewest differences.
func forExport(format string, c vit.Config, head bool, params map[string]any) (*foreign, map[string]any, error) {
	var closest error
	fewest := math.MaxInt
	for _, f := range families {
		if f.format != format {
			continue
		}
		m := &foreign{family: f, base: f.bases[0], config: c, params: params, entries: map[string]any{},
			head: head && !f.noHead, image: gridSize{c.ImageRows, c.ImageCols}}
		if !head && format == formatHF {
			if f.tower == "" && !f.noHead {
				continue
			}
			if !f.noHead {
				m.base = ""
			}
		}
		out := m.write()
		differences, err := m.differences(out)
		if err == nil && len(differences) == 0 {
			if err = f.runs(c, out); err == nil && head && f.noHead {
				err = &OptionError{fmt.Sprintf("transformers' %s has no classifier, and no other class is this model: choose "+
					"timm, onnx or native, or leave the head out", f.class), "Headless"}
			}
			if err == nil {
				return m, out, nil
			}
			closest, fewest = err, 0
			continue
		}
		if err == nil && len(differences) < fewest {
			fewest = len(differences)
			closest = errors.Errorf("models of %s %s have no %s: %s", format, f.class, strings.Join(differences, ", "),
				otherFormat)
		}
		if closest == nil {
			closest = errors.WithMessagef(err, "%s %s", format, f.class)
		}
	}
	return nil, nil, closest
}

// runs returns the reason why the software does not run a model that its config.json can describe.
func (f *family) runs(c vit.Config, out map[string]any) (err error) {
	if err := f.onGrid(c); err != nil {
		return fmt.Errorf("%w: %s", err, otherFormat)
	}
	switch {
	case f.cannot != nil:
		return f.cannot(c, out)
	case f.format == formatTimm:
		_, _, err = architectureFor(f.class, out)
	}
	return err
}

// onGrid refuses a grid on which the software fails or misplaces the positions of a model.
func (f *family) onGrid(c vit.Config) error {
	if grid := gridOf(c); f.square && grid[0] != grid[1] && c.Position != "none" {
		return errors.Errorf("image_size: transformers' %s has positions of square grids alone, not of %s", f.class, grid)
	}
	return nil
}

// differences lists the options that the model would lose if only these values were written, and sets the values that
// names depend on.
func (m *foreign) differences(out map[string]any) (lost []string, err error) {
	values, err := asJSON(out)
	if err != nil {
		return nil, err
	}
	back, err := m.family.read(values, m.head)
	if err != nil {
		return nil, err
	}
	m.entries = back.entries
	of := func(c vit.Config) map[string]any {
		if c.Prefix() == c.Registers || c.Encoding()[0].Kind != position.Additive {
			c.PatchPositions = false
		}
		c.RegisterPositions = c.RegisterPositions && c.Registers > 0
		pools := c.Pool == "mean" || c.Pool == "map"
		c.PoolPrefix, c.ClassToken = c.PoolPrefix && pools && c.Prefix() > 0, c.ClassToken && pools
		c.PoolMLPDim = poolMLPDim(c)
		c.LayerScale = float64(when(c.LayerScale > 0, 1))
		fields, _ := asJSON(c)
		without := []string{"classes", "dropout", "attention_dropout", "drop_path", "init", "dtype", "recompute"}
		if c.Pool != "map" {
			without = append(without, "pool_num_heads", "pool_mlp_dim")
		}
		for _, key := range without {
			delete(fields, key)
		}
		return fields
	}
	ours, theirs := of(m.config), of(back.config)
	for _, key := range slices.Sorted(maps.Keys(ours)) {
		if ours[key] != theirs[key] {
			lost = append(lost, fmt.Sprintf("%s=%v", key, ours[key]))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(theirs)) {
		if _, has := ours[key]; !has {
			lost = append(lost, "model without "+key)
		}
	}
	grid := m.config.TrainedGrid() // the files have tables of the model's grid
	for _, p := range m.config.Encoding() {
		for _, name := range p.Params {
			_, ofGrid := grid[name]
			value, set := m.params[name]
			kept, ok := back.params[name]
			if !ok {
				kept = paramDefaults[p.Name][name]
			}
			if set && !ofGrid && fmt.Sprint(kept) != fmt.Sprint(value) {
				lost = append(lost, fmt.Sprintf("%s=%v", name, value))
			}
		}
	}
	return lost, nil
}

// paramDefaults are the values of hyperparameters that other software uses if its configuration does not have them.
var paramDefaults = map[string]map[string]any{
	"rope-axial": {"rope_theta": 100.0, "rope_axial_first": "col", "rope_axial_offset": 0.0, "rope_axial_rows": 0.0,
		"rope_axial_cols": 0.0},
	"rope-mixed": {"rope_theta": 10.0},
	"rope-dinov3": {"rope_theta": 100.0, "rope_dinov3_shortest": 0.0, "rope_dinov3_longest": 0.0,
		"rope_dinov3_normalize": "separate", "rope_dinov3_shift": 0.0, "rope_dinov3_jitter": 0.0, "rope_dinov3_rescale": 2.0},
}

// asJSON converts an object to the form that decoding JSON gives.
func asJSON(value any) (fields map[string]any, err error) {
	raw, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(raw, &fields)
	}
	return fields, err
}

// values returns the fields of an object.
func values(o strictjson.Object) (map[string]any, error) {
	out := map[string]any{}
	for key, raw := range o {
		var value any
		if err := json.Unmarshal(raw, &value); err != nil {
			return nil, o.Refuse(key, "numbers up to 1.8e308") // all else was checked before
		}
		out[key] = value
	}
	return out, nil
}

func short(value any) string {
	raw, _ := json.Marshal(value)
	return strictjson.Short(raw)
}

// names returns the foreign names of the model's variables.
func (m *foreign) names() names {
	n := maps.Clone(m.family.names)
	if m.current {
		maps.Copy(n, m.family.current.names)
	}
	if m.family.vary != nil {
		m.family.vary(m, n)
	}
	return n
}

// endings are appended to the names of layers, by format.
var endings = map[string]map[string]string{
	formatHF:   {"weights": "weight", "biases": "bias", "gain": "weight", "offset": "bias"},
	formatTimm: {"weights": "weight", "biases": "bias", "gain": "weight", "offset": "bias"},
	formatJAX:  {"weights": "/kernel", "biases": "/bias", "gain": "/scale", "offset": "/bias"},
}

// nameOf returns the foreign name of one of our paths in a block, "" if there is none.
func (m *foreign) nameOf(n names, path string, block int) string {
	f := m.family
	if f.format == formatNative {
		if strings.Contains(path, "%02d") {
			return fmt.Sprintf(path, block)
		}
		return path
	}
	name := n[path]
	if name == "" {
		layer := path[:strings.LastIndex(path, "/")+1]
		if name = n[layer]; name == "" {
			return ""
		}
		name += endings[f.format][path[len(layer):]]
	}
	if strings.HasPrefix(path, blockPath) {
		block := f.block
		if m.current {
			block = f.current.block
		}
		name = block + name
	}
	if strings.Contains(name, "%d") {
		name = fmt.Sprintf(name, block)
	}
	if strings.HasPrefix(path, headPath) || m.bare && strings.HasPrefix(path, blockPath) {
		return name
	}
	return m.base + name
}

// isExtra reports whether the network here does not use a tensor.
func (m *foreign) isExtra(name string) bool {
	local := strings.TrimPrefix(name, m.base)
	return slices.ContainsFunc(m.family.extra, func(extra string) bool {
		if ending, any := strings.CutPrefix(extra, "*"); any {
			return strings.HasSuffix(name, ending)
		}
		if strings.HasSuffix(extra, ".") || strings.HasSuffix(extra, "/") {
			return strings.HasPrefix(name, extra) || strings.HasPrefix(local, extra)
		}
		return name == extra || local == extra
	})
}

// withoutEffect are entries of config.json that do not change the features of an image: training settings, file
// formats, and entries that older versions of transformers write into every file.
var withoutEffect = strings.Fields(`transformers.js_config _name_or_path _attn_implementation_autoset
	gradient_checkpointing use_cache _num_labels padding architectures auto_map dtype torch_dtype transformers_version
	model_type id2label label2id num_labels problem_type initializer_range initializer_factor use_mask_token
	attention_dropout attention_probs_dropout_prob hidden_dropout_prob drop_path_rate dropout encoder_stride
	pooler_output_size pooler_act apply_layernorm reshape_hidden_states out_features out_indices stage_names
	_out_features _out_indices return_class_token projection_dim vocab_size add_cross_attention bad_words_ids
	begin_suppress_tokens bos_token_id chunk_size_feed_forward cross_attention_hidden_size decoder_start_token_id
	diversity_penalty do_sample early_stopping encoder_no_repeat_ngram_size eos_token_id
	exponential_decay_length_penalty finetuning_task forced_bos_token_id forced_eos_token_id is_decoder
	is_encoder_decoder length_penalty max_length min_length no_repeat_ngram_size num_beam_groups num_beams
	num_return_sequences output_attentions output_hidden_states output_scores pad_token_id prefix pruned_heads
	remove_invalid_values repetition_penalty return_dict return_dict_in_generate sep_token_id suppress_tokens
	task_specific_params temperature tf_legacy_loss tie_encoder_decoder tie_word_embeddings tokenizer_class top_k top_p
	torchscript typical_p use_bfloat16 semantic_loss_ignore_index use_auxiliary_head auxiliary_loss_weight
	auxiliary_channels auxiliary_num_convs auxiliary_concat_input pool_scales add_fpn interpolate_antialias
	interpolate_offset mlp_ratio`)
