// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// dropped drops a file on the page as a browser does: a drop event with a DataTransfer.
const dropped = `(() => {
	const bytes = Uint8Array.from(atob(%q), c => c.charCodeAt(0));
	const transfer = new DataTransfer();
	transfer.items.add(new File([bytes], "dropped.png", {type: "image/png"}));
	document.getElementById("drop").dispatchEvent(new DragEvent("drop", {dataTransfer: transfer, bubbles: true,
		cancelable: true}));
})()`

// text reads the visible text of an element.
func text(id string, value *string) chromedp.Action {
	return chromedp.Evaluate(fmt.Sprintf("document.getElementById(%q).innerText", id), value)
}

// page opens the page of a server, drops an image, and prints the model line and the labels that appear.
func page(args []string) error {
	flags := flag.NewFlagSet("page", flag.ExitOnError)
	addr := flags.String("addr", "http://127.0.0.1:8080", "address of the server")
	width := flags.Int64("width", 1000, "width of the window; 390 is a phone's")
	_ = flags.Parse(args) // exits
	if flags.NArg() != 1 {
		return errors.New("page takes one image")
	}
	raw, err := os.ReadFile(flags.Arg(0))
	if err != nil {
		return err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox)
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	defer cancel()
	browser, cancel := chromedp.NewContext(allocator)
	defer cancel()
	browser, cancel = context.WithTimeout(browser, 90*time.Second)
	defer cancel()
	// by default it waits for frames, which a hidden page lacks
	often := chromedp.WithPollingInterval(50 * time.Millisecond)
	var elsewhere []string
	chromedp.ListenTarget(browser, func(event any) {
		if sent, ok := event.(*network.EventRequestWillBeSent); ok {
			if url := sent.Request.URL; !strings.HasPrefix(url, *addr) && !strings.HasPrefix(url, "blob:") &&
				!strings.HasPrefix(url, "data:") {
				elsewhere = append(elsewhere, url)
			}
		}
	})
	var model, labels, failure string
	var overflow bool
	err = chromedp.Run(browser,
		network.Enable(),
		chromedp.EmulateViewport(*width, 1400),
		chromedp.Navigate(*addr+"/"),
		chromedp.Poll(`document.getElementById("model").textContent.length > 1`, nil, often),
		chromedp.Evaluate(fmt.Sprintf(dropped, base64.StdEncoding.EncodeToString(raw)), nil),
		chromedp.Poll(`document.querySelectorAll("#labels li").length > 0 || `+
			`document.getElementById("error").textContent != ""`, nil, often),
		chromedp.Poll(`document.getElementById("view").width > 300 || document.getElementById("error").textContent != ""`,
			nil, often),
		text("model", &model), text("labels", &labels), text("error", &failure),
		chromedp.Evaluate(`document.documentElement.scrollWidth > window.innerWidth`, &overflow),
	)
	switch {
	case err != nil:
		return err
	case failure != "":
		return errors.New("the page shows: " + failure)
	case len(elsewhere) > 0:
		return fmt.Errorf("the page sent requests to other hosts: %q", elsewhere)
	case overflow:
		return errors.New("the page is wider than the window")
	case !strings.Contains(labels, "%"):
		return fmt.Errorf("no probabilities on the page: %q", labels)
	}
	fmt.Printf("%s\n%s\n", model, labels)
	return nil
}
