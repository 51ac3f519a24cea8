// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package parquet_test

import (
	"fmt"
	"image"
	"log"
	"os"
	"path/filepath"

	pq "github.com/parquet-go/parquet-go"

	"github.com/wepe-go/wepe/data/parquet"
	"github.com/wepe-go/wepe/internal/datatest"
)

func ExampleFiles() {
	type content struct {
		Bytes []byte `parquet:"bytes"`
	}
	type row struct {
		Image content `parquet:"image"`
		Label int64   `parquet:"label"`
	}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	img := content{datatest.PNG(image.NewGray(image.Rect(0, 0, 7, 5)))}
	path := filepath.Join(dir, "train.parquet")
	if err := pq.WriteFile(path, []row{{img, 1}, {img, 0}, {img, 1}}); err != nil {
		log.Fatal(err)
	}
	files, err := parquet.Files(dir, []string{path}, []string{"cat", "dog"})
	fmt.Println(files.Labels, err)
	// Output: [1 0 1] <nil>
}
