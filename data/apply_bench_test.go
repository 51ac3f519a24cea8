// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build unix

package data

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/random"
)

// BenchmarkDecode reads the JPEG files of the folder WEPE_JPEGS.
func BenchmarkDecode(b *testing.B) {
	paths, err := filepath.Glob(filepath.Join(os.Getenv("WEPE_JPEGS"), "*.jpg"))
	if err != nil || len(paths) == 0 {
		b.Skip("WEPE_JPEGS names no directory with jpegs")
	}
	train := Augment{CropScale: [2]float64{0.08, 1}}
	shorter := preprocess.Settings{Fit: preprocess.FitShortest, Size: [2]int{256, 256}, Crop: [2]int{224, 224}}
	for name, work := range map[string]func(raw []byte, k int) error{
		"whole": func(raw []byte, _ int) error {
			_, err := decode(raw, maxPixels)
			return err
		},
		"train": func(raw []byte, k int) error {
			cropOf(b, raw, func(height, width int) window {
				return train.window(random.New(streamSample, 5, 0, k), height, width)
			}, 224, 224, preprocess.Bilinear)
			return nil
		},
		"eval": func(raw []byte, _ int) error {
			img, err := decode(raw, maxPixels)
			if err == nil {
				_, err = img.Preprocess(shorter)
			}
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			start := gomlxtest.ProcessorTime(b)
			for k := range b.N {
				raw, err := os.ReadFile(paths[k%len(paths)])
				if err != nil {
					b.Fatal(err)
				}
				if err := work(raw, k); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(gomlxtest.ProcessorTime(b)-start)/float64(b.N), "cpu-ns/op")
		})
	}
}
