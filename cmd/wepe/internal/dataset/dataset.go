// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package dataset opens the images of --data.
package dataset

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/data/vtab"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/disk"
	"github.com/wepe-go/wepe/internal/fetch"
	"github.com/wepe-go/wepe/internal/printable"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/report"
)

// Forms are the forms of --data, one per line of wepe list data.
var Forms = [][2]string{
	{"shapes[:TASK]", "generated shapes, embedded; TASK is where, location, orientation or shape"},
	{"cifar100:PATH", "CIFAR-100's binary version: its directory or archive; --download fetches it"},
	{"vtab:TASK:DIR", "a task of VTAB-1k: train800, val200 and the test list in DIR/TASK"},
	{
		"DIR",
		"a folder per class; or folders train, val, test with these; or tar shards (WebDataset), or Parquet files",
	},
	{"coco:DIR", "for wepe detect: annotations/instances_{train,val}2017.json beside train2017 and val2017"},
}

// ShapeTasks are the tasks of shapes.
var ShapeTasks = []string{"where", "location", "orientation", "shape"}

// Options are how images are read.
type Options struct {
	Download bool   // of CIFAR-100
	Stream   string // reads the images of each batch from disk: StreamAuto, Streamed or InMemory, "" for InMemory
	Workers  int
	Damaged  string // error or skip
	Verify   bool   // decodes every image before training

	Unlabelled bool // also accepts a directory of images without a folder per class
}

// Values of Options.Stream. StreamAuto is Streamed for training images that a recipe crops at random: the crops of
// images in memory are of images that were cropped and resized already.
const (
	StreamAuto = "auto"
	Streamed   = "true"
	InMemory   = "false"
)

// Flags adds them.
func (o *Options) Flags(f cli.Flags) {
	f.Section("Reading --data")
	f.BoolVar(&o.Download, "download", false, "download CIFAR-100 into the directory of --data if it is missing")
	f.Choice(&o.Stream, "stream", "read the images of each batch from disk instead of all into memory; auto: the "+
		"training images, where a recipe other than photos crops them at random", StreamAuto, Streamed, InMemory)
	f.Lookup("stream").NoOptDefVal = Streamed
	f.Int(&o.Workers, "workers", 0, 1, math.MaxInt, "with --stream: images decoded at the same time; default one per core")
	f.Choice(&o.Damaged, "on-damaged", "with --stream: a damaged image is an error, or skipped, up to one in a hundred",
		"error", "skip")
	f.BoolVar(&o.Verify, "verify-images", false, "with --stream: first decode every image, not only headers")
}

// Dataset is the dataset of --data. Load reads the images of files.
type Dataset struct {
	Spec   string // absolute, for run.json
	Name   string // for names of directories
	Format string
	note   string // about the validation split

	testNote string // about the test split
	ignored  string // files that are not read
	unsplit  error  // why no image can be held out, which only all images together do without

	options                 Options
	fraction                float64           // of the training images in memory, 0 for all
	memory                  [2]*data.InMemory // training and test images of cifar100
	task                    string            // of shapes, else ""
	structured              bool              // of VTAB: counts, distances, places, angles
	files                   [3]*data.Files    // train, validation, test; nil for none
	Classes                 []string
	train, validation, test int // number of images; validation is 0 if the recipe splits it off
}

const (
	shapeSide = 32  // pixels of generated shapes
	heldOut   = 0.2 // of the images, in a directory without a split

	fractionSeed = 42 // of package study
)

