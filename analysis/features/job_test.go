// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package features

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/support/xslices"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/internal/numpy"
)

const demoDir = "../../examples/cifar100/demo/vit"

// demo is the model of make finetune-demo, or another in its format: width 96, 6×6 patches, a class token.
func demo(t *testing.T, batch int, dir ...string) *finetune.Model {
	t.Helper()
	m := gomlxtest.Must(finetune.Open(gomlxtest.Backend(), append(dir, demoDir)[0]))(t)
	m.Recipe.EvalBatchSize = batch
	t.Cleanup(m.Finalize)
	return m
}

// changed is the demo's model with other settings, its weights drawn.
func changed(t *testing.T, settings string) *finetune.Model {
	t.Helper()
	m := gomlxtest.Must(demo(t, 4).Reinitialized(settings))(t)
	t.Cleanup(m.Finalize)
	gomlxtest.Must(m.Embed(filepath.Join(folder(t), "top.png")))(t)
	return m
}

// drawn returns an image of noise.
func drawn(seed uint64, height, width int) image.Image {
	img, r := image.NewNRGBA(image.Rect(0, 0, width, height)), rand.New(rand.NewPCG(seed, 3))
	for i := range img.Pix {
		if img.Pix[i] = uint8(r.IntN(256)); i%4 == 3 {
			img.Pix[i] = 255
		}
	}
	return img
}

// folder has images in two classes and outside of them, one of them damaged and one truncated: seven can be read.
func folder(t *testing.T) string {
	t.Helper()
	files := map[string][]byte{"notes.txt": []byte("no image"), "cat/b.png": []byte("no image either"),
		"dog/cut.png": datatest.PNG(drawn(9, 11, 13))[:200]}
	for i, name := range strings.Fields("cat/a.png cat/c.png cat/more/d.png dog/e.png dog/f.png dog/z.PNG top.png") {
		files[name] = datatest.PNG(drawn(uint64(i), 7+2*i, 23-i))
	}
	return datatest.Tree(t, files)
}

func listed(t *testing.T) *List {
	t.Helper()
	return gomlxtest.Must(Folder(folder(t)))(t)
}

func shapes(t *testing.T, train, test int) (trainSet, testSet *data.InMemory) {
	t.Helper()
	trainSet, testSet, err := data.Shapes("where", train, test, 16, 0)
	gomlxtest.NoError(t, err)
	return trainSet, testSet
}

// files are the files of a job.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range []string{valuesFile, rowsFile, stateFile} {
		if content, err := os.ReadFile(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			gomlxtest.NoError(t, err)
			out[name] = string(content)
		}
	}
	return out
}

func TestJob_FeaturesOfAFolderEqualEmbed(t *testing.T) {
	dir, m := folder(t), demo(t, 4)
	l := gomlxtest.Must(Folder(dir))(t)
	for of, width := range map[string]int{"": 96, ofMean: 96, ofBoth: 192} {
		var done []int
		job := Job{Model: m, List: l, Of: of, JSON: of == ofMean, Dir: t.TempDir(),
			Progress: func(n, _ int) { done = append(done, n) }}
		table := gomlxtest.Must(job.Run(t.Context()))(t)
		is.Equal(t, "nine images, four at a time", done, []int{0, 4, 8, 9})
		is.Equal(t, "rows and width", [2]int{len(table.Images), table.Width}, [2]int{7, width})
		for i, p := range table.Images {
			f := gomlxtest.Must(m.Embed(filepath.Join(dir, p.File)))(t)[0]
			want := map[string][]float32{"": f.Class, ofMean: f.Mean, ofBoth: slices.Concat(f.Class, f.Mean)}[of]
			gomlxtest.NearAbs(t, p.File, table.Vector(i), fixtures.Float64s(want), 1e-5)
		}
		is.Equal(t, "images", fmt.Sprint(table.Images), "[{top.png  } {cat/a.png cat } {cat/c.png cat } "+
			"{cat/more/d.png cat } {dog/e.png dog } {dog/f.png dog } {dog/z.PNG dog }]")
		s := gomlxtest.Must(readState(job.Dir))(t)
		is.Equal(t, "state", fmt.Sprint(s.Unread, s.Rows), "[cat/b.png dog/cut.png] 7")
		job.Progress = func(int, int) { t.Error("a finished job is done again") }
		job.Model = demo(t, 3) // nothing is left to compute with another batch size
		gomlxtest.Must(job.Run(t.Context()))(t)
	}
}

