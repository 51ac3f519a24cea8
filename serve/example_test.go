// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/serve"
)

// A handler for a server of your own.
func ExampleHandler() {
	m, err := finetune.Open(gomlxtest.Backend(), "../examples/cifar100/demo/vit")
	if err != nil {
		log.Fatal(err)
	}
	defer m.Finalize()
	ctx, cancel := context.WithCancel(context.Background())
	handler, err := serve.Handler(ctx, m, serve.Options{Batch: 1})
	if err != nil {
		log.Fatal(err)
	}
	<-handler.Ready() // the programs are compiled
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest("GET", "/healthz", nil))
	fmt.Println(answer.Code)
	cancel() // finishes the requests in flight
	if err := handler.Wait(); err != nil {
		log.Fatal(err)
	}
	// Output: 200
}
