// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/report"
)

// unit is one training: of a task, a position encoding, a setting of the sweep and a seed.
type unit struct {
	task     task
	position string
	setting  string // for Recipe.Set; empty without a sweep
	seed     int
	final    bool // trained on train800val200 and tested; else trained on train800 and measured on val200
	recipe   finetune.Recipe
	id       string // stands for all of the above, on every machine; empty while the setting is to be chosen
	shard    int    // whose it is
}

// part is the list that a unit is trained on.
func (u unit) part() string {
	if u.final {
		return train1000
	}
	return train800
}

// images names the pictures that a unit is trained on, at their size.
func (u unit) images() string { return fmt.Sprint(u.task.name, u.part(), u.recipe.Augment.Size) }

// String is the unit's title in every line about it.
func (u unit) String() string {
	title := fmt.Sprintf("%s %s seed %d on %s", u.task.name, u.position, u.seed, u.part())
	if u.setting != "" {
		title += " " + u.setting
	}
	return title
}

// dir is where the training of a unit lives, below the study's directory.
func (u unit) dir(study string) string {
	return filepath.Join(study, u.task.name, fmt.Sprintf("%s-seed%d-%s-%s", u.position, u.seed, u.part(), u.id))
}

// unit resolves the recipe of a training and names it.
func (o options) unit(t task, position, setting string, seed int, final bool) (u unit, err error) {
	u = unit{task: t, position: position, setting: setting, seed: seed, final: final}
	if u.recipe, err = o.recipes[t.name].Set(setting); err != nil {
		return u, err
	}
	u.recipe.Model.Position = position
	identity, err := json.Marshal(struct {
		Task   string
		Final  bool
		Seed   int
		Recipe finetune.Recipe
	}{t.name, final, seed, u.recipe})
	if err != nil {
		return u, err
	}
	sum := sha256.Sum256(identity)
	u.id = hex.EncodeToString(sum[:6])
	return u, nil
}

// validate refuses settings that no training could have, before the first one begins. The network is the checkpoint's,
// which is not open yet: what it decides is made up.
func (o options) validate() error {
	seen := map[string]bool{} // of two tasks with one recipe the first is enough
	for _, t := range o.tasks {
		if name := o.recipes[t.name].Name; seen[name] {
			continue
		} else {
			seen[name] = true
		}
		for _, position := range o.positions {
			for _, setting := range settingsFor(position, o.sweep) {
				u, err := o.unit(t, position, setting, 0, false)
				if err != nil {
					return err
				}
				r := u.recipe
				m := &r.Model
				m.ImageRows, m.ImageCols, m.Classes = r.Augment.Size[0], r.Augment.Size[1], t.classes
				m.PatchSize = cmp.Or(m.PatchSize, gcd(m.ImageRows, m.ImageCols))
				m.Width, m.Depth, m.Heads = cmp.Or(m.Width, 64*max(1, m.Heads)), cmp.Or(m.Depth, 1), cmp.Or(m.Heads, 1)
				if err := r.WithDefaults().Validate(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// searches lists the trainings that choose a setting: none where there is nothing to choose. Their order, and so whose
// they are, depends on the command alone, not on what data a machine has.
func (o options) searches() (units []unit, err error) {
	for _, t := range o.tasks {
		for _, position := range o.positions {
			settings := settingsFor(position, o.sweep)
			if len(settings) == 1 {
				continue
			}
			for _, setting := range settings {
				for seed := range o.seeds {
					u, err := o.unit(t, position, setting, seed, false)
					if err != nil {
						return nil, err
					}
					u.shard = len(units) % o.shard.Of
					units = append(units, u)
				}
			}
		}
	}
	return units, nil
}

// final is a training on all 1,000 pictures, with the setting chosen for it or what keeps it from having one.
type final struct {
	unit
	waits  int  // trainings on train800 that are not done yet
	failed bool // every setting diverged
}

// finals lists the trainings whose results count.
func (o options) finals(done results) (units []final, err error) {
	for _, t := range o.tasks {
		for _, position := range o.positions {
			setting, waits, err := o.choose(done, t, position)
			if err != nil {
				return nil, err
			}
			for seed := range o.seeds {
				f := final{waits: waits, failed: setting == nil && waits == 0}
				chosen := ""
				if setting != nil {
					chosen = *setting
				}
				if f.unit, err = o.unit(t, position, chosen, seed, true); err != nil {
					return nil, err
				}
				if setting == nil {
					f.id = "" // no training yet
				}
				f.shard = len(units) % o.shard.Of
				units = append(units, f)
			}
		}
	}
	return units, nil
}

// choose picks the setting with the best mean accuracy on val200 over all seeds, the first of equals. Nothing of the
// test list enters. It is nil while trainings are missing, and if every setting has a training that diverged.
func (o options) choose(done results, t task, position string) (best *string, missing int, err error) {
	settings := settingsFor(position, o.sweep)
	if len(settings) == 1 {
		return &settings[0], 0, nil
	}
	accuracy := -1.0
	for i, setting := range settings {
		mean, failed := 0.0, false
		for seed := range o.seeds {
			u, err := o.unit(t, position, setting, seed, false)
			if err != nil {
				return nil, 0, err
			}
			row, ok := done[u.id]
			if !ok {
				missing++
			}
			failed = failed || row.Failed != ""
			mean += float64(row.Validation.Top1) / float64(o.seeds)
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

// listing shows all units: which there are, whose they are and which are done.
func (s *study) listing(done results) (report.Table, error) {
	table := report.Table{
		Header:  []string{"training", "task", "position", "seed", "setting", "shard", "state"},
		Numeric: []bool{false, false, false, true, false, true, false},
	}
	add := func(u unit, state string) {
		switch row, ok := done[u.id]; {
		case ok && row.Failed != "":
			state = "failed"
		case ok:
			state = "done"
		}
		table.Rows = append(table.Rows, []string{u.part(), u.task.name, u.position, strconv.Itoa(u.seed), u.setting,
			fmt.Sprintf("%d/%d", u.shard, s.shard.Of), state})
	}
	searches, err := s.searches()
	if err != nil {
		return table, err
	}
	finals, err := s.finals(done)
	if err != nil {
		return table, err
	}
	for _, u := range searches {
		add(u, s.state(u.task))
	}
	for _, f := range finals {
		state := s.state(f.task)
		switch {
		case f.failed:
			state = "no setting"
			f.setting = "all diverged"
		case f.waits > 0:
			f.setting = "to be chosen"
		}
		add(f.unit, state)
	}
	table.Notes = []string{fmt.Sprintf("%d trainings on %s, %d on %s; this is shard %d/%d", len(searches), train800,
		len(finals), train1000, s.shard.Index, s.shard.Of)}
	return table, nil
}
