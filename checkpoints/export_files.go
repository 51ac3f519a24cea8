// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
)

// hfModel is config.json as transformers' ViTForImageClassification reads it.
type hfModel struct {
	Architectures     []string          `json:"architectures,omitempty"`
	ModelType         string            `json:"model_type"`
	HiddenAct         string            `json:"hidden_act,omitempty"`
	HiddenSize        int               `json:"hidden_size,omitempty"`
	HiddenLayers      int               `json:"num_hidden_layers,omitempty"`
	Heads             int               `json:"num_attention_heads,omitempty"`
	IntermediateSize  int               `json:"intermediate_size,omitempty"`
	QKVBias           bool              `json:"qkv_bias,omitempty"`
	Epsilon           float64           `json:"layer_norm_eps,omitempty"`
	ImageSize         any               `json:"image_size"` // pixels: one number, [rows, cols] where they differ
	PatchSize         int               `json:"patch_size"`
	Channels          int               `json:"num_channels"`
	EncoderStride     int               `json:"encoder_stride,omitempty"`
	HiddenDropout     float64           `json:"hidden_dropout_prob"`
	AttentionDropout  float64           `json:"attention_probs_dropout_prob"`
	InitializerRange  float64           `json:"initializer_range,omitempty"`
	DType             string            `json:"torch_dtype,omitempty"`
	ID2Label          map[string]string `json:"id2label"`
	Label2ID          map[string]int    `json:"label2id"`
	PositionEncodings string            `json:"position_encoding,omitempty"` // ONNX: what is inside the graph
}

// timmModel is config.json as timm's create_model("local-dir:…") and its hub read it.
type timmModel struct {
	Architecture string     `json:"architecture"`
	Classes      int        `json:"num_classes"`
	Features     int        `json:"num_features"`
	Pool         string     `json:"global_pool"`
	ModelArgs    timmArgs   `json:"model_args"`
	Pretrained   timmInputs `json:"pretrained_cfg"`
	Labels       []string   `json:"label_names,omitempty"`
}

// timmArgs are arguments of timm's VisionTransformer.
type timmArgs struct {
	ImageSize  [2]int  `json:"img_size"`
	PatchSize  int     `json:"patch_size"`
	Channels   int     `json:"in_chans"`
	Width      int     `json:"embed_dim"`
	Depth      int     `json:"depth"`
	Heads      int     `json:"num_heads"`
	MLPRatio   float64 `json:"mlp_ratio"`
	ClassToken bool    `json:"class_token"`
	Pool       string  `json:"global_pool"`
	PoolNorm   bool    `json:"fc_norm"` // false: the last norm is before the pooling, as ours
	Act        string  `json:"act_layer"`
}

// timmInputs say what images the weights were trained on.
type timmInputs struct {
	CustomLoad bool   `json:"custom_load"`
	InputSize  [3]int `json:"input_size"`
	FixedSize  bool   `json:"fixed_input_size"`
	preprocess.Timm
	Classes    int    `json:"num_classes"`
	PoolSize   *int   `json:"pool_size"`
	FirstConv  string `json:"first_conv"`
	Classifier string `json:"classifier"`
}

// checkPreprocess refuses preprocessing that does not end in the model's input.
func (e *export) checkPreprocess() error {
	p, c := e.Preprocess, e.config
	if p == nil {
		return nil
	}
	if err := p.Validate(); err != nil {
		return err
	}
	rows, cols := c.ImageRows, c.ImageCols // pictures may have the size already
	if p.Fit != preprocess.FitNone || p.Crop != [2]int{} {
		var err error
		if rows, cols, err = p.OutputSize(); err != nil {
			return err
		}
	}
	if rows != c.ImageRows || cols != c.ImageCols || c.Channels != 3 {
		return errors.Errorf("preprocessing gives 3 channels of %dx%d, the model takes %d of %dx%d", rows, cols, c.Channels,
			c.ImageRows, c.ImageCols)
	}
	return nil
}

