// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/strictjson"
	"github.com/wepe-go/wepe/internal/weight"
)

// A generator alone is no model, any other variable is.
func TestLoad_OnlyIntoAnEmptyStoreOrTheSameVariables(t *testing.T) {
	dir := t.TempDir()
	save(t, Saver{Dir: dir}, newStore(t, 1), 3, nil)
	c, _ := newest(t, dir)
	for _, extra := range []int{0, 1, 3} {
		for _, seeded := range []bool{false, true} {
			store := model.NewStore()
			for i := range extra {
				store.RootScope().VariableWithValue(fmt.Sprintf("x%d", i), float32(1))
			}
			if seeded {
				gomlxtest.NoError(t, store.SetRNGStateFromSeed(42))
			}
			err := c.Load(store, nil)
			if mismatch := (*MismatchError)(nil); extra == 0 && err != nil || extra > 0 && (!errors.As(err, &mismatch) ||
				len(mismatch.Missing) != extra) {
				t.Errorf("%d variables, with a generator %v: %v", extra, seeded, err)
			}
		}
	}
	loading := model.NewStore()
	loading.SetLoader(noLoader{})
	m := imported(t, put(t, timm, made(timm, smallViT), timmConfig(smallViT)), ImportOptions{})
	for what, err := range map[string]error{"checkpoint": c.Load(loading, nil), "import": m.Load(loading.Scope("/vit"))} {
		if !errors.Is(err, weight.ErrLoader) {
			t.Errorf("a store with a loader: %s: %v", what, err)
		}
	}
	scope := model.NewStore().Scope("/vit")
	if err := m.Load(scope); err != nil || scope.NumVariables() != len(m.Variables) {
		t.Errorf("%v, %d variables, want %d", err, scope.NumVariables(), len(m.Variables))
	}
	if err := m.Load(scope); err == nil {
		t.Error("a model was loaded twice")
	}
}

// noLoader loads nothing.
type noLoader struct{ model.Loader }

// The longest names, the most tensors and the longest header that are written are also read.
func TestSafetensors_LimitsOfWritingAreThoseOfReading(t *testing.T) {
	tensor := func(name string, dims ...int) outTensor {
		return outTensor{name, shapes.Make(dtypes.Uint8, dims...), func(io.Writer) error { return nil }}
	}
	many := make([]outTensor, maxTensors+1)
	for i := range many {
		many[i] = tensor(fmt.Sprint(i), 0)
	}
	ranks := make([]int, maxRank+1) // zeros
	const longest, one = maxName / 6, 636 + len(`"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},`)
	n := (maxHeader - 1) / one
	left := maxHeader - (n*one + 1) // of the last comma and both braces
	header := func(more int) []outTensor {
		out := make([]outTensor, n)
		for i := range out {
			add := min(more, 40)
			out[i] = tensor(fmt.Sprintf("%0636d", i)+strings.Repeat("b", add), 0)
			more -= add
		}
		return out
	}
	for name, c := range map[string]struct {
		out []outTensor
		ok  bool
	}{
		"rank 16": {[]outTensor{tensor("a", ranks[:maxRank]...)}, true}, "rank 17": {[]outTensor{tensor("a", ranks...)},
			false},
		"name":        {[]outTensor{tensor(strings.Repeat("a", longest), 0)}, true},
		"longer name": {[]outTensor{tensor(strings.Repeat("a", longest+1), 0)}, false},
		"not UTF-8":   {[]outTensor{tensor("a\xff", 0)}, false},
		"many":        {many[:maxTensors], true}, "too many": {many, false},
		"complex": {[]outTensor{asIs("c", tensors.FromValue(complex64(1)))}, false},
		"header":  {header(left), true}, "longer header": {header(left + 1), false},
	} {
		var raw strings.Builder
		err := writeSafetensors(&raw, "", c.out)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			continue
		}
		if got, err := readAll([]byte(raw.String())); err != nil || len(got) != len(c.out) {
			t.Errorf("%s: %d tensors are read, %v", name, len(got), err)
		}
	}
}

