// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/janpfeifer/must"
	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/wepe-go/wepe/analysis"
	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
	"github.com/wepe-go/wepe/cmd/wepe/internal/dataset"
	detection "github.com/wepe-go/wepe/detect"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/printable"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/study"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

// entry is a name with its line.
type entry struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"` // in a recipe
	About string `json:"about"`

	group string // of settings, the heading above them
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
	{"analyses", "analyses (wepe analyze --analyses)", listAnalyses},
	{"settings", "settings of a recipe and of its encoding (--set)", listSettings},
	{"studies", "comparisons by name (wepe compare --study)", listStudies},
}

func list() *cobra.Command {
	group := cli.Group("list", "List recipes, positions, models, data, analyses, settings or studies")
	for _, l := range lists {
		var asJSON bool
		var recipe string
		c := &cobra.Command{Use: l.name, Short: "List " + l.about, Args: cobra.NoArgs}
		f := cli.FlagsOf(c)
		f.JSON(&asJSON)
		if l.name == "settings" {
			f.StringVar(&recipe, "recipe", "", "list the values of this recipe")
			f.Completion("recipe", slices.Concat(finetune.RecipeNames(), detection.RecipeNames(), []string{fineTuning})...)
		}
		c.RunE = func(c *cobra.Command, _ []string) (err error) {
			entries := l.entries()
			if recipe != "" {
				entries = must.M1(valuesOf(recipe, entries))
			}
			return cli.Answer(c, asJSON, map[string]any{l.name: entries}, func(out cli.Printer) { printEntries(out, entries) })
		}
		group.AddCommand(c)
	}
	return group
}

func printEntries(out cli.Printer, entries []entry) {
	name, value := 0, 0
	for _, e := range entries {
		name, value = max(name, len(e.Name)), max(value, len(e.Value))
	}
	group := ""
	for _, e := range entries {
		if e.group != group {
			group = e.group
			out.Printf("%s:\n", group)
		}
		begin := fmt.Sprintf("%-*s  ", name, e.Name)
		if value > 0 {
			begin += fmt.Sprintf("%-*s  ", value, e.Value)
		}
		lines := []string{e.About}
		if isatty.IsTerminal(os.Stdout.Fd()) { // a pipe has one line of each
			lines = wrapped(e.About, max(30, 120-utf8.RuneCountInString(begin)))
		}
		for _, line := range lines {
			out.Printf("%s%s\n", begin, line)
			begin = strings.Repeat(" ", utf8.RuneCountInString(begin))
		}
	}
}

