// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// randomTensor fills a tensor of any type with random bits, NaNs and all; bools with 0 and 1.
func randomTensor(rng *rand.Rand, dtype dtypes.DType, dims ...int) *tensors.Tensor {
	t := tensors.FromShape(shapes.Make(dtype, dims...))
	err := t.MutableBytes(func(data []byte) {
		for i := range data {
			data[i] = byte(rng.Uint32())
			if dtype == dtypes.Bool {
				data[i] &= 1
			}
		}
	})
	if err != nil {
		panic(err)
	}
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
	if len(gotVars) != len(wantVars) {
		t.Errorf("%d variables, want %d", len(gotVars), len(wantVars))
	}
	for path, w := range wantVars {
		g := gotVars[path]
		if g == nil {
			t.Errorf("%s is missing", path)
			continue
		}
		if !g.Shape().Equal(w.Shape()) || g.Trainable != w.Trainable {
			t.Errorf("%s: %s trainable=%t, want %s trainable=%t", path, g.Shape(), g.Trainable, w.Shape(), w.Trainable)
		}
		if !bytes.Equal(bytesOf(t, g.MustValue()), bytesOf(t, w.MustValue())) {
			t.Errorf("%s: other bits", path)
		}
	}
}

func save(t testing.TB, s Saver, store *model.Store, step int64, meta any) string {
	t.Helper()
	return gomlxtest.Must(s.Save(store, step, meta))(t)
}

func newest(t testing.TB, dir string) (*Checkpoint, []error) {
	t.Helper()
	c, skipped, err := latest(dir, "")
	gomlxtest.NoError(t, err)
	return c, skipped
}

func TestSave_EveryType(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs", "first")
	want := newStore(t, 1)
	type progress struct {
		Best float64
		Note string
	}
	meta := progress{0.1234567890123, "a <b> & \u2028 \"c\"\n"}
	save(t, Saver{Dir: dir, Omit: isData}, want, 123, meta)
	c, skipped := newest(t, dir)
	if c == nil || len(skipped) > 0 || c.Step != 123 || filepath.Base(c.Path) != "step-00000123" {
		t.Fatalf("latest: %+v, skipped %v", c, skipped)
	}
	equal := save(t, Saver{Dir: t.TempDir(), Omit: isData}, newStore(t, 1), 123, meta)
	for _, name := range []string{variablesName, storeName, manifestName} {
		if !bytes.Equal(readFile(t, filepath.Join(c.Path, name)), readFile(t, filepath.Join(equal, name))) {
			t.Errorf("%s of an equal state differs", name)
		}
	}
	var got progress
	if err := json.Unmarshal(c.Meta, &got); err != nil || got != meta {
		t.Errorf("meta %s: %+v, %v", c.Meta, got, err)
	}

	store := model.NewStore()
	if err := c.Load(store, nil); err != nil || store.GetVariable("/data/images") != nil {
		t.Fatalf("%v, or an omitted variable was saved", err)
	}
	sameVariables(t, store, want, isData)
	built := newStore(t, 2) // the same model with other values and wrong flags
	data := bytesOf(t, built.GetVariable("/data/images").MustValue())
	for v := range built.IterVariables() {
		v.SetTrainable(!v.Trainable)
	}
	gomlxtest.NoError(t, c.Load(built, isData))
	sameVariables(t, built, want, isData)
	if !bytes.Equal(data, bytesOf(t, built.GetVariable("/data/images").MustValue())) {
		t.Error("an omitted variable was changed")
	}
	if err := c.Check(built, isData); err != nil {
		t.Error(err)
	}
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
	if !reflect.DeepEqual(c.Params, want) {
		t.Errorf("got %#v\nwant %#v", c.Params, want)
	}
	rebuilt := model.NewStore()
	rebuilt.SetParams(c.Params)
	if got := model.GetParamOr(rebuilt.Scope("/vit"), "width", uint64(0)); got != math.MaxUint64 {
		t.Errorf("width %d", got)
	}

	store.SetParam("/nan", math.NaN())
	save(t, Saver{Dir: dir}, store, 1, nil)
	if c, _ := newest(t, dir); !math.IsNaN(c.Params["/nan"].(float64)) {
		t.Errorf("NaN came back as %v", c.Params["/nan"])
	}
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
		if left, _ := os.ReadDir(dir); err == nil || path != "" || !strings.Contains(err.Error(), c.names) || len(left) > 0 {
			t.Errorf("%d: %q, %v, left %v, want an error that names %s", i, path, err, left, c.names)
		}
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
			if c, skipped := newest(t, dir); (err == nil) != (more == 0) || (c != nil) != (more == 0) || len(skipped) > 0 {
				t.Errorf("%s of %d bytes: %v, read as %v, %v", name, maxSmall+more, err, c, skipped)
			}
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
		if c, _ := newest(t, dir); step != 30 && c.Path != path { // saved again, it is newer
			t.Errorf("saved %s, the newest is %s", path, c.Path)
		}
	}
	listed := gomlxtest.Must(os.ReadDir(dir))(t)
	var got []string
	for _, entry := range listed {
		got = append(got, entry.Name())
	}
	want := []string{"notes", "step-00000001", "step-00000002.tmp-x", "step-123456789", "step-5"}
	if !slices.Equal(got, want) {
		t.Errorf("left %q, want %q", got, want)
	}
	c, skipped := newest(t, dir)
	if c == nil || c.Step != 123456789 || len(skipped) != 0 {
		t.Errorf("latest %+v, skipped %v", c, skipped)
	}
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
	crashAfter                       // … and after it
	crashPowerFails                  // … after it, and the disk loses unsynced data
)

