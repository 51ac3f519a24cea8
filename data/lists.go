// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/wepe-go/wepe/internal/disk"
)

const (
	maxListBytes = 256 << 20
	maxLabels    = 1_000_000
)

// Lists reads a list of images in a directory: VTAB-1k's train800.txt, val200.txt, train800val200.txt and test.txt.
// Each line is a path relative to the directory and a label counted from 0, with white space between:
//
//	images/train800/000017.jpg 3
//
// list is the file's name within dir. Without class names the classes are named 0 to the largest label; with them a
// label beyond the last is an error. A path that leaves dir is an error.
func Lists(dir, list string, classes []string) (*Files, error) {
	if !filepath.IsLocal(list) {
		return nil, fmt.Errorf("data: %s: list %s leaves the directory", dir, list)
	}
	file, err := disk.Open(filepath.Join(dir, list))
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	defer file.Close()
	paths, labels, err := parseList(file, len(classes))
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", filepath.Join(dir, list), err)
	}
	if classes == nil {
		if classes, err = numberedClasses(labels); err != nil {
			return nil, fmt.Errorf("data: %s: %w", filepath.Join(dir, list), err)
		}
	}
	name := filepath.Base(dir) + "-" + strings.TrimSuffix(filepath.Base(list), filepath.Ext(list))
	return &Files{Name: name, Dir: dir, Labels: labels, Classes: classes, In: &directory{dir, paths}}, nil
}

// parseList reads the lines; classes is 0 for any number.
func parseList(r io.Reader, classes int) (paths names, labels []int32, err error) {
	limit := maxLabels
	if classes > 0 {
		limit = classes
	}
	limited := &io.LimitedReader{R: r, N: maxListBytes}
	lines := bufio.NewScanner(limited)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) != 2 {
			return paths, nil, fmt.Errorf("line %d: %d fields in %.60q, want a path without spaces and a label", n, len(fields),
				lines.Text())
		}
		label, err := strconv.Atoi(fields[1])
		if err != nil || label < 0 || label >= limit {
			return paths, nil, fmt.Errorf("line %d: label %.20q, want 0 to %d", n, fields[1], limit-1)
		}
		path := filepath.FromSlash(fields[0])
		if !filepath.IsLocal(path) {
			return paths, nil, fmt.Errorf("line %d: path %.60q leaves the directory", n, fields[0])
		}
		paths.add(filepath.ToSlash(filepath.Clean(path)))
		labels = append(labels, int32(label))
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return paths, nil, fmt.Errorf("line %d: longer than %d bytes", len(labels)+1, bufio.MaxScanTokenSize)
	case err != nil:
		return paths, nil, err
	case limited.N == 0:
		return paths, nil, fmt.Errorf("more than %d bytes", maxListBytes-1)
	case len(labels) == 0:
		return paths, nil, errors.New("the list is empty")
	}
	return paths, labels, nil
}