// A kill may leave any number of complete rows, a part of the next one in each file, and numbers without their lines.
// The list has one image twice.
func TestJob_StoppedAnywhereEndsWithTheSameBytes(t *testing.T) {
	l := listed(t)
	l.Images, l.read, l.brief = append(l.Images, l.Images[1]), append(l.read, l.read[1]), append(l.brief, l.brief[1])
	for _, inLines := range []bool{false, true} {
		m := demo(t, map[bool]int{false: 3, true: 4}[inLines]) // ten images
		whole := Job{Model: m, List: l, JSON: inLines, Dir: t.TempDir()}
		gomlxtest.Must(whole.Run(t.Context()))(t)
		want := files(t, whole.Dir)
		begun := whole
		begun.Dir = t.TempDir()
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("stopped")
		begun.Progress = func(int, int) { cancel(stop) }
		is.Equal(t, "stopped", errors.Is(is.ErrorOf(begun.Run(ctx)), stop), true)
		is.Refused(t, "unfinished features", is.ErrorOf(Read(begun.Dir)))
		state := files(t, begun.Dir)[stateFile]
		lines := strings.SplitAfter(want[rowsFile], "\n")
		foreign := whole
		foreign.Dir = datatest.Tree(t, map[string]string{stateFile: state,
			rowsFile: strings.Replace(lines[0], "top.png", "x", 1)})
		is.Refused(t, "a row of an image that is not in the list", is.ErrorOf(foreign.Run(t.Context())))
		foreign.Model = demo(t, 2)
		is.Refused(t, "an unfinished job with another batch size", is.ErrorOf(foreign.Run(t.Context())))
		for _, c := range []struct{ rows, lineBytes, values, valueBytes, first, firstInLines int }{
			{0, 0, 0, 0, 0, 0}, {0, 5, 0, 0, 0, 0}, {2, 9, 3, 0, 0, 0}, {3, 0, 3, 7, 3, 4}, {5, 20, 5, 3, 6, 4},
			{4, 1, 6, 100, 3, 4}, {5, 0, 2, 11, 0, 4}, {8, 0, 7, 300, 9, 10}, {8, 0, 8, 0, 10, 10},
		} {
			piece := lines[c.rows][:min(c.lineBytes, len(lines[c.rows]))]
			left := map[string]string{stateFile: state, rowsFile: strings.Join(lines[:c.rows], "") + piece}
			if values := want[valuesFile]; values != "" {
				left[valuesFile] = values[:min(len(values), 128+4*96*c.values+c.valueBytes)]
			}
			again, done := whole, []int(nil)
			again.Dir = datatest.Tree(t, left)
			again.Progress = func(n, _ int) { done = append(done, n) }
			gomlxtest.Must(again.Run(t.Context()))(t)
			// The first of a batch: other backends may round differently in other batches.
			where := fmt.Sprintf("stopped at %+v, in lines %t", c, inLines)
			is.Equal(t, where+": goes on after", done[0], map[bool]int{false: c.first, true: c.firstInLines}[inLines])
			is.Equal(t, where+": the same files", maps.Equal(files(t, again.Dir), want), true)
		}
	}
}

