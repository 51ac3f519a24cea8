// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package features

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"image"
	"image/png"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/numeric"
	"github.com/wepe-go/wepe/internal/numpy"
)

// demo is the model of make finetune-demo: width 96, 6×6 patches, a class token.
func demo(t *testing.T, batch int) *finetune.Model {
	t.Helper()
	m := gomlxtest.Must(finetune.Open(gomlxtest.Backend(), "../../examples/cifar100/demo/vit"))(t)
	m.Recipe.EvalBatchSize = batch
	t.Cleanup(m.Finalize)
	return m
}

// processor is a backend with the name of ONNX Runtime's.
type processor struct{ compute.Backend }

func (processor) Name() string                               { return "onnxruntime" }
func (processor) DeviceDescription(compute.DeviceNum) string { return "CPU" }

// A resumed job starts at the beginning of a batch of the computation, not of the recipe.
func TestAResumedJobKeepsItsBatchSize(t *testing.T) {
	m := gomlxtest.Must(finetune.Open(processor{gomlxtest.Backend()}, "../../examples/cifar100/demo/vit"))(t)
	defer m.Finalize()
	m.Recipe.EvalBatchSize = 1_000_000
	s := gomlxtest.Must((&Job{Model: m, List: gomlxtest.Must(Folder(folder(t)))(t)}).begin())(t)
	c := m.Recipe.Model
	if at := s.Batch * c.Tokens() * c.MLPDim; at > 1<<21 || 2*at <= 1<<21 {
		t.Errorf("%d images of %d tokens and %d hidden units", s.Batch, c.Tokens(), c.MLPDim)
	}
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

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range []string{valuesFile, rowsFile, stateFile} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		out[name] = string(content)
	}
	return out
}

func TestTheFeaturesOfAFolderEqualEmbed(t *testing.T) {
	dir, m := folder(t), demo(t, 4)
	l := gomlxtest.Must(Folder(dir))(t)
	for of, width := range map[string]int{"": 96, ofMean: 96, ofBoth: 192} {
		for _, inLines := range []bool{false, true} {
			var logged strings.Builder
			var done []int
			job := Job{Model: m, List: l, Of: of, JSON: inLines, Dir: t.TempDir(),
				Logger: slog.New(slog.NewTextHandler(&logged, nil)), Progress: func(n, _ int) { done = append(done, n) }}
			table := gomlxtest.Must(job.Run(t.Context()))(t)
			if !slices.Equal(done, []int{0, 4, 8, 9}) { // nine images, four at a time
				t.Errorf("progress %v", done)
			}
			if len(table.Images) != 7 || table.Width != width {
				t.Fatalf("%d rows of width %d, want 7 of %d", len(table.Images), table.Width, width)
			}
			for i, p := range table.Images {
				f := gomlxtest.Must(m.Embed(filepath.Join(dir, p.File)))(t)[0]
				want := map[string][]float32{"": f.Class, ofMean: f.Mean, ofBoth: slices.Concat(f.Class, f.Mean)}[of]
				var wide []float64
				for _, v := range want {
					wide = append(wide, float64(v))
				}
				gomlxtest.NearAbs(t, p.File, table.Vector(i), wide, 1e-5)
			}
			if got := fmt.Sprint(table.Images); got != "[{top.png  } {cat/a.png cat } {cat/c.png cat } {cat/more/d.png cat } "+
				"{dog/e.png dog } {dog/f.png dog } {dog/z.PNG dog }]" {
				t.Errorf("images %s", got)
			}
			if all := logged.String(); !strings.Contains(all, "msg=skipped image=cat/b.png") ||
				!strings.Contains(all, "msg=skipped image=dog/cut.png") || !strings.Contains(all, "skipped 2 of 9 images") {
				t.Errorf("logged %s", all)
			}
			if s := gomlxtest.Must(readState(job.Dir))(t); fmt.Sprint(s.Unread) != "[cat/b.png dog/cut.png]" || s.Rows != 7 {
				t.Errorf("state %+v", s)
			}
			logged.Reset()
			if !inLines && strings.Contains(files(t, job.Dir)[rowsFile], "features") {
				t.Error("the numbers are in both files")
			}
			gomlxtest.Must(job.Run(t.Context()))(t) // does nothing
			if all := logged.String(); !strings.HasSuffix(all, ": cat/b.png, dog/cut.png\"\n") || strings.Count(all, "\n") != 1 {
				t.Errorf("the second time: %s", all)
			}
		}
	}
}

