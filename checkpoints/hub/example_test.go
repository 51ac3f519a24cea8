// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"context"
	"fmt"
	"log"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/hub"
)

// A pretrained ViT, its position table resampled for images of 384×384 pixels. Without an expected output this is
// compiled and not run, because it downloads 346 MB.
func ExampleDownload() {
	snapshot, err := hub.Download(context.Background(), "hf://google/vit-base-patch16-224", nil)
	if err != nil {
		log.Fatal(err)
	}
	m, err := checkpoints.Import(snapshot.Dir, checkpoints.ImportOptions{ImageRows: 384, ImageCols: 384})
	if err != nil {
		log.Fatal(err)
	}
	for _, line := range m.Report {
		fmt.Println(line)
	}
}