func TestJob_AnotherOriginIsNotResumed(t *testing.T) {
	tree := map[string][]byte{}
	for i := range 11 {
		tree[fmt.Sprintf("cat/%02d.png", i)] = datatest.PNG(drawn(uint64(i), 9, 9))
	}
	pictures := func() *List { return gomlxtest.Must(Folder(datatest.Tree(t, tree)))(t) }
	job := Job{Model: demo(t, 4), List: pictures(), Dir: t.TempDir()}
	gomlxtest.Must(job.Run(t.Context()))(t)
	want := files(t, job.Dir)
	unlock := gomlxtest.Must(checkpoints.Lock(job.Dir))(t)
	is.Refused(t, "two processes in one directory", is.ErrorOf(job.Run(t.Context())))
	gomlxtest.NoError(t, unlock())
	same := job
	same.List = pictures() // elsewhere
	gomlxtest.Must(same.Run(t.Context()))(t)
	tree["cat/10.png"] = datatest.PNG(drawn(100, 9, 9)) // the last of the images that are compared
	other := changed(t, "model.depth=2")
	for name, change := range map[string]func(*Job){
		"another model": func(j *Job) { j.Model = other },
		"another list":  func(j *Job) { j.List = j.List.Sample(5) },
		"another kind":  func(j *Job) { j.Of = ofMean },
		"another form":  func(j *Job) { j.JSON = true },
		"other pixels":  func(j *Job) { j.List = pictures() },
	} {
		changed := job
		change(&changed)
		is.Refused(t, name, is.ErrorOf(changed.Run(t.Context())))
	}
	is.Equal(t, "the same files", maps.Equal(files(t, job.Dir), want), true)
	foreign := job
	foreign.Dir = datatest.Tree(t, map[string]string{valuesFile: want[valuesFile]})
	is.Refused(t, "vectors of another program", is.ErrorOf(foreign.Run(t.Context())), valuesFile)
	is.Equal(t, "its vectors", files(t, foreign.Dir)[valuesFile], want[valuesFile])
	earlier := job // versions without contents
	want[stateFile] = strings.Replace(want[stateFile], `"contents"`, `"unknown"`, 1)
	earlier.Dir, earlier.List = datatest.Tree(t, want), pictures()
	gomlxtest.Must(earlier.Run(t.Context()))(t)

	contents := map[string]bool{}
	for changed := range 2 { // any one pixel of any image of a dataset in memory
		train, _ := shapes(t, 40, 8)
		train.Row(7)[5] ^= uint8(changed)
		s := &List{Name: "shapes"}
		s.AddSet("train", train)
		contents[s.contents()] = true
	}
	is.Equal(t, "contents of other pixels in memory", len(contents), 2)
}

func TestJob_KindDependsOnTheClassToken(t *testing.T) {
	for settings, hasClass := range map[string]bool{"": true, "model.pool=mean": false,
		"model.pool=mean;model.registers=2": false} {
		m := changed(t, settings)
		for of, want := range map[string]string{"": map[bool]string{true: ofClass, false: ofMean}[hasClass],
			ofMean: ofMean, ofClass: ofClass, ofBoth: ofBoth, "patches": ""} {
			job := Job{Model: m, List: listed(t), Of: of}
			if _, err := job.begin(); (err == nil) != (want == ofMean || hasClass && want != "") || err == nil &&
				job.Of != want {
				t.Errorf("%s: %q is %q, %v", settings, of, job.Of, err)
			}
		}
	}
}

