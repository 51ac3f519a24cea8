// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

// malformed sends an image with random damage many times and prints the number of responses per status. Meanwhile silent
// connections are held, half of them in the header of a request, half before its body.
func malformed(args []string) error {
	flags := flag.NewFlagSet("malformed", flag.ExitOnError)
	url := flags.String("url", "http://127.0.0.1:8080/v1/predict", "where images are posted")
	times := flags.Int("times", 10_000, "images, fewer if the server is slow: 500 a second")
	seed := flags.Uint64("seed", 1, "of the damage")
	held := flags.Int("held", 0, "silent connections, opened again when the server closes them")
	_ = flags.Parse(args) // exits
	if flags.NArg() != 1 {
		return errors.New("malformed takes one image")
	}
	image, err := os.ReadFile(flags.Arg(0))
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(*seed, 2))
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
	address := strings.Split(*url, "/")[2]
	for n := range *held {
		silence := "POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20971520\r\n\r\n"
		go hold(address, silence[:len(silence)-n%2*40])
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

// hold opens connections that send no more than the beginning of a request.
func hold(address, beginning string) {
	for {
		if c, err := net.Dial("tcp", address); err == nil {
			_, _ = io.WriteString(c, beginning)
			_, _ = io.Copy(io.Discard, c) // until the server has had enough
			c.Close()
		} else {
			time.Sleep(time.Second)
		}
	}
}
