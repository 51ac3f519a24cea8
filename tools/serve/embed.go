// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"golang.org/x/sync/errgroup"
)

// embed measures servers of OpenAI's embeddings with the images of a folder, in interleaved rounds, and how much their
// vectors differ from those of the first server.
func embed(args []string) error {
	flags := flag.NewFlagSet("embed", flag.ExitOnError)
	targets := flags.String("targets", "wepe serve=http://127.0.0.1:8080/v1", "NAME=URL, separated by semicolons")
	images := flags.Int("images", 1000, "images of a round")
	batch := flags.Int("batch", 8, "images of a request")
	clients := flags.Int("clients", 4, "requests at once")
	rounds := flags.Int("rounds", 3, "rounds of each target")
	model := flags.String("model", "", "model of the requests")
	_ = flags.Parse(args) // exits
	if flags.NArg() != 1 {
		return errors.New("embed takes one folder")
	}
	var inputs []string
	err := filepath.WalkDir(flags.Arg(0), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || len(inputs) == *images {
			return err
		}
		raw, err := os.ReadFile(path)
		inputs = append(inputs, "data:image/jpeg;base64,"+base64.StdEncoding.EncodeToString(raw))
		return err
	})
	if err != nil || len(inputs) == 0 {
		return errors.Join(err, errors.New("no images"))
	}
	for whole := len(inputs); len(inputs) < *images; {
		inputs = append(inputs, inputs[len(inputs)-whole])
	}
	names := strings.Split(*targets, ";")
	speeds, vectors := make([][]float64, len(names)), make([][][]float64, len(names))
	for range *rounds {
		for i, target := range names {
			_, url, _ := strings.Cut(target, "=")
			begin := time.Now()
			if vectors[i], err = embedded(url, *model, inputs, *batch, *clients); err != nil {
				return fmt.Errorf("%s: %w", target, err)
			}
			speeds[i] = append(speeds[i], float64(len(inputs))/time.Since(begin).Seconds())
		}
	}
	for i, target := range names {
		name, _, _ := strings.Cut(target, "=")
		most := 0.0
		for k, v := range vectors[i] {
			for j, x := range v {
				most = max(most, math.Abs(x-vectors[0][k][j]))
			}
		}
		fmt.Printf("%s: images/s %.1f, median %.1f; %d features differ by at most %.2g from the first target's\n", name,
			speeds[i], median(speeds[i]), len(vectors[i][0]), most)
	}
	return nil
}

// embedded returns the vectors of images.
func embedded(url, model string, inputs []string, batch, clients int) ([][]float64, error) {
	client := openai.NewClient(option.WithBaseURL(url), option.WithAPIKey("unused"))
	out := make([][]float64, len(inputs))
	var all errgroup.Group
	all.SetLimit(clients)
	for from := 0; from < len(inputs); from += batch {
		part := inputs[from:min(from+batch, len(inputs))]
		all.Go(func() error {
			answer, err := client.Embeddings.New(context.Background(), openai.EmbeddingNewParams{Model: model,
				Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: part}})
			if err != nil {
				return err
			}
			if len(answer.Data) != len(part) {
				return fmt.Errorf("%d vectors of %d images", len(answer.Data), len(part))
			}
			for _, e := range answer.Data {
				out[from+int(e.Index)] = e.Embedding
			}
			return nil
		})
	}
	return out, all.Wait()
}
