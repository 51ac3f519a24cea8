// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package features

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// The weight of the last LayerNorm is NaN for one channel.
func TestFeaturesOfAModelThatDivergedAreRefused(t *testing.T) {
	for channel, kinds := range map[int][]string{5: {ofClass, ofMean, ofBoth}, 0: {ofClass}} {
		refusesDiverged(t, channel, kinds)
	}
}

func refusesDiverged(t *testing.T, channel int, kinds []string) {
	t.Helper()
	files := map[string][]byte{}
	for _, name := range []string{"config.json", "model.safetensors", "preprocessor_config.json"} {
		files[name] = gomlxtest.Must(os.ReadFile("../../examples/cifar100/demo/vit/" + name))(t)
	}
	weights := files["model.safetensors"]
	data := 8 + int(binary.LittleEndian.Uint64(weights))
	var header map[string]struct {
		At [2]int `json:"data_offsets"`
	}
	if err := json.Unmarshal(weights[8:data], &header); err != nil {
		t.Fatal(err)
	}
	at := data + header["vit.layernorm.weight"].At[0] + 4*channel
	binary.LittleEndian.PutUint32(weights[at:], math.Float32bits(float32(math.NaN())))
	m := gomlxtest.Must(finetune.Open(gomlxtest.Backend(), datatest.Tree(t, files)))(t)
	defer m.Finalize()
	l := gomlxtest.Must(Folder(folder(t)))(t)
	job := Job{Model: m, List: l}
	want := fmt.Sprintf("number %d of top.png is NaN: the model diverged", channel)
	for _, of := range kinds {
		job.Of, job.Dir = of, t.TempDir()
		if _, err := job.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", of, err)
		}
		if _, err := Read(job.Dir); err == nil || !strings.Contains(err.Error(), "are incomplete") {
			t.Errorf("%s: %v", of, err)
		}
	}
	if _, err := PCA(m, l, []int{0, 1, 3}, false); err == nil {
		t.Error("patches that are NaN have colours")
	}
}

