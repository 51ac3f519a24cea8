// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

var job = Job{Recipe: "small", Dataset: "shapes", Fraction: 0.2, Encoding: "wepe", Seed: 7}

func TestALineKeepsItsFieldsInOrderAndWritesNaNAsNull(t *testing.T) {
	text := gomlxtest.Must(line(Eval{Job: job, Step: 40, Epoch: 1.5, Split: Validation,
		Metrics: Metrics{Loss: JSONFloat(math.NaN()), Top1: 0.25, Top5: 0.5, Images: 8}, TrainLoss: JSONFloat(math.Inf(1)),
		LearningRate: JSONFloat(math.Inf(-1)), Scalars: map[string]JSONFloat{"omega3": 2.5, "beta": 0.125}}))(t)
	want := `{"kind":"eval","recipe":"small","dataset":"shapes","fraction":0.2,"encoding":"wepe","seed":7,` +
		`"step":40,"epoch":1.5,"split":"validation","loss":null,"top1":0.25,"top5":0.5,"images":8,"train_loss":null,` +
		`"learning_rate":null,"images_per_second":0,"scalars":{"beta":0.125,"omega3":2.5}}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestRowsReadBackAsTheyWereWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "runs.jsonl")
	eval := Eval{Job: job, Step: 3, Split: Test, Metrics: Metrics{Loss: 1, Top1: 0.5, Top5: 1, Images: 5}}
	run := Result{Date: "2026-11-21T00:00:00Z", Commit: "abc+dirty", ID: "a1", Job: job, Backend: "go", Cores: 2,
		ImageSize: "32x48", Parameters: 1234, Steps: 3, Epochs: 0.5, WallSeconds: 9.25,
		Validation: Metrics{Loss: 2, Images: 3}, Command: "cifar100 -seeds=3", Settings: []byte(`{"depth":5}`)}
	for _, row := range []Row{eval, run, eval} {
		gomlxtest.NoError(t, Append(path, row))
	}
	rows := gomlxtest.Must(ReadFiles(path, path))(t)
	want := Rows{Evals: []Eval{eval, eval, eval, eval}, Results: []Result{run, run}}
	if !reflect.DeepEqual(rows, want) {
		t.Errorf("got  %+v\nwant %+v", rows, want)
	}
}

// Records by other writers: null is NaN; a line that is no row, such as a torn one, does not affect others.
func TestLinesThatAreNoRowsAreNamedWithTheReason(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.jsonl")
	if _, err := ReadFiles(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a record that is not there: %v", err)
	}
	write := func(text string) {
		gomlxtest.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	write(`{"kind":"eval","step":3,"loss":null,"top1":0.5}` + "\n \t\n7\n" + `{"kind":"note"}` + "\n" +
		`{"kind":"eval","step":"three"}` + "\n\n" + `{"kind":"run","steps":"five"}` + "\n" + `{"kind":"run","steps":5}`)
	rows := gomlxtest.Must(ReadFiles(path))(t)
	if len(rows.Evals) != 1 || len(rows.Results) != 1 || rows.Evals[0].Step != 3 || rows.Results[0].Steps != 5 {
		t.Errorf("rows %+v, %+v", rows.Evals, rows.Results)
	}
	if e := rows.Evals[0]; !math.IsNaN(float64(e.Loss)) || e.Top1 != 0.5 {
		t.Errorf("loss %v, top-1 %v, want NaN, 0.5", e.Loss, e.Top1)
	}
	want := []string{":3: ", ":4: ", ":5: ", ":7: "}
	if len(rows.Skipped) != len(want) {
		t.Fatalf("skipped %q, want %d lines", rows.Skipped, len(want))
	}
	for i, line := range rows.Skipped {
		if !strings.HasPrefix(line, path+want[i]) {
			t.Errorf("skipped %q, want %q", line, want[i])
		}
	}
	write(`{"kind":"eval","step":7,"lo`) // without an end
	gomlxtest.NoError(t, Append(path, Eval{Job: job, Step: 3}))
	if rows := gomlxtest.Must(ReadFiles(path))(t); len(rows.Evals) != 1 || len(rows.Skipped) != 1 {
		t.Errorf("a row after a torn one: %+v, skipped %q", rows.Evals, rows.Skipped)
	}
	long := `{"kind":"eval","step":3}` + strings.Repeat(" ", 1<<21) + "\n"
	write("x" + long + long)
	if rows, err := ReadFiles(path); err != nil || len(rows.Evals) != 1 || len(rows.Skipped) != 1 {
		t.Errorf("lines of 2 MiB: %d rows, skipped %d, %v", len(rows.Evals), len(rows.Skipped), err)
	}
}

func TestAppend_Errors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "runs.jsonl")
	gomlxtest.NoError(t, Append(path, Eval{Job: job}))
	for path, row := range map[string]Row{path: Result{Settings: []byte("{")}, dir: Eval{}, "/dev/full": Eval{},
		filepath.Join(path, "below", "runs.jsonl"): Eval{}} {
		if _, err := os.Stat("/dev/full"); err != nil && path == "/dev/full" {
			continue
		}
		if err := Append(path, row); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want an error that names it", path, err)
		}
	}
	if rows := gomlxtest.Must(ReadFiles(path))(t); len(rows.Evals) != 1 || len(rows.Skipped) != 0 {
		t.Errorf("the record has %d rows, skipped %q", len(rows.Evals), rows.Skipped)
	}
}

