// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vtab_test

import (
	"fmt"
	"image"
	"log"
	"log/slog"
	"os"
	"testing/fstest"

	"github.com/wepe-go/wepe/data/vtab"
	"github.com/wepe-go/wepe/internal/datatest"
)

// A copy of VTAB-1k with one task and five images; partial allows lists of other lengths than VTAB's.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	files := fstest.MapFS{"dtd/1.png": &fstest.MapFile{Data: datatest.PNG(image.NewGray(image.Rect(0, 0, 7, 5)))}}
	for list, lines := range map[string]string{"train800": "1.png 46", "val200": "1.png 7",
		"train800val200": "1.png 46\n1.png 7", "test": "1.png 3"} {
		files["dtd/"+list+".txt"] = &fstest.MapFile{Data: []byte(lines)}
	}
	if err := os.CopyFS(dir, files); err != nil {
		log.Fatal(err)
	}
	tasks, err := vtab.Choose([]string{"all"})
	if err != nil {
		log.Fatal(err)
	}
	lists, err := vtab.Open(dir, tasks, true, slog.New(slog.DiscardHandler))
	fmt.Println(len(lists), lists["dtd"].Train[1].Labels, lists["dtd"].Test[1].Labels, err)
	// Output: 1 [46 7] [3] <nil>
}
