// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package preprocess_test

import (
	"fmt"
	"log"
	"os"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
)

func ExampleParse() {
	raw, err := os.ReadFile("../../examples/cifar100/demo/vit/preprocessor_config.json")
	if err != nil {
		log.Fatal(err)
	}
	settings, err := preprocess.Parse(raw)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(settings.Resize, settings.Size, settings.Mean)
	// Output: exact [24 24] [0.5071 0.4865 0.4409]
}
