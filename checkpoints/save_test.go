// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/janpfeifer/must"

	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/internal/weight"
)

// randomTensor fills a tensor of any type with random bits, NaNs and all; bools with 0 and 1.
func randomTensor(rng *rand.Rand, dtype dtypes.DType, dims ...int) *tensors.Tensor {
	t := tensors.FromShape(shapes.Make(dtype, dims...))
	must.M(t.MutableBytes(func(data []byte) {
		for i := range data {
			data[i] = byte(rng.Uint32())
			if dtype == dtypes.Bool {
				data[i] &= 1
			}
		}
	}))
	return t
}

// bytesOf copies the bytes of a tensor.
func bytesOf(t testing.TB, x *tensors.Tensor) []byte {
	t.Helper()
	var out []byte
	gomlxtest.NoError(t, x.ConstBytes(func(data []byte) { out = bytes.Clone(data) }))
	return out
}

// newStore returns a store with one variable of every type and some of awkward shapes.
func newStore(t testing.TB, seed uint64) *model.Store {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	store := model.NewStore()
	create := func(path string, value *tensors.Tensor, trainable bool) {
		v := gomlxtest.Must(store.CreateVariable(path, value))(t)
		v.SetTrainable(trainable)
	}
	for i, known := range safetensorsDTypes {
		create("/vit/block_"+known.name+"/weights", randomTensor(rng, known.dtype, 2, 3, 5+i), i%2 == 0)
	}
	create("/scalar", randomTensor(rng, dtypes.Float32), true)
	create("/empty", tensors.FromShape(shapes.Make(dtypes.Float64, 3, 0)), true)
	create("/näme \"quoted\" <x>", randomTensor(rng, dtypes.BFloat16, 7), true)
	create("/"+model.RNGStateVariableName, randomTensor(rng, dtypes.Uint64, 3), false)
	create("/data/images", randomTensor(rng, dtypes.Uint8, 11, 2), false)
	return store
}

func isData(path string) bool { return strings.HasPrefix(path, "/data/") }

// sameVariables fails unless both stores contain the same variables: paths, shapes, bits and whether they are
// trainable.
func sameVariables(t *testing.T, got, want *model.Store, omit func(string) bool) {
	t.Helper()
	gotVars, wantVars := variablesOf(got, omit), variablesOf(want, omit)
	check(t, len(gotVars) == len(wantVars), "%d variables, want %d", len(gotVars), len(wantVars))
	for path, w := range wantVars {
		g := gotVars[path]
		if check(t, g != nil, "%s is missing", path); g == nil {
			continue
		}
		check(t, g.Shape().Equal(w.Shape()) && g.Trainable == w.Trainable,
			"%s: %s trainable=%t, want %s trainable=%t", path, g.Shape(), g.Trainable, w.Shape(), w.Trainable)
		check(t, bytes.Equal(bytesOf(t, g.MustValue()), bytesOf(t, w.MustValue())), "%s: other bits", path)
	}
}

// sameBytes compares files of two directories.
func sameBytes(t *testing.T, got, want string, names ...string) {
	t.Helper()
	for _, name := range names {
		check(t, bytes.Equal(readFile(t, filepath.Join(got, name)), readFile(t, filepath.Join(want, name))),
			"%s of %s and %s differ", name, got, want)
	}
}

func save(t testing.TB, s Saver, store *model.Store, step int64, meta any) string {
	t.Helper()
	return gomlxtest.Must(s.Save(store, step, meta))(t)
}

func newest(t testing.TB, dir string) (*Checkpoint, []error) {
	t.Helper()
	c, skipped, _, err := latest(dir, "")
	gomlxtest.NoError(t, err)
	return c, skipped
}

