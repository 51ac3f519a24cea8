// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
)

// declarable returns the preprocessing that an export in a format can declare for a model of images of rows×cols
// pixels: s if possible, otherwise a resize to that size which ignores the aspect ratio, with the same kernel and
// normalization. line names a difference and its reason, also where only rounding differs; "" if there is none.
func declarable(format string, s preprocess.Settings, rows, cols int) (declared preprocess.Settings, line string) {
	var err error
	if s.Resize != "" {
		_, _, err = s.OutputSize()
	}
	there := s // as the other software reads it
	switch {
	case s.Resize == preprocess.ResizePatches: // a model opened from files has one size
		err = errors.New("each image has its own grid only in the run itself")
	case err != nil || format == formatNative: // which has the settings themselves
	default:
		there, err = readBack(format, s, rows, cols)
	}
	if err == nil {
		return s, rounding(s, there)
	}
	declared = preprocess.Settings{Resize: preprocess.ResizeExact, Size: [2]int{rows, cols}, Resample: s.Resample,
		Float: s.Float, Grey16: s.Grey16, Rescale: s.Rescale, Mean: s.Mean, Std: s.Std}
	line = fmt.Sprintf("preprocessing: fit %q to %d×%d in place of %q, so that predictions of the export differ: %s",
		declared.Resize, rows, cols, s.Resize, strings.TrimPrefix(err.Error(), "preprocess: "))
	if format != formatNative && s.Grey16 != preprocess.GreyClip {
		line += "; 16-bit grey " + grey16[preprocess.GreyClip]
	}
	return declared, line
}

// readBack converts settings to a format and back.
func readBack(format string, s preprocess.Settings, rows, cols int) (back preprocess.Settings, err error) {
	var raw []byte
	if format != formatTimm {
		raw, err = s.HuggingFace()
	} else {
		var fields map[string]any
		if fields, err = s.Timm(rows, cols); err == nil {
			raw, err = json.Marshal(fields)
		}
	}
	if err != nil {
		return back, err
	}
	return preprocess.Parse(raw, "")
}

// PreprocessingDifference names how the images of two models differ although their logits may be equal: "" for not at
// all.
func PreprocessingDifference(a, b preprocess.Settings) string {
	text := func(s preprocess.Settings) string {
		mean, std := s.Normalization()
		return fmt.Sprintf("fit %q to %v by %s, patch %d, trim %v, crop %v, mean %.4g, std %.4g", s.Resize, s.Size,
			s.Kernel(), s.Patch, s.Trim, s.Crop, mean, std)
	}
	if text(a) == text(b) {
		return rounding(a, b)
	}
	return fmt.Sprintf("preprocessing: %s, and %s: predictions of files differ", text(a), text(b))
}

// grey16 describes the conversion of 16-bit grey above 255.
var grey16 = map[string]string{preprocess.GreyClip: "above 255 becomes 255", preprocess.GreyScale: "is divided by 256",
	preprocess.GreyRange: "is scaled by the range of its image"}

// rounding names what images preprocessed by there and by s have different although both resize and crop alike.
func rounding(s, there preprocess.Settings) string {
	var parts []string
	if s.Resize == preprocess.ResizeCover && there.Resize == preprocess.ResizeShortest && s.Size == there.Size {
		parts = append(parts, "the longer side of a resized image is rounded down, not to the nearest pixel")
	}
	if s.Grey16 != there.Grey16 {
		parts = append(parts, "16-bit grey "+grey16[there.Grey16])
	}
	if s.Float != there.Float {
		parts = append(parts, map[bool]string{false: "pixels are rounded to 8 bits after the resize",
			true: "pixels are not rounded after the resize"}[there.Float])
	}
	if s.Resize == preprocess.ResizeContain && s.Fill != there.Fill {
		parts = append(parts, fmt.Sprintf("borders have the colour %v in place of %v", there.Fill, s.Fill))
	}
	moved := s.Crop != [2]int{} && s.RoundCrop != there.RoundCrop
	if moved && s.Resize == preprocess.ResizeExact { // every image is cropped at the same place
		start, _ := s.Window(s.Size[0], s.Size[1])
		other, _ := there.Window(s.Size[0], s.Size[1])
		moved = start != other
	}
	if moved {
		parts = append(parts, "a crop at half a pixel is rounded otherwise: it can start one pixel before or "+
			"after (probabilities of one ViT moved by up to .022 in 11 of 91 photographs; the format native keeps it)")
	}
	if parts == nil {
		return ""
	}
	return "preprocessing: in the other software " + strings.Join(parts, "; ")
}

// declare sets the preprocessing that the files declare, and refuses one whose output is not the model's input.
func (e *export) declare() error {
	if e.Preprocess == nil {
		return nil
	}
	if err := e.Preprocess.Validate(); err != nil {
		return err
	}
	c := e.config
	declared, line := declarable(e.Format, *e.Preprocess, c.ImageRows, c.ImageCols)
	p := &declared
	if e.Preprocess, e.difference = p, line; line != "" {
		e.report = append(e.report, line)
	}
	rows, cols := c.ImageRows, c.ImageCols // images may already have the model's size
	if p.Resize != "" || p.Crop != [2]int{} {
		var err error
		if rows, cols, err = p.OutputSize(); err != nil {
			return err
		}
	}
	if rows != c.ImageRows || cols != c.ImageCols || c.Channels != 3 {
		return errors.Errorf("preprocessing gives 3 channels of %d×%d, the model takes %d of %d×%d", rows, cols, c.Channels,
			c.ImageRows, c.ImageCols)
	}
	return nil
}

