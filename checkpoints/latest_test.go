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
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/campaign"
)

func TestADirectoryThatDoesNotExistHasNoCheckpoint(t *testing.T) {
	c, skipped, err := Find(filepath.Join(t.TempDir(), "none"), "")
	if c != nil || len(skipped) > 0 || err != nil {
		t.Errorf("%v, %v, %v", c, skipped, err)
	}
}

// rewrite replaces the content of a file by the result of change.
func rewrite(t testing.TB, path string, change func([]byte) []byte) {
	t.Helper()
	putFile(t, path, change(readFile(t, path)))
}

func TestADamagedCheckpointIsSkippedWithTheReason(t *testing.T) {
	cut := func(share int) func([]byte) []byte {
		return func(raw []byte) []byte { return raw[:len(raw)*share/100] }
	}
	flip := func(raw []byte) []byte { raw[len(raw)/2] ^= 1; return raw }
	replace := func(from, to string) func([]byte) []byte {
		return func(raw []byte) []byte {
			if !bytes.Contains(raw, []byte(from)) {
				panic(from + " is not there")
			}
			return bytes.Replace(raw, []byte(from), []byte(to), 1)
		}
	}
	file := func(name string, change func([]byte) []byte) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) { rewrite(t, filepath.Join(dir, name), change) }
	}
	gone := func(name string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	resealed := func(change func(*manifest)) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			m, err := readManifest(dir)
			if err != nil {
				t.Fatal(err)
			}
			change(&m)
			rewrite(t, filepath.Join(dir, manifestName), func([]byte) []byte {
				raw, err := m.seal()
				if err != nil {
					t.Fatal(err)
				}
				return raw
			})
		}
	}
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, dir string)
		want   string
	}{
		{"manifest empty", file(manifestName, cut(0)), "not JSON"},
		{"manifest half", file(manifestName, cut(50)), "not JSON"},
		{"manifest gone", gone(manifestName), "no such file"},
		{"manifest null", file(manifestName, func([]byte) []byte { return []byte("null") }), "no manifest"},
		{"other step", file(manifestName, replace(`"step": 2`, `"step": 3`)), "SHA-256 of the manifest"},
		{"other meta", file(manifestName, replace(`0.25`, `0.75`)), "SHA-256 of the manifest"},
		{"other directory name", func(t *testing.T, dir string) {
			if err := os.Rename(dir, strings.TrimSuffix(dir, "2")+"3"); err != nil {
				t.Fatal(err)
			}
		}, "it is of step 2"},
		{"newer format", resealed(func(m *manifest) { m.Version = 2 }), "version 2"},
		{"path out of the directory", resealed(func(m *manifest) { m.Files[0].Name = "../step-00000001/x" }), "files"},
		{"a file twice", resealed(func(m *manifest) { m.Files[1] = m.Files[0] }), "files"},
		{"variables empty", file(variablesName, cut(0)), "0 bytes"},
		{"variables half", file(variablesName, cut(50)), "its manifest says"},
		{"variables one byte longer", file(variablesName, func(raw []byte) []byte { return append(raw, 0) }), "says"},
		{"variables one bit", file(variablesName, flip), "SHA-256"},
		{"variables gone", gone(variablesName), "no such file"},
		{"variables a directory", func(t *testing.T, dir string) {
			gone(variablesName)(t, dir)
			if err := os.Mkdir(filepath.Join(dir, variablesName), 0o755); err != nil {
				t.Fatal(err)
			}
		}, "not a regular file"},
		{"store half", file(storeName, cut(50)), "its manifest says"},
		{"store one bit", file(storeName, flip), "SHA-256"},
		{"store gone", gone(storeName), "no such file"},
	} {
		dir := t.TempDir()
		want := newStore(t, 1)
		save(t, Saver{Dir: dir, KeepAll: true}, want, 1, nil)
		damaged := save(t, Saver{Dir: dir, KeepAll: true}, newStore(t, 2), 2, map[string]float64{"best": 0.25})
		c.damage(t, damaged)
		if err := os.Mkdir(filepath.Join(dir, "step-00000009.tmp-4"), 0o755); err != nil {
			t.Fatal(err)
		}
		got, skipped := newest(t, dir)
		if got == nil || got.Step != 1 {
			t.Fatalf("%s: latest %+v", c.name, got)
		}
		if len(skipped) != 2 || !strings.Contains(skipped[0].Error(), "step-00000009.tmp-4 skipped: incomplete") ||
			!strings.Contains(skipped[1].Error(), c.want) || strings.Contains(skipped[1].Error(), "\n") {
			t.Errorf("%s: skipped %v, want %q", c.name, skipped, c.want)
		}
		store := model.NewStore()
		if err := got.Load(store, nil); err != nil {
			t.Fatal(err)
		}
		sameVariables(t, store, want, nil)
	}
}

