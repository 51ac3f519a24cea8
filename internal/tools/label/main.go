// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command label names what is in a picture and says what that took: the latency from file to label of a process that
// has just begun and of one that is warm, its memory, and how small a program is that does it and nothing else. No C is
// needed:
//
//	CGO_ENABLED=0 go build -ldflags='-s -w' ./internal/tools/label
//	./label -variant Ti/16 -write DIR       a model of drawn weights, in Hugging Face's files
//	./label -model DIR PICTURE
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/gomlx/compute"
	_ "github.com/gomlx/compute/gobackend" // registers "go"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/vit"
)

func main() {
	began := time.Now()
	files := flag.String("model", "", "files of a model")
	write := flag.String("write", "", "write a model there")
	variant := flag.String("variant", "Ti/16", "its size")
	repeat := flag.Int("n", 9, "times that the picture is named again")
	flag.Parse()
	backend, err := compute.NewWithConfig("go:ops_sequential")
	switch {
	case err != nil:
	case *write != "":
		err = draw(backend, *variant, *write)
	case flag.NArg() != 1:
		err = errors.New("want -model DIR and a picture")
	default:
		err = label(backend, *files, flag.Arg(0), *repeat, began)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "label:", err)
		os.Exit(1)
	}
}

// label prints the class of a picture, and what it took.
func label(backend compute.Backend, files, picture string, repeat int, began time.Time) error {
	m, err := finetune.OpenAny(backend, files)
	if err != nil {
		return err
	}
	opened, rest := time.Since(began), memory("VmRSS:")
	classes, err := m.Predict(picture, 1)
	if err != nil {
		return err
	}
	fmt.Printf("%s %.3f\ncold: model %v, label %v after the start\n", classes[0].Name, classes[0].Probability, opened,
		time.Since(began))
	var warm []time.Duration
	for range repeat {
		start := time.Now()
		if _, err := m.Predict(picture, 1); err != nil {
			return err
		}
		warm = append(warm, time.Since(start))
	}
	slices.Sort(warm)
	fmt.Printf("warm: %v, median of %d\nmemory: %s with the model, at most %s\n", warm[repeat/2], repeat, rest,
		memory("VmHWM:"))
	return nil
}

// memory is a line of what Linux says of this process.
func memory(name string) string {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "?"
	}
	for line := range bytes.Lines(status) {
		if value, found := bytes.CutPrefix(line, []byte(name)); found {
			return string(bytes.TrimSpace(value))
		}
	}
	return "?"
}

// draw writes a model that has learned nothing.
func draw(backend compute.Backend, variant, dir string) error {
	c, err := vit.Variant(variant)
	if err != nil {
		return err
	}
	c.Position = "learned"
	store := model.NewStore()
	program, err := model.NewExec(backend, store, func(s *model.Scope, images *Node) *Node {
		return c.Logits(s.In("vit"), images)
	})
	if err != nil {
		return err
	}
	defer program.Finalize()
	if _, err := program.Call(checkpoints.Noise(c, 1, 0)); err != nil {
		return err
	}
	_, err = checkpoints.Export(dir, backend, store.Scope("/vit"), c, checkpoints.ExportOptions{Format: "hf", Batch: 1})
	return err
}
