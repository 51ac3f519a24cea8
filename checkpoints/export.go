// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/printable"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/vit"
)

// ExportOptions are the options of Export. The zero value is a Hugging Face directory in float32.
type ExportOptions struct {
	Format     string               // "hf" (default), "timm", "jax", "onnx"; "native": our own variables, any encoding
	DType      string               // of the numbers on disk: "float32" (default), "float16" or "bfloat16"; ONNX: float32
	Labels     []string             // class names; nil for none
	Preprocess *preprocess.Settings // how images become the model's input; nil: not written
	Activation string               // of logits, as Imported.Activation; empty: "softmax"

	// Epsilon of the norms in the file; 0 is the model's. timm's code supports 1e-6 and 1e-5, Google's 1e-6: a model
	// trained with another one is exported there only with such a value here.
	Epsilon float64

	Headless bool // leave the classifier out: other software then opens a model that gives features

	files fileOps // nil is the file system
}

// Export writes the model below a scope to a new directory, in one of these formats:
//
//	hf        model.safetensors   transformers' class for ViT, DeiT, BEiT, Dinov2, CLIP or Siglip
//	timm      model.safetensors   timm's VisionTransformer, VisionTransformerDistilled, Eva or Beit
//	jax       model.npz           Google's vision_transformer
//	onnx      model.onnx          ONNX Runtime: pixel_values [batch, channels, rows, cols] -> logits [batch, classes]
//	native    model.safetensors   this library: the encoding is unchanged, docs/models.md lists the names
//
// Beside the weights are config.json with sizes and class names, preprocessor_config.json (timm and native have it in
// config.json) and a README.md. For preprocessing that the format lacks they have a resize to the model's size that
// ignores the aspect ratio, with a line in the report. [Import] reads all of these; ONNX if its options say so.
//
//	report, err := checkpoints.Export("my-vit", backend, store.Scope("/vit"), config, checkpoints.ExportOptions{
//		Labels: classes, Preprocess: &preprocess,
//	})
//
// For hf, timm and jax the position encoding is first folded into a table ([vit.Config.Fold]), so that the file is an
// ordinary ViT; encodings that act inside the blocks and that the format lacks (timm has rope-axial, rope-mixed,
// rope-dinov3 and relative-table, hf the last two), and any other feature that it does not support, are errors. ONNX
// supports every model; with the build tag onnx its file is kept only if its logits on random images match the
// backend's.
//
// The directory must not exist, or be empty. It is renamed into place when all files are synced: an error leaves
// nothing. The report has a line per step.
func Export(dir string, backend compute.Backend, scope *model.Scope, c vit.Config, o ExportOptions) (
	report []string, err error,
) {
	e, err := newExport(backend, scope, c, o)
	if err == nil {
		err = e.save(dir)
	}
	if err != nil {
		return nil, errors.WithMessagef(err, "checkpoints: exporting to %s", dir)
	}
	return e.report, nil
}

// export is a model ready to be written.
type export struct {
	ExportOptions
	backend compute.Backend
	store   *model.Store
	scope   string     // of the model in store
	config  vit.Config // of the exported model
	encoded string     // the position encoding before it was folded
	dtype   dtypes.DType
	as      *foreign       // the model in the format; our own for native and ONNX
	head    bool           // the export has a classifier
	fields  map[string]any // of its config.json
	report  []string

	difference string // of the preprocessing in the files; "" for none
	mergeClass bool   // the position of the class token goes into the class token
}

