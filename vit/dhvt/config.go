// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dhvt

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/vit"
)

// Config describes a model: a vit.Config and one more dropout rate. It is saved with every checkpoint; a zero field
// means its default.
//
// The models of the original, https://github.com/ArieSeirack/DHVT, are Ti of width 192 and S of 384, both of depth 12:
// with patches of 2 or 4 and 4 or 8 heads for CIFAR-100 at 32×32 pixels, with patches of 16 and 3 or 6 heads for
// ImageNet at 224×224 (4 heads in Ti for DomainNet).
//
// PatchSize is 2, 4 or 16, Heads is the number of head tokens too, and Position one of Encodings(), default "none".
// Dropout acts on the attention branch. Init is "timm" (default), as the original: dense weights and tokens from
// N(0, 0.02²), convolutions uniformly in ±1/√fan-in, PyTorch's default; or "release": Xavier-uniform
// convolutions. The WePE release has Epsilon 1e-5. Other options of a ViT are refused.
type Config struct {
	vit.Config
	hidden //nolint:unused // for its methods

	TokenDropout float64 `json:"token_dropout,omitempty"` // on the tokens that enter block 0; only the WePE release has it
}

// hidden hides the methods of vit.Config that do not apply: Go promotes no method that two embedded types have.
type hidden struct{} //nolint:unused // embedded

func (hidden) Fold()         {} //nolint:unused // never called
func (hidden) FLOPs()        {} //nolint:unused // never called
func (hidden) Trace()        {} //nolint:unused // never called
func (hidden) Block()        {} //nolint:unused // never called
func (hidden) NaFlexLogits() {} //nolint:unused // never called
func (hidden) Patches()      {} //nolint:unused // never called

// Encodings lists the names that Config.Position accepts. Rotary encodings and relative biases are excluded, because
// the head tokens of the attention have no position.
func Encodings() []string { return []string{"none", "wepe"} }

// Resolve returns c with every zero field that has a default filled in, and an error, in one line, that names the first
// field that is wrong.
func (c Config) Resolve() (Config, error) {
	c.Position = cmp.Or(c.Position, "none")
	var err error
	c.Config, err = c.Config.Resolve()
	return c, c.validate(err)
}

// FromViT returns the DHVT with the sizes of a ViT, its Dropout acting on the tokens that enter block 0 and on the
// attention branch, as in the WePE release. It returns an error for options that a DHVT does not have.
func FromViT(c vit.Config) (Config, error) {
	c, _ = c.Resolve() // whose error is one of the DHVT too
	return Config{Config: c, TokenDropout: c.Dropout}.Resolve()
}

// validate reports what is wrong with c, at last the error of its sizes and rates, which have the limits of a ViT.
func (c Config) validate(ofViT error) error {
	if other := c.unsupported(); other != "" {
		return fmt.Errorf("dhvt: %s is set, but this model has no such option: leave it out", other)
	}
	switch {
	case c.Pool != "class":
		return fmt.Errorf("dhvt: pool is %q, but this model ends in its class token: leave pool out", c.Pool)
	case c.DType != "float32":
		return fmt.Errorf("dhvt: dtype is %q, but this model computes in float32: leave dtype out", c.DType)
	case !slices.Contains([]int{2, 4, 16}, c.PatchSize):
		return fmt.Errorf("dhvt: patch_size is %d, want 2, 4 or 16", c.PatchSize)
	case c.Width%4 != 0 || c.Width%(1<<(len(c.convWidths())-1)) != 0:
		return fmt.Errorf("dhvt: width %d does not divide by 4 and, at patch size 16, by 8", c.Width)
	case !(c.TokenDropout >= 0 && c.TokenDropout < 1):
		return fmt.Errorf("dhvt: token_dropout is %g, want 0 <= rate < 1", c.TokenDropout)
	case !slices.Contains(Encodings(), c.Position):
		return fmt.Errorf("dhvt: position encoding %q does not fit this model: want one of %s", c.Position,
			strings.Join(Encodings(), ", "))
	case c.Init != "timm" && c.Init != "release":
		return fmt.Errorf("dhvt: unknown init %q: want %s or %s", c.Init, "timm", "release")
	}
	if ofViT != nil {
		return fmt.Errorf("dhvt: %w", ofViT)
	}
	return nil
}

// supported are the options of a ViT that a DHVT has.
var supported = []string{"image_rows", "image_cols", "channels", "patch_size", "width", "depth", "num_heads", "mlp_dim",
	"classes", "pool", "position", "epsilon", "dropout", "drop_path", "init", "dtype"}

// unsupported names an option of a ViT that is set and that a DHVT does not have.
func (c Config) unsupported() string {
	options := reflect.ValueOf(c.Config)
	for i := range options.NumField() {
		name, _, _ := strings.Cut(options.Type().Field(i).Tag.Get("json"), ",")
		if !options.Field(i).IsZero() && !slices.Contains(supported, name) {
			return name
		}
	}
	return ""
}

func (c Config) resolved() Config {
	c, err := c.Resolve()
	if err != nil {
		panic(err)
	}
	return c
}

func (c Config) headDim() int { return c.Width / c.Heads }

// Parameters is the number of trainable parameters of the model, with default hyperparameters: those that it creates.
func (c Config) Parameters() int {
	c = c.resolved()
	return weight.Count(c.Logits, c.ImageRows, c.ImageCols, c.Channels)
}

// initScheme sets the initial values of each kind of weight. Biases of dense layers and offsets start at 0, gains at 1.
type initScheme struct {
	dense, token weight.Fill
	conv         func(fanIn, fanOut int) weight.Fill // convolutions, the pointwise ones too
	convBias     func(fanIn int) weight.Fill
}

func (c Config) initScheme() initScheme {
	// The default of Conv2d.
	torch := func(fanIn int) weight.Fill { return weight.Uniform(1 / math.Sqrt(float64(fanIn))) }
	s := initScheme{
		dense: weight.Normal(0.02), token: weight.Normal(0.02),
		conv: func(fanIn, _ int) weight.Fill { return torch(fanIn) }, convBias: torch,
	}
	if c.Init == "release" {
		// Xavier, with the fans of the whole window.
		s.conv = func(fanIn, fanOut int) weight.Fill { return weight.Uniform(math.Sqrt(6 / float64(fanIn+fanOut))) }
		s.convBias = func(int) weight.Fill { return weight.Constant(0) }
	}
	return s
}
