// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"fmt"
	"image"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// tarred writes the images of a dataset as files in two tar shards.
func tarred(t *testing.T, set *data.InMemory) *data.Files {
	t.Helper()
	var shards [2][][2]string
	for i := range set.Len() {
		img := image.NewNRGBA(image.Rect(0, 0, set.Width, set.Height))
		for k := range set.Width * set.Height {
			p := set.Row(i)[3*k:]
			img.Set(k%set.Width, k/set.Width, color.NRGBA{p[0], p[1], p[2], 255})
		}
		shard := &shards[2*i/set.Len()]
		*shard = append(*shard, [2]string{fmt.Sprintf("%03d.png", i), string(datatest.PNG(img))},
			[2]string{fmt.Sprintf("%03d.cls", i), fmt.Sprint(set.Labels[i])})
	}
	dir := datatest.Tree(t, map[string][]byte{"0.tar": datatest.Tar(shards[0]...), "1.tar": datatest.Tar(shards[1]...)})
	parts, _, err := data.Find(dir)
	gomlxtest.NoError(t, err)
	parts.Train.Classes = set.Classes
	return parts.Train
}

func streamOf(t *testing.T, f *data.Files, how data.Streaming) data.Dataset {
	t.Helper()
	set := gomlxtest.Must(f.Stream(preprocess.Settings{Resize: preprocess.ResizeExact, Size: [2]int{4, 6}}, how))(t)
	set.Describe().Name = "images"
	return set
}

func TestStream_TrainsAsMemory(t *testing.T) {
	gomlxtest.OnGo(t)
	run := saved(t, everything(), 47)
	run.Seed, run.Test = 5, dataset(9, 2)
	want := finished(t, run)
	for _, workers := range []int{1, 3} {
		run.Dir = t.TempDir()
		run.Train = streamOf(t, tarred(t, dataset(47, 1)), data.Streaming{Workers: workers})
		run.Test = streamOf(t, tarred(t, dataset(9, 2)), data.Streaming{Workers: workers})
		endsAs(t, fmt.Sprint(workers, " workers"), run, want)
	}
	m, row := done(t, run) // a second time
	gomlxtest.NoError(t, run.Page(m, row))
}

// container is the type of data.Files.In.
type container interface {
	Open(part int) (io.ReadCloser, error)
	Where(part int) string
}

// watched counts the reads of a container's parts, some of which are no images.
type watched struct {
	container
	broken []int
	mutex  sync.Mutex
	parts  map[int]int
}

func watch(f *data.Files, broken ...int) *watched {
	w := &watched{container: f.In, broken: broken, parts: map[int]int{}}
	f.In = w
	return w
}

func (w *watched) Open(part int) (io.ReadCloser, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.parts[part]++; slices.Contains(w.broken, part) {
		return io.NopCloser(strings.NewReader("no image")), nil
	}
	return w.container.Open(part)
}

// cropping is everything with random crops of larger images.
func cropping(t *testing.T) Recipe {
	return gomlxtest.Must(everything().Set("augment.pad=0;augment.crop_scale=[0.3,1];val_fraction=-1"))(t)
}

func TestStream_ResumesWithinAnEpochWithoutRereading(t *testing.T) {
	gomlxtest.OnGo(t)
	f, run := tarred(t, dataset(47, 1)), saved(t, cropping(t), 0)
	run.Seed, run.Train = 5, streamOf(t, f, data.Streaming{})
	want := finished(t, run)

	run.Dir = t.TempDir()
	stopped(t, run, 3) // of 7 in an epoch
	stopped(t, run, 12)
	counter := watch(f)
	endsAs(t, "resumed within epochs", run, want)
	wanted := map[int]int{} // steps 12 and 13 of the second epoch, and the third
	for _, row := range slices.Concat(data.Order(5, 1, 47, 1)[5*6:7*6], data.Order(5, 2, 47, 1)[:42]) {
		wanted[row]++
	}
	equal(t, "images that were left, and read", counter.parts, wanted)
}

func TestStream_ACutShardStopsARunWithEverythingSaved(t *testing.T) {
	gomlxtest.OnGo(t)
	for name, validation := range map[string]string{"training": "-1", "validation": "0.1"} {
		f := tarred(t, dataset(47, 1))
		run := saved(t, gomlxtest.Must(cropping(t).Set("grad_accum_steps=3;val_fraction="+validation))(t), 0)
		run.Seed, run.Train = 5, streamOf(t, f, data.Streaming{})
		want := finished(t, run)

		run.Dir = t.TempDir()
		shard := filepath.Join(f.Dir, "1.tar")
		content := gomlxtest.Must(os.ReadFile(shard))(t)
		run.Progress = func(p engine.Progress) {
			if name == "training" && p.Step == 4 || name == "validation" && p.Step == 6 {
				gomlxtest.NoError(t, os.Truncate(shard, 0))
			}
		}
		refused(t, name, run.fails(t), "1.tar", "cannot be read", "saved")
		at := begun(t, run).Step()
		if name == "training" && (at < 4 || at > 6) || name == "validation" && (at < 6 || at > 7) {
			t.Errorf("%s: saved at step %d", name, at)
		}
		run.Progress = nil
		gomlxtest.NoError(t, os.WriteFile(shard, content, 0o644))
		endsAs(t, name+" with the shard back", run, want)
	}
}

func TestStream_DamagedImagesAreErrorsOrLeftOutAndCounted(t *testing.T) {
	gomlxtest.OnGo(t)
	f := tarred(t, dataset(330, 1))
	tested := *f
	watch(f, 17, 205)
	watch(&tested, 17, 205, 329) // 329 is a batch of its own
	run := tinyRun(t, "epochs=1;val_fraction=0.5;eval_batch_size=47", 0)
	run.Train = streamOf(t, f, data.Streaming{})
	refused(t, "damage", run.fails(t), "cannot be read", ".tar: ", ".png")

	var log strings.Builder
	run.Dir = t.TempDir()
	run.Train = streamOf(t, f, data.Streaming{Skip: true, Logger: gomlxtest.Logger(&log)})
	test := streamOf(t, &tested, data.Streaming{Skip: true})
	run.Test = test
	stopped(t, run, 20)
	m, row := done(t, run)
	equal(t, "damaged, and test images that count", [2]int{row.Damaged, row.Test.Images}, [2]int{5, 327})
	near(t, "images that validate", float64(row.Validation.Images), 164, 1) // of 165
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	slices.Sort(lines)
	if lines = slices.Compact(lines); len(lines) != 2 || !strings.Contains(lines[0], "017.png") {
		t.Errorf("said %q", lines)
	}
	for i, a := range gomlxtest.Must(m.examine(test))(t).verdicts {
		equal(t, fmt.Sprintf("image %d is damaged", i), a.class < 0, i == 17 || i == 205 || i == 329)
	}
	gomlxtest.NoError(t, run.Page(m, row))
}
