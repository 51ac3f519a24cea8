// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
)

// A model without a classifier is resized and written in every format with weights alone, as the class that
// transformers has for it, and comes back without one.
func TestExport_Headless(t *testing.T) {
	square := ownViT("learned")
	square.ImageRows = square.ImageCols
	for class, c := range map[string]vit.Config{
		"ViTModel": square, "Dinov2Model": changedBy(square, func(c *vit.Config) { c.LayerScale, c.MLPDim = 0.5, 96 }),
		"Dinov2WithRegistersModel": changedBy(square, func(c *vit.Config) {
			c.LayerScale, c.MLPDim, c.Registers = 0.5, 96, 3
		}),
		"DINOv3ViTModel": changedBy(square, func(c *vit.Config) {
			c.LayerScale, c.Position, c.QKVBias, c.Epsilon, c.ImageCols = 0.5, "rope-dinov3", "qv", 1e-5, 14
		}),
		"CLIPVisionModel": changedBy(square, func(c *vit.Config) { c.PreNorm, c.Epsilon = true, 1e-5 }),
		"SiglipVisionModel": changedBy(square, func(c *vit.Config) {
			c.Pool, c.Activation = "map", "gelu_tanh"
		}),
		"BeitModel": changedBy(square, func(c *vit.Config) {
			c.Pool, c.ClassToken, c.FinalNorm, c.QKVBias, c.LayerScale = "mean", true, "pooled", "qv", 0.1
			c.Position = "learned+relative-table"
		}),
	} {
		scope := stirred(t, c, nil).Scope("/vit")
		for _, format := range []string{formatHF, formatTimm, formatNative} {
			dir := filepath.Join(t.TempDir(), "model")
			o := ExportOptions{Format: format, Headless: true, Labels: make([]string, c.Classes)}
			if _, err := Export(dir, gomlxtest.Backend(), scope, c, o); err != nil {
				if format != formatTimm {
					t.Errorf("%s as %s: %v", class, format, err)
				}
				continue
			}
			var without *OptionError
			if _, err := Import(dir, ImportOptions{}); !errors.As(err, &without) {
				t.Errorf("%s as %s: %v", class, format, err)
			}
			m := imported(t, dir, ImportOptions{HeadOptional: true})
			if !m.Headless() || len(m.Variables) == 0 || m.Config.Pool != c.Pool {
				t.Errorf("%s as %s: %+v", class, format, m.Config)
			}
			if format != formatHF {
				continue
			}
			var config struct{ Architectures []string }
			if configIn(t, dir, &config); !slices.Equal(config.Architectures, []string{class}) {
				t.Errorf("%q, want %s", config.Architectures, class)
			}
		}
	}
}

func changedBy(c vit.Config, change func(*vit.Config)) vit.Config {
	change(&c)
	return c
}

// Grids that classes of transformers 5.24 do not run: CLIPVisionModel and SiglipVisionModel raise TypeError for a list
// as image_size; BeitRelativePositionBias reads the table of 12×8 patches as of 8×12.
func TestExport_RectanglesThatTransformersDoesNotRun(t *testing.T) {
	clip := changedBy(ownViT("learned"), func(c *vit.Config) { c.PreNorm, c.Epsilon = true, 1e-5 })
	siglip := changedBy(ownViT("learned"), func(c *vit.Config) { c.Pool, c.Activation = "map", "gelu_tanh" })
	beit := changedBy(ownViT("relative-table"), func(c *vit.Config) {
		c.Pool, c.ClassToken, c.FinalNorm, c.QKVBias, c.LayerScale = "mean", true, "pooled", "qv", 0.1
	})
	for name, c := range map[string]vit.Config{"CLIP": clip, "SigLIP": siglip, "BEiT": beit} {
		for _, cols := range []int{c.ImageRows, c.ImageCols} {
			c.ImageCols = cols
			_, err := Export(filepath.Join(t.TempDir(), "x"), gomlxtest.Backend(), stirred(t, c, nil).Scope("/vit"), c,
				ExportOptions{Headless: true})
			if square := cols == c.ImageRows; (err == nil) != square {
				t.Errorf("%s of %d×%d: %v", name, c.ImageRows, cols, err)
			}
		}
	}
	beit.ImageCols = beit.ImageRows
	dir := exportedFrom(t, stirred(t, beit, nil), beit, ExportOptions{})
	file := filepath.Join(dir, foreignConfig)
	text := strings.Replace(string(readFile(t, file)), `"image_size": 6`, `"image_size": [6, 10]`, 1)
	putFile(t, file, []byte(text))
	if _, err := Import(dir, ImportOptions{}); err == nil || !strings.Contains(err.Error(), "3x5") {
		t.Errorf("BEiT's file of a grid of 3x5: %v", err)
	}
}