// newExport folds the encoding if possible, and refuses models and options that cannot be exported.
func newExport(backend compute.Backend, scope *model.Scope, c vit.Config, o ExportOptions) (*export, error) {
	o.Format, o.DType = cmp.Or(o.Format, formatHF), cmp.Or(o.DType, "float32")
	o.files = cmp.Or[fileOps](o.files, osFiles{})
	c, err := c.Resolve()
	if err != nil {
		return nil, err
	}
	e := &export{ExportOptions: o, backend: backend, scope: scope.Scope(), config: c, encoded: c.Position}
	if err := e.check(); err != nil {
		return nil, err
	}
	if e.store, err = weight.Merged(scope); err != nil { // the files have no adapters
		return nil, err
	}
	has := e.store.GetVariable(model.JoinPath(e.scope, headPath+"weights")) != nil
	if e.head = has && !o.Headless; has && !e.head {
		e.report = append(e.report, "head: left out")
	}
	if !e.head {
		if e.Labels = nil; o.Format == formatONNX {
			return nil, &OptionError{"an ONNX file computes logits, and there is no head: choose another format", ""}
		}
	}
	encoding, folded := c.Encoding(), c.Encoding().Folded()
	if o.Format == formatNative || o.Format == formatONNX {
		e.as = &foreign{family: &native, head: e.head}
	}
	if o.Format == formatNative || o.Format == formatONNX && !encoding.Folds() {
		return e, nil
	}
	e.config.Position = cmp.Or(folded, c.Position)
	if e.as == nil {
		if err := e.choose(); err != nil {
			return nil, err
		}
	}
	if folded != "" && c.Position != folded { // not a table yet
		var err error
		if e.store, _, err = c.Fold(backend, e.store.Scope(e.scope)); err != nil {
			return nil, err
		}
		e.report = append([]string{fmt.Sprintf("positions: %s folded into a table of %d+%s rows", c.Position,
			c.PrefixPositions(), gridOf(c))}, e.report...)
	}
	return e, nil
}

// ofPosition is the scope of the encoding, which reads hyperparameters there or above.
func (e *export) ofPosition() *model.Scope {
	return e.store.Scope(model.JoinPath(e.scope, vit.ScopePosition))
}

// choose finds a class of the format that supports the model.
func (e *export) choose() error {
	c := &e.config
	if e.Format == formatTimm && c.Registers > 0 && c.PrefixPositions() == 1 && c.Pool != "class+register" &&
		owns(*c, positionPath) && !c.RegisterPositions { // in timm, registers have positions too, or no prefix token has
		e.mergeClass, c.PatchPositions = true, true
		e.report = append(e.report, "class token: its position added to it")
	}
	params := map[string]any{}
	for _, name := range c.Encoding().Params() {
		if value, set := e.ofPosition().GetParam(name); set {
			params[name] = value
		}
	}
	params, err := asJSON(params) // numbers of a recipe and of a Go program may have different types
	if err != nil {
		return err
	}
	if e.as, e.fields, err = forExport(e.Format, *c, e.head, params); err != nil {
		return e.explain(err, params)
	}
	if e.as.named() != e.as.family.class && slices.Contains(e.as.family.extra, "pooler.") {
		e.report = append(e.report, "pooler: none, "+e.as.named()+" makes a random one: use last_hidden_state")
	}
	return nil
}

// otherFormat is the remedy for a model that a format has no class for.
const otherFormat = "choose onnx or native"

// explain adds a remedy to the error for a model that no class of the format supports.
func (e *export) explain(err error, params map[string]any) error {
	c := e.config
	if errors.As(err, new(*OptionError)) {
		return err
	}
	last := c.Encoding()[len(c.Encoding())-1:]
	var possible []string
	for _, c.Epsilon = range []float64{1e-6, 1e-5} {
		if _, _, other := forExport(e.Format, c, e.head, params); other == nil {
			possible = append(possible, fmt.Sprintf("%g", c.Epsilon))
		}
	}
	if possible != nil {
		return &OptionError{fmt.Sprintf("the norms of %s have epsilon %s, this model was made with %g: change it, and "+
			"compare the logits", e.Format, strings.Join(possible, " or "), e.config.Epsilon), "Epsilon"}
	}
	if last.Folded() == "" {
		return errors.Errorf("%s cannot store position %s: %s, or train a model with position learned (%s)", e.Format,
			e.encoded, otherFormat, strings.TrimSuffix(err.Error(), ": "+otherFormat))
	}
	return err
}

var typesOnDisk = map[string]dtypes.DType{
	"float32": dtypes.Float32, "float16": dtypes.Float16, "bfloat16": dtypes.BFloat16,
}

// Validate returns an error for options with which no model can be exported.
func (o ExportOptions) Validate() error {
	known := []string{formatHF, formatTimm, formatJAX, formatNative, formatONNX}
	format, dtype := cmp.Or(o.Format, formatHF), cmp.Or(o.DType, "float32")
	switch t, ok := typesOnDisk[dtype]; {
	case !slices.Contains(known, format):
		return errors.Errorf("unknown format %q: want one of %s", format, strings.Join(known, ", "))
	case !(o.Epsilon >= 0 && o.Epsilon < 1):
		return errors.Errorf("epsilon is %g, want 0 < epsilon < 1, or 0 for the model's", o.Epsilon)
	case !ok || format == formatONNX && t != dtypes.Float32:
		return errors.Errorf("type %q on disk: want float32, float16 or bfloat16; for onnx float32", dtype)
	case !slices.Contains([]string{"", softmax, sigmoid, noActivation}, o.Activation):
		return errors.Errorf("activation %q: want %s, %s or %s", o.Activation, softmax, sigmoid, noActivation)
	}
	return nil
}

