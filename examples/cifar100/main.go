// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command cifar100 compares position encodings: it trains the same small Vision Transformer once for each, on generated
// shapes that need no download, or with -data on CIFAR-100, and prints one table. It uses the public API only; wepe
// compare (cmd/wepe) does the same with more options.
//
//	go run ./examples/cifar100                                   where is the shape? six encodings
//	go run ./examples/cifar100 -data DIR -seeds 3                CIFAR-100's binary version in DIR
//
// The same command resumes an interrupted one.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"

	"github.com/wepe-go/wepe/backend"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/study"
)

var (
	dir       = flag.String("data", "", "directory or archive of CIFAR-100's binary version; default generated shapes")
	positions = flag.String("positions", "none,learned,rope-mixed-qkv,wepe,wepe-sphere,wepe-v", "encodings, by commas")
	seeds     = flag.Int("seeds", 1, "training runs of each encoding, paired by seed; 3 or more for a result")
	out       = flag.String("out", "", "directory of the training runs; default runs/<recipe>")
)

func main() {
	backend.Tune()
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatalf("argument %q: want flags only", flag.Arg(0))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	// 1. The backend: XLA if its plugin is installed, otherwise pure Go. Open prints the choice.
	b, err := backend.Open()
	if err != nil {
		return err
	}
	defer b.Finalize()

	// 2. The data. A patch of a generated image alone does not determine the class, which quarter the shape is in: only a
	// model with the positions of its patches is better than chance, 25 %.
	name := "shapes"
	train, test, err := data.Shapes("where", 3000, 1000, 32, 0)
	if *dir != "" {
		name = "cifar100-small"
		train, test, err = data.CIFAR100(*dir)
	}
	if err != nil {
		return err
	}
	fmt.Printf("data: %d training and %d test images of %s, %d classes\n", train.Len(), test.Len(), train.Name,
		len(train.Classes))

	// 3. The recipe: model, optimizer, augmentation and schedule in one literal. Set changes settings by name.
	recipe, err := finetune.RecipeByName(name)
	if err != nil {
		return err
	}

	// 4. The encodings to compare.
	if *out == "" {
		*out = "runs/" + name
	}
	s := study.Study{
		Dir: *out, Variants: study.Variants(strings.Split(*positions, ",")...), Seeds: *seeds, Backend: b,
		Tasks:    []study.Task{{Recipe: recipe, Images: study.Sets(train, test)}},
		Progress: progress,
	}
	if err := s.Validate(); err != nil {
		return err
	}

	// 5. Training. Finished training runs are skipped; an interrupted one resumes with the same bits.
	if err := s.Run(ctx); err != nil {
		return err
	}

	// 6. The table: each encoding minus the learned one, paired by seed, and curves and pages on disk.
	table, err := s.Table()
	if err != nil {
		return err
	}
	chance := 100 / float64(len(train.Classes))
	fmt.Printf("\n%s, recipe %s, chance is %.1f %%\n\n%s\n", train.Name, name, chance, table.Text())
	curves, err := s.Curves()
	fmt.Printf("curves: %s\nreport: %s/*/%s\n", strings.Join(curves, ", "), *out, finetune.PageFile)
	return err
}

// progress prints a line for each evaluation.
func progress(title string) func(engine.Progress) {
	return func(p engine.Progress) {
		if p.Eval != nil {
			fmt.Fprintf(os.Stderr, "%s  %s\n", title, p)
		}
	}
}