// A pointer of git-lfs (https://git-lfs.com), a page in place of a file, a pickle of protocol 2, anything else.
func TestOpen_FileOfAnotherKindIsNamed(t *testing.T) {
	for begin, want := range map[string]string{
		"version https://git-lfs.github.com/spec/v1\n": "git-lfs", "<!DOCTYPE html>": "page", "\x80\x02}q\x00.....": "pickle",
		"{\"a\": 1, \"b\": 2}": "JSON", "\x89PNG\r\n\x1a\n....": "image", "PK is no zip.....": "no safetensors file",
	} {
		_, err := readAll([]byte(begin + strings.Repeat(" ", 99)))
		refuses(t, begin, err, inFile, want)
	}
	whole := string(withShape("2"))
	for _, n := range []int{3, 20} { // a file that becomes shorter while it is read
		if _, err := readSafetensorsHeader(strings.NewReader(whole[:n]), int64(len(whole)), "x"); !errors.Is(err,
			io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// The names of one run: attempts of a step, and what no Save writes.
func TestNames_AreOrderedByStepAndAttempt(t *testing.T) {
	for base, want := range map[string]dirName{
		"step-00000007": {step: 7}, "step-00000007.3": {step: 7, attempt: 3}, "step-123456789": {step: 123456789},
		"step-00000007.tmp-15": {step: 7, temporary: true}, "step-00000007.3.tmp-15": {step: 7, attempt: 3, temporary: true},
		"step-999999999999999999": {step: 999999999999999999},
	} {
		if got, ok := parseName(base); !ok || got != want {
			t.Errorf("%s: %+v, %v", base, got, ok)
		}
	}
	for _, base := range []string{"step-7", "step-000000007", "step-00000007.0", "step-00000007.03", "step-0000000x",
		"step-1999999999999999999", "step-00000007.tmp-", "xstep-00000007", "step-00000007.1234567"} {
		if got, ok := parseName(base); ok {
			t.Errorf("%s: %+v", base, got)
		}
	}
	dir := t.TempDir()
	for _, name := range []string{"6", "7", "7.2", "7.11", "7.10"} {
		gomlxtest.NoError(t, os.Mkdir(filepath.Join(dir, "step-0000000"+name), 0o755))
	}
	whole, _, err := listNames(dir)
	var got []string
	for _, path := range whole {
		got = append(got, strings.TrimPrefix(filepath.Base(path), "step-0000000"))
	}
	if want := "7.11 7.10 7.2 7 6"; err != nil || strings.Join(got, " ") != want {
		t.Errorf("%v, %v, want %s", got, err, want)
	}
}

// Runs by what their directories best and last have: nothing, an intact (I), a damaged (D), or a half-written (H)
// checkpoint. Find returns the step, 7 of the best and 9 of the last.
func TestFind_WeightsOfARun(t *testing.T) {
	for _, c := range []struct {
		best, last string
		want       map[string]int64 // by which: 0 for none, -1 for an error
		skipped    map[string]int
	}{
		{"", "", map[string]int64{"": 0, BestDir: 0, LastDir: 0, Start: 0, Resume: 0, "first": -1}, nil},
		{"I", "I", map[string]int64{"": 7, BestDir: 7, LastDir: 9, Start: 7, Resume: 9}, nil},
		{"I", "", map[string]int64{"": 7, BestDir: 7, LastDir: -1, Start: 7, Resume: 7}, nil},
		{"", "I", map[string]int64{"": 9, BestDir: -1, LastDir: 9, Start: 9, Resume: 9}, nil},
		{"D", "I", map[string]int64{"": -1, BestDir: -1, LastDir: 9, Resume: 9}, map[string]int{"": 1, BestDir: 1}},
		{"H", "I", map[string]int64{"": 9, BestDir: -1, LastDir: 9, Resume: 9}, map[string]int{"": 1, BestDir: 1}},
		{"I", "D", map[string]int64{"": 7, LastDir: -1, Resume: 7}, map[string]int{LastDir: 1, Resume: 1}},
		{"D", "H", map[string]int64{"": -1, LastDir: -1, Resume: 0}, map[string]int{"": 1, LastDir: 1, Resume: 2}},
		{"H", "", map[string]int64{"": -1, Resume: 0}, map[string]int{"": 1, Resume: 1}},
	} {
		dir := t.TempDir()
		for kind, step := range map[string]int64{BestDir: 7, LastDir: 9} {
			at := filepath.Join(dir, kind)
			switch state := map[string]string{BestDir: c.best, LastDir: c.last}[kind]; state {
			case "H":
				gomlxtest.NoError(t, os.MkdirAll(filepath.Join(at, "step-00000005.tmp-1"), 0o755))
			case "I", "D":
				if path := save(t, Saver{Dir: at}, model.NewStore(), step, nil); state == "D" {
					putFile(t, filepath.Join(path, storeName), nil)
				}
			}
		}
		for which, want := range c.want {
			found, skipped, err := Find(dir, which)
			step, kind := int64(0), ""
			if found != nil {
				step, kind = found.Step, found.Kind
			}
			if err != nil {
				step = -1
			}
			if step != want || len(skipped) != c.skipped[which] || kind != map[int64]string{7: BestDir, 9: LastDir}[step] {
				t.Errorf("best %q, last %q: %q is step %d of %q, %v, skipped %v; want step %d", c.best, c.last, which, step, kind,
					err, skipped, want)
			}
		}
	}
	path := save(t, Saver{Dir: filepath.Join(t.TempDir(), BestDir)}, model.NewStore(), 7, nil)
	t.Chdir(path)
	for _, spelled := range []string{path, path + "/", ".", "../" + filepath.Base(path)} {
		if c, _, err := Find(spelled, ""); err != nil || c.Kind != BestDir {
			t.Errorf("%s: %+v, %v", spelled, c, err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	putFile(t, file, nil)
	if c, _, err := Find(file, ""); c != nil || err != nil {
		t.Errorf("a file has no checkpoint: %v, %v", c, err)
	}
}

// removing removes the new checkpoint as soon as it is complete, as another process could.
type removing struct{ osFiles }

func (removing) rename(from, to string) error {
	return errors.Join(os.Rename(from, to), os.RemoveAll(to))
}

func TestSave_CheckpointThatVanishesIsAnError(t *testing.T) {
	path, err := Saver{Dir: t.TempDir(), files: removing{}}.Save(model.NewStore(), 7, nil)
	if err == nil || filepath.Base(path) != "step-00000007" {
		t.Errorf("%q, %v", path, err)
	}
}

func TestOpen_FindsWeightsByTheirNames(t *testing.T) {
	dir := t.TempDir()
	gomlxtest.NoError(t, os.Mkdir(filepath.Join(dir, foreignWeights), 0o755))
	for _, step := range []struct{ file, want string }{
		{"", ""}, {"a.npz", "a.npz"}, {"b.npz", ""}, {foreignHalf, foreignHalf}, {foreignIndex, foreignIndex},
		{foreignWeights, foreignWeights},
	} {
		if step.file != "" {
			putFile(t, filepath.Join(dir, step.file), nil)
		}
		path, err := weightsIn(dir)
		if (err == nil) != (step.want != "") || err == nil && filepath.Base(path) != step.want {
			t.Errorf("with %q: %s, %v, want %s", step.file, path, err, step.want)
		}
	}
}

func TestNPZ_WhatCannotBeWrittenIsAnError(t *testing.T) {
	failing := outTensor{"x", shapes.Make(dtypes.Float32, 2), func(io.Writer) error { return io.ErrClosedPipe }}
	if err := writeNPZ(io.Discard, []outTensor{failing}); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	if err := writeNPZ(io.Discard, []outTensor{asIs("n", tensors.FromValue([]int64{1, 2}))}); err == nil {
		t.Error("integers were written")
	}
}

// A field that this version does not know could change the model.
func TestImport_NativeConfigIsReadStrictly(t *testing.T) {
	const model = `{"image_rows":6,"image_cols":10,"patch_size":2,"channels":3,"width":48,"depth":2,"num_heads":3` +
		`,"classes":7,"position":"learned"}`
	const fit = `{"fit":"exact","size":[6,10],"resample":"bicubic"}`
	of := func(model, more string) string { return `{"model_type":"wepe","model":` + model + more + `}` }
	for text, names := range map[string]string{
		of(model, ""): "", of(strings.Replace(model, "num_heads", "heads", 1), ""): "", // of an earlier version
		of(model, `,"preprocess":`+fit): "", of(model, `,"params":[]`): "",
		`{"model_type":3}`: "model_type", `{"model_type":"wepe2","model":` + model + `}`: "model_type",
		of(strings.Replace(model, `"num_heads":3`, `"num_heads":5`, 1), ""): "5 heads", of(`3`, ""): "model",
		of(strings.Replace(model, `"num_heads":3`, `"new":1`, 1), ""): `"new"`, of(model, `,"params":3`): "params",
		of(model, `,"params":[{"path":"wepe_alpha_u","type":"x"}]`):                     "wepe_alpha_u",
		of(model, `,"params":[{"path":"/seed","type":"int","value":1}]`):                `"/seed"`,
		of(model, `,"params":[{"path":"wepe_alpha_u","type":"int8","value":300}]`):      `wepe_alpha_u`,
		of(model, `,"params":[{"path":"wepe_alpha_u","type":"float64","value":"x"}]`):   `wepe_alpha_u`,
		of(model, `,"params":[{"path":"wepe_alpha_u","type":"float64","value":"Inf"}]`): "",
		of(model, `,"preprocess":3`):                                                        "preprocess",
		of(model, `,"preprocess":`+strings.Replace(fit, "exact", "x", 1)):                   "fit",
		of(model, `,"preprocess":{"fit":"patches","size":[6,10],"patch":2}`):                "patches",
		of(strings.Replace(model, `"channels":3`, `"channels":1`, 1), `,"preprocess":`+fit): "channels",
	} {
		_, err := describeNative(gomlxtest.Must(strictjson.ParseObject([]byte(text)))(t))
		if (err == nil) != (names == "") || err != nil && !strings.Contains(err.Error(), names) {
			t.Errorf("%s: %v, want an error that names %q", text, err, names)
		}
	}
}

// A graph would draw missing variables at random.
func TestLogits_NeedEveryVariableAndImagesOfTheModel(t *testing.T) {
	c := ownViT("learned")
	store, b := stirred(t, c, nil), gomlxtest.Backend()
	larger := c
	larger.ImageRows = 8
	_, ok := forward(b, store, "/vit", c, Noise(c, 2, 5))
	if _, err := forward(b, store, "/vit", c, Noise(larger, 2, 5)); err == nil || ok != nil {
		t.Errorf("images of another size: %v, its own: %v", err, ok)
	}
	gomlxtest.NoError(t, store.DeleteVariable("/vit/norm/gain"))
	if _, err := forward(b, store, "/vit", c, Noise(c, 2, 5)); err == nil {
		t.Error("a model that lacks a variable has logits")
	}
	_, err := (&Imported{Config: c, Variables: map[string]*tensors.Tensor{}}).Logits(b, Noise(c, 2, 5))
	if err == nil || !strings.Contains(err.Error(), positionPath) {
		t.Errorf("an import without its table: %v", err)
	}
}

// rewrite replaces the content of a file by the result of change.
func rewrite(t testing.TB, path string, change func([]byte) []byte) {
	t.Helper()
	putFile(t, path, change(readFile(t, path)))
}

// beside saves a checkpoint in a directory that has others, which Save would remove.
func beside(t *testing.T, dir string, store *model.Store, step int64, meta any) string {
	t.Helper()
	from := save(t, Saver{Dir: t.TempDir()}, store, step, meta)
	path := filepath.Join(dir, filepath.Base(from))
	gomlxtest.NoError(t, os.Rename(from, path))
	return path
}

func TestFind_SkipsDamagedCheckpoints(t *testing.T) {
	file := func(name string, change func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) { rewrite(t, filepath.Join(dir, name), change) }
	}
	cut := func(raw []byte) []byte { return raw[:len(raw)/2] }
	flip := func(raw []byte) []byte { raw[len(raw)/2] ^= 1; return raw }
	replace := func(from, to string) func([]byte) []byte {
		return func(raw []byte) []byte { return bytes.Replace(raw, []byte(from), []byte(to), 1) }
	}
	gone := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			gomlxtest.NoError(t, os.Remove(filepath.Join(dir, name)))
		}
	}
	resealed := func(change func(*manifest)) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			m := gomlxtest.Must(readManifest(dir))(t)
			change(&m)
			putFile(t, filepath.Join(dir, manifestName), gomlxtest.Must(m.seal())(t))
		}
	}
	intact := newStore(t, 1)
	for name, damage := range map[string]func(*testing.T, string){
		"manifest half": file(manifestName, cut), "manifest gone": gone(manifestName),
		"manifest null": file(manifestName, func([]byte) []byte { return []byte("null") }),
		"other step":    file(manifestName, replace(`"step": 2`, `"step": 3`)),
		"other meta":    file(manifestName, replace(`0.25`, `0.75`)),
		"other directory name": func(t *testing.T, dir string) {
			gomlxtest.NoError(t, os.Rename(dir, strings.TrimSuffix(dir, "2")+"3"))
		},
		"newer format":              resealed(func(m *manifest) { m.Version = 2 }),
		"another format":            resealed(func(m *manifest) { m.Format = "x" }),
		"negative step":             resealed(func(m *manifest) { m.Step = -1 }),
		"path out of the directory": resealed(func(m *manifest) { m.Files[0].Name = "../step-00000001/x" }),
		"a file twice":              resealed(func(m *manifest) { m.Files[1] = m.Files[0] }),
		"a third file":              resealed(func(m *manifest) { m.Files = append(m.Files, m.Files[0]) }),
		"variables half":            file(variablesName, cut), "variables one bit": file(variablesName, flip),
		"variables one byte longer": file(variablesName, func(raw []byte) []byte { return append(raw, 0) }),
		"variables gone":            gone(variablesName),
		"variables a directory": func(t *testing.T, dir string) {
			gone(variablesName)(t, dir)
			gomlxtest.NoError(t, os.Mkdir(filepath.Join(dir, variablesName), 0o755))
		},
		"store half": file(storeName, cut), "store one bit": file(storeName, flip), "store gone": gone(storeName),
	} {
		dir := t.TempDir()
		save(t, Saver{Dir: dir}, intact, 1, nil)
		damage(t, beside(t, dir, newStore(t, 2), 2, map[string]float64{"best": 0.25}))
		gomlxtest.NoError(t, os.Mkdir(filepath.Join(dir, "step-00000009.tmp-4"), 0o755))
		got, skipped := newest(t, dir)
		if got == nil || got.Step != 1 || len(skipped) != 2 || !strings.Contains(skipped[0].Error(), ".tmp-4") ||
			strings.Contains(skipped[1].Error(), "\n") {
			t.Fatalf("%s: latest %+v, skipped %v", name, got, skipped)
		}
		store := model.NewStore()
		gomlxtest.NoError(t, got.Load(store, nil))
		sameVariables(t, store, intact, nil)
	}
}

func TestLoad_DamageAfterOpening(t *testing.T) {
	dir := t.TempDir()
	save(t, Saver{Dir: dir}, newStore(t, 1), 1, nil)
	c, _ := newest(t, dir)
	rewrite(t, filepath.Join(c.Path, variablesName), func(raw []byte) []byte { raw[len(raw)-1] ^= 1; return raw })
	store, before := newStore(t, 2), newStore(t, 2)
	if err := c.Load(store, nil); err == nil || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("%v", err)
	}
	sameVariables(t, store, before, nil)
	gomlxtest.NoError(t, os.RemoveAll(c.Path))
	if err := c.Check(store, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a checkpoint that was removed: %v", err)
	}
}

