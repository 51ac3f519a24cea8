// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command peers reads models that other packages wrote and compares its logits with theirs:
//
//	go run ./tools/peers [-export OUT] DIR
//
// Each directory below DIR holds a model and expected.json, with images [batch, rows, cols, channels] and logits.
// A line for each: right, refused with the reason, or wrong; then their counts. The exit status is 1 if any is wrong.
// With -export OUT each model that is right is written again, in its own format, to OUT.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/finetune/backend"
)

const tolerance = 1e-4 // of the largest difference, as a part of the largest logit

func main() {
	out := flag.String("export", "", "directory to write right models to, in their own format")
	flag.Parse()
	b, err := backend.Open()
	if err == nil {
		err = run(b, flag.Arg(0), *out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(b compute.Backend, root, out string) error {
	entries, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	counts := map[string]int{}
	for _, entry := range entries {
		verdict, detail := compare(b, filepath.Join(root, entry.Name()), out)
		counts[verdict]++
		fmt.Printf("%-8s %-44s %s\n", verdict, entry.Name(), detail)
	}
	fmt.Printf("right %d, refused %d, wrong %d, of %d\n", counts["right"], counts["refused"], counts["wrong"], len(entries))
	if counts["wrong"] > 0 {
		return fmt.Errorf("peers: %d models are wrong", counts["wrong"])
	}
	return nil
}

// compare reads one model and compares its logits.
func compare(b compute.Backend, dir, out string) (verdict, detail string) {
	m, err := checkpoints.Import(dir, checkpoints.ImportOptions{})
	if err != nil {
		return "refused", strings.TrimPrefix(err.Error(), "checkpoints: "+dir)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	var expected struct {
		Shape  []int     `json:"shape"` // of images
		Images []float32 `json:"images"`
		Logits []float32 `json:"logits"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &expected)
	}
	if err != nil {
		return "wrong", err.Error()
	}
	logits, err := m.Logits(b, tensors.FromFlatDataAndDimensions(expected.Images, expected.Shape...))
	if err != nil {
		return "wrong", err.Error()
	}
	difference, scale := checkpoints.Difference(logits, expected.Logits)
	verdict, detail = "right", fmt.Sprintf("%.1e", difference/scale)
	if !(difference <= tolerance*scale) {
		return "wrong", detail
	}
	if out != "" {
		store := model.NewStore()
		if err := m.Load(store.Scope("/vit")); err != nil {
			return "wrong", err.Error()
		}
		_, err := checkpoints.Export(filepath.Join(out, filepath.Base(dir)), b, store.Scope("/vit"), m.Config,
			checkpoints.ExportOptions{Format: m.Format})
		if err != nil {
			detail += "; not exported: " + err.Error()
		}
	}
	return verdict, detail
}
