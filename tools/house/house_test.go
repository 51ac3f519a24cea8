// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package house checks the repository against its documents.
package house

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	_ "github.com/wepe-go/wepe/analysis"
	_ "github.com/wepe-go/wepe/detect"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	_ "github.com/wepe-go/wepe/vit/dhvt"
)

const root = "../.."

func read(t *testing.T, path string) string {
	t.Helper()
	return string(gomlxtest.Must(os.ReadFile(filepath.Join(root, path)))(t))
}

// A package imports only packages of its own top folder and of folders further down the table in CONTRIBUTING.md, but
// for those that only tests import.
func TestImports_RunDown(t *testing.T) {
	const module, testsOnly = "github.com/wepe-go/wepe/", "internal/gomlxtest internal/fixtures internal/datatest"
	_, table, _ := strings.Cut(read(t, "CONTRIBUTING.md"), "<!-- floors -->")
	table, _, _ = strings.Cut(table, "<!-- end -->")
	var floors []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+)/` ").FindAllStringSubmatch(table, -1) {
		floors = append(floors, row[1])
	}
	floor := func(path string) int {
		top, _, _ := strings.Cut(path, "/")
		return slices.Index(floors, top)
	}
	list := exec.Command("go", "list", "-C", root, "-tags=onnx,mpi,libjpeg", "-f", `{{.ImportPath}} {{join .Imports " "}}`,
		"./...")
	packages := strings.Split(strings.TrimSpace(string(gomlxtest.Must(list.Output())(t))), "\n")
	for _, line := range packages {
		words := strings.Fields(strings.ReplaceAll(line, module, ""))
		if floor(words[0]) < 0 {
			t.Errorf("%s is in no folder of CONTRIBUTING.md", words[0])
		}
		for _, imported := range words[1:] {
			if at := floor(imported); at >= 0 && strings.Contains(line, module+imported) && at < floor(words[0]) &&
				!strings.Contains(testsOnly, words[0]) {
				t.Errorf("%s imports %s, which is above it", words[0], imported)
			}
		}
	}
	if len(packages) < 40 || len(floors) < 12 {
		t.Errorf("checked %d packages and %d folders", len(packages), len(floors))
	}
}

// The places that CONTRIBUTING.md names for a question declare what it names.
func TestContributing_PlacesAreThere(t *testing.T) {
	places := regexp.MustCompile("`(\\w+)` \\(([\\w/]+\\.go)\\)").FindAllStringSubmatch(read(t, "CONTRIBUTING.md"), -1)
	for _, place := range places {
		declared := regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|type |var )` + place[1] + `\b`)
		if !declared.MatchString(read(t, place[2])) {
			t.Errorf("%s does not declare %s", place[2], place[1])
		}
	}
	is.Equal(t, "enough places", len(places) >= 12, true)
}

// Importing this library changes no global state: every registered gradient of GoMLX is GoMLX's own.
func TestImports_LeaveTheGradientsOfGoMLX(t *testing.T) {
	for kind, vjp := range VJPRegistration {
		name := runtime.FuncForPC(reflect.ValueOf(vjp).Pointer()).Name()
		if !strings.HasPrefix(name, "github.com/gomlx/gomlx/core/graph.") {
			t.Errorf("the gradient of %s is %s", kind, name)
		}
	}
}

// overlaid runs the go command in the module with more files, by their paths in it, and returns its output.
func overlaid(t *testing.T, files map[string]string, command string, args ...string) string {
	t.Helper()
	dir, overlay := t.TempDir(), map[string]map[string]string{"Replace": {}}
	write := func(name string, content []byte) string {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		gomlxtest.NoError(t, os.WriteFile(file, content, 0o600))
		return file
	}
	for name, content := range files {
		overlay["Replace"][gomlxtest.Must(filepath.Abs(filepath.Join(root, name)))(t)] = write(name, []byte(content))
	}
	list := write("overlay.json", gomlxtest.Must(json.Marshal(overlay))(t))
	c := exec.Command("go", append([]string{command, "-C", root, "-overlay", list}, args...)...)
	c.Env = append(os.Environ(), "GOMLX_BACKEND=go")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return string(out)
}

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
		is.Equal(t, fmt.Sprint(args, ": requests of pip"), string(gomlxtest.Must(os.ReadFile(asked))(t)), "x\n")
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
