// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command serve checks a running `wepe serve` from outside: its page in Chromium, its responses to malformed images,
// and its speed under load. It is a separate module, so that users of the library need not download a browser protocol
// and a load generator.
//
//	go run . page -addr http://127.0.0.1:8080 IMAGE     drops IMAGE on the page and prints the displayed labels
//	go run . malformed [-held 1000] IMAGE               sends IMAGE damaged 10,000 times and prints the statuses
//	go run . load -clients 1,8,64 -targets NAME=URL;… IMAGE
//
//	go run . embed -targets NAME=URL;… -model vit DIR    embeds the images of DIR with OpenAI's client
//
// load sends the same image to each target in interleaved rounds, closed loop, and prints rows of docs/runs: requests
// per second and p99 in milliseconds, for each target and number of clients, medians over rounds.
package main

import (
	"fmt"
	"os"
)

func main() {
	commands := map[string]func(args []string) error{"page": page, "load": load, "malformed": malformed, "embed": embed}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "serve: use page, malformed, load or embed")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}