// jsonFile returns a file of indented JSON.
func jsonFile(name string, value any) (exportFile, error) {
	var raw bytes.Buffer
	encoder := json.NewEncoder(&raw)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return exportFile{}, errors.WithMessage(err, name)
	}
	if raw.Len() > maxSmall {
		return exportFile{}, errors.Errorf("%s: %d bytes, at most %d are read: shorten the labels", name, raw.Len(), maxSmall)
	}
	return textFile(name, raw.Bytes()), nil
}

func textFile(name string, text []byte) exportFile {
	return exportFile{name: name, write: writeText(text)}
}

// id2label numbers the classes; without names they are called as transformers calls them.
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

func (e *export) configJSON() (exportFile, error) {
	c := e.config
	switch e.Format {
	case FormatTimm:
		out := e.timmFile()
		if e.Preprocess != nil {
			timm, err := e.Preprocess.Timm()
			if err != nil {
				return exportFile{}, err
			}
			out.Pretrained.Timm = timm
		}
		return jsonFile(foreignConfig, out)
	case FormatUnfolded:
		params, err := paramsOf(e.store.Scope(e.scope))
		if err != nil {
			return exportFile{}, err
		}
		out := unfoldedConfig{ModelType: unfoldedType, Model: c, Params: params}
		if len(e.Labels) > 0 {
			out.ID2Label = e.id2label()
		}
		return jsonFile(foreignConfig, out)
	}
	out := hfModel{
		ModelType: "vit", ImageSize: c.ImageRows, PatchSize: c.PatchSize, Channels: c.Channels, ID2Label: e.id2label(),
		Label2ID: map[string]int{},
	}
	if c.ImageRows != c.ImageCols {
		out.ImageSize = [2]int{c.ImageRows, c.ImageCols}
	}
	for i := range c.Classes {
		out.Label2ID[out.ID2Label[strconv.Itoa(i)]] = i
	}
	switch e.Format {
	case FormatHF:
		out.Architectures = []string{"ViTForImageClassification"}
		out.HiddenAct, out.QKVBias, out.Epsilon, out.InitializerRange = "gelu", true, c.Epsilon, 0.02
		out.HiddenSize, out.HiddenLayers, out.Heads, out.IntermediateSize = c.Width, c.Depth, c.Heads, c.MLPDim
		out.EncoderStride, out.DType = c.PatchSize, e.DType
		out.HiddenDropout, out.AttentionDropout = c.Dropout, c.AttentionDropout
	case FormatJAX:
		out.ModelType = jaxType
	case FormatONNX:
		out.PositionEncodings = e.encoded
	}
	return jsonFile(foreignConfig, out)
}

// timmFile names an architecture that timm has for every size: the arguments say what it is.
func (e *export) timmFile() timmModel {
	c := e.config
	out := timmModel{
		Architecture: "vit_base_patch16_224", Classes: c.Classes, Features: c.Width, Pool: timmPools[c.Pool],
		ModelArgs: timmArgs{
			ImageSize: [2]int{c.ImageRows, c.ImageCols}, PatchSize: c.PatchSize, Channels: c.Channels, Width: c.Width,
			Depth: c.Depth, Heads: c.Heads, MLPRatio: float64(c.MLPDim) / float64(c.Width), ClassToken: c.Prefix() > 0,
			Pool: timmPools[c.Pool], Act: "gelu",
		},
		Pretrained: timmInputs{
			InputSize: [3]int{c.Channels, c.ImageRows, c.ImageCols}, FixedSize: true, Classes: c.Classes,
			FirstConv: "patch_embed.proj", Classifier: "head",
		},
		Labels: e.Labels,
	}
	for int(float64(c.Width)*out.ModelArgs.MLPRatio) < c.MLPDim { // timm cuts the product: 49·(5/49) is 4.99…
		out.ModelArgs.MLPRatio = math.Nextafter(out.ModelArgs.MLPRatio, math.Inf(1))
	}
	return out
}

