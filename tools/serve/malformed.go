// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

// malformed sends an image with random damage many times and prints the number of responses per status.
func malformed(args []string) error {
	flags := flag.NewFlagSet("malformed", flag.ExitOnError)
	url := flags.String("url", "http://127.0.0.1:8080/v1/predict", "where images are posted")
	times := flags.Int("times", 10_000, "images")
	_ = flags.Parse(args) // exits
	if flags.NArg() != 1 {
		return errors.New("malformed takes one image")
	}
	image, err := os.ReadFile(flags.Arg(0))
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(1, 2))
	targeter := func(t *vegeta.Target) error { // called by one goroutine at a time
		body := slices.Clone(image)
		for range 1 + rng.IntN(4) {
			body[rng.IntN(len(body))] = byte(rng.Uint32())
		}
		if rng.IntN(2) == 0 {
			body = body[:rng.IntN(len(body))]
		}
		*t = vegeta.Target{Method: "POST", URL: *url, Body: body}
		return nil
	}
	const perSecond = 500
	attacker := vegeta.NewAttacker(vegeta.MaxWorkers(8), vegeta.Timeout(time.Minute))
	statuses := map[uint16]int{}
	for result := range attacker.Attack(targeter, vegeta.Rate{Freq: perSecond, Per: time.Second},
		time.Duration(*times)*time.Second/perSecond, "") {
		statuses[result.Code]++
	}
	for _, code := range slices.Sorted(maps.Keys(statuses)) {
		fmt.Println(code, statuses[code])
		if !slices.Contains([]uint16{http.StatusOK, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
			http.StatusUnprocessableEntity}, code) {
			err = fmt.Errorf("status %d", code)
		}
	}
	return err
}
