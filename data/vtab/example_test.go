// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vtab_test

import (
	"fmt"
	"log"

	"github.com/wepe-go/wepe/data/vtab"
)

func ExampleChoose() {
	tasks, err := vtab.Choose([]string{"dtd", "specialized"})
	if err != nil {
		log.Fatal(err)
	}
	for _, task := range tasks {
		fmt.Println(task.Name, task.Group, task.Classes)
	}
	// Output:
	// dtd natural 47
	// patch_camelyon specialized 2
	// eurosat specialized 10
	// resisc45 specialized 45
	// diabetic_retinopathy specialized 5
}
