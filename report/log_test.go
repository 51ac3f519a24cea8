// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
)

var job = Job{Recipe: "small", Dataset: "shapes", Fraction: 0.2, Encoding: "wepe", Seed: 7}

func TestALineKeepsItsFieldsInOrderAndWritesNaNAsNull(t *testing.T) {
	text := gomlxtest.Must(line(Eval{Job: job, Step: 40, Epoch: 1.5, Split: Validation,
		Metrics: Metrics{Loss: JSONFloat(math.NaN()), Top1: 0.25, Top5: 0.5, Images: 8}, TrainLoss: JSONFloat(math.Inf(1)),
		LearningRate: JSONFloat(math.Inf(-1)), Scalars: map[string]JSONFloat{"omega3": 2.5, "beta": 0.125}}))(t)
	want := `{"kind":"eval","recipe":"small","dataset":"shapes","fraction":0.2,"encoding":"wepe","seed":7,` +
		`"step":40,"epoch":1.5,"split":"validation","loss":null,"top1":0.25,"top5":0.5,"images":8,"train_loss":null,` +
		`"learning_rate":null,"images_per_second":0,"scalars":{"beta":0.125,"omega3":2.5}}`
	is.Equal(t, "line", string(text), want)
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
	want := Rows{Evals: []Eval{eval, eval, eval, eval}, Results: []Result{run, run}}
	is.Equal(t, "rows", gomlxtest.Must(ReadFiles(path, path))(t), want)
}

// Records by other writers: null is NaN; a line that is no row, such as a torn one, does not affect others.
func TestLinesThatAreNoRowsAreNamedWithTheReason(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.jsonl")
	_, err := ReadFiles(path)
	is.Refused(t, "a record that is not there", err, path)
	write := func(text string) {
		gomlxtest.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	write(`{"kind":"eval","step":3,"loss":null,"top1":0.5}` + "\n \t\n7\n" + `{"kind":"note"}` + "\n" +
		`{"kind":"eval","step":"three"}` + "\n\n" + `{"kind":"run","steps":"five"}` + "\n" + `{"kind":"run","steps":5}`)
	rows := gomlxtest.Must(ReadFiles(path))(t)
	is.Equal(t, "rows", [2]int{len(rows.Evals), len(rows.Results)}, [2]int{1, 1})
	e := rows.Evals[0]
	is.Equal(t, "eval", []any{e.Step, math.IsNaN(float64(e.Loss)), e.Top1}, []any{3, true, JSONFloat(0.5)})
	is.Equal(t, "steps", rows.Results[0].Steps, 5)
	is.Equal(t, "skipped", len(rows.Skipped), 4)
	for i, at := range []string{":3: ", ":4: ", ":5: ", ":7: "} {
		is.Equal(t, rows.Skipped[i], strings.HasPrefix(rows.Skipped[i], path+at), true)
	}
	write(`{"kind":"eval","step":7,"lo`) // without an end
	gomlxtest.NoError(t, Append(path, Eval{Job: job, Step: 3}))
	counts := func() [2]int {
		rows := gomlxtest.Must(ReadFiles(path))(t)
		return [2]int{len(rows.Evals), len(rows.Skipped)}
	}
	is.Equal(t, "rows and skipped after a torn one", counts(), [2]int{1, 1})
	long := `{"kind":"eval","step":3}` + strings.Repeat(" ", 1<<21) + "\n"
	write("x" + long + long)
	is.Equal(t, "rows and skipped of lines of 2 MiB", counts(), [2]int{1, 1})
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
		is.Refused(t, path, Append(path, row), path)
	}
	rows := gomlxtest.Must(ReadFiles(path))(t)
	is.Equal(t, "rows of the record, and skipped", [2]int{len(rows.Evals), len(rows.Skipped)}, [2]int{1, 0})
}

func TestWritersThatShareARecordNeverMixTheirLines(t *testing.T) {
	const writers, each = 5, 7
	path := filepath.Join(t.TempDir(), "runs.jsonl")
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for step := range each {
				is.Error(t, "append", Append(path, Eval{Job: job, Step: step}), nil)
			}
		})
	}
	group.Wait()
	rows := gomlxtest.Must(ReadFiles(path))(t)
	is.Equal(t, "rows of the record, and skipped", [2]int{len(rows.Evals), len(rows.Skipped)}, [2]int{writers * each, 0})
}

// FuzzReadFiles: a file is read, its lines that are no rows are skipped, and a row appended to it is read.
func FuzzReadFiles(f *testing.F) {
	seeds := []string{`{"kind":"eval","step":3}` + "\n", `{"kind":"result"}` + "\n{", "\n\n7", ""}
	path := filepath.Join(f.TempDir(), "rows.jsonl")
	campaign.Fuzz(f, seeds, func(t *testing.T, content string) {
		gomlxtest.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		before, err := ReadFiles(path)
		gomlxtest.NoError(t, errors.Join(err, Append(path, Eval{Step: 3})))
		after := gomlxtest.Must(ReadFiles(path))(t)
		is.Equal(t, "rows", len(after.Evals), len(before.Evals)+1)
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
		is.Equal(t, fmt.Sprintf("%+v", info), revision(info), want)
	}
}

func TestCommandLine_CanBePasted(t *testing.T) {
	got := commandLine([]string{"/some/where/cifar100", "-data=/home/me/sets/cifar", "-out", "/home/me/out", "-seeds=3",
		"-set", "a=1;b=2", "-data=rel/dir", "hf://owner/name", "cifar100:/home/me/sets", "--data=vtab:dtd:/home/me/vtab",
		"", "it's", `a\b`, "`x`", "#c", "{a,b}", "a\tb", "a\nb", "~"})
	is.Equal(t, "command", got, "cifar100 -data=/home/me/sets/cifar -out /home/me/out -seeds=3 -set 'a=1;b=2' "+
		`-data=rel/dir hf://owner/name cifar100:/home/me/sets --data=vtab:dtd:/home/me/vtab '' 'it'\''s' 'a\b' `+
		"'`x`' '#c' '{a,b}' 'a\tb' 'a\nb' '~'")
}

func TestStamp(t *testing.T) {
	var run Result
	run.Stamp(time.Date(2026, 11, 21, 3, 4, 5, 6, time.FixedZone("east", 2*60*60)))
	if run.Date != "2026-11-21T01:04:05Z" || run.Cores < 1 || run.Commit == "" || run.Command == "" {
		t.Errorf("got %+v", run)
	}
}
