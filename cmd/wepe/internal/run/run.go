// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package run opens models, and stores in a run's directory the description that resuming needs and that prevents
// mixing runs.
package run

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/janpfeifer/must"
	"github.com/spf13/cobra"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/hub"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/disk"
	"github.com/wepe-go/wepe/internal/printable"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/report"
)

// File is the description of a run in its directory.
const File = engine.DescriptionFile

// Description is the configuration of a run.
type Description struct {
	Data     string            `json:"data"`               // as --data, with an absolute path
	Dataset  string            `json:"dataset"`            // its name
	Identity string            `json:"identity,omitempty"` // of its files, see dataset.Dataset.Identity
	Recipe   finetune.Recipe   `json:"recipe"`             // before the data and a pretrained model complete it
	Model    string            `json:"model,omitempty"`    // from which it starts
	Open     checkpoints.Hints `json:"open,omitzero"`      // what its files lack
	Weights  string            `json:"weights,omitempty"`  // that the results are of; empty, of older versions, for best
	Seed     int64             `json:"seed"`
	Fraction float64           `json:"fraction,omitempty"` // of the training images
	Label    string            `json:"label,omitempty"`    // of the encoding in rows, unless it is the position
	Stream   bool              `json:"stream,omitempty"`
	Auto     bool              `json:"stream_auto,omitempty"` // only training images are
	Damaged  string            `json:"damaged,omitempty"`     // images of a stream: error or skip
	Subsets  bool              `json:"subsets,omitempty"`     // the fraction differs for each seed
	Study    bool              `json:"study,omitempty"`       // of wepe compare: the runs are in directories below
}

// Dir is the default directory of results; the last name may be empty.
func Dir(names ...string) string {
	return filepath.Join("runs", strings.TrimSuffix(strings.Join(names, "-"), "-"))
}

// Apart refuses a directory of results that would change what its command reads: in --data its plots would be images
// of a class, and beside MODEL's files, if they are no run, it would be another model.
func Apart(dir, data, model string) error {
	if info, err := os.Stat(data); err == nil && info.IsDir() {
		inside, err := filepath.Rel(resolved(data), resolved(dir))
		if err == nil && filepath.IsLocal(inside) && (inside == "." || inside[0] != '.') { // which is skipped
			return cli.Usagef("the results in %s would be among the images of --data: name another directory with --out", dir)
		}
	}
	from, err := os.Stat(model)
	if err == nil && !from.IsDir() {
		from, err = os.Stat(filepath.Dir(model))
	}
	if to, missing := os.Stat(dir); err == nil && missing == nil && os.SameFile(from, to) {
		if _, err := os.Stat(filepath.Join(dir, File)); err != nil {
			return cli.Usagef("--out %s has the files of MODEL: name another directory", dir)
		}
	}
	return nil
}

// resolved is the absolute path without links, also of what does not exist yet.
func resolved(path string) string {
	path, _ = filepath.Abs(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if above := filepath.Dir(path); above != path {
		return filepath.Join(resolved(above), filepath.Base(path))
	}
	return path
}

// Check refuses a directory with results of another recipe or dataset, and Claim also one with results of other
// settings or of another model: with the error of Remedied. They write no description: that is
// to be written when nothing else refuses the run.
func Check(dir string, d Description) error { return d.compare(dir, false) }

// Claim is described at Check.
func Claim(dir string, d Description) error {
	if err := d.compare(dir, true); err == nil || begun(dir, d.Study) {
		return err
	}
	return Check(dir, d)
}

func (d Description) compare(dir string, settings bool) error {
	was, err := Read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return Remedied(was.identity(d, settings).Same(d.identity(was, settings), dir))
}

// Remedied adds to an *engine.OtherRunError what to do; other errors stay.
func Remedied(err error) error {
	other := (*engine.OtherRunError)(nil)
	switch {
	case !errors.As(err, &other):
		return err
	case other.Field == "data" || other.Field == "validation data":
		return fmt.Errorf("%w: bring back the images that it began with, or use --out DIR, where a run of wepe train "+
			"can be MODEL", err)
	}
	return fmt.Errorf("%w: use --out DIR, or continue what is there by the command that began it, of wepe train also by "+
		"wepe resume", err)
}

// identity is what must be the same as in the other description, with or without the settings of the recipe.
func (d Description) identity(other Description, settings bool) engine.RunIdentity {
	kind := map[bool]string{false: "one training run", true: "a comparison"}
	i := engine.RunIdentity{Dataset: d.Dataset, Data: d.Identity, Other: map[string]string{"kind": kind[d.Study],
		"recipe": d.Recipe.Name, "subsets": strconv.FormatBool(d.Subsets)}}
	if d.Identity == "" || other.Identity == "" { // of an older version
		i.Data = d.Data
	}
	if d.Study && other.Study {
		i.Other["stream"] = strconv.FormatBool(d.Stream)
	}
	if !settings {
		return i
	}
	i.Recipe, _ = d.Recipe.Resolve() // the data and a pretrained model complete it
	if !d.Study {                    // each run of a comparison has its seed
		i.Seed = d.Seed
	}
	switch { // the files of a model may have moved; where they are gone, the training compares those in its checkpoint
	case d.Model == "":
		i.From = engine.Scratch
	case d.Model != other.Model:
		i.From, _ = checkpoints.Sum(d.Model)
	}
	return i
}

// begun reports whether a directory, or in a study that of a run, has a checkpoint or rows, or another process on its
// way to them.
func begun(dir string, study bool) bool {
	dirs := []string{dir}
	if study {
		entries, _ := os.ReadDir(dir)
		for _, e := range slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !e.IsDir() }) {
			dirs = append(dirs, filepath.Join(dir, e.Name()))
		}
	}
	for i, of := range dirs {
		for _, name := range []string{engine.RowsFile, checkpoints.LastDir + "/*", checkpoints.BestDir + "/*"} {
			if found, _ := fs.Glob(os.DirFS(of), name); len(found) > 0 {
				return true
			}
		}
		if i == 0 { // a run itself is locked before it writes
			continue
		}
		unlock, err := checkpoints.Lock(of)
		if errors.Is(err, checkpoints.ErrInUse) {
			return true
		}
		if err == nil {
			_ = unlock()
		}
	}
	return false
}

