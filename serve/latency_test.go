// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// hostility holds 1,000 silent connections and 20 clients that send images of 25 million pixels again and again, until
// the context is done.
func hostility(ctx context.Context, url string, wait *sync.WaitGroup) {
	bomb := datatest.ProgressiveJPEG(4987, 4999, 4, nil)
	connect := func(request string, body []byte) {
		c, err := net.Dial("tcp", url[len("http://"):])
		if err != nil {
			return
		}
		defer c.Close()
		defer context.AfterFunc(ctx, func() { c.Close() })()
		fmt.Fprint(c, request)
		_, _ = c.Write(body)
		_, _ = io.Copy(io.Discard, c) // to the answer, or until the server has had enough
	}
	for i := range 1000 {
		request := "POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20971520\r\n\r\n"
		if i%2 == 0 {
			request = "POST /v1/predict"
		}
		wait.Go(func() {
			for ctx.Err() == nil {
				connect(request, nil)
			}
		})
	}
	for range 20 {
		wait.Go(func() {
			for ctx.Err() == nil {
				connect(fmt.Sprintf("POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"+
					"Content-Length: %d\r\n\r\n", len(bomb)), bomb)
			}
		})
	}
}

// Sixty-four honest clients without and with the attack, in turn, against the whole server with a real model.
func TestServe_HonestClientsKeepTheirLatencyAndTheBoundHolds(t *testing.T) {
	gomlxtest.OnGo(t)
	if testing.Short() {
		t.Skip("seconds of load")
	}
	m := gomlxtest.Must(finetune.Open(gomlxtest.Backend(), "../examples/cifar100/demo/vit"))(t)
	defer m.Finalize()
	ctx, cancel := context.WithCancel(t.Context())
	s := gomlxtest.Must(Handler(ctx, m, Options{}))(t)
	listener := gomlxtest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	<-s.Ready()
	until(func() bool { return len(*s.batcher.sizes.Load()) == 8 })
	url, image := "http://"+listener.Addr().String(), pixels(211, 307, blue)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	round := func(length time.Duration) (all []time.Duration) {
		var mu sync.Mutex
		var clients sync.WaitGroup
		for end, n := time.Now().Add(length), 0; n < 64; n++ {
			clients.Go(func() {
				for time.Now().Before(end) {
					begin := time.Now()
					response, err := client.Post(url+"/v1/predict", "image/png", bytes.NewReader(image))
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, response.Body)
					response.Body.Close()
					if response.StatusCode != 200 {
						t.Errorf("an honest client got %d", response.StatusCode)
						return
					}
					mu.Lock()
					all = append(all, time.Since(begin))
					mu.Unlock()
				}
			})
		}
		clients.Wait()
		return all
	}
	round(time.Second) // connects
	var quiet, attacked []time.Duration
	used := peak(func() {
		for range campaign.Times(2) {
			quiet = append(quiet, round(2*time.Second)...)
			attack, stop := context.WithCancel(t.Context())
			var hostile sync.WaitGroup
			hostility(attack, url, &hostile)
			time.Sleep(500 * time.Millisecond)
			attacked = append(attacked, round(2*time.Second)...)
			stop()
			hostile.Wait()
		}
	})
	p99 := func(all []time.Duration) time.Duration {
		slices.Sort(all)
		return all[len(all)*99/100]
	}
	before, under := p99(quiet), p99(attacked)
	bound := 2 * s.options.Memory(24*24, false)
	t.Logf("p99 %v without the attack (%d requests), %v with it (%d): %.2f times; at most %d MiB of %d", before,
		len(quiet), under, len(attacked), under.Seconds()/before.Seconds(), used>>20, bound>>20)
	if under > 3*before {
		t.Errorf("p99 is %v without the attack, %v with it", before, under)
	}
	if used > bound {
		t.Errorf("%d MiB were used, the bound is %d", used>>20, bound>>20)
	}
	cancel()
	gomlxtest.NoError(t, <-ended)
}
