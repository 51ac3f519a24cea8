// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"context"
	"fmt"

	"github.com/janpfeifer/must"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/hub"
)

// A pretrained ViT, its position table resampled for larger images.
func ExampleDownload() {
	snapshot := must.M1(hub.Download(context.Background(), "hf://google/vit-base-patch16-224", nil))
	m := must.M1(checkpoints.Import(snapshot.Dir, checkpoints.ImportOptions{ImageRows: 384, ImageCols: 384}))
	fmt.Println(m.Format, m.Config.Width, m.Config.Rows(), m.Config.Cols(), len(m.Labels))
}