// Write writes the description of a run.
func Write(dir string, d Description) error {
	return disk.Write(filepath.Join(dir, File), func(w io.Writer) error { return cli.JSON(w, d) })
}

// Read reads the description in a run's directory.
func Read(dir string) (d Description, err error) {
	text, err := os.ReadFile(filepath.Join(dir, File))
	if errors.Is(err, syscall.ENOTDIR) {
		err = fmt.Errorf("%s: %w: name the directory of a run", dir, syscall.ENOTDIR)
	}
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(setting.Current(text), &d); err != nil {
		return d, fmt.Errorf("%s: %w", filepath.Join(dir, File), err)
	}
	return d, nil
}

// OfStudy reports whether a directory is a training run of wepe compare, described in the directory above. One that has
// its own description is a run that another command has continued, unless the directory above says otherwise.
func OfStudy(dir string) bool {
	whole, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	above, err := Read(filepath.Dir(whole))
	_, own := Read(dir)
	_, saved := os.Stat(filepath.Join(dir, checkpoints.LastDir))
	return err == nil && saved == nil && (above.Study || errors.Is(own, fs.ErrNotExist))
}

// Recover is Read for a run from a version without run.json: its newest checkpoint has all but the data.
func Recover(dir string) (d Description, err error) {
	c, _, err := checkpoints.Find(dir, checkpoints.Resume)
	if err != nil {
		return d, err
	}
	if c == nil || filepath.Clean(c.Path) == filepath.Clean(dir) { // none, or one of a run
		return d, fmt.Errorf("%s is not the directory of a run: name that, which has %s", dir, File)
	}
	var meta struct {
		Recipe struct {
			finetune.Recipe
			Detector map[string]json.RawMessage `json:"detector"`
		} `json:"recipe"`
		Seed int64 `json:"seed"`
		From *struct {
			Path string `json:"path"`
		} `json:"from"`
	}
	if err := json.Unmarshal(setting.Current(c.Meta), &meta); err != nil {
		return d, fmt.Errorf("%s: %w", c.Path, err)
	}
	if meta.Recipe.Detector != nil {
		return d, fmt.Errorf("%s is a run of wepe detect train: repeat that command, which continues it", dir)
	}
	d.Recipe, d.Seed = meta.Recipe.Recipe, meta.Seed
	if meta.From != nil {
		d.Model = meta.From.Path
	}
	rows, err := report.ReadFiles(filepath.Join(dir, engine.RowsFile))
	if err == nil && len(rows.Evals) > 0 {
		d.Fraction, d.Label = rows.Evals[0].Fraction, rows.Evals[0].Encoding
	}
	return d, nil
}

