// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/printable"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/vit"
)

// ImportOptions change the image size and head of a model, and supply what its files lack. The zero value imports the
// model as it is, if its files are complete.
type ImportOptions struct {
	Weights              string // of a run: BestDir or LastDir; empty is the default of Find
	ImageRows, ImageCols int    // new image size in pixels; 0 keeps the checkpoint's
	UsualSize            bool   // with neither of them: the size at which the model is used, Imported.Usual
	Resample             string // kind of Resample for the position table; default the checkpoint's
	Classes              int    // different from the file's: the model gets a new head; 0 keeps the file's
	HeadOptional         bool   // with Classes 0: a model without a head is imported without one, see Imported.Headless
	ONNX                 bool   // an ONNX file of Export is accepted, see Imported.ONNX

	Hints
}

// Hints are what files without metadata lack: Google's, and timm's without config.json. A value that contradicts the
// files is an error, except a name of timm's with "quickgelu" in it for weights of the other. The zero value is for
// complete files.
type Hints struct {
	Grid         [2]int `json:"grid,omitzero"`           // rows and columns of patches of the position table in the file
	AssumeSquare bool   `json:"assume_square,omitempty"` // Google's: without a Grid, the table belongs to a square grid
	Architecture string `json:"architecture,omitempty"`  // timm's: one of ArchitectureNames
}

// Imported is a checkpoint as a model of package vit.
type Imported struct {
	Config     vit.Config                 // with Position "learned", unless the model is one of ours
	Format     string                     // "hf", "timm", "jax", "native", "onnx", or "checkpoint" of a training
	Run        *Checkpoint                // of format "checkpoint"
	Resample   string                     // the kind of Resample that its own code uses
	Labels     []string                   // class names of the head, if it is kept and the files have them
	Names      []string                   // Labels; of a timm model of 1000 classes without them ImageNet's
	Activation string                     // of logits, if the head is kept: "softmax", "sigmoid" (multi-label) or "none"
	Preprocess *preprocess.Settings       // how images become its input, at the size of Config; nil if no file has it
	Usual      [2]int                     // size of images at which it is used: the files' if of whole patches, or its own
	Mean, Std  []float64                  // of the pixels 0…1 it was trained on, per channel; nil if unknown
	SHA256     string                     // of the file of weights, or of all its shards by name, one after the other
	Variables  map[string]*tensors.Tensor // float32, by path below the model's scope; without a new head
	Params     map[string]any             // hyperparameters of the encoding of a model of ours, by name
	Report     []string                   // lines for the user
	ONNX       *ONNX                      // of format "onnx": an ONNX file, which has no Variables
	// PreprocessError is why images cannot be preprocessed as in training; nil if they can, or are not RGB.
	PreprocessError error

	settings *preprocess.Settings // as in the files
	file     string               // the one that has them
}

// The function from logits to scores: values of Imported.Activation.
const (
	softmax      = "softmax" // single-label classification
	sigmoid      = "sigmoid" // multi-label classification
	noActivation = "none"    // of a regression
)

