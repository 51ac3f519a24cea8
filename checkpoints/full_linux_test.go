// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// A disk of one mebibyte, with every number of free pages that is too small for a checkpoint.
func TestSave_FullDiskKeepsTheOlderCheckpoint(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("no small disk can be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	free := func() (bytes int) {
		var s syscall.Statfs_t
		gomlxtest.NoError(t, syscall.Statfs(disk, &s))
		return int(s.Bfree) * int(s.Bsize)
	}
	stores, dir, page := twoStores(t), filepath.Join(disk, "run"), os.Getpagesize()
	save(t, Saver{Dir: dir}, stores[1], 1, nil)
	pages := 0
	for ; ; pages++ {
		filler := filepath.Join(disk, "filler")
		gomlxtest.NoError(t, os.RemoveAll(filler))
		putFile(t, filler, make([]byte, free()-pages*page))
		if free() != pages*page {
			t.Fatalf("%d bytes are free, want %d pages", free(), pages)
		}
		_, err := Saver{Dir: dir}.Save(stores[2], 2, nil)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%d pages: %v", pages, err)
		}
		if afterFault(t, dir, "", err, stores); free() != pages*page {
			t.Errorf("%d pages: %d bytes are free after the failure", pages, free())
		}
	}
	t.Logf("%d tries", pages)
	if c, skipped := newest(t, dir); c.Step != 2 || len(skipped) > 0 || pages < 17 {
		t.Errorf("with %d pages step %d is saved, skipped %v", pages, c.Step, skipped)
	}
}
