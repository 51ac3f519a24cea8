// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"math"
	"path/filepath"
	"slices"

	"github.com/pkg/errors"
)

// foreignPreprocessor is what Hugging Face writes beside the weights about the pixels they were trained on.
const foreignPreprocessor = "preprocessor_config.json"

// sum returns the SHA-256 of the weights: of their file, or of all shards one after the other, by name.
func (f *foreign) sum() (string, error) {
	hash := sha256.New()
	for _, file := range f.files {
		if _, err := io.Copy(hash, io.NewSectionReader(file, 0, math.MaxInt64)); err != nil {
			return "", errors.Wrapf(err, "checkpoints: reading %s", file.Name())
		}
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// normalisation returns the mean and standard deviation of the pixels, 0…1, that the model was trained with, one
// number per channel; nil where no file says them. Google's models take (pixel/255 - ½)/½
// (google-research/vision_transformer, issue 210); a file that Export made in its format has others beside it.
func (f *foreign) normalisation(found inferred) (mean, std []float64, err error) {
	channels := found.config.Channels
	switch {
	case found.format == FormatJAX && found.foreign.fields == nil:
		half := slices.Repeat([]float64{0.5}, channels)
		return half, half, nil
	case found.format == FormatTimm:
		trained, err := found.foreign.object("pretrained_cfg")
		if err != nil {
			return nil, nil, err
		}
		return trained.meanAndStd("mean", "std", channels)
	}
	preprocessor, err := readModelConfig(filepath.Join(filepath.Dir(f.config), foreignPreprocessor))
	if err != nil {
		return nil, nil, err
	}
	if string(preprocessor.fields["do_normalize"]) == "false" {
		return make([]float64, channels), slices.Repeat([]float64{1}, channels), nil
	}
	return preprocessor.meanAndStd("image_mean", "image_std", channels)
}

// meanAndStd returns two fields of one number per channel, nil if neither is there.
func (c modelConfig) meanAndStd(meanKey, stdKey string, channels int) (mean, std []float64, err error) {
	if !c.has(meanKey) && !c.has(stdKey) {
		return nil, nil, nil
	}
	if mean, err = c.numbers(meanKey, channels, -100, 100); err != nil {
		return nil, nil, err
	}
	std, err = c.numbers(stdKey, channels, 1e-6, 100)
	return mean, std, err
}

// numbers returns a field of n numbers from lo to hi.
func (c modelConfig) numbers(key string, n int, lo, hi float64) ([]float64, error) {
	var values []float64
	err := json.Unmarshal(c.fields[key], &values)
	ok := err == nil && len(values) == n
	for _, v := range values {
		ok = ok && v >= lo && v <= hi
	}
	if !ok {
		return nil, c.refuse(key, "%s, want %d numbers from %g to %g", short(c.fields[key]), n, lo, hi)
	}
	return values, nil
}
