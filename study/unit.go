// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/gomlx/gomlx/support/xslices"

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/setting"
)

// Variant is one line of a comparison: a position encoding, with changes of the recipe.
type Variant struct {
	Position string
	Label    string // in rows, tables and names of directories
	Settings string // for finetune.Recipe.Set
}

// Variants returns a variant with default settings for each encoding.
func Variants(positions ...string) []Variant {
	return xslices.Map(positions, func(p string) Variant { return Variant{Position: p, Label: p} })
}

// Unit is one training run of a study.
type Unit struct {
	Task Task
	Variant
	Setting  string // of the sweep, for finetune.Recipe.Set
	Size     [2]int // height and width of the model's images in pixels; zero for the recipe's
	Aspect   string // for images with other aspect ratios; "" for the recipe's
	Fraction float64
	Seed     int
	Search   bool // trained to choose a setting, not as a result

	Recipe finetune.Recipe // with all of the above
	Dir    string          // its directory

	part   string // names the images of its training, one of Study.Parts
	id     string // the same on every machine; Dir in a study without a record
	shard  int    // the index of its shard
	waits  int    // number of unfinished training runs that choose its setting
	failed bool   // every setting to choose from diverged
}

// ofPair returns the first of a pair for a unit that chooses a setting, the second for a final one.
func ofPair[T any](u Unit, pair [2]T) T {
	if u.Search {
		return pair[0]
	}
	return pair[1]
}

// String is the unit's title in messages.
func (u Unit) String() string {
	title := fmt.Sprintf("%s seed %d", u.named(" %s", " on %g"), u.Seed)
	if u.Task.Name != "" {
		title = u.Task.Name + " " + title
	}
	if u.part != "" {
		title += " on " + u.part
	}
	return strings.TrimSpace(title + " " + u.Setting)
}

// named is the label with size, aspect and fraction.
func (u Unit) named(size, fraction string) string {
	name := u.Label
	if u.Size != [2]int{} {
		name += fmt.Sprintf(size, sizeName(u.Size))
	}
	if u.Aspect != "" {
		name += fmt.Sprintf(size, u.Aspect)
	}
	if u.Fraction < 1 {
		name += fmt.Sprintf(fraction, u.Fraction)
	}
	return name
}

// fileName is named for the names of files.
func (u Unit) fileName() string {
	return strings.Join(strings.FieldsFunc(u.named("-%s", "-fraction%g"), func(c rune) bool {
		return strings.ContainsRune(" ,=", c)
	}), "-")
}

func sizeName(size [2]int) string { return fmt.Sprintf("%dx%d", size[0], size[1]) }

// resolve sets the dependent fields: recipe, ID and directory.
func (s *Study) resolve(u *Unit) (err error) {
	if u.Recipe, err = u.Task.Recipe.Set(u.Settings); err == nil {
		u.Recipe, err = u.Recipe.Set(u.Setting)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", u.Label, err)
	}
	u.Recipe.Model.Position = u.Position
	if u.Size != [2]int{} {
		u.Recipe.Augment.Size = u.Size
		u.Recipe.Name += " " + sizeName(u.Size) // sizes are separate training runs
	}
	if u.Aspect != "" {
		u.Recipe.Aspect = u.Aspect
		u.Recipe.Name += " " + u.Aspect
	}
	name := fmt.Sprintf("%s-seed%d", u.fileName(), u.Seed)
	u.part = ofPair(*u, s.Parts)
	if !s.recorded() {
		u.Dir = filepath.Join(s.Dir, u.Task.Name, name)
		u.id = u.Dir
		return nil
	}
	fraction := u.Fraction
	if fraction == 1 {
		fraction = 0 // older records have no fractions
	}
	recipe, err := json.Marshal(u.Recipe)
	if err != nil {
		return err
	}
	identity, err := json.Marshal(struct { // as in earlier versions, whose studies continue
		Task     string
		Final    bool
		Seed     int
		Recipe   json.RawMessage
		Fraction float64 `json:",omitempty"`
	}{u.Task.Name, !u.Search, u.Seed, setting.Former(recipe), fraction})
	if err != nil {
		return err
	}
	sum := sha256.Sum256(identity)
	u.id = hex.EncodeToString(sum[:6])
	u.Dir = filepath.Join(s.Dir, u.Task.Name, name+"-"+u.part+"-"+u.id)
	return nil
}

// units lists the training runs of a study, given the finished ones: those that choose settings, then the final ones.
// Their order, and so their shards, depend only on the study, not on the images of a machine.
//
// Training runs are sorted by task, within a task by seed, then by what the variants share, so that partial results
// compare like with like.
func (s *Study) units(done results) (units []Unit, err error) {
	for _, u := range s.combinations() {
		settings, err := s.settingsFor(u.Position)
		if err != nil {
			return nil, err
		}
		if len(settings) == 1 || u.Seed != s.FirstSeed {
			continue
		}
		for _, setting := range settings {
			for _, u.Seed = range s.seeds() {
				u.Search, u.Setting, u.shard = true, setting, len(units)%s.Shard.of()
				if err := s.resolve(&u); err != nil {
					return nil, err
				}
				units = append(units, u)
			}
		}
	}
	for i, u := range s.combinations() {
		best, waits, err := s.choose(done, u)
		if err != nil {
			return nil, err
		}
		u.waits, u.failed, u.shard = waits, best == nil && waits == 0, i%s.Shard.of()
		if best != nil {
			u.Setting = *best
		}
		if err := s.resolve(&u); err != nil {
			return nil, err
		}
		if best == nil {
			u.id = "" // no training yet
		}
		units = append(units, u)
	}
	return units, nil
}

// combinations lists the final training runs, before resolve.
func (s *Study) combinations() (units []Unit) {
	sizes, aspects, fractions := s.Sizes, s.Aspects, s.Fractions
	if len(sizes) == 0 {
		sizes = make([][2]int, 1)
	}
	if len(aspects) == 0 {
		aspects = []string{""}
	}
	if len(fractions) == 0 {
		fractions = []float64{1}
	}
	for _, task := range s.Tasks {
		for _, seed := range s.seeds() {
			for _, fraction := range fractions {
				for _, size := range sizes {
					for _, aspect := range aspects {
						for _, variant := range s.Variants {
							units = append(units, Unit{Task: task, Variant: variant, Size: size, Aspect: aspect, Fraction: fraction,
								Seed: seed})
						}
					}
				}
			}
		}
	}
	return units
}

// seeds are the seeds of every variant.
func (s *Study) seeds() []int { return xslices.Iota(s.FirstSeed, s.Seeds) }

// choose picks the setting with the best mean accuracy on validation images over all seeds, the first of equals. It
// does not use the test images. It is nil if training runs are missing, or if every setting has a training run that
// diverged.
func (s *Study) choose(done results, u Unit) (best *string, missing int, err error) {
	settings, err := s.settingsFor(u.Position)
	if err != nil {
		return nil, 0, err
	}
	if len(settings) == 1 {
		return &settings[0], 0, nil
	}
	accuracy := -1.0
	u.Search = true
	for i := range settings {
		sum, failed := 0.0, false // over the same number of seeds
		for _, u.Seed = range s.seeds() {
			u.Setting = settings[i]
			if err := s.resolve(&u); err != nil {
				return nil, 0, err
			}
			row, ok := done[u.id]
			if !ok {
				missing++
			}
			failed = failed || row.Failed != ""
			sum += float64(row.Validation.Top1)
		}
		if !failed && sum > accuracy {
			best, accuracy = &settings[i], sum
		}
	}
	if missing > 0 {
		return nil, missing, nil
	}
	return best, 0, nil
}