// card writes the README.md: what the model is, what it takes and how it is opened.
func (e *export) card(weights string) exportFile {
	c := e.config
	var b strings.Builder
	fmt.Fprintf(&b, "---\npipeline_tag: image-classification\n")
	if library := map[string]string{FormatHF: "transformers", FormatTimm: "timm"}[e.Format]; library != "" {
		fmt.Fprintf(&b, "library_name: %s\n", library)
	}
	fmt.Fprintf(&b, "tags:\n- image-classification\n- vision\n---\n\n# Vision Transformer, %d classes\n\n", c.Classes)
	fmt.Fprintf(&b, "| | |\n|---|---|\n| images | %d×%d pixels, %d channels |\n", c.ImageRows, c.ImageCols, c.Channels)
	fmt.Fprintf(&b, "| patches | %d×%d pixels, a grid of %s |\n", c.PatchSize, c.PatchSize, Grid{c.Rows(), c.Cols()})
	fmt.Fprintf(&b, "| width, depth, heads, MLP | %d, %d, %d, %d |\n", c.Width, c.Depth, c.Heads, c.MLPDim)
	encoding := e.encoded
	if e.encoded != c.Position {
		encoding += ", folded into the table of position embeddings: an ordinary ViT"
	}
	fmt.Fprintf(&b, "| position encoding | %s |\n| pooling | %s |\n", encoding, c.Pool)
	fmt.Fprintf(&b, "| weights | %s, %s |\n", weights, e.DType)
	pixels := "not recorded"
	if p := e.Preprocess; p != nil {
		mean, std := p.Normalisation()
		pixels = fmt.Sprintf("scaled to 0…1, minus %v, divided by %v", mean, std)
		if p.Fit != preprocess.FitNone {
			pixels = fmt.Sprintf("fit %q to %v by %s, crop %v; %s", p.Fit, p.Size, p.Kernel(), p.Crop,
				pixels)
		}
	}
	fmt.Fprintf(&b, "| pixels | %s |\n", pixels)
	fmt.Fprintf(&b, "\n%s\nWritten by [wepe](https://github.com/wepe-go/wepe). What it was trained on, how well it does "+
		"and its licence\nare for its author to add.\n", e.usage())
	return textFile("README.md", []byte(b.String()))
}

// usage is how the model is opened.
func (e *export) usage() string {
	c := e.config
	python := func(lines ...string) string { return "```python\n" + strings.Join(lines, "\n") + "\n```\n" }
	switch e.Format {
	case FormatHF:
		return python("from transformers import ViTForImageClassification", "",
			`model = ViTForImageClassification.from_pretrained(".")`,
			fmt.Sprintf("logits = model(images).logits  # images [n, %d, %d, %d]", c.Channels, c.ImageRows, c.ImageCols))
	case FormatTimm:
		return python("import timm", "", `model = timm.create_model("local-dir:.", pretrained=True).eval()`,
			fmt.Sprintf("logits = model(images)  # images [n, %d, %d, %d]", c.Channels, c.ImageRows, c.ImageCols))
	case FormatJAX:
		return "The names and layouts are those of google-research/vision_transformer.\n\n" +
			python("import numpy", "", `weights = numpy.load("model.npz")`)
	case FormatONNX:
		return python("import onnxruntime", "", `model = onnxruntime.InferenceSession("model.onnx")`,
			fmt.Sprintf(`[logits] = model.run(["logits"], {"pixel_values": images})  # images float32 [%d, %d, %d, %d]`,
				e.Batch, c.Channels, c.ImageRows, c.ImageCols))
	}
	return "```go\nmodel, err := checkpoints.Import(\".\", checkpoints.ImportOptions{})\nerr = model.Load(scope)\n" +
		"logits := model.Config.Logits(scope, images)\n```\n"
}
