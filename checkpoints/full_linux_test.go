// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
)

// A disk of one mebibyte, with every number of free pages that is too small for a checkpoint.
func TestSave_FullDiskKeepsTheOlderCheckpoint(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("no small disk can be mounted: %v", err)
	}
	t.Cleanup(func() { gomlxtest.NoError(t, syscall.Unmount(disk, 0)) })
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
		is.Equal(t, "free bytes", free(), pages*page)
		_, err := Saver{Dir: dir}.Save(stores[2], 2, nil)
		if err == nil {
			break
		}
		check(t, errors.Is(err, syscall.ENOSPC), "%d pages: %v", pages, err)
		afterFault(t, dir, "", err, stores)
		is.Equal(t, "free bytes after the failure", free(), pages*page)
	}
	t.Logf("%d tries", pages)
	c, skipped := newest(t, dir)
	check(t, c.Step == 2 && len(skipped) == 0 && pages >= 17, "with %d pages %+v is saved, skipped %v", pages, c, skipped)
}