// check refuses options out of range, and models that the format does not support.
func (e *export) check() error {
	c := &e.config
	if err := e.Validate(); err != nil {
		return err
	}
	e.dtype = typesOnDisk[e.DType]
	if len(e.Labels) != 0 && len(e.Labels) != c.Classes {
		return errors.Errorf("%d labels for %d classes", len(e.Labels), c.Classes)
	}
	for i, label := range e.Labels {
		if !utf8.ValidString(label) { // JSON would have another name
			return errors.Errorf("label %d, %q, is not UTF-8: rename the class", i, label)
		}
	}
	if err := e.declare(); err != nil {
		return err
	}
	if e.Epsilon != 0 && e.Epsilon != c.Epsilon {
		e.report = append(e.report, fmt.Sprintf("epsilon of the norms: %g in place of %g", e.Epsilon, c.Epsilon))
		c.Epsilon = e.Epsilon
	}
	opened := softmax
	if e.Format == formatTimm && c.Classes == 1 {
		opened = noActivation
	}
	without := e.Format == formatTimm || e.Format == formatJAX
	if without && problemTypes[e.Activation] != "" && e.Activation != opened {
		e.report = append(e.report, fmt.Sprintf("scores: %s: not in the files, %s has no field for it: opened again, the "+
			"model has %s", activationText[e.Activation], e.Format, activationText[opened]))
	}
	return nil
}

// exportFile is one file of an export.
type exportFile struct {
	name  string
	write func(io.Writer) error
	check func(file string) error // checks the written file before it is kept; may be nil
}

// contents returns the files of the directory.
func (e *export) contents() ([]exportFile, error) {
	weights := exportFile{graphName, e.writeONNX, e.checkONNX}
	if e.Format != formatONNX {
		out, err := e.tensors()
		if err != nil {
			return nil, err
		}
		weights = exportFile{name: foreignWeights, write: func(w io.Writer) error {
			return writeSafetensors(w, metadataFormats[e.Format], out)
		}}
		if e.Format == formatJAX {
			weights = exportFile{name: "model.npz", write: func(w io.Writer) error { return writeNPZ(w, out) }}
		}
	}
	config, err := e.configJSON()
	if err != nil {
		return nil, err
	}
	if c := e.config; e.Preprocess == nil && c.Channels != 3 {
		e.report = append(e.report, fmt.Sprintf("preprocessing: not in the files: scale the pixels of the %s as in training",
			printable.Count(c.Channels, "channel")))
	}
	raw, err := indented(config, "shorten the labels: config.json would take")
	if err != nil {
		return nil, err
	}
	files := []exportFile{weights, textFile(foreignConfig, raw)}
	if e.Preprocess != nil && e.Format != formatTimm && e.Format != formatNative {
		raw, err := e.Preprocess.HuggingFace()
		if err != nil {
			return nil, err
		}
		files = append(files, textFile(foreignPreprocessor, raw))
	}
	return append(files, e.card(weights.name)), nil
}

// metadataFormats are the formats in the metadata of safetensors files; transformers requires "pt".
var metadataFormats = map[string]string{formatHF: "pt", formatTimm: "pt", formatNative: nativeType}

// save writes the files into a new directory, through links to an empty one.
func (e *export) save(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	if err := vacant(dir); err != nil {
		return err
	}
	contents, err := e.contents()
	if err != nil {
		return err
	}
	if err := makeDirs(e.files, filepath.Dir(dir)); err != nil {
		return err
	}
	siblings, _ := os.ReadDir(filepath.Dir(dir))
	for _, sibling := range siblings { // left by a killed process
		number, ok := strings.CutPrefix(sibling.Name(), filepath.Base(dir)+temporaryMark)
		if ok && sibling.IsDir() && len(number) == 20 && strings.Trim(number, "0123456789") == "" {
			_ = e.files.removeAll(filepath.Join(filepath.Dir(dir), sibling.Name()))
		}
	}
	_, err = publish(e.files, dir, func(temporary string) error {
		err := e.write(temporary, contents)
		if is, _ := os.Stat(dir); err == nil && is != nil {
			err = os.Chmod(temporary, is.Mode().Perm())
			_ = os.Remove(dir) // it is empty; the rename reports other problems
		}
		return err
	})
	if errors.Is(err, os.ErrExist) || errors.Is(err, syscall.EBUSY) {
		return errors.WithMessagef(err, "%s cannot be replaced, perhaps it is a mount: name a directory in it", dir)
	}
	return err
}

