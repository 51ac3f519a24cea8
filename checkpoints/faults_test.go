// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

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
		if err != nil {
			t.Fatal(err)
		}
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
		if _, err := store.CreateVariable("/large", randomTensor(rng, dtypes.Float32, 127, 131)); err != nil {
			t.Fatal(err)
		}
	}
	return stores
}

func TestSave_FaultAtAnyOperationLosesNoCheckpoint(t *testing.T) {
	stores := twoStores(t)
	for _, mode := range faultModes {
		var operations, afterRename int
		for try := 0; ; try++ {
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
}