// Each message names the file, or the directory and what to do.
func TestDamagedFeaturesAreRefusedByTheirFile(t *testing.T) {
	l := gomlxtest.Must(Folder(folder(t)))(t)
	m := demo(t, 4)
	whole := Job{Model: m, List: l, Dir: t.TempDir()}
	gomlxtest.Must(whole.Run(t.Context()))(t)
	inLines := Job{Model: m, List: l, JSON: true, Dir: t.TempDir()}
	gomlxtest.Must(inLines.Run(t.Context()))(t)
	withoutLast := func(s string) string { return s[:strings.LastIndex(s[:len(s)-1], "\n")+1] }
	for name, c := range map[string]struct {
		job    Job
		file   string
		change func(content string) string
		want   string
	}{
		"state": {whole, stateFile, func(string) string { return "{" }, "features.json: unexpected end of JSON input"},
		"line 3": {whole, rowsFile, func(s string) string { return strings.Replace(s, `"cat/c`, `1"cat/c`, 1) },
			"images.jsonl:3: invalid character"},
		"line missing": {whole, rowsFile, withoutLast,
			"has 6 images and 672 numbers, want 7 and 672: remove it"},
		"numbers missing": {inLines, rowsFile, withoutLast,
			"has 6 images and 576 numbers, want 7 and 672: remove it"},
		"no array": {whole, valuesFile, func(string) string { return "PK" }, "features.npy: "},
		"cut":      {whole, valuesFile, func(s string) string { return s[:len(s)-4] }, "features.npy: "},
		"integers": {whole, valuesFile, func(s string) string { return strings.Replace(s, "<f4", "<i4", 1) },
			"features.npy: type <i4, shape [7 96], want <f4 [n, 96]"},
	} {
		dir := t.TempDir()
		for file, content := range files(t, c.job.Dir) {
			if file == c.file {
				content = c.change(content)
			}
			if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		c.job.Dir = dir
		for again, read := range map[string]func() (*Table, error){
			"read": func() (*Table, error) { return Read(dir) },
			"run":  func() (*Table, error) { return c.job.Run(t.Context()) },
		} {
			_, err := read()
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("%s, %s: %v, want %q", name, again, err, c.want)
			}
		}
	}
	for _, file := range []string{rowsFile, valuesFile} {
		if err := os.Remove(filepath.Join(whole.Dir, file)); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(whole.Dir); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), file) {
			t.Errorf("no %s: %v", file, err)
		}
		if err := os.WriteFile(filepath.Join(whole.Dir, file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Of the images x, a, a and b the second batch, a and b, was written up to its first row.
func TestAnImageListedTwiceIsResumedAtItsPlace(t *testing.T) {
	all := gomlxtest.Must(Folder(folder(t)))(t)
	l := &List{Name: all.Name}
	for _, i := range []int{0, 1, 1, 3} {
		l.Images, l.read = append(l.Images, all.Images[i]), append(l.read, all.read[i])
	}
	job := Job{Model: demo(t, 2), List: l, Dir: t.TempDir()}
	gomlxtest.Must(job.Run(t.Context()))(t)
	want := files(t, job.Dir)
	s := gomlxtest.Must(readState(job.Dir))(t)
	if s.Rows != 4 {
		t.Fatalf("%d rows, want 4", s.Rows)
	}
	s.Rows = 0
	if err := s.write(job.Dir); err != nil {
		t.Fatal(err)
	}
	for name, whole := range map[string]int{
		rowsFile: len(strings.Join(strings.SplitAfter(want[rowsFile], "\n")[:3], "")), valuesFile: 128 + 3*4*s.Width,
	} {
		if err := os.Truncate(filepath.Join(job.Dir, name), int64(whole)); err != nil {
			t.Fatal(err)
		}
	}
	gomlxtest.Must(job.Run(t.Context()))(t)
	for name, content := range files(t, job.Dir) {
		if content != want[name] {
			t.Errorf("%s differs", name)
		}
	}
}

// On another backend a model may have another batch size: nothing is left to compute with it. An unfinished
// job needs its own.
func TestAFinishedJobMayHaveAnotherBatchSize(t *testing.T) {
	l := gomlxtest.Must(Folder(datatest.Tree(t, map[string][]byte{"a.png": datatest.PNG(drawn(1, 5, 7))})))(t)
	job := Job{Model: demo(t, 4), List: l, Dir: t.TempDir()}
	gomlxtest.Must(job.Run(t.Context()))(t)
	want := files(t, job.Dir)
	job.Model = demo(t, 3)
	if _, err := job.Run(t.Context()); err != nil || !reflect.DeepEqual(files(t, job.Dir), want) {
		t.Errorf("a finished job with another batch size: %v", err)
	}
	s := gomlxtest.Must(readState(job.Dir))(t)
	s.Rows = 0
	if err := s.write(job.Dir); err != nil {
		t.Fatal(err)
	}
	if _, err := job.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "class of 1 images in batches of 4") {
		t.Errorf("an unfinished job with another batch size: %v", err)
	}
}

func TestAFileNameThatJSONCannotHoldIsRefused(t *testing.T) {
	job := Job{Model: demo(t, 4), List: &List{Name: "l", Images: []Image{{File: "caf\xe9.png"}}}, Dir: t.TempDir()}
	if _, err := job.Run(t.Context()); err == nil || !strings.Contains(err.Error(), `"caf\xe9.png" is not UTF-8`) {
		t.Errorf("a Latin-1 name: %v", err)
	}
}

// Its process ended before the state was finished, or its numbers are lost.
func TestAJobOfOneImageIsResumedBehindIt(t *testing.T) {
	l := gomlxtest.Must(Folder(datatest.Tree(t, map[string][]byte{"a.png": datatest.PNG(drawn(1, 5, 7))})))(t)
	job := Job{Model: demo(t, 4), List: l, Dir: t.TempDir()}
	gomlxtest.Must(job.Run(t.Context()))(t)
	want := files(t, job.Dir)
	s := gomlxtest.Must(readState(job.Dir))(t)
	s.Rows = 0
	for lost, first := range map[int]int{0: 1, 4: 0, 4*96 + 28: 0} {
		if err := s.write(job.Dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(job.Dir, valuesFile), int64(len(want[valuesFile])-lost)); err != nil {
			t.Fatal(err)
		}
		at := -1
		job.Progress = func(done, _ int) {
			if at < 0 {
				at = done
			}
		}
		gomlxtest.Must(job.Run(t.Context()))(t)
		if at != first {
			t.Errorf("%d bytes are lost: goes on after %d images, want %d", lost, at, first)
		}
		for name, content := range files(t, job.Dir) {
			if content != want[name] {
				t.Errorf("%d bytes are lost: %s differs", lost, name)
			}
		}
	}
	job.Progress = func(int, int) { t.Error("a finished job is done again") }
	gomlxtest.Must(job.Run(t.Context()))(t)
}

func TestFilesThatCannotBeWrittenAreAnErrorThatNamesThem(t *testing.T) {
	l := gomlxtest.Must(Folder(folder(t)))(t)
	m := demo(t, 4)
	for _, name := range []string{rowsFile, valuesFile} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := (Job{Model: m, List: l, Dir: dir}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("a directory in its place: %v", err)
		}
	}

	path := filepath.Join(t.TempDir(), "values")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	readable := gomlxtest.Must(os.Open(path))(t)
	defer readable.Close()
	writable := gomlxtest.Must(os.Create(filepath.Join(t.TempDir(), "lines")))(t)
	defer writable.Close()
	numbers := output{lines: writable, values: readable, width: 1}
	rows := []line{{Image{File: "a.png"}, []float32{1}}}
	for operation, err := range map[string]error{
		"numbers": numbers.add(rows), "their number": numbers.finish(), "nothing": cut(readable, 0),
		"lines": (&output{lines: readable, width: 1}).add(rows),
	} {
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s are written into a file that is only readable: %v", operation, err)
		}
	}
	rows[0].Features[0] = float32(math.NaN())
	if err := (&output{lines: writable, width: 1}).add(rows); err == nil || !strings.Contains(err.Error(), "NaN") {
		t.Errorf("a line of NaN: %v", err)
	}
}