// Local returns the path of MODEL on disk; a model of the Hugging Face hub is downloaded to the cache. As a command it
// panics with an error, also if flags of cli.Flags.Import say what the checkpoints of a run do.
func Local(c *cobra.Command, path string) string {
	if !strings.HasPrefix(path, hub.Scheme) {
		if _, err := os.Stat(path); err != nil {
			must.M(fmt.Errorf("MODEL %s: %w: want a run's directory, a model's file or directory, or hf://owner/name", path,
				fs.ErrNotExist))
		}
		saved, _ := checkpoints.All(path)
		if runs, _ := fs.Glob(os.DirFS(path), "*/"+checkpoints.LastDir); len(runs) > 0 && len(saved) == 0 {
			must.M(fmt.Errorf("MODEL %s contains %d runs: name one of them, for example %s", path, len(runs),
				filepath.Join(path, filepath.Dir(runs[0]))))
		}
		if _, described := os.Stat(filepath.Join(path, File)); described == nil && len(saved) == 0 {
			must.M(fmt.Errorf("MODEL %s is a run that has saved no checkpoint yet: let it train, or continue it", path))
		}
		hints := []string{"grid", "assume-square", "architecture"}
		if slices.ContainsFunc(hints, c.Flags().Changed) && isRun(path) &&
			!(slices.Contains([]string{"verify", "analyze"}, c.Name()) && slices.ContainsFunc(c.Flags().Args(),
				func(other string) bool { return !isRun(other) })) { // another model may need them
			cli.Unread(c, "with a run, whose checkpoints lack nothing", hints...)
		}
		return path
	}
	files := map[string]func(done, all int){}
	snapshot := must.M1(hub.Download(c.Context(), path, func(file string, done, total int64) {
		if files[file] == nil {
			files[file] = cli.Count(file, "MB")
		}
		files[file](int(done>>20), int(total>>20))
	}))
	line := fmt.Sprintf("%s: commit %s", path, snapshot.Commit)
	if snapshot.Unreached != nil {
		line += fmt.Sprintf(" from the cache, the hub is not reached: %v", snapshot.Unreached)
	}
	cli.Line(line)
	return snapshot.Dir
}

// isRun reports whether MODEL, as NAME=MODEL too, has checkpoints.
func isRun(model string) bool {
	if _, err := os.Stat(model); err != nil {
		model = model[strings.Index(model, "=")+1:]
	}
	found, _, _ := checkpoints.Find(model, "")
	return found != nil
}

// Weights is Origin for a model to use: last weights are an error if no model of the command is a run.
func Weights(c *cobra.Command, path, weights string) (chosen, line string) {
	chosen, line = Origin(c, path, weights)
	if line == "" && weights == checkpoints.LastDir && !slices.ContainsFunc(c.Flags().Args(), isRun) {
		must.M(cli.Usagef("--checkpoint %s: %s is not a run: leave it out", weights, path))
	}
	return chosen, line
}

// Origin returns the path of MODEL on disk, for a run the checkpoints that --checkpoint chooses, and a line that names
// them. A model that is no run has only one kind of weights, and no line.
func Origin(c *cobra.Command, path, weights string) (chosen, line string) {
	path = Local(c, path)
	which := weights
	if which == checkpoints.BestDir {
		which = "" // the last of a run without validation
	}
	found, _ := must.M2(checkpoints.Find(path, which))
	if found == nil {
		return path, ""
	}
	line = fmt.Sprintf("step %d", found.Step)
	if dir := filepath.Dir(found.Path); filepath.Dir(dir) == filepath.Clean(path) {
		path, line = dir, found.Kind+", "+line
		if found.Kind != weights {
			line += ", there are no " + weights + " weights"
		}
	}
	return path, line
}

// Architecture describes the network of a recipe in a line.
func Architecture(r finetune.Recipe) string {
	c, kind := r.Model, cmp.Or(r.Architecture, "ViT")
	if kind == finetune.ONNX {
		kind = "ONNX file of a ViT"
	}
	return fmt.Sprintf("%s of width %d, depth %d, %s, patches of %d at %d×%d, position %s",
		kind, c.Width, c.Depth, printable.Count(c.Heads, "head"), c.PatchSize, c.ImageRows,
		c.ImageCols, c.Position)
}

// Preprocessing describes a model's preprocessing in a line.
func Preprocessing(m *finetune.Model) string {
	c, s, a := m.Recipe.Model, m.Preprocess, m.Recipe.Augment
	text := fmt.Sprintf("%d×%d, %s", c.ImageRows, c.ImageCols, cmp.Or(m.Recipe.Aspect,
		"images of other sizes are resized"))
	if s != (preprocess.Settings{}) {
		text = fmt.Sprintf("resized to %d×%d (%s)", s.Size[0], s.Size[1], s.Resize)
	}
	if s.Crop != [2]int{} {
		text += fmt.Sprintf(", cropped to %d×%d", s.Crop[0], s.Crop[1])
	}
	if s.Trim != [2]int{} {
		text += fmt.Sprintf(", trimmed to whole patches: %d×%d", s.Trim[0], s.Trim[1])
	}
	if s.Grey16 != preprocess.GreyClip {
		text += ", 16-bit grey by " + s.Grey16
	}
	if a.Std == [3]float64{} {
		return text + ", pixels scaled to 0…1"
	}
	return text + fmt.Sprintf(", mean %.3g, std %.3g", a.Mean, a.Std)
}

// Set applies the settings of --set to a recipe whose encoding has a flag of its own.
func Set[R interface{ Set(string) (R, error) }](r R, settings []string, position func(R) string) (R, error) {
	changed, err := r.Set(strings.Join(settings, ";"))
	if err == nil && position(changed) != position(r) {
		err = errors.New("the position has a flag: --position, of wepe compare and wepe detect --positions")
	}
	if err != nil {
		return r, cli.Usage(fmt.Errorf("--set: %w", cmp.Or(errors.Unwrap(err), err)))
	}
	return changed, nil
}
