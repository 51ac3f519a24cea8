// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/finetune"
)

const corner = "testdata/corner.png"

// larger resizes to 48×48 pixels.
var larger = map[string]any{"size": map[string]int{"height": 48, "width": 48}}

// predicted returns the answers of a model for one image.
func predicted(t *testing.T, dir string) finetune.Prediction {
	t.Helper()
	return asJSON[struct{ Images []finetune.Prediction }](t, "predict "+dir+" "+corner).Images[0]
}

// Of a multi-label model, of files that resize to another size than the weights have positions for, as DINOv2's, and of
// a run that crops to a rectangle.
func TestExport_PredictsAsTheModel(t *testing.T) {
	cropping := filepath.Join(t.TempDir(), "run")
	succeeds(t, "train --data "+images(t, "colours", 11, 24, 32)+" --out "+cropping+" --position wepe-sphere --size 8x16 "+
		"--set model.width=12;model.depth=1;model.num_heads=1;batch_size=6;model.patch_size=4;epochs=0;warmup_epochs=0;"+
		"steps=4;eval_every_steps=2;augment.mean=[0.5,0.25,0.125];augment.std=[0.5,0.75,0.3]")
	plain, same := predicted(t, demoModel), 0
	for dir, c := range map[string]struct{ formats, lost, said string }{
		demoWith(t, "config.json", map[string]any{"problem_type": "multi_label_classification"}): {"hf native", "timm",
			"scores: "},
		demoWith(t, processor, larger): {"hf native timm", "timm", "6×6 -> 12×12"},
		cropping:                       {"native timm", "hf", `"exact" to 8×16`},
	} {
		want := predicted(t, dir)
		if reflect.DeepEqual(want, plain) {
			same++
		}
		for format := range strings.FieldsSeq(c.formats + " " + c.lost) {
			to := filepath.Join(t.TempDir(), format)
			printed := succeeds(t, "export --to "+format, dir, to)
			if format == c.lost && !strings.Contains(printed, c.said) {
				t.Errorf("the export of %s to %s prints\n%s", dir, format, printed)
			}
			if !strings.Contains(c.formats, format) { // it says what is lost
				continue
			}
			got := predicted(t, to)
			for i, class := range want.Labels {
				near(t, format+": "+class.Name, got.Labels[i].Probability, class.Probability, 1e-5)
				equal(t, format+": answer", got.Labels[i].Name, class.Name)
			}
		}
	}
	if same > 1 { // the image is a square
		t.Errorf("%d changes do not matter", same)
	}
}

func TestVerify_AtOneSize(t *testing.T) {
	small := filepath.Join(t.TempDir(), "small")
	large := demoWith(t, processor, larger)
	succeeds(t, "export --to hf --size 24x24", large, small)
	refuses(t, 1, "--size 48x48", "verify", large, small)
	succeeds(t, "verify --size 24x24", large, small)
}
