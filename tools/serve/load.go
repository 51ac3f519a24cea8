// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

// row is the result of all rounds of a target with a number of clients.
type row struct {
	Target            string  `json:"target"`
	Clients           int     `json:"clients"`
	RequestsPerSecond float64 `json:"requests_per_second"`
	P50               float64 `json:"p50_ms"`
	P99               float64 `json:"p99_ms"`
	Requests          uint64  `json:"requests"`
	Failed            int     `json:"failed"`
}

// load measures servers in interleaved rounds.
func load(args []string) error {
	flags := flag.NewFlagSet("load", flag.ExitOnError)
	targets := flags.String("targets", "wepe=http://127.0.0.1:8080/v1/predict", "NAME=URL, separated by commas")
	clients := flags.String("clients", "1,8,64", "numbers of clients, each of which sends its next request after its answer")
	round := flags.Duration("round", 3*time.Second, "length of a round")
	rounds := flags.Int("rounds", 3, "rounds of each target")
	_ = flags.Parse(args) // exits
	if flags.NArg() != 1 {
		return errors.New("load takes one image")
	}
	body, err := os.ReadFile(flags.Arg(0))
	if err != nil {
		return err
	}
	for _, text := range strings.Split(*clients, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-clients %q: use numbers above 0", text)
		}
		all := strings.Split(*targets, ",")
		metrics := make([]vegeta.Metrics, len(all))
		took := make([]time.Duration, len(all))
		for range *rounds {
			for i, target := range all {
				_, url, found := strings.Cut(target, "=")
				if !found {
					return fmt.Errorf("-targets %q: use NAME=URL", target)
				}
				begin := time.Now()
				attack(url, body, n, *round, &metrics[i])
				took[i] += time.Since(begin)
			}
		}
		for i, target := range all {
			m := &metrics[i]
			m.Close()
			name, _, _ := strings.Cut(target, "=")
			done := float64(m.Requests) * m.Success
			ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
			line, err := json.Marshal(row{name, n, done / took[i].Seconds(), ms(m.Latencies.P50), ms(m.Latencies.P99),
				m.Requests, int(float64(m.Requests)*(1-m.Success) + .5)})
			if err != nil {
				return err
			}
			fmt.Println(string(line))
		}
	}
	return nil
}

// attack keeps n requests in flight for a time.
func attack(url string, body []byte, n int, length time.Duration, m *vegeta.Metrics) {
	targeter := vegeta.NewStaticTargeter(vegeta.Target{Method: "POST", URL: url, Body: body,
		Header: map[string][]string{"Content-Type": {"application/octet-stream"}}})
	attacker := vegeta.NewAttacker(vegeta.Workers(uint64(n)), vegeta.MaxWorkers(uint64(n)), vegeta.KeepAlive(true),
		vegeta.Timeout(60*time.Second))
	for result := range attacker.Attack(targeter, vegeta.Rate{}, length, "") {
		m.Add(result)
	}
}