func TestJob_Refusals(t *testing.T) {
	diverged := map[string][]byte{}
	for _, name := range []string{"config.json", "model.safetensors", "preprocessor_config.json"} {
		diverged[name] = gomlxtest.Must(os.ReadFile(filepath.Join(demoDir, name)))(t)
	}
	weights := diverged["model.safetensors"]
	begin := 8 + int(binary.LittleEndian.Uint64(weights))
	var header map[string]struct {
		At [2]int `json:"data_offsets"`
	}
	gomlxtest.NoError(t, json.Unmarshal(weights[8:begin], &header))
	at := begin + header["vit.layernorm.weight"].At[0] // of the first channel
	binary.LittleEndian.PutUint32(weights[at:], math.Float32bits(float32(math.NaN())))
	m, broken, l := demo(t, 4), demo(t, 4, datatest.Tree(t, diverged)), listed(t)
	damaged := gomlxtest.Must(Folder(datatest.Tree(t, map[string][]byte{"a.png": []byte("a"), "b.png": nil})))(t)
	for name, job := range map[string]Job{
		"all images damaged":  {Model: m, List: damaged},
		"nothing listed":      {Model: m, List: &List{Name: "nothing"}},
		"a Latin-1 name":      {Model: m, List: &List{Images: []Image{{File: "caf\xe9.png"}}}},
		"a class that is NaN": {Model: broken, List: l},
		"a mean that is NaN":  {Model: broken, List: l, Of: ofMean},
	} {
		job.Dir = t.TempDir()
		is.Refused(t, name, is.ErrorOf(job.Run(t.Context())))
		is.Refused(t, name+": unfinished features", is.ErrorOf(Read(job.Dir)))
	}
	is.Refused(t, "patches that are NaN", is.ErrorOf(PCA(broken, l, []int{0, 1, 3}, false)))
	job := Job{Model: m, List: l, Dir: t.TempDir()}
	job.Progress = func(done, all int) {
		if done == all {
			_ = os.Remove(filepath.Join(job.Dir, rowsFile)) // noticed below
		}
	}
	is.Equal(t, "lines that vanish are an error", errors.Is(is.ErrorOf(job.Run(t.Context())), fs.ErrNotExist), true)
	is.Equal(t, "rows in the state", gomlxtest.Must(readState(job.Dir))(t).Rows, 0)
}