// Open opens --data.
func Open(ctx context.Context, spec string, o Options) (*Dataset, error) {
	if o.Stream != Streamed && (o.Workers != 0 || o.Damaged == "skip" || o.Verify) {
		return nil, cli.Usagef("--workers, --on-damaged and --verify-images need --stream: else every image is decoded first")
	}
	d := &Dataset{Spec: spec, options: o}
	kind, rest, _ := strings.Cut(spec, ":")
	var err error
	switch info, notFound := os.Stat(spec); {
	case kind == "shapes" && notFound != nil:
		err = d.openShapes(rest)
	case kind == "cifar100" && rest != "":
		err = d.openCIFAR(ctx, rest)
	case kind == "vtab" && rest != "":
		err = d.openVTAB(rest)
	case kind == "coco" && rest != "":
		return nil, cli.Usagef("--data %s is for wepe detect train", spec)
	case notFound != nil:
		hint := cli.Hint(kind, []string{"shapes", "cifar100:", "vtab:"})
		return nil, fmt.Errorf("--data %s: %w%s: want %s", spec, fs.ErrNotExist, hint, cli.DataForms)
	case !info.IsDir():
		return nil, fmt.Errorf("--data %s is a file: want %s", spec, cli.DataForms)
	default:
		err = d.openDirectory(spec)
	}
	if errors.Is(err, data.ErrSplits) {
		err = fmt.Errorf("%w; to evaluate all images of one folder: --data %s --split %s", err,
			filepath.Join(spec, "FOLDER"), AllSplits)
	}
	if err != nil {
		return nil, fmt.Errorf("--data %s: %w", spec, err)
	}
	if o.Download && kind != "cifar100" {
		return nil, cli.Usagef("--download is for CIFAR-100: --data cifar100:DIR")
	}
	if o.Stream == Streamed && d.files[0] == nil {
		return nil, cli.Usagef("--stream is for images in files, --data %s is in memory", spec)
	}
	return d, nil
}

func (d *Dataset) openShapes(task string) error {
	task = cmp.Or(task, ShapeTasks[0])
	if !slices.Contains(ShapeTasks, task) {
		return cli.Usage(setting.Unknown("task", task, ShapeTasks))
	}
	d.Name, d.Format, d.task = "shapes", "generated shapes", task
	if task != ShapeTasks[0] {
		d.Name += "-" + task
	}
	few, _, err := data.Shapes(d.task, 8, 4, shapeSide, 0) // for the names of the classes
	if err == nil {
		d.Classes, d.train, d.test = few.Classes, 3000, 1000
	}
	return err
}

func (d *Dataset) openCIFAR(ctx context.Context, path string) error {
	train, test, err := data.CIFAR100(path)
	if errors.Is(err, fs.ErrNotExist) && d.options.Download {
		count := cli.Count("CIFAR-100", "MB")
		megabytes := func(done, all int64) { count(int(done>>20), int(all>>20)) }
		if err = downloadCIFAR100(ctx, path, megabytes); err == nil {
			train, test, err = data.CIFAR100(path)
		}
	}
	if err != nil {
		return err
	}
	d.Name, d.Format, d.memory = "cifar100", "CIFAR-100's binary version", [2]*data.InMemory{train, test}
	d.Classes, d.train, d.test = train.Classes, train.Len(), test.Len()
	return d.absolute("cifar100:", path)
}

func (d *Dataset) openVTAB(rest string) error {
	name, dir, ok := strings.Cut(rest, ":")
	if !ok {
		return cli.Usagef("want vtab:TASK:DIR")
	}
	tasks, err := vtab.Choose([]string{name})
	if err != nil {
		return cli.Usage(err)
	}
	if len(tasks) > 1 {
		return cli.Usagef("vtab:%s is a group of %d tasks: name one of them", name, len(tasks))
	}
	lists, err := vtab.Open(dir, tasks, false, cli.Logger())
	if err != nil {
		return err
	}
	l := lists[tasks[0].Name]
	if l == nil {
		return fmt.Errorf("no data of task %s in %s: docs/vtab.md describes the directory", tasks[0].Name, dir)
	}
	d.Name, d.Format = "vtab-"+tasks[0].Name, "VTAB-1k lists"
	d.structured = tasks[0].Group == "structured"
	d.setFiles(l.Train[0], l.Test[0], l.Test[1])
	return d.absolute("vtab:"+name+":", dir)
}