func TestDamageBetweenOpeningAndLoadingIsFound(t *testing.T) {
	dir := t.TempDir()
	save(t, Saver{Dir: dir, KeepAll: true}, newStore(t, 1), 1, nil)
	c, _ := newest(t, dir)
	rewrite(t, filepath.Join(c.Path, variablesName), func(raw []byte) []byte { raw[len(raw)-1] ^= 1; return raw })
	store, before := newStore(t, 2), newStore(t, 2)
	if err := c.Load(store, nil); err == nil || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("%v", err)
	}
	sameVariables(t, store, before, nil)
	if err := os.RemoveAll(c.Path); err != nil {
		t.Fatal(err)
	}
	if err := c.Check(store, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a checkpoint that was removed: %v", err)
	}
}

// TestNoMutationIsSilentlyAccepted changes checkpoints at random positions: what loads must have the saved bits.
func TestNoMutationIsSilentlyAccepted(t *testing.T) {
	dir := t.TempDir()
	want := newStore(t, 1)
	path := save(t, Saver{Dir: dir, KeepAll: true}, want, 1, map[string]any{"epoch": 3})
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

func TestACheckpointOfAnotherModelIsAnErrorThatListsTheDifference(t *testing.T) {
	create := func(store *model.Store, path string, dims ...int) {
		value := randomTensor(rand.New(rand.NewPCG(1, 1)), dtypes.Float32, dims...)
		if _, err := store.CreateVariable(path, value); err != nil {
			t.Fatal(err)
		}
	}
	saved := model.NewStore()
	create(saved, "/vit/head/weights", 7, 5)
	create(saved, "/vit/block_1/weights", 3, 11)
	create(saved, "/vit/norm", 13)
	create(saved, "/data/images", 2)
	dir := t.TempDir()
	save(t, Saver{Dir: dir, KeepAll: true}, saved, 1, nil)
	c, _ := newest(t, dir)

	other := model.NewStore()
	create(other, "/vit/head/weights", 7, 3)
	create(other, "/vit/position", 17)
	create(other, "/vit/norm", 13)
	create(other, "/metrics/mean")
	omit := func(path string) bool { return isData(path) || strings.HasPrefix(path, "/metrics/") }
	before := bytesOf(t, other.GetVariable("/vit/norm").MustValue())
	for _, err := range []error{c.Load(other, omit), c.Check(other, omit)} {
		var mismatch *MismatchError
		if !errors.As(err, &mismatch) {
			t.Fatalf("got %v", err)
		}
		text := err.Error()
		for _, want := range []string{
			"1 of other shape: /vit/head/weights (Float32)[7, 5], in the model (Float32)[7, 3]",
			"1 that it lacks: /vit/position (Float32)[17]",
			"1 that the model lacks: /vit/block_1/weights (Float32)[3, 11]",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%q lacks %q", text, want)
			}
		}
		if strings.Contains(text, "norm") || strings.Contains(text, "images") || strings.Contains(text, "mean") {
			t.Errorf("%q names what does not differ or is omitted", text)
		}
	}
	if !bytes.Equal(before, bytesOf(t, other.GetVariable("/vit/norm").MustValue())) ||
		other.GetVariable("/vit/block_1/weights") != nil {
		t.Error("the store was changed")
	}
	fresh := model.NewStore()
	if err := c.Load(fresh, omit); err != nil {
		t.Fatal(err)
	}
	create(fresh, "/vit/position", 17) // as if another model was built after loading
	var mismatch *MismatchError
	if err := c.Check(fresh, omit); !errors.As(err, &mismatch) || len(mismatch.Missing) != 1 {
		t.Errorf("Check after building another model: %v", err)
	}
}

func TestARunDirectoryHasOneOwner(t *testing.T) {
	if dir := os.Getenv("WEPE_TEST_LOCK"); dir != "" { // the other process
		if _, err := Lock(dir); err == nil {
			t.Fatal("locked")
		} else if !strings.Contains(err.Error(), dir+" is in use") {
			t.Fatal(err)
		}
		return
	}
	dir := filepath.Join(t.TempDir(), "run")
	unlock, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	other := exec.Command(os.Args[0], "-test.run", "^TestARunDirectoryHasOneOwner$", "-test.v")
	other.Env = append(os.Environ(), "WEPE_TEST_LOCK="+dir)
	if out, err := other.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("the other process: %v\n%s", err, out)
	}
	if _, err := Lock(dir); err == nil {
		t.Error("locked twice in one process")
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	unlock, err = Lock(dir)
	if err != nil {
		t.Fatalf("after unlocking: %v", err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
}
