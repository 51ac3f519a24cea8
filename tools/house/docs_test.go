// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package house

import (
	"encoding/json"
	"fmt"
	"image"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// block is a fenced block of a document; run is true after a comment, as in
//
//	<!-- run: --set steps=1 -->
//
// A test runs its commands with these additional arguments for wepe.
type block struct {
	page       string
	line       int
	lang, more string
	run        bool
	text       string
}

var runComment = regexp.MustCompile(`^<!-- run:?(.*) -->$`)

// blocks returns the blocks of all documents, and checks that files that the text links to exist.
func blocks(t *testing.T) (all []block) {
	t.Helper()
	link := regexp.MustCompile(`\]\(([^)\s:#]+)[)#]`)
	code := regexp.MustCompile("`[^`]*`|^\\$\\$.*$|^\\|.*[℘θ].*$") // brackets there are formulas
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/evidence/*.md"} {
		for _, file := range gomlxtest.Must(filepath.Glob(filepath.Join(root, pattern)))(t) {
			page := filepath.ToSlash(gomlxtest.Must(filepath.Rel(root, file))(t))
			var b block
			open := false
			for i, line := range strings.Split(read(t, page), "\n") {
				lang, fence := strings.CutPrefix(line, "```")
				switch comment := runComment.FindStringSubmatch(line); {
				case fence && !open:
					b.page, b.line, b.lang, open = page, i+1, lang, true
				case fence:
					all, b, open = append(all, b), block{}, false
				case open:
					b.text += line + "\n"
				default:
					for _, to := range link.FindAllStringSubmatch(code.ReplaceAllString(line, ""), -1) {
						if _, err := os.Stat(filepath.Join(root, path.Dir(page), to[1])); err != nil {
							t.Errorf("%s:%d: %v", page, i+1, err)
						}
					}
					if b = (block{}); comment != nil {
						b.run, b.more = true, comment[1]
					}
				}
			}
		}
	}
	if len(all) < 80 {
		t.Fatalf("%d blocks, want those of all pages", len(all))
	}
	return all
}

// defined matches the names that a statement of a fragment defines.
var defined = regexp.MustCompile(`(?m)^(\w+(?:, \w+)*) := `)

// program returns the fragments of one page as one function, each in the scope of the previous ones.
func program(fragments []block, imports map[string]string) string {
	var body strings.Builder
	declared := map[string]bool{}
	for _, b := range fragments {
		fmt.Fprintf(&body, "{\n//line %s:%d\n%s\n", b.page, b.line+1, b.text)
		for _, names := range defined.FindAllStringSubmatch(b.text, -1) {
			for name := range strings.SplitSeq(names[1], ", ") {
				if name != "_" {
					declared[name] = true
					body.WriteString("_ = " + name + "\n")
				}
			}
		}
	}
	header := "package p\n\nimport \"image\"\n"
	for _, name := range slices.Sorted(maps.Keys(imports)) {
		if used := regexp.MustCompile(`\b` + name + `\.[A-Z]`); used.MatchString(body.String()) && !declared[name] {
			header += fmt.Sprintf("import %q\n", imports[name])
		}
	}
	name := regexp.MustCompile(`\W`).ReplaceAllString(fragments[0].page, "_")
	return fmt.Sprintf("%s\nfunc %s(img image.Image) {\n%s%s}\n", header, name, &body, strings.Repeat("}\n",
		len(fragments)))
}

// The Go code in the documents compiles against the library; the complete program is also linked and run.
func TestDocuments_GoCompiles(t *testing.T) {
	// The paths of the packages that fragments may use, by name.
	imports := map[string]string{"graph": "github.com/gomlx/gomlx/core/graph", "model": "github.com/gomlx/gomlx/ml/model",
		"tensors": "github.com/gomlx/gomlx/core/tensors", "attention": "github.com/gomlx/gomlx/ml/layers/attention",
		"http": "net/http", "net": "net", "fmt": "fmt", "context": "context"}
	list := exec.Command("go", "list", "-C", root, "./...")
	for _, path := range strings.Fields(string(gomlxtest.Must(list.Output())(t))) {
		if !strings.Contains(path, "/internal/") && !strings.Contains(path, "/tools/") {
			imports[path[strings.LastIndex(path, "/")+1:]] = path
		}
	}
	files, fragments := map[string]string{}, map[string][]block{}
	for _, b := range blocks(t) {
		if b.lang == "go" && strings.HasPrefix(b.text, "package ") {
			files["tools/house/snippets/main/main.go"] = b.text
		} else if b.lang == "go" {
			fragments[b.page] = append(fragments[b.page], b)
		}
	}
	for page, of := range fragments {
		files["tools/house/snippets/p/"+regexp.MustCompile(`\W`).ReplaceAllString(page, "_")+".go"] = program(of, imports)
	}
	if len(fragments) < 5 {
		t.Errorf("fragments on %d pages", len(fragments))
	}
	overlaid(t, files, "build", "./tools/house/snippets/p")
	if out := overlaid(t, files, "run", "./tools/house/snippets/main"); !strings.Contains(out, "[2, 197, 192]") {
		t.Error(out)
	}
}

var (
	comment     = regexp.MustCompile(`(^|\s+)# .*`)
	environment = regexp.MustCompile(`^([A-Z_]+=\S+ |taskset -c 0 |mpirun -np 2 )+`)
	ofWepe      = regexp.MustCompile(`^(go run (-tags=\S+ )?\./cmd/wepe|wepe)( |$)`)
	ofVTAB      = regexp.MustCompile(`^go run \./examples/vtab `)
	// instant matches commands that are run wherever they are, without a run comment.
	instant = regexp.MustCompile(`^wepe (doctor|list .*|.* --rounds 0)$`)
)

// Every command of wepe and make is understood; those after a run comment run unchanged, in order, in a directory that
// looks like a clone, with images for the names that documents use.
func TestDocuments_CommandsAreUnderstoodAndRun(t *testing.T) {
	bin, makefile := t.TempDir(), read(t, "Makefile")
	build := exec.Command("go", "build", "-C", root, "-o", bin, "./cmd/wepe", "./examples/vtab")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	understood, clones, ran := map[string]bool{}, map[string]string{}, 0
	sh := func(b block, dir, command string) {
		shell := exec.Command("sh", "-c", command)
		shell.Dir, shell.Env = dir, append(os.Environ(), "GOMLX_BACKEND=go", "PATH="+bin+":"+os.Getenv("PATH"))
		if out, err := shell.CombinedOutput(); err != nil {
			t.Errorf("%s:%d: %s: %v\n%s", b.page, b.line, command, err, out)
		}
	}
	for _, b := range blocks(t) {
		if b.lang != "sh" {
			continue
		}
		for line := range strings.Lines(strings.ReplaceAll(b.text, "\\\n", " ")) {
			command := environment.ReplaceAllString(comment.ReplaceAllString(strings.TrimSpace(line), ""), "")
			wepe := "wepe " + ofWepe.ReplaceAllString(command, "")
			switch words := strings.Fields(command); {
			case len(words) == 0 || understood[command]:
			case ofWepe.MatchString(command):
				sh(b, bin, wepe+" --help >/dev/null")
			case words[0] == "make" && !regexp.MustCompile(`(?m)^`+words[1]+`:`).MatchString(makefile):
				t.Errorf("%s:%d: %s: no such target", b.page, b.line, command)
			}
			understood[command] = true
			if !b.run && !instant.MatchString(command) || command == "" || testing.Short() {
				continue
			}
			if ofWepe.MatchString(command) {
				command = wepe + b.more
			}
			if clones[b.page] == "" {
				clones[b.page] = cloneWithImages(t)
			}
			sh(b, clones[b.page], ofVTAB.ReplaceAllString(command, "vtab "))
			ran++
		}
	}
	if len(understood) < 80 || ran < 20 && !testing.Short() {
		t.Errorf("%d commands, %d ran: want those of all pages", len(understood), ran)
	}
}

func cloneWithImages(t *testing.T) string {
	t.Helper()
	names := []string{"cat.jpg", "dog.png"} // the content decides
	for i := range 40 {
		names = append(names, fmt.Sprintf("DIR/%s/%d.png", []string{"cat", "dog"}[i%2], i))
	}
	files := map[string][]byte{}
	for n, name := range names {
		img := image.NewRGBA(image.Rect(0, 0, 37, 29))
		for i := range img.Pix {
			img.Pix[i] = uint8(i*n + i*i%97)
		}
		files[name] = datatest.PNG(img)
	}
	clone := datatest.Tree(t, files)
	for _, dir := range []string{"examples", "docs", "tools", "cmd"} {
		gomlxtest.NoError(t, os.Symlink(gomlxtest.Must(filepath.Abs(filepath.Join(root, dir)))(t), filepath.Join(clone, dir)))
	}
	return clone
}

// displays replaces the packages of outputs, which belong to tools/notebooks, a module of its own.
var displays = map[string]string{
	`"github.com/janpfeifer/gonb/gonbui"`: `var gonbui struct{ shown }
		type shown struct{}
		func (shown) DisplayPng(png []byte) { fmt.Println(len(png), "bytes") }`,
	`"github.com/gomlx/gomlx/ui/gonb/margaid"`: `var margaid struct{ plots }
		type plots struct{}
		func (plots) New(width, height int) plots { return plots{} }
		func (plots) AddPoint(p plot.Point) { fmt.Println(p) }
		func (plots) Plot() {}`,
}

var steps = regexp.MustCompile(`steps=\d+`)

// TestNotebooks_EveryCellRuns runs the Go cells of each notebook as gonb does, with a step of training: declarations
// are shared, code after %% is the main function of a process. make notebooks runs them in Jupyter.
func TestNotebooks_EveryCellRuns(t *testing.T) {
	notebooks, err := filepath.Glob(filepath.Join(root, "examples", "*", "*.ipynb"))
	if err != nil || len(notebooks) != 2 {
		t.Fatalf("notebooks %v, %v, want two", notebooks, err)
	}
	for _, path := range notebooks {
		dir := t.TempDir()
		code, cells := cellsOf(t, path)
		program := filepath.Join(dir, "cells")
		overlaid(t, map[string]string{"examples/cells/cells.go": code}, "build", "-o", program, "./examples/cells")
		for cell := range cells {
			run := exec.Command(program, strconv.Itoa(cell))
			run.Env = append(os.Environ(), "GONB_TMP_DIR="+dir, "GONB_DIR="+gomlxtest.Must(filepath.Abs(filepath.Dir(path)))(t))
			if out, err := run.CombinedOutput(); err != nil || len(out) == 0 {
				t.Fatalf("%s, cell %d: %v\n%s", path, cell, err, out)
			}
		}
	}
}

// cellsOf returns the Go code of a notebook as a program that runs the cell of its argument, and the number of cells.
func cellsOf(t *testing.T, path string) (program string, cells int) {
	t.Helper()
	var notebook struct {
		Cells []struct {
			Kind   string   `json:"cell_type"`
			Source []string `json:"source"`
		}
	}
	gomlxtest.NoError(t, json.Unmarshal(gomlxtest.Must(os.ReadFile(path))(t), &notebook))
	var code, calls strings.Builder
	code.WriteString("package main\n")
	for _, cell := range notebook.Cells {
		text := strings.Join(cell.Source, "")
		if cell.Kind != "code" || strings.HasPrefix(text, "!") {
			continue
		}
		declarations, body, runs := strings.Cut(steps.ReplaceAllString(text, "steps=1"), "%%\n")
		for path, replacement := range displays {
			if strings.Contains(declarations, path) {
				declarations = strings.Replace(declarations, path, "", 1) + "\n" + replacement
			}
		}
		code.WriteString(declarations + "\n")
		if runs {
			fmt.Fprintf(&code, "func cell%d() {\n%s\n}\n", cells, body)
			fmt.Fprintf(&calls, "case \"%d\": cell%d()\n", cells, cells)
			cells++
		}
	}
	if cells < 3 {
		t.Errorf("%s has %d cells of Go", path, cells)
	}
	fmt.Fprintf(&code, "func main() {\nswitch os.Args[1] {\n%s}\n}\n", &calls)
	return code.String(), cells
}