func textFile(name string, text []byte) exportFile {
	return exportFile{name: name, write: writeText(text)}
}

// id2label numbers the classes; missing names are the default names of transformers.
func (e *export) id2label() map[string]string {
	names := map[string]string{}
	for i := range e.config.Classes {
		names[strconv.Itoa(i)] = fmt.Sprintf("LABEL_%d", i)
		if len(e.Labels) > 0 {
			names[strconv.Itoa(i)] = e.Labels[i]
		}
	}
	return names
}

// problemTypes are transformers' names of functions from logits to scores; it uses softmax without one.
var problemTypes = map[string]string{sigmoid: "multi_label_classification", noActivation: "regression"}

// activationText describes these functions.
var activationText = map[string]string{
	sigmoid:      "the sigmoid of each logit (multi-label)",
	noActivation: "the logits themselves",
	softmax:      "softmax",
}

// configJSON returns the content of the config.json of the format.
func (e *export) configJSON() (any, error) {
	c := e.config
	names, numbers := e.id2label(), map[string]int{}
	for i := range c.Classes {
		numbers[names[strconv.Itoa(i)]] = i
	}
	out := map[string]any{"id2label": names, "label2id": numbers}
	if kind := problemTypes[e.Activation]; kind != "" && e.Format != formatJAX {
		out["problem_type"] = kind
	}
	switch e.Format {
	case formatTimm:
		return e.timmConfig()
	case formatNative:
		params, err := paramsOf(e.ofPosition())
		out := nativeConfig{ModelType: nativeType, Model: c, Params: params, Problem: problemTypes[e.Activation],
			Preprocess: e.Preprocess}
		if len(e.Labels) > 0 {
			out.ID2Label = e.id2label()
		}
		return out, err
	case formatONNX:
		maps.Copy(out, map[string]any{"model_type": "vit", "architectures": []string{"ViTForImageClassification"},
			"hidden_size": c.Width, "image_size": []int{c.ImageRows, c.ImageCols}, "patch_size": c.PatchSize,
			"num_channels": c.Channels, "position_encoding": e.encoded, // inside the graph
			nativeType: nativeConfig{ModelType: nativeType, Model: c, Params: []param{}, Preprocess: e.Preprocess}})
		return out, nil
	}
	f, tower := e.as.family, maps.Clone(e.fields)
	if !e.head {
		out = map[string]any{}
	}
	if f.inner != "" {
		tower["model_type"] = f.types[0] + "_vision_model"
		tower = map[string]any{f.inner: tower}
	}
	maps.Copy(out, tower)
	out["model_type"] = f.types[0]
	if e.Format == formatHF {
		maps.Copy(out, map[string]any{"architectures": []string{e.as.named()}, "torch_dtype": e.DType})
	}
	return out, nil
}

// timmConfig is the config.json that timm's create_model("local-dir:…") and its hub read.
func (e *export) timmConfig() (any, error) {
	c := e.config
	architecture, args, err := architectureFor(e.as.family.class, e.fields)
	if err != nil {
		return nil, err
	}
	args["img_size"] = [2]int{c.ImageRows, c.ImageCols}
	trained := map[string]any{} // the images, as far as known
	if e.Preprocess != nil {
		if trained, err = e.Preprocess.Timm(c.ImageRows, c.ImageCols); err != nil {
			return nil, err
		}
	} else if c.Channels == 3 {
		e.report = append(e.report, "preprocessing: not in the files: timm uses its defaults, a crop of 0.875 after a "+
			"bicubic resize, and the mean and standard deviation of ImageNet")
	}
	classes, classifier := when(e.head, c.Classes), any("head")
	if heads := e.as.family.heads; heads != nil {
		classifier = heads
	}
	maps.Copy(trained, map[string]any{"input_size": [3]int{c.Channels, c.ImageRows, c.ImageCols}, "fixed_input_size": true,
		"num_classes": classes, "first_conv": "patch_embed.proj", "classifier": classifier, "pool_size": nil,
		"custom_load": false})
	out := map[string]any{
		"architecture": architecture, "num_classes": classes, "num_features": c.Width,
		"global_pool": e.fields["global_pool"], "model_args": args, "pretrained_cfg": trained,
	}
	if len(e.Labels) > 0 {
		out["label_names"] = e.Labels
	}
	return out, nil
}