// Import reads a checkpoint of Hugging Face transformers (ViT, MAE, I-JEPA, DeiT, BEiT, DINOv2, DINOv3, the image
// towers of CLIP and SigLIP), timm (VisionTransformer, VisionTransformerDistilled, Eva, Beit), Google's JAX release, an
// output of [Export], or the model of a training run. The path is a .safetensors or .npz file, the index of a sharded
// checkpoint (model.safetensors.index.json), a directory that contains one of them, or a path that [Find] takes; the
// JSON files beside the weights are read too.
//
//	m, err := checkpoints.Import("vit-base-patch16-224", checkpoints.ImportOptions{ImageRows: 384, ImageCols: 384})
//	err = m.Load(scope)
//	… m.Config.Logits(scope, images) …
//
// The architecture comes from config.json, never from file names or sizes; missing fields have the defaults of the
// software that it names. An unknown option is an error. Tensors of the file and variables of the model must match one
// to one in name and shape, otherwise the error is a [*MismatchError]. Not loaded, with a line in Report, are a head
// with another number of classes, the text tower beside an image tower, and layers that no head reads (pooler,
// pre_logits). A head behind a pre_logits layer must be replaced.
//
// Numbers on disk are float32, float16 or bfloat16 and are widened exactly. Google's models compute exact GELU here, as
// in timm and Hugging Face; Google's own code evaluates its tanh approximation.
func Import(path string, options ImportOptions) (*Imported, error) {
	w, err := openWeights(path, options.Weights, options.ONNX)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	o, err := w.model(options, true)
	if err != nil {
		return nil, err
	}
	if w.graph != "" && options != (ImportOptions{ONNX: true, HeadOptional: options.HeadOptional}) {
		return nil, errors.Errorf("checkpoints: %s is for images of %d×%d and its %d classes only: open it without options",
			w.graph, o.Config.ImageRows, o.Config.ImageCols, o.Config.Classes)
	}
	if err := o.read(w); err != nil {
		return nil, err
	}
	m := o.Imported
	rows, cols := m.Config.ImageRows, m.Config.ImageCols
	switch {
	case options.ImageRows != 0 || options.ImageCols != 0:
		rows, cols = cmp.Or(options.ImageRows, rows), cmp.Or(options.ImageCols, cols)
	case options.UsualSize && m.Usual != [2]int{rows, cols}:
		m.Report = append(m.Report, fmt.Sprintf("images: %d×%d, to which the files resize them; the weights have positions "+
			"for %d×%d", m.Usual[0], m.Usual[1], rows, cols))
		rows, cols = m.Usual[0], m.Usual[1]
	}
	line, err := m.Resize(rows, cols, options.Resample)
	if err != nil {
		return nil, errors.WithMessagef(err, "checkpoints: importing %s", path)
	}
	if line != "" {
		m.Report = append(m.Report, "positions: "+line)
	}
	if m.Format == formatTimm && owns(m.Config, relativePath) && gridOf(m.Config) != gridOf(o.config) {
		m.Report = append(m.Report, "relative positions: resampled linearly, as in transformers; timm uses a spline with "+
			"knots in a geometric progression: predictions differ")
	}
	if m.SHA256, err = w.sum(); err == nil && w.graph != "" {
		m.ONNX, err = OpenONNX(w.graph, m.Config)
	}
	return m, err
}

// opened is a model that is read except for its numbers.
type opened struct {
	*Imported
	described
	wanted []named  // the variables with their tensors
	left   []string // tensors that no prediction uses
}

// model opens a model; with an error, what is known of it. A head is kept, dropped or replaced as the options say, or
// described if chooses is false.
func (w *weights) model(options ImportOptions, chooses bool) (o opened, err error) {
	found, err := w.describe(options)
	m := &Imported{Format: found.format, Run: w.run, Activation: softmax, Variables: map[string]*tensors.Tensor{}}
	o = opened{Imported: m, described: found}
	if found.foreign != nil {
		m.Config, m.Params, m.Resample = found.config, found.params, cmp.Or(found.resample, found.family.resample)
		m.Usual = [2]int{m.Config.ImageRows, m.Config.ImageCols}
	}
	if err != nil {
		return o, err
	}
	m.Report = found.lines()
	for _, err := range w.skipped {
		m.Report = append(m.Report, err.Error())
	}
	omitHead := false
	if chooses {
		omitHead, err = m.chooseHead(w, found, options)
	}
	if err == nil && !omitHead && found.config.Classes > 0 {
		if m.Labels, err = found.labels(); err == nil {
			m.Activation, err = found.activation()
		}
		if err == nil && m.Labels == nil && found.json.Has("id2label") {
			m.Report = append(m.Report, "classes: numbered, because id2label has gaps")
		}
		if m.Names, err = m.Labels, w.badConfig(err); m.Names == nil {
			m.Names = knownLabels(m.Format, m.Config.Classes)
		}
	}
	if err == nil && w.graph == "" {
		o.wanted, o.left, err = w.match(found, omitHead)
	}
	if err != nil {
		return o, err
	}
	if len(o.left) > 0 {
		m.Report = append(m.Report, "left out: "+listed(o.left))
	}
	return o, m.pixels(w, found)
}

// Headless reports whether the import has no classifier: its features have a meaning, its logits would not. Config has
// one class then, or as many as the head that was left out.
func (m *Imported) Headless() bool { return m.ONNX == nil && m.Variables[headPath+"weights"] == nil }

// OptionError is an error that another option avoids, for example of a model without a classifier where one is needed.
type OptionError struct {
	Reason string
	Option string // a field of ImportOptions, Hints or ExportOptions; empty for another format or file
}

func (e *OptionError) Error() string {
	if e.Option == "" {
		return e.Reason
	}
	return e.Reason + ": set " + e.Option
}