func TestWritersThatShareARecordNeverMixTheirLines(t *testing.T) {
	const writers, each = 5, 7
	path := filepath.Join(t.TempDir(), "runs.jsonl")
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for step := range each {
				if err := Append(path, Eval{Job: job, Step: step}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	rows := gomlxtest.Must(ReadFiles(path))(t)
	if len(rows.Evals) != writers*each || len(rows.Skipped) != 0 {
		t.Errorf("got %d rows, skipped %q, want %d rows", len(rows.Evals), rows.Skipped, writers*each)
	}
}

// FuzzReadFiles: a file is read, its lines that are no rows are skipped, and a row appended to it is read.
func FuzzReadFiles(f *testing.F) {
	seeds := []string{`{"kind":"eval","step":3}` + "\n", `{"kind":"result"}` + "\n{", "\n\n7", ""}
	path := filepath.Join(f.TempDir(), "rows.jsonl")
	campaign.Fuzz(f, seeds, func(t *testing.T, content string) {
		gomlxtest.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		before, err := ReadFiles(path)
		gomlxtest.NoError(t, errors.Join(err, Append(path, Eval{Step: 3})))
		after, err := ReadFiles(path)
		if err != nil || len(after.Evals) != len(before.Evals)+1 {
			t.Errorf("%d rows, then %d, %v", len(before.Evals), len(after.Evals), err)
		}
	})
}

// The build information alone decides, in any working directory.
func TestCommit(t *testing.T) {
	settings := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.modified", Value: modified}, {Key: "vcs.revision", Value: "0123abcd"}}
	}
	for want, info := range map[string]*debug.BuildInfo{
		"0123abcd":       {Main: debug.Module{Version: "v1.2.3"}, Settings: settings("false")},
		"0123abcd+dirty": {Main: debug.Module{Version: "v1.2.3"}, Settings: settings("true")},
		"v1.2.3":         {Main: debug.Module{Version: "v1.2.3"}},
		"unknown":        {Main: debug.Module{Version: "(devel)"}},
	} {
		if got := revision(info); got != want {
			t.Errorf("%+v: %q, want %q", info, got, want)
		}
	}
}

func TestCommandLine_CanBePasted(t *testing.T) {
	got := commandLine([]string{"/some/where/cifar100", "-data=/home/me/sets/cifar", "-out", "/home/me/out", "-seeds=3",
		"-set", "a=1;b=2", "-data=rel/dir", "hf://owner/name", "cifar100:/home/me/sets", "--data=vtab:dtd:/home/me/vtab",
		"", "it's", `a\b`, "`x`", "#c",
		"{a,b}", "a\tb", "a\nb", "~"})
	want := "cifar100 -data=/home/me/sets/cifar -out /home/me/out -seeds=3 -set 'a=1;b=2' -data=rel/dir hf://owner/name " +
		`cifar100:/home/me/sets --data=vtab:dtd:/home/me/vtab '' 'it'\''s' 'a\b' ` +
		"'`x`' '#c' '{a,b}' 'a\tb' 'a\nb' '~'"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestStamp(t *testing.T) {
	var run Result
	run.Stamp(time.Date(2026, 11, 21, 3, 4, 5, 6, time.FixedZone("east", 2*60*60)))
	if run.Date != "2026-11-21T01:04:05Z" || run.Cores < 1 || run.Commit == "" || run.Command == "" {
		t.Errorf("got %+v", run)
	}
}
