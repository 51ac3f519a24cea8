// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

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

// TestFind_MutatedCheckpoints changes checkpoints at random positions: what loads must have the saved bits.
func TestFind_MutatedCheckpoints(t *testing.T) {
	dir := t.TempDir()
	want := newStore(t, 1)
	path := save(t, Saver{Dir: dir}, want, 1, map[string]any{"epoch": 3})
	names := []string{variablesName, storeName, manifestName}
	original := map[string][]byte{}
	for _, name := range names {
		raw := readFile(t, filepath.Join(path, name))
		original[name] = raw
	}
	rng := campaign.Rand(7)
	tried, accepted := 0, 0
	for i := range campaign.Times(1000) {
		tried++
		name := names[rng.IntN(len(names))]
		raw := campaign.Mutate(rng, original[name], original[names[rng.IntN(len(names))]])
		putFile(t, filepath.Join(path, name), raw)
		c, skipped := newest(t, dir)
		if c == nil {
			if len(skipped) != 1 {
				t.Fatalf("mutation %d: skipped %v", i, skipped)
			}
		} else {
			accepted++ // white space in the manifest, or a mutation that changed nothing
			store := model.NewStore()
			if err := c.Load(store, nil); err != nil {
				t.Fatalf("mutation %d of %s: %v", i, name, err)
			}
			sameVariables(t, store, want, nil)
			if string(c.Meta) != `{"epoch":3}` || c.Step != 1 {
				t.Fatalf("mutation %d of %s: step %d, meta %s", i, name, c.Step, c.Meta)
			}
		}
		putFile(t, filepath.Join(path, name), original[name])
	}
	if accepted > tried/20 {
		t.Errorf("%d of %d mutations were accepted", accepted, tried)
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