// lines returns the description of the model for a user.
func (d described) lines() []string {
	what, c := d.format, d.config
	if class := d.named(); class != "" {
		what += " " + class
	}
	if recipe := d.run.Recipe.Name; recipe != "" {
		what += " of recipe " + recipe
	}
	lines := []string{
		fmt.Sprintf("%s: ViT of width %d, depth %d, %s, patches of %d, grid %s", what, c.Width, c.Depth,
			printable.Count(c.Heads, "head"), c.PatchSize, gridOf(c)),
	}
	if c.Position == "rope-dinov3" && d.family != &native {
		lines = append(lines, "license: the weights of DINOv3 and all copies come under the DINOv3 License: "+
			"ai.meta.com/resources/models-and-libraries/dinov3-license")
	}
	if d.projects() {
		lines = append(lines, fmt.Sprintf("head: a projection to %d numbers of CLIP's space, no classes", c.Classes))
		if c.Activation == "" && slices.Contains(quickGELU, d.tag) {
			lines = append(lines, "activation: exact GELU, as timm; the weights were trained with that of architecture "+
				strings.Replace(d.architecture, "_clip_", "_clip_quickgelu_", 1))
		}
	}
	return lines
}

// chooseHead keeps, drops or replaces the head and reports it.
func (m *Imported) chooseHead(w *weights, found described, options ImportOptions) (omit bool, err error) {
	has, behind := found.config.Classes, ""
	for _, name := range slices.Sorted(maps.Keys(w.tensors)) {
		if strings.HasPrefix(name, "pre_logits") && found.isExtra(name) {
			behind = name
		}
	}
	if has > 0 && behind == "" && (options.Classes == 0 || options.Classes == has && !found.projects()) {
		return false, nil
	}
	if options.Classes == 0 {
		reason := "has no head"
		if has > 0 {
			reason = fmt.Sprintf("has a head behind %s, which this model lacks", behind)
		}
		if !options.HeadOptional {
			return false, errors.WithMessagef(&OptionError{reason, "Classes"}, "checkpoints: %s", w.path)
		}
		m.Config.Classes = max(has, 1)
		m.Report = append(m.Report, "head: none: the file "+reason)
		return true, nil
	}
	m.Config.Classes = options.Classes
	line := fmt.Sprintf("head: a new one for %d classes", options.Classes)
	if has > 0 {
		line += fmt.Sprintf(" in place of the checkpoint's for %d", has)
	}
	m.Report = append(m.Report, line)
	return true, nil
}

// match finds the tensor of each variable, and checks that every other tensor is one that no prediction uses. Those of
// a head that is left out may have any shape, or be missing.
func (w *weights) match(found described, omitHead bool) (wanted []named, left []string, err error) {
	has, wants := map[string]string{}, map[string]string{} // shapes of tensors
	head := map[string]bool{}
	for _, v := range found.variables() {
		if strings.HasPrefix(v.path, headPath) && (omitHead || v.foreign == "" ||
			found.config.Classes == 0 && !w.has(v.foreign)) {
			head[v.foreign] = true
			continue
		}
		wants[v.foreign] = fmt.Sprint(v.foreignShape(found.family.format, found.config))
		wanted = append(wanted, v)
	}
	for name, t := range w.tensors {
		switch {
		case wants[name] != "":
		case head[name]:
			continue
		case found.isExtra(name) || slices.Contains(t.dims, 0): // transformers writes empty registers
			left = append(left, name)
			continue
		case ownsEncoding(found.family.format, found.config, name):
			wants[name] = fmt.Sprint(t.dims)
			wanted = append(wanted, named{path: name, foreign: name, asIs: true})
		}
		has[name] = fmt.Sprint(t.dims)
	}
	if found.family == &native {
		encoding, err := found.encoding()
		if err != nil {
			return nil, nil, errors.WithMessagef(err, "checkpoints: %s", w.path)
		}
		for path, shape := range encoding {
			if !w.has(path) {
				wants[path] = shape
			}
		}
	}
	slices.Sort(left)
	err = compare(w.path, has, wants)
	for _, v := range wanted {
		if err == nil && !v.asIs {
			err = w.tensors[v.foreign].isFloat(v.foreign)
		}
	}
	return wanted, left, err
}

// encoding returns the shapes of the variables that its hyperparameters give the model's encoding. They take no memory:
// a file can ask for any size.
func (m *foreign) encoding() (dims map[string]string, err error) {
	dims = map[string]string{}
	weight.Count(func(trial *model.Scope, _ *graph.Node) *graph.Node {
		trial.SetParams(m.params)
		err = exceptions.TryCatch[error](func() { m.config.Encoder(trial) })
		for v := range trial.Store().IterVariables() {
			if path, ok := below(v, trial.Scope()); ok && strings.HasPrefix(path, positionsPath) {
				dims[path] = fmt.Sprint(v.Shape().Dimensions)
			}
		}
		return nil
	}, 1, 1, 1)
	return dims, err
}

