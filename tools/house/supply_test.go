// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package house

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// A pip that gives a file with other bytes ends the installation: no other source is asked.
func TestSupply_AWheelWithAnotherChecksumEndsTheInstallation(t *testing.T) {
	if runtime.GOOS+runtime.GOARCH != "linuxamd64" {
		t.Skip("the wheels are for Linux x86-64")
	}
	for _, args := range [][]string{nil, {"--quick"}} {
		bin, home := t.TempDir(), t.TempDir()
		asked := filepath.Join(home, "asked")
		fake := "#!/bin/sh\n[ \"$3\" = --version ] && exit\necho x >>" + asked +
			"\nwhile [ \"$1\" != --dest ]; do shift; done\necho changed >\"$2/p.whl\"\n"
		gomlxtest.NoError(t, os.WriteFile(filepath.Join(bin, "python3"), []byte(fake), 0o755))
		c := exec.Command("../scripts/xla", args...)
		c.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + home}
		out, err := c.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 3 {
			t.Errorf("%v: %v, %s", args, err, out)
		}
		if times := gomlxtest.Must(os.ReadFile(asked))(t); len(times) != len("x\n") {
			t.Errorf("%v: pip was asked %d times", args, len(times)/2)
		}
		if _, err := os.Stat(filepath.Join(home, ".local")); err == nil {
			t.Errorf("%v: something was installed", args)
		}
	}
}

var (
	action      = regexp.MustCompile(`(?m)uses: *(\S+)`)
	commit      = regexp.MustCompile(`@[0-9a-f]{40}$`)
	requirement = regexp.MustCompile(`(?m)^[\w.-]+(\[[\w,]+\])?==\S+ \\\n(    --hash=sha256:[0-9a-f]{64}( \\)?\n)+`)
)

func TestSupply_ActionsArePinnedByCommitAndPackagesByHash(t *testing.T) {
	workflows := gomlxtest.Must(filepath.Glob("../../.github/workflows/*.y*ml"))(t)
	for _, name := range workflows {
		for _, m := range action.FindAllStringSubmatch(string(gomlxtest.Must(os.ReadFile(name))(t)), -1) {
			if !commit.MatchString(m[1]) {
				t.Errorf("%s: %s is not pinned by its commit", name, m[1])
			}
		}
	}
	files := strings.Fields(string(gomlxtest.Must(exec.Command("git", "ls-files", "../**/requirements*.txt").Output())(t)))
	if len(files) < 3 || len(workflows) == 0 {
		t.Errorf("requirements are in %q, workflows in %q", files, workflows)
	}
	for _, name := range files {
		text := string(gomlxtest.Must(os.ReadFile(name))(t))
		for line := range strings.Lines(requirement.ReplaceAllString(text, "")) {
			if !strings.HasPrefix(line, "#") {
				t.Errorf("%s: %q has no hash", name, line)
			}
		}
	}
}
