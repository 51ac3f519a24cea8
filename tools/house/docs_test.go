// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package house

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// page is a document with its fenced blocks.
type page struct {
	path, text string // without the blocks
	blocks     []block
}

// block is a fenced block; run is the comment in front of it, as in
//
//	<!-- run: --set steps=1 -->
//
// A test runs its commands with these additional arguments for wepe.
type block struct {
	line      int
	lang, run string
	lines     []string
}

var runComment = regexp.MustCompile(`^<!-- run(:.*)? -->$`)

// documents returns the pages of the repository, with their blocks separated.
func documents(t *testing.T) (pages []page) {
	t.Helper()
	var paths []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/evidence/*.md"} {
		paths = append(paths, gomlxtest.Must(filepath.Glob(filepath.Join(root, pattern)))(t)...)
	}
	for _, file := range paths {
		relative := gomlxtest.Must(filepath.Rel(root, file))(t)
		p := page{path: filepath.ToSlash(relative)}
		var text strings.Builder
		var open *block
		run := ""
		for i, line := range strings.Split(read(t, p.path), "\n") {
			lang, fence := strings.CutPrefix(line, "```")
			switch {
			case fence && open == nil:
				open = &block{line: i + 1, lang: lang, run: run}
			case fence:
				p.blocks = append(p.blocks, *open)
				open = nil
			case open != nil:
				open.lines = append(open.lines, line)
			default:
				text.WriteString(line + "\n")
			}
			if run = ""; runComment.MatchString(line) {
				run = strings.TrimSuffix(strings.TrimPrefix(line, "<!-- "), " -->")
			}
		}
		if open != nil {
			t.Errorf("%s:%d: a block without an end", p.path, open.line)
		}
		p.text = text.String()
		pages = append(pages, p)
	}
	if len(pages) < 18 {
		t.Fatalf("%d pages, want all", len(pages))
	}
	return pages
}

// anchors returns the names of a page's headings, as GitHub makes them.
func anchors(text string) (names []string) {
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		names = append(names, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, heading[1]))
	}
	return names
}

func TestDocuments_LinksResolve(t *testing.T) {
	links := 0
	code := regexp.MustCompile("(?m)`[^`\n]*`|^\\$\\$.*$|^\\|.*[℘θ].*$") // brackets there are formulas
	for _, p := range documents(t) {
		text := code.ReplaceAllString(p.text, "")
		for _, link := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(link[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			links++
			to := path.Join(path.Dir(p.path), target)
			if target == "" {
				to = p.path
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s: %s: no such file", p.path, link[1])
				continue
			}
			if anchor != "" && !slices.Contains(anchors(read(t, to)), anchor) {
				t.Errorf("%s: %s: no such heading", p.path, link[1])
			}
		}
	}
	if links < 60 {
		t.Errorf("%d links, want those of all pages", links)
	}
}

// Names like `finetune.Open` in inline code are exported by the package.
func TestDocuments_NamesExist(t *testing.T) {
	exported := map[string]string{}
	goFiles(t, func(file string) {
		if !strings.HasSuffix(file, "_test.go") && !regexp.MustCompile(`internal/|^(tools|cmd|examples)/`).MatchString(file) {
			exported[path.Base(path.Dir(file))] += read(t, file)
		}
	})
	delete(exported, "train") // also a package of GoMLX, and the usual name of a dataset
	names := 0
	check := func(where, text string, pattern *regexp.Regexp) {
		for _, name := range pattern.FindAllStringSubmatch(text, -1) {
			source, ours := exported[name[1]]
			if !ours {
				continue
			}
			names++
			if !regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|type |var |const |\t)` + name[2] + `\b`).MatchString(source) {
				t.Errorf("%s: package %s has no %s", where, name[1], name[2])
			}
		}
	}
	for _, p := range documents(t) {
		if path.Base(p.path) != "CHANGELOG.md" {
			check(p.path, p.text, regexp.MustCompile("`([a-z]+)\\.([A-Z]\\w*)"))
		}
	}
	goFiles(t, func(file string) { // also in the code of package comments
		parsed := gomlxtest.Must(parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil,
			parser.PackageClauseOnly|parser.ParseComments))(t)
		if !strings.Contains(file, "internal/") {
			check(file, parsed.Doc.Text(), regexp.MustCompile(`\b([a-z]+)\.([A-Z]\w+)`))
		}
	})
	if names < 60 {
		t.Errorf("%d names, want those of all pages and package comments", names)
	}
}

// importsOf maps the name of every package that fragments may use to its path.
func importsOf(t *testing.T) map[string]string {
	t.Helper()
	out := gomlxtest.Must(exec.Command("go", "list", "-C", root, "./...").Output())(t)
	imports := map[string]string{"graph": "github.com/gomlx/gomlx/core/graph", "model": "github.com/gomlx/gomlx/ml/model",
		"tensors":   "github.com/gomlx/gomlx/core/tensors",
		"attention": "github.com/gomlx/gomlx/ml/layers/attention", "http": "net/http", "net": "net",
		"fmt": "fmt", "context": "context"}
	for _, path := range strings.Fields(string(out)) {
		if !strings.Contains(path, "/internal/") && !strings.Contains(path, "/tools/") {
			imports[path[strings.LastIndex(path, "/")+1:]] = path
		}
	}
	return imports
}

// program returns the fragments of one page as one function, each in the scope of the previous ones.
func program(t *testing.T, p page, imports map[string]string) string {
	var body strings.Builder
	declared, used := map[string]bool{}, map[string]bool{}
	depth := 0
	for _, b := range p.blocks {
		text := strings.Join(b.lines, "\n")
		if b.lang != "go" || strings.HasPrefix(text, "package ") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), "", "package p; func _() {\n"+text+"\n}", 0)
		if err != nil {
			t.Errorf("%s:%d: %v", p.path, b.line, err)
			continue
		}
		fmt.Fprintf(&body, "{\n//line %s:%d\n%s\n", p.path, b.line+1, text)
		depth++
		for _, statement := range file.Decls[0].(*ast.FuncDecl).Body.List {
			if assign, ok := statement.(*ast.AssignStmt); ok && assign.Tok == token.DEFINE {
				for _, left := range assign.Lhs {
					if name := left.(*ast.Ident).Name; name != "_" {
						declared[name] = true
						body.WriteString("_ = " + name + "\n")
					}
				}
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if selector, ok := n.(*ast.SelectorExpr); ok {
				if base, ok := selector.X.(*ast.Ident); ok {
					used[base.Name] = true
				}
			}
			return true
		})
	}
	if depth == 0 {
		return ""
	}
	var header strings.Builder
	header.WriteString("package p\n\nimport (\n\"image\"\n")
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if imports[name] != "" && !declared[name] {
			fmt.Fprintf(&header, "%q\n", imports[name])
		}
	}
	name := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) {
			return r
		}
		return '_'
	}, p.path)
	return fmt.Sprintf("%s)\n\nfunc %s(img image.Image) {\n%s%s}\n", &header, name, &body, strings.Repeat("}\n", depth))
}

// The Go code in the documents compiles against the library; complete programs are also linked and run.
func TestDocuments_GoCompiles(t *testing.T) {
	imports := importsOf(t)
	dir := t.TempDir()
	overlay := map[string]map[string]string{"Replace": {}}
	add := func(name, text string) {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		at := gomlxtest.Must(filepath.Abs(filepath.Join(root, "tools", "house", "snippets", name)))(t)
		overlay["Replace"][at] = file
	}
	fragments, programs := 0, 0
	for i, p := range documents(t) {
		if text := program(t, p, imports); text != "" {
			fragments++
			add(fmt.Sprintf("p/page%d.go", i), text)
		}
		for _, b := range p.blocks {
			if b.lang == "go" && strings.HasPrefix(b.lines[0], "package ") {
				programs++
				add(fmt.Sprintf("main%d/main.go", programs), strings.Join(b.lines, "\n")+"\n")
			}
		}
	}
	if fragments < 5 || programs != 1 {
		t.Errorf("fragments on %d pages and %d programs, want 5 and 1", fragments, programs)
	}
	raw := gomlxtest.Must(json.Marshal(overlay))(t)
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-C", root, "-overlay", file, "./tools/house/snippets/p")
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	run := exec.Command("go", "run", "-C", root, "-overlay", file, "./tools/house/snippets/main1")
	run.Env = append(os.Environ(), "GOMLX_BACKEND=go")
	if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), "[2, 197, 192]") {
		t.Errorf("%v\n%s", err, out)
	}
}

// commands returns the commands of a shell block, continuations joined and comments cut.
func (b block) commands() (list []string) {
	joined := strings.ReplaceAll(strings.Join(b.lines, "\n"), "\\\n", " ")
	for line := range strings.Lines(joined) {
		line = regexp.MustCompile(`(^|\s+)# .*`).ReplaceAllString(strings.TrimSpace(line), "")
		if line != "" {
			list = append(list, line)
		}
	}
	return list
}

// programsOf builds the commands in the documents and returns their directory.
func programsOf(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	build := exec.Command("go", "build", "-C", root, "-o", bin, "./cmd/wepe", "./examples/vtab")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

var (
	environment = regexp.MustCompile(`^([A-Z_]+=\S+ |taskset -c 0 |mpirun -np 2 )+`)
	ofWepe      = regexp.MustCompile(`^(go run (-tags=\S+ )?\./cmd/wepe|wepe)( |$)`)
	ofVTAB      = regexp.MustCompile(`^go run \./examples/vtab `)
)

func TestDocuments_CommandsAreUnderstoodAndRun(t *testing.T) {
	bin := programsOf(t)
	t.Run("understood", func(t *testing.T) { commandsAreUnderstood(t, bin) })
	t.Run("run", func(t *testing.T) { commandsRun(t, bin) })
}

// instant matches commands that are run wherever they are, without a run comment.
var instant = regexp.MustCompile(`^wepe (doctor|list .*|.* --rounds 0)$`)

// commandsAreUnderstood checks every command in the documents against the repository's flags and names.
func commandsAreUnderstood(t *testing.T, bin string) {
	makefile, vtab := read(t, "Makefile"), read(t, "examples/vtab/main.go")
	n, known := 0, map[string]error{}
	for _, p := range documents(t) {
		for _, b := range p.blocks {
			if b.lang != "sh" {
				continue
			}
			for _, command := range b.commands() {
				n++
				plain := environment.ReplaceAllString(command, "")
				if _, again := known[plain]; !again {
					known[plain] = understood(plain, bin, makefile, vtab)
				}
				if err := known[plain]; err != nil {
					t.Errorf("%s:%d: %s: %v", p.path, b.line, command, err)
				}
			}
		}
	}
	if n < 80 {
		t.Errorf("%d commands, want those of all pages", n)
	}
}

func understood(command, bin, makefile, vtab string) error {
	words := strings.Fields(command)
	switch {
	case ofWepe.MatchString(command):
		line := filepath.Join(bin, "wepe") + " " + ofWepe.ReplaceAllString(command, "") + " --help"
		shell := exec.Command("sh", "-c", line)
		shell.Dir = bin
		if out, err := shell.CombinedOutput(); err != nil || !strings.Contains(string(out), "Usage:") {
			return fmt.Errorf("%w\n%s", err, out)
		}
	case ofVTAB.MatchString(command):
		for _, flag := range regexp.MustCompile(` -([a-z-]+)`).FindAllStringSubmatch(command, -1) {
			if !strings.Contains(vtab, `"`+flag[1]+`"`) {
				return fmt.Errorf("no flag -%s", flag[1])
			}
		}
	case words[0] == "make":
		if !regexp.MustCompile(`(?m)^` + words[1] + `:`).MatchString(makefile) {
			return fmt.Errorf("no target %s", words[1])
		}
	case words[0] == "go":
		for _, word := range words[2:] {
			if dir, ours := strings.CutPrefix(word, "./"); ours {
				if _, err := os.Stat(filepath.Join(root, strings.TrimSuffix(dir, "/..."))); err != nil && dir != "..." {
					return err
				}
			}
		}
	case words[0] == "curl", words[0] == "git", words[0] == "gpu-check/run.sh", words[0] == "tar", words[0] == "pip":
	default:
		if _, err := os.Stat(filepath.Join(root, words[0])); err != nil {
			return fmt.Errorf("unknown command")
		}
	}
	return nil
}

// commandsRun runs the commands after a run comment unchanged, in order, in a clone with a folder DIR of images.
func commandsRun(t *testing.T, bin string) {
	if testing.Short() {
		t.Skip("half a minute")
	}
	ran := 0
	for _, p := range documents(t) {
		clone := ""
		for _, b := range p.blocks {
			if b.run == "" && !slices.ContainsFunc(b.commands(), instant.MatchString) {
				continue
			}
			if clone == "" {
				clone = cloneWithImages(t)
			}
			more := strings.TrimPrefix(strings.TrimPrefix(b.run, "run"), ":")
			for _, command := range b.commands() {
				if b.run == "" && !instant.MatchString(command) {
					continue
				}
				ran++
				if ofWepe.MatchString(command) {
					command = "wepe " + ofWepe.ReplaceAllString(command, "") + more
				}
				command = ofVTAB.ReplaceAllString(command, "vtab ")
				shell := exec.Command("sh", "-c", command)
				shell.Dir = clone
				shell.Env = append(os.Environ(), "GOMLX_BACKEND=go", "PATH="+bin+":"+os.Getenv("PATH"))
				if out, err := shell.CombinedOutput(); err != nil {
					t.Errorf("%s:%d: %s: %v\n%s", p.path, b.line, command, err, out)
				}
			}
		}
	}
	if ran < 20 {
		t.Errorf("%d commands ran, want at least 20", ran)
	}
}

// cloneWithImages is a directory that looks like a clone, with images for the names that documents use.
func cloneWithImages(t *testing.T) string {
	t.Helper()
	clone := t.TempDir()
	for _, dir := range []string{"examples", "docs", "tools", "cmd"} {
		at := gomlxtest.Must(filepath.Abs(filepath.Join(root, dir)))(t)
		if err := os.Symlink(at, filepath.Join(clone, dir)); err != nil {
			t.Fatal(err)
		}
	}
	encode := map[string]func(io.Writer, image.Image) error{".png": png.Encode,
		".jpg": func(w io.Writer, i image.Image) error { return jpeg.Encode(w, i, nil) }}
	names := []string{"cat.jpg", "dog.png"}
	for class, name := range []string{"cat", "dog"} {
		for i := range 20 {
			names = append(names, fmt.Sprintf("DIR/%s/%d-%d.png", name, class, i))
		}
	}
	for n, name := range names {
		file := filepath.Join(clone, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		img := image.NewRGBA(image.Rect(0, 0, 37, 29))
		for i := range img.Pix {
			img.Pix[i] = uint8(i*n + i*i%97)
		}
		img.Set(n, n, color.White)
		w := gomlxtest.Must(os.Create(file))(t)
		if err := encode[filepath.Ext(name)](w, img); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return clone
}