func TestSave_EveryType(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs", "first")
	want := newStore(t, 1)
	meta := map[string]any{"best": 0.1234567890123, "note": "a <b> & \u2028 \"c\"\n"}
	save(t, Saver{Dir: dir, Omit: isData}, want, 123, meta)
	c, skipped := newest(t, dir)
	is.Equal(t, "skipped", len(skipped), 0)
	is.Equal(t, "the latest", fmt.Sprint(c.Step, filepath.Base(c.Path)), fmt.Sprint(123, "step-00000123"))
	again := save(t, Saver{Dir: t.TempDir(), Omit: isData}, newStore(t, 1), 123, meta) // of an equal state
	sameBytes(t, c.Path, again, variablesName, storeName, manifestName)
	var got map[string]any
	gomlxtest.NoError(t, json.Unmarshal(c.Meta, &got))
	is.Equal(t, "meta", got, meta)
	store := model.NewStore()
	gomlxtest.NoError(t, c.Load(store, nil))
	is.Equal(t, "an omitted variable", store.GetVariable("/data/images"), nil)
	sameVariables(t, store, want, isData)
	built := newStore(t, 2) // the same model with other values and wrong flags
	data := bytesOf(t, built.GetVariable("/data/images").MustValue())
	for v := range built.IterVariables() {
		v.SetTrainable(!v.Trainable)
	}
	gomlxtest.NoError(t, c.Load(built, isData))
	sameVariables(t, built, want, isData)
	is.Equal(t, "an omitted variable", bytesOf(t, built.GetVariable("/data/images").MustValue()), data)
	gomlxtest.NoError(t, c.Check(built, isData))
}

func TestSave_TypesOfHyperparameters(t *testing.T) {
	want := map[string]any{
		"/learning_rate": 1e-3, "/epochs": 120, "/initializer_seed": int64(math.MaxInt64), "/flag": true,
		"/vit/width": uint64(math.MaxUint64), "/dtype": "bfloat16", "/vit/drop": float32(0.1), "/u8": uint8(255),
		"/sizes": []int{3, 5, 7}, "/rates": []float64{0.1, 1e300}, "/names": []string{"a", "b <c>\uFFFD"},
		"/limit": math.Inf(1), "/low": float32(math.Inf(-1)), "/nothing": []int64(nil),
	}
	dir := t.TempDir()
	store := model.NewStore()
	store.SetParams(want)
	save(t, Saver{Dir: dir}, store, 0, nil)
	c, _ := newest(t, dir)
	is.Equal(t, "hyperparameters", c.Params, want)
	store.SetParam("/nan", math.NaN())
	save(t, Saver{Dir: dir}, store, 1, nil)
	c, _ = newest(t, dir)
	check(t, math.IsNaN(c.Params["/nan"].(float64)), "NaN came back as %v", c.Params["/nan"])
}

func TestSave_Refusals(t *testing.T) {
	withParam := func(value any) *model.Store {
		store := model.NewStore()
		store.SetParam("/vit/strange", value)
		return store
	}
	withVariable := func(path string, value *tensors.Tensor) *model.Store {
		store := model.NewStore()
		gomlxtest.Must(store.CreateVariable(path, value))(t)
		return store
	}
	empty := model.NewStore()
	empty.VariableWithShape("/head/weights", shapes.Make(dtypes.Float32, 2), nil)
	for i, c := range []struct {
		store *model.Store
		step  int64
		meta  any
		names string
	}{
		{withParam(func() {}), 1, nil, "/vit/strange"}, {withParam(nil), 1, nil, "/vit/strange"},
		{withParam("\xff"), 1, nil, "/vit/strange"}, {withVariable("/c", tensors.FromValue(complex64(1))), 1, nil, `"/c"`},
		{withVariable("/c\xff", tensors.FromValue(1.0)), 1, nil, `"/c\xff"`}, {empty, 1, nil, "/head/weights"},
		{model.NewStore(), -1, nil, "step"}, {model.NewStore(), 1e18, nil, "step"}, {model.NewStore(), 1, func() {}, "meta"},
		{withParam(strings.Repeat("a", maxSmall)), 1, nil, "hyperparameters"},
		{model.NewStore(), 1, strings.Repeat("a", maxSmall), "meta"},
	} {
		dir := t.TempDir()
		path, err := Saver{Dir: dir}.Save(c.store, c.step, c.meta)
		outcome(t, fmt.Sprint(i), err, c.names)
		left, _ := os.ReadDir(dir)
		check(t, path == "" && len(left) == 0, "%d: %q, left %v", i, path, left)
	}
}