// vacant returns an error if the new directory cannot be created.
func vacant(dir string) error {
	entries, err := os.ReadDir(dir)
	here, _ := os.Stat(".")
	is, _ := os.Stat(dir)
	link, _ := os.Lstat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist) && link != nil:
		return errors.New("a link to nothing: make its target, or remove it")
	case errors.Is(err, os.ErrNotExist):
		return nil
	case is != nil && os.SameFile(here, is):
		return errors.New("the current directory, which cannot be replaced: name another one")
	case err != nil:
		return errors.New("a file has this name: choose another one or remove it")
	case len(entries) > 0:
		return errors.Errorf("the directory contains %s: choose another one or remove it", entries[0].Name())
	}
	return nil
}

// write writes, syncs and checks the files.
func (e *export) write(dir string, contents []exportFile) error {
	for _, f := range contents {
		file := filepath.Join(dir, f.name)
		record, err := writeFile(e.files, file, f.write)
		if err == nil && f.check != nil {
			err = f.check(file)
		}
		if err != nil {
			return errors.WithMessage(err, f.name)
		}
		e.report = append(e.report, fmt.Sprintf("%s: %d bytes, SHA-256 %s", f.name, record.Size, record.SHA256))
	}
	return nil
}

// tensors lists the tensors of the file of weights: exactly the variables below the scope.
func (e *export) tensors() (out []outTensor, err error) {
	has, wants := map[string]string{}, map[string]string{} // shapes of variables, by path below the scope
	values := map[string]*tensors.Tensor{}
	e.as.config = e.config
	all := slices.DeleteFunc(e.as.variables(), func(n named) bool {
		return !e.head && strings.HasPrefix(n.path, headPath)
	})
	for _, n := range all {
		wants[n.path] = shapes.Make(dtypes.Float32, n.dims(e.config)...).String()
	}
	for v := range e.store.IterVariables() {
		path, ok := below(v, e.scope)
		others := e.scope == model.RootScopePath && wants[path] == "" && !strings.HasPrefix(path, positionsPath)
		switch {
		case !ok || others || !e.head && strings.HasPrefix(path, headPath): // others as an optimizer's
			continue
		case !v.HasValue():
			has[path] = v.Shape().String() + " without a value"
			continue
		}
		has[path] = v.Shape().String()
		if values[path], err = v.Value(); err != nil {
			return nil, err
		}
	}
	if e.Format != formatNative {
		if err := e.resampleRelative(has, values); err != nil {
			return nil, err
		}
	}
	for path, value := range values {
		if wants[path] == "" && ownsEncoding(e.Format, e.config, path) {
			wants[path] = has[path]
			out = append(out, asIs(path, value))
		}
	}
	if e.mergeClass { // the table still has the row of the class token
		wants[positionPath] = shapes.Make(dtypes.Float32, e.config.Positions()+1, e.config.Width).String()
	}
	if err := compare("scope "+e.scope, has, wants); err != nil {
		return nil, err
	}
	if e.mergeClass {
		addClassPosition(values)
	}
	out = append(out, e.unread()...)
	for len(all) > 0 {
		group := all[:all[0].parts]
		all = all[len(group):]
		out = append(out, outTensor{
			name:  group[0].foreign,
			shape: shapes.Make(e.dtype, group[0].foreignShape(e.as.family.format, e.config)...),
			write: func(w io.Writer) error { return e.writeGroup(w, group, values) },
		})
	}
	return out, nil
}