// openDirectory finds class folders, tar shards or Parquet files. If a directory has no split, about a fifth of its
// images is the validation split.
func (d *Dataset) openDirectory(dir string) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(30) // the memory of a batch is short-lived: collecting it more often costs little
	}
	defer debug.FreeOSMemory() // an index is much smaller than its source
	if err := d.absolute("", dir); err != nil {
		return err
	}
	d.Name = filepath.Base(d.Spec)
	if _, err := os.Stat(filepath.Join(dir, "train.bin")); err == nil {
		return fmt.Errorf("this is CIFAR-100: use --data cifar100:%s", dir)
	}
	parts, format, err := data.Find(dir)
	if d.options.Unlabelled && errors.Is(err, data.ErrUnlabelled) {
		var all *data.Files
		if all, err = data.ImageFiles(dir); err == nil {
			d.Format, d.ignored = "images without classes", ignored(all)
			d.setFiles(all, nil, all)
			return nil
		}
	}
	if err != nil {
		return err
	}
	d.Format, d.ignored = format, ignored(parts.Train, parts.Validation, parts.Test)
	if all := parts.Train.Classes; len(all) == 1 {
		return fmt.Errorf("%s is the only class: use a folder for each class, or train and val with such folders", all[0])
	}
	if parts.Validation == nil && parts.Test == nil {
		train, held, err := parts.Train.Split(heldOut, 0)
		if d.unsplit = err; err == nil {
			parts.Train, parts.Validation, d.note = train, held, " (about a fifth, chosen by the names of files)"
		}
	}
	d.setFiles(parts.Train, parts.Validation, parts.Test)
	return nil
}

func (d *Dataset) setFiles(train, validation, test *data.Files) {
	d.files, d.Classes, d.train = [3]*data.Files{train, validation, test}, train.Classes, train.Len()
	if validation != nil {
		d.validation = validation.Len()
	}
	if test != nil {
		d.test = test.Len()
	}
}

func (d *Dataset) absolute(prefix, path string) error {
	path, err := filepath.Abs(path)
	if d.Spec = prefix + path; err == nil && !utf8.ValidString(path) { // a run's files would have another name
		err = fmt.Errorf("the path %q is not UTF-8: rename it, or use a link", path)
	}
	return err
}

// DescribeTraining is Describe for a training run, and says what a recipe means for reading the images.
func (d *Dataset) DescribeTraining(r finetune.Recipe) {
	r, _ = r.Resolve()
	d.Describe(r.ValFraction)
	if d.StreamsCrops(r) {
		cli.Field("data", "training images are read for each batch: random crops are of the originals; --stream=false keeps "+
			"resized images in memory and crops those")
	}
}

// Describe prints format, classes and splits. part is the share of the training images that the recipe splits off.
func (d *Dataset) Describe(part float64) {
	train, validation, note := d.train, d.validation, d.note
	if validation == 0 && part > 0 {
		validation = int(part*float64(train) + 0.5)
		train -= validation
		note = fmt.Sprintf(" (%.3g %% of the training images)", 100*part)
	}
	text := fmt.Sprintf("%s: %s, %d classes, %s train", d.Name, d.Format, len(d.Classes), printable.Thousands(train))
	if validation > 0 {
		text += fmt.Sprintf(", %s validation%s", printable.Thousands(validation), note)
	}
	if d.test > 0 {
		text += fmt.Sprintf(", %s test%s", printable.Thousands(d.test), d.testNote)
	}
	cli.Field("data", "%s", text)
	if d.ignored != "" {
		cli.Field("data", "warning: files that are not read: %s", d.ignored)
	}
}

// ignored lists the files that are not read.
func ignored(parts ...*data.Files) string {
	var all []map[string]int
	for _, f := range parts {
		if f != nil {
			all = append(all, f.Ignored)
		}
	}
	return disk.Extensions(all...)
}

// Load reads the images for a recipe: those of files are resized as its aspect requires.
func (d *Dataset) Load(ctx context.Context, r finetune.Recipe) (s data.Splits, err error) {
	if s, err = d.whole(ctx, r); err == nil && d.fraction > 0 {
		s.Train, err = data.Fraction(s.Train, d.fraction, fractionSeed)
	}
	return s, err
}

