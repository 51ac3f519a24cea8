// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package program

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/data/parquet"
)

// Streaming are the flags of a program that reads pictures for each batch.
type Streaming struct {
	On bool
	data.Streaming

	damaged string
}

// Flags adds them.
func (s *Streaming) Flags(flags *flag.FlagSet) {
	flags.BoolVar(&s.On, "stream", false, "read the pictures of each batch from disk, ahead of its use, rather than "+
		"all into memory; what a set may take is then no more than its index")
	flags.IntVar(&s.Workers, "workers", 0, "with -stream: pictures that are decoded at the same time; default one a core")
	flags.StringVar(&s.damaged, "damaged", "", "with -stream: what a damaged picture is, an error, the default, or "+
		"to skip, which counts it, up to one in a hundred")
}

// Finish refuses what makes no sense, once the flags are parsed.
func (s *Streaming) Finish() error {
	switch {
	case !s.On && (s.Workers != 0 || s.damaged != ""):
		return errors.New("-workers and -damaged are for -stream")
	case s.Workers < 0:
		return fmt.Errorf("-workers is %d, want 1 or more", s.Workers)
	case s.damaged != "" && s.damaged != "error" && s.damaged != "skip":
		return fmt.Errorf("-damaged is %q, want error or skip", s.damaged)
	}
	s.Skip, s.Log = s.damaged == "skip", Line
	return nil
}

// String says how pictures are read.
func (s *Streaming) String() string {
	if !s.On {
		return "read into memory"
	}
	return fmt.Sprintf("read for each batch by %d workers", cmp.Or(s.Workers, runtime.GOMAXPROCS(0)))
}

// Pictures finds the labelled pictures of a directory: in Parquet files of the hub's form, or tar shards of
// WebDataset's, where it has some, else in class folders. Those held out are the directory's own, or the given share
// of each class. It also says which it found.
func Pictures(dir string, held float64) (train, heldOut *data.Files, what string, err error) {
	debug.SetGCPercent(30)     // what is read for a batch is short-lived: collecting it more often costs little
	defer debug.FreeOSMemory() // an index is a small part of what it is made from
	for _, kind := range []struct {
		extension, name string
		open            func(dir string, paths, classes []string) (*data.Files, error)
	}{{parquet.Extension, "Parquet files", parquet.Files}, {".tar", "tar shards", data.Tar}} {
		paths, heldPaths, err := data.Shards(dir, kind.extension)
		if err != nil {
			return nil, nil, "", err
		}
		if len(paths) == 0 {
			continue
		}
		what = fmt.Sprintf("%d %s", len(paths)+len(heldPaths), kind.name)
		if train, err = kind.open(dir, paths, nil); err != nil {
			return nil, nil, "", err
		}
		if heldPaths == nil {
			train, heldOut, err = train.HoldOut(held, 0)
		} else {
			heldOut, err = kind.open(dir, heldPaths, train.Classes)
		}
		return train, heldOut, what, err
	}
	train, heldOut, err = data.Folder(dir, nil, held, 0)
	return train, heldOut, "class folders", err
}
