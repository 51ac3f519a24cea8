// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/wepe-go/wepe/finetune"
)

// Variant is one line of a comparison: a position encoding, and what the recipe changes for it.
type Variant struct {
	Position string
	Label    string // in rows, tables and names of directories
	Settings string // for finetune.Recipe.Set
}

// Each returns a variant with default settings for each encoding.
func Each(positions ...string) []Variant {
	variants := make([]Variant, len(positions))
	for i, p := range positions {
		variants[i] = Variant{Position: p, Label: p}
	}
	return variants
}

// Unit is one training of a study.
type Unit struct {
	Task Task
	Variant
	Setting  string // of the sweep, for finetune.Recipe.Set
	Size     [2]int // pixels of the images that the model sees, height and width; zero for the recipe's
	Aspect   string // for images of other aspect ratios; "" for the recipe's
	Fraction float64
	Seed     int
	Search   bool // trained to choose a setting; else its result counts

	Recipe finetune.Recipe // what all of the above come to
	Dir    string          // of its own
	ID     string          // stands for it on every machine; Dir where there is no record

	Shard  int  // whose it is
	Waits  int  // trainings that are not done and choose its setting
	Failed bool // every setting that it could have diverged
}

// part names the images that a unit is trained on.
func (u Unit) part() string { return ofPair(u, u.Task.Parts) }

// ofPair is the first of a pair for a unit that chooses a setting, the second for one that counts.
func ofPair[T any](u Unit, pair [2]T) T {
	if u.Search {
		return pair[0]
	}
	return pair[1]
}

// String is the unit's title in every line about it.
func (u Unit) String() string {
	title := fmt.Sprintf("%s seed %d", u.named(" %s", " on %g"), u.Seed)
	if u.Task.Name != "" {
		title = fmt.Sprintf("%s %s on %s", u.Task.Name, title, u.part())
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

// resolve fills in what follows from the rest: recipe, ID and directory.
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
		u.Recipe.Name += " " + sizeName(u.Size) // sizes are different trainings
	}
	if u.Aspect != "" {
		u.Recipe.Aspect = u.Aspect
		u.Recipe.Name += " " + u.Aspect
	}
	name := fmt.Sprintf("%s-seed%d", u.fileName(), u.Seed)
	if !u.Task.recorded() {
		u.Dir = filepath.Join(s.Dir, u.Task.Name, name)
		u.ID = u.Dir
		return nil
	}
	part := u.Fraction
	if part == 1 {
		part = 0 // a record of before knew no fractions
	}
	identity, err := json.Marshal(struct {
		Task     string
		Final    bool
		Seed     int
		Recipe   finetune.Recipe
		Fraction float64 `json:",omitempty"`
	}{u.Task.Name, !u.Search, u.Seed, u.Recipe, part})
	if err != nil {
		return err
	}
	sum := sha256.Sum256(identity)
	u.ID = hex.EncodeToString(sum[:6])
	u.Dir = filepath.Join(s.Dir, u.Task.Name, name+"-"+u.part()+"-"+u.ID)
	return nil
}

// Units lists the trainings of a study, given what is done: those that choose settings, then those that count. Their
// order, and so whose they are, depends on the study alone, not on what images a machine has.
//
// Trainings come task by task, so that images that were read serve several; of a task the seeds come first, then what
// the variants share: an early look compares like with like.
func (s *Study) Units(done results) (units []Unit, err error) {
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
				u.Search, u.Setting, u.Shard = true, setting, len(units)%s.Shard.of()
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
		u.Waits, u.Failed, u.Shard = waits, best == nil && waits == 0, i%s.Shard.of()
		if best != nil {
			u.Setting = *best
		}
		if err := s.resolve(&u); err != nil {
			return nil, err
		}
		if best == nil {
			u.ID = "" // no training yet
		}
		units = append(units, u)
	}
	return units, nil
}

// combinations lists the trainings that count, without what resolve fills in.
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
func (s *Study) seeds() []int {
	seeds := make([]int, s.Seeds)
	for i := range seeds {
		seeds[i] = s.FirstSeed + i
	}
	return seeds
}

// choose picks the setting with the best mean accuracy on validation images over all seeds, the first of equals.
// Nothing of the test images enters. It is nil while trainings are missing, and if every setting has a training that
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
		mean, failed := 0.0, false
		for _, u.Seed = range s.seeds() {
			u.Setting = settings[i]
			if err := s.resolve(&u); err != nil {
				return nil, 0, err
			}
			row, ok := done[u.ID]
			if !ok {
				missing++
			}
			failed = failed || row.Failed != ""
			mean += float64(row.Validation.Top1) / float64(s.Seeds)
		}
		if !failed && mean > accuracy {
			best, accuracy = &settings[i], mean
		}
	}
	if missing > 0 {
		return nil, missing, nil
	}
	return best, 0, nil
}
