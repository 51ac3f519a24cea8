// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package preprocess_test

import (
	"fmt"
	"os"

	"github.com/janpfeifer/must"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
)

func ExampleParse() {
	raw := must.M1(os.ReadFile("../../examples/cifar100/demo/vit/preprocessor_config.json"))
	settings := must.M1(preprocess.Parse(raw, ""))
	fmt.Println(settings.Resize, settings.Size, settings.Mean)
	// Output: exact [24 24] [0.5071 0.4865 0.4409]
}