// card writes the README.md: a description of the model, its input, and how to open it.
func (e *export) card(weights string) exportFile {
	c := e.config
	var b strings.Builder
	task, what := "image-classification", fmt.Sprintf("%d classes", c.Classes)
	if !e.head {
		task, what = "image-feature-extraction", "without a classifier"
	}
	fmt.Fprintf(&b, "---\npipeline_tag: %s\n", task)
	if library := map[string]string{formatHF: "transformers", formatTimm: "timm"}[e.Format]; library != "" {
		fmt.Fprintf(&b, "library_name: %s\n", library)
	}
	fmt.Fprintf(&b, "tags:\n- %s\n- vision\n---\n\n# Vision Transformer, %s\n\n| | |\n|---|---|\n", task, what)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "| %s | %s |\n", name, fmt.Sprintf(format, args...))
	}
	row("images", "%d×%d pixels, %d channels", c.ImageRows, c.ImageCols, c.Channels)
	row("patches", "%d×%d pixels, a grid of %s", c.PatchSize, c.PatchSize, gridOf(c))
	row("width, depth, heads, MLP", "%d, %d, %d, %d", c.Width, c.Depth, c.Heads, c.MLPDim)
	encoding := e.encoded
	if e.encoded != c.Position {
		encoding += ", folded into the table of position embeddings: an ordinary ViT"
	}
	row("position encoding", "%s", encoding)
	row("pooling", "%s", c.Pool)
	row("weights", "%s, %s", weights, e.DType)
	pixels := "not recorded"
	if p := e.Preprocess; p != nil {
		mean, std := p.Normalization()
		pixels = fmt.Sprintf("scaled to 0…1, minus %v, divided by %v", mean, std)
		if p.Resize != "" {
			crop := ""
			if p.Crop != [2]int{} {
				crop = fmt.Sprintf(", cropped to %d×%d", p.Crop[0], p.Crop[1])
			}
			if p.Trim != [2]int{} {
				crop += fmt.Sprintf(", trimmed to whole patches: %d×%d", p.Trim[0], p.Trim[1])
			}
			pixels = fmt.Sprintf("resized to %d×%d (%s, %s)%s, %s", p.Size[0], p.Size[1], p.Resize, p.Kernel(), crop, pixels)
		}
	}
	row("pixels", "%s", pixels)
	if e.difference != "" {
		row("difference", "%s", e.difference)
	}
	if problemTypes[e.Activation] != "" {
		row("scores", "%s", activationText[e.Activation])
	}
	fmt.Fprintf(&b, "\n%s\nWritten by [wepe](https://github.com/wepe-go/wepe). To be added by its author: training data, "+
		"accuracy, licence.\n", e.usage())
	return textFile("README.md", []byte(b.String()))
}

// usage returns the code that opens the model.
func (e *export) usage() string {
	python := func(library, open, run string) string {
		return fmt.Sprintf("```python\n%s\n\n%s\n%s  # images [n, %d, %d, %d]\n```\n", library, open, run, e.config.Channels,
			e.config.ImageRows, e.config.ImageCols)
	}
	result := map[bool]string{true: "logits", false: "features"}[e.head]
	switch e.Format {
	case formatHF:
		output, class := "logits", e.as.named()
		if !e.head {
			output = "pooler_output"
			if slices.Contains(e.as.family.extra, "pooler.") { // of another head's training, or random
				output = "last_hidden_state"
			}
		}
		if e.Preprocess == nil {
			return python("from transformers import "+class, `model = `+class+`.from_pretrained(".")`,
				result+" = model(images)."+output)
		}
		label := ""
		if e.head {
			label = "print(model.config.id2label[logits.argmax().item()])\n"
		}
		return "```python\nfrom PIL import Image\nfrom transformers import AutoImageProcessor, " + class + `

processor = AutoImageProcessor.from_pretrained(".")
model = ` + class + `.from_pretrained(".")
images = processor(Image.open("photo.jpg").convert("RGB"), return_tensors="pt")
` + result + " = model(**images)." + output + "\n" + label + "```\n"
	case formatTimm:
		return python("import timm", `model = timm.create_model("local-dir:.", pretrained=True).eval()`,
			result+" = model(images)")
	case formatJAX:
		return "Names and layouts follow google-research/vision_transformer.\n\n```python\nimport numpy\n\n" +
			"weights = numpy.load(\"model.npz\")\n```\n"
	case formatONNX:
		run := `[logits] = model.run(["logits"], {"pixel_values": images.astype("float32")})`
		if e.Preprocess == nil {
			return python("import onnxruntime", `model = onnxruntime.InferenceSession("model.onnx")`, run)
		}
		return "```python\nimport json, onnxruntime\nfrom PIL import Image\nfrom transformers import AutoImageProcessor\n\n" +
			`model = onnxruntime.InferenceSession("model.onnx")
processor = AutoImageProcessor.from_pretrained(".")
images = processor(Image.open("photo.jpg").convert("RGB"), return_tensors="np").pixel_values
` + run + "\n" + `print(json.load(open("config.json"))["id2label"][str(logits[0].argmax())])` + "\n```\n"
	}
	return "```go\nmodel, err := checkpoints.Import(\".\", checkpoints.ImportOptions{})\nerr = model.Load(scope)\n" +
		"logits := model.Config.Logits(scope, images)\n```\n"
}