// Each message names the file, or the directory.
func TestRead_DamagedFilesAreRefused(t *testing.T) {
	l, m := listed(t), demo(t, 4)
	whole := Job{Model: m, List: l, Dir: t.TempDir()}
	gomlxtest.Must(whole.Run(t.Context()))(t)
	inLines := Job{Model: m, List: l, JSON: true, Dir: t.TempDir()}
	gomlxtest.Must(inLines.Run(t.Context()))(t)
	withoutLast := func(s string) string { return s[:strings.LastIndex(s[:len(s)-1], "\n")+1] }
	for name, c := range map[string]struct {
		job    Job
		file   string
		change func(content string) string
		named  string
	}{
		"state": {whole, stateFile, func(string) string { return "{" }, stateFile},
		"line 3": {whole, rowsFile, func(s string) string { return strings.Replace(s, `"cat/c`, `1"cat/c`, 1) },
			rowsFile + ":3"},
		"line missing":    {whole, rowsFile, withoutLast, ""},
		"numbers missing": {inLines, rowsFile, withoutLast, ""},
		"no array":        {whole, valuesFile, func(string) string { return "PK" }, valuesFile},
		"cut":             {whole, valuesFile, func(s string) string { return s[:len(s)-4] }, valuesFile},
		"integers": {whole, valuesFile, func(s string) string { return strings.Replace(s, "<f4", "<i4", 1) },
			valuesFile},
		"of another width": {whole, valuesFile, func(s string) string {
			return string(numpy.Header("<f4", 7, 192)) + strings.Repeat(s[128:], 2)
		}, valuesFile},
	} {
		content := files(t, c.job.Dir)
		content[c.file] = c.change(content[c.file])
		dir := datatest.Tree(t, content)
		c.job.Dir = dir
		_, read := Read(dir)
		_, run := c.job.Run(t.Context())
		for _, err := range []error{read, run} {
			if err == nil || !strings.Contains(err.Error(), c.named) || !strings.Contains(err.Error(), dir) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for _, file := range []string{rowsFile, valuesFile, stateFile} {
		content := files(t, whole.Dir)
		delete(content, file)
		if _, err := Read(datatest.Tree(t, content)); err == nil || file != stateFile && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("no %s: %v", file, err)
		}
	}
}

func TestFolder_HasTheSplitsOfItsImages(t *testing.T) {
	png := datatest.PNG(drawn(1, 3, 5))
	tree := func(names string) *List {
		files := map[string][]byte{}
		for _, name := range strings.Fields(names) {
			files[name] = png
		}
		return gomlxtest.Must(Folder(datatest.Tree(t, files)))(t)
	}
	for names, want := range map[string]string{
		"train/x/1.png train/y/2.png train/y/3.png val/y/1.png": "[{train/x/1.png x train} {train/y/2.png y train} " +
			"{train/y/3.png y train} {val/y/1.png y test}]",
		"train/x/1.png train/y/2.png val/y/3.png test/x/4.png": "[{train/x/1.png x train} {train/y/2.png y train} " +
			"{val/y/3.png y validation} {test/x/4.png x test}]",
	} {
		l := tree(names)
		is.Equal(t, names, fmt.Sprint(l.Images), want)
		table := Table{Images: l.Images, Width: 1, Values: []float32{3, 5, 7, 2}}
		s := gomlxtest.Must(table.split())(t)
		is.Equal(t, "test and the second of training", append(s.test, s.train[1]), []int{3, 1})
	}
	is.Equal(t, "train alone", fmt.Sprint(tree("train/x/1.png train/y/2.png").Images),
		"[{train/x/1.png x } {train/y/2.png y }]")
	mixed := datatest.Tree(t, map[string][]byte{"train/cat/1.png": nil, "val/cat/1.png": nil, "unlabelled/1.png": nil})
	err := is.ErrorOf(Folder(mixed))
	is.Equal(t, fmt.Sprint("splits beside another folder: ", err), errors.Is(err, data.ErrSplits), true)
	is.Refused(t, "an empty folder", is.ErrorOf(Folder(t.TempDir())))
	loose := datatest.Tree(t, map[string][]byte{"train/cat/1.png": png, "train/dog/1.png": png, "test/4.png": png})
	is.Refused(t, "a split without classes", is.ErrorOf(Folder(loose)), "test")
	train, test := shapes(t, 23, 11)
	s := &List{Name: "shapes"}
	s.AddSet(trainPart, train)
	s.AddSet(testPart, test)
	thin := s.Sample(5)
	numbers := xslices.Map(thin.Images, func(p Image) string { return p.Part + p.File[len(p.File)-2:] })
	is.Equal(t, "sample", fmt.Sprint(numbers),
		"[train00 train04 train09 train13 train18 test00 test02 test04 test06 test08]")
	img := gomlxtest.Must(thin.read[6]())(t)
	is.Equal(t, "the first pixel", img.Pixels[:3], slices.Repeat(test.Row(2)[:1], 3))
	is.Equal(t, "rows", img.Height, 16)
	for n, want := range map[int]int{11: 22, 23: 34, 1000: 34, 1: 2} {
		is.Equal(t, fmt.Sprintf("at most %d of each part", n), len(s.Sample(n).Images), want)
	}
}

// A directory of features with any state and lines is refused, or is a table of as many numbers as it says.
func FuzzRead(f *testing.F) {
	values := "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }" +
		strings.Repeat(" ", 57) + "\n\x00\x00\x80?\x00\x00\x00@"
	seeds := []string{`{"model": "a", "of": "class", "width": 2, "images": 1, "rows": 1}` + "|" + `{"name": "x.png"}` +
		"\n|" + values, `{"width": 2, "json": true, "rows": 1}` + "|" + `{"name": "x.png", "features": [1, 2]}` + "\n",
		`{"width": -2, "rows": -1}||` + values}
	dir := f.TempDir()
	campaign.Fuzz(f, seeds, func(t *testing.T, text string) {
		files := append(strings.SplitN(text, "|", 3), "", "")
		for i, name := range []string{stateFile, rowsFile, valuesFile} {
			gomlxtest.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(files[i]), 0o600))
		}
		table, err := Read(dir)
		if err == nil && (len(table.Images) == 0 || len(table.Values) != len(table.Images)*table.Width) {
			t.Errorf("%d numbers for %d images of width %d", len(table.Values), len(table.Images), table.Width)
		}
	})
}
