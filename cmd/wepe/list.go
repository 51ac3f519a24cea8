// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/spf13/cobra"

	"github.com/wepe-go/wepe/analysis"
	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
	"github.com/wepe-go/wepe/cmd/wepe/internal/dataset"
	detection "github.com/wepe-go/wepe/detect/train"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/study"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

// entry is a name with its line.
type entry struct {
	Name  string `json:"name"`
	About string `json:"about"`
}

// lists are the lists of wepe list.
var lists = []struct {
	name, about string
	entries     func() []entry
}{
	{"recipes", "training runs by name (--recipe)", listRecipes},
	{"positions", "position encodings (--position)", listPositions},
	{"models", "sizes of Vision Transformers", listModels},
	{"data", "forms of --data", listData},
	{"analyses", "analyses (wepe analyze --what)", listAnalyses},
	{"settings", "settings of a recipe and of its encoding (--set)", listSettings},
	{"studies", "comparisons by name (wepe compare --study)", listStudies},
}

func list() *cobra.Command {
	group := cli.Group("list", "List recipes, positions, models, data, analyses, settings or studies")
	for _, l := range lists {
		var asJSON bool
		c := &cobra.Command{Use: l.name, Short: "List " + l.about, Args: cobra.NoArgs}
		cli.Flags{Command: c}.JSON(&asJSON)
		c.RunE = func(c *cobra.Command, _ []string) error {
			entries := l.entries()
			if asJSON {
				return cli.JSON(c.OutOrStdout(), map[string]any{l.name: entries})
			}
			width := 0
			for _, e := range entries {
				width = max(width, len(e.Name))
			}
			out := cli.Output(c)
			for _, e := range entries {
				out.Printf("%-*s  %s\n", width, e.Name, e.About)
			}
			return out.Err()
		}
		group.AddCommand(c)
	}
	return group
}

func listRecipes() (all []entry) {
	all = append(all, entry{"(none)", "without --recipe: depends on --data and MODEL, see wepe train --help"},
		entry{fineTuning, "the default for MODEL: its own size, normalization and position, 10 epochs, rate by its width"})
	for _, name := range finetune.Names() {
		r, err := finetune.Named(name)
		if err != nil {
			panic(err) // an invalid entry of the list
		}
		what := "fine-tunes a model"
		if c := r.Model; c.Width > 0 {
			what = fmt.Sprintf("from scratch, width %d, depth %d, patch size %d", c.Width, c.Depth, c.PatchSize)
		}
		length := fmt.Sprintf("%d epochs", r.Epochs)
		if r.Steps > 0 {
			length = fmt.Sprintf("%d steps", r.Steps)
		}
		size := ""
		if s := r.Augment.Size; s[0] > 0 {
			size = fmt.Sprintf(", %d×%d", s[0], s[1])
		}
		all = append(all, entry{name, fmt.Sprintf("%s%s, %s, batch size %d, %s, learning rate %g", what, size, length,
			r.BatchSize, r.WithDefaults().Optimizer.Kind, r.LearningRate)})
	}
	for _, name := range detection.Names() {
		all = append(all, entry{name, "detection, for wepe detect train"})
	}
	return all
}

func listPositions() (all []entry) {
	for _, p := range position.All() {
		doc := fmt.Sprintf("%s: %s", p.Kind, p.Doc)
		if p.Source != "" {
			doc += "; " + p.Source
		}
		all = append(all, entry{p.Name, doc})
	}
	return append(all, entry{"A+B", "two encodings that act in different parts of the model"})
}

func listModels() (all []entry) {
	for _, size := range []string{"N", "M", "Ti", "S", "B", "L", "H"} {
		c, err := vit.Variant(size + "/16")
		if err != nil {
			panic(err) // an invalid entry of the list
		}
		all = append(all, entry{size + "/P", fmt.Sprintf("ViT of width %d, depth %d, %d heads, any patch size P", c.Width,
			c.Depth, c.Heads)})
	}
	return append(all, entry{"MODEL", "a run; a file or directory of Hugging Face, timm or Google; " +
		"hf://owner/name[@revision]; docs/models.md lists the families"})
}

func listData() (all []entry) {
	for _, f := range dataset.Forms {
		all = append(all, entry{f[0], f[1]})
	}
	return all
}

func listAnalyses() (all []entry) {
	for _, f := range analysis.All {
		all = append(all, entry{f.Name, f.Group + ": " + f.Title})
	}
	return append(all, entry{"cost", "parameters, FLOPs, speed and memory of encodings, without a model"})
}

func listSettings() (all []entry) {
	names, about := setting.Fields(reflect.TypeFor[finetune.Recipe]())
	for i, name := range names {
		all = append(all, entry{name, about[i]})
	}
	names, about = setting.Fields(reflect.TypeFor[detection.Recipe]())
	for i, name := range names {
		if !slices.ContainsFunc(all, func(e entry) bool { return e.Name == name }) {
			all = append(all, entry{name, about[i] + ", for wepe detect train"})
		}
	}
	return append(all, listHyperparameters()...)
}

// listHyperparameters describes the settings of encodings, each with its default values and the encodings with them.
func listHyperparameters() (all []entry) {
	type choice struct{ name, about, value string }
	var choices []choice
	users := map[choice][]string{}
	for _, p := range position.All() {
		read := hyperparameters(p)
		for _, name := range p.Params {
			c := choice{name: name, about: "hyperparameter", value: "of the encoding"}
			if i := slices.IndexFunc(read, func(r setting.Row) bool { return r.Name == name }); i >= 0 {
				c.about, c.value = read[i].Doc+"; "+read[i].Want(), read[i].Default()
			}
			if users[c] == nil {
				choices = append(choices, c)
			}
			users[c] = append(users[c], p.Name)
		}
	}
	slices.SortStableFunc(choices, func(a, b choice) int { return cmp.Compare(a.name, b.name) })
	for _, c := range choices {
		value := fmt.Sprintf("%s (%s)", c.value, strings.Join(users[c], ", "))
		if last := len(all) - 1; last >= 0 && all[last].Name == c.name {
			all[last].About += ", " + value
			continue
		}
		all = append(all, entry{c.name, c.about + "; default " + value})
	}
	return all
}

// hyperparameters are the rows that an encoding reads in a model of size Ti/16; an encoding of another module need not
// have rows.
func hyperparameters(p position.Spec) []setting.Row {
	config, err := vit.Variant("Ti/16")
	if err != nil {
		panic(err) // an invalid entry of the list
	}
	config.Position = p.Name
	store, rows := setting.Recorder()
	_ = exceptions.Try(func() { config.Encoder(store.RootScope()) }) // it may not fit this size
	return *rows
}

func listStudies() (all []entry) {
	for _, n := range study.All {
		all = append(all, entry{n.Name, n.About})
	}
	return all
}