// addClassPosition adds the first row of the position table to the class token and removes the row.
func addClassPosition(values map[string]*tensors.Tensor) {
	class := tensors.MustCopyFlatData[float32](values[classPath])
	table := tensors.MustCopyFlatData[float32](values[positionPath])
	for i := range class {
		class[i] += table[i]
	}
	n := len(class)
	values[classPath] = tensors.FromFlatDataAndDimensions(class, 1, n)
	values[positionPath] = tensors.FromFlatDataAndDimensions(table[n:], len(table)/n-1, n)
}

// resampleRelative resamples BEiT's tables from the grid of training to that of the model, as the graph does: other
// software takes the grid from the size of the image.
func (e *export) resampleRelative(has map[string]string, values map[string]*tensors.Tensor) error {
	scope, c := e.ofPosition(), e.config
	rows := model.GetParamOr(scope, "relative_table_rows", 0)
	cols := model.GetParamOr(scope, "relative_table_cols", 0)
	if !owns(c, relativePath) || rows == 0 || rows == c.Rows() && cols == c.Cols() {
		return nil
	}
	const prefixes = 3 // scores of pairs with prefix tokens, after those of the offsets
	to := gridSize{2*c.Rows() - 1, 2*c.Cols() - 1}
	for block := range c.Depth {
		path := fmt.Sprintf(relativePath, block)
		if values[path] == nil {
			continue // compare names it
		}
		table := tensors.MustCopyFlatData[float32](values[path])
		offsets := len(table) - prefixes*c.Heads
		resampled, done, err := Resample(table[:offsets], c.Heads, 0, gridSize{2*rows - 1, 2*cols - 1}, to, resampleBilinear)
		if err != nil {
			return err
		}
		if block == 0 {
			e.report = append(e.report, "relative positions: offsets "+done)
		}
		values[path] = tensors.FromFlatDataAndDimensions(append(resampled, table[offsets:]...), to[0]*to[1]+prefixes, c.Heads)
		has[path] = values[path].Shape().String()
	}
	return nil
}

// below returns the path of a variable below a scope, and whether it is there and, below the root, no adapter.
func below(v *model.Variable, scope string) (path string, ok bool) {
	path, ok = strings.CutPrefix(v.Path(), strings.TrimSuffix(scope, model.ScopeSeparator)+model.ScopeSeparator)
	return path, ok && !strings.HasPrefix(model.ScopeSeparator+path, weight.LowRankRoot+model.ScopeSeparator)
}

// unread returns the tensors that transformers requires and no prediction uses: DINO's mask token, zero as at its
// initialization, and the registers of a model without registers.
func (e *export) unread() (out []outTensor) {
	zeros := func(name string, dims ...int) {
		shape := shapes.Make(e.dtype, dims...)
		out = append(out, outTensor{name: e.as.base + name, shape: shape, write: func(w io.Writer) error {
			_, err := w.Write(make([]byte, shape.Size()*e.dtype.Size()))
			return err
		}})
	}
	switch f := e.as.family; {
	case f.mask > 0:
		zeros("embeddings.mask_token", slices.Concat(slices.Repeat([]int{1}, f.mask-1), []int{e.config.Width})...)
		if e.config.Registers == 0 && f.names[registersPath] != "" && f != &hfDINOv2 {
			zeros("embeddings.register_tokens", 1, 0, e.config.Width)
		}
	case f == &hfCLIP: // the norm of the class token, which the classifier does not read
		zeros("post_layernorm.weight", e.config.Width)
		zeros("post_layernorm.bias", e.config.Width)
	}
	return out
}

// writeGroup writes the variables of one foreign tensor.
func (e *export) writeGroup(w io.Writer, group []named, values map[string]*tensors.Tensor) error {
	flat := make([]float32, values[group[0].path].Size()*len(group)/max(1, group[0].halves))
	for _, n := range group {
		tensors.MustConstFlatData(values[n.path], func(ours []float32) {
			if n.halves > 0 {
				size := len(ours) / n.halves
				half := slices.Clone(ours[n.half*size : (n.half+1)*size])
				for i := range half {
					half[i] *= n.back
				}
				ours = half
			}
			n.move(e.as.family.format, e.config, flat, ours, true)
		})
	}
	const chunk = 1 << 14
	var raw []byte
	for len(flat) > 0 {
		n := min(chunk, len(flat))
		var err error
		if raw, err = appendRaw(raw[:0], flat[:n], e.dtype); err != nil {
			return err
		}
		if _, err := w.Write(raw); err != nil {
			return err
		}
		flat = flat[n:]
	}
	return nil
}
