// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/janpfeifer/must"
	"github.com/spf13/cobra"

	"github.com/wepe-go/wepe/analysis/features"
	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/numeric"
	"github.com/wepe-go/wepe/serve"
)

// serving are the flags of wepe serve.
type serving struct {
	opening
	serve.Options
	addr, features, tokenFile string
}

func serveModel() *cobra.Command {
	var s serving
	c := &cobra.Command{Use: "serve MODEL", Args: cobra.ExactArgs(1),
		Short: "Answer HTTP requests with labels, probabilities and features of images",
		Example: `  wepe serve runs/finetune-pets
  curl --data-binary @cat.jpg 'http://127.0.0.1:8080/v1/predict?top=3'`}
	c.Long = c.Short + fmt.Sprintf(`.

/ is a page for dropped images, /openapi.json describes all routes. After the first SIGINT or SIGTERM the server
completes the requests in flight and exits. The token is the first line of --token-file or the variable WEPE_TOKEN:
processes see each other's arguments.

Memory of all requests, printed at startup; the heap grows by up to twice as much:

  bodies            8 x --max-bytes
  decoders          %d bytes x cores/2 x (--max-pixels + 2^20), for at least 2 cores
  decoded images    3 bytes x --max-images x pixels of the model's input (15 bytes for models with unrounded pixels)`,
		data.DecodeBytes)
	f := cli.FlagsOf(c)
	f.StringVar(&s.addr, "addr", "127.0.0.1:8080", "address; other machines reach it only with a token")
	f.StringVar(&s.tokenFile, "token-file", "", "`file` of the token, which clients send as Authorization: Bearer TOKEN; "+
		"default $WEPE_TOKEN")
	f.StringVar(&s.features, "features", "",
		"`directory` written by wepe features: responses include the nearest training images")
	f.Int(&s.Batch, "batch", 8, 1, 1024, "largest number of images computed together")
	f.DurationVar(&s.BatchTimeout, "batch-timeout", 50*time.Millisecond, "longest wait for images that are being decoded")
	s.flags(f)
	f.Section("Limits")
	f.Int64Var(&s.Bytes, "max-bytes", 20<<20, "largest body of a request, in bytes")
	f.Int64Var(&s.Pixels, "max-pixels", 25_000_000, fmt.Sprintf("largest number of pixels of an image, at most %d",
		data.MaxPixels))
	f.Int(&s.Parts, "max-parts", 32, 1, math.MaxInt, "largest number of images of a request, at most half of --max-images")
	f.Int(&s.Images, "max-images", 256, 1, math.MaxInt, "largest number of images in flight, of all requests")
	f.Int(&s.Connections, "max-connections", 4096, 1, math.MaxInt, "largest number of connections")
	f.DurationVar(&s.Timeout, "timeout", 20*time.Second, "time to receive a request, and again to answer it")
	c.RunE = func(c *cobra.Command, args []string) error {
		s.Log = cli.Logger()
		must.M(cli.Usage(s.readToken()))
		must.M(cli.Usage(s.exposed()))
		if min(s.Bytes, s.Pixels, int64(s.BatchTimeout), int64(s.Timeout)) < 1 { // Options would take its defaults
			return cli.Usagef("--max-bytes, --max-pixels, --batch-timeout and --timeout: want more than 0")
		}
		must.M(cli.Usage(s.Validate()))
		m, done := s.open(c, args[0])
		defer done()
		return s.run(c, m)
	}
	return c
}

// readToken reads the token; as a flag's default it would be printed by --help.
func (s *serving) readToken() error {
	if s.Token = strings.TrimSpace(os.Getenv("WEPE_TOKEN")); s.tokenFile == "" {
		return nil
	}
	raw, err := os.ReadFile(s.tokenFile)
	if err != nil {
		return fmt.Errorf("--token-file: %w", err)
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	if s.Token = strings.TrimSpace(line); s.Token == "" {
		return fmt.Errorf("--token-file %s: its first line is empty", s.tokenFile)
	}
	return nil
}

// exposed refuses an address that other machines can reach if there is no token.
func (s *serving) exposed() error {
	host, _, err := net.SplitHostPort(s.addr)
	if err != nil {
		return fmt.Errorf("--addr %s: %w: want HOST:PORT, as 127.0.0.1:8080", s.addr, err)
	}
	if ip := net.ParseIP(host); s.Token != "" || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("--addr %s is reachable from other machines: set WEPE_TOKEN or --token-file, or use --addr "+
		"127.0.0.1:8080", s.addr)
}

// run serves until a signal.
func (s *serving) run(c *cobra.Command, m *finetune.Model) error {
	if s.features != "" {
		s.Neighbours = must.M1(neighbours(s.features, m))
	}
	input := must.M1(m.PreprocessImage(&data.Image{Height: 1, Width: 1, Pixels: make([]uint8, 3)}))
	ctx := cli.Interruptible(c)
	listener, err := net.Listen("tcp", s.addr)
	if err != nil {
		return fmt.Errorf("--addr: %w", err)
	}
	defer listener.Close()
	begin := time.Now()
	handler := must.M1(serve.Handler(ctx, m, s.Options))
	bound := s.Memory(input.Height*input.Width, input.Float != nil)
	cli.Field("memory", "requests use at most %d MiB at once, the heap twice as much", bound>>20)
	collectRarely(2 * bound)
	cli.Field("serving", "http://%s (compiling)", listener.Addr())
	go func() {
		select {
		case <-handler.Ready():
			cli.Field("ready", "after %.1f s", time.Since(begin).Seconds())
		case <-ctx.Done():
		}
	}()
	return handler.Serve(listener)
}

// collectRarely lets the heap grow by 128 MiB between collections, and at most by bytes, where GOGC and GOMEMLIMIT do
// not say it. The garbage of a decoded image is megabytes, the live heap is small: by default it would be collected
// several times a second.
func collectRarely(bytes int64) {
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(now.Sys) + bytes)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(100 + int(100*(128<<20)/(now.HeapAlloc+1<<20)))
	}
}

// neighbours returns the most similar training images by the cosine of features of the same weights.
func neighbours(dir string, m *finetune.Model) (func(class, mean []float32, k int) []serve.Neighbour, error) {
	table, model := must.M1(features.Read(dir)), must.M1(m.Fingerprint())
	if table.Model != model {
		return nil, fmt.Errorf("--features %s: the features are of other weights or another preprocessing than MODEL's: "+
			"write them with wepe features MODEL", dir)
	}
	var train []features.Image
	var points []float32
	for i, image := range table.Images {
		if image.Part == "" || image.Part == "train" {
			train, points = append(train, image), append(points, table.Vector(i)...)
		}
	}
	if len(train) == 0 {
		return nil, fmt.Errorf("--features %s: no image is for training", dir)
	}
	nearest := numeric.Among(points, table.Width)
	return func(class, mean []float32, k int) (near []serve.Neighbour) {
		query := map[string][]float32{"class": class, "mean": mean,
			"class+mean": slices.Concat(class, mean)}[table.Of]
		for _, n := range nearest(query, k)[0] {
			image := train[n.Index]
			near = append(near, serve.Neighbour{Name: image.File, Label: image.Class, Similarity: float64(n.Cosine)})
		}
		return near
	}, nil
}