func (d *Dataset) whole(ctx context.Context, r finetune.Recipe) (s data.Splits, err error) {
	switch {
	case d.memory[0] != nil:
		return data.Splits{Train: d.memory[0], Test: d.memory[1]}, nil
	case d.files[0] != nil:
		settings, err := settingsOf(r)
		if err != nil {
			return s, err
		}
		return d.read(ctx, settings, d.Streams(r), -1)
	case r.Aspect != "":
		settings, err := r.Preprocessing(cmp.Or(r.Augment.Size, [2]int{shapeSide, shapeSide}))
		if err != nil {
			return s, err
		}
		return inMemory(data.ShapesOfAspects(d.task, d.train, d.test, 2*shapeSide, 0, settings))
	default:
		return inMemory(data.Shapes(d.task, d.train, d.test, shapeSide, 0))
	}
}

func inMemory(train, test *data.InMemory, err error) (data.Splits, error) {
	if err != nil {
		return data.Splits{}, err
	}
	return data.Splits{Train: train, Test: test}, nil
}

// settingsOf returns the recipe's preprocessing for images of files.
func settingsOf(r finetune.Recipe) (preprocess.Settings, error) {
	size := cmp.Or(r.Augment.Size, [2]int{r.Model.ImageRows, r.Model.ImageCols})
	if size == [2]int{} {
		return preprocess.Settings{}, cli.Usagef("recipe %s has no image size: "+
			"use --size 224x224, in wepe compare --sizes", r.Name)
	}
	return r.Preprocessing(size)
}

