// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/datatest"
)

// readers are the readers of untrusted datasets, each with the files of a valid one.
var readers = map[string]struct {
	files func(t *testing.T) map[string][]byte
	read  func(dir string) error
}{
	"CIFAR-100": {
		func(*testing.T) map[string][]byte { return datatest.CIFAR100(200, 50) },
		func(dir string) error { _, _, err := CIFAR100(dir); return err },
	},
	"CIFAR-100's archive": {
		func(t *testing.T) map[string][]byte {
			return map[string][]byte{cifarArchive: packed(datatest.CIFAR100(200, 50), allNames...)}
		},
		func(dir string) error { _, _, err := CIFAR100(dir); return err },
	},
	"lists": {
		func(*testing.T) map[string][]byte {
			return map[string][]byte{"train.txt": []byte(strings.Repeat("a/b.jpg 0\n", 20_000))}
		},
		func(dir string) error { _, err := Lists(dir, "train.txt", nil); return err },
	},
	"tar": {
		func(*testing.T) map[string][]byte {
			var members [][2]string
			for i := range 300 {
				name := strings.Repeat("x", i)
				members = append(members, [2]string{name + ".jpg", strings.Repeat("image", 100)}, [2]string{name + ".cls", "3"})
			}
			return map[string][]byte{"0.tar": datatest.Tar(members...)}
		},
		func(dir string) error { _, err := training(dir); return err },
	},
}

// A valid dataset, and mutated ones. Images are bounded by their pixels instead: TestDecodeRefusesDamage.
func TestReaders_UseMemoryInProportionToTheirFiles(t *testing.T) {
	rng := campaign.Rand(3)
	for _, name := range slices.Sorted(maps.Keys(readers)) {
		r := readers[name]
		files := r.files(t)
		names := slices.Sorted(maps.Keys(files))
		dir := datatest.Tree(t, files)
		for i := range campaign.Times(20) {
			target := names[rng.IntN(len(names))]
			raw := files[target]
			if i > 0 {
				raw = campaign.Mutate(rng, raw, raw)
			}
			size := len(raw)
			for _, other := range names {
				if other != target {
					size += len(files[other])
				}
			}
			path := filepath.Join(dir, target)
			if err := os.WriteFile(path, raw, 0o644); err != nil {
				t.Fatal(err)
			}
			var err error
			used, took := campaign.Cost(func() { err = r.read(dir) })
			if used > uint64(3*size+16<<20) || took > 20*time.Second {
				t.Errorf("%s, %d: %d bytes allocated for %d, in %v", name, i, used, size, took)
			}
			if i == 0 && err != nil || err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("%s, %d: %v", name, i, err)
			}
			if err := os.WriteFile(path, files[target], 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestRead_LeaksNothingWhereverItEnds(t *testing.T) {
	for _, container := range []string{"folders", "tar"} {
		f, rng := sources(t)[container], campaign.Rand(11)
		campaign.Leaks(t, 20, func(int) {
			left, set := 1+rng.IntN(6), streamed(t, f, Streaming{Workers: 1 + rng.IntN(8)})
			for _, err := range read(set, Augment{}, 3, 13, epochs(f.Len(), 3)) {
				if left--; err != nil || left == 0 {
					break
				}
			}
		})
	}
}