// The null device takes everything, but cannot be synced.
func TestFilesThatCannotBeSyncedAreAnError(t *testing.T) {
	null := gomlxtest.Must(os.OpenFile(os.DevNull, os.O_RDWR, 0))(t)
	defer null.Close()
	if null.Sync() == nil {
		t.Skip("the null device can be synced")
	}
	file := gomlxtest.Must(os.Create(filepath.Join(t.TempDir(), "file")))(t)
	defer file.Close()
	for operation, err := range map[string]error{
		"add":    (&output{lines: file, values: null, width: 1}).add(nil),
		"finish": (&output{lines: file, values: null, width: 1}).finish(),
		"lines":  (&output{lines: null, width: 1}).finish(),
	} {
		if err == nil || !strings.Contains(err.Error(), os.DevNull) {
			t.Errorf("%s: %v", operation, err)
		}
	}
}

// Also those of a job that cannot be resumed.
func TestTheFilesOfAnOutputAreClosed(t *testing.T) {
	dir := t.TempDir()
	out := &output{lines: gomlxtest.Must(os.Create(filepath.Join(dir, rowsFile)))(t)}
	out.close() // without numbers
	out.values = gomlxtest.Must(os.Create(filepath.Join(dir, valuesFile)))(t)
	out.close()
	for _, file := range []*os.File{out.lines, out.values} {
		if err := file.Close(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: %v", file.Name(), err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, rowsFile), []byte("{\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, _, err := (Job{List: &List{}, Dir: dir}).resume(state{Width: 1})
	if err == nil || out.lines == nil || out.values == nil {
		t.Errorf("%+v, %v: want open files and an error", out, err)
	}
	out.close()
}

func TestAJobWhoseLinesVanishIsNotFinished(t *testing.T) {
	job := Job{Model: demo(t, 4), List: gomlxtest.Must(Folder(folder(t)))(t), Dir: t.TempDir()}
	job.Progress = func(done, all int) {
		if done == all {
			_ = os.Remove(filepath.Join(job.Dir, rowsFile)) // noticed below
		}
	}
	_, err := job.Run(t.Context())
	if s := gomlxtest.Must(readState(job.Dir))(t); !errors.Is(err, fs.ErrNotExist) || s.Rows != 0 {
		t.Errorf("%v with %d rows in the state", err, s.Rows)
	}
}