// read reads a split, 0 to 2, or all if only is -1, and the training images for each batch if streamed.
func (d *Dataset) read(ctx context.Context, settings preprocess.Settings, streamed bool, only int) (s data.Splits,
	err error) {
	if d.unsplit != nil {
		return s, fmt.Errorf("%w; to evaluate all images: --split %s", d.unsplit, AllSplits)
	}
	for i, to := range []*data.Dataset{&s.Train, &s.Validation, &s.Test} {
		if d.files[i] == nil || only >= 0 && i != only {
			continue
		}
		if d.options.Stream == Streamed || streamed && i == 0 {
			if *to, err = d.files[i].Stream(settings, data.Streaming{Workers: d.options.Workers,
				Skip: d.options.Damaged == "skip", Logger: cli.Logger()}); err == nil {
				err = data.Check(ctx, *to, d.options.Verify)
			}
		} else {
			var memory *data.InMemory
			if memory, err = d.files[i].Load(ctx, settings, cli.Logger()); err == nil {
				*to = memory
			}
		}
		if image := (*data.ImageError)(nil); errors.As(err, &image) && image.Damaged && !d.options.Unlabelled {
			err = fmt.Errorf("%w; --stream --on-damaged skip leaves up to one in a hundred out", err)
		}
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// AllSplits is the name of all splits of a directory together.
const AllSplits = "all"

// Split reads one split for a model, with its preprocessing: train, validation, test or all; "" for test, otherwise
// validation.
func (d *Dataset) Split(ctx context.Context, name string, m *finetune.Model) (data.Dataset, string, error) {
	if name == AllSplits {
		all, err := d.joined()
		if err != nil {
			return nil, "", err
		}
		s, err := all.splits(ctx, m, -1)
		return s.Train, name, err
	}
	only := -1
	for i, split := range []string{report.Validation, report.Test} {
		if d.files[i+1] != nil && (name == split || name == "") {
			only = i + 1
		}
	}
	s, err := d.splits(ctx, m, only)
	if err != nil {
		return nil, "", err
	}
	if name == "" {
		if name = report.Test; s.Test == nil {
			name = report.Validation
		}
	}
	if name == splitTrain || name == report.Validation && s.Validation == nil {
		if s, err = d.asTrained(s, m); err != nil {
			return nil, "", err
		}
	}
	set := map[string]data.Dataset{splitTrain: s.Train, report.Validation: s.Validation, report.Test: s.Test}[name]
	if set == nil {
		return nil, "", fmt.Errorf("--split %s: dataset %s has no such split: use another", name, d.Name)
	}
	fits := d.files[0] != nil || d.Generated() && m.Recipe.Aspect != "" // is read with the model's preprocessing already
	if held, ok := set.(*data.InMemory); ok && !fits {
		if set, err = m.PreprocessSet(held); err != nil {
			return nil, "", fmt.Errorf("--data %s: %w", d.Spec, err)
		}
	}
	return set, name, nil
}

// splits reads the images with a model's preprocessing, as read does.
func (d *Dataset) splits(ctx context.Context, m *finetune.Model, only int) (data.Splits, error) {
	if d.files[0] != nil {
		settings, err := m.Preprocessing()
		if err != nil {
			return data.Splits{}, err
		}
		return d.read(ctx, settings, d.Streams(m.Recipe) && !settings.Float, only)
	}
	r := m.Recipe
	r.Augment.Size = [2]int{r.Model.ImageRows, r.Model.ImageCols}
	return d.Load(ctx, r)
}

// joined returns the dataset with all its images in the first split.
func (d *Dataset) joined() (*Dataset, error) {
	if d.files[0] == nil {
		return nil, cli.Usagef("--split %s is for directories of images: --data %s has the splits train and test, measure "+
			"each", AllSplits, d.Name)
	}
	parts := slices.DeleteFunc(slices.Clone(d.files[:]), func(f *data.Files) bool { return f == nil })
	all, err := data.Join(d.Name, parts...)
	out := *d
	out.files, out.unsplit = [3]*data.Files{all}, nil
	if out.options.Stream == StreamAuto { // nothing is cropped at random
		out.options.Stream = InMemory
	}
	return &out, err
}

// Identity identifies the images independent of their location: a hash of file names, labels, and three images of each
// split.
func (d *Dataset) Identity() string {
	h := sha256.New()
	fmt.Fprintln(h, d.Name, d.Classes, d.train, d.validation, d.test)
	sample := func(n int) []int { return []int{0, n / 2, n - 1} }
	for _, set := range d.memory {
		if set != nil {
			for _, row := range sample(set.Len()) {
				h.Write(set.Row(row))
			}
		}
	}
	for _, f := range d.files {
		if f == nil {
			continue
		}
		fmt.Fprintln(h, f.Labels)
		f.Fingerprint(h)
		for _, row := range sample(f.Len()) {
			if img, err := f.Read(row); err == nil { // Load returns the error
				h.Write(img.Pixels)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// WithTest returns the dataset for a comparison, which needs test images: the validation split is the test split if
// there is no other, and the recipe then splits validation images off the training images.
func (d *Dataset) WithTest() *Dataset {
	out := *d
	if d.files[2] == nil && d.files[1] != nil {
		out.files[1], out.files[2] = nil, d.files[1]
		out.validation, out.test, out.note = 0, d.validation, ""
		out.testNote = cmp.Or(d.note, " (the validation split)")
	}
	return &out
}

// Is reports whether the images have an identity under an earlier name; an empty identity, of an older version, is not
// known to be another.
func (d *Dataset) Is(name, identity string) bool {
	named := *d
	named.Name = cmp.Or(name, d.Name)
	return identity == "" || named.Identity() == identity
}

// Rename gives the dataset and its splits an earlier name.
func (d *Dataset) Rename(name string) {
	for _, f := range d.files {
		if f != nil {
			f.Name = name + strings.TrimPrefix(f.Name, d.Name)
		}
	}
	d.Name = name
}

// Images is the number of training images.
func (d *Dataset) Images() int { return d.train }

// HasValidation reports whether there are validation images, so that none are split off those for training.
func (d *Dataset) HasValidation() bool { return d.validation > 0 }

// Generated reports whether the images are the embedded shapes.
func (d *Dataset) Generated() bool { return d.task != "" }

// CIFAR100 reports whether the images are CIFAR-100 itself, not a directory of this name.
func (d *Dataset) CIFAR100() bool { return d.memory[0] != nil }

// InFiles reports whether the images are read with a preprocessing, from files.
func (d *Dataset) InFiles() bool { return d.files[0] != nil }

// Positional reports whether classes depend on where something is in the image, so that crops and flips change them.
func (d *Dataset) Positional() bool { return d.Generated() || d.structured }

// Streams reports whether the training images of a recipe are read for each batch.
func (d *Dataset) Streams(r finetune.Recipe) bool {
	recipe, _, _ := strings.Cut(r.Name, " ") // a comparison adds its size and aspect
	crops := r.Augment.CropScale != [2]float64{} && r.Aspect != finetune.AspectKeep && recipe != finetune.PhotosName
	return d.options.Stream == Streamed || d.options.Stream == StreamAuto && d.files[0] != nil && crops
}

// StreamsCrops reports whether only they are, because the recipe crops them.
func (d *Dataset) StreamsCrops(r finetune.Recipe) bool {
	return d.options.Stream == StreamAuto && d.Streams(r)
}

// Fraction returns the dataset with a part of its training images, for runs of wepe compare; 0 means all.
func (d *Dataset) Fraction(part float64) *Dataset {
	out := *d
	out.fraction = part
	return &out
}

// splitTrain is the name of the training images in --split.
const splitTrain = "train"

// asTrained returns the training and the validation images that a run of this dataset had: of a fraction drawn by
// fractionSeed, or with --resample-images by the run's seed. The fingerprint of the training images in the run's
// checkpoint decides. Another model's validation images are split off the whole dataset, which is said.
func (d *Dataset) asTrained(s data.Splits, m *finetune.Model) (data.Splits, error) {
	fraction, seed := fractionOf(m)
	whole := s
	var err error
	if s.Validation == nil {
		if whole.Train, whole.Validation, err = m.Recipe.Split(s.Train); err != nil {
			return s, err
		}
	}
	if m.Source.Data != "" {
		for _, drawn := range []int64{fractionSeed, seed} {
			part, err := data.Fraction(s.Train, fraction, drawn)
			if err != nil {
				return s, err
			}
			had := data.Splits{Train: part, Validation: s.Validation, Test: s.Test}
			if s.Validation != nil && data.Fingerprint(part) == m.Source.Data {
				return had, nil
			}
			train, validation, err := m.Recipe.Split(part)
			if err == nil && data.Fingerprint(train) == m.Source.Data {
				had.Train, had.Validation = train, cmp.Or(s.Validation, validation)
				return had, nil
			}
		}
	}
	switch own := m.Source.Format == "checkpoint"; {
	case fraction < 1:
		return s, fmt.Errorf("%s was trained on %g of its images, which are not found in %s: give the --data and --stream "+
			"of its training and no other --size, or use --split test", m.Source.Path, fraction, d.Spec)
	case s.Validation == nil && (!own || m.Source.Data != ""):
		cli.Field("split", "the validation images are split off the training images now: the model may have been trained on "+
			"them, unless only --stream is not that of its training")
	}
	return whole, nil
}

// fractionOf returns the fraction of its dataset that a run was trained on, by its rows, and its seed.
func fractionOf(m *finetune.Model) (fraction float64, seed int64) {
	if m.Source.Format != "checkpoint" {
		return 1, 0
	}
	dir := m.Source.Run()
	rows, err := report.ReadFiles(filepath.Join(dir, engine.RowsFile))
	if err != nil {
		return 1, 0
	}
	for _, r := range rows.Evals {
		fraction, seed = r.Fraction, r.Seed
	}
	for _, r := range rows.Results {
		fraction, seed = r.Fraction, r.Seed
	}
	return cmp.Or(fraction, 1), seed
}

// cifar100 is the author's own copy; the checksum equals the one in TensorFlow Datasets and GoMLX.
var cifar100 = fetch.File{
	URL:   "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
	Hash:  "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
	Limit: 256 << 20,
}

// downloadCIFAR100 downloads the official archive (169 MB) into a directory for data.CIFAR100. An existing file is not
// downloaded again. An interrupted transfer is resumed, in this call or the next; the checksum is verified before the
// file gets its final name. Without a network it fails within seconds. progress is called with the bytes so far and the
// total, -1 if unknown.
func downloadCIFAR100(ctx context.Context, dir string, progress func(done, total int64)) error {
	client := fetch.NewClient(nil, "")
	defer client.Close()
	err := client.Fetch(ctx, cifar100, filepath.Join(dir, "cifar-100-binary.tar.gz"), progress)
	if errors.As(err, new(*fetch.NetworkError)) {
		err = fmt.Errorf("%w (the file can also be fetched elsewhere and put into %s by hand)", err, dir)
	}
	if err != nil {
		return fmt.Errorf("downloading %s: %w", cifar100.URL, err)
	}
	return nil
}