func TestLoad_AnotherModelListsTheDifferences(t *testing.T) {
	create := func(store *model.Store, path string, dims ...int) {
		value := randomTensor(rand.New(rand.NewPCG(1, 1)), dtypes.Float32, dims...)
		gomlxtest.Must(store.CreateVariable(path, value))(t)
	}
	saved, other := model.NewStore(), model.NewStore()
	create(saved, "/vit/head/weights", 7, 5)
	create(saved, "/vit/block_1/weights", 3, 11)
	create(saved, "/vit/norm", 13)
	create(saved, "/data/images", 2)
	create(other, "/vit/head/weights", 7, 3)
	create(other, "/vit/position", 17)
	create(other, "/vit/norm", 13)
	create(other, "/metrics/mean")
	dir := t.TempDir()
	save(t, Saver{Dir: dir}, saved, 1, nil)
	c, _ := newest(t, dir)
	omit := func(path string) bool { return isData(path) || strings.HasPrefix(path, "/metrics/") }
	before := bytesOf(t, other.GetVariable("/vit/norm").MustValue())
	for _, err := range []error{c.Load(other, omit), c.Check(other, omit)} {
		e := onlyMismatch(t, err)
		if !slices.Equal(e.Mismatched, []string{"/vit/head/weights (Float32)[7, 5], in the model (Float32)[7, 3]"}) ||
			!slices.Equal(e.Missing, []string{"/vit/position (Float32)[17]"}) ||
			!slices.Equal(e.Unexpected, []string{"/vit/block_1/weights (Float32)[3, 11]"}) {
			t.Errorf("%+v", e)
		}
	}
	if !bytes.Equal(before, bytesOf(t, other.GetVariable("/vit/norm").MustValue())) || other.NumVariables() != 4 {
		t.Error("the store was changed")
	}
	fresh := model.NewStore()
	gomlxtest.NoError(t, c.Load(fresh, omit))
	create(fresh, "/vit/position", 17) // as if another model was built after loading
	if e := onlyMismatch(t, c.Check(fresh, omit)); len(e.Missing) != 1 {
		t.Errorf("Check after building another model: %v", e)
	}
	hostile := &MismatchError{Path: "x", Missing: strings.Fields("a b c d e f g"), Unexpected: []string{"b\n\x1b[31m [7]"}}
	if text := hostile.Error(); strings.ContainsAny(text, "\n\x1b") || strings.Contains(text, "f") == true &&
		strings.Contains(text, ", f") {
		t.Errorf("%q", text)
	}
}

func TestLock_HasOneOwner(t *testing.T) {
	if dir := os.Getenv("WEPE_TEST_LOCK"); dir != "" { // the other process
		if _, err := Lock(dir); err == nil {
			t.Fatal("locked")
		}
		return
	}
	dir, file := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "file")
	putFile(t, file, nil)
	if _, err := Lock(filepath.Join(file, "run")); err == nil {
		t.Error("locked below a file")
	}
	for range 2 { // again after unlocking
		unlock := gomlxtest.Must(Lock(dir))(t)
		other := exec.Command(os.Args[0], "-test.run", "^TestLock_HasOneOwner$", "-test.v")
		other.Env = append(os.Environ(), "WEPE_TEST_LOCK="+dir)
		if out, err := other.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("the other process: %v\n%s", err, out)
		}
		if _, err := Lock(dir); err == nil {
			t.Error("locked twice in one process")
		}
		gomlxtest.NoError(t, unlock())
	}
}