// read reads the wanted variables; one foreign tensor may contain several. Unused tensors are read too: a zip has its
// checksums at the end of each member, and a damaged file must be refused.
func (o opened) read(w *weights) error {
	var reader floatReader
	var flat []float32
	used := map[string]bool{}
	for _, v := range o.wanted {
		var err error
		used[v.foreign] = true
		if v.asIs {
			if o.Variables[v.path], err = w.tensors[v.foreign].readAsIs(v.foreign); err != nil {
				return err
			}
			continue
		}
		if v.part == 0 {
			if flat, err = reader.read(v.foreign, w.tensors[v.foreign]); err != nil {
				return err
			}
		}
		value := o.Variables[v.path]
		if value == nil {
			value = tensors.FromShape(shapes.Make(dtypes.Float32, v.dims(o.config)...))
		}
		tensors.MustMutableFlatData(value, func(ours []float32) { v.take(o.described, flat, ours) })
		o.Variables[v.path] = value
	}
	for _, name := range slices.Sorted(maps.Keys(w.tensors)) {
		if !used[name] {
			skim := func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err }
			if err := w.tensors[name].use(name, skim); err != nil {
				return err
			}
		}
	}
	return o.adapt(w)
}

// take copies the numbers of a foreign tensor to our variable.
func (v named) take(found described, foreign, ours []float32) {
	if v.halves == 0 {
		v.move(found.family.format, found.config, foreign, ours, false)
		return
	}
	n := len(ours) / v.halves
	half := make([]float32, n)
	v.move(found.family.format, found.config, foreign, half, false)
	for i, x := range half {
		ours[v.half*n+i] += v.factor * x
	}
}

// Resize adapts the model to images of another size in pixels. A position table is resampled by the given kind, empty
// for m.Resample; other encodings are functions of the position, and some store their training grid in Params. line
// reports the change; it is empty if the size is the model's own.
func (m *Imported) Resize(rows, cols int, kind string) (line string, err error) {
	c, old := m.Config, m.Config
	c.ImageRows, c.ImageCols = rows, cols
	if c, err = c.Resolve(); err != nil {
		return "", err
	}
	kind = cmp.Or(kind, m.Resample)
	if _, err := resampler(kind); err != nil { // also without a table
		return "", err
	}
	from, to := gridOf(old), gridOf(c)
	line = fmt.Sprintf("%s, %s -> %s", c.Position, from, to)
	if m.Variables[positionPath] != nil {
		table, err := tensors.CopyFlatData[float32](m.Variables[positionPath])
		if err != nil {
			return "", errors.WithMessage(err, "position table")
		}
		if table, line, err = Resample(table, c.Width, c.PrefixPositions(), from, to, kind); err != nil {
			return "", err
		}
		m.Variables[positionPath] = tensors.FromFlatDataAndDimensions(table, c.Positions(), c.Width)
	}
	m.Config = c // no errors from here
	if from == to {
		line = ""
	} else {
		for name, value := range old.TrainedGrid() {
			if set, known := m.Params[name]; !known || fmt.Sprint(set) == "0" { // the model's own grid
				m.Params[name] = value
			}
		}
	}
	m.preprocess([2]int{old.ImageRows, old.ImageCols})
	return line, nil
}

// preprocess sets what brings images to the model's size, or why nothing does; was is the size before. The lines of an
// earlier size leave the report.
func (m *Imported) preprocess(was [2]int) {
	if m.settings == nil {
		return
	}
	const about = "preprocessing: "
	m.Report = slices.DeleteFunc(m.Report, func(line string) bool { return strings.HasPrefix(line, about) })
	rows, cols := m.Config.ImageRows, m.Config.ImageCols
	height, width, err := m.settings.OutputSize()
	if its := [2]int{height, width}; err == nil && its != was && its != [2]int{rows, cols} {
		m.Report = append(m.Report, fmt.Sprintf(about+"images of %d×%d in place of %d×%d, which the network resizes: "+
			"predictions differ", rows, cols, height, width))
	}
	settings, err := m.settings.For(rows, cols)
	if m.Preprocess, m.PreprocessError = &settings, nil; err != nil {
		m.unprocessed(err)
	}
}

// unprocessed leaves the preprocessing of m.file out.
func (m *Imported) unprocessed(err error) {
	m.Report = append(m.Report, fmt.Sprintf("preprocessing: left out: %v", err))
	if m.Preprocess = nil; m.Config.Channels == 3 {
		m.PreprocessError = fmt.Errorf("%s: %w: images would be preprocessed differently than in training", m.file, err)
	}
}