// wrapped divides a text into lines of at most a width, as the help is.
func wrapped(text string, width int) (lines []string) {
	for word := range strings.FieldsSeq(text) {
		last := len(lines) - 1
		if last >= 0 && utf8.RuneCountInString(lines[last]+word) < width {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

// valuesOf returns the settings that a recipe has, with their values, and says which of them the data decide.
func valuesOf(name string, settings []entry) (all []entry, err error) {
	var r finetune.Recipe
	var others []finetune.Recipe // the same recipe for other data
	var recipe any
	decided := "by the number of images, here of 600; " // photos
	usual, _ := vit.Variant("B/16")
	switch {
	case slices.Contains(detection.RecipeNames(), name):
		var r detection.Recipe
		r, err = detection.RecipeByName(name)
		recipe, _ = r.Resolve() // its classes come from the data
	case name == fineTuning:
		usual.Position = "learned"
		r = finetune.FineTuning(usual, finetune.ManyImages)
		others = []finetune.Recipe{finetune.FineTuning(vit.Config{Width: 1}, 1), finetune.FineTuning(usual, 2000)}
		decided = fmt.Sprintf("by MODEL and the number of images, here of ViT-B/16 and %s; ",
			printable.Thousands(finetune.ManyImages))
	default:
		r, err = finetune.RecipeByName(name)
		if name == finetune.PhotosName {
			others = []finetune.Recipe{finetune.Photos(1), finetune.Photos(2000)}
		}
	}
	if err != nil {
		return nil, cli.Usage(err)
	}
	varies := map[string]bool{}
	for _, other := range others {
		was, _ := setting.Values(r)
		is, _ := setting.Values(other)
		for key := range was {
			varies[key] = varies[key] || was[key] != is[key]
		}
	}
	if recipe == nil {
		if r.Model.Width > 0 {
			r.Model.Position = cmp.Or(r.Model.Position, fromScratch)
		}
		recipe, _ = r.Resolve() // that of a pretrained model has none
	}
	values, err := setting.Values(recipe)
	for _, e := range settings {
		value, ok := values[e.Name]
		if !ok {
			value, ok = values["params."+e.Name]
		}
		if varies[e.Name] {
			e.About = decided + e.About
		}
		if e.Value = value; ok {
			all = append(all, e)
		}
	}
	return all, err
}

func listRecipes() []entry {
	all := []entry{
		{Name: "(none)", About: "without --recipe: depends on --data and MODEL, see wepe train --help"},
		{Name: fineTuning, About: "the default for MODEL: its own size, normalization and position, rate by its width"}}
	return slices.Concat(all, each(finetune.RecipeNames(), listRecipe), each(detection.RecipeNames(),
		func(name string) entry {
			return entry{Name: name, About: "detection, for wepe detect train"}
		}))
}

func listRecipe(name string) entry {
	r, _ := finetune.RecipeByName(name)
	resolved, _ := r.Resolve()
	what, size := "fine-tunes a model", ""
	if c := r.Model; c.Width > 0 {
		what = fmt.Sprintf("from scratch, width %d, depth %d, patch size %d", c.Width, c.Depth, c.PatchSize)
	}
	length := fmt.Sprintf("%d epochs", r.Epochs)
	if name == finetune.PhotosName {
		length = fmt.Sprintf("%d epochs or fewer, by the number of images", r.Epochs)
	}
	if r.Steps > 0 {
		length = fmt.Sprintf("%d steps", r.Steps)
	}
	if s := r.Augment.Size; s[0] > 0 {
		size = fmt.Sprintf(", %d×%d", s[0], s[1])
	}
	return entry{Name: name, About: fmt.Sprintf("%s%s, %s, batch size %d, %s, learning rate %g", what, size, length,
		r.BatchSize, resolved.Optimizer.Name, r.LearningRate)}
}

// each makes an entry of each item.
func each[T any](items []T, of func(T) entry) (all []entry) {
	for _, item := range items {
		all = append(all, of(item))
	}
	return all
}

func listPositions() []entry {
	return append(each(position.All(), func(p position.Spec) entry {
		doc := fmt.Sprintf("%s: %s", p.Kind, p.Doc)
		if p.Source != "" {
			doc += "; " + p.Source
		}
		return entry{Name: p.Name, About: doc}
	}), entry{Name: "A+B", About: "two encodings that act in different parts of the model"})
}

func listModels() []entry {
	return append(each([]string{"N", "M", "Ti", "S", "B", "L", "H"}, func(size string) entry {
		c, _ := vit.Variant(size + "/16")
		return entry{Name: size + "/P", About: fmt.Sprintf("ViT of width %d, depth %d, %d heads, any patch size P", c.Width,
			c.Depth, c.Heads)}
	}), entry{Name: "MODEL", About: "a run; a file or directory of Hugging Face, timm or Google; " +
		"hf://owner/name[@revision]; docs/models.md lists the families"})
}

func listData() []entry {
	return each(dataset.Forms, func(f [2]string) entry { return entry{Name: f[0], About: f[1]} })
}

func listAnalyses() []entry {
	return append(each(analysis.All, func(a analysis.Analysis) entry {
		return entry{Name: a.Name, About: a.Group + ": " + a.Title}
	}), entry{Name: "cost", About: "parameters, FLOPs, speed and memory of encodings, without a model"})
}

func listStudies() []entry {
	return each(study.All, func(n study.Preset) entry { return entry{Name: n.Name, About: n.About} })
}

func listSettings() (all []entry) {
	complete, _ := finetune.Recipe{}.Resolve()
	all = settingsOf(finetune.Recipe{}, complete, "")
	filled, _ := detection.Recipe{}.Resolve() // incomplete
	for _, e := range settingsOf(detection.Recipe{}, filled, ", for wepe detect train") {
		if !slices.ContainsFunc(all, func(other entry) bool { return other.Name == e.Name }) {
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int {
		return cmp.Compare(slices.Index(groups, a.group), slices.Index(groups, b.group))
	})
	return append(all, listHyperparameters()...)
}

// groups are the groups of settings except those of encodings, in order.
var groups = []string{"recipe", "model", "optimizer", "augment", "detector", "scale_jitter"}

// settingsOf describes the settings of a recipe: meaning, type, and the value where no recipe sets one.
func settingsOf(recipe, defaults any, who string) (all []entry) {
	set, _ := setting.Values(recipe)
	filled, _ := setting.Values(defaults)
	names, about := setting.Fields(reflect.TypeOf(recipe))
	for i, name := range names {
		if value := filled[name]; value != set[name] && !strings.Contains(about[i], "default") {
			about[i] += "; default " + value
		}
		group, _, grouped := strings.Cut(name, ".")
		if !grouped {
			group = groups[0]
		}
		all = append(all, entry{Name: name, About: about[i] + who, group: group})
	}
	return all
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
		all = append(all, entry{Name: c.name, About: c.about + "; default " + value, group: "encodings"})
	}
	return all
}

// hyperparameters are the rows that an encoding reads in a model of size Ti/16; an encoding of another module need not
// have rows.
func hyperparameters(p position.Spec) []setting.Row {
	config, _ := vit.Variant("Ti/16")
	config.Position = p.Name
	store, rows := setting.Recorder()
	_ = exceptions.Try(func() { config.Encoder(store.RootScope()) }) // it may not fit this size
	return *rows
}
