// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"runtime/debug"
	"testing"
	"time"
)

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
		"", "it's"})
	want := "cifar100 -data=/home/me/sets/cifar -out /home/me/out -seeds=3 -set 'a=1;b=2' -data=rel/dir hf://owner/name " +
		`cifar100:/home/me/sets --data=vtab:dtd:/home/me/vtab '' 'it'\''s'`
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