// A kill may leave any number of complete rows, a part of the next one in each file, and numbers without their lines.
func TestAJobStoppedAnywhereEndsWithTheSameBytes(t *testing.T) {
	l := gomlxtest.Must(Folder(folder(t)))(t)
	for _, inLines := range []bool{false, true} {
		m := demo(t, map[bool]int{false: 3, true: 4}[inLines]) // nine images in whole batches, and with a rest
		whole := Job{Model: m, List: l, JSON: inLines, Dir: t.TempDir()}
		gomlxtest.Must(whole.Run(t.Context()))(t)
		want := files(t, whole.Dir)
		begun := whole
		begun.Dir = t.TempDir()
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("stopped")
		begun.Progress = func(int, int) { cancel(stop) }
		if _, err := begun.Run(ctx); !errors.Is(err, stop) {
			t.Fatalf("%v, want %v", err, stop)
		}
		begun.Progress = nil
		if values := files(t, begun.Dir)[valuesFile]; !inLines && !strings.HasPrefix(values, string(numpy.Header(0, 96))) {
			t.Errorf("unfinished values begin with %.128q", values)
		}
		for _, name := range []string{rowsFile, valuesFile} {
			info, err := os.Stat(filepath.Join(begun.Dir, name))
			if err == nil && info.Mode().Perm()&^0o644 != 0 {
				t.Errorf("%s has the mode %v", name, info.Mode())
			}
		}
		state := files(t, begun.Dir)[stateFile]
		if _, err := Read(begun.Dir); err == nil || !strings.Contains(err.Error(), "are incomplete") {
			t.Errorf("unfinished features are read: %v", err)
		}
		lines := strings.SplitAfter(want[rowsFile], "\n")
		foreign := whole
		foreign.Dir = t.TempDir()
		for name, content := range map[string]string{stateFile: state, rowsFile: strings.Replace(lines[0], "top.png",
			"x.png", 1)} {
			if err := os.WriteFile(filepath.Join(foreign.Dir, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := foreign.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "x.png is not in the list") {
			t.Errorf("a row of another image: %v", err)
		}
		for _, c := range []struct{ rows, lineBytes, values, valueBytes int }{
			{0, 0, 0, 0}, {0, 5, 0, 0}, {1, 0, 1, 0}, {2, 9, 3, 0}, {3, 0, 3, 7}, {5, 20, 5, 3}, {4, 1, 6, 100}, {7, 0, 7, 0},
			{5, 0, 2, 11}, {6, 0, 6, 0}, {7, 0, 6, 50}, {7, 0, 6, 300},
		} {
			again := whole
			again.Dir = t.TempDir()
			piece := lines[c.rows][:min(c.lineBytes, len(lines[c.rows]))]
			written := map[string]string{stateFile: state, rowsFile: strings.Join(lines[:c.rows], "") + piece}
			if values := want[valuesFile]; values != "" {
				written[valuesFile] = values[:min(len(values), 128+4*96*c.values+c.valueBytes)]
			}
			for name, content := range written {
				if err := os.WriteFile(filepath.Join(again.Dir, name), []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			first := -1
			again.Progress = func(done, _ int) {
				if first < 0 {
					first = done
				}
			}
			gomlxtest.Must(again.Run(t.Context()))(t)
			next := 0 // of the nine images the first of a batch: other backends may round differently in other batches
			if n := min(c.rows, c.values); inLines && c.rows > 0 || n > 0 {
				next = []int{0, 0, 3, 3, 6, 6, 9}[max(n, 1)-1]
				if inLines {
					next = []int{0, 0, 4, 4, 4, 8, 9}[c.rows-1]
				}
			}
			if first != next {
				t.Errorf("stopped at %+v: goes on after %d images, want %d", c, first, next)
			}
			for name, content := range files(t, again.Dir) {
				if content != want[name] {
					t.Errorf("stopped at %+v, in lines %t: %s differs", c, inLines, name)
				}
			}
		}
		if inLines {
			continue
		}
		wider := string(numpy.Header(7, 192)) + strings.Repeat(want[valuesFile][128:], 2)
		if err := os.WriteFile(filepath.Join(whole.Dir, valuesFile), []byte(wider), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(whole.Dir); err == nil || !strings.Contains(err.Error(), "shape [7 192], want <f4 [n, 96]") {
			t.Errorf("numbers of another width are read: %v", err)
		}
	}
}

func TestFeaturesOfAnotherModelOrListAreNotResumed(t *testing.T) {
	dir, m := folder(t), demo(t, 4)
	l := gomlxtest.Must(Folder(dir))(t)
	job := Job{Model: m, List: l, Dir: t.TempDir()}
	gomlxtest.Must(job.Run(t.Context()))(t)
	want := files(t, job.Dir)
	unlock := gomlxtest.Must(checkpoints.Lock(job.Dir))(t)
	if table, err := job.Run(t.Context()); err == nil {
		t.Errorf("two processes write into one directory: %v", table)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	other := gomlxtest.Must(m.With("model.depth=2"))(t)
	defer other.Finalize()
	gomlxtest.Must(other.Embed(filepath.Join(dir, "cat", "a.png")))(t) // draws its weights
	for name, change := range map[string]func(*Job){
		"another model": func(j *Job) { j.Model = other },
		"another list":  func(j *Job) { j.List = l.Thin(5) },
		"another kind":  func(j *Job) { j.Of = ofMean },
		"another form":  func(j *Job) { j.JSON = true },
	} {
		changed := job
		change(&changed)
		if _, err := changed.Run(t.Context()); err == nil || !strings.Contains(err.Error(), job.Dir) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, content := range files(t, job.Dir) {
		if content != want[name] {
			t.Errorf("%s has changed", name)
		}
	}
}

func TestFeaturesOfOtherImagesWithTheSameNamesAreNotResumed(t *testing.T) {
	pictures := func(seed uint64) *List {
		tree := map[string][]byte{}
		for i := range 3 {
			tree[fmt.Sprintf("cat/%d.png", i)] = datatest.PNG(drawn(seed+uint64(i), 9, 9))
		}
		return gomlxtest.Must(Folder(datatest.Tree(t, tree)))(t)
	}
	job := Job{Model: demo(t, 4), List: pictures(0), Dir: t.TempDir()}
	gomlxtest.Must(job.Run(t.Context()))(t)
	moved := job
	moved.List = pictures(0)
	gomlxtest.Must(moved.Run(t.Context()))(t)
	other := job
	other.List = pictures(100)
	if _, err := other.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "other images with the names") {
		t.Errorf("other pixels: %v", err)
	}
	path := filepath.Join(job.Dir, stateFile) // as earlier versions wrote it
	state := strings.Replace(string(gomlxtest.Must(os.ReadFile(path))(t)), `"contents"`, `"unknown"`, 1)
	if err := os.WriteFile(path, []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
	gomlxtest.Must(job.Run(t.Context()))(t)

	contents := map[string]bool{}
	for range 2 { // any one pixel of any image of a dataset in memory
		train, _, err := data.Shapes("where", 40, 8, 16, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(contents) > 0 {
			train.Row(7)[5] ^= 1
		}
		s := &List{Name: "shapes"}
		s.AddSet("train", train)
		contents[s.contents()] = true
	}
	if len(contents) != 2 {
		t.Error("another pixel in memory is not noticed")
	}
}

// The sizes of all files count, and the pixels of 16 from the first to the last.
func TestTheContentsOfAListAreItsSizesAndSomePixels(t *testing.T) {
	contents := func(file string) string { // that cannot be decoded
		return gomlxtest.Must(Folder(datatest.Tree(t, map[string][]byte{"a.png": []byte(file)})))(t).contents()
	}
	if of := contents("abc"); contents("abd") != of || contents("abcd") == of {
		t.Error("contents of files without pixels are not those of their sizes")
	}
	for n, want := range map[int]string{
		1: "[0]", 2: "[0 1]", 16: "[0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15]",
		17: "[0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 16]", 47: "[0 3 6 9 12 15 18 21 24 27 30 33 36 39 42 46]",
	} {
		l, read := &List{}, []int{}
		for i := range n {
			l.read = append(l.read, func() (*data.Image, error) {
				read = append(read, i)
				return &data.Image{}, nil
			})
		}
		if l.contents(); fmt.Sprint(read) != want {
			t.Errorf("of %d images are read %v, want %s", n, read, want)
		}
	}
}

func TestModelsWithoutFeaturesAreRefusedInOneLine(t *testing.T) {
	m := demo(t, 4)
	empty := t.TempDir()
	if _, err := Folder(empty); err == nil || !strings.Contains(err.Error(), "no images in "+empty) {
		t.Errorf("an empty folder: %v", err)
	}
	mixed := datatest.Tree(t, map[string][]byte{"train/cat/1.png": nil, "val/cat/1.png": nil, "unlabelled/1.png": nil})
	if _, err := Folder(mixed); !errors.Is(err, data.ErrSplits) || !strings.Contains(err.Error(), "unlabelled") {
		t.Errorf("splits beside another folder: %v", err)
	}
	damaged := gomlxtest.Must(Folder(datatest.Tree(t, map[string][]byte{"a.png": []byte("a"), "b.png": nil})))(t)
	for name, c := range map[string]struct {
		job  Job
		want string
	}{
		"all damaged":     {Job{Model: m, List: damaged}, "none of the 2 images"},
		"nothing listed":  {Job{Model: m, List: &List{Name: "nothing"}}, "no images in nothing"},
		"an unknown kind": {Job{Model: m, List: damaged, Of: "patches"}, `"patches"`},
	} {
		c.job.Dir = t.TempDir()
		if _, err := c.job.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Read(empty); err == nil || !strings.Contains(err.Error(), "no features in") {
		t.Errorf("nothing there: %v", err)
	}
}

func TestAModelWithoutClassTokenHasTheMeanAlone(t *testing.T) {
	dir := folder(t)
	l := gomlxtest.Must(Folder(dir))(t)
	for _, settings := range []string{"model.pool=mean", "model.pool=mean;model.registers=2"} {
		m := gomlxtest.Must(demo(t, 4).With(settings))(t)
		t.Cleanup(m.Finalize)
		gomlxtest.Must(m.Embed(filepath.Join(dir, "cat", "a.png")))(t) // draws its weights
		job := Job{Model: m, List: l}
		if _, err := job.begin(); err != nil || job.Of != ofMean {
			t.Errorf("%s: features of %q, %v", settings, job.Of, err)
		}
		for _, of := range []string{ofClass, ofBoth} {
			job.Of = of
			if _, err := job.begin(); err == nil || !strings.Contains(err.Error(), "no class token") {
				t.Errorf("%s: of %s: %v", settings, of, err)
			}
		}
	}
}

func TestNothingIsLoggedOfAListWithoutDamage(t *testing.T) {
	l := gomlxtest.Must(Folder(datatest.Tree(t, map[string][]byte{"a.png": datatest.PNG(drawn(1, 5, 7))})))(t)
	var logged strings.Builder
	job := Job{Model: demo(t, 4), List: l, Dir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&logged, nil))}
	for range 2 {
		gomlxtest.Must(job.Run(t.Context()))(t)
	}
	if logged.Len() > 0 {
		t.Errorf("logged %s", &logged)
	}
	job.logUnread(strings.Fields("a b c d e f g h i j"))
	if !strings.HasSuffix(logged.String(), "skipped 10 of 1 images of "+l.Name+": a, b, c, d, e, f, g, h, i, j\"\n") {
		t.Errorf("logged %s", &logged)
	}
	job.logUnread(strings.Fields("a b c d e f g h i j k l m"))
	if !strings.Contains(logged.String(), "skipped 13 of 1 images of "+l.Name+": a, b, c, d, e, f, g, h, i, j and 3 "+
		"more, see") {
		t.Errorf("logged %s", &logged)
	}
}

// table is features in a plane: class c at the angle of a third of a turn times c, with some noise.
func table(n, classes int, noise float64, parts bool) *Table {
	t, r := &Table{Name: "made", Width: 2}, rand.New(rand.NewPCG(7, 11))
	for i := range n {
		c := i % classes
		p := Image{File: fmt.Sprintf("%02d.png", i), Class: string(rune('a' + c))}
		if p.Part = ""; parts {
			p.Part = []string{trainPart, trainPart, testPart}[i/classes%3]
		}
		angle := 2*math.Pi*float64(c)/float64(classes) + noise*r.NormFloat64()
		length := 1 + r.Float64()
		t.Images = append(t.Images, p)
		t.Values = append(t.Values, float32(length*math.Cos(angle)), float32(length*math.Sin(angle)))
	}
	return t
}

func TestSeparableClassesAreClassified(t *testing.T) {
	for _, parts := range []bool{false, true} {
		made := table(53, 5, 0.05, parts)
		known, asked := 53, 53
		if parts {
			known, asked = 38, 15 // five images with ten queries each; the last three are training images
		}
		for _, k := range []int{1, 6, 1000} { // more neighbours than a class has, and than there are points
			a := gomlxtest.Must(made.KNN(k, 0.07))(t)
			if a.Top1 < 1-1e-9 || a.Train != known || a.Test != asked || a.Classes != 5 {
				t.Errorf("k = %d: %+v", k, a)
			}
		}
		a, tried, err := probe(made, 0)
		if err != nil || a.Top1 < 1-1e-9 || len(tried) != 6 || a.Train+a.Test != 53 {
			t.Errorf("probe: %+v, %+v, %v", a, tried, err)
		}
		for _, try := range tried {
			if try.Gradient > 1e-4 {
				t.Errorf("L2 %g ended with a gradient of %g after %d steps", try.L2, try.Gradient, try.Steps)
			}
		}
	}
}

func TestConstantFeaturesContainNoInformation(t *testing.T) {
	same := table(31, 3, 0, false)
	for i := range same.Values {
		same.Values[i] = 2.5
	}
	// The probe is right about the most frequent class, which has few more images than the others.
	if a := gomlxtest.Must(same.KNN(20, 0.07))(t); a.Top1 > 0.5 {
		t.Errorf("neighbours: %+v", a)
	}
	if a, _, err := probe(same, 0); err != nil || a.Top1 > 0.5 {
		t.Errorf("probe: %+v, %v", a, err)
	}
	alone := table(7, 7, 0, false) // a class for each image: the nearest is always of another
	if a := gomlxtest.Must(alone.KNN(20, 0.07))(t); a.Top1 != 0 {
		t.Errorf("classes of one: %+v", a)
	}
	if _, _, err := probe(alone, 0); err == nil || !strings.Contains(err.Error(), "too few images") {
		t.Errorf("a probe of classes of one: %v", err)
	}
	one, unnamed, untested := table(5, 1, 0, false), table(5, 5, 0, false), table(2, 2, 0, true)
	broken, endless, untrained := table(31, 3, 0, false), table(31, 3, 0, false), table(2, 2, 0, true)
	for i := range untrained.Images {
		untrained.Images[i].Part = testPart
	}
	broken.Values[5], endless.Values[8] = float32(math.NaN()), float32(math.Inf(-1))
	unnamed.Images[3].Class = ""
	for name, c := range map[string]struct {
		table *Table
		want  string
	}{
		"one class":             {one, "of one class"},
		"a image without class": {unnamed, "03.png"},
		"no test":               {untested, "2 training images of made and 0 test images"},
		"no training":           {untrained, "0 training images of made and 2 test images"},
		"NaN":                   {broken, "02.png of made has features that are not finite"},
		"-Inf":                  {endless, "04.png of made has features that are not finite"},
	} {
		_, err := c.table.KNN(20, 0.07)
		_, _, again := probe(c.table, 0)
		for _, err := range []error{err, again} {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	untested.Images[1].Part = testPart
	if got, err := untested.KNN(1, 0.07); err != nil || got != (Score{Train: 1, Test: 1, Classes: 2, Top5: 1}) {
		t.Errorf("an image of one class by one of another: %+v, %v", got, err)
	}
	for name, err := range map[string]error{
		"no neighbours":  second(alone.KNN(0, 0.07)),
		"no temperature": second(alone.KNN(5, 0)),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestTop5HasTheFifthAndNotTheSixthOfSevenClasses(t *testing.T) {
	s := split{classes: 7, labels: []int{2, 3}}
	scores := [][]float32{{7, 6, 3, 5, 4, 2, 1}, {7, 6, 5, 2, 4, 3, 1}} // ranks 5 and 6
	if got := s.measure(nil, []int{0, 1}, scores); got.Top1 != 0 || got.Top5 != 0.5 {
		t.Errorf("%+v", got)
	}
	s.classes, scores = 3, [][]float32{{1, 2, float32(math.NaN())}, {1, 2, 0}} // of three, the last and no number
	s.labels = []int{2, 2}
	if got := s.measure(nil, []int{0, 1}, scores); got.Top1 != 0 || got.Top5 != 0.5 {
		t.Errorf("of three classes: %+v", got)
	}
}

func second(_ Score, err error) error { return err }

// probe is Table.Probe with the strengths that it tries.
func probe(made *Table, seed uint64) (score Score, tried []Tried, err error) {
	score, err = made.Probe(seed, func(t Tried) { tried = append(tried, t) })
	return score, tried, err
}

// Scores recomputed in float64: the classes of 7 overlap, so that neither 0 nor all are right.
func TestScoresOfNeighboursAndProbeAreCountedByTheirDefinitions(t *testing.T) {
	const classes, k, temperature = 7, 9, 0.07
	made := table(103, classes, 0.7, true)
	s := gomlxtest.Must(made.split())(t)
	count := func(scores func(row int) []float64) (top1, top5 float64) {
		for _, row := range s.test {
			before, of := 0, scores(row)
			for c, v := range of {
				if c != s.labels[row] && v >= of[s.labels[row]] {
					before++
				}
			}
			if before == 0 {
				top1 += 1 / float64(len(s.test))
			}
			if before < 5 {
				top5 += 1 / float64(len(s.test))
			}
		}
		return top1, top5
	}
	same := func(what string, got Score, top1, top5 float64) {
		if !(math.Abs(got.Top1-top1) <= 1e-9) || !(math.Abs(got.Top5-top5) <= 1e-9) || top1 == top5 || top5 == 1 {
			t.Errorf("%s: %+v, want top-1 %g and top-5 %g", what, got, top1, top5)
		}
	}
	top1, top5 := count(func(row int) []float64 {
		cosine := func(other int) float64 {
			a, b := made.Vector(row), made.Vector(other)
			return float64(a[0]*b[0]+a[1]*b[1]) / math.Hypot(float64(a[0]), float64(a[1])) /
				math.Hypot(float64(b[0]), float64(b[1]))
		}
		near := slices.SortedFunc(slices.Values(s.train), func(a, b int) int { return cmp.Compare(cosine(b), cosine(a)) })
		votes := make([]float64, classes)
		for _, other := range near[:k] {
			votes[s.labels[other]] += math.Exp(cosine(other) / temperature)
		}
		return votes
	})
	same("neighbours", gomlxtest.Must(made.KNN(k, temperature))(t), top1, top5)

	probed := &Table{Width: 2, Images: slices.Clone(made.Images), Values: slices.Clone(made.Values)}
	for i := range len(probed.Images) {
		probed.Values[2*i], probed.Values[2*i+1] = 5+3*probed.Values[2*i], 0.2*probed.Values[2*i+1]-1
	}
	plain, triedPlain, err := probe(made, 3)
	if err != nil {
		t.Fatal(err)
	}
	score, tried, err := probe(probed, 3)
	if err != nil || score != plain {
		t.Errorf("moved and scaled: %+v, %v, want %+v", score, err, plain)
	}
	best := triedPlain[0]
	for i, try := range triedPlain {
		if l2 := math.Pow(10, -float64(i)); !(math.Abs(try.L2-l2) <= 1e-12*l2) {
			t.Errorf("strength %d is %g, want %g", i, try.L2, l2)
		}
		if try.Top1 > best.Top1 {
			best = try
		}
		if tried[i].Top1 != try.Top1 {
			t.Errorf("L2 %g: %g and %g", try.L2, tried[i].Top1, try.Top1)
		}
	}
	var mean, deviation [2]float64
	for axis := range 2 {
		for _, row := range s.train {
			mean[axis] += float64(made.Vector(row)[axis]) / float64(len(s.train))
		}
		for _, row := range s.train {
			deviation[axis] += math.Pow(float64(made.Vector(row)[axis])-mean[axis], 2) / float64(len(s.train))
		}
	}
	scaled := func(rows []int) (out []float64) {
		for _, row := range rows {
			for axis, v := range made.Vector(row) {
				out = append(out, (float64(v)-mean[axis])/math.Sqrt(deviation[axis]))
			}
		}
		return out
	}
	fit := gomlxtest.Must(numeric.LogisticRegression(scaled(s.train), s.of(s.train), classes, best.L2, 1e-6, nil))(t)
	top1, top5 = count(func(row int) (scores []float64) {
		for _, v := range fit.Scores(scaled([]int{row}))[0] {
			scores = append(scores, float64(v))
		}
		return scores
	})
	same("probe", plain, top1, top5)
}

func TestTable_NearestRefusals(t *testing.T) {
	l := gomlxtest.Must(Folder(folder(t)))(t)
	of := func(files ...string) *Table {
		made := &Table{Width: 2}
		for i, file := range files {
			made.Images, made.Values = append(made.Images, Image{File: file}), append(made.Values, float32(i), 1)
		}
		return made
	}
	first, second := l.Images[0].File, l.Images[1].File
	for _, c := range []struct {
		of         *Table
		queries, k int
		refused    bool
	}{
		{of(first, second), 1, 1, false}, {of(first), 3, 2, true}, {of(first, second), 0, 1, true},
		{of(first, second), 1, 0, true}, {of(first, "cat/b.png"), 1, 1, true}, // cannot be read
		{of("elsewhere.png", second), 1, 1, true},
	} {
		if _, err := c.of.Nearest(l, c.queries, c.k); (err != nil) != c.refused {
			t.Errorf("%d images beside %d of %v: %v", c.queries, c.k, c.of.Images, err)
		}
	}
	if page := gomlxtest.Must(of(first, second).Nearest(l, 3, 100))(t); len(page.Sections) != 2 ||
		len(page.Sections[0].Images) != 2 {
		t.Errorf("all images beside all others: %+v", page.Sections)
	}
}

func TestThumbnailsKeepTheirAspectAndAreAtMost160PixelsLong(t *testing.T) {
	for size, want := range map[[2]int][2]int{{200, 320}: {100, 160}, {500, 250}: {160, 80}, {160, 31}: {160, 31},
		{7, 9}: {7, 9}, {2, 1000}: {1, 160}, {1000, 2}: {160, 1}} {
		content := gomlxtest.Must(thumbnail(data.FromImage(drawn(1, size[0], size[1]))))(t)
		small := gomlxtest.Must(png.DecodeConfig(bytes.NewReader(content)))(t)
		if got := [2]int{small.Height, small.Width}; got != want {
			t.Errorf("%v becomes %v, want %v", size, got, want)
		}
	}
}

func TestColoursAreTheFirstThreeAxesAndTheMarginIsBehind(t *testing.T) {
	// Two images of 3×5 patches. The centre stands out along one component; three more vary only there.
	const width = 7
	var points []float64
	var margin []bool
	for i := range 30 {
		p := make([]float64, width)
		row, col := i%15/5, i%5
		margin = append(margin, row == 0 || row == 2 || col == 0 || col == 4)
		if !margin[i] {
			p[2] = -50
			p[0], p[5], p[6] = 10*float64(col-2), float64(i/15), 0.1*float64(i%7)
		}
		points = append(points, p...)
	}
	shown, colours, err := colour(points, margin, true)
	if err != nil || fmt.Sprint(shown) != "[6 7 8 21 22 23]" {
		t.Fatalf("in front are %v, %v", shown, err)
	}
	for i := range points { // the sign of an axis is arbitrary: the margin decides
		points[i] = -points[i]
	}
	if other, _, err := colour(points, margin, true); err != nil || !slices.Equal(other, shown) {
		t.Errorf("of the negative in front are %v, %v", other, err)
	}
	two, few := slices.Clone(margin), slices.Clone(points) // two patches in front have an axis
	for i := range two {
		two[i] = two[i] || i != 7 && i != 22
		if margin[i] != two[i] {
			copy(few[i*width:(i+1)*width], make([]float64, width))
		}
	}
	if other, _, err := colour(few, two, true); err != nil || fmt.Sprint(other) != "[7 22]" {
		t.Errorf("of two in front are %v, %v", other, err)
	}
	const first = 6 // and the order of the patches is, too
	points = slices.Concat(points[first*width:], points[:first*width])
	moved := slices.Concat(margin[first:], margin[:first])
	if other, _, err := colour(points, moved, true); err != nil || fmt.Sprint(other) != "[0 1 2 15 16 17]" {
		t.Errorf("in another order in front are %v, %v", other, err)
	}
	points = slices.Concat(points[(30-first)*width:], points[:(30-first)*width])
	// The first axis of the foreground is the column: its ends have the extreme reds, its centre the middle.
	reds := []int{int(colours[0].R), int(colours[1].R), int(colours[2].R)}
	if slices.Min(reds[:]) > 2 || slices.Max(reds[:]) < 253 || reds[1] < 120 || reds[1] > 135 || reds[1] == reds[0] {
		t.Errorf("red %v", reds)
	}
	if d := int(colours[0].G) - int(colours[3].G); d*d < 200*200 {
		t.Errorf("the second axis is the image: green %d and %d", colours[0].G, colours[3].G)
	}
	all, _, err := colour(points, margin, false)
	if err != nil || len(all) != 30 {
		t.Errorf("%d patches, %v", len(all), err)
	}
	if _, same, err := colour(make([]float64, 30*width), margin, false); err != nil || same[4].R != 0 {
		t.Errorf("constant patches: %v, %v", same, err)
	}
	if _, _, err := colour([]float64{1, 2}, []bool{true}, false); err == nil {
		t.Error("a single patch has axes")
	}
	_, _, err = colour(make([]float64, 30*width), margin, true)
	if err == nil || !strings.Contains(err.Error(), "0 of 30") {
		t.Errorf("nothing in front: %v", err)
	}
}

func TestTheMarginIsTheOuterPatches(t *testing.T) {
	const x = true
	want := []bool{x, x, x, x, x, false, false, x, x, x, x, x}
	if got := marginOf(3, 4); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestPCAVisualizationOfAModelsImages(t *testing.T) {
	dir := folder(t)
	m, l := demo(t, 4), gomlxtest.Must(Folder(dir))(t)
	rows := make([]int, len(l.Images))
	for i := range rows {
		rows[i] = i
	}
	coloured, err := PCA(m, l, rows, false)
	unread := finetune.Unread{}
	if !errors.As(err, &unread) || len(unread) != 2 || len(coloured) != 7 {
		t.Fatalf("%d images, %v", len(coloured), err)
	}
	var low, high [3]uint8
	low = [3]uint8{255, 255, 255}
	for _, c := range coloured {
		if b := c.Patches.Bounds(); b.Dx() != 6 || b.Dy() != 6 || c.Seen.Bounds().Dx() != 24 {
			t.Errorf("%v patches of %v pixels", b, c.Seen.Bounds())
		}
		for i, v := range c.Patches.Pix {
			if k := i % 4; k < 3 {
				low[k], high[k] = min(low[k], v), max(high[k], v)
			} else if v != 255 {
				t.Errorf("alpha %d", v)
			}
		}
	}
	if low != [3]uint8{} || high != [3]uint8{255, 255, 255} {
		t.Errorf("colours from %v to %v, want the whole range over all images", low, high)
	}
	front, err := PCA(m, l, rows, true)
	if !errors.As(err, &unread) || len(front) != 7 {
		t.Fatalf("%d images, %v", len(front), err)
	}
	var points []float64
	var margin []bool
	for _, c := range front {
		f := gomlxtest.Must(m.Embed(filepath.Join(dir, c.Image.File)))(t)[0]
		for _, v := range f.Patches {
			points = append(points, float64(v))
		}
		for p := range 36 {
			margin = append(margin, p < 6 || p >= 30 || p%6 == 0 || p%6 == 5)
		}
	}
	inFront, colours, err := colour(points, margin, true)
	if err != nil {
		t.Fatal(err)
	}
	black := 0
	for k, p := range inFront {
		if got := front[p/36].Patches.RGBAAt(p%6, p%36/6); got != colours[k] {
			t.Fatalf("patch %d of image %d is %v, want %v", p%36, p/36, got, colours[k])
		}
	}
	for _, c := range front {
		for i := 0; i < len(c.Patches.Pix); i += 4 {
			if c.Patches.Pix[i+3] != 255 {
				t.Fatal("a patch that is not in front is transparent")
			}
			if c.Patches.Pix[i] == 0 && c.Patches.Pix[i+1] == 0 && c.Patches.Pix[i+2] == 0 {
				black++
			}
		}
	}
	if black < 7*36/10 {
		t.Errorf("%d patches are behind", black)
	}
	clear(unread)
	if one, err := PCA(m, l, []int{0, 2}, false); !errors.As(err, &unread) || len(unread) != 1 || unread[1] == nil ||
		len(one) != 1 {
		t.Errorf("of two images, the second damaged: %d images, %v", len(one), err)
	}
	damaged := gomlxtest.Must(Folder(datatest.Tree(t, map[string][]byte{"a.png": []byte("a")})))(t)
	_, err = PCA(m, damaged, []int{0}, false)
	if err == nil || !strings.Contains(err.Error(), "none of the images") {
		t.Errorf("all damaged: %v", err)
	}
}

func TestAListHasTheSplitsOfItsImages(t *testing.T) {
	png := datatest.PNG(drawn(1, 3, 5))
	dir := datatest.Tree(t, map[string][]byte{"train/x/1.png": png, "train/y/2.png": png, "train/y/3.png": png,
		"val/y/1.png": png})
	l := gomlxtest.Must(Folder(dir))(t)
	if got := fmt.Sprint(l.Images); got != "[{train/x/1.png x train} {train/y/2.png y train} {train/y/3.png y train} "+
		"{val/y/1.png y test}]" {
		t.Error(got)
	}
	three := gomlxtest.Must(Folder(datatest.Tree(t, map[string][]byte{"train/x/1.png": png, "train/y/2.png": png,
		"val/y/3.png": png, "test/x/4.png": png})))(t)
	if got := fmt.Sprint(three.Images); got != "[{train/x/1.png x train} {train/y/2.png y train} "+
		"{val/y/3.png y validation} {test/x/4.png x test}]" {
		t.Error(got)
	}
	table := Table{Images: three.Images, Width: 1, Values: []float32{3, 5, 7, 2}}
	if s := gomlxtest.Must(table.split())(t); !slices.Equal(s.train, []int{0, 1}) || !slices.Equal(s.test, []int{3}) {
		t.Errorf("train %v, test %v", s.train, s.test)
	}
	flat := gomlxtest.Must(Folder(filepath.Join(dir, "train")))(t)
	if l.Name != filepath.Base(dir) || flat.Name != "train" {
		t.Errorf("lists of %s and its folder train are named %s and %s", dir, l.Name, flat.Name)
	}
	one := List{Images: []Image{{File: "a b.png", Class: "x", Part: "train"}}} // as in the states of unfinished jobs
	if got, want := one.fingerprint(), fmt.Sprintf("%x", sha256.Sum256([]byte("\"a b.png\" \"x\" "+
		"\"train\"\n"))); got != want {
		t.Errorf("fingerprint %s, want %s", got, want)
	}
	train, test, err := data.Shapes("where", 23, 11, 16, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := &List{Name: "shapes"}
	s.AddSet(trainPart, train)
	s.AddSet(testPart, test)
	thin := s.Thin(5)
	var numbers []string
	for _, p := range thin.Images {
		numbers = append(numbers, p.Part+p.File[len(p.File)-2:])
	}
	if got := fmt.Sprint(numbers); got != "[train00 train04 train09 train13 train18 test00 test02 test04 test06 test08]" {
		t.Error(got)
	}
	img := gomlxtest.Must(thin.Read(6))(t)
	if !slices.Equal(img.Pixels[:3], slices.Repeat(test.Row(2)[:1], 3)) || img.Height != 16 {
		t.Errorf("a image of %d rows begins with %v", img.Height, img.Pixels[:3])
	}
	for n, want := range map[int]int{11: 22, 23: 34, 1000: 34, 1: 2} {
		if got := len(s.Thin(n).Images); got != want {
			t.Errorf("at most %d of each part are %d, want %d", n, got, want)
		}
	}
}

// The classes are in the difference of two axes that are nearly equal, which takes large weights; of few images with
// many axes of noise, weights that are too large fit these. So each strength has another accuracy.
func TestAProbeHasTheStrengthThatIsBestOnTheValidationSplit(t *testing.T) {
	const width, classes, n = 101, 3, 700
	made, r := &Table{Name: "made", Width: width}, rand.New(rand.NewPCG(2, 9))
	for i := range n {
		p := Image{File: fmt.Sprint(i), Part: []string{trainPart, testPart}[i/classes%2],
			Class: string(rune('a' + i%classes))}
		made.Images = append(made.Images, p)
		shared := r.NormFloat64()
		made.Values = append(made.Values, float32(shared), float32(shared+0.2*float64(i%classes)+0.1*r.NormFloat64()))
		for range width - 2 {
			made.Values = append(made.Values, float32(r.NormFloat64()))
		}
	}
	score, tried, err := probe(made, 1)
	if err != nil {
		t.Fatal(err)
	}
	s := gomlxtest.Must(made.split())(t)
	fitted, held := s.holdOut(s.train, 0.2, rand.New(rand.NewPCG(1, 0))) // the seed's
	by, best := made.scale(fitted), 0
	fit := gomlxtest.Must(numeric.LogisticRegression(by.apply(made.rows(fitted)), s.of(fitted), classes, tried[0].L2,
		probeTolerance, nil))(t)
	if want := s.measure(fitted, held, fit.Scores(by.apply(made.rows(held)))).Top1; tried[0].Top1 != want {
		t.Errorf("top-1 %g on the validation split, want %g", tried[0].Top1, want)
	}
	by = made.scale(s.train)
	var top1 []float64
	for i, try := range tried {
		fit := gomlxtest.Must(numeric.LogisticRegression(by.apply(made.rows(s.train)), s.of(s.train), classes, try.L2,
			probeTolerance, nil))(t)
		top1 = append(top1, s.measure(s.train, s.test, fit.Scores(by.apply(made.rows(s.test)))).Top1)
		if try.Top1 > tried[best].Top1 {
			best = i
		}
	}
	for i, v := range top1 {
		if off := math.Abs(score.Top1 - v); i == best && !(off < 0.01) || i != best && !(off > 0.02) {
			t.Errorf("top-1 %g, of strengths %v, on the validation split %+v", score.Top1, top1, tried)
		}
	}
}

// A probe is chosen, scaled and fitted only on the training images. So its predictions for one group of queries do not
// depend on another group, far away and mislabelled.
func TestAShareOfEachClassIsHeldOutButNeverAll(t *testing.T) {
	var s split
	s.classes = 4
	sizes := []int{1, 2, 8, 10}
	var rows []int
	for class, n := range sizes {
		for range n {
			rows, s.labels = append(rows, len(rows)), append(s.labels, class)
		}
	}
	for share, want := range map[float64][]int{0.2: {0, 0, 2, 2}, 0.9: {0, 1, 7, 9}} {
		kept, held := s.holdOut(rows, share, rand.New(rand.NewPCG(1, 2)))
		got := make([]int, 4)
		for _, row := range held {
			got[s.labels[row]]++
		}
		if all := slices.Sorted(slices.Values(slices.Concat(kept, held))); !slices.Equal(got, want) || !slices.Equal(all,
			rows) {
			t.Errorf("share %g: %v of %v are held out, want %v; rows %v", share, got, sizes, want, all)
		}
	}
	if got, want := (Score{Train: 7, Test: 5, Classes: 6, Top1: 0.4, Top5: 0.625}).String(),
		"top-1 40.00 %  top-5 62.50 %  of 5 images, 7 training images, 6 classes"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAProbeDoesNotDependOnItsQueries(t *testing.T) {
	const width, classes = 7, 3
	r := rand.New(rand.NewPCG(5, 3))
	made := func(part string, n int, scale float64, shift int) (t Table) {
		for i := range n {
			class := i % classes
			t.Images = append(t.Images, Image{File: fmt.Sprint(part, shift, i), Part: part,
				Class: string(rune('a' + (class+shift)%classes))})
			for k := range width {
				v := r.NormFloat64()
				if k == class {
					v += 1.5
				}
				t.Values = append(t.Values, float32(scale*v+float64(k)*(scale-1)))
			}
		}
		return t
	}
	known, near, wild := made(trainPart, 83, 1, 0), made(testPart, 41, 1, 0), made(testPart, 59, 300, 1)
	probed := func(parts ...Table) (Score, []Tried) {
		all := Table{Name: "made", Width: width}
		for _, p := range parts {
			all.Images, all.Values = append(all.Images, p.Images...), append(all.Values, p.Values...)
		}
		answer, tried, err := probe(&all, 1)
		if err != nil {
			t.Fatal(err)
		}
		return answer, tried
	}
	first, tried := probed(known, near)
	second, again := probed(known, wild)
	both, third := probed(known, near, wild)
	if !slices.Equal(tried, again) || !slices.Equal(tried, third) {
		t.Errorf("what is tried depends on what is asked:\n%v\n%v\n%v", tried, again, third)
	}
	if right := first.Top1*41 + second.Top1*59; !(math.Abs(both.Top1*100-right) <= 1e-6) || first.Top1 == second.Top1 {
		t.Errorf("%g and %g of each group, but %g of 100 together", first.Top1*41, second.Top1*59, both.Top1*100)
	}
}
