// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build linux

package mistakes

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wepe-go/wepe/finetune/data/vtab"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// place is a directory with what programs are given, the environment that they run in, and a hub that lets nobody in.
type place struct {
	dir, hub string
	env      []string
	used     time.Duration // processor time to build the programs and to make the directory
}

const tiny = "epochs=1;warmup_epochs=0;batch_size=17;eval_batch_size=23;model.patch_size=8;model.width=8;" +
	"model.heads=2;model.depth=1"

func workplace(t *testing.T) *place {
	t.Helper()
	top := t.TempDir()
	for _, dir := range []string{top, filepath.Dir(top)} { // both made for this test
		if err := os.Chmod(dir, 0o755); err != nil { // so that another user gets there
			t.Fatal(err)
		}
	}
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/models/open/vit/") {
			fmt.Fprintf(w, `{"sha": "%040d", "siblings": [{"rfilename": "model.safetensors", "size": 9, "blobId": "%040d"}]}`,
				1, 2)
			return
		}
		http.Error(w, "Invalid credentials", http.StatusUnauthorized)
	}))
	t.Cleanup(refuses.Close)
	p := &place{dir: filepath.Join(top, "work"), hub: refuses.URL}
	sources(t)
	bin, home := filepath.Join(top, "bin"), filepath.Join(p.dir, "home")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", bin+"/", "./cmd/wepe-ckpt", "./examples/...")
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"PATH", "GODEBUG", "LD_LIBRARY_PATH"} {
		p.env = append(p.env, name+"="+os.Getenv(name))
	}
	p.env[0] = "PATH=" + bin + ":" + os.Getenv("PATH")
	p.env = append(p.env, "HOME="+home, "TMPDIR="+filepath.Join(p.dir, "tmp"), "GOMLX_BACKEND=go", "HUB="+p.hub,
		"HF_ENDPOINT=http://127.0.0.1:9", "TINY="+tiny)
	demo := gomlxtest.Must(filepath.Abs("../../../examples/cifar100/demo"))(t)
	p.files(t, demo)
	for _, line := range []string{
		"mkdir empty home tmp; ln -s '" + demo + "/vit' vit",
		`cifar100 -data cifar -checkpoint runs -position wepe -set "$TINY"`,
		"mkdir old; cp -r runs old; truncate -s 100 old/runs/cifar100-small/wepe-seed0/*/*/variables.safetensors",
		"mkdir late; cp -r runs late; find late -exec touch -d 2099-01-01 {} +",
		"chmod 755 .",
	} {
		command := exec.Command("bash", "-c", line)
		command.Dir, command.Env = p.dir, p.env
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
	if err := vtab.WriteShapes(filepath.Join(p.dir, "vtab"), [3]int{31, 13, 29}, 24, func(string) {}); err != nil {
		t.Fatal(err)
	}
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used); err != nil {
		t.Fatal(err)
	}
	p.used = time.Duration(used.Utime.Nano() + used.Stime.Nano())
	return p
}

// sources looks at all files that the programs are built of: go test remembers a result until one of those that a test
// looked at changes.
func sources(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("../../..", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".go" {
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// files writes what programs are given.
func (p *place) files(t *testing.T, demo string) {
	t.Helper()
	weights := gomlxtest.Must(os.ReadFile(filepath.Join(demo, "vit", "model.safetensors")))(t)
	config := gomlxtest.Must(os.ReadFile(filepath.Join(demo, "vit", "config.json")))(t)
	archive := gomlxtest.Must(os.ReadFile(filepath.Join(demo, "cifar-100-binary.tar.gz")))(t)
	picture := datatest.PNG(image.NewGray(image.Rect(0, 0, 31, 29)))
	var jpg bytes.Buffer
	if err := jpeg.Encode(&jpg, image.NewGray(image.Rect(0, 0, 131, 129)), nil); err != nil {
		t.Fatal(err)
	}
	html, pdf := []byte("<!DOCTYPE html><html><body>Sign in</body></html>\n"), []byte("%PDF-1.7\n%\xe2\xe3\n1 0 obj\n")
	pointer := fmt.Appendf(nil, "version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 346284714\n", 7)
	pickle := datatest.NPZ(t, map[string][]byte{"archive/data.pkl": []byte("\x80\x02}q\x00.")})
	files := map[string][]byte{
		"notes.txt":             []byte("buy milk\n"),
		"stopped.tar.gz":        archive[:100_000],
		"cat.png":               picture,
		"cut.png":               picture[:len(picture)/2],
		"cut.jpg":               jpg.Bytes()[:jpg.Len()/2],
		"scan.png":              pdf,
		"page.jpg":              html,
		"zero.jpg":              nil,
		"cut.safetensors":       weights[:len(weights)/2],
		"page.safetensors":      html,
		"lfs.safetensors":       pointer,
		"weights.pt":            gomlxtest.Must(os.ReadFile(pickle))(t),
		"model.onnx":            pdf,
		"cut.npz":               []byte("PK\x03\x04\x14\x00\x00\x00"),
		"bin/config.json":       config,
		"bin/pytorch_model.bin": []byte("\x80\x02}q\x00."),
		"bare/config.json":      config,
		"other/config.json":     []byte(`{"model_type": "bert", "hidden_size": 768}`),
		"other/model.safetensors": []byte("\x52\x00\x00\x00\x00\x00\x00\x00" +
			`{"bert.embeddings.word.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}}` + "\x00\x00\x00\x00"),
		"torn/config.json":       config[:200],
		"torn/model.safetensors": weights,
		"shards/train.tar":       bytes.Repeat([]byte("no tar "), 200),
		"parquet/train.parquet":  []byte("PAR1 and no more"),
		"flat/0.png":             picture,
		"flat/list.txt":          []byte("0.png zero\n"),
		"instances.json":         []byte(`{"images": [`),
	}
	for name, content := range datatest.CIFAR100(67, 23) {
		files["cifar/"+name], files["half/"+name] = content, content
	}
	files["half/train.bin"] = files["half/train.bin"][:5*3074+100]
	for k := range 10 {
		for _, path := range []string{"pictures/red", "pictures/blue", "mixed/red", "mixed/blue", "one/red"} {
			files[fmt.Sprintf("%s/%d.png", path, k)] = picture
		}
	}
	files["mixed/blue/3.png"] = pdf
	for name, content := range files {
		path := filepath.Join(p.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