// The longest hyperparameters and meta that are saved are also read; what is one byte longer is refused.
func TestSave_LimitsAreThoseOfReading(t *testing.T) {
	gomlxtest.OnGo(t)
	saved := func(param, meta int) (dir, path string, err error) {
		store := model.NewStore()
		store.SetParam("/text", strings.Repeat("a", param))
		dir = t.TempDir()
		path, err = Saver{Dir: dir}.Save(store, 7, strings.Repeat("b", meta))
		return dir, path, err
	}
	_, empty, err := saved(0, 0)
	gomlxtest.NoError(t, err)
	for k, name := range []string{storeName, manifestName} {
		room := maxSmall - int(gomlxtest.Must(os.Stat(filepath.Join(empty, name)))(t).Size())
		for more := range 2 {
			dir, _, err := saved([]int{room + more, 0}[k], []int{0, room + more}[k])
			c, skipped := newest(t, dir)
			check(t, (err == nil) == (more == 0) && (c != nil) == (more == 0) && len(skipped) == 0,
				"%s of %d bytes: %v, read as %v, %v", name, maxSmall+more, err, c, skipped)
		}
	}
}

func TestSave_RemovesOlderCheckpoints(t *testing.T) {
	dir := t.TempDir()
	store := newStore(t, 1)
	saver := Saver{Dir: dir}
	for _, name := range []string{"step-00000001", "step-5", "notes", "step-00000002.tmp-x"} { // not written by Save
		gomlxtest.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	gomlxtest.NoError(t, os.Mkdir(filepath.Join(dir, "step-00000003.tmp-77"), 0o755))
	for _, step := range []int64{10, 20, 40, 30, 40, 40, 40, 123456789} {
		path := save(t, saver, store, step, nil)
		c, _ := newest(t, dir) // saved again, it is newer
		check(t, step == 30 || c.Path == path, "saved %s, the newest is %s", path, c.Path)
	}
	is.Equal(t, "left", strings.Join(gomlxtest.Must(fs.Glob(os.DirFS(dir), "*"))(t), " "),
		"notes step-00000001 step-00000002.tmp-x step-123456789 step-5")
	c, skipped := newest(t, dir)
	check(t, c != nil && c.Step == 123456789 && len(skipped) == 0, "latest %+v, skipped %v", c, skipped)
}

// faultyFiles passes operations on to the file system, except the one numbered failAt, which fails as mode requires. It
// does not sync: lose simulates what a power cut would lose.
type faultyFiles struct {
	failAt  int // counted from 1; 0 never
	mode    faultMode
	count   int
	dead    bool              // after a crash every operation fails
	pending map[string]bool   // files with unsynced content
	names   map[string]bool   // directories with unsynced names
	moved   map[string]string // renames not yet synced: to -> from
	trace   []string          // for messages
}

type faultMode int

const (
	failNoSpace     faultMode = iota // ENOSPC after half the bytes
	failIO                           // EIO, nothing done
	shortWrite                       // half the bytes and no error
	crashBefore                      // the process ends before the operation
	crashPowerFails                  // … after it, and the disk loses unsynced data
)

func (m faultMode) String() string {
	return [...]string{"ENOSPC", "EIO", "short write", "crash before", "power cut"}[m]
}

var errDead = errors.New("the process is dead")

// do counts an operation and runs it, or makes it fail.
func (f *faultyFiles) do(what, path string, run func() error, half func()) error {
	if f.dead {
		return errDead
	}
	f.count++
	f.trace = append(f.trace, fmt.Sprintf("%d: %s %s", f.count, what, filepath.Base(path)))
	if f.count != f.failAt {
		return run()
	}
	switch f.mode {
	case failNoSpace:
		if half != nil {
			half()
		}
		return &os.PathError{Op: what, Path: path, Err: syscall.ENOSPC}
	case failIO, shortWrite:
		if f.mode == shortWrite && half != nil {
			half()
			return nil
		}
		return &os.PathError{Op: what, Path: path, Err: syscall.EIO}
	}
	if f.dead = true; f.mode == crashBefore {
		return errDead
	}
	return errors.Join(run(), errDead)
}

func (f *faultyFiles) mkdir(path string) error {
	return f.do("mkdir", path, func() error {
		f.names[filepath.Dir(path)] = true
		return osFiles{}.mkdir(path)
	}, nil)
}

func (f *faultyFiles) create(path string) (created file, err error) {
	err = f.do("create", path, func() error {
		f.names[filepath.Dir(path)] = true
		f.pending[path] = true
		created, err = osFiles{}.create(path)
		return err
	}, nil)
	if err != nil && created != nil { // crashed after it
		created.Close()
	}
	return &faultyFile{f, path, created}, err
}

func (f *faultyFiles) syncDir(path string) error {
	return f.do("syncdir", path, func() error {
		delete(f.names, path)
		for to := range f.moved {
			if filepath.Dir(to) == path {
				delete(f.moved, to)
			}
		}
		_, err := os.Stat(path)
		return err
	}, nil)
}

func (f *faultyFiles) rename(from, to string) error {
	return f.do("rename", to, func() error {
		f.moved[to] = from
		return osFiles{}.rename(from, to)
	}, nil)
}

func (f *faultyFiles) removeAll(path string) error {
	return f.do("remove", path, func() error { return osFiles{}.removeAll(path) }, nil)
}

type faultyFile struct {
	files *faultyFiles
	path  string
	file  file
}

func (f *faultyFile) Write(p []byte) (n int, err error) {
	err = f.files.do("write", f.path, func() error {
		n, err = f.file.Write(p)
		return err
	}, func() { n, _ = f.file.Write(p[:len(p)/2]) })
	return n, err
}

func (f *faultyFile) Sync() error {
	return f.files.do("sync", f.path, func() error {
		delete(f.files.pending, f.path)
		return nil
	}, nil)
}

func (f *faultyFile) Close() error {
	err := f.files.do("close", f.path, func() error { return nil }, nil)
	f.file.Close() // always close: the test has a limited number of descriptors
	return err
}

// lose simulates a power cut: each unsynced rename is undone or not, each unsynced file truncated, zeroed or removed,
// as rng decides.
func (f *faultyFiles) lose(t *testing.T, rng *rand.Rand) {
	t.Helper()
	for to, from := range f.moved {
		if rng.IntN(2) == 0 {
			gomlxtest.NoError(t, os.Rename(to, from))
		}
	}
	for path := range f.pending {
		for to, from := range f.moved { // it may have moved with its directory
			if moved := strings.Replace(path, from, to, 1); fileExists(moved) {
				path = moved
			}
		}
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		switch rng.IntN(4) {
		case 0:
			err = os.Remove(path)
		case 1:
			err = os.Truncate(path, rng.Int64N(info.Size()+1))
		case 2:
			err = os.WriteFile(path, make([]byte, info.Size()), 0o644)
		}
		gomlxtest.NoError(t, err)
	}
	for dir := range f.names { // names of an unsynced directory: each file in it may be gone
		entries, _ := os.ReadDir(dir)
		for _, entry := range entries {
			if entry.Type().IsRegular() && rng.IntN(2) == 0 {
				gomlxtest.NoError(t, os.Remove(filepath.Join(dir, entry.Name())))
			}
		}
	}
}

func newFaultyFiles(failAt int, mode faultMode) *faultyFiles {
	return &faultyFiles{failAt: failAt, mode: mode, pending: map[string]bool{}, names: map[string]bool{},
		moved: map[string]string{}}
}

// afterFault checks the invariants after a fault while saving step 2 over step 1: a complete checkpoint of one of the
// two loads, it is the newer one if Save reported success, and every directory with a final name is complete.
func afterFault(t *testing.T, dir string, path string, saveErr error, stores map[int64]*model.Store) {
	t.Helper()
	c, skipped := newest(t, dir)
	if c == nil {
		t.Fatalf("no checkpoint left; skipped %v", skipped)
	}
	check(t, saveErr != nil || c.Step == 2, "Save succeeded, the latest is of step %d; skipped %v", c.Step, skipped)
	check(t, path == "" || filepath.Base(c.Path) == "step-00000002", "Save returned %s, the latest is %s", path, c.Path)
	store := model.NewStore()
	gomlxtest.NoError(t, c.Load(store, nil))
	sameVariables(t, store, stores[c.Step], nil)
	for _, s := range skipped {
		check(t, strings.Contains(s.Error(), ".tmp-"), "half-written under a final name: %v", s)
	}
}

// twoStores returns the states of step 1 and 2, larger than the write buffer so that the tensors take several writes.
func twoStores(t testing.TB) map[int64]*model.Store {
	stores := map[int64]*model.Store{1: newStore(t, 1), 2: newStore(t, 2)}
	for seed, store := range stores {
		rng := rand.New(rand.NewPCG(uint64(seed), 5))
		gomlxtest.Must(store.CreateVariable("/large", randomTensor(rng, dtypes.Float32, 127, 131)))(t)
	}
	return stores
}

func TestSave_FaultAtAnyOperationLosesNoCheckpoint(t *testing.T) {
	stores, tried := twoStores(t), 0
	for mode := range crashPowerFails + 1 {
		var operations, afterRename int
		for try := 0; ; try++ {
			tried++
			failAt := 1 + try
			if mode == crashPowerFails { // which loses different data each time
				failAt = 1 + try/campaign.Times(5)
			}
			dir := t.TempDir()
			first := newFaultyFiles(0, 0)
			save(t, Saver{Dir: dir, files: first}, stores[1], 1, nil)
			if len(first.pending)+len(first.names)+len(first.moved) > 0 {
				t.Fatalf("Save left unsynced files %v, names %v, renames %v", first.pending, first.names, first.moved)
			}
			files := newFaultyFiles(failAt, mode)
			path, err := Saver{Dir: dir, files: files}.Save(stores[2], 2, nil)
			if operations = files.count; operations < failAt { // no such operation: this save succeeded
				if err != nil {
					t.Fatalf("without a fault: %v", err)
				}
				break
			}
			name := fmt.Sprintf("%v at %s", mode, files.trace[failAt-1])
			check(t, err != nil, "%s: Save says it succeeded", name)
			if mode == crashPowerFails {
				files.lose(t, campaign.Rand(uint64(try)))
			}
			if mode == failIO && path != "" { // an error with a path: the checkpoint is complete
				afterRename++
			} else {
				path = ""
			}
			afterFault(t, dir, path, err, stores)
			_, leftovers, _ := listNames(dir)
			check(t, files.dead || len(leftovers) == 0, "%s: left %v", name, leftovers)
			// The next save succeeds and removes the leftovers.
			save(t, Saver{Dir: dir, files: newFaultyFiles(0, 0)}, stores[2], 2, nil)
			c, skipped := newest(t, dir)
			check(t, c != nil && c.Step == 2 && len(skipped) == 0, "%s: the next save leaves %+v, %v", name, c, skipped)
			if t.Failed() {
				t.Fatalf("%s: %v", name, err)
			}
		}
		// mkdir, four or more for each of three files, two syncs around the rename, a second write
		check(t, operations >= 17, "only %d operations were counted", operations)
		// syncing the run directory, removing the old checkpoint
		check(t, mode != failIO || afterRename == 2, "%d faults after the rename, want 2", afterRename)
	}
	t.Logf("%d tries", tried)
}

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
			if extra > 0 {
				is.Equal(t, fmt.Sprint("with a generator ", seeded), len(onlyMismatch(t, err).Missing), extra)
				continue
			}
			gomlxtest.NoError(t, err)
		}
	}
	loading := model.NewStore()
	loading.SetLoader(noLoader{})
	m := imported(t, put(t, timm, made(timm, smallViT), timmConfig(smallViT)), ImportOptions{})
	for _, err := range []error{c.Load(loading, nil), m.Load(loading.Scope("/vit"))} {
		check(t, errors.Is(err, weight.ErrLoader), "a store with a loader: %v", err)
	}
	scope := model.NewStore().Scope("/vit")
	gomlxtest.NoError(t, m.Load(scope))
	is.Equal(t, "variables", scope.NumVariables(), len(m.Variables))
	check(t, m.Load(scope) != nil, "a model was loaded twice")
}

