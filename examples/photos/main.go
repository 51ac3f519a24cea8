// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command photos labels all photographs below a directory with a pretrained model and prints a JSON object for each:
//
//	go run ./examples/photos MODEL DIR
//
// MODEL is a run directory, a Hugging Face, timm or Google model, or hf://owner/name.
package main

import (
	"encoding/json"
	"errors"
	"log"
	"os"
	"path/filepath"
	"slices"

	"github.com/wepe-go/wepe/backend"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
)

func main() {
	backend.Tune()
	if len(os.Args) != 3 {
		log.Fatal("usage: photos MODEL DIR")
	} else if err := label(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func label(path, dir string) error {
	b, err := backend.Open() // XLA if it is installed, else pure Go
	if err != nil {
		return err
	}
	model, err := finetune.Open(b, path)
	if err != nil {
		return err
	}
	images, err := data.ImageFiles(dir) // below DIR, in all formats that can be read
	if err != nil {
		return err
	}
	var files []string
	for i := range images.Len() {
		files = append(files, filepath.Join(dir, filepath.FromSlash(images.Where(i))))
	}
	out, failed := json.NewEncoder(os.Stdout), error(nil)
	for batch := range slices.Chunk(files, 256) {
		labels, err := model.Predict(batch, 3)
		unread := new(finetune.ReadErrors)
		if err != nil && !errors.As(err, unread) {
			return err
		}
		for i, file := range batch {
			if labels[i] == nil { // a damaged image; err names it
				continue
			}
			if err := out.Encode(finetune.Prediction{Name: file, Labels: labels[i]}); err != nil {
				return err
			}
		}
		failed = errors.Join(failed, err)
	}
	return failed
}