var faultModes = []faultMode{failNoSpace, failIO, shortWrite, crashBefore, crashAfter, crashPowerFails}

func (m faultMode) String() string {
	return [...]string{"ENOSPC", "EIO", "short write", "crash before", "crash after", "power cut"}[m]
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
	case shortWrite:
		if half == nil {
			return &os.PathError{Op: what, Path: path, Err: syscall.EIO}
		}
		half()
		return nil
	case failIO:
		return &os.PathError{Op: what, Path: path, Err: syscall.EIO}
	case crashBefore:
		f.dead = true
		return errDead
	}
	err := run()
	f.dead = true
	return errors.Wrapf(errDead, "after %v", err)
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
	if saveErr == nil && c.Step != 2 {
		t.Errorf("Save succeeded, the latest is of step %d; skipped %v", c.Step, skipped)
	}
	if path != "" && filepath.Base(c.Path) != "step-00000002" {
		t.Errorf("Save returned %s, the latest is %s", path, c.Path)
	}
	store := model.NewStore()
	gomlxtest.NoError(t, c.Load(store, nil))
	sameVariables(t, store, stores[c.Step], nil)
	for _, s := range skipped {
		if !strings.Contains(s.Error(), ".tmp-") {
			t.Errorf("half-written under a final name: %v", s)
		}
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
	for _, mode := range faultModes {
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
			if err == nil {
				t.Errorf("%s: Save says it succeeded", name)
			}
			if mode == crashPowerFails {
				files.lose(t, campaign.Rand(uint64(try)))
			}
			if mode == failIO && path != "" { // an error with a path: the checkpoint is complete
				afterRename++
			} else {
				path = ""
			}
			afterFault(t, dir, path, err, stores)
			if _, leftovers, _ := listNames(dir); !files.dead && len(leftovers) > 0 {
				t.Errorf("%s: left %v", name, leftovers)
			}
			// The next save succeeds and removes the leftovers.
			save(t, Saver{Dir: dir, files: newFaultyFiles(0, 0)}, stores[2], 2, nil)
			if c, skipped := newest(t, dir); c == nil || c.Step != 2 || len(skipped) > 0 {
				t.Errorf("%s: the next save leaves latest %+v, skipped %v", name, c, skipped)
			}
			if t.Failed() {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if operations < 17 { // mkdir, four or more for each of three files, two syncs around the rename, a second write
			t.Errorf("only %d operations were counted", operations)
		}
		if mode == failIO && afterRename != 2 { // syncing the run directory, removing the old checkpoint
			t.Errorf("%d faults after the rename, want 2", afterRename)
		}
	}
	t.Logf("%d tries", tried)
}