// noLoader loads nothing.
type noLoader struct{ model.Loader }

// The names of one run: attempts of a step, and what no Save writes.
func TestNames_AreOrderedByStepAndAttempt(t *testing.T) {
	for base, want := range map[string]dirName{
		"step-00000007": {step: 7}, "step-00000007.3": {step: 7, attempt: 3}, "step-123456789": {step: 123456789},
		"step-00000007.tmp-15": {step: 7, temporary: true}, "step-00000007.3.tmp-15": {step: 7, attempt: 3, temporary: true},
		"step-999999999999999999": {step: 999999999999999999},
	} {
		got, ok := parseName(base)
		is.Equal(t, base, got, want)
		is.Equal(t, base, ok, true)
	}
	for _, base := range []string{"step-7", "step-000000007", "step-00000007.0", "step-00000007.03", "step-0000000x",
		"step-1999999999999999999", "step-00000007.tmp-", "xstep-00000007", "step-00000007.1234567"} {
		_, ok := parseName(base)
		is.Equal(t, base, ok, false)
	}
	var want []string
	dir := t.TempDir()
	for _, name := range []string{"7.11", "7.10", "7.2", "7", "6"} {
		want = append(want, filepath.Join(dir, "step-0000000"+name))
		gomlxtest.NoError(t, os.Mkdir(want[len(want)-1], 0o755))
	}
	got, _, err := listNames(dir)
	gomlxtest.NoError(t, err)
	is.Equal(t, dir, got, want)
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
			is.Equal(t, fmt.Sprintf("best %q, last %q: %q: %v, skipped", c.best, c.last, which, err),
				[]any{step, kind, len(skipped)}, []any{want, map[int64]string{7: BestDir, 9: LastDir}[want], c.skipped[which]})
		}
	}
	path := save(t, Saver{Dir: filepath.Join(t.TempDir(), BestDir)}, model.NewStore(), 7, nil)
	t.Chdir(path)
	for _, spelled := range []string{path, path + "/", ".", "../" + filepath.Base(path)} {
		c, _, err := Find(spelled, "")
		check(t, err == nil && c.Kind == BestDir, "%s: %+v, %v", spelled, c, err)
	}
	file := filepath.Join(t.TempDir(), "file")
	putFile(t, file, nil)
	c, _, err := Find(file, "")
	check(t, c == nil && err == nil, "a file has no checkpoint: %v, %v", c, err)
}