// pixels sets the size and normalization of the training images. Google's models use (pixel/255 - ½)/½
// (google-research/vision_transformer, issue 210).
func (m *Imported) pixels(w *weights, found described) error {
	channels := found.config.Channels
	m.file = w.path
	settings := preprocess.Settings{Resize: preprocess.ResizeExact, Size: [2]int{m.Config.ImageRows, m.Config.ImageCols}}
	switch trained, _ := found.json.Object("pretrained_cfg"); {
	case found.format == formatCheckpoint:
		a := found.run.Recipe.Augment
		if p := found.run.Preprocess; p != (preprocess.Settings{}) {
			settings = p
		}
		settings.Mean, settings.Std = a.Mean, a.Std
		if mean, std := settings.Normalization(); a.Mean != [3]float64{} || a.Std != [3]float64{} {
			m.Mean, m.Std = mean[:min(channels, 3)], std[:min(channels, 3)]
		}
	case found.preprocess != nil:
		settings = *found.preprocess
		mean, std := settings.Normalization()
		m.Mean, m.Std = mean[:], std[:]
		m.resizedTo(&settings)
	case found.format == formatJAX && found.json == nil:
		m.Mean = slices.Repeat([]float64{0.5}, channels)
		m.Std = m.Mean
		if channels == 3 {
			settings.Mean, settings.Std = [3]float64(m.Mean), [3]float64(m.Std)
		}
	default:
		m.file = filepath.Join(w.dir, foreignPreprocessor)
		if found.format == formatTimm && (trained != nil || found.json.Has("input_size")) {
			m.file = filepath.Join(w.dir, foreignConfig)
		}
		if o, _ := w.object(foreignProcessor); found.format != formatTimm && o.Has("image_processor") {
			m.file = filepath.Join(w.dir, foreignProcessor)
		}
		raw, err := readSmall(m.file)
		if errors.Is(err, fs.ErrNotExist) {
			if channels == 3 {
				m.PreprocessError = fmt.Errorf("%s does not say how images are preprocessed: put its preprocessor_config.json, or "+
					"timm's config.json, beside the weights", w.path)
			}
			return nil
		}
		if err != nil {
			return err
		}
		kind, _ := found.json.Text("model_type")
		if m.Mean, m.Std, err = preprocess.ParseNormalization(raw, kind, channels); err == nil && channels == 3 {
			settings, err = preprocess.Parse(raw, kind)
		}
		if err != nil {
			m.unprocessed(err)
			return nil
		}
		m.resizedTo(&settings)
	}
	if channels == 3 {
		m.settings = &settings
		m.preprocess([2]int{m.Config.ImageRows, m.Config.ImageCols})
	}
	return nil
}

// resizedTo sets Usual from the preprocessing in the files, and trims that to whole patches as the patch embedding of
// the model's own software does.
func (m *Imported) resizedTo(s *preprocess.Settings) {
	rows, cols, err := s.OutputSize()
	patch := m.Config.PatchSize
	files, whole := [2]int{rows, cols}, [2]int{rows - rows%patch, cols - cols%patch}
	if err != nil || min(whole[0], whole[1]) == 0 || s.Resize == preprocess.ResizePatches && whole != files {
		return
	}
	if m.Usual = whole; whole == files {
		return
	}
	s.Trim = whole
	m.Report = append(m.Report, fmt.Sprintf("images: %d×%d of the %d×%d pixels to which the files resize them: whole "+
		"patches of %d, as in the model's own software", whole[0], whole[1], rows, cols, patch))
}

// Load creates the variables below the model's scope, where none of them may exist, and sets Params there.
func (m *Imported) Load(scope *model.Scope) error {
	if err := weight.Create(scope, m.Variables); err != nil {
		return errors.WithMessage(err, "checkpoints")
	}
	scope.SetParams(m.Params)
	// An encoding creates its own variables, and initializes those that the file lacks.
	if err := exceptions.TryCatch[error](func() { m.Config.Encoder(scope) }); err != nil {
		return errors.WithMessage(err, "checkpoints")
	}
	drawn := map[string]string{}
	for v := range scope.Store().IterVariables() {
		if path, ok := below(v, scope.Scope()); ok && strings.HasPrefix(path, positionsPath) && m.Variables[path] == nil {
			drawn[path] = fmt.Sprint(v.Shape().Dimensions)
		}
	}
	return compare("the file", nil, drawn)
}