// removing removes the new checkpoint as soon as it is complete, as another process could.
type removing struct{ osFiles }

func (removing) rename(from, to string) error {
	return errors.Join(os.Rename(from, to), os.RemoveAll(to))
}

func TestSave_CheckpointThatVanishesIsAnError(t *testing.T) {
	path, err := Saver{Dir: t.TempDir(), files: removing{}}.Save(model.NewStore(), 7, nil)
	check(t, err != nil && filepath.Base(path) == "step-00000007", "%q, %v", path, err)
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
	file := func(name string, change func([]byte) []byte) func(string) {
		return func(dir string) { rewrite(t, filepath.Join(dir, name), change) }
	}
	cut := func(raw []byte) []byte { return raw[:len(raw)/2] }
	flip := func(raw []byte) []byte { raw[len(raw)/2] ^= 1; return raw }
	replace := func(from, to string) func([]byte) []byte {
		return func(raw []byte) []byte { return bytes.Replace(raw, []byte(from), []byte(to), 1) }
	}
	gone := func(name string) func(string) {
		return func(dir string) { gomlxtest.NoError(t, os.Remove(filepath.Join(dir, name))) }
	}
	resealed := func(change func(*manifest)) func(string) {
		return func(dir string) {
			m := gomlxtest.Must(readManifest(dir))(t)
			change(&m)
			putFile(t, filepath.Join(dir, manifestName), gomlxtest.Must(m.seal())(t))
		}
	}
	intact := newStore(t, 1)
	for name, damage := range map[string]func(dir string){
		"manifest half": file(manifestName, cut), "manifest gone": gone(manifestName),
		"manifest null": file(manifestName, func([]byte) []byte { return []byte("null") }),
		"other step":    file(manifestName, replace(`"step": 2`, `"step": 3`)),
		"other meta":    file(manifestName, replace(`0.25`, `0.75`)),
		"other directory name": func(dir string) {
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
		"variables a directory": func(dir string) {
			gone(variablesName)(dir)
			gomlxtest.NoError(t, os.Mkdir(filepath.Join(dir, variablesName), 0o755))
		},
		"store half": file(storeName, cut), "store one bit": file(storeName, flip), "store gone": gone(storeName),
	} {
		dir := t.TempDir()
		save(t, Saver{Dir: dir}, intact, 1, nil)
		damage(beside(t, dir, newStore(t, 2), 2, map[string]float64{"best": 0.25}))
		gomlxtest.NoError(t, os.Mkdir(filepath.Join(dir, "step-00000009.tmp-4"), 0o755))
		got, skipped := newest(t, dir)
		is.Equal(t, name+": the step, skipped", []int{int(got.Step), len(skipped)}, []int{1, 2})
		is.Refused(t, name, skipped[0], ".tmp-4")
		is.Refused(t, name, skipped[1], dir)
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
	refuses(t, "a flipped bit", c.Load(store, nil), inFile, "SHA-256")
	sameVariables(t, store, before, nil)
	gomlxtest.NoError(t, os.RemoveAll(c.Path))
	check(t, errors.Is(c.Check(store, nil), fs.ErrNotExist), "a checkpoint that was removed")
}

func TestLoad_AnotherModelListsTheDifferences(t *testing.T) {
	storeOf := func(shapes map[string][]int) *model.Store {
		store := model.NewStore()
		for path, dims := range shapes {
			value := randomTensor(rand.New(rand.NewPCG(1, 1)), dtypes.Float32, dims...)
			gomlxtest.Must(store.CreateVariable(path, value))(t)
		}
		return store
	}
	saved := storeOf(map[string][]int{"/vit/head/weights": {7, 5}, "/vit/block_1/weights": {3, 11}, "/vit/norm": {13},
		"/data/images": {2}})
	other := storeOf(map[string][]int{"/vit/head/weights": {7, 3}, "/vit/position": {17}, "/vit/norm": {13},
		"/metrics/mean": nil})
	dir := t.TempDir()
	save(t, Saver{Dir: dir}, saved, 1, nil)
	c, _ := newest(t, dir)
	omit := func(path string) bool { return isData(path) || strings.HasPrefix(path, "/metrics/") }
	before := bytesOf(t, other.GetVariable("/vit/norm").MustValue())
	for _, err := range []error{c.Load(other, omit), c.Check(other, omit)} {
		e := onlyMismatch(t, err)
		is.Equal(t, "differences", *e, MismatchError{e.Path, []string{"/vit/position (Float32)[17]"},
			[]string{"/vit/block_1/weights (Float32)[3, 11]"},
			[]string{"/vit/head/weights (Float32)[7, 5], in the model (Float32)[7, 3]"}})
	}
	is.Equal(t, "the store", bytesOf(t, other.GetVariable("/vit/norm").MustValue()), before)
	is.Equal(t, "variables of the store", other.NumVariables(), 4)
	fresh := model.NewStore()
	gomlxtest.NoError(t, c.Load(fresh, omit))
	fresh.Scope("/vit").VariableWithValue("position", float32(17)) // as if another model was built after loading
	is.Equal(t, "missing after building another model", len(onlyMismatch(t, c.Check(fresh, omit)).Missing), 1)
	hostile := &MismatchError{Path: "x", Missing: strings.Fields("a b c d e f g"), Unexpected: []string{"b\n\x1b[31m [7]"}}
	text := hostile.Error()
	check(t, !strings.ContainsAny(text, "\n\x1b") && !strings.Contains(text, ", f"), "%q", text)
}

func TestLock_HasOneOwner(t *testing.T) {
	if dir := os.Getenv("WEPE_TEST_LOCK"); dir != "" { // the other process
		check(t, is.ErrorOf(Lock(dir)) != nil, "locked")
		return
	}
	dir, file := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "file")
	putFile(t, file, nil)
	check(t, is.ErrorOf(Lock(filepath.Join(file, "run"))) != nil, "locked below a file")
	for range 2 { // again after unlocking
		unlock := gomlxtest.Must(Lock(dir))(t)
		other := exec.Command(os.Args[0], "-test.run", "^TestLock_HasOneOwner$", "-test.v")
		other.Env = append(os.Environ(), "WEPE_TEST_LOCK="+dir)
		out, err := other.CombinedOutput()
		check(t, err == nil && strings.Contains(string(out), "--- PASS"), "the other process: %v\n%s", err, out)
		check(t, is.ErrorOf(Lock(dir)) != nil, "locked twice in one process")
		gomlxtest.NoError(t, unlock())
	}
}
